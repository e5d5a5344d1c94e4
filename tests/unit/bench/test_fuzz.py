# SPDX-License-Identifier: GPL-2.0-or-later
"""The short form of make fuzz, what it found once, and faults that it must find."""

from __future__ import annotations

import contextlib
import json
import random
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from bench.fuzz import __main__ as fuzz
from bench.fuzz import commands, readers

from kentry.errors import KentryError
from kentry.results.document import checksum_of
from tests import ROOT

pytest.importorskip("atheris", reason="atheris has a wheel for x86-64 alone")


@pytest.mark.parametrize("name", readers.READERS)
def test_a_reader_reads_its_seeds(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(readers, "FILE", tmp_path / "input")
    read, seeds = readers.READERS[name]
    for content in seeds():
        # Some are of another kind than what is read, such as the console of a guest that failed.
        with contextlib.suppress(KentryError):
            read(content)


@pytest.mark.parametrize(
    ("name", "file"),
    [(name, file) for name in readers.READERS for file in fuzz.kept_findings(name)],
    ids=lambda of: getattr(of, "name", of),
)
def test_what_was_found_once_is_no_error_of_pythons(
    name: str, file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(readers, "FILE", tmp_path / "input")
    with contextlib.suppress(KentryError):
        readers.READERS[name][0](file.read_bytes())


def test_a_command_line_ends_as_design_says(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert commands.outcome(["report"]) == ""

    def broken(_: list[str]) -> int:
        raise KeyError("a mistake of ours")

    monkeypatch.setattr(commands, "kentry_main", broken)
    assert commands.outcome(["report"]).startswith("KeyError")
    monkeypatch.setattr(commands, "kentry_main", lambda words: print("\x1b\x07") or 0)
    assert commands.outcome(["report"])
    monkeypatch.setattr(commands, "kentry_main", lambda words: 70)
    assert commands.outcome(["report"])


def test_a_changed_document_has_the_right_checksum() -> None:
    document = json.loads((readers.GOLDEN / "workload.json").read_bytes())
    seen = [commands.changed(random.Random(seed), document) for seed in range(20)]
    assert all(one != document for one in seen)
    checksums = [one.pop("checksum", None) for one in seen]
    assert len(set(checksums)) > 10
    for one, checksum in zip(seen, checksums, strict=True):
        assert checksum in (None, checksum_of(one))


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_the_short_form_finds_nothing() -> None:
    argv = [sys.executable, "-m", "bench.fuzz", "--seconds", "3", "--seed", "37"]
    done = subprocess.run(argv, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    rows = {line.split()[0]: line.split() for line in done.stdout.splitlines()[2:]}
    assert rows.keys() >= set(fuzz.NAMES)
    # A mail is git's work, and a table of symbols a search.
    assert all(int(rows[name][1].replace(",", "")) > 2 for name in fuzz.NAMES)
    written = re.search(r"read again: (\d+) traces", done.stdout)
    assert written and int(written[1]) > 20


# By fuzzer: a line of a plugin or of the probe, and what a mistake would have made of it.
FAULTS = {
    "windows": ("plugin/kentry.c", "api_add_on_exec(insn, counter, 1);", "1", "2"),
    "tasks": (
        "plugin/tasks.c",
        "dispatched += count;\n\t\tif (!recording",
        "!recording",
        "recording",
    ),
    "probe": ("guest/slots.c", "if (length >= NAME_LENGTH ||", "NAME_LENGTH", "2 * NAME_LENGTH"),
}


@pytest.mark.slow
@pytest.mark.timeout(300)
@pytest.mark.parametrize("name", FAULTS)
def test_a_planted_fault_is_found(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for folder in ("bench/fuzz", "plugin", "guest"):
        shutil.copytree(ROOT / folder, tmp_path / folder)
    file, line, old, new = FAULTS[name]
    text = (tmp_path / file).read_text()
    assert text.count(line) == 1
    (tmp_path / file).write_text(text.replace(line, line.replace(old, new)))
    monkeypatch.setattr(fuzz, "PROGRAMS", {name: fuzz.PROGRAMS[name]})
    monkeypatch.setattr(fuzz, "KEPT", tmp_path)
    fuzz.compile_programs(tmp_path / "programs", tmp_path)
    result = fuzz.fuzz(name, 60, 1, tmp_path / "programs")
    assert result.finding
    assert list((tmp_path / "findings").iterdir())
