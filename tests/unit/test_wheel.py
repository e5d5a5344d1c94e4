# SPDX-License-Identifier: GPL-2.0-or-later
"""The wheel: the same bytes from every clone, with every compiled part, or no wheel; recipes."""

import hashlib
import json
import os
import platform
import re
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from kentry import __version__
from kentry.arch import ARCHES
from tests import ROOT

RECIPES = {
    "debian/changelog": r"^kentry \((\S+)\)",
    "flake.nix": r'version = "(\S+)"',
    "packages/PKGBUILD": r"pkgver=(\S+)",
    "packages/kentry.spec": r"Version: +(\S+)",
}

BUILD = (sys.executable, "-m", "hatchling", "build", "-t", "wheel")
# Somebody else, without a home.
ANOTHER = ("bwrap", "--dev-bind", "/", "/", "--unshare-user", "--uid", "1234", "--gid", "1234")


def clone(folder: Path, umask: int = 0o022) -> Path:
    subprocess.run(["git", "clone", "-q", str(ROOT), str(folder)], check=True, umask=umask)
    return folder


def build(clone: Path, *by: str, umask: int = 0o022, **env: str) -> Path:
    env = {**os.environ, **env}
    subprocess.run([*by, *BUILD], cwd=clone, env=env, umask=umask, check=True, capture_output=True)
    (file,) = (clone / "dist").glob(f"*{env.get('KENTRY_MACHINE', platform.machine())}.whl")
    return file


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    folder = tmp_path_factory.mktemp("clones")
    other = clone(folder / "a-longer" / "path", 0o077)
    other = build(other, *ANOTHER, umask=0o077, HOME="/nowhere")
    return build(clone(folder / "short")), other


@pytest.mark.slow
def test_two_clones_give_the_same_bytes(files: tuple[Path, Path]) -> None:
    assert files[0].name == files[1].name
    assert files[0].read_bytes() == files[1].read_bytes()


@pytest.mark.slow
def test_every_compiled_part_is_inside(files: tuple[Path, Path]) -> None:
    assert re.search(r"-py3-none-manylinux_2_\d+_(x86_64|aarch64)\.whl$", files[0].name)
    with zipfile.ZipFile(files[0]) as archive:
        names = set(archive.namelist())
        (bill,) = (
            name for name in names if re.search(r"\.dist-info/sboms/[^/]+\.cdx\.json$", name)
        )
        parts = {
            part["name"]: part["hashes"][0]["content"]
            for part in json.loads(archive.read(bill))["components"]
            if part["type"] == "file"
        }
        inside = {name: hashlib.sha256(archive.read(name)).hexdigest() for name in parts}
    assert inside == parts
    programs = ("probe-{}", "runner-{}", "costs-{}", "floor-{}", "floor-{}.elf", "floor-linux-{}")
    wanted = {program.format(arch) for program in programs for arch in ARCHES}
    wanted |= {"kentry.so", "tasks.so", "commit"}
    assert {f"kentry/native/{name}" for name in wanted} <= parts.keys()
    assert {"kentry/guest/Makefile", "kentry/guest/case.h", "kentry/guest/cases/read.c"} <= names


@pytest.mark.slow
def test_the_plugins_of_a_wheel_for_aarch64_are_of_aarch64(files: tuple[Path, Path]) -> None:
    file = build(files[0].parents[1], KENTRY_MACHINE="aarch64")
    assert re.search(r"-py3-none-manylinux_2_\d+_aarch64\.whl$", file.name)
    with zipfile.ZipFile(file) as archive:
        for plugin in ("kentry.so", "tasks.so"):
            header = archive.read(f"kentry/native/{plugin}")[:20]
            assert (header[:4], header[18:]) == (b"\x7fELF", b"\xb7\0")


@pytest.mark.slow
def test_no_wheel_without_a_part(tmp_path: Path) -> None:
    with pytest.raises(subprocess.CalledProcessError):
        build(clone(tmp_path / "clone"), KENTRY_MACHINE="of-no-compiler")
    assert not list((tmp_path / "clone").glob("dist/*.whl"))


@pytest.mark.parametrize("recipe", RECIPES)
def test_each_recipe_is_of_this_version(recipe: str) -> None:
    (version,) = re.findall(RECIPES[recipe], (ROOT / recipe).read_text(), re.MULTILINE)
    assert version == __version__
