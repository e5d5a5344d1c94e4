# SPDX-License-Identifier: GPL-2.0-or-later
"""Options that several commands share: a kernel's build, its measurement; and SPEC -> Recording."""

import argparse
import os
import tempfile
from collections.abc import Iterable, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, fields, replace
from itertools import product
from pathlib import Path
from typing import TYPE_CHECKING, Any

from kentry.arch import ARCHES, Arch, find_arch
from kentry.arch.processors import MAX, Processor, find_processor, processor_of_core
from kentry.boot.emulator import check_append
from kentry.boot.exact import ExactOptions
from kentry.commands import options, settings, values
from kentry.count.catalogue import catalogue, choose, match, matrix
from kentry.count.vector_units import check_length
from kentry.errors import UserError
from kentry.host.cache import read_bytes
from kentry.kernels.config import TINY, Request, parse_set
from kentry.kernels.resolve import arch_of
from kentry.kernels.spec import FLOOR_CASES, KINDS, parse
from kentry.progress import progress
from kentry.results.case_name import CaseName
from kentry.results.recording import INSTRUCTIONS, Recording, read_recording
from kentry.study.plan import Unit, measure_all

if TYPE_CHECKING:
    from kentry.models.estimate import Models

LINUX_HELP = (
    "debian:6.12, source:6.12, tree:DIR[@REV], deb:FILE, rpm:FILE,"
    " image:FILE[,symbols=vmlinux][,config=FILE], running"
)
SPEC_HELP = f"{LINUX_HELP}, floor: or floor:linux"


def _case_words(args: argparse.Namespace) -> Iterable[str]:
    """Yields the cases and groups of the architectures that are named, or of all."""
    names = [name for name in (getattr(args, "arch", None) or "").split(",") if name in ARCHES]
    cases = [case for name in names or ARCHES for case in catalogue(ARCHES[name])]
    return sorted({word for case in cases for word in (case.name, case.group) if word})


# What commands that declare an option of the same name say of it: a name has one meaning.
ARCH: dict[str, Any] = {
    "help": "x86_64, arm64 or riscv64; by default that of the file of image:, deb: or rpm:, or this"
    " machine's own",
    "completes": lambda args: ARCHES,
}
CPU: dict[str, Any] = {
    "help": "the emulated processor: a name, such as cortex-a76, rpi5 or skylake (docs/reference/"
    "processors.md), or QEMU's own MODEL,property=...; max by default, all that QEMU emulates"
}
APPEND: dict[str, Any] = {
    "group": options.RARE,
    "help": "words for the kernel's command line, such as mitigations=off",
}
CASE: dict[str, Any] = {
    "help": "cases by name or pattern, such as getppid, '*@int80' or 'getppid+vec=once+vl=256',"
    " or by group: entry, events, io, memory, process, vector, work; by default all that are in no"
    " group; can be repeated",
    "completes": _case_words,
}
MEMORY: dict[str, Any] = {
    "type": values.memory,
    "group": options.RARE,
    "help": "the guest's memory in MiB",
}
METRIC: dict[str, Any] = {
    "help": "metrics to show beside instructions, with commas: loads, branches.taken, lines.data,"
    " ..., or all"
}
# Windows that are counted for each case, and windows whose path is kept.  A matrix has many
# cases, and more windows would not change its counts; more contexts would take minutes.
WINDOWS, PATHS = 1000, 128
MATRIX_WINDOWS, MATRIX_PATHS = 200, 32
BOOT_SECONDS = 120.0
# What a search of commits measures without --case.
_SEARCHED = ("getppid",)


def is_spec(text: str) -> bool:
    """Returns whether `text` names a kernel rather than a file."""
    kind = text.partition(":")[0].partition(",")[0]
    return kind in KINDS and not os.path.isfile(text)


A_KERNEL = {
    "without a kernel to boot: it shapes how one is measured": lambda options: any(
        map(is_spec, options.inputs())
    )
}
A_LINUX = {
    "on the floor, which has no command line": lambda options: (
        not all(text.startswith("floor") for text in options.inputs() if is_spec(text))
    )
}
_OF_OTHERS = {
    "without a kernel or --core: nothing that others wrote is built or read": lambda options: (
        any(map(is_spec, options.inputs())) or bool(getattr(options, "core", ()))
    )
}
_PLANNED = A_KERNEL | {
    "with --fresh: its lines leave what they measure in the cache": lambda options: (
        not getattr(options, "fresh", False)
    )
}
A_SOURCE = {
    "here: it shapes the build of a kernel from source: or tree:": lambda options: any(
        text.startswith(("source:", "tree:")) for text in options.inputs()
    )
}


def named_arch(name: str | None, specs: Iterable[str]) -> Arch | None:
    """Returns the architecture that --arch names, or else the first that a spec's file is for."""
    return find_arch(name) if name else next(filter(None, map(arch_of, specs)), None)


@dataclass(frozen=True, kw_only=True)
class KernelOptions(options.MeasuredOptions):
    """Which kernel to boot, and for how long."""

    arch: str | None = options.option("--arch ARCH", needs=A_KERNEL, **ARCH)
    configs: tuple[str, ...] = options.option(
        "--config CONFIG",
        default=(),
        action="append",
        needs=A_KERNEL | A_SOURCE,
        help="config of a kernel that is built: tiny (kentry's smallest, the default), userland"
        " (with a program the default), distro (Debian's own, trimmed), a .config file, or one of"
        " the source such as arch/arm64/configs/defconfig; and"
        " options on top of it, such as CONFIG_SECCOMP=y or CONFIG_AUDIT=n; can be repeated",
    )
    timeout: float | None = options.anywhere("timeout", A_KERNEL)
    emulator: str | None = options.anywhere("emulator", A_KERNEL)
    no_sandbox: bool = options.anywhere("no_sandbox", _OF_OTHERS)

    def inputs(self) -> list[str]:
        """The specs and files that the command works on: its operands that are one word each."""
        operands = (getattr(self, item.name) for item in fields(self) if not item.metadata["flags"])
        return [word for word in operands if isinstance(word, str)]

    def find_arch(self) -> Arch:
        """Return --arch, or the one that an image or package is for, or the user's default."""
        return named_arch(self.arch, self.inputs()) or settings.default_arch()

    def request(self) -> Request:
        """How to build; UserError for a --config that is badly written."""
        sets = tuple(text for text in self.configs if text.startswith("CONFIG_"))
        for text in sets:
            parse_set(text)
        bases = [text for text in self.configs if text not in sets]
        if len(bases) > 1:
            raise UserError(
                f"A kernel has one config, not {' and '.join(bases)}.", "Name one of them."
            )
        return Request("".join(bases) or self.config, sets)

    @property
    def config(self) -> str:
        """The config of a kernel that is built, unless --config names one."""
        return TINY


@dataclass(frozen=True, kw_only=True)
class MeasureOptions(KernelOptions):
    """How to build and measure a kernel."""

    case: tuple[str, ...] = options.list_option("--case CASE,...", **CASE)
    cpu: str | None = options.option("--cpu CPU", needs=A_KERNEL, **CPU)
    append: str | None = options.option("--append WORDS", needs=A_KERNEL | A_LINUX, **APPEND)
    on: str | None = options.anywhere("on", A_KERNEL)
    plan: Path | None = options.anywhere("plan", _PLANNED)  # noqa: RUF009  a field

    def case_words(self, arch: Arch) -> list[str]:
        """Returns the words for catalogue.choose()."""
        return list(self.case)

    @property
    def lengths(self) -> tuple[int, ...]:
        """The vector lengths in bits of cases whose names have none; () is the processor's own."""
        return ()

    def processor(self, arch: Arch) -> Processor:
        """Returns the processor that is emulated."""
        return find_processor(arch, self.cpu or settings.default_cpu(arch))

    def measurement(self, arch: Arch) -> ExactOptions:
        """Returns what to measure, and how; UserError for cases that `arch` does not have."""
        check_append(self.append or "")
        processor = self.processor(arch)
        patterns = self.case_words(arch)
        cases = choose(arch, patterns)
        # The cases' names do not tell the architecture's own default length from the processor's.
        if processor.name != MAX:
            states = filter(None, (CaseName.parse(pattern).state for pattern in patterns))
            named = [(state.unit, state.length) for state in states]
            for unit, length in (*named, *product(processor.lengths, self.lengths)):
                check_length(processor, unit, length)
        if self.lengths:
            cases = [name for length in self.lengths for name in choose(arch, patterns, length)]
        return ExactOptions(
            cpu=processor.name,
            append=self.append or "",
            cases=tuple(dict.fromkeys(cases)),
            windows=WINDOWS,
            path_windows=PATHS,
            timeout=self.timeout or BOOT_SECONDS,
            emulator=self.emulator or "installed",
        )

    def measurement_of(self, arch: Arch, spec: str) -> ExactOptions:
        """As measurement(), but of what the spec says of the processor and the command line."""
        booted = parse(spec).booted
        cpu, parameters = booted.get("cpu", self.cpu), (self.append, booted.get("append"))
        append = " ".join(filter(None, parameters)) or None
        return replace(self, cpu=cpu, append=append).measurement(arch)

    def unit(self, text: str, *, fresh: bool = False) -> Unit:
        """Returns the spec, or the file of a recording, to measure as the options say."""
        arch = self.find_arch()
        is_kernel = is_spec(text)
        return Unit(
            spec=text,
            arch=arch.name,
            measurement=(self.measurement_of(arch, text) if is_kernel else self.measurement(arch)),
            source=None if is_kernel else _file(text),
            label="" if is_kernel else text,
            request=self.request(),
            fresh=fresh,
        )


@dataclass(frozen=True, kw_only=True)
class CachedOptions(MeasureOptions):
    """How to measure a kernel, for a command that takes recordings from the cache."""

    fresh: bool = options.anywhere("fresh", A_KERNEL)


@dataclass(frozen=True, kw_only=True)
class CoreOptions(MeasureOptions):
    """For a command that estimates the cycles of paths."""

    core: tuple[str, ...] = options.list_option(
        "--core NAME,...",
        help="estimate the cycles of each path on these cores by LLVM's scheduling models, such as"
        " neoverse-n2,cortex-a55; without --cpu a kernel is measured on the first one's processor;"
        " can be repeated",
    )

    def processor(self, arch: Arch) -> Processor:
        """Returns that of --cpu, or of the first core that has one, or the user's default."""
        of_cores = (processor_of_core(arch, core) for core in self.core)
        named = None if self.cpu else next(filter(None, of_cores), None)
        return named or super().processor(arch)

    def check_cores(self) -> None:
        """Raises UserError, before a kernel is measured, for a --core that cannot be estimated."""
        if self.core and any(map(is_spec, self.inputs())):
            self._models(self.find_arch())

    def estimating(self) -> AbstractContextManager[object]:
        """Shows that cycles are estimated while the block runs; nothing without --core."""
        return progress("estimating cycles") if self.core else nullcontext()

    def with_estimates(self, recording: Recording, names: Sequence[str] | None = None) -> Recording:
        """The recording with estimates of the cases of these names; as it is without --core."""
        if not self.core:
            return recording
        return self._models(find_arch(recording.kernel["arch"])).added_to(recording, names)

    def with_misses(self, recording: Recording, names: Sequence[str] | None = None) -> Recording:
        """Returns the same for what the paths miss in the cores' caches and TLBs."""
        if not self.core:
            return recording
        from kentry.models.caches import with_misses

        return with_misses(recording, dict.fromkeys(self.core), names)

    def _models(self, arch: Arch) -> "Models":
        import kentry.models.caches  # noqa: F401  says what it lacks before anything is measured
        from kentry.models.estimate import find_models

        return find_models(arch, self.core)


_COMMITS = {"without commits to search": lambda options: options.has_commits()}


@dataclass(frozen=True, kw_only=True)
class TreeOptions(MeasureOptions):
    """How to measure and search the commits of a git tree."""

    tree: Path = options.path_option(
        "--tree DIR",
        default=Path("."),
        group=options.RARE,
        needs={"without commits to search": lambda options: options.reads_tree()},
        help="the git tree of the commits, which is only read",
    )
    first_parent: bool = options.flag(
        "--first-parent",
        group=options.RARE,
        needs=_COMMITS,
        help="blame a merge as one commit instead of searching the branch that it merged",
    )
    compiler: str = options.option(
        "--compiler NAME",
        default="gcc",
        group=options.RARE,
        needs=_COMMITS,
        help="compiler of the kernels: gcc, gcc-12, clang, clang-19",
    )
    jobs: int = options.option(
        "--jobs N",
        type=values.whole(1, 64),
        default=1,
        group=options.RARE,
        needs=_COMMITS,
        help="try N commits at once; builds still come one after the other",
    )

    def request(self) -> Request:
        """How to build."""
        return replace(super().request(), compiler=self.compiler)

    def case_words(self, arch: Arch) -> list[str]:
        """Returns the words for catalogue.choose(); without --case the one of _SEARCHED."""
        return super().case_words(arch) or list(_SEARCHED)

    def top(self) -> Path:
        """Returns the folder of --tree."""
        return Path(os.path.realpath(os.path.expanduser(self.tree)))


_A_STATE = {
    "without a vector state, such as --matrix vector or --case getppid+vec=once": lambda options: (
        options.matrix or "=" in "".join(options.case)
    )
}


@dataclass(frozen=True, kw_only=True)
class MatrixOptions(MeasureOptions):
    """How to measure a kernel, for a command that measures a whole matrix of vector states."""

    matrix: str | None = options.option(
        "--matrix UNIT",
        group=options.RARE,
        needs=A_KERNEL,
        help="every state of a vector unit with every case that it matters to: vector (the"
        " architecture's first unit), or arm64's ssve or za",
    )
    vl: tuple[int, ...] = options.option(
        "--vl BITS,...",
        default=(),
        type=values.lengths,
        group=options.RARE,
        needs=A_KERNEL | _A_STATE,
        help="vector lengths of the cpu model in bits; each takes a boot",
    )

    def case_words(self, arch: Arch) -> list[str]:
        """Returns the words for catalogue.choose(), with those of --matrix."""
        patterns = super().case_words(arch)
        return patterns if self.matrix is None else [*patterns, *matrix(arch, self.matrix)]

    @property
    def lengths(self) -> tuple[int, ...]:
        """Those of --vl."""
        return self.vl

    def measurement(self, arch: Arch) -> ExactOptions:
        """Returns what to measure, and how; UserError for cases that `arch` does not have."""
        exact = super().measurement(arch)
        if self.matrix is None:
            return exact
        return replace(exact, windows=MATRIX_WINDOWS, path_windows=MATRIX_PATHS, rounds=1)


def check_kernel(text: str) -> None:
    """Raises UserError, before anything is measured, where `text` is no kernel's spec."""
    if os.path.isfile(text):
        raise UserError(
            f"{text} is a file, and this command measures a kernel.",
            f"For the kernel in a file write image:{text}; kentry diff, annotate and report read"
            " recordings.",
        )
    parse(text)


def record(spec: str, options: MeasureOptions, *, reuse: bool = False) -> Recording:
    """Resolves, boots and measures `spec`; with `reuse`, a cached recording will do."""
    return measure_all([options.unit(spec, fresh=not reuse)])[0]


def floor_counts(spec: str, options: MeasureOptions) -> dict[str, int]:
    """What each case of the floor executes on the spec's processor: cached, or by a short boot."""
    cpu = parse(spec).booted.get("cpu", options.cpu)
    measured = record("floor:", replace(options, case=FLOOR_CASES, cpu=cpu), reuse=True)
    return {case.name: case.metrics[INSTRUCTIONS].value for case in measured.cases}


def obtain(text: str, options: MeasureOptions, *, fresh: bool = False) -> Recording:
    """Returns the recording in the file `text`, or of that spec: from the cache, unless `fresh`."""
    return record(text, options, reuse=not fresh) if is_spec(text) else read_recording(_file(text))


def _file(text: str) -> Path:
    """Returns the file of a recording; UserError where it looks like a spec, or like a kernel."""
    if not os.path.exists(text) and ":" in text:
        parse(text)
    if not os.path.exists(text) or os.path.isfile(text):
        first = read_bytes(Path(text), "Name a recording's file, or a kernel's spec.", 1)
        if first not in b"{[ \t\r\n":
            raise UserError(
                f"{text} is not a recording: it is not JSON.",
                f"For the kernel in a file write image:{text}; kentry vector stats reads traces.",
            )
    return Path(text)


def obtain_both(
    inputs: tuple[str, str], options: MeasureOptions, *, fresh: bool = False
) -> tuple[Recording, Recording, list[str] | None]:
    """Two recordings, and the cases that --case names in a file; a spec is measured for those."""
    files = [text for text in inputs if not is_spec(text)]
    sides = {file: obtain(file, options) for file in files}
    names = None
    if files and options.case:
        names = match_cases(list(sides.values()), options.case, " or ".join(sides))
        options = replace(options, case=tuple(names))
    specs = list(dict.fromkeys(filter(is_spec, inputs)))
    for file in files:
        for spec in specs:
            if not any(INSTRUCTIONS in case.metrics for case in sides[file].cases):
                raise UserError(
                    f"{file} has times only, and kentry would count instructions of {spec}.",
                    "Name two recordings with times, as kentry stat --compare of two kernels"
                    " writes them.",
                )
            own = sides[file].kernel["arch"]
            named = named_arch(options.arch, [spec])
            if named and named.name != own:
                remedy = f"Compare it with a kernel of {own}."
                raise UserError(
                    f"{file} is of {own}, and {spec} is of {named.name}.",
                    "Leave --arch out." if options.arch else remedy,
                )
            options = replace(options, arch=own)
    if isinstance(options, CoreOptions):
        options.check_cores()
    units = [options.unit(spec, fresh=fresh) for spec in specs]
    sides |= dict(zip(specs, measure_all(units), strict=True))
    return sides[inputs[0]], sides[inputs[1]], names


def match_cases(recordings: Sequence[Recording], patterns: Sequence[str], files: str) -> list[str]:
    """The cases in `files` that `patterns` stand for; UserError where one stands for none."""
    names = list(dict.fromkeys(case.name for recording in recordings for case in recording.cases))
    return match(names, recordings[0].kernel["arch"], patterns, files)


def check_writable(file: Path) -> None:
    """Raises UserError, before the measurement, if a result cannot be written to `file`."""
    if not os.path.isdir(file.parent):
        raise UserError(f"The folder of {file} does not exist.", f"Run: mkdir -p {file.parent}")
    if os.path.isdir(file):
        raise UserError(f"{file} is a folder.", "Name a file.")
    try:
        if os.path.exists(file) and not os.path.isfile(file):
            file.open("ab").close()
        else:
            tempfile.TemporaryFile(dir=os.path.dirname(os.path.realpath(file))).close()
    except OSError as err:
        raise UserError(f"{file} cannot be written: {err.strerror}.", "Name another file.") from err
