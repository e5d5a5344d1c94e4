# SPDX-License-Identifier: GPL-2.0-or-later
"""A comment: short, literal in Markdown, with the verdict, the largest change and the command."""

from dataclasses import replace
from pathlib import Path

import pytest

from kentry.cli import main
from kentry.commands.pages import report
from kentry.show.blocks import Layout, Prose
from kentry.show.comment import comment, comments, short
from tests.unit.show.pages import HOSTILE, NEW, OLD, files


def test_a_comment_and_a_short_changelog_of_any_result_are_short_and_literal(
    tmp_path: Path,
) -> None:
    for kind, of_kind in files(tmp_path).items():
        text = report(of_kind, comments)
        lines = text.splitlines()
        assert 1 <= len(lines) <= 15, kind
        assert all(line.startswith("    ") or not line for line in lines), kind
        assert text.isascii(), kind
        lines = report(of_kind, lambda layouts, _: "".join(map(short, layouts))).splitlines()
        assert 1 <= len(lines) <= 4, kind
        assert max(map(len, lines)) <= 75, kind
        if kind in ("recording", "comparison", "series", "workload", "check", "path-diff"):
            assert {"exact", "kentry"} <= set(lines[-1].replace(",", "").split()), kind


def test_a_changelog_is_long_or_short_and_takes_no_word_after_it(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert main(["diff", "--changelog=short", str(OLD), str(NEW)]) == 0
    brief = capsys.readouterr().out.splitlines()
    assert len(brief) == 4 and "cpu max, QEMU 7.2.22" in brief[-1]
    assert main(["diff", "--changelog", str(OLD), str(NEW)]) == 0
    assert len(capsys.readouterr().out.splitlines()) > 20
    assert main(["diff", "--changelog=none", str(OLD), str(NEW)]) == 2


def test_what_is_long_or_hostile_is_cut_and_stays_literal() -> None:
    layout = Layout("x", f"{HOSTILE}\n@everyone" * 9, "worse", [], badges=["exact"])
    layout = replace(layout, lead=[Prose(f"{n} {HOSTILE * 3}") for n in range(40)], command="k 1")
    lines = comment(layout).splitlines()
    assert len(lines) <= 15 and lines[-1] == "    k 1" and "    ..." in lines
    assert all(line.startswith("    ") or not line for line in lines)


def test_a_comment_goes_to_stdout_or_to_the_file(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["report", str(OLD), str(NEW), "--comment"]) == 0
    printed = capsys.readouterr().out
    file = tmp_path / "comment.md"
    assert main(["report", str(OLD), str(NEW), "--comment", "-o", str(file)]) == 0
    assert file.read_text() == printed != ""
    assert capsys.readouterr().out == ""
    assert main(["report", str(NEW)]) == 2
