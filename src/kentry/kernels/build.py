# SPDX-License-Identifier: GPL-2.0-or-later
"""Builds a Kernel from source, config and compiler; never the same one twice.

tuxmake runs the builds, out of tree, with ccache.  kentry adds three things: tuxmake takes a
versioned compiler only in a container, so one is put first in PATH under its plain name; it
does not say which options Kconfig dropped, so kentry looks between its config and its build;
and it makes "all" unless told what, so it is told the image.
"""

import contextlib
import fcntl
import functools
import hashlib
import itertools
import json
import os
import re
import shutil
import subprocess
import sys
import time
from collections import deque
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from statistics import median

import msgspec

from kentry.arch import Arch
from kentry.errors import BuildError, UserError
from kentry.host import cache, sandbox
from kentry.host.native import cross_prefix
from kentry.host.packages import DOCTOR, missing
from kentry.host.process import child, need, run
from kentry.kernels import compiler_warnings, config, image, made_of
from kentry.kernels.config import Config, Request
from kentry.kernels.debian import distro_config
from kentry.kernels.kernel import Kernel
from kentry.kernels.repository import FULL_DISK, Repository, Revision
from kentry.progress import Update, say

_COMPILER = re.compile(r"(gcc|clang)(-\d+)?")

# Programs that LLVM=1 makes the kernel's makefiles call, beside clang.
_LLVM = (
    "ld.lld",
    *(f"llvm-{name}" for name in ("ar", "nm", "objcopy", "objdump", "readelf", "strip")),
)

# The programs that a build runs beside the compiler.
_PROGRAMS = ("bc", "bison", "ccache", "flex", "git", "make", "perl")


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
    cross: str = ""

    def path(self) -> str:
        """Put in front of PATH a folder in which the plain names are this compiler's programs."""
        own = [os.environ.get("PATH", os.defpath)]
        renamed = [(name, target) for name, target in self.links if Path(target).name != name]
        if renamed:
            digest = hashlib.sha256(repr(renamed).encode()).hexdigest()[:16]
            folder = cache.cache_dir("toolchains", digest)
            for name, target in renamed:
                link = folder / name
                if not link.is_symlink() or os.readlink(link) != target:
                    link.unlink(missing_ok=True)
                    link.symlink_to(target)
            own.insert(0, str(folder))
        return os.pathsep.join(own)

    def folders(self) -> list[Path]:
        """Return the folders of the compiler's programs and, beside them, of what these read."""
        targets = [Path(target) for _, target in self.links]
        programs = {path.parent for target in targets for path in (target, target.resolve())}
        beside = ("lib", "lib64", "libexec", self.cross.removesuffix("-") or "include")
        return [path for f in programs for path in (f, *(f.parent / n for n in beside))]

    def kconfig_environment(self) -> dict[str, str]:
        """Return what the makefiles tell Kconfig about the compiler."""
        is_clang = self.family == "clang"
        prefix = "llvm-" if is_clang else self.cross
        tools = {name.upper(): f"{prefix}{name}" for name in ("nm", "objcopy", "ar")}
        tools["CC"], tools["LD"] = (
            ("clang", "ld.lld") if is_clang else (f"{prefix}gcc", f"{prefix}ld")
        )
        flags = f"--target={self.cross.removesuffix('-')}" if is_clang else ""
        unused = dict.fromkeys(("RUSTC", "BINDGEN", "RUSTC_OR_CLIPPY", "PAHOLE"), "false")
        return {**tools, "HOSTCC": self.family, "CLANG_FLAGS": flags, **unused}


def find_compiler(arch: Arch, name: str) -> Toolchain:
    """Find gcc, gcc-12, clang or clang-19 for `arch`; MissingToolError names its packages."""
    match = _COMPILER.fullmatch(name)
    if not match:
        remedy = "Write it like gcc, gcc-12 or clang-19."
        raise UserError(f"'{name}' is not a compiler that kentry knows.", remedy)
    family, version = match[1], match[2] or ""
    variables: tuple[str, ...] = ()
    if family == "gcc":
        cross = cross_prefix(arch)
        gcc, ld = f"{cross}gcc", f"{cross}ld"
        wanted = {gcc: f"{gcc}{version}", ld: ld}
        tools = [f"{gcc}{version}"]
    else:
        wanted = {program: f"{program}{version}" for program in ("clang", *_LLVM)}
        # Older makefiles take clang's --target from it; no program is called so.
        cross, tools = arch.cross, [*wanted.values()]
        variables = ("LLVM=1",)
    paths = {plain: shutil.which(program) for plain, program in wanted.items()}
    if not all(paths.values()):
        raise missing(f"There is no {name} here that compiles for {arch.name}.", *tools)
    links = tuple((plain, str(path)) for plain, path in paths.items())
    printed = (
        run([program, "--version"], env={"LC_ALL": "C"}, check=False).stdout
        for _, program in links[:2]
    )
    identity = tuple(text.partition("\n")[0] for text in printed)
    return Toolchain(name, family, links, identity, variables, cross)


def check_tools(arch: Arch, family: str = "gcc") -> None:
    """Raise MissingToolError with what a build for `arch` lacks; `family` compiles the host's."""
    lacking = [program for program in (*_PROGRAMS, family) if not shutil.which(program)]
    if not lacking:
        include = (family, "-E", "-x", "c", "/dev/null", "-include")
        for header in arch.build_headers:
            if run([*include, header], check=False).returncode:
                lacking.append(header)
    if lacking:
        sentence = f"A kernel for {arch.name} cannot be built without {' '.join(lacking)}."
        raise missing(sentence, *lacking, otherwise=DOCTOR)


# Raised whenever the same source, config and compiler would make another kernel or manifest.
_VERSION = 3
_KEY_DIGITS = 16

_LOG_LINES_SHOWN = 8
_LOG_LINES_KEPT = 4000
# For how long a build may go on, in seconds: allmodconfig takes some hours on two cores.
_MOST_SECONDS = 12 * 3600
# Of what a build prints, bytes: allmodconfig with all its warnings has some 10 MB.
_MOST_PRINTED = 256 << 20
_LONGEST_LINE = 1 << 16
# Of all that builds leave in a folder, bytes: allmodconfig with debug info has some 60 GB.
_MOST_COMPILED = 128 << 30
# A compiler's peak is near 0.5 GB, the link's 1 GB; bytes.
_MEMORY_PER_JOB = 1 << 30

# "  CC      kernel/fork.o": what kbuild says it is making.
_STEP = re.compile(r"^  ([A-Z][A-Z0-9_\[\] ]{0,7}) +(\S+)$")
_ERROR = re.compile(
    r"(fatal error|\berror): |undefined reference|^ERROR: |^FAILED|: multiple definition|\*\*\* "
)
# ccache finds an object by what the preprocessor prints.  Without numbers of lines, and without
# the empty lines that comments leave, a comment in a header is no new object.  __LINE__ is a number
# by then, so a file that uses one is compiled again; with debug info all are.  The compiler gets
# the source itself: from this text gcc 12 makes other code for kernel/sched.
_CPP = """#!/bin/sh
"$@" || exit
case " $* " in *" -g"* | *-gdwarf*) exit ;; esac
while [ $# -gt 1 ]; do
	[ "$1" != -o ] || exec sed -i -e '/^[[:space:]]*$/d' -e '/^# [0-9]* "[^"]*"$/d' \\
		-e 's/^# [0-9]* "/# 1 "/' "$2"
	shift
done
"""
# What a full disk and the kernel's out-of-memory killer make a compiler say.
_SPENT = re.compile(
    rf"{FULL_DISK}|Killed signal terminated|virtual memory exhausted|[Cc]annot allocate memory"
)
# What make and tuxmake add once something has failed.
_MAKE = re.compile(r"make(\[\d+\])?: |[A-Z]: ")

# Programs that Kconfig would write into the config where a machine has them.
_NOT_USED = ("RUSTC=false", "BINDGEN=false")
# With -j, which kernels before 6.12 give pahole, the types' order differs from build to build.
_PAHOLE = ("PAHOLE=pahole", "PAHOLE_FLAGS=--btf_gen_floats")

# Nothing about who builds, where or when gets into a kernel.
_BUILDER = {
    "KBUILD_BUILD_TIMESTAMP": "Thu Jan  1 00:00:00 UTC 1970",
    **dict.fromkeys(("KBUILD_BUILD_USER", "KBUILD_BUILD_HOST"), "kentry"),
    "KBUILD_BUILD_VERSION": "1",
    **dict.fromkeys(("LOCALVERSION", "KCFLAGS"), ""),
}


@dataclass(frozen=True)
class Build:
    """One build; `pahole` is what that program prints as its version, "" for a build without."""

    revision: Revision
    arch: Arch
    config: Config
    toolchain: Toolchain
    pahole: str = ""

    @cached_property
    def place(self) -> Repository:
        """Where it is compiled."""
        return self.revision.repository.here()

    def key(self) -> str:
        """Return the SHA-256 of everything that decides what the kernel will be."""
        parts = {
            "version": _VERSION,
            "tree": self.revision.tree,
            "arch": self.arch.name,
            "config": self.config.text(),
            "whole": self.config.whole,
            **({"config_file": self.config.file} if self.config.file else {}),
            "compiler": self.toolchain.identity,
            **({"pahole": self.pahole} if self.config.debug_info else {}),
            **({"debug_info": "kept"} if self.pahole and self.config.keeps_debug_info else {}),
        }
        return hashlib.sha256(json.dumps(parts, sort_keys=True).encode()).hexdigest()

    def objects(self, anew: bool = False) -> Path:
        """Return the folder it is compiled in: one for all configs that begin the same way."""
        # make compiles again only what an option touches.  Debug info touches all.
        begins = "file" if self.config.whole else "debug" if self.config.debug_info else "tiny"
        name = f"{self.arch.name}-{begins}-{self.toolchain.name}"
        folder = self.place.folder
        # Neither's name begins with the other's: -fdebug-prefix-map compares no further.
        return (folder.with_name(f"anew-{folder.name}") if anew else folder) / name


def plan(revision: Revision, arch: Arch, request: Request, update: Update) -> Build:
    """Return the build that a request asks for; UserError, MissingToolError, FetchError."""
    if request.config in (config.TINY, config.USERLAND):
        base = config.tiny(arch, request.config)
    elif request.config == config.DISTRO:
        base = config.distro(distro_config(revision.version(), arch, update), arch)
    else:
        # What is no file here may be one of the source.
        is_here = Path(os.path.expanduser(request.config)).exists()
        base = config.of_file(request.config, None if is_here else revision.file(request.config))
    asked = config.with_sets(base, request.sets)
    pahole = run([need("pahole"), "--version"]).stdout.strip() if asked.btf else ""
    return Build(revision, arch, asked, find_compiler(arch, request.compiler), pahole)


def built(build: Build, update: Update, anew: Path | None = None) -> Path:
    """Return the folder with image, vmlinux and config; MissingToolError, BuildError."""
    # `anew` is the only trusted folder for ccache.  The kernel is built in a new folder, beside
    # the cached one, and takes the place of the last one built anew.
    folder = cache.cache_dir("built") / (f"{build.key()}.anew" if anew else build.key())
    if not anew and cache.read_manifest(folder):
        return folder
    family = build.toolchain.family
    check_tools(build.arch, dict(build.toolchain.links).get(family, family))
    sandbox.check()
    # One build at a time on a machine: each already uses every core.  Each kernel is built once.
    waits, key = "another kernel to be built", f"built-{build.key()[:_KEY_DIGITS]}"
    slot = cache.held(build.place.folder.with_name("lock"), update, waits)
    own = cache.held(cache.cache_dir("locks") / key, update, waits)
    with own, slot, cache.no_space_is_an_error(folder), build.place.locked(update):
        if anew or not cache.read_manifest(folder):
            _make(build, folder, update, anew)
    return folder


def typical_seconds(build: Build) -> tuple[float, int] | None:
    """Return the median time of such builds here, and of how many; None where there was none.

    Such are builds in the folder of this one, where make compiles only what has changed; without
    any, whole ones of its architecture, compiler and kind of config.
    """
    folder = build.objects()
    here, whole = list[float](), list[float]()
    for file in cache.cache_dir("built").glob("*/manifest.json"):
        own = cache.read_json(file)
        objects, seconds = Path(own.get("objects", "")), own.get("seconds")
        if seconds and objects.name == folder.name and own["whole"]:
            whole.append(seconds)
        elif seconds and objects == folder:
            here.append(seconds)
    times = here or whole
    return (median(times), len(times)) if times else None


def new_warnings(old: Build, new: Build) -> list[str] | None:
    """Return what compilers warn of in `new` alone; None where one of them is not built."""
    facts = [cache.read_manifest(cache.cache_dir("built") / b.key()) for b in (old, new)]
    return compiler_warnings.added(*(f["warnings"] for f in facts)) if all(facts) else None


def kernel(
    spec: str,
    revision: Revision,
    arch: Arch,
    request: Request,
    update: Update,
    *,
    anew: Path | None = None,
) -> Kernel:
    """Build a kernel or take it from the cache; raises what plan() and built() do."""
    build = plan(revision, arch, request, update)
    folder = built(build, update, anew)
    origin = {
        **revision.origin,
        "tree": revision.tree,
        # That of a file, or a name of ours, which has no folder.
        "config": Path(request.config).name,
        "config_set": " ".join(sorted(request.sets)),
        "linker": build.toolchain.identity[1],
    }
    file, dot_config, vmlinux = (folder / name for name in ("image", "config", "vmlinux"))
    return image.load(spec, file, arch, update, origin, config=dot_config, vmlinux=vmlinux)


def knows_option(revision: Revision, name: str, arch: Arch) -> bool:
    """Return whether the source has an option of that name for the architecture or for all."""
    pattern = f"^\\s*(menu)?config\\s+{name.removeprefix('CONFIG_')}\\s*(#.*)?$"
    grep = ("grep", "--quiet", "-E", pattern, revision.commit, "--")
    common = (":(glob)**/Kconfig*", ":(exclude,glob)arch/*/**")
    own = (f":(glob)arch/{arch.source_folder}/**/Kconfig*",)

    def have_it(files: tuple[str, ...]) -> bool:
        done = revision.repository.git(*grep, *files, check=False)
        # 1 is that there is none.
        if done.returncode > 1:
            done.check_returncode()
        return not done.returncode

    with revision.repository.reading(revision.commit):
        return any(map(have_it, (common, own)))


def _make(build: Build, final: Path, update: Update, anew: Path | None) -> None:
    began, tree = time.monotonic(), build.place.work
    build.place.check_out(build.revision.commit, update)
    objects = build.objects(anew is not None)
    objects.parent.mkdir(exist_ok=True)
    # After a build that was killed the folder is emptied: half an object file looks whole.
    mark = _beside(objects, "unfinished")
    killed = mark.exists()
    # tuxmake inherits the locked file: after a run that was killed this waits for its compilers.
    with mark.open("ab") as file, contextlib.ExitStack() as afterwards:
        update(None, "waiting for the compilers of a kentry that was killed")
        fcntl.flock(file, fcntl.LOCK_EX)
        warnings = _beside(objects, "warnings")
        made = {
            "image": f"arch/{build.arch.source_folder}/boot/{build.arch.image_format}",
            "vmlinux": "vmlinux",
            "config": ".config",
        }
        if killed or anew or not _is_as_left(objects, made.values(), update):
            shutil.rmtree(objects, ignore_errors=True)
            warnings.unlink(missing_ok=True)
        if anew:
            afterwards.callback(shutil.rmtree, objects, ignore_errors=True)
            afterwards.callback(warnings.unlink, missing_ok=True)
        objects.mkdir(exist_ok=True)
        whole = not any(objects.glob("vmlinux"))
        # The progress is of as many steps as the last such build took.
        steps_file = cache.cache_dir("built") / "steps.json"
        steps, kind = cache.read_json(steps_file), f"{objects.name}-{'whole' if whole else 'again'}"
        reader = compiler_warnings.Reader(warnings, tree)
        tuxmake = _Tuxmake(build, objects, update, file.fileno(), anew, reader)
        failure: BuildError | None = None
        try:
            update(None, "configuring")
            _configure(build, tuxmake)
            target = ("--make-target", build.arch.image_format)
            steps[kind] = tuxmake.run(*target, steps=steps.get(kind, 0))
            cache.write_json(steps_file, steps)
        except BuildError as err:
            failure = err
        facts = {
            "origin": build.revision.origin,
            "tree": build.revision.tree,
            "compiler": build.toolchain.identity,
            "warnings": reader.kept(),
            "objects": str(objects),
            "whole": whole,
        }
        if not failure:
            with cache.fresh_folder(final) as folder:
                for name, path in made.items():
                    shutil.copyfile(_left(objects, path), folder / name)
                if not build.config.keeps_debug_info:
                    objcopy = build.toolchain.kconfig_environment()["OBJCOPY"]
                    strip = [objcopy, "--strip-debug", str(folder / "vmlinux")]
                    env = {"PATH": build.toolchain.path()}
                    readable = [cache.cache_dir("toolchains"), *build.toolchain.folders()]
                    run(sandbox.confined(strip, env=env, writable=[folder], readable=readable))
                update(None, "reading what it was made of")
                read = {build.config.file} - {""}
                parts = made_of.collect(objects, tree, folder / "vmlinux", read)
                names = (*made, made_of.write(folder, parts).name)
                facts["seconds"] = round(time.monotonic() - began, 1)
                cache.write_manifest(folder, names, facts)
        # What the next build must find there; what is built anew does not stay.
        if not anew:
            update(None, "computing checksums of what was compiled")
            cache.write_json(_beside(objects, "checksums"), {"files": _checksums(objects)})
        mark.unlink()
        if failure:
            raise failure


def _is_as_left(objects: Path, made: Iterable[str], update: Update) -> bool:
    """Whether a build may go on there: all files are plain and are those that the last one left."""
    if not (objects.exists() and all(sandbox.is_plain(objects / name) for name in made)):
        return False
    update(None, "checking what is compiled already")
    left = cache.read_json(_beside(objects, "checksums")).get("files")
    if left is None or left != _checksums(objects):
        say(f"{objects} is not as the last build left it. All is compiled again.")
        return False
    return True


def _checksums(objects: Path) -> dict[str, str] | None:
    """Return by path the SHA-256 of the warnings and of each compiled file, or a link's target.

    None where there is more than _MOST_COMPILED: a confined program may leave files without end.
    """
    paths = [Path(at, name) for at, _, names in os.walk(objects) for name in names]
    # What compilers said of objects that are not compiled again.
    paths.append(_beside(objects, "warnings"))
    files = [path for path in paths if path.is_file() and not path.is_symlink()]
    if sum(path.stat().st_size for path in files) > _MOST_COMPILED:
        return None
    with ThreadPoolExecutor(len(os.sched_getaffinity(0))) as pool:
        sums = dict(zip(map(str, files), pool.map(cache.sha256_of, files), strict=True))
    return sums | {str(path): os.readlink(path) for path in paths if path.is_symlink()}


def _beside(objects: Path, what: str) -> Path:
    """Return the path of what no build can make a link: the folder's own is all that it writes."""
    return objects.with_name(f"{objects.name}.{what}")


def _left(folder: Path, name: str, most: int = made_of.MOST_BYTES) -> Path:
    path = folder / name
    if not (sandbox.is_plain(path) and path.exists()):
        raise BuildError(
            f"does not build: it makes no file {name}", f"Run make {name} in the source."
        )
    if path.stat().st_size > most:
        raise BuildError(f"does not build: {name} has more than {most >> 20} MiB")
    return path


@dataclass(frozen=True)
class _Tuxmake:
    """tuxmake on one tree, with an environment that is always the same."""

    build: Build
    objects: Path
    update: Update
    inherited: int
    anew: Path | None
    reader: compiler_warnings.Reader

    def _command(self, output: Path, *targets: str) -> list[str]:
        build, objects, tree = self.build, self.objects, self.build.place.work
        ccache = self.anew or cache.cache_dir("ccache")
        # As many compilers as there are cores for, and memory.
        free = sandbox.available_memory()
        jobs = max(1, min(len(os.sched_getaffinity(0)), free // _MEMORY_PER_JOB))
        builder = dict(_BUILDER)
        if build.config.debug_info:
            # A build ID is made of debug info, so that has no folder of ours in it.
            folders = dict.fromkeys((build.place.folder, objects.parent))
            nowhere = " ".join(f"-fdebug-prefix-map={folder}=." for folder in folders)
            builder |= {"KCFLAGS": nowhere, "KAFLAGS": nowhere}
        argv = [
            *(sys.executable, "-m", "tuxmake", "--verbose", "--fail-fast"),
            *("--directory", str(tree), "--build-dir", str(objects), "--output-dir", str(output)),
            *("--runtime", "null", "--wrapper", "ccache", "--jobs", str(jobs)),
            *("--target-arch", build.arch.kbuild, "--toolchain", build.toolchain.family),
            *(word for pair in builder.items() for word in ("--environment", "=".join(pair))),
            *(*targets, f"CROSS_COMPILE={build.toolchain.cross}", *_NOT_USED),
            *(_PAHOLE if build.pahole else ["PAHOLE=false"]),
            *(*build.toolchain.variables, "config"),
        ]
        cpp = cache.kept_file("cpp", _CPP)
        cpp.chmod(0o755)
        env = {
            "PATH": build.toolchain.path(),
            # A user's own defaults for tuxmake are not for these builds.
            "HOME": str(output),
            "TMPDIR": str(output),
            "LC_ALL": "C",
            "PYTHONDONTWRITEBYTECODE": "1",
            # What is being made is read as it is printed.
            "PYTHONUNBUFFERED": "1",
            "CCACHE_DIR": str(ccache),
            # No base_dir: __FILE__ would be what ccache makes of a path, not what the kernel's
            # -fmacro-prefix-map does, and so differ by what had been compiled before.
            "CCACHE_NOHASHDIR": "1",
            # Not by dependencies alone: only preprocessing shows what .incbin takes in (vdso).
            "CCACHE_NODEPEND": "1",
            "CCACHE_PREFIX_CPP": str(cpp),
        }
        writable = [objects, output, ccache]
        limits = sandbox.Limits(seconds=_MOST_SECONDS)
        readable = [cache.cache_dir(), build.place.folder, *build.toolchain.folders()]
        return sandbox.confined(argv, env=env, writable=writable, readable=readable, limits=limits)

    def run(self, *targets: str, steps: int = 0) -> int:
        """Run tuxmake WORDS, of about `steps` if known; return how many; its first BuildError."""
        output = _beside(self.objects, "log")
        # Of another build nothing stays there.
        shutil.rmtree(output, ignore_errors=True)
        output.mkdir()
        argv = self._command(output, *targets)
        lines: deque[str] = deque(maxlen=_LOG_LINES_KEPT)
        first = ""
        made = printed = 0
        with child(argv, stderr=subprocess.STDOUT, pass_fds=[self.inherited]) as process:
            assert process.stdout
            for row in iter(functools.partial(process.stdout.readline, _LONGEST_LINE), b""):
                printed += len(row)
                if printed > _MOST_PRINTED:
                    first = f"it printed more than {_MOST_PRINTED >> 20} MiB"
                    process.kill()
                    break
                line = row.decode(errors="replace").rstrip("\r\n")
                if step := _STEP.match(line):
                    made += 1
                    self.reader.compiles(step[2])
                    done = min(made / steps, 0.99) if steps else None
                    of = f"{made} of about {max(made, steps)}" if steps else f"{made}"
                    self.update(done, f"building: {step[2]} ({of})")
                    continue
                lines.append(line)
                self.reader.read(line)
                if not first and _ERROR.search(line):
                    first = line.strip()
            if not process.wait():
                return made
        if lines and lines[-1].startswith(sandbox.STOPPED):
            first = lines[-1].removeprefix(sandbox.STOPPED)
        if spent := next((line for line in (first, *lines) if _SPENT.search(line)), ""):
            # It is no fault of the source.
            raise UserError(
                f"This machine ran out of room or memory while it built: {spent.strip()}",
                "Free some, or name another folder in KENTRY_CACHE, and try again.",
            )
        # The first error, and below it what the compiler went on to say of it.
        first = first or next((line for line in reversed(lines) if line), "")
        after = [*itertools.dropwhile(lambda line: line.strip() != first, lines)] or [*lines]
        shown = [line for line in after if not _MAKE.match(line)][:_LOG_LINES_SHOWN]
        # Without the folders of the cache.
        text = "\n".join((first, *shown))
        for folder in (self.objects, self.build.place.work):
            text = text.replace(f"{folder}/", "")
        sentence, _, detail = text.partition("\n")
        # The next build writes its own log to the folder.
        log = cache.cache_dir("built") / f"{self.build.key()}.log"
        with contextlib.suppress(OSError, BuildError):
            shutil.copyfile(_left(output, "build.log"), log)
        raise BuildError(
            f"does not build: {sentence or 'the build said nothing'}",
            f"The whole log is {log}.",
            detail,
        )


def _configure(build: Build, tuxmake: _Tuxmake) -> None:
    """Make .config; BuildError names the options that Kconfig dropped, and why."""
    objects, dot_config = tuxmake.objects, tuxmake.objects / ".config"
    fragment = _beside(objects, "config")
    fragment.write_text(build.config.text(), encoding="utf-8")
    # tuxmake leaves an existing config alone.
    dot_config.unlink(missing_ok=True)
    if build.config.whole:
        # Given a file and nothing to add, tuxmake 1.45 would not run olddefconfig on it.
        shutil.copyfile(fragment, dot_config)
        tuxmake.run("--make-target", "olddefconfig")
    else:
        allconfig = f"KCONFIG_ALLCONFIG={fragment}"
        tuxmake.run("--kconfig", "allnoconfig", "--environment", allconfig)
    got = config.read(
        _left(objects, ".config", made_of.MOST_TEXT).read_text(encoding="utf-8", errors="replace")
    )
    names = [
        name
        for name in config.dropped(build.config, got)
        if name in build.config.named or knows_option(build.revision, name, build.arch)
    ]
    reasons = dict.fromkeys(names, "this tree's Kconfig files could not be read")
    if names:
        tree = build.place.work
        env = {
            "srctree": str(tree),
            "ARCH": build.arch.kbuild,
            "SRCARCH": build.arch.source_folder,
            "KERNELVERSION": ".".join(map(str, build.revision.version())),
            "PATH": build.toolchain.path(),
            "PYTHONWARNINGS": "ignore",
            **build.toolchain.kconfig_environment(),
            "PAHOLE": "pahole" if build.pahole else "false",
        }
        asked = [f"{name}={build.config.options[name]}" for name in names]
        argv = [sys.executable, "-m", "kentry.kernels.kconfig", str(tree), str(dot_config), *asked]
        readable = [cache.cache_dir(), build.place.folder, *build.toolchain.folders()]
        # Kconfig files run commands, too.
        done = run(sandbox.confined(argv, env=env, readable=readable), check=False)
        with contextlib.suppress(msgspec.MsgspecError):
            reasons |= msgspec.json.decode(done.stdout, type=dict[str, str])
    names = [name for name in names if not config.given_up(name, build.config, reasons[name])]
    if names:
        raise config.dropped_error(names, build.config, reasons)
    config.check_machine(
        got, build.arch, lambda name: knows_option(build.revision, name, build.arch)
    )
