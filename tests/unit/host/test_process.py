# SPDX-License-Identifier: GPL-2.0-or-later
"""Programs that misbehave, played by the shell."""

import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

import pytest

from kentry.errors import UserError
from kentry.host import interrupt, process
from kentry.host.process import Exit, child, run, supervise
from tests.processes import PATIENCE, gone, pid_in


def play(text: str, timeout: float = PATIENCE, **more: Any) -> tuple[list[str], Exit]:
    lines: list[str] = []
    ran = supervise(["sh", "-c", text], timeout, lines.append, **more)
    return lines, ran


def test_a_status_is_128_and_a_signals_number() -> None:
    assert play("exit 3")[1] == Exit(3, "", "", "")
    assert play("echo oops >&2; kill -SEGV $$")[1] == Exit(128 + signal.SIGSEGV, "", "", "oops")


@pytest.mark.slow
def test_what_it_prints_just_before_its_end_is_read() -> None:
    """It ends after the pipes were found empty, and before it is asked whether it has ended."""
    lines, end = play("sleep 0.2; echo last", check=lambda _: time.sleep(0.4))
    assert (lines, end.status) == (["last"], 0)


def test_a_flood_is_stopped_and_kept_small() -> None:
    lines, end = play("yes flood", limit=1 << 20)
    assert end.stopped == "because it printed more than 1 MiB"
    assert sum(map(len, lines)) < 2 << 20


def test_closed_output_does_not_end_the_wait_for_stderr() -> None:
    assert play("exec >&-; sleep 0.3; echo late >&2")[1].stderr == "late"


def test_check_sees_stderr_and_ends_the_program() -> None:
    def refuse(stderr: str) -> None:
        if stderr:
            raise ValueError(stderr)

    with pytest.raises(ValueError, match="^bad$"):
        play("echo bad >&2; sleep 1000", check=refuse)


@pytest.mark.slow
def test_what_prints_without_end_is_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(process, "_MOST_PRINTED", 1 << 20)
    for text in ("yes", "yes >&2"):
        with pytest.raises(UserError, match="sh printed more"):
            run(["sh", "-c", text])
    assert len(run(["sh", "-c", "head -c 1048576 /dev/zero"]).stdout) == 1 << 20


@pytest.mark.slow
def test_what_closes_its_outputs_is_waited_for() -> None:
    assert run(["sh", "-c", "exec >&- 2>&-; sleep 0.5; exit 3"], check=False).returncode == 3
    with pytest.raises(subprocess.TimeoutExpired):
        run(["sh", "-c", "exec >&- 2>&-; sleep 1000"], seconds=0.5)


def test_lines_come_as_they_are_printed(tmp_path: Path) -> None:
    """The second is printed when the first was taken."""
    text = f"echo a; until [ -d {tmp_path}/a ]; do sleep 0.05; done; echo b"
    supervise(["sh", "-c", text], PATIENCE, lambda line: (tmp_path / line).mkdir())
    assert (tmp_path / "b").exists()


def test_an_end_without_a_newline_is_no_line() -> None:
    lines, ran = play("printf 'a\\r\\nb\\nt 0 0 0 123'")
    assert lines == ["a", "b"]
    assert ran.rest == "t 0 0 0 123"


@pytest.mark.slow
def test_a_hang_is_ended_with_all_its_children(tmp_path: Path) -> None:
    text = f"sleep 1000 & echo $! > {tmp_path}/pid; echo started; wait"
    lines, ran = play(text, timeout=0.5)
    assert (lines, ran.stopped) == (["started"], "after 0.5 s")
    assert gone(int((tmp_path / "pid").read_text()))


@pytest.mark.slow
def test_one_that_is_stopped_may_put_its_house_in_order(tmp_path: Path) -> None:
    file = tmp_path / "last"
    script = f"trap 'echo done > {file}; exit' TERM; echo started; while :; do sleep 0.1; done"
    assert play(script, timeout=0.3)[1].stopped
    assert not file.exists()
    assert play(script, timeout=0.3, grace=20.0)[1].stopped == "after 0.3 s"
    assert file.read_text() == "done\n"
    # What does not end by itself is killed.
    assert play("trap '' TERM; sleep 1000", timeout=0.3, grace=0.3)[1].stopped


@pytest.mark.slow
def test_what_closes_its_output_and_hangs_is_ended() -> None:
    assert play("exec >&- 2>&-; sleep 1000", timeout=0.5)[1].stopped == "after 0.5 s"


def test_a_child_left_behind_does_not_hold_up_the_end(tmp_path: Path) -> None:
    lines, ran = play(f"sleep 1000 & echo $! > {tmp_path}/pid; echo done")
    assert (lines, ran.stopped, ran.status) == (["done"], "", 0)
    assert gone(int((tmp_path / "pid").read_text()))


@pytest.mark.slow
def test_waiting_for_a_processor_is_not_taking_time() -> None:
    """It gets a tenth of the cpu until the other one has ended."""
    on_cpu = ["taskset", "--cpu-list", str(min(os.sched_getaffinity(0)))]
    counting = "i=0; while [ $i -lt 400000 ]; do i=$((i + 1)); done; echo done"
    with subprocess.Popen([*on_cpu, "timeout", "4", "sh", "-c", "while :; do :; done"]):
        last_of_all = [*on_cpu, "nice", "-n", "10", "sh", "-c", counting]
        lines: list[str] = []
        end = supervise(last_of_all, 1, lines.append)
    assert (lines, end.stopped) == (["done"], "")


@pytest.mark.slow
def test_progress_puts_the_end_off_ten_times_at_most() -> None:
    numbers = iter(range(1000))
    begun = time.monotonic()
    end = play("sleep 1000", timeout=0.3, progress=lambda: next(numbers))[1]
    assert end.stopped == "after 0.3 s without progress"
    assert time.monotonic() - begun > 2.5


@pytest.mark.slow
def test_a_flood_without_lines_is_stopped() -> None:
    assert "without a newline" in play("yes | tr -d '\\n'")[1].stopped


@pytest.mark.slow
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
        supervise(
            ["sh", "-c", f"echo $$ > {tmp_path}/pid; echo first; sleep 1000"], PATIENCE, refuse
        )
    assert gone(int((tmp_path / "pid").read_text()))


@pytest.mark.parametrize("how", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGKILL])
@pytest.mark.parametrize("call", ["supervise(argv, 60, print)", "run(argv)"])
def test_no_program_outlives_kentry(tmp_path: Path, how: signal.Signals, call: str) -> None:
    text = (
        "from kentry.host import interrupt\n"
        "from kentry.host.process import run, supervise\n"
        "interrupt.install()\n"
        f"argv = ['sh', '-c', 'echo $$ > {tmp_path}/pid; exec sleep 1000']\n"
        f"{call}\n"
    )
    parent = subprocess.Popen([sys.executable, "-c", text], stderr=subprocess.DEVNULL)
    pid = pid_in(tmp_path / "pid")
    parent.send_signal(how)
    parent.wait(PATIENCE)
    assert gone(pid)


def test_what_writes_at_its_end_does_so_when_kentry_is_interrupted(tmp_path: Path) -> None:
    script = f"trap 'echo counts > {tmp_path}/counts; exit 3' TERM; echo $$"
    text = (
        "from kentry.host import interrupt\n"
        "from kentry.host.process import supervise\n"
        "interrupt.install()\n"
        f"argv = ['sh', '-c', {script + '; while :; do sleep 0.1; done'!r}]\n"
        "say = lambda line: print(line, flush=True)\n"
        "say(supervise(argv, 60, say, grace=20).status)\n"
        "try:\n"
        "    interrupt.check()\n"
        "except KeyboardInterrupt:\n"
        "    print('interrupted')\n"
    )
    parent = subprocess.Popen([sys.executable, "-c", text], stdout=subprocess.PIPE, text=True)
    assert parent.stdout
    # A line that was handed on: kentry waits for the program by now.
    pid = int(parent.stdout.readline())
    parent.send_signal(signal.SIGINT)
    assert parent.communicate(timeout=PATIENCE)[0] == "3\ninterrupted\n"
    assert (tmp_path / "counts").read_text() == "counts\n"
    assert gone(pid)


def test_an_interrupt_that_python_drops_still_ends_the_wait(tmp_path: Path) -> None:
    """Python drops an exception that a destructor raises."""
    text = (
        "import os, signal\n"
        "from kentry.host import interrupt\n"
        "from kentry.host.process import run\n"
        "interrupt.install()\n"
        "class Destroyed:\n"
        "    def __del__(self):\n"
        "        os.kill(os.getpid(), signal.SIGINT)\n"
        "        for _ in range(1000): pass\n"
        "Destroyed()\n"
        "try:\n"
        "    run(['sleep', '1000'])\n"
        "except KeyboardInterrupt:\n"
        "    print('interrupted')\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", text], capture_output=True, text=True, timeout=PATIENCE, check=False
    )
    assert done.stdout == "interrupted\n"


def test_a_dropped_interrupt_is_not_lost_where_another_thread_puts_one_off(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(interrupt, "_dropped", True)
    thread = threading.Thread(target=interrupt.put_off)
    thread.start()
    thread.join()
    with pytest.raises(KeyboardInterrupt):
        interrupt.check()


def test_a_group_is_gone_when_the_block_ends(tmp_path: Path) -> None:
    """Also the programs that the child started itself."""
    with child(["sh", "-c", f"sleep 1000 & echo $! > {tmp_path}/pid; wait"]) as process:
        pid = pid_in(tmp_path / "pid")
    assert process.returncode == -signal.SIGKILL
    assert gone(pid, 0)


@pytest.mark.slow
def test_run_returns_all_output_feeds_slow_readers_and_raises_on_a_status() -> None:
    done = run(["sh", "-c", "printf x%.0s $(seq 100000) >&2; printf '\\377'; exit 7"], check=False)
    assert (done.returncode, done.stdout, len(done.stderr)) == (
        7,
        "\N{REPLACEMENT CHARACTER}",
        100_000,
    )
    with pytest.raises(subprocess.CalledProcessError):
        run(["false"])
    assert run(["sh", "-c", "sleep 0.5; wc -c"], feed=b"x" * 300_000).stdout.strip() == "300000"
