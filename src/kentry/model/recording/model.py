# SPDX-License-Identifier: GPL-2.0-or-later
"""What a recording is made of."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, NamedTuple

from kentry import __version__
from kentry.model.case_name import CaseName
from kentry.stats import exact

KIND = "kentry/recording/"
VERSION = 1

# What a path was among its case's windows.
MODAL = "modal"
OTHER = "other"

# What a number is assumed to be: the same each time, or with noise.
EXACT = "exact"
NOISY = "noisy"

INSTRUCTIONS = "instructions"

# Of a recording joined of counts and times: what is said of the timed side's target begins with
# it, and so do those of its options that the counted side has otherwise.
TIMED = "timed_"


class Instruction(NamedTuple):
    """One kernel instruction: address without KASLR, bytes in memory order, text, place.

    A tuple, because a recording has thousands and a dataclass takes thrice as long to make.
    """

    address: int
    code: str
    text: str
    function: str
    offset: int


class Event(NamedTuple):
    """Something done to vector state `times` times in a window: what, why, in which function."""

    name: str
    cause: str
    function: str
    times: int


@dataclass(frozen=True)
class KernelPath:
    """A distinct path: `times` windows took it; `runs` are (first, count) into the code.

    `events` is empty where none were looked for, too: Recording.markers says which were.
    """

    times: int
    role: str
    runs: tuple[tuple[int, int], ...]
    why: str = ""
    events: tuple[Event, ...] = ()

    @property
    def length(self) -> int:
        """How many instructions it has."""
        return sum(count for _, count in self.runs)


@dataclass(frozen=True)
class Metric:
    """A number of a case: its commonest value and every sample, as (value, windows)."""

    value: int
    samples: tuple[tuple[int, int], ...]
    assume: str = EXACT

    @staticmethod
    def of(samples: dict[int, int]) -> Metric:
        """The metric of a histogram that is not empty."""
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


class TimedProcess(NamedTuple):
    """The raw samples of one process, and which one it was: nothing in them is derived.

    Each of `values` is for `calls` calls: ns or counts of one block, or of one turn where
    `blocks` is 1.  Turn t has values[t * blocks : (t + 1) * blocks]; 0 blocks: not in turns.
    `empties` are what the same took with no call in it: the clock, where calls are timed one
    by one.
    """

    build: int
    boot: int
    group: int
    slot: int
    calls: int
    values: tuple[float, ...]
    blocks: int = 0
    empties: tuple[float, ...] = ()


@dataclass(frozen=True)
class NoisyMetric:
    """A number with noise, per call: `value` in `unit`, and the samples it comes from.

    `interval` is of `value`, at `confidence`.  `floor` is the difference that the same run
    saw between two of the same, `detectable` the smallest it could have seen, both as
    fractions of `value`.  `estimator` says in words what `value` is of the samples; `absent`
    is what a number from elsewhere lacks: "interval", "repetitions", "kernel".
    """

    value: float
    unit: str
    samples: tuple[TimedProcess, ...]
    interval: tuple[float, float] | None = None
    confidence: float | None = None
    floor: float | None = None
    detectable: float | None = None
    estimator: str = ""
    absent: tuple[str, ...] = ()
    assume: str = NOISY


@dataclass(frozen=True)
class CaseResult:
    """What was measured of one case; there is at least one metric, exact or noisy.

    `metrics` maps instructions, user_instructions and firmware_instructions (and others
    to come) to their values.  `interrupted` are the windows an interrupt fell into, set
    apart: (kernel instructions, windows).  `functions` add up to the modal path's length.
    `noisy` maps ns, cycles and the like to theirs.
    """

    name: str
    metrics: dict[str, Metric]
    interrupted: tuple[tuple[int, int], ...]
    functions: tuple[tuple[str, int], ...]
    paths: tuple[KernelPath, ...]
    caveats: tuple[dict[str, str], ...] = ()
    noisy: dict[str, NoisyMetric] = field(default_factory=dict)

    @property
    def modal_path(self) -> KernelPath | None:
        """The commonest clean path; None where none was recorded."""
        return next((path for path in self.paths if path.role == MODAL), None)

    @property
    def events(self) -> tuple[Event, ...] | None:
        """Those of the modal path; None where it was not recorded.

        Where less than half of the windows agree on a count, those of every path, if they agree.
        """
        if self.modal_path:
            return self.modal_path.events
        counted = self.metrics.get(INSTRUCTIONS)
        undecided = counted and not exact.is_decided(dict(counted.samples))
        if undecided and len({frozenset(path.events) for path in self.paths}) == 1:
            return self.paths[0].events
        return None

    @property
    def parsed(self) -> CaseName:
        """The name in its parts."""
        return CaseName.parse(self.name)


@dataclass
class Recording:
    """A recording; `kernel`, `target` and `options` are as in the file.

    `markers` are, by event, how the kernel's vector events were known; None where they were not
    looked for, which only cases with a vector state need.
    """

    kernel: dict[str, Any]
    target: dict[str, Any]
    options: dict[str, Any]
    code: list[Instruction]
    cases: list[CaseResult]
    caveats: list[dict[str, str]] = field(default_factory=list)
    markers: dict[str, str] | None = None
    tool: dict[str, str] = field(default_factory=lambda: {"name": "kentry", "version": __version__})

    def case(self, name: str) -> CaseResult | None:
        """The case of that name, if it was measured."""
        return next((case for case in self.cases if case.name == name), None)

    @property
    def timed_target(self) -> dict[str, Any]:
        """Where the noisy metrics are from: of a joined recording that is another target."""
        own = {
            name.removeprefix(TIMED): value
            for name, value in self.target.items()
            if name.startswith(TIMED)
        }
        return own or self.target

    def instructions(self, path: KernelPath) -> list[Instruction]:
        """The path, instruction by instruction."""
        return [self.code[i] for first, count in path.runs for i in range(first, first + count)]
