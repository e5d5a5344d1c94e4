# SPDX-License-Identifier: GPL-2.0-or-later
"""kentry run without a guest: what it asks for, prints and keeps, and how it fails."""

import json
import signal
from pathlib import Path
from typing import Any

import pytest

from kentry.boot.guest_tasks import Ending, TracedWorkload
from kentry.cli import main
from kentry.commands import run as command
from kentry.commands import userland
from kentry.count import workload as module
from kentry.errors import UserError
from kentry.host import interrupt
from kentry.results.workload import read_workload
from kentry.vector import tracing
from tests import ROOT

GOLDEN = ROOT / "tests/golden/workload.json"


@pytest.fixture
def called(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> dict[str, Any]:
    """A guest that ends well; `ending` may be set to another end."""
    found: dict[str, Any] = {"ending": Ending(0, "hello")}
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("KENTRY_CACHE", str(tmp_path / "cache"))

    def build(arch: Any, workload: Any, release: Any, memory: int, update: Any) -> TracedWorkload:
        found.update(asked=workload, release=release.name, memory=memory)
        return TracedWorkload(Path("/rootfs.cpio"), (), {})

    def run(kernel: Any, arch: Any, guest: Any, options: Any, update: Any, keep: Any) -> Any:
        found.update(arch=arch.name, options=options)
        if keep:
            keep("the run")
        return read_workload(GOLDEN), found["ending"]

    def write(*words: Any) -> None:
        found["written"] = words

    monkeypatch.setattr(userland, "resolve", lambda *words: "the kernel")
    monkeypatch.setattr(userland, "build_userland", build)
    monkeypatch.setattr(module, "run_workload", run)
    monkeypatch.setattr(tracing, "policy_of", lambda *words: "eager")
    monkeypatch.setattr(tracing, "write_records", write)
    return found


def ran(*words: str) -> int:
    return main(["run", "debian:6.12", "--arch", "arm64", "-q", *words])


def test_a_program_with_what_it_needs(called: dict[str, Any], tmp_path: Path) -> None:
    (tmp_path / "prog").write_text("x")
    words = ("--copy", f"{tmp_path}/prog:/opt/prog", "--packages", "bc", "--memory", "900")
    more = ("--seed", "7", "--timeout", "60", "--append", "mitigations=off")
    assert ran(*words, *more, "-o", "x.json", "--", "/opt/prog", "-q") == 0
    assert called["asked"].argv[-2:] == ("/opt/prog", "-q")
    assert (called["arch"], called["release"], called["memory"]) == ("arm64", "bookworm", 900)
    options = called["options"]
    assert (options.seed, options.timeout, options.append) == (7, 60.0, "mitigations=off")
    # Counts are those of kentry record, so is the processor.
    assert (options.cpu, options.vector_length) == ("max", None)
    assert read_workload(tmp_path / "x.json").rows == read_workload(GOLDEN).rows


def test_a_spec_says_the_processor_and_the_command_line(called: dict[str, Any]) -> None:
    spec = "debian:6.12,cpu=cortex-a76,append=nosmt"
    assert main(["run", spec, "--arch", "arm64", "-q", "--append", "a=b", "--", "true"]) == 0
    assert (called["options"].cpu, called["options"].append) == ("cortex-a76", "a=b nosmt")


def test_json_is_the_file(called: dict[str, Any], capsys: pytest.CaptureFixture[str]) -> None:
    assert ran("--json", "--", "true") == 0
    assert json.loads(capsys.readouterr().out) == json.loads(GOLDEN.read_text())


def test_the_trace_is_of_the_same_run(called: dict[str, Any]) -> None:
    assert ran("--trace", "x.parquet", "--", "true") == 0
    assert called["written"][-2:] == (Path("x.parquet"), "the run")


@pytest.mark.parametrize(
    ("ending", "data"),
    [
        (Ending(127, "sh: nosuch: not found"), ("exit code 127", "--packages")),
        (Ending(137, "Killed"), ("SIGKILL", "--memory")),
        (Ending(139, "oops"), ("SIGSEGV",)),
        (Ending(None, "hanging"), ("did not end", "--timeout")),
        (Ending(4, "wget: Temporary failure in name resolution"), ("loopback", "--copy")),
        (Ending(1, "MemoryError"), ("--memory",)),
    ],
)
def test_a_program_that_fails_is_an_error_and_its_counts_are_kept(
    called: dict[str, Any], capsys: pytest.CaptureFixture[str], ending: Ending, data: tuple[str]
) -> None:
    called["ending"] = ending
    assert ran("-o", "x.json", "--", "false") == 2
    captured = capsys.readouterr()
    assert all(one in captured.err for one in (*data, "x.json", ending.output))
    assert "exit_group" in captured.out
    assert read_workload(Path("x.json"))


def test_of_a_program_that_prints_garbage_a_screen_is_shown(
    called: dict[str, Any], capsys: pytest.CaptureFixture[str]
) -> None:
    called["ending"] = Ending(139, "\x0c\x9b2J" * 5000 + "x" * 5000)
    assert ran("--", "garbage") == 2
    shown = capsys.readouterr().err.splitlines()
    assert (len(shown), max(map(len, shown))) == (42, 200)
    assert all(line.isprintable() for line in shown)


def test_on_a_full_disk_what_was_counted_is_printed_and_written_where_it_can_be(
    called: dict[str, Any], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def full(*words: Any) -> None:
        raise UserError("No space is left for x.")

    monkeypatch.setattr(tracing, "write_records", full)
    assert ran("--trace", "x.parquet", "-o", "x.json", "--", "true") == 2
    assert read_workload(Path("x.json"))
    monkeypatch.setattr(command, "write_workload", full)
    capsys.readouterr()
    assert ran("-o", "x.json", "--", "true") == 2
    captured = capsys.readouterr()
    assert ("exit_group" in captured.out, "No space" in captured.err) == (True, True)


def test_what_was_counted_until_the_user_interrupts_is_kept(
    called: dict[str, Any], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    called["ending"] = Ending(None, "hanging")
    # As supervise() does, in the middle of the run.
    monkeypatch.setattr(userland, "build_userland", lambda *words: interrupt.put_off())
    assert ran("-o", "x.json", "--", "true") == 128 + signal.SIGINT
    captured = capsys.readouterr()
    assert ("exit_group" in captured.out, "timeout" in captured.err) == (True, False)
    assert read_workload(Path("x.json"))


@pytest.mark.parametrize(
    ("words", "datum"),
    [
        (("-o", "none/x.json", "--", "true"), "none"),
        (("--append", "init=/bin/sh", "--", "true"), "init"),
        (("--release", "potato", "--", "true"), "potato"),
        (("--packages", "~n.", "--", "true"), "~n."),
        (("--copy", "nosuchfile", "--", "true"), "nosuchfile"),
        ((), "WORKLOAD"),
    ],
)
def test_what_cannot_be_is_refused_before_anything_is_fetched(
    called: dict[str, Any],
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    words: tuple[str, ...],
    datum: str,
) -> None:
    monkeypatch.setattr(userland, "resolve", lambda *words: pytest.fail("fetched"))
    assert ran(*words) == 2
    assert datum in capsys.readouterr().err
