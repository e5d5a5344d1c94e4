# SPDX-License-Identifier: GPL-2.0-or-later
"""The least that any decisions could cost over a trace: the offline optimum that regret is from.

It decides where a kernel may, at a system call's entry and at a load of the small state, knowing
what follows.  Access that it dropped comes back by a trap; with `opens` it may also be turned on
at a load, before a use.  What else is done is the traced architecture's mechanism: policies that
change it (`preserve`, `initial-tracking`, `owner-elision`, `fpu-counter`) can cost less.  The work
is in engine.best().
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from kentry.errors import UserError
from kentry.vector import engine
from kentry.vector.mechanism import COLUMNS, Act
from kentry.vector.replay import Counts, prices

if TYPE_CHECKING:
    from kentry.vector.replay import Prepared

# States a task can be in at once: a few; more only with signals within signals.
_FEW = 8


def optimal(
    prepared: Prepared, costs: Mapping[str, float] | None, *, opens: bool = False
) -> Counts:
    """The counts of the decisions with the least cost for each task, under `costs` (act to cost).

    `opens`: access may be turned on without a trap, too, which only `eager` does otherwise.

    Raises UserError without costs.
    """
    if costs is None:
        raise UserError(
            "The policy 'optimal' is the cheapest under some costs, and there are none.",
            "Name a cost table with --costs.",
        )
    price = prices(costs)
    capacity = _FEW
    while True:
        values, enough = engine.best(
            *(prepared.code, prepared.task, prepared.arg, prepared.beginning(prepared.mechanism)),
            prepared.first,
            capacity,
            opens,
            engine.record(prepared.mechanism),
            price,
        )
        if enough:
            break
        capacity *= 2
    assert values.shape[1] == Act.NOTHING + 1
    return Counts(values[:, : len(COLUMNS)])
