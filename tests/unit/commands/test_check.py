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
Write = Callable[[str], str]
Capture = pytest.CaptureFixture[str]


def counted(**cases: int) -> Recording:
    return recording({name: [("f", count)] for name, count in cases.items()})


@pytest.fixture(autouse=True)
def _here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    write_recording(counted(getppid=312, read=699), tmp_path / "new.json")


@pytest.fixture
def budgets(tmp_path: Path) -> Write:
    """Writes budgets.toml, and says its name."""

    def write(text: str) -> str:
        (tmp_path / "budgets.toml").write_text(text)
        return "budgets.toml"

    return write


def run(budget: str, *words: str, subject: str = "new.json") -> int:
    return main(["check", subject, "--budget", budget, *words])


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
def test_exit_codes(lines: str, code: int, budgets: Write) -> None:
    name = budgets(f"[arm64]\n{lines}\n")
    for more in ([], ["--json"], ["--format", "ktap"], ["--format", "github"]):
        assert run(name, *more) == code
    assert run(name, "--bisect") == (125 if code == 3 else code)


def test_case_leaves_out_the_other_budgets(budgets: Write, capsys: Capture) -> None:
    name = budgets("[arm64]\ngetppid = 1\nread = 999\nstat = 1\n")
    assert run(name, "--case", "read") == 0
    assert run(name, "--case", "stat") == 3
    assert run(name, "--case", "re*,stat") == 3
    capsys.readouterr()
    assert run(name, "--case", "pipe") == 2
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
@pytest.mark.parametrize("subject", ["new.json", KERNEL])
def test_a_mistake_is_found_before_anything_is_measured(
    text: str,
    words: list[str],
    sentence: str,
    subject: str,
    tmp_path: Path,
    budgets: Write,
    monkeypatch: pytest.MonkeyPatch,
    capsys: Capture,
) -> None:
    monkeypatch.setattr(measuring, "record", lambda *a, **b: pytest.fail("measured"))
    other = recording({"getppid": [("f", 1)]}, kernel={"arch": "riscv64"})
    write_recording(other, tmp_path / "other.json")
    (tmp_path / "folder").mkdir()
    arch = ["--arch", "arm64"] if subject == KERNEL else []
    before = (tmp_path / "new.json").read_bytes()
    name = budgets(text)
    assert run(name, *arch, *words, subject=subject) == (128 if "--bisect" in words else 2)
    captured = capsys.readouterr()
    assert captured.out == ""
    assert sentence in captured.err
    assert len(captured.err.splitlines()) == 2
    assert (tmp_path / "new.json").read_bytes() == before
    assert (tmp_path / name).read_text() == text
    assert run(name, *arch, *words, "--bisect", subject=subject) == 128


@pytest.mark.parametrize(
    ("lines", "sentence"),
    [
        ("getpppid = 1", "Did you mean getppid?"),
        ("getppid = { ns = 1 }", "limits ns of getppid"),
        ('getppid = { kernel-cycles = "+1" }', "no baseline"),
    ],
)
def test_of_a_kernel_what_it_can_never_have_is_a_mistake(
    lines: str,
    sentence: str,
    budgets: Write,
    monkeypatch: pytest.MonkeyPatch,
    capsys: Capture,
) -> None:
    monkeypatch.setattr(measuring, "record", lambda *a, **b: pytest.fail("measured"))
    name = budgets(f"[arm64]\n{lines}\n")
    assert run(name, "--arch", "arm64", subject=KERNEL) == 2
    assert sentence in capsys.readouterr().err
    assert run(name, "--arch", "arm64", "--bisect", subject=KERNEL) == 128


def measured(
    monkeypatch: pytest.MonkeyPatch, found: Recording | Exception
) -> list[tuple[str, ...]]:
    """Takes `found` for what a kernel is measured to have; the cases asked for."""
    asked: list[tuple[str, ...]] = []

    def record(spec: str, options: Any, *, reuse: bool) -> Recording:
        asked.append(options.case)
        if isinstance(found, Exception):
            raise found
        return found

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
    text: str, words: list[str], expected: str, budgets: Write, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = measured(monkeypatch, counted(getppid=1, read=1))
    run(budgets(text), "--arch", "arm64", *words, subject=KERNEL)
    [names] = asked
    assert sorted(names) == sorted(expected.split())


def test_what_the_kernel_then_lacks_is_undecided(
    budgets: Write, monkeypatch: pytest.MonkeyPatch
) -> None:
    measured(monkeypatch, counted(getppid=1))
    name = budgets("[arm64]\ngetppid = 9\nread = 9\n")
    assert run(name, "--arch", "arm64", subject=KERNEL) == 3
    assert run(name, "--arch", "arm64", "--case", "read", subject=KERNEL) == 3
    assert run(name, "--arch", "arm64", "--case", "getppid", subject=KERNEL) == 0
    # A case that failed is not passed over where a pattern asked for it, either.
    name = budgets('[arm64]\n"getp?id" = 9\n"rea?" = 9\n')
    assert run(name, "--arch", "arm64", subject=KERNEL) == 3
    assert run(name, "--arch", "arm64", "--case", "getppid", subject=KERNEL) == 0


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
    error: Exception, code: int, budgets: Write, monkeypatch: pytest.MonkeyPatch
) -> None:
    measured(monkeypatch, error)
    words = (budgets("[arm64]\ngetppid = 9\n"), "--arch", "arm64")
    for flag in ("--bisect", "--bi"):
        assert run(*words, flag, subject=KERNEL) == code
    assert run(*words, subject=KERNEL) == 2


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
def test_every_other_mistake_stops_a_bisection(words: list[str], budgets: Write) -> None:
    budgets("[arm64]\ngetppid = 312\n")
    assert main(["check", *words]) == 128


def test_an_output_that_cannot_be_written_stops_a_bisection(budgets: Write) -> None:
    command = [sys.executable, "-m", "kentry", "check", "new.json", "--bisect", "--budget"]
    name = budgets("[arm64]\ngetppid = 311\n")
    with open("/dev/full", "w") as full:
        done = subprocess.run([*command, name], stdout=full, stderr=subprocess.PIPE, check=False)
    assert done.returncode == 128


# --- --update --------------------------------------------------------------------------


def test_update_writes_what_was_measured(tmp_path: Path, budgets: Write, capsys: Capture) -> None:
    text = "# Ours.\n[arm64]\ngetppid = 310  # the null call\nread = { instructions = 900 }\n"
    name = budgets(text)
    assert run(name, "--update", "--json") == 0
    document = json.loads(capsys.readouterr().out)
    validate(document, "check-1")
    assert (tmp_path / name).read_text() == text.replace("310", "312").replace("900", "699")
    changes = [(one["name"], one["old"], one["new"]) for one in document["changes"]]
    assert changes == [("getppid", 310, 312), ("read", 900, 699)]
    assert document["written"] == [name]
    assert run(name) == 0
    assert run(name, "--update", "--json") == 0
    again = json.loads(capsys.readouterr().out.partition("\n{")[2].join(["{", ""]))
    assert (again["changes"], again["written"]) == ([], [])


def test_update_writes_the_baseline_anew(tmp_path: Path, budgets: Write, capsys: Capture) -> None:
    text = 'baseline.arm64 = "sub/base.json"\n[arm64]\ngetppid = "+0"\nread = 700\n'
    name = budgets(text)
    (tmp_path / "sub").mkdir()
    assert run(name) == 2
    assert run(name, "--update") == 0
    base = tmp_path / "sub/base.json"
    assert read_recording(base).case("getppid") == counted(getppid=312).cases[0]
    assert (tmp_path / name).read_text() == text.replace("700", "699")
    assert run(name) == 0
    write_recording(counted(getppid=313, read=699), tmp_path / "new.json")
    assert run(name) == 1
    capsys.readouterr()
    assert run(name, "--update", "--json") == 0
    [change] = json.loads(capsys.readouterr().out)["changes"]
    assert (change["file"], change["old"], change["new"]) == ("sub/base.json", 312, 313)
    assert run(name) == 0


def test_update_loses_nothing_that_the_baseline_has(tmp_path: Path, budgets: Write) -> None:
    write_recording(counted(getppid=312, stat=9), tmp_path / "base.json")
    text = 'baseline.arm64 = "base.json"\n[arm64]\nstat = "+0"\ngetppid = 1\n'
    name = budgets(text)
    before = (tmp_path / "base.json").read_bytes()
    assert run(name, "--update") == 2
    assert (tmp_path / "base.json").read_bytes() == before
    assert (tmp_path / name).read_text() == text


def test_update_does_not_overwrite_a_file_that_is_no_recording(
    tmp_path: Path, budgets: Write
) -> None:
    (tmp_path / "Makefile").write_text("all:\n")
    name = budgets('baseline.arm64 = "Makefile"\n[arm64]\ngetppid = "+0"\n')
    assert run(name, "--update") == 2
    assert (tmp_path / "Makefile").read_text() == "all:\n"


def test_a_failed_write_leaves_the_budgets_whole(
    tmp_path: Path, budgets: Write, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(source: object, target: object) -> None:
        raise OSError(28, "No space left on device")

    text = "[arm64]\ngetppid = 1\n"
    name = budgets(text)
    monkeypatch.setattr(os, "replace", full)
    assert run(name, "--update") == 2
    assert (tmp_path / name).read_text() == text
    assert sorted(file.name for file in tmp_path.iterdir()) == ["budgets.toml", "new.json"]
