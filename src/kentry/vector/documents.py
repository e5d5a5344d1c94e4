# SPDX-License-Identifier: GPL-2.0-or-later
"""The JSON of `kentry vector replay` and `stats`: kentry/vector-replay/1, vector-statistics/1."""

from dataclasses import fields
from itertools import groupby
from typing import Annotated, Any

import msgspec
from msgspec import UNSET, Meta, UnsetType
from msgspec.structs import force_setattr

from kentry.arch.mechanism import ACTS, VEC
from kentry.models.costs import Act, Cost, Document, Figure, Unit
from kentry.vector.replay import OwnPolicyCheck
from kentry.vector.statistics import TaskCounts
from kentry.vector.trace import Count

# A value within this of the best is as good: no cost has been measured more precisely.
FLAT = 0.01

# Above optimal, as a part of it; below 0 for a policy with another mechanism.
Regret = Annotated[float, Meta(ge=-1, description="above optimal, as a part of it")]


class Costs(Document, frozen=True):
    """The cost table's figures, by act; `unit` is that of every cost here."""

    name: str
    unit: Unit
    figures: dict[Act, Figure]


class PolicyMean(Document, frozen=True):
    """A policy over several traces; `of` is the workload with the most regret."""

    policy: str
    per_call: Cost
    regret: Regret
    most: Regret
    of: str


# A task that was in user mode: beside its cost, each act that was done, by name.
TaskCost = msgspec.defstruct(
    "TaskCost",
    [
        *(("task", int), ("pid", int), ("name", str), ("cost", float)),
        *((act, Annotated[int, Meta(ge=1)] | UnsetType, UNSET) for act in ACTS),
    ],
    bases=(Document,),
)


class PolicyDocument(Document, frozen=True):
    """A policy on a trace; `counts` has the acts, and calls, returns to user mode, and those of
    the returns with access on (open_return).
    """

    policy: str
    counts: dict[str, Count]
    cost: Cost
    cost_per_call: Cost | None
    cost_per_second: Cost | None
    regret: Regret
    tasks: list[TaskCost]  # type: ignore[valid-type]


class ReplayedTrace(Document, frozen=True, kw_only=True):
    """A trace that was replayed, and whether its kernel's own policy does what the kernel did.

    `kernel` is as in the trace, `seconds` of the guest's clock, `calls` the system calls, `vl` the
    vector length in bits.  `cut` is always null; earlier versions read traces that were cut short.
    """

    trace: str
    kernel: dict[str, Any]
    workload: str
    events: Count
    seconds: float
    calls: Count
    cut: None
    check: OwnPolicyCheck
    vl: int | None = None
    unit: str = VEC


class TraceRanking(ReplayedTrace, frozen=True, kw_only=True):
    """The policies on one trace: optimal, then the others, the cheapest first.

    `flips` is always empty; earlier versions had costs at which policies change places there.
    """

    policies: list[PolicyDocument]
    flips: list[dict[str, Any]] = msgspec.field(default_factory=list)
    caveats: list[dict[str, str]]


class Never(Document, frozen=True):
    """What the policy costs per call, the mean of the traces, where it never drops.

    `unreached` is the least value that does the same as never in every trace; null: none does.
    `alike` has for each trace the least value from which on all cost within 1 % of never: the trace
    cannot tell such values from never.
    """

    cost_per_call: Cost
    unreached: Count | None
    alike: list[Count | None]


class Recommendation(Document, frozen=True):
    """A policy's values (ns of a timeout, else a count), rising, with the mean of the traces.

    `regret_per_call` and `regret_per_second` are above `optimal` (virtual time).  `recommended` is
    the value with the least cost per call.  `interval` has the best value of 95 % of the
    bootstrap's draws, of workloads and of tasks in each; `within_1_percent` the values around the
    recommended one that cost at most 1 % more: others may, too.  `per_call_by_trace` has the costs
    per call on each trace.
    """

    family: str
    values: list[Count]
    cost_per_call: list[Cost]
    regret_per_call: list[float]
    regret_per_second: list[float]
    recommended: Count
    interval: tuple[Count, Count]
    within_1_percent: tuple[Count, Count]
    never: Never | None = None
    per_call_by_trace: list[list[Cost]] = msgspec.field(default_factory=list)

    @property
    def good(self) -> list[tuple[Count, Count]]:
        """The first and last of each run of neighbouring values within 1 % of the least cost."""
        return self.within(min(self.cost_per_call) * (1 + FLAT))

    def within(self, most: float) -> list[tuple[Count, Count]]:
        """Returns the first and last of each run of neighbouring values that cost at most that."""
        pairs = zip(self.values, self.cost_per_call, strict=True)
        runs = groupby(pairs, key=lambda pair: pair[1] <= most)
        good = [[value for value, _ in run] for is_good, run in runs if is_good]
        return [(run[0], run[-1]) for run in good]

    @property
    def flat(self) -> bool:
        """Whether all values cost the same within 1 %, so that none is the least."""
        return self.good == [(self.values[0], self.values[-1])]


class Choice(Document, frozen=True):
    """A policy, with the value that it was swept with, and its mean cost on the traces."""

    policy: str
    value: Count | None
    cost_per_call: Cost


class Alike(Document, frozen=True):
    """Values of a swept policy, from the first to the last of neighbours."""

    policy: str
    low: Count
    high: Count


class Answer(Document, frozen=True):
    """What the replay says: one thing, wherever it is shown.

    `cheapest` is the least of all that was replayed but `optimal`, `recommended` the least of what
    was swept, null where its values cost the same within 1 %.  It costs `above` more than the
    cheapest, as a part.  What costs at most 1 % more than it cannot be told apart from it: `values`
    that were swept, and other `policies`.
    """

    cheapest: Choice
    recommended: Choice | None
    above: Regret
    values: list[Alike]
    policies: list[str]


class ReplayDocument(Document, frozen=True, tag_field="schema", tag="kentry/vector-replay/1"):
    """Policies replayed on vector traces, and what each would have cost.

    `bounds` is always empty; earlier versions had what a policy can cost at most there.
    """

    tool: dict[str, str]
    costs: Costs
    means: list[PolicyMean]
    traces: list[TraceRanking]
    sweeps: list[Recommendation]
    bounds: dict[str, dict[str, Any]] = msgspec.field(default_factory=dict)
    answer: Answer | None = None

    def __post_init__(self) -> None:
        # A file from before there was an answer has all that it follows from.
        force_setattr(self, "answer", self._answer() if self.traces else None)

    def _answer(self) -> Answer | None:
        rows = {row.policy: row.per_call for row in self.means}
        if len(self.traces) == 1:
            of_one = self.traces[0].policies
            rows = {row.policy: row.cost_per_call or 0.0 for row in of_one}
        ranked = [Choice(name, None, cost) for name, cost in rows.items() if name != "optimal"]
        swept = [
            Choice(sweep.family, value, cost)
            for sweep in self.sweeps
            for value, cost in zip(sweep.values, sweep.cost_per_call, strict=True)
        ]
        if not ranked and not swept:
            return None
        cheapest = min([*ranked, *swept], key=lambda own: own.cost_per_call)
        if not swept:
            return Answer(cheapest, None, 0.0, [], [])
        best = min(swept, key=lambda own: own.cost_per_call)
        families = {sweep.family for sweep in self.sweeps}
        beside = [own for own in ranked if own.policy.partition(":")[0] not in families]
        flat = next(sweep.flat for sweep in self.sweeps if sweep.family == best.policy)
        most = best.cost_per_call * (1 + FLAT)
        return Answer(
            cheapest,
            None if flat else best,
            best.cost_per_call / cheapest.cost_per_call - 1 if cheapest.cost_per_call else 0.0,
            [Alike(own.family, *ends) for own in self.sweeps for ends in own.within(most)],
            [own.policy for own in beside if best.cost_per_call <= own.cost_per_call <= most],
        )


# Counts of all user tasks, and of one: see statistics.TaskCounts.
_COUNTS = [(field.name, Count) for field in fields(TaskCounts)]
Sums = msgspec.defstruct("Sums", _COUNTS, bases=(Document,))
TaskSums = msgspec.defstruct(
    "TaskSums", [("pid", Count), ("name", str), *_COUNTS], bases=(Document,)
)

# From, before, and how many gaps; null: no end.
Bin = tuple[Count, int | None, Count]


class StatisticsDocument(
    Document, frozen=True, tag_field="schema", tag="kentry/vector-statistics/1"
):
    """How the tasks of a vector trace use vectors.

    `shares`: by the least number of loads, tasks by the share of their loads that were followed.
    `loads` and `followed_by` name the events.
    """

    tool: dict[str, str]
    kernel: dict[str, Any]
    workload: dict[str, Any]
    policy: str
    unit: str
    events: Count
    cut: None
    user_tasks: Count
    using_tasks: Count
    sums: Sums  # type: ignore[valid-type]
    loads: str
    followed_by: str
    shares: dict[str, dict[str, Count]]
    gaps: Count
    gaps_ns: list[Bin]
    gaps_calls: list[Bin]
    tasks: list[TaskSums]  # type: ignore[valid-type]
    caveats: list[dict[str, str]]
