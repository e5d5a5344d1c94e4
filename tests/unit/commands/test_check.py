# SPDX-License-Identifier: GPL-2.0-or-later
"""kentry check: exit codes, what it refuses before it measures, what it writes."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from kentry.cli import main
from kentry.commands import measuring
from kentry.errors import (
    BuildError,
    FetchError,
    GuestError,
    KentryError,
    KernelError,
    TraceError,
    UserError,
)
from kentry.results.recording import Recording, read_recording, write_recording
from tests.builders import recording, validate

KERNEL = "debian:6.12"
Capture = pytest.CaptureFixture[str]


def counted(**cases: int) -> Recording:
    return recording({name: [("f", count)] for name, count in cases.items()})


@pytest.fixture(autouse=True)
def _new(here: Path) -> None:
    write_recording(counted(getppid=312, read=699), here / "new.json")


BUDGETS = Path("budgets.toml")


def run(*words: str, budgets: str | None = None, subject: str = "new.json") -> int:
    """Checks with these budgets, or those of the last time."""
    if budgets is not None:
        BUDGETS.write_text(budgets)
    return main(["check", subject, "--budget", str(BUDGETS), *words])


def run_kernel(*words: str, budgets: str | None = None) -> int:
    return run("--arch", "arm64", *words, budgets=budgets, subject=KERNEL)


# --- exit codes ----------------------------------------------------------------


@pytest.mark.parametrize(
    ("lines", "code"),
    [
        ("getppid = 312", 0),
        ("getppid = 311", 1),
        ("stat = 1", 3),
        ("getppid = 311\nstat = 1", 1),
        ("getppid = 312\nstat = 1", 3),
    ],
)
def test_exit_codes(lines: str, code: int) -> None:
    for more in ([], ["--json"], ["--format", "ktap"], ["--format", "github"]):
        assert run(*more, budgets=f"[arm64]\n{lines}\n") == code
    assert run("--bisect") == (125 if code == 3 else code)


def test_case_leaves_out_the_other_budgets(capsys: Capture) -> None:
    for words, code in (("read", 0), ("stat", 3), ("re*,stat", 3), ("pipe", 2)):
        assert run("--case", words, budgets="[arm64]\ngetppid=1\nread=999\nstat=1\n") == code
    assert "--case pipe" in capsys.readouterr().err


# --- mistakes ----------------------------------------------------------------------

RELATIVE = '[arm64]\ngetppid = "+2"\n'


@pytest.mark.parametrize(
    ("text", "words", "sentence"),
    [
        ("", [], "is not a file of budgets: it has no budget"),
        ("[arm64]\nx = -1", [], "arm64.x is not a limit"),
        ("[riscv64]\nx = 1", [], "has no budget for arm64"),
        (RELATIVE, [], "no baseline for arm64"),
        (f'baseline.arm64 = "none.json"\n{RELATIVE}', [], "none.json does not exist"),
        (f'baseline.arm64 = "budgets.toml"\n{RELATIVE}', [], "is not a recording"),
        (f'baseline.arm64 = "other.json"\n{RELATIVE}', [], "is of riscv64"),
        (f'baseline.arm64 = "folder"\n{RELATIVE}', [], "Is a directory"),
        (f'baseline.arm64 = "../x.json"\n{RELATIVE}', [], "is not below the folder"),
        ("[arm64]\ngetppid = 1", ["--format", "xml"], "Unknown format 'xml'"),
        ("[arm64]\ngetppid = 1", ["--format", "ktap", "--json"], "--format has no effect"),
        ("[arm64]\ngetppid = 1", ["--format", "ktap", "--update"], "--format has no effect"),
        ("[arm64]\ngetppid = 1", ["--bisect", "--update"], "--bisect has no effect"),
        ("[arm64]\ngetppid = 1", ["--update", "--case", "getppid"], "--update renews every budget"),
    ],
)
@pytest.mark.parametrize("check", [run, run_kernel])
def test_a_mistake_is_found_before_anything_is_measured(
    text: str,
    words: list[str],
    sentence: str,
    check: Callable[..., int],
    here: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: Capture,
) -> None:
    asked = measured(monkeypatch, counted())
    other = recording({"getppid": [("f", 1)]}, kernel={"arch": "riscv64"})
    write_recording(other, here / "other.json")
    (here / "folder").mkdir()
    before = (here / "new.json").read_bytes()
    assert check(*words, budgets=text) == (128 if "--bisect" in words else 2)
    captured = capsys.readouterr()
    assert captured.out == ""
    assert sentence in captured.err
    assert len(captured.err.splitlines()) == 2
    assert (here / "new.json").read_bytes() == before
    assert BUDGETS.read_text() == text
    assert check(*words, "--bisect") == 128
    assert asked == []


@pytest.mark.parametrize(
    ("lines", "sentence"),
    [
        ("getpppid = 1", "Did you mean getppid?"),
        ("getppid = { ns = 1 }", "limits ns of getppid"),
        ('getppid = { kernel-cycles = "+1" }', "no baseline"),
    ],
)
def test_of_a_kernel_what_it_can_never_have_is_a_mistake(
    lines: str, sentence: str, monkeypatch: pytest.MonkeyPatch, capsys: Capture
) -> None:
    asked = measured(monkeypatch, counted())
    assert run_kernel(budgets=f"[arm64]\n{lines}\n") == 2
    assert sentence in capsys.readouterr().err
    assert run_kernel("--bisect") == 128
    assert asked == []


def measured(
    monkeypatch: pytest.MonkeyPatch, outcome: Recording | Exception
) -> list[tuple[str, ...]]:
    """Takes `outcome` for what a kernel is measured to have; the cases asked for."""
    asked: list[tuple[str, ...]] = []

    def record(spec: str, options: Any, *, reuse: bool) -> Recording:
        asked.append(options.case)
        if isinstance(outcome, Exception):
            raise outcome
        return outcome

    monkeypatch.setattr(measuring, "record", record)
    return asked


@pytest.mark.parametrize(
    ("text", "words", "expected"),
    [
        ('[arm64]\nread = 9\n"getp?d" = 9\n[riscv64]\nstat = 9', [], "getpid read"),
        ('[arm64]\nread = 9\n"getp*" = 9', ["--case", "getppid"], "getppid"),
        # A pattern above the baseline is of the baseline's cases.
        ('baseline.arm64 = "new.json"\n[arm64]\n"*" = "+1"', [], "getppid read"),
        ('baseline.arm64 = "new.json"\n[arm64]\nstat = "+1"\n"r*" = "+1"', [], "stat read"),
        ('[arm64]\n"getppid+vec=once" = 9', [], "getppid+vec=once"),
    ],
)
def test_a_kernel_is_measured_for_what_has_a_budget(
    text: str, words: list[str], expected: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = measured(monkeypatch, counted(getppid=1, read=1))
    run_kernel(*words, budgets=text)
    [names] = asked
    assert sorted(names) == sorted(expected.split())


# A case that failed is not passed over where a pattern asked for it, either.
@pytest.mark.parametrize("names", [("getppid", "read"), ('"getp?id"', '"rea?"')])
def test_what_the_kernel_then_lacks_is_undecided(
    names: tuple[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    measured(monkeypatch, counted(getppid=1))
    assert run_kernel(budgets=f"[arm64]\n{names[0]} = 9\n{names[1]} = 9\n") == 3
    assert run_kernel("--case", "read") == 3
    assert run_kernel("--case", "getppid") == 0


@pytest.mark.parametrize(
    ("error", "code"),
    [
        *((one("x", "y"), 125) for one in (BuildError, GuestError, KernelError)),
        *((one("x", "y"), 128) for one in (UserError, FetchError, TraceError, KentryError)),
        (OSError(28, "No space left"), 128),
        (ZeroDivisionError(), 128),
        (MemoryError(), 128),
    ],
    ids=lambda value: type(value).__name__ if isinstance(value, Exception) else str(value),
)
def test_git_bisect_skips_a_commit_or_stops(
    error: Exception, code: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    measured(monkeypatch, error)
    assert run_kernel(budgets="[arm64]\ngetppid = 9\n") == 2
    for flag in ("--bisect", "--bi"):
        assert run_kernel(flag) == code


@pytest.mark.parametrize(
    "words",
    [
        ["new.json", "--bisect"],
        ["--bisect", "--budget", "budgets.toml"],
        ["new.json", "--bisect", "--budget", "budgets.toml", "--frobnicate"],
        ["none.json", "--budget", "budgets.toml", "--bisect"],
        ["new.json", "--budget", "none.toml", "--bisect"],
        ["new.json", "--budget", "budgets.toml", "--bisect", "--arch", "arm64"],
        ["tree:none", "--budget", "budgets.toml", "--bisect", "--arch", "arm64"],
    ],
)
def test_every_other_mistake_stops_a_bisection(words: list[str]) -> None:
    BUDGETS.write_text("[arm64]\ngetppid = 312\n")
    assert main(["check", *words]) == 128


def test_an_output_that_cannot_be_written_stops_a_bisection() -> None:
    command = [sys.executable, "-m", "kentry", "check", "new.json", "--bisect", "--budget"]
    BUDGETS.write_text("[arm64]\ngetppid = 311\n")
    with open("/dev/full", "w") as full:
        done = subprocess.run(
            [*command, str(BUDGETS)], stdout=full, stderr=subprocess.PIPE, check=False
        )
    assert done.returncode == 128


# --- --update --------------------------------------------------------------------------


def updated(capsys: Capture) -> dict[str, Any]:
    """What the JSON of --update says."""
    capsys.readouterr()
    assert run("--update", "--json") == 0
    document: dict[str, Any] = json.loads(capsys.readouterr().out)
    validate(document, "check-1")
    return document


def test_update_writes_what_was_measured(capsys: Capture) -> None:
    text = "# Ours.\n[arm64]\ngetppid = 310  # the null call\nread = { instructions = 900 }\n"
    BUDGETS.write_text(text)
    document = updated(capsys)
    assert BUDGETS.read_text() == text.replace("310", "312").replace("900", "699")
    changes = [(row["name"], row["old"], row["new"]) for row in document["changes"]]
    assert changes == [("getppid", 310, 312), ("read", 900, 699)]
    assert document["written"] == [str(BUDGETS)]
    assert run() == 0
    again = updated(capsys)
    assert (again["changes"], again["written"]) == ([], [])


def test_update_writes_the_baseline_anew(here: Path, capsys: Capture) -> None:
    text = 'baseline.arm64 = "sub/base.json"\n[arm64]\ngetppid = "+0"\nread = 700\n'
    base = here / "sub/base.json"
    base.parent.mkdir()
    assert run(budgets=text) == 2
    assert run("--update") == 0
    assert read_recording(base).case("getppid") == counted(getppid=312).cases[0]
    assert BUDGETS.read_text() == text.replace("700", "699")
    assert run() == 0
    write_recording(counted(getppid=313, read=699), here / "new.json")
    assert run() == 1
    [change] = updated(capsys)["changes"]
    assert (change["file"], change["old"], change["new"]) == ("sub/base.json", 312, 313)
    assert run() == 0


@pytest.mark.parametrize("is_recording", [True, False])
def test_update_loses_nothing_that_the_baseline_has(is_recording: bool, here: Path) -> None:
    base = here / "base.json"
    base.write_text("all:\n")
    if is_recording:
        write_recording(counted(getppid=312, stat=9), base)
    text = 'baseline.arm64 = "base.json"\n[arm64]\nstat = "+0"\ngetppid = 1\n'
    before = base.read_bytes()
    assert run("--update", budgets=text) == 2
    assert (base.read_bytes(), BUDGETS.read_text()) == (before, text)


def test_a_failed_write_leaves_the_budgets_whole(
    here: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(source: object, target: object) -> None:
        raise OSError(28, "No space left on device")

    text = "[arm64]\ngetppid = 1\n"
    monkeypatch.setattr(os, "replace", full)
    assert run("--update", budgets=text) == 2
    assert BUDGETS.read_text() == text
    assert sorted(file.name for file in here.iterdir()) == ["budgets.toml", "new.json"]
