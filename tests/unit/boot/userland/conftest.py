# SPDX-License-Identifier: GPL-2.0-or-later
"""A cache of its own for each test, and an archive's entries read back."""

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

import pytest

from kentry.boot.userland.file_tree import Tree
from tests.unit.kernels.conftest import Said


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "cache"
    monkeypatch.setenv("KENTRY_CACHE", str(folder))
    return folder


@pytest.fixture
def said() -> Said:
    return Said()


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
