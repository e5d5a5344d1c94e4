# SPDX-License-Identifier: GPL-2.0-or-later
"""Emulators that misbehave, played by the shell."""

import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from kentry.runners.supervise import Ending, probing, supervise


def play(script: str, timeout: float = 20.0) -> Ending:
    return supervise(["sh", "-c", script], {}, timeout, lambda fraction, now: None)


def gone(pid: int) -> bool:
    """Whether a process that was killed is dead, or is within some seconds."""
    deadline = time.monotonic() + 10
    while Path(f"/proc/{pid}/stat").exists():
        try:
            if Path(f"/proc/{pid}/stat").read_text().split()[2] == "Z":
                return True
        except OSError:
            return True
        if time.monotonic() > deadline:
            return False
        time.sleep(0.05)
    return True


def test_an_ordinary_end() -> None:
    ending = play("echo hello; echo trouble >&2")
    assert ending == Ending("hello\n", "the machine rebooted or was switched off", "trouble")


def test_a_status_is_said() -> None:
    assert play("exit 3").clause == "QEMU ended with status 3"
    assert play("kill -SEGV $$").clause == "QEMU was killed by SIGSEGV"


def test_a_hang_is_ended_with_all_its_children(tmp_path: Path) -> None:
    ending = play(f"sleep 1000 & echo $! > {tmp_path}/pid; echo started; wait", timeout=0.5)
    assert ending.clause == "it was stopped after 0.5 s"
    assert ending.console == "started\n"
    assert gone(int((tmp_path / "pid").read_text()))


def test_a_flood_is_stopped_and_kept_small() -> None:
    ending = play("yes flood")
    assert "printed more than 4 MiB" in ending.clause
    assert len(ending.console) < 5 << 20


def test_a_closed_console_does_not_end_the_wait_for_stderr() -> None:
    assert play("exec >&-; sleep 0.3; echo late >&2").trouble == "late"


@pytest.mark.parametrize("how", [signal.SIGTERM, signal.SIGINT])
def test_nothing_is_left_when_kentry_is_told_to_stop(tmp_path: Path, how: signal.Signals) -> None:
    script = (
        "from kentry import cli\n"
        "from kentry.runners.supervise import supervise\n"
        "import signal; signal.signal(signal.SIGTERM, cli._interrupt)\n"
        f"supervise(['sh', '-c', 'echo $$ > {tmp_path}/pid; sleep 1000'], {{}}, 60,"
        " lambda fraction, now: None)\n"
    )
    child = subprocess.Popen([sys.executable, "-c", script], stderr=subprocess.DEVNULL)
    deadline = time.monotonic() + 20
    while not (tmp_path / "pid").exists() or not (tmp_path / "pid").read_text().strip():
        assert time.monotonic() < deadline
        time.sleep(0.05)
    child.send_signal(how)
    child.wait(20)
    assert gone(int((tmp_path / "pid").read_text()))


def test_what_the_guest_does_is_said_from_its_console() -> None:
    said: list[str] = []
    supervise(
        ["sh", "-c", "echo first; sleep 0.5; echo second"],
        {},
        20.0,
        lambda fraction, now: said.append(now),
        lambda console: console.decode().strip() or "nothing yet",
    )
    assert [text for i, text in enumerate(said) if text not in said[:i]][-2:] == [
        "first",
        "first\nsecond",
    ]


def test_what_a_guest_does_that_runs_the_probe() -> None:
    assert probing(b"Linux version") == "booting"
    assert probing(bytearray(b"kentry-probe start arm64\n")) == "cases are running"
