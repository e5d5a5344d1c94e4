# SPDX-License-Identifier: GPL-2.0-or-later
"""One program on two kernels: kentry/workload-comparison/1, of `kentry diff` of two workloads.

What an entry costs is a property of the kernel, and has a verdict.  How many entries there are, who
slept in them and what interrupted is a property of the run, and has none.
"""

from typing import Annotated, Any

from msgspec import Struct, field

from kentry import __version__
from kentry.results.caveats import Caveat
from kentry.results.comparison import FunctionDelta, Verdict
from kentry.results.document import Count, about
from kentry.results.recording import Command, OnTarget


class Ran(Struct, OnTarget, frozen=True, kw_only=True):
    """One side: what ran on which kernel, in boots that differ in their seeds."""

    kernel: dict[str, Any]
    target: dict[str, Any]
    tool: dict[str, str]
    workload: Command
    seeds: Annotated[tuple[int, ...], about("Of the boots; all lists of numbers are in this order")]
    instructions: Annotated[tuple[Count, ...], about("All that a boot dispatched")]
    kernel_instructions: Annotated[tuple[Count, ...], about("Of them, in the kernel")]


class KindSide(Struct, frozen=True, kw_only=True):
    """A kind of entry on one side; in lists a number a boot."""

    calls: tuple[Count, ...]
    instructions: tuple[Count, ...]
    blocked: tuple[Count, ...]
    preempted: tuple[Count, ...]
    ended: Annotated[Count, about("Calls that ended, in all boots")] = 0
    mean: Annotated[float | None, about("Instructions of a call that ended")] = None
    median: Count | None = None
    modes: Annotated[
        tuple[Count | None, ...],
        about("What more than half of a boot's calls executed; null: no such number"),
    ] = ()
    around: Annotated[
        Count | None,
        about("Entry and exit of a call, where they are one number in the mean of each boot"),
    ] = None


class KindDelta(Struct, frozen=True, kw_only=True):
    """A kind of entry, or what is no entry, on both sides."""

    what: str
    name: str
    old: KindSide | None
    new: KindSide | None
    verdict: Annotated[
        Verdict | None, about("On instructions a call; null: a property of the run alone")
    ] = None
    why: Annotated[str, about("Why it is undecided")] = ""
    delta: Annotated[int | None, about("Instructions a call, where it is decided")] = None
    by_cost: Annotated[
        int, about("Of the first boots' change: by instructions a call, at the old calls")
    ] = 0
    by_calls: Annotated[int, about("The rest of that change, by other calls")] = 0
    functions: Annotated[
        tuple[FunctionDelta, ...],
        about("That changed in the first boots; deltas add up to by_cost + by_calls"),
    ] = ()


class EntryDelta(Struct, frozen=True):
    """Entry and exit of system calls: what most kinds have, before and after the handler."""

    verdict: Verdict
    old: Count | None
    new: Count | None
    delta: Annotated[int | None, about("That of more than half of the kinds")]
    kinds: Annotated[Count, about("That have this delta")]
    of: Annotated[Count, about("Kinds of system calls on both sides")]
    calls: Annotated[Count, about("System calls in the first boot of the old side")]


class WorkloadComparison(
    Struct, frozen=True, kw_only=True, tag_field="schema", tag="kentry/workload-comparison/1"
):
    """One program on two kernels, kind by kind, function by function."""

    tool: dict[str, str] = field(default_factory=lambda: {"name": "kentry", "version": __version__})
    old: Ran
    new: Ran
    entry: EntryDelta
    kinds: Annotated[tuple[KindDelta, ...], about("The largest change by cost first")]
    functions: Annotated[
        tuple[FunctionDelta, ...],
        about("Of the kernel that changed in the first boots, in all kinds together"),
    ]
    caveats: tuple[Caveat, ...]

    @property
    def verdicts(self) -> set[str]:
        """All that were given."""
        return {self.entry.verdict, *(kind.verdict for kind in self.kinds if kind.verdict)}
