# SPDX-License-Identifier: GPL-2.0-or-later
"""The compiler a kernel is built with: found, identified, and put first in PATH."""

import hashlib
import os
import re
import shutil
from dataclasses import dataclass
from pathlib import Path

from kentry.arch import Arch
from kentry.errors import MissingToolError, UserError
from kentry.host.cache import cache_dir
from kentry.host.process import run

_NAME = re.compile(r"(gcc|clang)(-\d+)?")

# Programs that LLVM=1 makes the kernel's makefiles call, beside clang.
_LLVM = (
    "ld.lld",
    *(f"llvm-{name}" for name in ("ar", "nm", "objcopy", "objdump", "readelf", "strip")),
)

# The programs that a build runs; each is in the Debian package of its name.
_PROGRAMS = ("bc", "bison", "ccache", "flex", "gcc", "git", "make", "perl")


@dataclass(frozen=True)
class Toolchain:
    """A compiler with its linker.

    `links` are programs by the plain names that makefiles call; `identity` the first lines that
    compiler and linker say about themselves; `variables` go on make's command line.
    """

    name: str
    family: str
    links: tuple[tuple[str, str], ...]
    identity: tuple[str, ...]
    variables: tuple[str, ...] = ()

    def path(self) -> str:
        """Put in front of PATH a folder in which the plain names are this compiler's programs."""
        own = [os.environ.get("PATH", os.defpath)]
        renamed = [(name, target) for name, target in self.links if Path(target).name != name]
        if renamed:
            digest = hashlib.sha256(repr(renamed).encode()).hexdigest()[:16]
            folder = cache_dir("toolchains", digest)
            for name, target in renamed:
                if not (folder / name).is_symlink():
                    (folder / name).symlink_to(target)
            own.insert(0, str(folder))
        return os.pathsep.join(own)

    def folders(self, arch: Arch) -> list[Path]:
        """The folders of the compiler's programs and, beside them, of what these read."""
        targets = [Path(target) for _, target in self.links]
        programs = {path.parent for target in targets for path in (target, target.resolve())}
        beside = ("lib", "lib64", "libexec", arch.cross.removesuffix("-"))
        return [path for one in programs for path in (one, *(one.parent / n for n in beside))]

    def kconfig_environment(self, arch: Arch) -> dict[str, str]:
        """Return what the makefiles tell Kconfig about the compiler."""
        names = {"CC": "gcc", "LD": "ld", "NM": "nm", "OBJCOPY": "objcopy", "AR": "ar"}
        tools = {variable: arch.cross + name for variable, name in names.items()}
        flags = ""
        if self.family == "clang":
            tools = {variable: f"llvm-{name}" for variable, name in names.items()}
            tools |= {"CC": "clang", "LD": "ld.lld"}
            flags = f"--target={arch.cross.removesuffix('-')}"
        unused = dict.fromkeys(("RUSTC", "BINDGEN", "RUSTC_OR_CLIPPY", "PAHOLE"), "false")
        return {**tools, "HOSTCC": "gcc", "CLANG_FLAGS": flags, **unused}


def find(arch: Arch, name: str) -> Toolchain:
    """Find gcc, gcc-12, clang or clang-19 for `arch`; MissingToolError names its packages."""
    match = _NAME.fullmatch(name)
    if not match:
        remedy = "Write it like gcc, gcc-12 or clang-19."
        raise UserError(f"'{name}' is not a compiler that kentry knows.", remedy)
    family, version = match[1], match[2] or ""
    variables: tuple[str, ...] = ()
    if family == "gcc":
        gcc, ld = f"{arch.cross}gcc", f"{arch.cross}ld"
        wanted = {gcc: f"{gcc}{version}", ld: ld}
        packages = arch.compiler_package.replace("gcc-", f"gcc{version}-", 1)
    else:
        wanted = {program: f"{program}{version}" for program in ("clang", *_LLVM)}
        packages = f"clang{version} lld{version} llvm{version}"
        variables = ("LLVM=1",)
    paths = {plain: shutil.which(program) for plain, program in wanted.items()}
    if not all(paths.values()):
        raise MissingToolError(
            f"There is no {name} here that compiles for {arch.name}.",
            f"Run: apt-get install {packages}.",
        )
    links = tuple((plain, str(path)) for plain, path in paths.items())
    printed = (
        run([program, "--version"], env={"LC_ALL": "C"}, check=False).stdout
        for _, program in links[:2]
    )
    identity = tuple(text.partition("\n")[0] for text in printed)
    return Toolchain(name, family, links, identity, variables)


def check_tools(arch: Arch) -> None:
    """Raise MissingToolError with the Debian packages that a build for `arch` lacks."""
    missing = [program for program in _PROGRAMS if not shutil.which(program)]
    if not missing:
        include = ("gcc", "-E", "-x", "c", "/dev/null", "-include")
        for header, package in arch.build_headers.items():
            if run([*include, header], check=False).returncode:
                missing.append(package)
    if missing:
        names = " ".join(missing)
        raise MissingToolError(
            f"A kernel for {arch.name} cannot be built without {names}.",
            f"Run: apt-get install {names}  (kentry doctor lists everything missing).",
        )
