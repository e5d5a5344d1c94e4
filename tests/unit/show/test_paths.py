# SPDX-License-Identifier: GPL-2.0-or-later
"""Lines of source are printed where they change, of inlined functions with where."""

import json
from pathlib import Path

import pytest

from kentry.cli import main
from kentry.compare.path_diff import modal_paths
from kentry.path.annotation import annotate
from kentry.results.recording import Recording, SourceLine, read_recording, write_recording
from kentry.show.paths import (
    Again,
    Head,
    Stretches,
    annotation_layout,
    hunks,
    hunks_once,
    source_text,
)
from kentry.show.text import to_text
from tests import ROOT
from tests.builders import recording, validate

GOLDEN = ROOT / "tests" / "golden"
INNER = SourceLine("arch/arm64/include/asm/irqflags.h", 33, "arch_local_irq_enable")
MIDDLE = SourceLine("include/linux/entry.h", 5, "enter")
OUTER = SourceLine("arch/arm64/kernel/syscall.c", 139, "el0_svc_common")


@pytest.mark.parametrize(
    ("lines", "text"),
    [
        ((), ""),
        ((OUTER,), "syscall.c:139"),
        ((INNER, OUTER), "irqflags.h:33 < syscall.c:139"),
        ((INNER, MIDDLE, OUTER), "irqflags.h:33 < ... < syscall.c:139"),
        ((INNER, MIDDLE, MIDDLE, OUTER), "irqflags.h:33 < ... < syscall.c:139"),
        ((SourceLine("a/\x1b[31m\n\u202e.c", 1, "f"),), "[31m .c:1"),
    ],
)
def test_a_place_is_the_innermost_line_and_where_that_was_inlined(
    lines: tuple[SourceLine, ...], text: str
) -> None:
    assert source_text(lines) == text


def sample() -> Recording:
    found = recording({"getppid": [("el0_svc", 5)]})
    for place, lines in enumerate([(OUTER,), (OUTER,), (INNER, OUTER), (), (OUTER,)]):
        found.code[place] = found.code[place]._replace(source_lines=lines)
    return found


def test_a_line_is_printed_where_it_changes() -> None:
    found = sample()
    text = to_text(annotation_layout(annotate(found, [case.name for case in found.cases])))
    rows = [line.rsplit("  ", 1)[-1] for line in text.splitlines() if "el0_svc+" in line]
    assert rows[0] == rows[4] == "syscall.c:139"
    assert rows[2] == "irqflags.h:33 < syscall.c:139"
    assert ":" not in rows[1] + rows[3]


def test_the_json_has_whole_names(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write_recording(sample(), tmp_path / "one.json")
    assert main(["annotate", str(tmp_path / "one.json"), "--json", "-q"]) == 0
    (call,) = json.loads(capsys.readouterr().out)["cases"][0]["calls"]
    rows = [one.get("source_lines") for part in call for one in part["instructions"]]
    assert rows == [[[*OUTER]], [[*OUTER]], [[*INNER], [*OUTER]], None, [[*OUTER]]]


def test_a_change_that_another_path_has_too_is_shown_there_alone() -> None:
    old, new = (read_recording(GOLDEN / f"arm64-{name}.json") for name in ("6.1", "6.12"))
    first, second = (modal_paths(name, old, new) for name in ("invalid", "getppid"))
    assert first and second
    shown: Stretches = {}
    assert list(hunks_once(first.diff, 3, shown, "row-1")) == list(hunks(first.diff.rows, 3))
    lines = list(hunks_once(second.diff, 3, shown, "row-2"))
    again = [one for one in lines if isinstance(one, Again)]
    heads = [one for one in lines if isinstance(one, Head)]
    assert {(one.case, one.link) for one in again} == {("invalid", "row-1")}
    assert "do_el0_svc" in {one.head.function for one in again}
    # What only its own path does is shown, and nothing is told twice or lost.
    assert "__task_pid_nr_ns" in {one.function for one in heads}
    every = [one for one in hunks(second.diff.rows, 3) if isinstance(one, Head)]
    assert [
        one.head if isinstance(one, Again) else one for one in lines if one in (*again, *heads)
    ] == every


def test_the_difference_of_two_paths_fits_its_schema() -> None:
    validate(json.loads((GOLDEN / "path-diff.json").read_text()), "path-diff-1")
