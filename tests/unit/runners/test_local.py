# SPDX-License-Identifier: GPL-2.0-or-later
"""This machine as a place, and the programs that are run there."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from kentry.arch import ARCHES, host_arch
from kentry.errors import MachineError, UserError
from kentry.host.native import probe_file
from kentry.runners.machine import Machine, MachineOptions
from kentry.runners.open import open_machine
from kentry.runners.streaming import Streamed, stream
from tests.unit.runners.test_supervise import gone

WORDS = ("n=3", "paths=0", "cases=getppid")


def here(options: MachineOptions | None = None) -> Machine:
    with open_machine("local", options or MachineOptions()) as place:
        return place


def play(text: str, timeout: float = 20.0, **more: bool | bytes) -> tuple[list[str], Streamed]:
    lines: list[str] = []
    ran = stream(["sh", "-c", text], timeout, lines.append, **more)  # type: ignore[arg-type]
    return lines, ran


def test_the_probe_runs_as_an_ordinary_process() -> None:
    lines: list[str] = []
    place = here()
    assert (place.kind, place.name, place.arch) == ("local", "local", host_arch())
    place.run_probe(WORDS, 30, lines.append)
    assert lines[0] == f"kentry-probe start {host_arch().name}"
    assert lines[-1] == "kentry-probe end cases=1"


def test_a_command_is_words_and_not_a_shells() -> None:
    words = ["a  b", "it's", '"$HOME"', "*", "x\ny", ""]
    result = here().run_command(["printf", "<%s>", *words], 20)
    assert (result.status, result.stderr) == (0, "")
    assert result.stdout == "".join(f"<{word}>" for word in words)


def test_a_commands_status_and_words_come_back() -> None:
    result = here().run_command(["sh", "-c", "echo out; echo err >&2; exit 7"], 20)
    assert (result.status, result.stdout, result.stderr) == (7, "out\n", "err")
    assert here().run_command(["sh", "-c", "kill -9 $$"], 20).status == 128 + signal.SIGKILL


@pytest.mark.parametrize("argv", [[], ["no-such-program"]])
def test_a_program_that_is_not_there_is_an_error(argv: list[str]) -> None:
    with pytest.raises(MachineError, match="There is no program"):
        here().run_command(argv, 20)


def test_this_machine_does_not_boot_another_kernel() -> None:
    with pytest.raises(MachineError, match="would end kentry itself.*ssh:HOST"):
        here().boot("6.1.0", lambda fraction, now: None)


def test_another_architectures_probe_is_refused() -> None:
    other = next(arch for arch in ARCHES.values() if arch != host_arch())
    with pytest.raises(MachineError, match=f"cannot run the probe probe-{other.name}"):
        here(MachineOptions(probe=probe_file(other)))


def test_a_probe_that_is_not_there_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(MachineError, match="cannot be read: No such file"):
        here(MachineOptions(probe=tmp_path / "probe"))


@pytest.mark.parametrize("text", ["", "locals", "ssh", "ssh:", "board", "board:", "qemu", "host:x"])
def test_what_is_no_place_is_a_mistake(text: str) -> None:
    with pytest.raises(UserError, match="is no place to measure on"):
        open_machine(text, MachineOptions())


def test_a_probe_that_takes_too_long_is_stopped_and_its_lines_kept() -> None:
    lines: list[str] = []
    with pytest.raises(MachineError, match=r"was stopped after 0\.3 s"):
        here().run_probe(["n=2000000000", "paths=0", "cases=getppid"], 0.3, lines.append)
    assert lines[0].startswith("kentry-probe start")


def test_lines_come_as_they_are_printed() -> None:
    times: list[float] = []
    stream(
        ["sh", "-c", "echo a; sleep 0.5; echo b"], 20, lambda line: times.append(time.monotonic())
    )
    assert times[1] - times[0] > 0.3


def test_an_end_without_a_newline_is_no_line() -> None:
    lines, ran = play("printf 'a\\r\\nb\\nt 0 0 0 123'")
    assert lines == ["a", "b"]
    assert ran.rest == "t 0 0 0 123"


def test_a_hang_is_ended_with_all_its_children(tmp_path: Path) -> None:
    text = f"sleep 1000 & echo $! > {tmp_path}/pid; echo started; wait"
    lines, ran = play(text, timeout=0.5)
    assert (lines, ran.stopped) == (["started"], "after 0.5 s")
    assert gone(int((tmp_path / "pid").read_text()))


def test_what_closes_its_output_and_hangs_is_ended() -> None:
    assert play("exec >&- 2>&-; sleep 1000", timeout=0.5)[1].stopped == "after 0.5 s"


def test_a_child_left_behind_does_not_hold_up_the_end(tmp_path: Path) -> None:
    lines, ran = play(f"sleep 1000 & echo $! > {tmp_path}/pid; echo done")
    assert (lines, ran.stopped, ran.status) == (["done"], "", 0)
    assert gone(int((tmp_path / "pid").read_text()))


def test_a_flood_without_lines_is_stopped() -> None:
    assert "without a newline" in play("yes | tr -d '\\n'")[1].stopped


def test_input_is_fed_and_closed_or_held() -> None:
    size = 300_000
    assert play("wc -c", feed=b"x" * size)[0] == [str(size)]
    assert play("read -r x; echo $x; read -r x", feed=b"y\n", hold=True, timeout=1)[1].stopped
    # One that does not read all of it.
    assert play("exec <&-; sleep 0.3; echo done", feed=b"x" * size)[0] == ["done"]


def test_an_error_in_taking_a_line_ends_the_program(tmp_path: Path) -> None:
    def refuse(line: str) -> None:
        raise ValueError(line)

    with pytest.raises(ValueError, match="^first$"):
        stream(["sh", "-c", f"echo $$ > {tmp_path}/pid; echo first; sleep 1000"], 20, refuse)
    assert gone(int((tmp_path / "pid").read_text()))


def test_the_program_dies_with_kentry(tmp_path: Path) -> None:
    text = (
        "from kentry.runners.streaming import stream\n"
        f"stream(['sh', '-c', 'echo $$ > {tmp_path}/pid; exec sleep 1000'], 60, print)\n"
    )
    child = subprocess.Popen([sys.executable, "-c", text])
    deadline = time.monotonic() + 20
    while not (tmp_path / "pid").exists() or not (tmp_path / "pid").read_text().strip():
        assert time.monotonic() < deadline
        time.sleep(0.05)
    os.kill(child.pid, signal.SIGKILL)
    child.wait(20)
    assert gone(int((tmp_path / "pid").read_text()))
