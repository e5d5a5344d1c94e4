# SPDX-License-Identifier: GPL-2.0-or-later
"""Builds tiny kernels from Debian's linux-source package, as they are and with patches.

Everything is kept below kentry's cache, in tiny/: the source, a build folder for each
architecture and config, and each result under the SHA-256 of all that went into it, so
that nothing is built twice.  A patched kernel is built where the one before it was: only
what the patch touches is compiled again.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from kentry.apt import AptRoot, Candidate
from kentry.arch import Arch, host_arch
from kentry.cache import cache_dir, fresh_folder, no_space_is_an_error, sha256_of, write_atomically
from kentry.errors import FetchError, KentryError, MissingToolError
from kentry.mirror import RELEASES
from kentry.run import run

from .conftest import tell, timed

# Raised whenever a result would be another one for the same source, config and patch.
_VERSION = 1

_PACKAGE = "linux-source-6.12"
_CONFIGS = Path(__file__).parent / "tiny"
_MANIFEST = "manifest.json"
_LOG_LINES_SHOWN = 30

# Each program a build runs, and the Debian package it is in.
_PROGRAMS = {
    "bc": "bc",
    "bison": "bison",
    "dpkg-deb": "dpkg",
    "flex": "flex",
    "gcc": "gcc",
    "make": "make",
    "patch": "patch",
    "tar": "tar",
    "xz": "xz-utils",
}
_HEADERS = {"gelf.h": "libelf-dev"}


@dataclass(frozen=True)
class _Kbuild:
    """What the kernel's makefiles call an architecture, its image, and where that is made.

    `headers` are those that programs of the build itself include.
    """

    arch: str
    image: str
    headers: tuple[str, ...] = ()

    @property
    def path(self) -> Path:
        return Path("arch", "x86" if self.arch == "x86_64" else self.arch, "boot", self.image)


_KBUILD = {
    "arm64": _Kbuild("arm64", "Image"),
    "riscv64": _Kbuild("riscv", "Image"),
    "x86_64": _Kbuild("x86_64", "bzImage", headers=("gelf.h",)),
}


@dataclass(frozen=True)
class Variant:
    """A kernel to build: a name for people, a patch for patch(1), who says he built it.

    `builder` becomes part of the kernel's banner and of nothing else.
    """

    name: str
    patch: str = ""
    builder: str = "kentry"


@dataclass(frozen=True)
class Built:
    """A built kernel in the cache; `release` is that of the package its source is from."""

    image: Path
    vmlinux: Path
    config: Path
    release: str

    @property
    def spec(self) -> str:
        """How kentry's user would name it."""
        return f"image:{self.image},config={self.config}"


class BuildError(KentryError):
    """A kernel that was to be built could not be."""


def build(arch: Arch, variant: Variant) -> Built:
    """The tiny kernel for `arch`, from the cache or built now, which is said with its time.

    MissingToolError names the Debian package that is missing, FetchError says why the
    source could not be had, BuildError quotes the last lines of a build that failed.
    """
    _check_tools(arch)
    with _locked():
        source = _source()
        folder = cache_dir("tiny", "built") / _key(arch, variant, source)
        if not _is_whole(folder):
            what = f"tiny {arch.name} kernel of {_PACKAGE} {source.version}, {variant.name}"
            print(f"building {what}", flush=True)
            with timed(f"built {what}"):
                _build_into(folder, arch, variant, source)
    return Built(folder / "image", folder / "vmlinux", folder / "config", source.version)


def _check_tools(arch: Arch) -> None:
    wanted = {**_PROGRAMS, f"{arch.cross}gcc": arch.compiler_package}
    missing = [package for program, package in wanted.items() if not shutil.which(program)]
    if not missing:
        headers = _KBUILD[arch.name].headers
        missing = [_HEADERS[header] for header in headers if not _has_header(header)]
    if missing:
        names = " ".join(missing)
        raise MissingToolError(
            f"A kernel for {arch.name} cannot be built without {names}.",
            f"Run: apt-get install {names}.",
        )


def _has_header(name: str) -> bool:
    return not run(["gcc", "-E", "-include", name, "-x", "c", "/dev/null"], check=False).returncode


@contextlib.contextmanager
def _locked() -> Iterator[None]:
    """One build at a time, on the whole machine."""
    from filelock import FileLock, Timeout

    lock = FileLock(cache_dir("tiny") / "lock")
    try:
        lock.acquire(timeout=0)
    except Timeout:
        tell("waiting for another run that builds kernels")
        lock.acquire()
    try:
        yield
    finally:
        lock.release()


# --- the source ---------------------------------------------------------------------------


@dataclass(frozen=True)
class _Source:
    """An unpacked source package: the SHA-256 of the package, its version."""

    sha256: str
    version: str

    @property
    def pristine(self) -> Path:
        """The source as it came; nothing is ever written there."""
        return _sources() / self.sha256 / "linux"

    @property
    def work(self) -> Path:
        """Where it is patched and built."""
        return cache_dir("tiny", "work", self.sha256[:16])


def _sources() -> Path:
    return cache_dir("tiny", "sources")


def _source() -> _Source:
    """The newest source that the cache has; fetched only where it has none.

    So that a run needs no network after the first, and no new build a week.
    """
    from debian.debian_support import Version

    kept = [
        _Source(path.parent.name, json.loads(path.read_text(encoding="utf-8"))["version"])
        for path in _sources().glob(f"*/{_MANIFEST}")
    ]
    return max(kept, key=lambda source: Version(source.version), default=None) or _fetch()


def _fetch() -> _Source:
    from debian.debian_support import Version

    root = AptRoot(host_arch().debian, RELEASES[0])
    found = root.candidates(_PACKAGE.replace(".", r"\."), _silent)
    if not found:
        raise FetchError(
            f"The archive has no {_PACKAGE}.",
            "Name another mirror in KENTRY_MIRROR.",
            "\n".join(root.problems),
        )
    candidate = max(found, key=lambda one: Version(one.version))
    with timed(f"fetched and unpacked {_PACKAGE} {candidate.version}"), root.locked(_silent):
        deb = root.download(candidate, _silent)
        try:
            return _unpack(deb, candidate)
        finally:
            deb.unlink(missing_ok=True)


def _silent(fraction: float | None, now: str) -> None:
    """Progress of a download goes nowhere in a test."""


def _unpack(deb: Path, candidate: Candidate) -> _Source:
    """Unpacks the tarball that is in the package; 1.7 GB."""
    final = _sources() / candidate.sha256
    with fresh_folder(final) as folder:
        run(["dpkg-deb", "--extract", str(deb), str(folder / "package")])
        tarball = folder / "package/usr/src" / f"{_PACKAGE}.tar.xz"
        linux = folder / "linux"
        linux.mkdir()
        words = ["--strip-components=1", "--no-same-owner", "-xJf", str(tarball)]
        run(["tar", "-C", str(linux), *words])
        shutil.rmtree(folder / "package")
        manifest = {"package": _PACKAGE, "version": candidate.version}
        write_atomically(folder / _MANIFEST, json.dumps(manifest) + "\n")
    return _Source(candidate.sha256, candidate.version)


class _Tree:
    """A copy of the source of hard links, in which only what a patch touches is a file of its own.

    Such a file always gets the time it was written as its own, also when it becomes again
    what it was: make judges by time whether an object file is older.
    """

    def __init__(self, source: _Source) -> None:
        self.path = source.work / "linux"
        self._pristine = source.pristine
        self._state = source.work / "touched.json"
        if not self.path.exists():
            with fresh_folder(self.path) as folder:
                run(["cp", "--archive", "--link", f"{self._pristine}/.", str(folder)])

    def patch(self, patch: str) -> None:
        """Makes the tree the source with `patch` and nothing else applied."""
        names = _touched_by(patch)
        before = self._touched()
        # Written first: what is interrupted here is put right by the next call.
        self._remember({*before, *names})
        with tempfile.TemporaryDirectory(dir=self.path.parent) as folder:
            changed = Path(folder)
            for name in {*before, *names}:
                (changed / name).parent.mkdir(parents=True, exist_ok=True)
                shutil.copyfile(self._pristine / name, changed / name)
            if names:
                _apply(patch, changed)
            for name in {*before, *names}:
                os.utime(changed / name)
                os.replace(changed / name, self.path / name)
        self._remember(names)

    def _touched(self) -> set[str]:
        try:
            return set(json.loads(self._state.read_text(encoding="utf-8")))
        except FileNotFoundError:
            return set()

    def _remember(self, names: set[str]) -> None:
        write_atomically(self._state, json.dumps(sorted(names)) + "\n")


def _touched_by(patch: str) -> set[str]:
    """The files that a patch changes, which must be there before."""
    names = {
        line.removeprefix("+++ ").partition("/")[2].split("\t")[0]
        for line in patch.splitlines()
        if line.startswith("+++ ")
    }
    for name in names:
        if not name or name.startswith("/") or ".." in Path(name).parts:
            raise BuildError(f"The patch changes '{name}', which is no file of the kernel's.")
    return names


def _apply(patch: str, folder: Path) -> None:
    words = ["--strip=1", "--no-backup-if-mismatch", "--batch", "--forward"]
    done = subprocess.run(
        ["patch", *words, f"--directory={folder}"],
        input=patch,
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode:
        raise BuildError("The patch does not apply.", detail=done.stdout + done.stderr)


# --- the build ----------------------------------------------------------------------------


def _key(arch: Arch, variant: Variant, source: _Source) -> str:
    """The SHA-256 of everything that decides what the kernel will be."""
    parts = {
        "version": _VERSION,
        "source": source.sha256,
        "config": _wanted(arch),
        "patch": variant.patch,
        "builder": variant.builder,
        "compiler": _compiler(arch),
    }
    return hashlib.sha256(json.dumps(parts, sort_keys=True).encode()).hexdigest()


def _wanted(arch: Arch) -> list[str]:
    """The options of both fragments, OPTION=VALUE, sorted: how they are written is no matter."""
    files = [_CONFIGS / f"{name}.config" for name in ("common", arch.name)]
    lines = [line for file in files for line in file.read_text(encoding="utf-8").splitlines()]
    return sorted(line for line in lines if line.startswith("CONFIG_"))


def _compiler(arch: Arch) -> list[str]:
    """The first lines that the compiler and the linker say about themselves."""
    programs = (f"{arch.cross}gcc", f"{arch.cross}ld")
    return [run([program, "--version"]).stdout.splitlines()[0] for program in programs]


def _is_whole(folder: Path) -> bool:
    """Whether the cache has this result and it is undamaged."""
    try:
        manifest = json.loads((folder / _MANIFEST).read_text(encoding="utf-8"))
        return all(sha256_of(folder / name) == sha for name, sha in manifest["sha256"].items())
    except (OSError, ValueError, KeyError):
        return False


def _build_into(final: Path, arch: Arch, variant: Variant, source: _Source) -> None:
    kbuild = _KBUILD[arch.name]
    config = hashlib.sha256("\n".join(_wanted(arch)).encode()).hexdigest()[:16]
    with no_space_is_an_error(source.work):
        tree = _Tree(source)
        tree.patch(variant.patch)
        objects = source.work / f"{arch.name}-{config}"
        with _clean_after_a_crash(objects):
            make = _Make(arch, variant, tree.path, objects)
            _configure(make, arch)
            make(kbuild.image)
        made = {"image": kbuild.path, "vmlinux": Path("vmlinux"), "config": Path(".config")}
        with fresh_folder(final) as folder:
            for name, path in made.items():
                shutil.copyfile(objects / path, folder / name)
            manifest = {
                "variant": variant.name,
                "arch": arch.name,
                "source": source.version,
                "compiler": _compiler(arch),
                "sha256": {name: sha256_of(folder / name) for name in made},
            }
            write_atomically(folder / _MANIFEST, json.dumps(manifest, indent=1) + "\n")


@contextlib.contextmanager
def _clean_after_a_crash(objects: Path) -> Iterator[None]:
    """Begins anew in a folder in which a build was killed: half an object file looks whole.

    make itself takes away what it was making when a command fails; then the build goes on
    where it was.
    """
    mark = objects.with_suffix(".unfinished")
    if mark.exists():
        shutil.rmtree(objects, ignore_errors=True)
    objects.mkdir(exist_ok=True)
    mark.touch()
    try:
        yield
    except BuildError:
        mark.unlink()
        raise
    mark.unlink()


class _Make:
    """Runs make on a tree for one architecture, with an environment that is always the same."""

    def __init__(self, arch: Arch, variant: Variant, tree: Path, objects: Path) -> None:
        self.objects = objects
        ccache = ["ccache"] if shutil.which("ccache") else []
        self._words = [
            *("make", "-s", f"-j{os.cpu_count() or 1}", "-C", str(tree), f"O={objects}"),
            f"ARCH={_KBUILD[arch.name].arch}",
            f"CROSS_COMPILE={arch.cross}",
            f"CC={' '.join([*ccache, f'{arch.cross}gcc'])}",
            f"HOSTCC={' '.join([*ccache, 'gcc'])}",
            "KBUILD_BUILD_TIMESTAMP=Thu Jan  1 00:00:00 UTC 1970",
            f"KBUILD_BUILD_USER={variant.builder}",
            "KBUILD_BUILD_HOST=kentry",
            "KBUILD_BUILD_VERSION=1",
        ]
        self._env = {
            "PATH": os.environ["PATH"],
            "LC_ALL": "C",
            "CCACHE_DIR": str(cache_dir("tiny", "ccache")),
        }

    def __call__(self, *words: str) -> None:
        """make WORDS; BuildError with the last lines that it printed."""
        done = subprocess.run(
            [*self._words, *words],
            env=self._env,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            errors="replace",
            check=False,
        )
        if done.returncode:
            lines = done.stdout.splitlines()[-_LOG_LINES_SHOWN:]
            raise BuildError(
                f"The kernel could not be built in {self.objects}.", detail="\n".join(lines)
            )


def _configure(make: _Make, arch: Arch) -> None:
    """allnoconfig with the fragment's options; BuildError names those that Kconfig dropped."""
    wanted = _wanted(arch)
    file = make.objects / "fragment.config"
    file.write_text("\n".join([*wanted, ""]), encoding="utf-8")
    config = make.objects / ".config"
    make(f"KCONFIG_ALLCONFIG={file}", "allnoconfig")
    got = config.read_text(encoding="utf-8").splitlines()
    dropped = [line for line in wanted if line not in got]
    if dropped:
        raise BuildError(
            f"Kconfig dropped {', '.join(dropped)}.",
            f"What they depend on must be in {_CONFIGS}/common.config or {arch.name}.config.",
        )
