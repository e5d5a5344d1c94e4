# SPDX-License-Identifier: GPL-2.0-or-later
"""A recording: everything measured on one kernel, and its file (docs/reference/formats.md).

It may come from anyone: what is read has the structs' types and ranges, adds up, and moves no
terminal's cursor.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final, Literal, NamedTuple, TypedDict

from msgspec import UNSET, Meta, Struct, UnsetType, field
from msgspec.structs import force_setattr, replace

from kentry import __version__
from kentry.arch import find_arch
from kentry.arch.processors import MAX, vector_bits
from kentry.errors import ContradictionError
from kentry.host.cache import write_atomically
from kentry.results.case_name import CaseName
from kentry.results.caveats import Caveat
from kentry.results.document import (
    OMITTED,
    UNWRITTEN,
    Confidence,
    Count,
    Hash,
    Number,
    Positive,
    about,
    dump,
    read_document,
    with_checksum,
)
from kentry.results.document import (
    to_json as structs_to_json,
)
from kentry.results.estimate import Estimate, Misses
from kentry.stats import exact

# The kind of the floor's origin, and of its spec.
FLOOR = "floor"

# The role of a path: the commonest of its case's windows, or another one.
MODAL: Final = "modal"
OTHER: Final = "other"

INSTRUCTIONS = "instructions"
# What a window executes on each side, which is counted in the same windows.
_OF_SIDES = (INSTRUCTIONS, "user_instructions", "firmware_instructions")
# The other exact metrics of a path, in the order in which people read them; path/metrics.py says
# what they are.  There is also one "serialising.NAME" for each such instruction that was executed.
ABOUT_PATHS = (
    *("loads", "stores", "bytes.loaded", "bytes.stored", "atomics"),
    *("branches", "branches.taken", "branches.indirect", "calls", "returns", "serialising"),
    *("lines.code", "lines.code.32", "lines.code.128", "pages.code"),
    *("fetches.16", "fetches.32", "fetches.64", "targets.unaligned", "functions.straddling"),
    *("lines.data", "lines.data.32", "lines.data.128", "pages.data", "stack.bytes"),
)

# Those that follow from where a path's instructions lie, not only from which they are.
OF_LAYOUT = ABOUT_PATHS[ABOUT_PATHS.index("lines.code") : ABOUT_PATHS.index("lines.data")]

# Windows of a case whose paths are recorded, unless a user wants fewer.
ENOUGH_PATHS = 128

# Metrics of the probe itself, not of a kernel.
PROBE_METRICS = frozenset({"loop_ns", "user-cycles", "user-instructions", "user-branches"})

# In a recording joined from counts and times, the keys of the timed side's target begin with it,
# and so do those of its options that have another value on the counted side.
TIMED = "timed_"


Pair = tuple[Count, Positive]


class SourceLine(NamedTuple):
    """A line of a file in the kernel's source, and the function that it is in."""

    file: str
    line: Count
    function: str


class Instruction(NamedTuple):
    """One kernel instruction: address without KASLR, bytes in memory order, text, place.

    `source_lines` are its own, then the line where that was inlined, and so on; () if not known.
    `tables` are the sections in which the kernel lists what it patches there.
    """

    address: int
    code: str
    text: str
    function: str
    offset: int
    source_lines: tuple[SourceLine, ...] = ()
    tables: tuple[str, ...] = ()


AccessRow = tuple[
    Count, Annotated[str, Meta(pattern="^[0-9a-f]{1,16}$")], Positive, Literal["load", "store"]
]


class Access(NamedTuple):
    """What the instruction at a position of a path loads, or stores: `size` bytes in a row."""

    position: int
    address: int
    size: int
    is_store: bool

    @property
    def row(self) -> AccessRow:
        """As a file has it."""
        return self.position, f"{self.address:x}", self.size, "store" if self.is_store else "load"


class VectorEvent(Struct, frozen=True):
    """Something done to vector state `times` times in a window: what, why, in which function."""

    name: str
    cause: str
    function: str
    times: Positive


# Of a path, in order: places of instructions in the code, and how many follow each other there.
Runs = tuple[tuple[int, int], ...]


class KernelPath(Struct, frozen=True, kw_only=True):
    """A distinct path of a case."""

    role: Literal["modal", "other"]
    times: Positive
    # The sum of the runs' lengths, whatever a file says.
    length: Count = field(default=0, name="instructions")
    why: str = ""
    runs: Annotated[
        tuple[Pair, ...], about("[first index into code.instructions, how many], in order")
    ]
    # Also empty where nobody looked for events; Recording.markers tells.
    events: Annotated[tuple[VectorEvent, ...], OMITTED] = ()
    # UNSET where they are not known.
    rows: Annotated[
        tuple[AccessRow, ...] | UnsetType,
        about(
            "What one window's kernel instructions load and store, in order: [position of the"
            " instruction in the path, address, bytes, load or store]; of the modal path"
        ),
    ] = field(default=UNSET, name="accesses")
    # UNSET where they are not known.  path/variation.py says what a call is.
    accessed: Annotated[
        tuple[tuple[Count, Count, Count, Count], ...] | UnsetType,
        about(
            "Of one window, by call of a function: [instructions that load, that store, bytes"
            " loaded, bytes stored]"
        ),
        OMITTED,
    ] = UNSET

    def __post_init__(self) -> None:
        force_setattr(self, "length", sum(count for _, count in self.runs))

    @property
    def accesses(self) -> tuple[Access, ...] | None:
        """What one window loads and stores; None where that is not known."""
        if self.rows is UNSET:
            return None
        return tuple(
            Access(at, int(address, 16), size, kind == "store")
            for at, address, size, kind in self.rows
        )

    @property
    def indexes(self) -> list[int]:
        """The places in the code of its instructions, in the order of execution."""
        return [index for first, count in self.runs for index in range(first, first + count)]


def renumbered(paths: Iterable[Runs], numbers: Sequence[int]) -> Iterator[Runs]:
    """Yields paths in a code where instruction n has place places[n]."""

    @cache
    def moved(first: int, count: int) -> Runs:
        return followed((number, 1) for number in numbers[first : first + count])

    for runs in paths:
        yield followed(piece for run in runs for piece in moved(*run))


def followed(pieces: Iterable[tuple[int, int]]) -> Runs:
    """Runs, each that follows the last one joined to it."""
    joined: list[tuple[int, int]] = []
    for first, count in pieces:
        if joined and sum(joined[-1]) == first:
            joined[-1] = (joined[-1][0], joined[-1][1] + count)
        else:
            joined.append((first, count))
    return tuple(joined)


class Metric(Struct, frozen=True, tag_field="assume", tag="exact"):
    """An exact number of a case: its commonest value and every sample, as (value, windows)."""

    value: Count
    samples: Annotated[
        tuple[Pair, ...], about("[value, windows that had it], by value", min_length=1)
    ]

    def __post_init__(self) -> None:
        if self.value != exact.mode(dict(self.samples)):
            raise ValueError("the value is not its commonest sample")

    @staticmethod
    def of(samples: dict[int, int]) -> Metric:
        """Returns the metric of a histogram that is not empty."""
        return Metric(exact.mode(samples), tuple(samples.items()))

    @property
    def windows(self) -> int:
        """How many windows were measured."""
        return sum(times for _, times in self.samples)

    @property
    def agreeing(self) -> int:
        """How many windows have the value."""
        return dict(self.samples)[self.value]

    @property
    def is_decided(self) -> bool:
        """Whether more than half of the windows have the value."""
        return exact.is_decided(dict(self.samples))


class TimedProcess(Struct, frozen=True):
    """The raw samples of one process, and which process it was; nothing in them is derived.

    Each of `values` is for `calls` calls: the ns or counts of one block, or of one turn where
    `blocks` is 1.  Turn t has values[t * blocks : (t + 1) * blocks].
    """

    build: Count
    boot: Count
    group: Annotated[Count, about("Processes of a group were forked together")]
    slot: Annotated[Count, about("Which process of its group")]
    calls: Annotated[Positive, about("Calls per value")]
    blocks: Annotated[Count, about("Values per turn; 0: not in turns")]
    values: Annotated[tuple[Number, ...], about("For `calls` calls each, in order", min_length=1)]
    empties: Annotated[
        tuple[Number, ...],
        about("The same without a call: readings of the clock, to be subtracted"),
        OMITTED,
    ] = ()


class CaseContext(Struct, frozen=True):
    """What a case's windows were in one context."""

    # `data` is empty in a recording from before it.

    context: Annotated[Count, about("Index into the recording's contexts")]
    samples: Annotated[
        tuple[Pair, ...], about("[kernel instructions, windows], by value", min_length=1)
    ]
    path: Annotated[
        Count | None, about("Index into the case's paths: the one most windows took")
    ] = None
    data: Annotated[
        dict[str, tuple[Pair, ...]],
        about("Of the metrics that depend on where data lies: [value, windows], by value"),
        OMITTED,
    ] = {}

    @property
    def value(self) -> int:
        """The commonest count."""
        return exact.mode(dict(self.samples))


class NoisyMetric(Struct, frozen=True, kw_only=True, tag_field="assume", tag="noisy"):
    """A number with noise, per call: `value` in `unit`, and the samples it comes from."""

    value: Number
    unit: Annotated[str, about("ns, cycles, ops/s, ...", min_length=1)]
    interval: Annotated[
        tuple[int | float, int | float] | None,
        about("Of the value, at the confidence: [low, high]"),
    ] = None
    confidence: Confidence | None = None
    floor: Annotated[
        Number | None,
        about(
            "The difference between two identical things in the same run, as a"
            " fraction of the value"
        ),
    ] = None
    detectable: Annotated[
        Number | None, about("The smallest change that the run could have seen, as a fraction")
    ] = None
    estimator: Annotated[str, about("What the value is of the samples, in words")] = ""
    absent: Annotated[
        tuple[str, ...], about("What an imported number lacks: interval, repetitions, kernel, ...")
    ] = ()
    samples: Annotated[tuple[TimedProcess, ...], about("One per process, raw")]

    def __post_init__(self) -> None:
        numbers = [self.value, *(self.interval or ()), self.floor or 0, self.detectable or 0]
        for process in self.samples:
            numbers += (*process.values, *process.empties)
        if not all(map(math.isfinite, numbers)):
            raise ValueError("a number that is not finite")
        if self.interval and self.interval[0] > self.interval[1]:
            raise ValueError("an interval that ends before it begins")
        if not self.samples and not self.absent:
            raise ValueError("no samples, and nothing that says so")
        if len({(p.build, p.boot, p.group, p.slot) for p in self.samples}) < len(self.samples):
            raise ValueError("two processes of one build, boot, group and slot")


class KernelFile(TypedDict):
    """Which kernel was measured; null where it is not known."""

    spec: str
    arch: Annotated[
        str, about("x86_64, arm64 or riscv64; any other name for imported numbers", min_length=1)
    ]
    release: str
    build_id: Annotated[str, Meta(pattern="^[0-9a-f]+$")] | None
    banner: str
    compiler: str
    config_sha256: Hash | None
    config: Annotated[dict[str, str] | None, about("The built-in options, without CONFIG_")]
    image_sha256: Hash | None
    symbols_from: str
    origin: dict[str, str]


class FunctionFile(TypedDict):
    """A function's instructions in the modal path."""

    name: str
    instructions: Positive


class VectorFile(TypedDict):
    """The vector state in a case's name."""

    unit: str
    use: str
    vl: Annotated[int, about("Vector length in bits", ge=1)]
    calls: Annotated[int, about("Calls per window", ge=1)]


class CodeFile(Struct):
    """The instructions that the paths consist of."""

    functions: tuple[str, ...]
    instructions: Annotated[
        list[
            tuple[
                Annotated[str, Meta(pattern="^[0-9a-f]{16}$")],
                Annotated[str, Meta(pattern="^([0-9a-f]{2})+$")],
                str,
                Count,
                Count,
            ]
        ],
        about("[address, bytes in memory order, disassembly, index of the function, offset in it]"),
    ]
    places: Annotated[
        tuple[SourceLine, ...] | UnsetType,
        about("Where the kernel has debug info: [file, line, function]"),
    ] = UNSET
    source_lines: Annotated[
        tuple[tuple[Count, ...], ...] | UnsetType,
        about("For each instruction indexes into places: its own, then where that was inlined"),
    ] = UNSET
    tables: Annotated[
        dict[str, list[Count]],
        about(
            "By section of the kernel's image: indexes of the instructions that the kernel patches"
            " by it, .altinstructions or __jump_table or others"
        ),
        OMITTED,
    ] = field(default_factory=dict)

    @staticmethod
    def packed(code: Iterable[Instruction]) -> CodeFile:
        """Returns the file of instructions, with each function, place and table once."""
        functions: dict[str, int] = {}
        lines_of: dict[SourceLine, int] = {}
        rows: list[tuple[str, str, str, int, int]] = []
        lines = []
        tables: dict[str, list[int]] = {}
        for insn in code:
            for table in insn.tables:
                tables.setdefault(table, []).append(len(rows))
            function = functions.setdefault(insn.function, len(functions))
            rows.append((f"{insn.address:016x}", insn.code, insn.text, function, insn.offset))
            lines.append(tuple([lines_of.setdefault(n, len(lines_of)) for n in insn.source_lines]))
        if not lines_of:
            return CodeFile(tuple(functions), rows, tables=tables)
        return CodeFile(tuple(functions), rows, tuple(lines_of), tuple(lines), tables)

    def unpacked(self) -> list[Instruction]:
        """Returns the instructions; ValueError where one names what is not there."""
        names, rows, lines_of = self.functions, self.instructions, self.places or ()
        source_lines = self.source_lines or ((),) * len(rows)
        if len(source_lines) != len(rows):
            raise ValueError("not one of an instruction - at `$.code.source_lines`")
        tables: list[list[str]] = [[] for _ in rows]
        try:
            for name, indexes in self.tables.items():
                for index in indexes:
                    tables[index].append(name)
            return [
                Instruction(
                    int(row[0], 16),
                    *row[1:3],
                    names[row[3]],
                    row[4],
                    tuple([lines_of[n] for n in own]),
                    tuple(listed),
                )
                for row, own, listed in zip(rows, source_lines, tables, strict=True)
            ]
        except IndexError:
            text = "an instruction of no function, place or index - at `$.code.instructions`"
            raise ValueError(text) from None


# What msgspec reads from a file, where memory has another form of it: a pair for a function, exact
# metrics apart from noisy ones, instructions that are whole.
if TYPE_CHECKING:
    _Functions = tuple[tuple[str, int], ...]
    _Metrics = dict[str, Metric]
    _Kernel = dict[str, Any]
    _Target = dict[str, Any]
    _Code = list[Instruction]
else:
    _Functions = tuple[FunctionFile, ...]
    _Metrics = dict[str, Metric | NoisyMetric]
    _Kernel, _Target, _Code = KernelFile, dict[str, str | int | bool], CodeFile


class CaseResult(Struct, frozen=True):
    """What was measured of one case."""

    # `metrics` are of the contexts of the first boot, together; none has a window with an
    # interrupt.  `vector` and its events are written only: they follow from the name and the paths.

    name: str
    metrics: Annotated[
        _Metrics,
        Meta(
            min_length=1,
            description="Exact metrics are per window, noisy ones per call",
            extra_json_schema={
                "if": {
                    "required": ["instructions"],
                    "properties": {"instructions": {"properties": {"assume": {"const": "exact"}}}},
                },
                "then": {"required": ["user_instructions", "firmware_instructions"]},
            },
        ),
    ]
    interrupted: Annotated[
        tuple[Pair, ...], about("Windows with an interrupt: [kernel instructions, windows]")
    ]
    functions: Annotated[_Functions, about("Of the modal path; they add up to its length")]
    paths: Annotated[tuple[KernelPath, ...], about("Distinct paths, the modal one first")]
    caveats: tuple[Caveat, ...] = ()
    checked: Annotated[
        str | UnsetType,
        about("The machine's own counter that counted the same: pmu, instret, icount"),
    ] = UNSET
    checked_counts: Annotated[
        tuple[Count, Count] | UnsetType,
        about("Kernel instructions: as counted by kentry, as counted by the machine"),
    ] = UNSET
    vector: VectorFile | UnsetType = UNSET
    _events: Annotated[
        tuple[VectorEvent, ...] | UnsetType,
        about("Of the modal path, or else those that all paths have"),
    ] = field(default=UNSET, name="events")
    contexts: Annotated[
        tuple[CaseContext, ...],
        about("Counts by context; the metrics are of the first boot's"),
        OMITTED,
    ] = ()
    estimates: Annotated[
        tuple[Estimate, ...], about("Cycles of the modal path by a model, one a core"), OMITTED
    ] = ()
    misses: Annotated[
        tuple[Misses, ...],
        about("What the modal path misses in caches and TLBs by a model, one a core"),
        OMITTED,
    ] = ()
    noisy: Annotated[dict[str, NoisyMetric], UNWRITTEN] = {}

    def __post_init__(self) -> None:
        exact_metrics = {name: m for name, m in self.metrics.items() if isinstance(m, Metric)}
        noisy = {name: m for name, m in self.metrics.items() if name not in exact_metrics}
        functions = (
            tuple(row.values()) if isinstance(row, dict) else row for row in self.functions
        )
        force_setattr(self, "noisy", self.noisy | noisy)
        force_setattr(self, "metrics", exact_metrics)
        force_setattr(self, "functions", tuple(functions))
        force_setattr(self, "vector", UNSET)
        force_setattr(self, "_events", UNSET)

    @property
    def values(self) -> dict[int, int]:
        """In how many contexts each count was the commonest, by count; {} without contexts."""
        return exact.histogram((context.value, 1) for context in self.contexts)

    def has_context(self, count: int) -> bool:
        """Returns whether some context has the count, or none is known."""
        return not self.contexts or count in self.values

    @property
    def parsed(self) -> CaseName:
        """The name in its parts."""
        return CaseName.parse(self.name)

    @property
    def modal_path(self) -> KernelPath | None:
        """The commonest clean path; None where none was recorded."""
        return next((path for path in self.paths if path.role == MODAL), None)

    @property
    def events(self) -> tuple[VectorEvent, ...] | None:
        """The modal path's, or all paths' if those agree and no count has a majority; else None."""
        if self.modal_path:
            return self.modal_path.events
        counted = self.metrics.get(INSTRUCTIONS)
        undecided = counted and not counted.is_decided
        if undecided and len({frozenset(path.events) for path in self.paths}) == 1:
            return self.paths[0].events
        return None


class OnTarget:
    """What a recording says of its kernel and target, and what a result repeats of it."""

    __slots__ = ()
    kernel: dict[str, Any]
    target: dict[str, Any]
    tool: dict[str, str]

    @property
    def is_floor(self) -> bool:
        """Whether it is of the floor, kentry's own kernel, and not of Linux."""
        return (self.kernel.get("origin") or {}).get("kind") == FLOOR

    @property
    def timed_target(self) -> dict[str, Any]:
        """Where the noisy metrics are from; in a joined recording that is another target."""
        own = {
            name.removeprefix(TIMED): value
            for name, value in self.target.items()
            if name.startswith(TIMED)
        }
        return own or self.target


class Command(Struct, frozen=True, kw_only=True):
    """What ran, in which user space; `status` is an exit code or 128 + a signal's number."""

    name: str
    command: tuple[str, ...]
    release: str
    initramfs_sha256: Hash
    packages: dict[str, str]
    status: Annotated[int | None, about("null: it did not end")]


# The keys of a target whose values are text.
_TARGET_TEXTS = ["emulator", "machine", "cpu", "accelerator", "cmdline", "cpu_model"]
_TARGET_TEXTS += ["microcode", "host", "clock", "timed_kind", "probe", "plugin"]
_TARGET_TEXTS += ["processor", "mitigations", "features"]


class Recording(Struct, OnTarget, kw_only=True, tag_field="schema", tag="kentry/recording/1"):
    """A kentry recording: everything measured on one kernel."""

    # `markers` are UNSET where nobody looked for events, because no case has a vector state.  A
    # recording from before contexts has none.

    tool: Annotated[dict[str, str], Meta(extra_json_schema={"required": ["name", "version"]})] = {}
    kernel: _Kernel
    checksum: Annotated[Hash | UnsetType, about("SHA-256 of all else in the file"), OMITTED] = UNSET
    made_for: Annotated[
        dict[str, str],
        about("What a recording in the cache was asked for: image, processor, probe, options, ..."),
        OMITTED,
    ] = {}
    program: Annotated[
        Command | UnsetType,
        about("What ran, where the cases are kinds of its entries into the kernel, and no probe's"),
        OMITTED,
    ] = UNSET
    target: Annotated[
        _Target,
        about(
            "Where it was measured; in a joined recording, everything known of the"
            " noisy metrics' target begins with timed_",
            extra_json_schema={
                "required": ["kind"],
                "properties": {
                    "kind": {"enum": ["qemu", "fake", "local", "ssh", "board", "kvm", "import"]},
                    **{key: {"type": "integer"} for key in ("memory_mib", "seed", "plugin_api")},
                    **{key: {"type": "string"} for key in _TARGET_TEXTS},
                    "randomise": {"type": "boolean"},
                    "session": {
                        "description": "Recordings of one session were measured interleaved:"
                        " their processes pair by boot and group",
                        "type": "string",
                        "pattern": "^[0-9a-f]*$",
                    },
                },
                "if": {"properties": {"kind": {"enum": ["qemu", "fake"]}}},
                "then": {"required": ["emulator"]},
            },
        ),
    ]
    options: dict[str, Count]
    caveats: list[Caveat] = []
    cases: Annotated[list[CaseResult], Meta(min_length=1)]
    code: _Code
    markers: Annotated[
        dict[str, str] | UnsetType,
        about(
            "How each vector event was recognised; an event that the kernel has no"
            " marker of is not among them"
        ),
    ] = UNSET
    contexts: Annotated[
        list[dict[str, Count]],
        about("What each round of cases found beside the kernel: memory, seed, tasks, names, ..."),
        OMITTED,
    ] = []

    def __post_init__(self) -> None:
        if isinstance(self.code, CodeFile):
            # It is from a file.
            self.code = self.code.unpacked()
            if not isinstance(self.target.get("kind"), str):
                raise ValueError("a target without a kind - at `$.target`")
            if not isinstance(self.target.get("emulator", ""), str):
                raise ValueError("an emulator that is no text - at `$.target.emulator`")
            for index, case in enumerate(self.cases):
                if problem := next(_problems(case, len(self.code), len(self.contexts)), None):
                    raise ValueError(f"{problem} - at `$.cases[{index}]`, {case.name}")
            if len({case.name for case in self.cases}) < len(self.cases):
                raise ValueError("two cases of one name - at `$.cases`")
        self.tool = self.tool or {"name": "kentry", "version": __version__}
        functions = [insn.function for insn in self.code]
        for case in self.cases:
            if what := next(_contradictions(case, functions), None):
                raise ContradictionError(f"{case.name} {what}")

    def case(self, name: str) -> CaseResult | None:
        """Returns the case of that name, if it was measured."""
        return next((case for case in self.cases if case.name == name), None)

    @property
    def path_remedy(self) -> str:
        """What a user can do about a path that the recording does not have."""
        windows = self.options.get("path_windows", 0)
        if windows < ENOUGH_PATHS:
            return f"Make it again with kentry record --paths {ENOUGH_PATHS}."
        return f"Choose another case: none of its {windows} recorded paths has its commonest count."

    def instructions(self, path: KernelPath) -> list[Instruction]:
        """Returns the path, instruction by instruction."""
        return [self.code[index] for index in path.indexes]


class Measured(Struct, OnTarget, frozen=True):
    """What was measured on what; without the kernel's whole config."""

    kernel: dict[str, Any]
    target: dict[str, Any]
    tool: Annotated[dict[str, str], UNWRITTEN] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for key in ("spec", "arch", "release"):
            if not isinstance(self.kernel.get(key), str):
                raise ValueError(f"a kernel without a text for {key}")

    @staticmethod
    def of(recording: Recording) -> Measured:
        """Returns the part of a recording that a result repeats."""
        kernel = {name: value for name, value in recording.kernel.items() if name != "config"}
        return Measured(kernel, recording.target, recording.tool)


def _problems(case: CaseResult, instructions: int, contexts: int) -> Iterator[str]:
    """Yields what a case names that is not in its file."""
    for context in case.contexts:
        if context.context >= contexts or (context.path or 0) >= max(1, len(case.paths)):
            yield "a context or its path that is not there"
    for path in case.paths:
        if any(first + count > instructions for first, count in path.runs):
            yield "a path beyond the code"
        if any(row[0] >= path.length for row in path.rows or ()):
            yield "an access of no instruction"
    for misses in case.misses:
        walks = (*misses.walked, *misses.walked_with_code)
        counts = (misses.warm, misses.cold, *(row for _, row in walks))
        if any(len(row) != len(misses.levels) for row in counts):
            yield f"misses on {misses.core} that are not one for each level"
    if case.paths and INSTRUCTIONS not in case.metrics:
        yield f"paths without {INSTRUCTIONS}"


def _contradictions(case: CaseResult, functions: Sequence[str]) -> Iterator[str]:
    """Numbers of a case that must be equal and are not; `functions`: of each instruction."""
    counted, modal = case.metrics.get(INSTRUCTIONS), case.modal_path
    length = modal.length if modal else 0
    if modal and counted and length != counted.value:
        yield f"has a count of {counted.value} and a path of {length} instructions"
    executed: Counter[str] = Counter()
    for first, count in modal.runs if modal else ():
        executed.update(functions[first : first + count])
    own = dict(case.functions)
    for name in {**own, **executed} if own != executed else ():
        if own.get(name, 0) != executed[name]:
            yield f"has {own.get(name, 0)} instructions in {name}, its path {executed[name]}"
    if modal and modal.rows and modal.accessed:
        sides = [[row for row in modal.rows if row[3] == kind] for kind in ("load", "store")]
        listed = [len({row[0] for row in own}) for own in sides]
        listed += [sum(row[2] for row in own) for own in sides]
        names = ("loads", "stores", "bytes.loaded", "bytes.stored")
        called = map(sum, zip(*modal.accessed, strict=True))
        for what, ours, other in zip(names, called, listed, strict=True):
            if ours != other:
                yield f"has {ours} {what} by call, {other} in its path"
    for estimate in case.estimates:
        for rows in (estimate.functions, estimate.parts):
            if (total := sum(row.instructions for row in rows)) != length:
                yield f"has {total} instructions in its estimate for {estimate.core}, not {length}"
    if case.checked_counts and len(set(case.checked_counts)) > 1:
        ours, theirs = case.checked_counts
        yield f"has {ours} instructions by kentry and {theirs} by the machine's own counter"
    yield from _contradictions_of_windows(case)


def _contradictions_of_windows(case: CaseResult) -> Iterator[str]:
    for names in (_OF_SIDES, ABOUT_PATHS):
        windows = {name: case.metrics[name].windows for name in names if name in case.metrics}
        if len(set(windows.values())) > 1:
            (_, number), *others = windows.items()
            name, other = next(pair for pair in others if pair[1] != number)
            yield f"has {number} windows of {next(iter(windows))}, {other} of {name}"
    for metric, values in case.metrics.items():
        if len(dict(values.samples)) < len(values.samples):
            yield f"has two numbers of windows for one value of {metric}"
    for context in case.contexts:
        if context.path is not None and case.paths[context.path].length != context.value:
            length, number = case.paths[context.path].length, context.context
            yield f"has a count of {context.value} in context {number}, whose path has {length}"
    # The contexts have all windows, and those of paths that are not kept, too.
    seen = exact.histogram(pair for context in case.contexts for pair in context.samples)
    counted = case.metrics[INSTRUCTIONS].samples if INSTRUCTIONS in case.metrics else ()
    taken = exact.histogram((path.length, path.times) for path in case.paths)
    for count, times in (*counted, *taken.items()) if seen else ():
        if (own := seen.get(count, 0)) < times:
            yield f"has {times} windows of {count} instructions, but {own} in its contexts"


def read_recording(file: Path, content: bytes | None = None) -> Recording:
    """Returns the recording in `file`, or in its `content`; RecordingError where it is wrong."""
    return read_document(file, Recording, "Make it again with kentry record.", content)


def write_recording(recording: Recording, file: Path) -> None:
    """Writes the file, whole or not at all."""
    write_atomically(file, dump(to_file(recording)))


def to_file(recording: Recording) -> dict[str, Any]:
    """Returns the recording as JSON with a checksum."""
    return with_checksum(to_json(recording))


# The keys of a recording and of a case in the order in which they are written.
_KEYS = (
    *("schema", "tool", "made_for", "kernel", "program", "target", "options", "caveats"),
    *("markers", "contexts", "cases", "code"),
)
_CASE_KEYS = (
    *("name", "metrics", "interrupted", "functions", "checked", "checked_counts", "vector"),
    *("events", "contexts", "estimates", "misses", "paths", "caveats"),
)


def to_json(recording: Recording) -> dict[str, Any]:
    """Returns the recording as the file has it."""
    document = structs_to_json(replace(recording, cases=[], code=[]))
    document["cases"] = [_case_to_json(case, recording) for case in recording.cases]
    document["code"] = structs_to_json(CodeFile.packed(recording.code))
    return {key: document[key] for key in _KEYS if key in document}


def _case_to_json(case: CaseResult, recording: Recording) -> dict[str, Any]:
    if not case.metrics and not case.noisy:
        raise ValueError(f"{case.name}: no metric")
    document = structs_to_json(case)
    # The value and its unit before the tag that msgspec puts first.
    document["metrics"] = {
        name: {key: own[key] for key in ("value", "unit") if key in own} | own
        for name, own in (document["metrics"] | structs_to_json(case.noisy)).items()
    }
    document["functions"] = [{"name": name, "instructions": n} for name, n in case.functions]
    if state := case.parsed.state:
        # Only here is the architecture needed: imported numbers may be of any other.
        arch, cpu = find_arch(recording.kernel["arch"]), recording.target.get("processor", MAX)
        bits = vector_bits(arch, cpu, state.unit, state.length)
        document["vector"] = {"unit": state.unit, "use": state.use, "vl": bits}
        document["vector"]["calls"] = state.calls
        if case.events is not None:
            document["events"] = structs_to_json(case.events)
    return {key: document[key] for key in _CASE_KEYS if key in document}
