# SPDX-License-Identifier: GPL-2.0-or-later
"""Compiled code: the QEMU plugins, the programs for each architecture, LLVM's, and numba's."""

import contextlib
import hashlib
import os
import re
import shutil
import subprocess
from collections.abc import Callable
from functools import cache, partial
from pathlib import Path
from typing import Any, TypeVar, cast

import kentry
from kentry.arch import ARCHES, Arch
from kentry.errors import MissingToolError, UserError
from kentry.host.cache import (
    cache_dir,
    read_bytes,
    read_manifest,
    scratch_folder,
    write_atomically,
    write_manifest,
)
from kentry.host.packages import missing
from kentry.host.process import need, run
from kentry.host.sandbox import STOPPED, Limits, confined

_FOLDER = Path(__file__).parents[1] / "native"
# The sources of the probe: in a wheel, else in the clone of kentry's repository.
_CLONE = Path(__file__).parents[3]
_GUEST = next(filter(Path.exists, (_FOLDER.with_name("guest"), _CLONE / "guest")), _CLONE / "guest")

# Debian's folders beside those in $PATH.
_LLVM_FOLDERS = Path("/usr/lib")

_Function = TypeVar("_Function", bound=Callable[..., Any])

_MOST_SOURCE_BYTES = 1 << 20
# gcc takes 100 MB and a second for a case, on a busy machine half a minute.
_COMPILER_LIMITS = Limits(memory=1 << 30, processes=64, file=64 << 20, seconds=300)


def version() -> str:
    """Return kentry's version, its commit, and the hashes of the plugin and the probes, as text."""
    file = _FOLDER / "commit"
    commit = file.read_text().split()[0] if file.exists() else "unknown"
    if (_CLONE / ".git").exists() and shutil.which("git"):
        words = ["describe", "--always", "--dirty", "--abbrev=12", "--exclude=*"]
        commit = run(["git", "-C", str(_CLONE), *words], check=False).stdout.strip() or commit
    lines = [f"kentry {kentry.__version__}", f"commit {commit}"]
    for name in ("kentry.so", *(f"probe-{arch}" for arch in ARCHES)):
        built = _FOLDER / name
        digest = hashlib.sha256(built.read_bytes()).hexdigest() if built.exists() else "not built"
        lines.append(f"{name} {digest[:12]}")
    return "\n".join(lines) + "\n"


def probe_file(arch: Arch) -> Path:
    """Return the probe's executable; MissingToolError if it is not built."""
    return built_file(f"probe-{arch.name}", f"the probe for {arch.name}", f"{arch.cross}gcc")


def probe_with_case(arch: Arch, file: Path) -> Path:
    """Return a probe with a case more, compiled from `file` as guest/case.h says; UserError."""
    # The compiler runs in a sandbox: C can name any file, and make gcc write without end.
    if not (_GUEST / "Makefile").exists():
        raise MissingToolError(
            "kentry was installed without the sources of its probe.",
            "Install its wheel, or clone its repository and run make setup there.",
        )
    cross = cross_prefix(arch)
    need(f"{cross}gcc")
    if file.exists() and (not file.is_file() or file.stat().st_size > _MOST_SOURCE_BYTES):
        raise UserError(
            f"{file} is no C file, or larger than {_MOST_SOURCE_BYTES >> 20} MiB.",
            "Name a file like those in guest/cases/.",
        )
    digest = hashlib.sha256(arch.name.encode() + read_bytes(file))
    for source in sorted(_GUEST.rglob("*")):
        if source.is_file():
            digest.update(source.read_bytes())
    folder = cache_dir("probes", digest.hexdigest())
    probe = folder / f"probe-{arch.name}"
    if read_manifest(folder):
        return probe
    with scratch_folder() as scratch:
        # The Makefile takes no name with a blank in it.
        copy = scratch / "case.c"
        shutil.copyfile(file, copy)
        settings = [f"CASE_FILE={copy}", f"OUT={scratch}", f"CROSS_{arch.name}={cross}"]
        argv = confined(
            [need("make"), "-s", "-C", str(_GUEST), *settings, str(scratch / probe.name)],
            env={"PATH": os.environ.get("PATH", os.defpath), "LC_ALL": "C"},
            writable=[scratch],
            readable=[_GUEST],
            limits=_COMPILER_LIMITS,
        )
        done = run(argv, check=False)
        if done.returncode:
            errors = done.stderr.replace(str(copy), str(file))
            wrong = re.search(rf"(?im)^.*( error: |out of memory|{STOPPED}).*", errors)
            first = wrong[0].removeprefix(STOPPED) if wrong else ""
            raise UserError(
                f"{file} does not compile{f': {first}' if first else ''}.",
                "guest/case.h says how a case is written; guest/cases/ has examples.",
                errors,
            )
        write_atomically(probe, (scratch / probe.name).read_bytes())
    write_manifest(folder, [probe.name])
    return probe


def floor_files(arch: Arch, kind: str) -> tuple[Path, Path]:
    """Return what QEMU boots of a floor, "" or "linux", and its ELF file; MissingToolError."""
    name = f"floor-{f'{kind}-' if kind else ''}{arch.name}"
    needed = (f"the floor for {arch.name}", f"{arch.cross}gcc")
    return built_file(name, *needed), built_file(f"{name}.elf", *needed)


def runner_file(arch: Arch) -> Path:
    """Return the program that starts workloads in a guest; MissingToolError if it is not built."""
    return built_file(f"runner-{arch.name}", f"the runner for {arch.name}", f"{arch.cross}gcc")


def built_file(name: str, what: str, compiler: str) -> Path:
    """Return a compiled part; `what` names it in the error, `compiler` would build it."""
    file = _FOLDER / name
    if not file.exists():
        again = ", then install kentry again (make setup)"
        sentence = f"{what[0].upper()}{what[1:]} is not built."
        raise missing(sentence, compiler, "make", otherwise=again)
    return file


def cross_prefix(arch: Arch) -> str:
    """Return what the names of the compiler for `arch` begin with; "" for this machine's gcc.

    Debian's and Fedora's are called aarch64-linux-gnu-, others put their system's name in it.
    """
    machine = arch.cross.partition("-")[0]
    if shutil.which(f"{arch.cross}gcc"):
        return arch.cross
    if (gcc := shutil.which("gcc")) and run([gcc, "-dumpmachine"], check=False).stdout.startswith(
        f"{machine}-"
    ):
        return ""
    for folder in os.environ.get("PATH", os.defpath).split(os.pathsep):
        for program in sorted(Path(folder).glob(f"{machine}-*linux*-gcc")):
            if os.access(program, os.X_OK):
                return program.name.removesuffix("gcc")
    return arch.cross


# The QEMU plugin, and the one that records tasks; MissingToolError if it is not built.
plugin_file = partial(built_file, "kentry.so", "the QEMU plugin", "gcc")
tasks_plugin_file = partial(built_file, "tasks.so", "the QEMU plugin for tasks", "gcc")


def newest_llvm(name: str, beside: str = "") -> Path:
    """The newest NAME or NAME-NN here that has `beside` with the same ending; MissingToolError."""
    pattern = re.compile(rf"{re.escape(name)}(-[0-9]+)?")
    folders = [Path(folder) for folder in os.environ.get("PATH", "").split(":") if folder]
    folders += sorted(_LLVM_FOLDERS.glob("llvm-*/bin"))
    programs: dict[Path, Path] = {}
    for folder in folders:
        # Some that $PATH names may not be there, or not be for this user.
        with contextlib.suppress(OSError):
            for file in filter(pattern.fullmatch, os.listdir(folder)):
                own, other = folder / file, folder / file.replace(name, beside or name)
                if os.access(own, os.X_OK) and os.access(other, os.X_OK):
                    programs.setdefault(own.resolve(), own)
    if not programs:
        raise missing(f"{name} is not installed.", name)
    return max(programs.values(), key=lambda file: version_numbers(llvm_version(file)))


@cache
def llvm_version(program: Path) -> str:
    """The version of LLVM that the program is of, such as 22.1.8; "0" if it does not say so."""
    with contextlib.suppress(OSError, subprocess.CalledProcessError):
        text = run([str(program), "--version"]).stdout
        if version := re.search(r"LLVM version ([0-9.]*[0-9])", text):
            return version[1]
    return "0"


def version_numbers(version: str) -> tuple[int, ...]:
    """Return a version's parts, to compare it with another."""
    return tuple(map(int, version.split(".")))


def compiled(function: _Function) -> _Function:
    """The function, compiled by numba at its first call; kept beside its file where that can be."""
    # numba looks for changes in the function's own file only, so what it calls is in the same file.
    from numba import njit

    try:
        return cast(_Function, njit(cache=True, nogil=True)(function))
    except RuntimeError:
        return cast(_Function, njit(nogil=True)(function))
