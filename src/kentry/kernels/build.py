# SPDX-License-Identifier: GPL-2.0-or-later
"""Source, config and compiler -> a built Kernel, never built twice.

tuxmake runs the builds, out of tree, with ccache.  Three things are done around it:
tuxmake takes a versioned compiler only in a container, so one is put first in PATH under
its plain name; it does not say which options Kconfig dropped, so that is looked at between
its config and its build; and it makes "all" unless told what, so it is told the image.
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import json
import os
import re
import shutil
import signal
import subprocess
import sys
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from kentry.arch import Arch
from kentry.errors import BuildError
from kentry.host.cache import (
    cache_dir,
    fresh_folder,
    held,
    no_space_is_an_error,
    sha256_of,
    write_atomically,
)
from kentry.host.process import command_line, log, need, run
from kentry.kernels import config, image, sandbox, toolchain
from kentry.kernels.config import Request, Wanted
from kentry.kernels.distro import distro_config
from kentry.kernels.kernel import Kernel
from kentry.kernels.repository import Revision
from kentry.kernels.toolchain import Toolchain
from kentry.progress import Update

# Raised whenever the same source, config and compiler would make another kernel.
_VERSION = 2

_MANIFEST = "manifest.json"
_LOG_LINES_SHOWN = 8
# A compiler's peak is near 0.5 GB, the link's 1 GB; bytes.
_MEMORY_PER_JOB = 1 << 30

# "  CC      kernel/fork.o": what kbuild says it is making.
_STEP = re.compile(r"^  ([A-Z][A-Z0-9_\[\] ]{0,7}) +(\S+)$")
_ERROR = re.compile(
    r"(fatal error|\berror): |undefined reference|^ERROR: |^FAILED|: multiple definition|\*\*\* "
)

# Programs that kernels here are built without, and that Kconfig would write into the config
# where a machine has them.
_NOT_USED = ("RUSTC=false", "BINDGEN=false")
_NO_PAHOLE = ("PAHOLE=false",)
# The flags are pahole's own choice by version otherwise, and with its -j, which kernels before
# 6.12 give it, the order of the types is another one in each build.
_PAHOLE = ("PAHOLE=pahole", "PAHOLE_FLAGS=--btf_gen_floats")

# What make and tuxmake add once something has failed.
_MAKE = re.compile(r"make(\[\d+\])?: |[A-Z]: ")

# Nothing of who builds, where or when gets into a kernel.
_BUILDER = {
    "KBUILD_BUILD_TIMESTAMP": "Thu Jan  1 00:00:00 UTC 1970",
    "KBUILD_BUILD_USER": "kentry",
    "KBUILD_BUILD_HOST": "kentry",
    "KBUILD_BUILD_VERSION": "1",
    "LOCALVERSION": "",
    "KCFLAGS": "",
}


@dataclass(frozen=True)
class _Job:
    """One build: of what, how, and the compiler found for it.

    `pahole` is what that program says of itself, or "" where the kernel is built without.
    """

    revision: Revision
    arch: Arch
    wanted: Wanted
    toolchain: Toolchain
    pahole: str = ""

    def key(self) -> str:
        """The SHA-256 of everything that decides what the kernel will be."""
        parts = {
            "version": _VERSION,
            "tree": self.revision.tree,
            "arch": self.arch.name,
            "config": self.wanted.text(),
            "whole": self.wanted.whole,
            "compiler": self.toolchain.identity,
            **({"pahole": self.pahole} if self.pahole else {}),
        }
        return hashlib.sha256(json.dumps(parts, sort_keys=True).encode()).hexdigest()

    def objects(self) -> Path:
        """Where it is compiled: one folder for all configs that begin the same way.

        make knows which files an option touches, and compiles only those again.  Debug info
        touches all.
        """
        begins = "file" if self.wanted.whole else "debug" if self.pahole else "tiny"
        name = f"{self.arch.name}-{begins}-{self.toolchain.name}"
        return self.revision.repository.folder / name

    def variables(self) -> tuple[str, ...]:
        """What goes on make's command line."""
        programs = (*_NOT_USED, *(_PAHOLE if self.pahole else _NO_PAHOLE))
        return (f"CROSS_COMPILE={self.arch.cross}", *programs, *self.toolchain.variables)

    def builder(self) -> dict[str, str]:
        """_BUILDER, and that debug info has no folder of ours in it: a build ID is made of it."""
        if not self.pahole:
            return _BUILDER
        nowhere = f"-fdebug-prefix-map={self.revision.repository.folder}=."
        return {**_BUILDER, "KCFLAGS": nowhere, "KAFLAGS": nowhere}


def kernel(spec: str, revision: Revision, arch: Arch, request: Request, update: Update) -> Kernel:
    """The kernel of a source, from the cache or built now.

    Raises MissingToolError, UserError (the request), BuildError (an option was dropped, or
    the first error of the compiler).
    """
    job = _job(revision, arch, request, update)
    folder = cache_dir("built") / job.key()
    if not _is_whole(folder):
        toolchain.check_tools(arch)
        sandbox.check()
        with _slot(update), no_space_is_an_error(folder), revision.repository.locked(update):
            if not _is_whole(folder):
                _build(job, folder, update)
    manifest = json.loads((folder / _MANIFEST).read_text(encoding="utf-8"))
    origin = {
        **revision.origin,
        "tree": revision.tree,
        "config": _config_name(request),
        "config_set": config.difference(request.sets),
        "linker": job.toolchain.identity[1],
    }
    found = image.Source(
        spec,
        folder / "image",
        config=folder / "config",
        vmlinux=folder / "vmlinux",
        image_sha256=manifest["sha256"]["image"],
        vmlinux_name="of the same build",
        origin=origin,
    )
    return image.load(found, arch, update)


def _config_name(request: Request) -> str:
    known = request.config in config.BUILT_IN
    return request.config if known else Path(request.config).name


def _job(revision: Revision, arch: Arch, request: Request, update: Update) -> _Job:
    if request.config == config.TINY:
        wanted = config.tiny(arch)
    elif request.config == config.USERLAND:
        wanted = config.userland(arch)
    elif request.config == config.DISTRO:
        wanted = config.distro(distro_config(revision.version(), arch, update), arch)
    else:
        wanted = config.of_file(Path(os.path.expanduser(request.config)))
    wanted = config.with_sets(wanted, request.sets)
    pahole = _pahole() if wanted.btf else ""
    return _Job(revision, arch, wanted, toolchain.find(arch, request.compiler), pahole)


def _pahole() -> str:
    return run([need("pahole", "dwarves"), "--version"]).stdout.strip()


@contextlib.contextmanager
def _slot(update: Update) -> Iterator[None]:
    """One build at a time for all that share the cache: each already uses every core."""
    from filelock import FileLock

    with held(FileLock(cache_dir("built") / "lock"), update, "another kernel to be built"):
        yield


def _jobs() -> int:
    """As many compilers as there are cores for, and memory."""
    free = os.sysconf("SC_AVPHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    with contextlib.suppress(OSError, ValueError, IndexError):
        text = Path("/proc/meminfo").read_text(encoding="ascii")
        free = int(text.partition("MemAvailable:")[2].split()[0]) << 10
    return max(1, min(len(os.sched_getaffinity(0)), free // _MEMORY_PER_JOB))


def _is_whole(folder: Path) -> bool:
    """Whether the cache has this kernel and it is undamaged."""
    try:
        manifest = json.loads((folder / _MANIFEST).read_text(encoding="utf-8"))
        return all(sha256_of(folder / name) == sha for name, sha in manifest["sha256"].items())
    except (OSError, ValueError, KeyError, AttributeError):
        return False


def _build(job: _Job, final: Path, update: Update) -> None:
    job.revision.repository.check_out(job.revision.commit, update)
    objects = job.objects()
    with _clean_after_a_crash(objects) as inherited:
        tuxmake = _Tuxmake(job, objects, update, inherited)
        _configure(job, tuxmake)
        tuxmake.run("--make-target", job.arch.boot_target)
        made = {
            "image": objects / "arch" / job.arch.source_folder / "boot" / job.arch.boot_target,
            "vmlinux": objects / "vmlinux",
            "config": objects / ".config",
        }
        with fresh_folder(final) as folder:
            for name, path in made.items():
                shutil.copyfile(path, folder / name)
            if job.pahole:
                _without_debug_info(job, folder / "vmlinux")
            manifest = {
                "origin": job.revision.origin,
                "tree": job.revision.tree,
                "compiler": job.toolchain.identity,
                "sha256": {name: sha256_of(folder / name) for name in made},
            }
            write_atomically(folder / _MANIFEST, json.dumps(manifest, indent=1) + "\n")


def _without_debug_info(job: _Job, vmlinux: Path) -> None:
    """What BTF is made of is nine tenths of the file, and no one here reads it."""
    objcopy = job.toolchain.kconfig_environment(job.arch)["OBJCOPY"]
    run([objcopy, "--strip-debug", str(vmlinux)], env={"PATH": job.toolchain.path()})


@contextlib.contextmanager
def _clean_after_a_crash(objects: Path) -> Iterator[int]:
    """Begins with an empty folder where a build was killed: half an object file looks whole.

    What was compiled until then comes out of ccache.  make itself takes away what it was
    making when a command fails; then the build goes on where it was.

    Yields a locked file that tuxmake inherits: a next run waits here until that of one that
    was killed has ended, and under bubblewrap every compiler with it.
    """
    mark = objects.with_name(f"{objects.name}.unfinished")
    killed = mark.exists()
    with mark.open("ab") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        if killed:
            shutil.rmtree(objects, ignore_errors=True)
        objects.mkdir(exist_ok=True)
        try:
            yield file.fileno()
        except BuildError:
            mark.unlink()
            raise
        mark.unlink()


class _Tuxmake:
    """tuxmake on one tree, with an environment that is always the same."""

    def __init__(self, job: _Job, objects: Path, update: Update, inherited: int) -> None:
        self.objects = objects
        self._inherited = inherited
        self._update = update
        self._output = objects.with_name(f"{objects.name}.log")
        self._output.mkdir(exist_ok=True)
        self._writable = [objects, self._output, cache_dir("ccache")]
        self._argv = [
            *(sys.executable, "-m", "tuxmake", "--verbose", "--fail-fast"),
            *("--directory", str(job.revision.repository.work), "--build-dir", str(objects)),
            *("--output-dir", str(self._output), "--runtime", "null", "--wrapper", "ccache"),
            *("--target-arch", job.arch.kbuild, "--toolchain", job.toolchain.family),
            *("--jobs", str(_jobs())),
        ]
        self._variables = job.variables()
        for name, value in job.builder().items():
            self._argv += ["--environment", f"{name}={value}"]
        self._env = {
            "PATH": job.toolchain.path(),
            "HOME": os.environ.get("HOME", "/"),
            # A user's own defaults for tuxmake are not for these builds.
            "XDG_CONFIG_HOME": str(self._output),
            "TMPDIR": str(self._output),
            "LC_ALL": "C",
            "PYTHONDONTWRITEBYTECODE": "1",
            # What is being made is read as it is printed.
            "PYTHONUNBUFFERED": "1",
            "CCACHE_DIR": str(cache_dir("ccache")),
            # No base_dir: __FILE__ would be what ccache makes of a path, not what the kernel's
            # -fmacro-prefix-map does, and so differ by what had been compiled before.
            "CCACHE_NOHASHDIR": "1",
            # Not by dependencies alone: only preprocessing shows what .incbin takes in (vdso).
            "CCACHE_NODEPEND": "1",
        }

    def run(self, *words: str) -> None:
        """tuxmake WORDS; BuildError with the first error that it printed."""
        argv = sandbox.confined(
            [*self._argv, *words, *self._variables, "config"], self._writable, [cache_dir()]
        )
        log.info("$ %s", command_line(argv, self._env))
        lines: deque[str] = deque(maxlen=4000)
        errors: list[str] = []
        made = 0
        process = subprocess.Popen(
            argv,
            env=self._env,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            errors="replace",
            start_new_session=True,
            pass_fds=[self._inherited],
        )
        with _stopped(process):
            assert process.stdout is not None
            for line in process.stdout:
                step = _STEP.match(line.rstrip("\n"))
                if step:
                    made += 1
                    self._update(None, f"building: {step[2]} ({made})")
                    continue
                lines.append(line.rstrip("\n"))
                if _ERROR.search(line):
                    errors.append(line.strip())
        if process.wait():
            raise self._error(errors, list(lines))

    def _error(self, errors: list[str], lines: list[str]) -> BuildError:
        """The first error, and below it what the compiler went on to say of it."""
        first = errors[0] if errors else next((line for line in reversed(lines) if line), "")
        at = next((i for i, line in enumerate(lines) if line.strip() == first), 0)
        shown = [line for line in lines[at:] if not _MAKE.match(line)][:_LOG_LINES_SHOWN]
        return BuildError(
            f"does not build: {self._plain(first) or 'the build said nothing'}",
            f"The whole log is {self._output / 'build.log'}.",
            "\n".join(map(self._plain, shown)),
        )

    def _plain(self, text: str) -> str:
        """Without the folders of the cache in it."""
        return text.replace(f"{self.objects}/", "").replace(f"{self.objects.parent}/linux/", "")


@contextlib.contextmanager
def _stopped(process: subprocess.Popen[str]) -> Iterator[None]:
    """No compiler is left running when the block is left early."""
    try:
        yield
    except BaseException:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGTERM)
        process.wait()
        raise
    finally:
        if process.stdout:
            process.stdout.close()


def _configure(job: _Job, tuxmake: _Tuxmake) -> None:
    """Makes .config; BuildError names the options that Kconfig dropped, and why."""
    fragment = tuxmake.objects / "kentry.config"
    fragment.write_text(job.wanted.text(), encoding="utf-8")
    dot_config = tuxmake.objects / ".config"
    # tuxmake leaves a config alone that is there.
    dot_config.unlink(missing_ok=True)
    if job.wanted.whole:
        # Given a file and nothing to add, tuxmake 1.45 would not run olddefconfig on it.
        shutil.copyfile(fragment, dot_config)
        tuxmake.run("--make-target", "olddefconfig")
    else:
        allconfig = f"KCONFIG_ALLCONFIG={fragment}"
        tuxmake.run("--kconfig", "allnoconfig", "--environment", allconfig)
    names = config.dropped(job.wanted, config.read(dot_config.read_text(encoding="utf-8")))
    names = [
        name
        for name in names
        if name in job.wanted.named or knows_option(job.revision, name, job.arch)
    ]
    reasons = _reasons(job, dot_config, names) if names else {}
    names = [name for name in names if not config.given_up(name, job.wanted, reasons[name])]
    if names:
        raise config.dropped_error(names, job.wanted, reasons)
    _check_machine(job, dot_config)


def _check_machine(job: _Job, dot_config: Path) -> None:
    """BuildError names the options that QEMU's machine needs and the config does not have."""
    options = config.read(dot_config.read_text(encoding="utf-8"))
    missing = [need for need in config.machine_needs(job.arch) if options.get(need.option) != "y"]
    missing = [need for need in missing if knows_option(job.revision, need.option, job.arch)]
    if missing:
        lacks = ", ".join(f"{need.option} ({need.what})" for need in missing)
        sets = dict.fromkeys(
            name
            for need in missing
            for name in need.sets
            if options.get(name) != "y" and knows_option(job.revision, name, job.arch)
        )
        raise BuildError(
            f"The config does not boot in QEMU's machine for {job.arch.name}: it lacks {lacks}.",
            f"Add {' '.join(f'--set {name}=y' for name in sets)}.",
        )


def knows_option(revision: Revision, name: str, arch: Arch) -> bool:
    """Whether the source has an option of that name for the architecture or for all."""
    pattern = f"^\\s*(menu)?config\\s+{name.removeprefix('CONFIG_')}\\s*(#.*)?$"
    grep = ("grep", "--quiet", "-E", pattern, revision.commit, "--")
    places = (
        (":(glob)**/Kconfig*", ":(exclude,glob)arch/*/**"),
        (f":(glob)arch/{arch.source_folder}/**/Kconfig*",),
    )
    git = revision.repository.git
    return any(not git(*grep, *place, check=False).returncode for place in places)


def _reasons(job: _Job, dot_config: Path, names: list[str]) -> dict[str, str]:
    tree = job.revision.repository.work
    env = {
        "srctree": str(tree),
        "ARCH": job.arch.kbuild,
        "SRCARCH": job.arch.source_folder,
        "KERNELVERSION": ".".join(map(str, job.revision.version())),
        "PATH": job.toolchain.path(),
        "PYTHONWARNINGS": "ignore",
        **job.toolchain.kconfig_environment(job.arch),
        "PAHOLE": "pahole" if job.pahole else "false",
    }
    wanted = [f"{name}={job.wanted.options[name]}" for name in names]
    argv = [sys.executable, "-m", "kentry.kernels.kconfig", str(tree), str(dot_config), *wanted]
    # Kconfig files run commands, too.
    done = run(sandbox.confined(argv, [], [cache_dir()]), env=env, check=False)
    try:
        reasons = json.loads(done.stdout)
    except ValueError:
        reasons = {}
    return {
        name: reasons.get(name, "this tree's Kconfig files could not be read") for name in names
    }
