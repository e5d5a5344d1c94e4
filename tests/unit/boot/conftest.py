# SPDX-License-Identifier: GPL-2.0-or-later
"""A cache of its own for each test, programs in QEMU's place, an archive's entries read back."""

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

import pytest

from kentry.boot.userland.file_tree import Tree
from tests.processes import script as write_script
from tests.unit.kernels.conftest import cache, said  # noqa: F401


@pytest.fixture
def tree() -> Tree:
    return Tree()


@dataclass(frozen=True)
class Row:
    """One entry of an archive, as the kernel reads it."""

    inode: int
    mode: int
    uid: int
    gid: int
    links: int
    mtime: int
    data: bytes
    device: tuple[int, int]


def rows(pieces: Iterable[bytes]) -> dict[str, Row]:
    """The entries in their order; Documentation/driver-api/early-userspace/buffer-format.rst."""
    archive = b"".join(pieces)
    found: dict[str, Row] = {}
    at = 0
    while True:
        assert archive[at : at + 6] == b"070701"
        fields = [int(archive[at + 6 + 8 * i : at + 14 + 8 * i], 16) for i in range(13)]
        name = archive[at + 110 : at + 110 + fields[11] - 1].decode()
        start = (at + 110 + fields[11] + 3) & ~3
        if name == "TRAILER!!!":
            return found
        data = archive[start : start + fields[6]]
        inode, mode, uid, gid, links, mtime = fields[:6]
        device = (fields[9], fields[10])
        found[name] = Row(inode, mode, uid, gid, links, mtime, data, device)
        at = (start + fields[6] + 3) & ~3


def fake_qemu(folder: Path, script: str = "", version: str = "7.2.22") -> Path:
    """A program that passes for QEMU and runs `script`.

    $plugin_out is where its plugin's output goes; its arguments are in FOLDER/argv, a line each.
    """
    return write_script(
        folder / "qemu",
        f"""[ "$1" = -help ] && echo "QEMU emulator version {version}" && echo "-plugin x" && exit
printf '%s\\n' "$@" >{folder}/argv
for word; do case $word in *out=*) plugin_out=${{word#*out=}};; esac; done
plugin_out=${{plugin_out%%,*}}
{script}""",
    )


def argument(folder: Path, option: str) -> str:
    """What came behind `option` on the command line of the last run."""
    words = (folder / "argv").read_text().splitlines()
    return words[words.index(option) + 1]
