# SPDX-License-Identifier: GPL-2.0-or-later
"""What a real kernel was made of: what is said to change nothing changes no byte of it.

A file that is said not to be read has an error in it: a build that reads it ends there.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest

from kentry.arch import find_arch
from kentry.kernels import build, made_of
from kentry.kernels.config import Request
from kentry.kernels.made_of import MadeOf, compiles_none_of, same_code
from kentry.kernels.repository import Git, Revision
from kentry.kernels.resolve import resolve_source
from tests.places import silent

from .conftest import tell, timed

pytestmark = pytest.mark.qemu

ARCH = find_arch("riscv64")
COMMENT = "/* A comment. */\n"
ERROR = '#error "this file is read"\n'

# What a commit makes of a file's text, "" where there is none; None removes it.
Edit = Callable[[str], str | None]


def before(text: str) -> Edit:
    return lambda old: text + old


NOT_READ: Mapping[str, Mapping[str, Edit]] = {
    "a driver": {
        "drivers/net/ethernet/intel/e1000/e1000_main.c": before(ERROR),
        "drivers/net/ethernet/intel/e1000/e1000.h": before(ERROR),
    },
    "another architecture": {
        "arch/x86/Makefile": before("$(error this file is read)\n"),
        "arch/x86/Kconfig": before("source /this/file/is/read\n"),
        "arch/x86/include/asm/errno.h": before(ERROR),
        "arch/sparc/kernel/entry.S": lambda old: None,
    },
    "documentation": {
        "Documentation/process/howto.rst": lambda old: None,
        "Documentation/new.txt": before("text\n"),
        "MAINTAINERS": before("text\n"),
        "kernel/.gitignore": before("text\n"),
    },
    "tests and samples": {
        "tools/testing/selftests/Makefile": before("$(error this file is read)\n"),
        "samples/kobject/kobject-example.c": before(ERROR),
        "samples/new.h": before(ERROR),
    },
    "a defconfig": {"arch/riscv/configs/defconfig": lambda old: ""},
}
READ: Mapping[str, Mapping[str, Edit]] = {
    "a comment in a compiled file": {"kernel/fork.c": before(COMMENT)},
    "a comment in a header": {"include/linux/reboot.h": before(COMMENT)},
    "code": {
        "kernel/sys.c": lambda old: old.replace(
            "SYSCALL_DEFINE0(getppid)\n{\n\tint pid;\n",
            'SYSCALL_DEFINE0(getppid)\n{\n\tint pid;\n\n\tasm volatile("nop");\n',
        )
    },
    "assembly": {"arch/riscv/kernel/entry.S": before(COMMENT)},
    "a linker script": {"arch/riscv/kernel/vmlinux.lds.S": before(COMMENT)},
    "a new header": {"include/linux/new.h": before(COMMENT)},
    "a Makefile": {"kernel/Makefile": before("# A comment.\n")},
    "Kconfig of a driver": {"drivers/net/Kconfig": before("# A comment.\n")},
    "a table of system calls": {"scripts/syscall.tbl": before("# A comment.\n")},
    "a table of another program": {"arch/riscv/kernel/new.awk": before("# A comment.\n")},
    "what the initial file system is made of": {"usr/default_cpio_list": before("# A comment.\n")},
    "a program that builds": {"scripts/kallsyms.c": before(COMMENT)},
}


def commit(parent: Revision, edits: Mapping[str, Edit], folder: Path) -> Revision:
    """A commit with other texts."""
    repository = parent.repository
    git = Git(repository.git.folder, repository.work, "made-of-index")
    git("read-tree", parent.commit)
    for path, edit in edits.items():
        new = edit(git("show", f"{parent.commit}:{path}", check=False).stdout)
        if new is None:
            git("update-index", "--force-remove", path)
            continue
        (folder / "text").write_text(new, encoding="utf-8")
        blob = git.line("hash-object", "-w", str(folder / "text"))
        git("update-index", "--add", "--cacheinfo", f"100644,{blob},{path}")
    tree = git.line("write-tree")
    return Revision(repository, git.line("commit-tree", "-m", "a test", tree), tree, parent.origin)


def changed(one: Revision, other: Revision) -> list[tuple[str, str]]:
    words = ("diff", "--name-status", "--no-renames", "-z", one.commit, other.commit)
    fields = one.repository.git(*words).stdout.split("\0")
    return list(zip(fields[::2], fields[1::2], strict=False))


def built(revision: Revision, what: str) -> tuple[Path, MadeOf]:
    with timed(f"6.12 with {what}, built for {ARCH.name}"):
        planned = build.plan(revision, ARCH, Request(), silent)
        folder = build.built(planned, silent)
        if not made_of.read(folder):
            # Of a kentry that did not write it down.
            shutil.rmtree(folder)
            build.built(planned, silent)
    made = made_of.read(folder)
    assert made
    return folder, made


def kernel(folder: Path) -> dict[str, bytes]:
    return {name: (folder / name).read_bytes() for name in ("image", "vmlinux", "config")}


@pytest.fixture(scope="module")
def source(riscv_spec: str) -> Revision:
    return resolve_source(riscv_spec, silent)


@pytest.fixture(scope="module")
def base(source: Revision) -> tuple[Path, MadeOf]:
    return built(source, "nothing")


def test_what_is_not_read_changes_no_byte(
    source: Revision, base: tuple[Path, MadeOf], tmp_path: Path
) -> None:
    folder, made = base
    for what, edits in NOT_READ.items():
        files = changed(source, commit(source, edits, tmp_path))
        assert len(files) == len(edits)
        assert compiles_none_of(made, files), what
    everything = {path: edit for edits in NOT_READ.values() for path, edit in edits.items()}
    revision = commit(source, everything, tmp_path)
    assert compiles_none_of(made, changed(source, revision))
    again, made_again = built(revision, "what is not read")
    assert again != folder
    assert kernel(again) == kernel(folder)
    assert made_again.objects == made.objects
    assert made_again.functions == made.functions
    assert made_again.sizes == made.sizes


def test_what_may_be_read_is_built(
    source: Revision, base: tuple[Path, MadeOf], tmp_path: Path
) -> None:
    for what, edits in READ.items():
        files = changed(source, commit(source, edits, tmp_path))
        assert len(files) == len(edits)
        assert not compiles_none_of(base[1], files), what
        assert not compiles_none_of(base[1], [*files, ("M", "MAINTAINERS")]), what


def test_the_code_differs_only_where_it_does(
    source: Revision, base: tuple[Path, MadeOf], tmp_path: Path
) -> None:
    made = base[1]
    everywhere = set(made.functions)
    assert {"handle_exception", "ret_from_exception", "kernel_clone", "memcpy"} <= everywhere
    assert made.functions["kernel_clone"] == {"kernel/fork.o"}
    comments = {**READ["a comment in a compiled file"], **READ["a comment in a header"]}
    _, commented = built(commit(source, comments, tmp_path), "comments")
    assert same_code(made, commented, everywhere)
    _, other = built(commit(source, READ["code"], tmp_path), "one instruction more")
    differ = {path for path in made.objects if made.objects[path] != other.objects[path]}
    assert differ == {"kernel/sys.o"}
    getppid = {name for name in everywhere if name.endswith("sys_getppid")}
    assert getppid
    for executed in (getppid, getppid | {"kernel_clone"}, everywhere):
        assert not same_code(made, other, executed)
    sizes = {name for name in everywhere if made.sizes.get(name) != other.sizes.get(name)}
    tell(f"one instruction more: other sizes of {', '.join(sorted(sizes))}")
    assert same_code(made, other, {"handle_exception", "kernel_clone"} - sizes)
