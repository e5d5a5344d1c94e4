# SPDX-License-Identifier: GPL-2.0-or-later
"""The archive, checked by reading it the way the kernel documents it."""

from pathlib import Path

from kentry.boot.initramfs import build_initramfs
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
