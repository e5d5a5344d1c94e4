# SPDX-License-Identifier: GPL-2.0-or-later
"""The command line as a user meets it: exit codes, sentences, streams."""

import json
import os
import pty
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from kentry.cli import build_parser, main
from kentry.compare.counted import compare
from kentry.errors import EXIT_MISTAKE, DamagedSourceError
from kentry.results.recording import write_recording
from tests.builders import recording
from tests.processes import PATIENCE
from tests.unit.kernels import fakes

OLD = recording({"getppid": [("el0_svc", 40), ("__arm64_sys_getppid", 14)], "invalid": [("a", 9)]})
NEW = recording({"getppid": [("el0_svc", 43), ("__arm64_sys_getppid", 14)], "invalid": [("a", 9)]})


@pytest.fixture
def files(tmp_path: Path) -> tuple[str, str]:
    write_recording(OLD, tmp_path / "old.json")
    write_recording(NEW, tmp_path / "new.json")
    return str(tmp_path / "old.json"), str(tmp_path / "new.json")


def test_a_regression_fails_only_when_asked_to(tmp_path: Path, files: tuple[str, str]) -> None:
    old, new = files
    # Undecided, and a case that was lost.
    vague = recording({"getppid": [("a", 54)]}, samples={"getppid": {54: 3, 55: 3}})
    for one in (vague, recording({"invalid": [("a", 9)]})):
        write_recording(one, tmp_path / "other.json")
        assert main(["diff", old, str(tmp_path / "other.json"), "--fail-on-regression"]) == 3
    assert main(["diff", old, new, "--fail-on-regression"]) == 1
    assert main(["diff", new, old, "--fail-on-regression"]) == 0
    assert main(["diff", old, new, "--case", "invalid", "--fail-on-regression"]) == 0


@pytest.mark.parametrize(
    "words", [["--help"], ["--version"], ["help", "diff"], ["diff", "-h"], ["diff"]]
)
def test_what_cannot_be_printed_is_an_error(words: list[str], files: tuple[str, str]) -> None:
    command = [sys.executable, "-m", "kentry", *words, *(files if words == ["diff"] else ())]
    with open("/dev/full", "w") as full:
        done = subprocess.run(command, stdout=full, stderr=subprocess.PIPE, text=True, check=False)
    assert (done.returncode, "No space left" in done.stderr) == (2, True)
    closed = subprocess.run(["sh", "-c", '"$@" >&-', "sh", *command], check=False)
    assert closed.returncode == 2


def test_a_reader_that_goes_away_is_no_error(files: tuple[str, str]) -> None:
    command = [sys.executable, "-m", "kentry", "annotate", files[0]]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    assert process.stdout is not None and process.stderr is not None
    process.stdout.close()
    assert process.stderr.read() == b""
    process.stderr.close()
    assert process.wait(PATIENCE) == 128 + signal.SIGPIPE


def test_kentry_alone_explains_itself_in_ten_lines(capsys: pytest.CaptureFixture[str]) -> None:
    assert main([]) == 0
    out, err = capsys.readouterr()
    lines = out.splitlines()
    assert (len(lines), err) == (10, "")
    assert max(map(len, lines)) <= 100
    # Each example is a line that kentry takes.
    for line in filter(lambda line: line.startswith("  "), lines):
        words = line.split("  ")[1].split()[1:]
        build_parser().parse_args(words)


@pytest.mark.parametrize("words", [["--case", "getppid@svc"], ["--case", "get*"]])
def test_a_case_is_named_alike_everywhere(files: tuple[str, str], words: list[str]) -> None:
    assert main(["diff", *files, *words]) == 0
    assert main(["annotate", files[0], *words]) == 0


def test_a_mistake_of_ours_is_not_a_verdict(
    monkeypatch: pytest.MonkeyPatch, files: tuple[str, str], capsys: pytest.CaptureFixture[str]
) -> None:
    def broken(*args: object, **more: object) -> None:
        raise ZeroDivisionError("of all things")

    monkeypatch.setattr("kentry.commands.diff.compare", broken)
    assert main(["diff", *files, "--fail-on-regression"]) == 2
    assert "kentry failed: ZeroDivisionError: of all things" in capsys.readouterr().err


@pytest.mark.parametrize(("times", "code"), [(1, 0), (3, 0), (4, 2)])
def test_where_a_copy_of_the_source_was_damaged_all_is_done_again(
    monkeypatch: pytest.MonkeyPatch, files: tuple[str, str], times: int, code: int
) -> None:
    damaged = iter(range(times))

    def compares(*args: Any, **more: Any) -> Any:
        if next(damaged, None) is not None:
            raise DamagedSourceError("The copy was damaged.")
        return compare(*args, **more)

    monkeypatch.setattr("kentry.commands.diff.compare", compares)
    assert main(["diff", *files]) == code
    assert next(damaged, None) is None


def test_a_device_is_written_to_and_not_replaced(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    reader = subprocess.Popen(["cat", str(pipe)], stdout=subprocess.PIPE, text=True)
    write_recording(OLD, pipe)
    out, _ = reader.communicate(timeout=PATIENCE)
    assert json.loads(out)["schema"] == "kentry/recording/1"
    assert pipe.is_fifo()
    link, target = tmp_path / "link.json", tmp_path / "target.json"
    link.symlink_to(target)
    write_recording(OLD, link)
    assert link.is_symlink()
    assert target.is_file()


SEEDS = sorted(Path(os.environ["KENTRY_SEEDS"]).iterdir()) if "KENTRY_SEEDS" in os.environ else []


@pytest.mark.parametrize("seed", SEEDS, ids=lambda seed: seed.name)
def test_a_mail_or_an_article_is_not_a_recording(
    seed: Path, files: tuple[str, str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["diff", files[0], str(seed)]) == 2
    assert "is not a recording" in capsys.readouterr().err
    assert main(["record", f"image:{seed}", "-q"]) == 2
    assert "is not a kernel image" in capsys.readouterr().err


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_a_signal_while_python_ends_does_not_change_the_status(number: signal.Signals) -> None:
    """Python's own handlers are gone by the time that it destroys modules."""
    text = (
        "import os, sys\n"
        "from kentry import cli\n"
        "class Last:\n"
        f"    def __del__(self, kill=os.kill, pid=os.getpid()): kill(pid, {number.value})\n"
        "cli.last = Last()\n"
        "sys.argv = ['kentry', '--version']\n"
        "cli.entry_point()\n"
    )
    done = subprocess.run([sys.executable, "-c", text], capture_output=True, check=False)
    assert done.returncode == 0


def test_an_interrupt_that_python_drops_ends_with_its_status() -> None:
    text = (
        "import os, signal, sys\n"
        "from kentry import cli\n"
        "from kentry.commands import doctor\n"
        "class Destroyed:\n"
        "    def __del__(self):\n"
        "        os.kill(os.getpid(), signal.SIGINT)\n"
        "        for _ in range(1000): pass\n"
        "def run(args):\n"
        "    Destroyed()\n"
        "    return 0\n"
        "doctor.run = run\n"
        "sys.argv = ['kentry', 'doctor']\n"
        "cli.entry_point()\n"
    )
    done = subprocess.run([sys.executable, "-c", text], capture_output=True, check=False)
    assert done.returncode == 128 + signal.SIGINT


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_a_signal_while_modules_are_imported_ends_it_quietly(
    tmp_path: Path, number: signal.Signals
) -> None:
    text = f"import os\nos.kill(os.getpid(), {number.value})\n"
    (tmp_path / "argparse.py").write_text(text)
    env = {**os.environ, "PYTHONPATH": str(tmp_path)}
    argv = [sys.executable, "-m", "kentry", "--version"]
    done = subprocess.run(argv, env=env, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (128 + number, "", "")


@pytest.mark.parametrize("number", [None, signal.SIGINT, signal.SIGTERM])
def test_an_interrupted_kentry_says_which_signal_it_was(
    tmp_path: Path, files: tuple[str, str], number: signal.Signals | None
) -> None:
    """None closes the terminal, which is SIGHUP, and nothing can be printed there any more."""
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    pid, terminal = pty.fork()
    if not pid:
        os.execv(sys.executable, [sys.executable, "-m", "kentry", "diff", files[0], str(pipe)])
    with pipe.open("wb"):  # kentry has begun to read
        if number:
            os.kill(pid, number)
        else:
            os.close(terminal)
        assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 128 + (number or signal.SIGHUP)


def test_a_traceback_moves_no_cursor(tmp_path: Path) -> None:
    evil = "\x1b[2J\x1b]0;owned\x07evil"
    package = fakes.deb(tmp_path / "kernel.deb", {}, Architecture=evil)
    argv = [sys.executable, "-m", "kentry", "-v", "record", f"deb:{package}", "--arch", "x86_64"]
    done = subprocess.run(argv, capture_output=True, text=True, check=False)
    assert done.returncode == EXIT_MISTAKE
    assert "Traceback" in done.stderr and "evil" in done.stderr.splitlines()[-1]
    assert all(char.isprintable() or char == "\n" for char in done.stderr)
