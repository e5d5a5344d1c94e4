# SPDX-License-Identifier: GPL-2.0-or-later
"""Which compiler a name means, and what ccache takes for the same object."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest

from kentry.arch import ARCHES
from kentry.errors import MissingToolError, UserError
from kentry.host.process import run
from kentry.kernels import build
from tests.processes import script
from tests.unit.kernels.fakes import ARM64, X86_64
from tests.unit.kernels.sources import program

LLVM = ("ar", "nm", "objcopy", "objdump", "readelf", "strip")


@pytest.fixture
def programs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The only folder in PATH, with /bin/sh's own."""
    folder = tmp_path / "bin"
    folder.mkdir()
    monkeypatch.setenv("PATH", str(folder))
    return folder


def gcc(folder: Path, version: str = "", cross: str = ARM64.cross) -> None:
    program(folder, f"{cross}gcc{version}", f"gcc{version or '-14'} (Test)")
    program(folder, f"{cross}ld", "GNU ld (Test) 2.40")


def clang(folder: Path, version: str = "") -> None:
    for name in ("clang", "ld.lld", *(f"llvm-{name}" for name in LLVM)):
        program(folder, f"{name}{version}", f"{name} (Test) {version or '-21'}")


def test_gcc_by_its_own_name_needs_nothing_in_path(programs: Path) -> None:
    gcc(programs)
    found = build.find_compiler(ARM64, "gcc")
    assert (found.name, found.family, found.variables) == ("gcc", "gcc", ())
    assert found.identity == ("gcc-14 (Test)", "GNU ld (Test) 2.40")
    assert found.path() == str(programs)


def test_a_versioned_gcc_is_first_in_path(programs: Path, cache: Path) -> None:
    gcc(programs)
    gcc(programs, "-12")
    found = build.find_compiler(ARM64, "gcc-12")
    assert found.identity == ("gcc-12 (Test)", "GNU ld (Test) 2.40")
    name = f"{ARM64.cross}gcc"
    shim = shutil.which(name, path=found.path())
    assert shim and Path(shim).is_relative_to(cache)
    assert run([shim]).stdout == "gcc-12 (Test)\n"
    assert shutil.which(f"{ARM64.cross}ld", path=found.path()) == str(programs / f"{ARM64.cross}ld")
    # Again, and another one beside it.
    Path(shim).unlink()
    Path(shim).symlink_to("/bin/false")
    assert build.find_compiler(ARM64, "gcc-12").path() == found.path()
    assert run([shim]).stdout == "gcc-12 (Test)\n"
    gcc(programs, "-13")
    assert build.find_compiler(ARM64, "gcc-13").path() != found.path()


@pytest.mark.parametrize("cross", ["aarch64-suse-linux-", "aarch64-unknown-linux-gnu-"])
def test_another_systems_cross_compiler_is_found_by_what_it_is(programs: Path, cross: str) -> None:
    gcc(programs, cross=cross)
    # This machine's own compiles for another architecture.
    script(programs / "gcc", "echo x86_64-linux-gnu")
    found = build.find_compiler(ARM64, "gcc")
    assert found.cross == cross
    told = {"CC": f"{cross}gcc", "LD": f"{cross}ld", "OBJCOPY": f"{cross}objcopy"}
    assert {**told, "RUSTC": "false"}.items() <= found.kconfig_environment().items()
    gcc(programs)
    assert build.find_compiler(ARM64, "gcc").cross == ARM64.cross


def test_gcc_without_a_prefix_compiles_for_its_own_architecture(programs: Path) -> None:
    gcc(programs, "-12", cross="")
    script(
        programs / "gcc", '[ "$1" = -dumpmachine ] && echo aarch64-alpine-linux-musl || echo gcc'
    )
    assert build.find_compiler(ARM64, "gcc").cross == ""
    versioned = build.find_compiler(ARM64, "gcc-12")
    assert versioned.identity == ("gcc-12 (Test)", "GNU ld (Test) 2.40")
    assert versioned.kconfig_environment()["CC"] == "gcc"
    with pytest.raises(MissingToolError):
        build.find_compiler(X86_64, "gcc")


def test_clang_needs_no_gcc(programs: Path) -> None:
    for name in build._PROGRAMS:
        program(programs, name, "")
    clang(programs)
    build.check_tools(ARM64, "clang")
    with pytest.raises(MissingToolError) as raised:
        build.check_tools(ARM64)
    assert raised.value.tools == ("gcc",)


def test_clang_brings_its_own_tools(programs: Path) -> None:
    clang(programs)
    clang(programs, "-19")
    found = build.find_compiler(X86_64, "clang-19")
    assert (found.family, found.variables) == ("clang", ("LLVM=1",))
    assert found.identity == ("clang (Test) -19", "ld.lld (Test) -19")
    for name in ("clang", "ld.lld", "llvm-objcopy"):
        shim = shutil.which(name, path=found.path())
        assert shim
        assert run([shim]).stdout == f"{name} (Test) -19\n"
    assert build.find_compiler(X86_64, "clang").path() == str(programs)
    told = {
        "CC": "clang",
        "LD": "ld.lld",
        "NM": "llvm-nm",
        "CLANG_FLAGS": "--target=x86_64-linux-gnu",
    }
    assert told.items() <= found.kconfig_environment().items()


@pytest.mark.parametrize(
    ("name", "packages"),
    [
        ("gcc", "gcc-aarch64-linux-gnu"),
        ("gcc-12", "gcc-12-aarch64-linux-gnu"),
        ("clang", "clang lld llvm"),
        ("clang-19", "clang-19 lld-19 llvm-19"),
    ],
)
def test_a_missing_compiler_names_its_packages(programs: Path, name: str, packages: str) -> None:
    gcc(programs, "-13")
    clang(programs, "-18")
    with pytest.raises(MissingToolError) as raised:
        build.find_compiler(ARM64, name)
    assert raised.value.remedy.endswith(f"install {packages}.")
    assert "arm64" in raised.value.sentence


@pytest.mark.parametrize(
    "name",
    ["", "icc", "gcc;rm", "gcc-", "gcc-12 ", "gcc-12.2", "/usr/bin/gcc", "../gcc", "GCC", "gcc\n"],
)
def test_what_is_no_compiler(name: str) -> None:
    with pytest.raises(UserError, match="clang-19"):
        build.find_compiler(ARM64, name)


def test_every_program_and_header_that_a_build_lacks_is_named(programs: Path) -> None:
    for name in ("bc", "ccache", "git", "make", "perl"):
        program(programs, name, "")
    # The compiler looks for headers.
    script(programs / "gcc", "exit 1")
    with pytest.raises(MissingToolError) as raised:
        build.check_tools(ARM64)
    assert "install bison flex " in raised.value.remedy
    for name in ("bison", "flex"):
        program(programs, name, "")
    for arch in ARCHES.values():
        if not arch.build_headers:
            build.check_tools(arch)
            continue
        with pytest.raises(MissingToolError) as raised:
            build.check_tools(arch)
        assert raised.value.tools == arch.build_headers
    program(programs, "gcc", "found")
    build.check_tools(X86_64)


FUNCTION = "static inline int f(void) {{ return {}; }}\n"
COMMENT = "/* why\n * it\n * is\n */\n"


class Ccache:
    """gcc by way of a ccache of its own, on a file that includes one header."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        cpp = folder / "cpp"
        cpp.write_text(build._CPP)
        cpp.chmod(0o755)
        (folder / "a.c").write_text('#include "h.h"\nint g(void) { return f(); }\n')
        own = {"CCACHE_DIR": str(folder / "cache"), "CCACHE_PREFIX_CPP": str(cpp)}
        self.env = {**os.environ, **own, "CCACHE_NODEPEND": "1"}

    def object(self, header: str, flags: str = "-O2", **env: str) -> bytes:
        (self.folder / "h.h").write_text(header)
        argv = ["ccache", "gcc", *flags.split(), "-c", "a.c", "-o", "a.o"]
        subprocess.run(argv, env=self.env | env, cwd=self.folder, check=True)
        return (self.folder / "a.o").read_bytes()

    @property
    def hits(self) -> int:
        argv = ["ccache", "--print-stats"]
        text = subprocess.run(argv, env=self.env, check=True, capture_output=True, text=True).stdout
        found = re.search(r"^preprocessed_cache_hit\t(\d+)", text, re.MULTILINE)
        assert found
        return int(found[1])


@pytest.mark.parametrize("comments", [1, 2, 9])
def test_a_comment_in_a_header_is_no_new_object(tmp_path: Path, comments: int) -> None:
    ccache = Ccache(tmp_path)
    before = ccache.object(FUNCTION.format(1))
    after = ccache.object(COMMENT * comments + FUNCTION.format(1))
    assert ccache.hits == 1
    assert before == after
    assert after == ccache.object(COMMENT * comments + FUNCTION.format(1), CCACHE_DISABLE="1")


@pytest.mark.parametrize(
    ("first", "then", "flags"),
    [
        (FUNCTION.format(1), FUNCTION.format(2), "-O2"),
        (FUNCTION.format("__LINE__"), COMMENT + FUNCTION.format("__LINE__"), "-O2"),
        (FUNCTION.format(1), COMMENT + FUNCTION.format(1), "-O2 -g"),
        (FUNCTION.format(1), "#include <stddef.h>\n" + FUNCTION.format(1), "-O2"),
    ],
    ids=["another value", "a line's number", "debug info", "another header"],
)
def test_what_may_matter_is_compiled(tmp_path: Path, first: str, then: str, flags: str) -> None:
    ccache = Ccache(tmp_path)
    ccache.object(first, flags)
    after = ccache.object(then, flags)
    assert ccache.hits == 0
    assert after == ccache.object(then, flags, CCACHE_DISABLE="1")
