# SPDX-License-Identifier: GPL-2.0-or-later
"""What a missing program's remedy says on each system, by its os-release."""

from pathlib import Path

import pytest

from kentry.arch import ARCHES
from kentry.errors import MissingToolError
from kentry.host import packages
from kentry.host.packages import install_command, manager, remedy
from kentry.host.process import need
from kentry.kernels import build

MANAGERS = packages._table()["managers"]


def on(monkeypatch: pytest.MonkeyPatch, text: str) -> None:
    """Make this machine one whose os-release has ID=..., ID_LIKE=..., VERSION_ID=... ."""
    fields = dict(word.split("=") for word in text.split(","))
    system = {key: value.replace("+", " ") for key, value in fields.items()}
    monkeypatch.setattr("platform.freedesktop_os_release", lambda: system)


DEBIANS = "apt-get install {} opensbi dwarves {} libelf-dev gcc-12-aarch64-linux-gnu"


@pytest.mark.parametrize(
    ("system", "command"),
    [
        ("ID=debian,VERSION_ID=12", DEBIANS.format("qemu-system-misc", "llvm-19")),
        ("ID=debian,VERSION_ID=13", DEBIANS.format("qemu-system-riscv", "llvm")),
        ("ID=linuxmint,ID_LIKE=ubuntu+debian", DEBIANS.format("qemu-system-riscv", "llvm")),
        (
            "ID=fedora,VERSION_ID=43",
            "dnf install qemu-system-riscv dwarves llvm elfutils-libelf-devel"
            " gcc-aarch64-linux-gnu",
        ),
        (
            "ID=manjaro,ID_LIKE=arch",
            "pacman -S --needed qemu-system-riscv64 pahole llvm libelf aarch64-linux-gnu-gcc",
        ),
        (
            "ID=opensuse-tumbleweed,ID_LIKE=opensuse+suse",
            "zypper install qemu-extra dwarves llvm libelf-devel cross-aarch64-gcc14",
        ),
        ("ID=alpine", "apk add qemu-system-riscv64 pahole llvm elfutils-dev"),
        (
            "ID=nixos",
            "nix-env --install --attr nixpkgs.qemu nixpkgs.pahole nixpkgs.llvm nixpkgs.elfutils"
            " nixpkgs.pkgsCross.aarch64-multiplatform.buildPackages.gcc",
        ),
    ],
)
def test_each_system_has_its_own_command(
    system: str, command: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    on(monkeypatch, system)
    tools = ["qemu-system-riscv64", "pahole", "llvm-mca", "gelf.h", "aarch64-linux-gnu-gcc-12"]
    assert " ".join(install_command([*tools, "pahole", "unknown"])) == command


def test_all_that_kentry_calls_has_a_package(monkeypatch: pytest.MonkeyPatch) -> None:
    called = {*build._PROGRAMS, "gcc", "clang", *build._LLVM, "bwrap", "llvm-mca", "gpgv", "ssh"}
    called |= {"setpriv", "prlimit", "taskset", "pahole", "tar"}
    called |= {name for arch in ARCHES.values() for name in (arch.qemu, *arch.build_headers)}
    for name, entry in MANAGERS.items():
        on(monkeypatch, f"ID={entry['systems'][0]}")
        assert manager() == name
        assert [tool for tool in called if not install_command([tool])] == []
    # No word of the table names a manager that there is not.
    rows = [row for row in packages._table()["packages"].values() if isinstance(row, dict)]
    assert {key for row in rows for key in row} - {*MANAGERS, ""} == set()


def test_an_unknown_system_is_known_by_its_manager(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    on(monkeypatch, "ID=homegrown")
    monkeypatch.setenv("PATH", str(tmp_path))
    assert (manager(), install_command(["git"])) == ("", [])
    assert remedy("git", "bc") == "Install git, bc for this system."
    (tmp_path / "apk").write_text("#!/bin/sh\n")
    (tmp_path / "apk").chmod(0o755)
    assert install_command(["git"]) == ["apk", "add", "git"]
    with pytest.raises(MissingToolError, match="git is not installed.*apk add git") as raised:
        need("git")
    assert raised.value.tools == ("git",)
