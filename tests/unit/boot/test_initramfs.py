# SPDX-License-Identifier: GPL-2.0-or-later
"""The archive, checked by reading it the way the kernel documents it."""

from pathlib import Path

from kentry.boot.initramfs import Entry, archive, build_initramfs
from tests.unit.boot.conftest import rows


def entries(made: bytes) -> dict[str, tuple[int, bytes]]:
    return {name: (row.mode, row.data) for name, row in rows([made]).items()}


def test_the_probe_is_init_and_there_is_a_console(tmp_path: Path) -> None:
    probe = tmp_path / "probe"
    probe.write_bytes(b"\x7fELF of odd length")
    archive = build_initramfs(probe, ["getppid", "getpid+vec=once"])
    assert entries(archive) == {
        "dev": (0o40755, b""),
        "dev/console": (0o20600, b""),
        "cases": (0o100444, b"getppid\ngetpid+vec=once\n"),
        "init": (0o100755, b"\x7fELF of odd length"),
    }
    assert archive == build_initramfs(probe, ["getppid", "getpid+vec=once"])


def test_content_comes_in_pieces_and_links_share_an_inode() -> None:
    files = [
        (Entry("a", 3, 0o100644, 5, links=2, mtime=9), [b"ab", b"cde"]),
        (Entry("b", 3, 0o100644, 0, links=2, mtime=9), []),
    ]
    made = b"".join(archive(files))
    assert entries(made) == {"a": (0o100644, b"abcde"), "b": (0o100644, b"")}
    assert (
        made[:62] == b"070701" + b"00000003000081A400000000000000000000000200000009" + b"00000005"
    )
    assert len(made) % 4 == 0
