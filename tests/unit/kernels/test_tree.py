# SPDX-License-Identifier: GPL-2.0-or-later
"""tree:DIR[@REV], a user's that is only read, and the work tree that kernels are built from."""

from __future__ import annotations

import os
import shutil
import subprocess
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest

from kentry.errors import DamagedSourceError, KernelError, UserError
from kentry.kernels import tree
from kentry.kernels.patches import apply_patches, read_patches
from kentry.kernels.repository import Git, Repository, Revision
from tests.processes import PATIENCE, awaited, script
from tests.unit.kernels import sources
from tests.unit.kernels.conftest import Said
from tests.unit.kernels.sources import commit, git, put, revision


@pytest.fixture
def linux(tmp_path: Path) -> Path:
    return sources.repository(tmp_path / "linux")


@contextmanager
def only_read(folder: Path) -> Iterator[None]:
    """No file or folder below is made, changed or taken away."""
    before = sources.listing(folder)
    yield
    assert sources.listing(folder) == before


def content(folder: Path) -> dict[str, bytes]:
    rows = sources.listing(folder)
    return {name: row[2] for name, row in rows.items() if name.partition("/")[0] != ".git"}


def check_out(source: Revision) -> dict[str, bytes]:
    """The content of the work tree, checked out."""
    source.repository.check_out(source.commit, Said())
    return content(source.repository.work)


def refused(spec: str | Path) -> UserError:
    with pytest.raises(UserError) as raised:
        revision(spec)
    assert raised.value.remedy
    return raised.value


def test_a_clean_checkout_is_its_commit(linux: Path) -> None:
    with only_read(linux):
        found = revision(linux)
        assert check_out(found) == content(linux)
    assert found.commit == git(linux, "rev-parse", "HEAD")
    assert found.tree == git(linux, "rev-parse", "HEAD^{tree}")
    date = git(linux, "log", "-1", "--format=%cI")
    origin = {"kind": "tree", "commit": found.commit, "subject": "Linux 6.12", "date": date}
    assert found.origin == origin
    assert found.version() == (6, 12)


def test_a_commit_by_any_name_git_knows_it_by(linux: Path) -> None:
    first = git(linux, "rev-parse", "HEAD")
    second = commit(linux, "second", {"kernel/fork.c": sources.fork_c(first=10)})
    git(linux, "branch", "me@work/topic")
    commit(linux, "third", {"kernel/fork.c": sources.fork_c(first=20)})
    for name, wanted in {
        "v6.12": first,
        first[:12]: first,
        "HEAD~1": second,
        "me@work/topic": second,
        "HEAD@{1}": second,
    }.items():
        assert revision(f"{linux}@{name}").commit == wanted


@pytest.mark.parametrize("name", ["linux@home", "a@b@c", "@", "me@HEAD"])
def test_a_folder_may_have_an_at_in_its_name(tmp_path: Path, name: str) -> None:
    folder = sources.repository(tmp_path / name)
    head = git(folder, "rev-parse", "HEAD")
    assert revision(folder).commit == head
    assert revision(f"{folder}@v6.12").commit == head


def test_a_few_local_changes_are_named_with_what_to_do(linux: Path) -> None:
    (linux / "kernel/fork.c").write_text("changed\n")
    with only_read(linux):
        error = refused(linux)
    assert "kernel/fork.c" in error.sentence
    assert f"tree:{linux}@HEAD" in error.remedy
    names = ["Kbuild", "Kconfig", "init/main.c"]
    git(linux, "rm", "--quiet", *names)
    (linux / "kernel/fork.c").unlink()
    assert f"{', '.join(names)}, ..." in refused(linux).sentence
    # An index that git cannot read is not taken for no changes.
    (linux / ".git/index").write_bytes(b"damaged")
    assert "cannot tell" in refused(linux).sentence


@pytest.mark.parametrize("name", ["v9.9", "-h", "--git-path", "HEAD:Makefile", "", "@"])
def test_no_such_commit(linux: Path, name: str) -> None:
    assert name in refused(f"{linux}@{name}").sentence


def test_a_shallow_clone_has_its_newest_commit(linux: Path, tmp_path: Path) -> None:
    commit(linux, "second", {"kernel/fork.c": sources.fork_c(first=10)})
    clone = tmp_path / "clone"
    git(tmp_path, "clone", "--quiet", "--depth=1", f"file://{linux}", str(clone))
    with only_read(clone):
        check_out(revision(clone))
        error = refused(f"{clone}@HEAD~1")
    assert "shallow" in error.sentence
    assert "--unshallow" in error.remedy
    git(clone, "fetch", "--quiet", "--unshallow")
    assert b"return 1;" in check_out(revision(f"{clone}@HEAD~1"))["kernel/fork.c"]


def test_a_full_disk_is_said_where_git_only_says_that_it_could_not_write(
    linux: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    clone = tmp_path / "clone"
    git(linux, "config", "uploadpack.allowFilter", "true")
    words = ("--quiet", "--no-checkout", "--filter=blob:none", f"file://{linux}", str(clone))
    git(tmp_path, "clone", *words)
    found = revision(f"{clone}@HEAD")
    room = os.statvfs(tmp_path)
    full = SimpleNamespace(f_files=0, f_favail=0, f_bavail=3, f_frsize=room.f_frsize)
    monkeypatch.setattr(os, "statvfs", lambda path: full)
    with pytest.raises(UserError, match="is full") as error:
        check_out(found)
    assert "KENTRY_CACHE" in error.value.remedy


# Settings of a repository by which git runs a program, with the command that then does.
RUNS: dict[str, tuple[dict[str, str], tuple[str, ...]]] = {
    "a file system monitor": ({"core.fsmonitor": "{program}"}, ("status",)),
    "a filter": ({"filter.evil.clean": "{program}"}, ("status",)),
    "a filter that stays": ({"filter.evil.process": "{program}"}, ("status",)),
    "a filter with a sign": ({"filter.e=v.i.l.clean": "{program}"}, ("status",)),
    "a program that shows differences": ({"diff.external": "{program}"}, ("diff", "HEAD~1")),
    "a program that makes text": ({"diff.evil.textconv": "{program}"}, ("diff", "HEAD~1")),
    "a signature": (
        {"log.showSignature": "true", "gpg.program": "{program}"},
        ("log", "-1", "signed"),
    ),
    "a promise of objects": (
        {
            "core.repositoryFormatVersion": "1",
            "extensions.partialClone": "evil",
            "remote.evil.url": "{folder}/none",
            "remote.evil.promisor": "true",
            "remote.evil.uploadpack": "{program}",
        },
        ("cat-file", "-p", "1" * 40),
    ),
    "a module's monitor": ({}, ("status",)),
}


@pytest.mark.parametrize("what", RUNS)
def test_the_settings_of_a_repository_run_no_program(
    linux: Path, tmp_path: Path, what: str
) -> None:
    ran = tmp_path / "ran"
    program = script(tmp_path / "evil", f"echo $0 >>{ran}")
    signed = git(linux, "cat-file", "-p", "HEAD").split("\n\n")
    signed[0] += "\ngpgsig -----BEGIN PGP SIGNATURE-----\n \n -----END PGP SIGNATURE-----"
    put(tmp_path / "signed", "\n\n".join(signed))
    git(linux, "tag", "signed", git(linux, "hash-object", "-tcommit", "-w", f"{tmp_path}/signed"))
    if "module" in what:
        git(linux, "submodule", "--quiet", "add", str(sources.repository(tmp_path / "m")), "module")
        git(linux / "module", "config", "core.fsmonitor", str(program))
    driver = "e=v.i.l" if "sign" in what else "evil"
    commit(linux, "second", {".gitattributes": f"*.c filter={driver} diff={driver}\n"})
    commit(linux, "third", {"kernel/fork.c": sources.fork_c(first=10)})
    settings, words = RUNS[what]
    for name, value in settings.items():
        git(linux, "config", name, value.format(program=program, folder=tmp_path))
    # git looks into a file again whose time has changed.
    os.utime(linux / "kernel/fork.c", (1, 1))
    with suppress(subprocess.CalledProcessError):
        git(linux, *words)
    assert ran.exists()
    ran.unlink()
    os.utime(linux / "kernel/fork.c", (2, 2))
    with only_read(linux):
        tree.local_changes(linux)
        tree.diff(linux, "HEAD~1", "HEAD")
        with suppress(UserError):
            tree.full_name(linux, "1" * 40)
        revision(f"{linux}@signed")
        line = tree.find_range(linux, "HEAD~2", "HEAD").line()
        tree.touching(linux, line, ["kernel"])
        check_out(revision(f"{linux}@HEAD"))
    assert not ran.exists()


def test_a_filter_whose_name_is_no_text_is_refused(linux: Path, tmp_path: Path) -> None:
    program = script(tmp_path / "evil", f"touch {tmp_path}/ran")
    commit(linux, "second", {".gitattributes": b"*.c filter=\xffx\n"})
    with (linux / ".git/config").open("ab") as file:
        file.write(b'[filter "\xffx"]\n\tclean = ' + str(program).encode() + b"\n")
    os.utime(linux / "kernel/fork.c", (1, 1))
    refused(linux)
    assert not (tmp_path / "ran").exists()


def test_a_repository_within_an_unpacked_tree_runs_no_program(tmp_path: Path) -> None:
    top = sources.unpacked(tmp_path / "linux")
    inner = sources.repository(top / "drivers/inner")
    ran = Path(f"/var/tmp/kentry-test.{os.getpid()}")
    git(inner, "config", "core.fsmonitor", str(script(tmp_path / "evil", f"touch {ran}")))
    git(inner, "status")
    assert ran.exists()
    ran.unlink()
    # What git has read once it asks for changes the second time.
    for _ in range(2):
        revision(top)
    assert not ran.exists()


def test_a_bare_repository_needs_a_commit(linux: Path, tmp_path: Path) -> None:
    bare = tmp_path / "linux.git"
    git(tmp_path, "clone", "--quiet", "--bare", str(linux), str(bare))
    with only_read(bare):
        assert revision(f"{bare}@master").commit == git(linux, "rev-parse", "HEAD")
        assert "@" in refused(bare).remedy


def test_a_worktree_shares_its_repository(linux: Path, tmp_path: Path) -> None:
    other = tmp_path / "worktree"
    git(linux, "worktree", "add", "--quiet", "-b", "topic", str(other))
    head = commit(other, "second", {"kernel/fork.c": sources.fork_c(first=10)})
    with only_read(other), only_read(linux):
        found, main = revision(other), revision(linux)
        check_out(found)
    assert (found.commit, found.repository.work) == (head, main.repository.work)
    assert main.commit != head


@pytest.mark.parametrize("make", [sources.repository, sources.unpacked])
@pytest.mark.parametrize("name", ["Makefile", "Kconfig", "Kbuild"])
def test_what_is_not_a_kernel(tmp_path: Path, name: str, make: object) -> None:
    assert callable(make)
    folder = make(tmp_path / "other")
    (folder / name).unlink()
    if make is sources.repository:
        commit(folder, "no kernel any more", {})
    assert "a Linux kernel" in refused(folder).sentence


def test_no_such_folder(linux: Path, tmp_path: Path) -> None:
    for spec in (tmp_path / "no", f"{tmp_path}/no@HEAD", f"{tmp_path}/no@HEAD@{{1}}"):
        assert "no folder" in refused(spec).sentence
    (tmp_path / "file").touch()
    assert "no folder" in refused(tmp_path / "file").sentence
    # A folder of a checkout is not its top.
    assert "a Linux kernel" in refused(linux / "kernel").sentence
    assert "not a git repository" in refused(f"{linux / 'kernel'}@HEAD").sentence


def test_another_users_repository_is_said(linux: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GIT_TEST_ASSUME_DIFFERENT_OWNER", "1")
    monkeypatch.setenv("GIT_CONFIG_GLOBAL", "/dev/null")
    assert f"safe.directory {linux}" in refused(linux).remedy


def test_what_a_hook_sets_names_no_other_repository(
    linux: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    other = sources.repository(tmp_path / "other", {"kernel/fork.c": sources.fork_c(first=99)})
    plain = sources.unpacked(tmp_path / "plain")
    head = git(linux, "rev-parse", "HEAD")
    own = str(other / ".git")
    monkeypatch.setenv("GIT_CONFIG_PARAMETERS", "'core.autocrlf=true'")
    monkeypatch.setenv("GIT_WORK_TREE", ".")
    monkeypatch.setenv("GIT_PREFIX", "kernel/")
    for name, value in (("INDEX_FILE", "/index"), ("OBJECT_DIRECTORY", "/objects")):
        monkeypatch.setenv(f"GIT_{name}", own + value)
    for name in ("GIT_DIR", "GIT_COMMON_DIR"):
        monkeypatch.setenv(name, own)
    monkeypatch.chdir(other)
    with only_read(other), only_read(plain), only_read(linux):
        found, read = revision(linux), revision(plain)
        check_out(found)
        check_out(read)
    assert found.commit == head
    assert found.tree == read.tree


def test_an_unpacked_tree_is_what_its_files_are(linux: Path, tmp_path: Path) -> None:
    folder = sources.unpacked(tmp_path / "linux-6.12")
    with only_read(folder):
        found = revision(folder)
        assert check_out(found) == content(folder)
    assert found.tree == git(linux, "rev-parse", "HEAD^{tree}")
    assert found.version() == (6, 12)
    assert found.origin["unpacked"].startswith("linux-6.12 (")
    assert str(tmp_path) not in str(found.origin)


def test_a_changed_file_is_another_tree_and_restored_the_same(tmp_path: Path) -> None:
    folder = sources.unpacked(tmp_path / "linux")
    first = revision(folder)
    # As long as before, and as fast as a computer can.
    sources.write(folder, {"kernel/fork.c": sources.fork_c(first=9)})
    second = revision(folder)
    sources.write(folder, {"kernel/fork.c": sources.fork_c(), "kernel/new.c": "int new;\n"})
    third = revision(folder)
    (folder / "kernel/new.c").unlink()
    assert len({first.tree, second.tree, third.tree}) == 3
    assert (revision(folder).tree, revision(folder).commit) == (first.tree, first.commit)


def test_an_unpacked_tree_in_another_projects_checkout(
    linux: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    project = tmp_path / "project"
    folder = sources.unpacked(project / "sources/linux")
    git(project, "init", "--quiet")
    sources.write(project, {".gitignore": "sources/\n*.c\n", ".gitattributes": "* eol=crlf\n"})
    commit(project, "a project", {})
    with only_read(project):
        found = revision(folder)
        monkeypatch.setenv("GIT_TEST_ASSUME_DIFFERENT_OWNER", "1")
        monkeypatch.setenv("GIT_CONFIG_GLOBAL", "/dev/null")
        assert revision(folder).tree == found.tree
    assert found.tree == git(linux, "rev-parse", "HEAD^{tree}")


def test_a_users_own_ignored_files_and_attributes_change_nothing(
    linux: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    home = tmp_path / "home"
    settings = {"ignore": "*.c\n", "attributes": "* text eol=crlf ident\n"}
    sources.write(home / ".config/git", dict(settings))
    sources.write(home, {".gitconfig": "[commit]\n\tgpgsign = true\n"})
    monkeypatch.setenv("HOME", str(home))
    monkeypatch.delenv("XDG_CONFIG_HOME", raising=False)
    plain = sources.unpacked(tmp_path / "plain")
    found = revision(plain)
    assert check_out(found) == content(plain)
    assert found.tree == git(linux, "rev-parse", "HEAD^{tree}")
    found.repository.git("commit", "--allow-empty", "--message", "nobody signs it")


def test_a_tree_that_was_built_in_is_its_source(linux: Path, tmp_path: Path) -> None:
    folder = sources.unpacked(tmp_path / "plain")
    products = ("kernel/fork.o", "vmlinux", ".config", "include/config/auto.conf")
    sources.write(folder, dict.fromkeys(products, "made"))
    assert revision(folder).tree == git(linux, "rev-parse", "HEAD^{tree}")


def test_debians_own_gitignore_ignores_everything(tmp_path: Path) -> None:
    folder = sources.unpacked(tmp_path / "plain", {".gitignore": "/*\n!/debian/\n"})
    assert "kernel/fork.c" in check_out(revision(folder))
    sources.write(folder, {"include/config/auto.conf": "made"})
    assert "make mrproper" in refused(folder).remedy


def test_a_relative_cache(linux: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KENTRY_CACHE", "here")
    monkeypatch.chdir(tmp_path)
    found = revision(linux)
    os.chdir("/")
    check_out(found)
    assert (tmp_path / "here/trees").is_dir()


@pytest.fixture
def grown(linux: Path) -> Path:
    commit(linux, "second", {"kernel/fork.c": sources.fork_c(first=10), "kernel/new.c": "new\n"})
    return linux


def applied(found: Revision, grown: Path) -> Revision | None:
    """The source with the patch of the last commit; None where it does not apply."""
    file = grown.with_name("a.patch")
    if not file.exists():
        file.write_text(git(grown, "format-patch", "-1", "--stdout") + "\n")
    return apply_patches(found, read_patches([file]).patches)[0].revision


def test_only_files_that_differ_are_written(grown: Path) -> None:
    new, old = revision(grown), revision(f"{grown}@v6.12")
    check_out(old)
    before = sources.times(old.repository.work)
    assert check_out(new)["kernel/new.c"] == b"new\n"
    after = sources.times(old.repository.work)
    changed = {name for name in before if after[name] != before[name]}
    assert changed == {"kernel/fork.c"}
    check_out(old)
    assert sources.times(old.repository.work).keys() == before.keys()


LOCKS = ("index", "HEAD", "ORIG_HEAD", "refs/heads/master", "shallow", "config")
# What a run that was killed leaves in the repository's folder; None is a file that is gone.
LEFT: dict[str, dict[str, str | None]] = {
    "locks": {f"git/{name}.lock": "" for name in LOCKS},
    "half of what was written": {
        "linux/kernel/fork.c": "int first(vo",
        "linux/init/main.c": None,
        "linux/kernel/fork.o": "a product",
        "linux/left/over": "of another commit",
    },
    # Its files are there, the index does not know them yet.
    "half of another commit": {
        "linux/kernel/new.c": "new\n",
        "linux/kernel/fork.c": sources.fork_c(first=10),
    },
    "no index": {"git/index": ""},
}


@pytest.mark.parametrize("left", LEFT)
def test_what_a_killed_run_left_is_gone(grown: Path, left: str) -> None:
    def interrupt(folder: Path) -> None:
        for name, content in LEFT[left].items():
            if content is None:
                (folder / name).unlink()
            else:
                put(folder / name, content)

    old = revision(f"{grown}@v6.12")
    wanted = check_out(old)
    interrupt(old.repository.folder)
    assert check_out(old) == wanted
    # And another commit, and a patch on it.
    new = revision(grown)
    wanted = check_out(new)
    interrupt(old.repository.folder)
    check_out(old)
    interrupt(old.repository.folder)
    done = applied(old, grown)
    assert done
    assert done.tree == new.tree
    assert check_out(done) == wanted


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("", b""),
        ("HEAD", b""),
        # Of another kentry, and no text.
        ("config", b"[core]\n\trepositoryformatversion = 0\n\tautocrlf = true\n"),
        ("config", b"\xff\xfe"),
    ],
)
def test_a_damaged_repository_of_its_own_is_made_again(
    linux: Path, tmp_path: Path, name: str, content: bytes
) -> None:
    unpacked = sources.unpacked(tmp_path / "unpacked")
    for source in (linux, unpacked):
        before = revision(source)
        wanted = check_out(before)
        folder = before.repository.git.folder
        settings = (folder / "config").read_bytes()
        if name:
            (folder / name).write_bytes(content)
        else:
            shutil.rmtree(folder)
        assert check_out(revision(source)) == wanted
        assert (folder / "config").read_bytes() == settings


def own_object(found: Revision, path: str) -> Path:
    name = found.repository.git.line("rev-parse", f"{found.commit}:{path}" if path else "HEAD")
    file = found.repository.git.folder / "objects" / name[:2] / name[2:]
    file.chmod(0o600)
    return file


@pytest.mark.parametrize("damage", ["cut", "swapped"])
def test_damaged_objects_of_a_patch_are_never_built_and_made_again(
    linux: Path, tmp_path: Path, damage: str
) -> None:
    # The user's repository has no object of the patch.
    shutil.copytree(linux, grown := tmp_path / "grown")
    commit(grown, "second", {"kernel/fork.c": sources.fork_c(first=10), "kernel/new.c": "new\n"})
    base = revision(linux)
    done = applied(base, grown)
    assert done
    wanted = check_out(done)
    check_out(base)
    changed, added = (own_object(done, path) for path in ("kernel/fork.c", "kernel/new.c"))
    if damage == "cut":
        changed.write_bytes(added.read_bytes()[:9])
    else:
        # git believes an object's name: it does not look whether the content has that hash.
        changed.write_bytes(added.read_bytes())
    with pytest.raises(DamagedSourceError):
        check_out(done)
    again = applied(revision(linux), grown)
    assert again and again.commit == done.commit
    assert check_out(again) == wanted


def cut(file: Path) -> None:
    file.chmod(0o600)
    file.write_bytes(file.read_bytes()[:-30])


def exchanged(one: Path, other: Path) -> None:
    one.rename(between := one.with_name("between"))
    other.rename(one)
    between.rename(other)


DAMAGES: dict[str, Callable[[Revision], None]] = {
    "index": lambda found: cut(found.repository.git.folder / "import-index"),
    "pack": lambda found: cut(next(found.repository.git.folder.rglob("*.pack"))),
    "index of the pack": lambda found: cut(next(found.repository.git.folder.rglob("*.idx"))),
    "no pack": lambda found: next(found.repository.git.folder.rglob("*.pack")).unlink(),
    "commit": lambda found: cut(own_object(found, "")),
    "trees": lambda found: exchanged(own_object(found, "kernel"), own_object(found, "init")),
}


@pytest.mark.parametrize("damage", DAMAGES)
def test_an_unpacked_trees_damaged_files_in_git_are_made_again(damage: str, tmp_path: Path) -> None:
    folder = sources.unpacked(tmp_path / "linux", {"kernel/Kbuild": "k\n", "init/Kbuild": "i\n"})
    first = revision(folder)
    wanted = check_out(first)
    DAMAGES[damage](first)
    # What is there is written again.
    shutil.rmtree(first.repository.work)
    try:
        again = check_out(revision(folder))
    except DamagedSourceError:
        again = check_out(revision(folder))
    assert again == wanted


def test_a_borrowed_repository_is_made_again_where_the_lender_is_damaged(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("KENTRY_WORK", str(tmp_path / "work"))
    folder = sources.unpacked(tmp_path / "linux")
    found = revision(folder)
    DAMAGES["pack"](found)
    with pytest.raises(DamagedSourceError):
        found.repository.here().check_out(found.commit, Said())
    again = revision(folder)
    assert check_out(replace(again, repository=again.repository.here())) == content(folder)


def test_a_makefile_that_cannot_be_read_is_no_other_kernels(tmp_path: Path) -> None:
    folder = sources.unpacked(tmp_path / "linux")
    found = revision(folder)
    for name in ("../Makefile", "Makefile.none", "Make*", "kernel", "x" * 300, ":(glob)*", ""):
        assert found.file(name) is None
    assert found.repository.git.folder.is_dir()
    DAMAGES["no pack"](found)
    with pytest.raises(DamagedSourceError):
        found.version()
    assert revision(folder).version() == (6, 12)


@pytest.mark.parametrize("attributes", ["*.c text eol=crlf", "*.c text", "*.c ident"])
def test_a_source_whose_files_git_converts_is_no_damage(attributes: str, tmp_path: Path) -> None:
    files = {"kernel/crlf.c": "a\r\n/* $Id: 123 $ */\r\n"}
    linux = sources.repository(tmp_path / "linux", files)
    found = commit(linux, "attributes", {".gitattributes": f"{attributes}\n"})
    assert check_out(revision(f"{linux}@{found}")).keys() >= files.keys()


def test_damage_in_a_users_repository_is_not_kentrys(grown: Path) -> None:
    own = applied(revision(f"{grown}@v6.12"), grown)
    assert own
    # As a machine leaves it that lost its power.
    put(grown / ".git/objects/00" / f"{1:038}", b"")
    check_out(own)


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
        assert awaited(lambda: said)
        order.append("first")
    thread.join()
    assert order == ["first", "second"]
    assert "another kentry" in said[0]


def test_a_file_that_a_clone_lacks_is_named(grown: Path) -> None:
    assert applied(revision(f"{grown}@v6.12"), grown)
    for name in ("HEAD:kernel/new.c", "v6.12:kernel/fork.c"):
        blob = git(grown, "rev-parse", name)
        (grown / ".git/objects" / blob[:2] / blob[2:]).unlink()
    with pytest.raises(KernelError, match="kernel/new.c is missing"):
        check_out(revision(f"{grown}@HEAD"))
    # A patch needs another one.
    with pytest.raises(KernelError, match="kernel/fork.c is missing"):
        applied(revision(f"{grown}@v6.12"), grown)


def test_patches_wait_for_no_other_kentry_and_touch_no_file(grown: Path) -> None:
    old = revision(f"{grown}@v6.12")
    check_out(old)
    before = sources.listing(old.repository.work)
    other = Repository(f"git {(grown / '.git/objects').resolve()}")
    assert other.folder == old.repository.folder
    patched: list[Revision | None] = []
    with other.locked(Said()):
        thread = threading.Thread(target=lambda: patched.append(applied(old, grown)), daemon=True)
        thread.start()
        thread.join(timeout=PATIENCE)
    assert patched[0]
    assert sources.listing(old.repository.work) == before
    again = applied(old, grown)
    assert again and again.commit == patched[0].commit


@pytest.fixture
def own(tmp_path: Path) -> Git:
    (tmp_path / "work").mkdir()
    made = Git(tmp_path / "git", tmp_path / "work")
    made.init()
    return made


def test_the_same_commit_each_time(
    own: Git, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    put(tmp_path / "work/a", "content\n")
    own("add", "--all")
    for name in ("GIT_AUTHOR_NAME", "GIT_COMMITTER_EMAIL", "GIT_AUTHOR_DATE"):
        monkeypatch.setenv(name, "2001-02-03 04:05")
    commit = own.line("commit-tree", "-m", "a message", own.line("write-tree"))
    assert commit == "abc60ad798708ce364712685d6b920c5e2d35185"


def test_two_may_make_it_at_once(tmp_path: Path) -> None:
    made = Git(tmp_path / "git", tmp_path)
    with ThreadPoolExecutor(4) as pool:
        list(pool.map(lambda _: made.init(), range(4)))
    assert made.line("config", "--get-all", "gc.auto") == "0"
    assert [path.name for path in tmp_path.iterdir()] == ["git"]


@pytest.mark.parametrize("check", [True, False])
def test_a_full_disk(
    own: Git, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, check: bool
) -> None:
    words = "error: unable to write file: No space left on device"
    script(tmp_path / "bin/git", f"echo '{words}' >&2; exit 128")
    monkeypatch.setenv("PATH", str(tmp_path / "bin"), prepend=":")
    with pytest.raises(UserError) as raised:
        own("write-tree", check=check)
    assert str(own.folder) in raised.value.sentence
    assert "KENTRY_CACHE" in raised.value.remedy
