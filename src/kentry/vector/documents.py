# SPDX-License-Identifier: GPL-2.0-or-later
"""The JSON of `kentry vector replay` and `stats`: kentry/vector-replay/1, vector-statistics/1.

The schemas in schema/ are generated from these structs.
"""

from __future__ import annotations

from dataclasses import fields
from typing import Annotated, Any

import msgspec
from msgspec import UNSET, Meta, UnsetType

from kentry.arch.mechanism import ACTS
from kentry.vector.costs import Act, Cost, Figure, Unit
from kentry.vector.ranking import Flip
from kentry.vector.replay import Difference
from kentry.vector.statistics import TaskCounts
from kentry.vector.trace import Count

# Above optimal, as a part of it; below 0 for a policy with another mechanism.
Regret = Annotated[float, Meta(ge=-1, description="above optimal, as a part of it")]


class Document(msgspec.Struct, forbid_unknown_fields=True):
    """A part of a document: every key is required, unless it has a default."""


class Costs(Document):
    """The cost table's figures, by act; `unit` is that of every cost here."""

    name: str
    unit: Unit
    figures: dict[Act, Figure]


class PolicyMean(Document):
    """A policy over several traces; `of` is the workload with the most regret."""

    policy: str
    per_call: Cost
    regret: Regret
    most: Regret
    of: str


class ActPair(Document):
    """How often the own policy's replay and the traced kernel did an act."""

    replayed: Count
    seen: Count


class CheckDocument(Document):
    """The traced kernel's own policy, replayed, beside what was seen; by act, and by task."""

    policy: str
    exact: bool
    acts: dict[str, ActPair]
    differences: list[Difference]


# A task that was in user mode: beside its cost, each act that was done, by name.
TaskCost = msgspec.defstruct(
    "TaskCost",
    [
        *(("task", int), ("pid", int), ("name", str), ("cost", float)),
        *((act, Annotated[int, Meta(ge=1)] | UnsetType, UNSET) for act in ACTS),
    ],
    bases=(Document,),
)


class PolicyDocument(Document):
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


class TraceRanking(Document):
    """The policies on one trace: optimal, then the others, the cheapest first.

    `kernel` is as in the trace, `seconds` of the guest's clock, `calls` the system calls.  `cut` is
    always null: earlier versions read traces that were cut short.
    """

    trace: str
    kernel: dict[str, Any]
    workload: str
    events: Count
    seconds: float
    calls: Count
    cut: None
    check: CheckDocument
    policies: list[PolicyDocument]
    flips: list[Flip]
    caveats: list[dict[str, str]]


class SweepDocument(Document):
    """A policy's values (ns of a timeout, else a count), rising, with the mean of the traces.

    `interval` has the best value of 95 % of the draws, `within_1_percent` the values that cost at
    most 1 % more than the recommended one.
    """

    family: str
    values: list[Count]
    cost_per_call: list[Cost]
    regret_per_call: list[float]
    regret_per_second: list[float]
    recommended: Count
    interval: tuple[Count, Count]
    within_1_percent: tuple[Count, Count]


class BoundDocument(Document):
    """What holds for a policy on any workload: its ratio to optimal, null if there is none."""

    ratio: Annotated[float, Meta(ge=1)] | None
    text: str


class ReplayDocument(Document, tag_field="schema", tag="kentry/vector-replay/1"):
    """Policies replayed on vector traces, and what each would have cost."""

    tool: dict[str, str]
    costs: Costs
    means: list[PolicyMean]
    traces: list[TraceRanking]
    sweeps: list[SweepDocument]
    bounds: dict[str, BoundDocument]


# Counts of all user tasks, and of one: see statistics.TaskCounts.
_COUNTS = [(field.name, Count) for field in fields(TaskCounts)]
Sums = msgspec.defstruct("Sums", _COUNTS, bases=(Document,))
TaskSums = msgspec.defstruct(
    "TaskSums", [("pid", Count), ("name", str), *_COUNTS], bases=(Document,)
)

# From, before, and how many gaps; null: no end.
Bin = tuple[Count, int | None, Count]


class StatisticsDocument(Document, tag_field="schema", tag="kentry/vector-statistics/1"):
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
