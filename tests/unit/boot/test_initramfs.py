# SPDX-License-Identifier: GPL-2.0-or-later
"""The archive, checked by reading it the way the kernel documents it."""

from pathlib import Path

from kentry.boot.initramfs import Entry, archive, build_initramfs


def entries(archive: bytes) -> dict[str, tuple[int, bytes]]:
    found: dict[str, tuple[int, bytes]] = {}
    at = 0
    while True:
        assert archive[at : at + 6] == b"070701"
        fields = [int(archive[at + 6 + 8 * i : at + 14 + 8 * i], 16) for i in range(13)]
        mode, size, name_size = fields[1], fields[6], fields[11]
        name = archive[at + 110 : at + 110 + name_size - 1].decode()
        data_at = (at + 110 + name_size + 3) & ~3
        if name == "TRAILER!!!":
            return found
        found[name] = (mode, archive[data_at : data_at + size])
        at = (data_at + size + 3) & ~3


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
