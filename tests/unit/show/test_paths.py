# SPDX-License-Identifier: GPL-2.0-or-later
"""Lines of source are printed where they change, of inlined functions with where."""

import json
from pathlib import Path

import pytest

from kentry.cli import main
from kentry.path.annotation import annotate
from kentry.results.recording import Recording, SourceLine, write_recording
from kentry.show.paths import annotation_layout, source_text
from kentry.show.text import to_text
from tests import ROOT
from tests.builders import recording, validate

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


def test_the_difference_of_two_paths_fits_its_schema() -> None:
    golden = ROOT / "tests" / "golden" / "path-diff.json"
    validate(json.loads(golden.read_text()), "path-diff-1")
