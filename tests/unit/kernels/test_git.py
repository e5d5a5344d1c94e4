# SPDX-License-Identifier: GPL-2.0-or-later
"""Repositories of kentry's own: whole or not there, and the same everywhere."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from kentry.errors import UserError
from kentry.kernels.repository import Git
from tests.unit.kernels import sources


@pytest.fixture
def git(tmp_path: Path) -> Git:
    (tmp_path / "work").mkdir()
    made = Git(tmp_path / "git", tmp_path / "work")
    made.init()
    return made


def tree_of(git: Git, work: Path) -> str:
    (work / "a").write_text("content\n")
    git("add", "--all")
    return git.line("write-tree")


def test_a_commit_is_the_same_one_each_time(
    git: Git, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    commit = git.commit_tree(tree_of(git, tmp_path / "work"), "a message")
    assert commit == "abc60ad798708ce364712685d6b920c5e2d35185"
    for name in ("GIT_AUTHOR_NAME", "GIT_COMMITTER_EMAIL", "GIT_AUTHOR_DATE"):
        monkeypatch.setenv(name, "2001-02-03 04:05")
    assert git.commit_tree(tree_of(git, tmp_path / "work"), "a message") == commit


def test_two_may_make_it_at_once(tmp_path: Path) -> None:
    made = Git(tmp_path / "git", tmp_path)
    with ThreadPoolExecutor(4) as pool:
        list(pool.map(lambda _: made.init(), range(4)))
    assert made.line("config", "--get-all", "gc.auto") == "0"
    assert [path.name for path in tmp_path.iterdir()] == ["git"]


def test_no_hook_or_setting_of_the_users_takes_part(
    git: Git, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings = "[core]\n\tautocrlf = true\n[commit]\n\tgpgsign = true\n"
    sources.write(tmp_path / "home", {".gitconfig": settings})
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    sources.program(tmp_path / "hooks", "pre-commit", "never")
    (tmp_path / "work/a").write_bytes(b"a line\r\n")
    git("add", "--all")
    git("commit", "--message", "it")
    assert git("cat-file", "blob", "HEAD:a").stdout == "a line\r\n"
    assert git.line("cat-file", "-s", "HEAD:a") == "8"


@pytest.mark.parametrize("check", [True, False])
def test_a_full_disk_is_one_sentence(
    git: Git, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, check: bool
) -> None:
    file = sources.program(tmp_path / "bin", "git", "x")
    words = "error: unable to write file: No space left on device"
    file.write_text(f"#!/bin/sh\necho '{words}' >&2\nexit 128\n")
    monkeypatch.setenv("PATH", str(tmp_path / "bin"), prepend=":")
    with pytest.raises(UserError) as raised:
        git("write-tree", check=check)
    assert str(git.folder) in raised.value.sentence
    assert "KENTRY_CACHE" in raised.value.remedy


def test_another_work_tree_has_an_index_of_its_own(git: Git, tmp_path: Path) -> None:
    sources.write(tmp_path / "other", {"b": "other\n"})
    tree_of(git, tmp_path / "work")
    other = Git(tmp_path / "git", tmp_path / "other", "other-index")
    other("add", "--all")
    assert other.line("ls-files") == "b"
    assert git.line("ls-files") == "a"
