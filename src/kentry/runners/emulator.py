# SPDX-License-Identifier: GPL-2.0-or-later
"""Which QEMU runs the guest: the installed one, or a private copy that nobody installs.

A private copy is the distribution's own packages, fetched and verified by apt and
unpacked below kentry's cache.  It stays as it is until it is deleted there: a count belongs
to an emulator's version, so a copy that renewed itself would change numbers by itself.
"""

from __future__ import annotations

import os
import platform
import re
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from kentry.arch import ARCHES, Arch, host_arch
from kentry.errors import KentryError, MissingToolError, UserError
from kentry.host.apt import AptRoot, host_root
from kentry.host.cache import cache_dir, fresh_folder
from kentry.host.mirror import RELEASES, Release
from kentry.host.process import need, run
from kentry.progress import Update

INSTALLED = "installed"
BACKPORTS = "backports"
NEWEST = "newest"
CHOICES = (INSTALLED, BACKPORTS, NEWEST)

# The first whose plugin interface the plugin speaks; plugin/api.c has what came later.
_OLDEST = (7, 2)

_ANOTHER = "Choose another with --emulator: " + ", ".join(CHOICES) + " or a file."


@dataclass(frozen=True)
class Emulator:
    """A QEMU that can be run: `argv` are its first words, `env` is added to our own.

    `version` is QEMU's own sentence about it, with the package's version in brackets.
    """

    argv: tuple[str, ...]
    version: str
    numbers: tuple[int, ...]
    env: dict[str, str] = field(default_factory=dict)


def _silent(_fraction: float | None, _now: str) -> None:
    """Progress that nobody is shown."""


def find_emulator(arch: Arch, choice: str = INSTALLED, update: Update = _silent) -> Emulator:
    """The QEMU for `arch` that `choice` names: "installed", "backports", "newest" or a file.

    "backports" is that of this machine's release, using this machine's libraries;
    "newest" that of the newest release kentry knows, with libraries of its own.  Both are
    fetched on first use.  MissingToolError when it is not there, too old, or cannot load
    plugins; UserError when `choice` is none of the four.
    """
    if choice == INSTALLED:
        return _asked((need(arch.qemu, arch.qemu_package),), {}, arch)
    if choice == BACKPORTS:
        return _private(_backports_copy(update), arch, own_libraries=False)
    if choice == NEWEST:
        return _private(_newest_copy(update), arch, own_libraries=True)
    if os.sep not in choice:
        raise UserError(f"Unknown emulator '{choice}'.", _ANOTHER)
    return _asked((_executable(choice),), {}, arch)


def _executable(name: str) -> str:
    path = Path(name).expanduser()
    if not path.is_file() or not os.access(path, os.X_OK):
        raise MissingToolError(f"{path} is not a program.", _ANOTHER)
    return str(path.absolute())


# --- what it says about itself ------------------------------------------------------------


def _asked(argv: tuple[str, ...], env: dict[str, str], arch: Arch) -> Emulator:
    """The emulator behind `argv`, once its own help has shown that it will do."""
    text = _help(argv, env)
    found = re.match(r"QEMU emulator version (((?:\d+\.)+\d+).*)", text)
    if not found:
        raise MissingToolError(f"{argv[0]} is not a QEMU.", _ANOTHER)
    numbers = tuple(int(number) for number in found[2].split("."))
    if numbers < _OLDEST:
        oldest = ".".join(str(number) for number in _OLDEST)
        raise MissingToolError(
            f"QEMU {found[2]} is too old: {oldest} is the first that will do.",
            f"Run: apt-get install {arch.qemu_package}, or choose --emulator {BACKPORTS}.",
        )
    if not re.search(r"^-plugin ", text, re.MULTILINE):
        raise MissingToolError(
            f"{argv[0]} (QEMU {found[2]}) was built without plugins.",
            f"Use Debian's: apt-get install {arch.qemu_package}, or --emulator {BACKPORTS}.",
        )
    return Emulator(argv, found[1], numbers, env)


def _help(argv: tuple[str, ...], env: dict[str, str]) -> str:
    """What `-help` prints; its first line is the version's, as `-version` has it."""
    try:
        result = run([*argv, "-help"], env=env, check=False)
    except OSError as err:
        raise MissingToolError(f"{argv[0]} does not run: {err.strerror}.", _ANOTHER) from err
    if result.returncode:
        raise MissingToolError(f"{argv[0]} does not run.", _ANOTHER, result.stderr.strip())
    return result.stdout


# --- private copies -----------------------------------------------------------------------


def _private(root: Path, arch: Arch, *, own_libraries: bool) -> Emulator:
    """The emulator of an unpacked copy below `root`."""
    program = root / "usr/bin" / arch.qemu
    if not program.is_file():
        raise MissingToolError(f"The private QEMU copy in {root} has no {arch.qemu}.", _ANOTHER)
    # Names the firmware's folders: without them QEMU looks beside what runs it, the loader.
    words = [str(program)]
    for folder in ("usr/share/qemu", "usr/share/seabios"):
        words += ["-L", str(root / folder)]
    env = {"QEMU_MODULE_DIR": str(_only(root, "usr/lib/*/qemu"))}
    libraries = str(_only(root, "usr/lib/*/qemu").parent)
    if own_libraries:
        loader = _only(root, "usr/lib/*/ld-linux*.so.*")
        return _asked((str(loader), "--library-path", libraries, *words), env, arch)
    # What this machine lacked is in the copy too.
    env["LD_LIBRARY_PATH"] = libraries
    return _asked(tuple(words), env, arch)


def _only(root: Path, pattern: str) -> Path:
    found = sorted(root.glob(pattern))
    if not found:
        raise MissingToolError(
            f"The private QEMU copy in {root} is damaged: it has no {pattern}.",
            "Delete that folder and try again.",
        )
    return found[0]


def _backports_copy(update: Update) -> Path:
    try:
        name = platform.freedesktop_os_release().get("VERSION_CODENAME", "")
    except OSError:
        name = ""
    release = next((known for known in RELEASES if known.name == name), None)
    if not release:
        raise UserError(
            f"kentry knows no backports for this machine's system ({name or 'no code name'}).",
            f"Choose --emulator {NEWEST}, {INSTALLED} or a file.",
        )
    return _copy(host_root(host_arch().debian, release), f"{name}-host", update)


def _newest_copy(update: Update) -> Path:
    release = RELEASES[-1]
    return _copy(AptRoot(host_arch().debian, release), f"{release.name}-whole", update)


def _copy(root: AptRoot, name: str, update: Update) -> Path:
    """The folder with the backports QEMU of `root`'s release, unpacked on first use."""
    from filelock import FileLock

    folder = cache_dir("emulators") / f"{name}-{root.arch}"
    with FileLock(f"{folder}.lock"):
        if not folder.is_dir():
            with fresh_folder(folder) as work:
                _unpack_into(work, root, update)
    return folder


def _unpack_into(work: Path, root: AptRoot, update: Update) -> None:
    suite = _backports_suite(root.release)
    packages = sorted({arch.qemu_split_package for arch in ARCHES.values()})
    debs = root.download_closure(packages, update, suite)
    try:
        for number, deb in enumerate(_wanted(debs, packages)):
            update(number / len(debs), f"unpacking {deb.name.partition('_')[0]}")
            _unpack(deb, work)
    finally:
        for deb in debs:
            deb.unlink(missing_ok=True)


def _backports_suite(release: Release) -> str:
    return next(suite for suite in release.suites if suite.endswith("-backports"))


def _wanted(debs: list[Path], packages: list[str]) -> Iterator[Path]:
    """All but the emulators of other architectures, which apt upgrades alongside."""
    keep = {*packages, "qemu-system-common", "qemu-system-data"}
    for deb in debs:
        name = deb.name.partition("_")[0]
        if name in keep or not name.startswith("qemu-system-"):
            yield deb


def _unpack(deb: Path, folder: Path) -> None:
    try:
        run([need("dpkg-deb", "dpkg"), "--extract", str(deb), str(folder)])
    except subprocess.CalledProcessError as err:
        raise KentryError(
            f"{deb.name} cannot be unpacked.", "Is the disk full?", err.stderr.strip()
        ) from err
