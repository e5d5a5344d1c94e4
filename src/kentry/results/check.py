# SPDX-License-Identifier: GPL-2.0-or-later
"""A recording held against budgets; and its file kentry/check/1.

What `kentry check --json` prints.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Annotated, Literal

from msgspec import Meta, Struct

from kentry.results.caveats import Caveat
from kentry.results.document import Positive, about
from kentry.results.recording import Measured, Pair

Verdict = Literal["within", "over", "undecided"]
WITHIN: Verdict = "within"
OVER: Verdict = "over"
UNDECIDED: Verdict = "undecided"
Real = int | float


class CheckRow(Struct, frozen=True, kw_only=True):
    """One metric of one case, and its budget.

    What is held against the limit is not a number but all that it may be, from `low` to `high`.
    """

    name: Annotated[str, about("The case; a pattern that stands for no case is itself")]
    metric: str
    unit: Annotated[str, about("Empty where nothing was measured")] = ""
    table: Annotated[str, about("Of the file of budgets: an architecture, or all")]
    key: Annotated[str, about("The case's name in that table, or the pattern")]
    line: Annotated[Positive | None, about("Of the budget in its file; null: not known")] = None
    budget: Annotated[str, about("As the file has it: 312, +2, +1 %")]
    limit: Annotated[Real | None, about("The most that is within the budget; null: not known")] = (
        None
    )
    baseline: Annotated[
        Real | None, about("What the recording has that the budget adds to; null: no such budget")
    ] = None
    value: Annotated[
        Real | None, about("What was measured; of a count the commonest; null: nothing")
    ] = None
    low: Annotated[
        Real | None,
        about("The least that it may be: by context, or of the interval; null: not known"),
    ] = None
    high: Annotated[Real | None, about("The most that it may be; null: not known")] = None
    counts: Annotated[
        tuple[Pair, ...], about("Where a count depends on the context: [count, contexts]")
    ] = ()
    verdict: Verdict
    reason: Annotated[str, about("Why it is undecided, a clause")] = ""

    @property
    def is_relative(self) -> bool:
        """Whether the budget is above a baseline's number."""
        return self.budget.startswith("+")


class Renewed(Struct, frozen=True, kw_only=True):
    """What --update wrote: another limit, or another number of the baseline."""

    file: Annotated[str, about("The file of budgets, or the baseline's")]
    name: Annotated[str, about("The case; of a limit its key in the file of budgets")]
    metric: str
    old: Real | None
    new: Real


class Check(Struct, frozen=True, kw_only=True, tag_field="schema", tag="kentry/check/1"):
    """What kentry check printed: each budget, and whether a kernel is within it."""

    tool: dict[str, str]
    budgets: Annotated[str, about("The file of budgets")]
    measured: Annotated[Measured, about("The kernel that was held against them")]
    baseline: Annotated[
        Measured | None, about("The recording that budgets add to; null: no budget does")
    ]
    verdict: Annotated[Verdict, about("over if one row is, else undecided if one is")]
    rows: Annotated[
        tuple[CheckRow, ...], Meta(min_length=1, description="In the order of the file")
    ]
    changes: Annotated[tuple[Renewed, ...], about("What --update changed")] = ()
    written: Annotated[
        tuple[str, ...] | None, about("The files that --update wrote; null without --update")
    ] = None
    caveats: tuple[Caveat, ...]

    @property
    def not_renewed(self) -> list[CheckRow]:
        """The rows for which --update has no number, because it was not measured."""
        return [row for row in self.rows if (row.value if row.is_relative else row.high) is None]

    def of_verdict(self, verdict: Verdict) -> list[CheckRow]:
        """The rows that have this verdict."""
        return [row for row in self.rows if row.verdict == verdict]


def verdict_of(verdicts: Iterable[Verdict]) -> Verdict:
    """Over before undecided before within."""
    found = set(verdicts)
    return OVER if OVER in found else UNDECIDED if UNDECIDED in found else WITHIN
