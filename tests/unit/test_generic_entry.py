# SPDX-License-Identifier: GPL-2.0-or-later
"""How the history of the generic entry is written, on sources of a few lines."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from tests import generic_entry
from tests.generic_entry import Source, Step, piece, sub


def _add(old: Source, new: Source) -> None:
    old.put("doc", new["doc"])
    old.sub("entry.S", "^\tcall a$", "\tcall \\1é")


def _remove(old: Source, _: Source) -> None:
    old.insert("entry.S", "\tnop\n", "\tcall ")
    old.remove("doc")


STEPS = (Step("first\n\nWhy.\n", _add), Step("second\n", _remove))


def git(folder: Path, *words: str, feed: bytes = b"") -> str:
    argv = ["git", "-C", str(folder), *words]
    return subprocess.run(argv, input=feed, stdout=subprocess.PIPE, check=True).stdout.decode()


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    git(tmp_path, "init", "--quiet", "--bare")
    stream = (
        b"commit refs/heads/root\ncommitter A <a@example.org> 0 +0000\ndata 0\n"
        b"M 100644 inline entry.S\ndata 8\n\tcall a\n\nM 100644 inline other\ndata 0\n"
    )
    git(tmp_path, "fast-import", "--quiet", feed=stream)
    return tmp_path


def make(folder: Path) -> list[str]:
    """The ids of the commits, oldest first."""
    old, new = Source(), Source()
    old["entry.S"], new["doc"] = "\tcall a\n", "text\n"
    root = git(folder, "rev-parse", "root").strip()
    git(
        folder,
        "fast-import",
        "--quiet",
        "--force",
        feed=generic_entry.fast_import(root, STEPS, old, new),
    )
    return git(folder, "rev-list", "--reverse", "master").split()


def test_each_step_is_a_commit_of_what_it_edited(folder: Path) -> None:
    root, first, second = make(folder)
    assert root == git(folder, "rev-parse", "root").strip()
    assert git(folder, "show", f"{first}:entry.S") == "\tcall \\1é\n"
    assert git(folder, "show", f"{first}:doc") == "text\n"
    assert git(folder, "show", f"{second}:entry.S") == "\tnop\n\tcall \\1é\n"
    assert git(folder, "ls-tree", "--name-only", second).split() == ["entry.S", "other"]
    shown = git(folder, "log", "-1", "--format=%an %at %ct%n%B", first).splitlines()
    assert shown[0] == "A Developer 1677628800 1677628800"
    assert shown[1:4] == ["first", "", "Why."]


def test_the_ids_are_the_same_each_time(folder: Path) -> None:
    assert make(folder) == make(folder)


def test_the_conversion_is_one_of_the_steps_and_neither_end() -> None:
    at = [step.edit for step in generic_entry.STEPS].index(generic_entry._convert)
    assert 0 < at < len(generic_entry.STEPS) - 1


@pytest.mark.parametrize("text", ["", "a\na\n"])
def test_an_edit_that_does_not_fit_the_source_is_an_error(text: str) -> None:
    with pytest.raises(ValueError, match="places match"):
        sub("^a$", "b", text)
    with pytest.raises(ValueError, match="places match"):
        piece(text, "^a$", "\n")


def test_a_piece_ends_before_its_end() -> None:
    assert piece("x\nvoid f(void)\n{\n}\n\nvoid g(void)\n", "^void f", "^void") == (
        "void f(void)\n{\n}\n\n"
    )


def test_a_file_that_the_source_lacks_is_an_error() -> None:
    with pytest.raises(ValueError, match=r"entry\.S"):
        Source()["entry.S"]
