# SPDX-License-Identifier: GPL-2.0-or-later
"""Repositories of kentry's own, and the work tree that kernels are built from."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from kentry.errors import KernelError, UserError
from kentry.kernels import tree
from kentry.kernels.patches import apply_patches, read_patches
from kentry.kernels.repository import Git, Repository, Revision
from kentry.kernels.spec import parse
from tests.unit.kernels import sources
from tests.unit.kernels.conftest import Said
from tests.unit.kernels.sources import commit, git


@pytest.fixture
def linux(tmp_path: Path) -> Path:
    folder = sources.repository(tmp_path / "linux")
    commit(folder, "second", {"kernel/fork.c": sources.fork_c(first=10), "kernel/new.c": "new\n"})
    return folder


def revision(spec: str | Path) -> Revision:
    return tree.revision(parse(f"tree:{spec}"), Said())


def content(folder: Path) -> dict[str, bytes]:
    rows = sources.listing(folder)
    return {name: row[2] for name, row in rows.items() if not name.startswith(".git/")}


def check_out(found: Revision) -> dict[str, bytes]:
    found.repository.check_out(found.commit, Said())
    return content(found.repository.work)


def applied(found: Revision, linux: Path, commit: str = "HEAD") -> Revision | None:
    """The source with the patch of a commit; None where it does not apply."""
    file = linux.with_name("a.patch")
    file.write_text(git(linux, "format-patch", "-1", "--stdout", commit) + "\n")
    return apply_patches(found, read_patches([file]).patches, Said())[0].revision


def test_only_files_that_differ_are_written(linux: Path) -> None:
    new, old = revision(linux), revision(f"{linux}@v6.12")
    check_out(old)
    before = sources.times(old.repository.work)
    assert check_out(new)["kernel/new.c"] == b"new\n"
    after = sources.times(old.repository.work)
    changed = {name for name in before if after[name] != before[name]}
    assert changed == {"kernel/fork.c"}
    check_out(old)
    assert sources.times(old.repository.work).keys() == before.keys()


def left_locks(found: Revision) -> None:
    for name in ("index", "HEAD", "ORIG_HEAD", "refs/heads/master", "shallow", "config"):
        (found.repository.git.folder / f"{name}.lock").touch()


def half_written(found: Revision) -> None:
    work = found.repository.work
    (work / "kernel/fork.c").write_text("int first(vo")
    (work / "init/main.c").unlink()
    sources.write(work, {"kernel/fork.o": "a product", "left/over": "of another commit"})


def another_commit_half_checked_out(found: Revision) -> None:
    """Its files are there, the index does not know them yet."""
    new = found.repository.git("show", "master:kernel/new.c", check=False)
    sources.write(found.repository.work, {"kernel/new.c": new.stdout or "new\n"})
    sources.write(found.repository.work, {"kernel/fork.c": sources.fork_c(first=10)})


def no_index(found: Revision) -> None:
    (found.repository.git.folder / "index").write_bytes(b"")


@pytest.mark.parametrize(
    "interrupt", [left_locks, half_written, another_commit_half_checked_out, no_index]
)
def test_what_a_killed_run_left_is_gone(linux: Path, interrupt: Callable[[Revision], None]) -> None:
    old = revision(f"{linux}@v6.12")
    wanted = check_out(old)
    interrupt(old)
    assert check_out(old) == wanted
    # And another commit, and a patch on it.
    new = revision(linux)
    wanted = check_out(new)
    interrupt(old)
    check_out(old)
    interrupt(old)
    done = applied(old, linux)
    assert done
    assert done.tree == new.tree
    assert content(new.repository.work) == wanted


def test_its_version_is_its_makefiles(tmp_path: Path) -> None:
    text = "# SPDX-License-Identifier: GPL-2.0\nVERSION = 7\nPATCHLEVEL = 1\nSUBLEVEL = 0\n"
    assert revision(sources.repository(tmp_path / "a", {"Makefile": text})).version() == (7, 1)
    for bad in ("", "VERSION = seven\nPATCHLEVEL = 1\n", "VERSION = 6\n"):
        found = revision(sources.repository(tmp_path / f"b{len(bad)}", {"Makefile": bad}))
        with pytest.raises(KernelError, match="Makefile"):
            found.version()


def test_one_at_a_time_and_the_other_says_that_it_waits() -> None:
    first, second, said = Repository("key"), Repository("key"), Said()
    order: list[str] = []

    def wait() -> None:
        with second.locked(said):
            order.append("second")

    with first.locked(said), first.locked(said):
        thread = threading.Thread(target=wait)
        thread.start()
        while not said:
            os.sched_yield()
        order.append("first")
    thread.join()
    assert order == ["first", "second"]
    assert "another kentry" in said[0]


def test_a_file_that_a_clone_lacks_is_named(linux: Path) -> None:
    blob = git(linux, "rev-parse", "HEAD:kernel/new.c")
    found = revision(f"{linux}@HEAD")
    (linux / ".git/objects" / blob[:2] / blob[2:]).unlink()
    with pytest.raises(KernelError, match="kernel/new.c is missing"):
        found.repository.check_out(found.commit, Said())


def test_patches_that_were_applied_wait_for_no_other_kentry(linux: Path) -> None:
    old = revision(f"{linux}@v6.12")
    before = applied(old, linux)
    other = Repository(f"git {(linux / '.git/objects').resolve()}")
    assert other.folder == old.repository.folder
    again: list[Revision | None] = []
    with other.locked(Said()):
        thread = threading.Thread(target=lambda: again.append(applied(old, linux)), daemon=True)
        thread.start()
        thread.join(timeout=60)
    assert before and again[0] and again[0].commit == before.commit


@pytest.fixture
def own(tmp_path: Path) -> Git:
    (tmp_path / "work").mkdir()
    made = Git(tmp_path / "git", tmp_path / "work")
    made.init()
    return made


def tree_of(own: Git, work: Path) -> str:
    (work / "a").write_text("content\n")
    own("add", "--all")
    return own.line("write-tree")


def test_the_same_commit_each_time(
    own: Git, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    commit = own.commit_tree(tree_of(own, tmp_path / "work"), "a message")
    assert commit == "abc60ad798708ce364712685d6b920c5e2d35185"
    for name in ("GIT_AUTHOR_NAME", "GIT_COMMITTER_EMAIL", "GIT_AUTHOR_DATE"):
        monkeypatch.setenv(name, "2001-02-03 04:05")
    assert own.commit_tree(tree_of(own, tmp_path / "work"), "a message") == commit


def test_two_may_make_it_at_once(tmp_path: Path) -> None:
    made = Git(tmp_path / "git", tmp_path)
    with ThreadPoolExecutor(4) as pool:
        list(pool.map(lambda _: made.init(), range(4)))
    assert made.line("config", "--get-all", "gc.auto") == "0"
    assert [path.name for path in tmp_path.iterdir()] == ["git"]


def test_no_hook_or_setting_of_the_users_takes_part(
    own: Git, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings = "[core]\n\tautocrlf = true\n[commit]\n\tgpgsign = true\n"
    sources.write(tmp_path / "home", {".gitconfig": settings})
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    sources.program(tmp_path / "hooks", "pre-commit", "never")
    (tmp_path / "work/a").write_bytes(b"a line\r\n")
    own("add", "--all")
    own("commit", "--message", "it")
    assert own("cat-file", "blob", "HEAD:a").stdout == "a line\r\n"
    assert own.line("cat-file", "-s", "HEAD:a") == "8"


@pytest.mark.parametrize("check", [True, False])
def test_a_full_disk(
    own: Git, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, check: bool
) -> None:
    file = sources.program(tmp_path / "bin", "git", "x")
    words = "error: unable to write file: No space left on device"
    file.write_text(f"#!/bin/sh\necho '{words}' >&2\nexit 128\n")
    monkeypatch.setenv("PATH", str(tmp_path / "bin"), prepend=":")
    with pytest.raises(UserError) as raised:
        own("write-tree", check=check)
    assert str(own.folder) in raised.value.sentence
    assert "KENTRY_CACHE" in raised.value.remedy


def test_another_work_tree_has_an_index_of_its_own(own: Git, tmp_path: Path) -> None:
    sources.write(tmp_path / "other", {"b": "other\n"})
    tree_of(own, tmp_path / "work")
    other = Git(tmp_path / "git", tmp_path / "other", "other-index")
    other("add", "--all")
    assert other.line("ls-files") == "b"
    assert own.line("ls-files") == "a"
