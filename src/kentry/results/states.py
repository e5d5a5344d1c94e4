# SPDX-License-Identifier: GPL-2.0-or-later
"""The cases of a recording that were measured in a task with vector state."""

from collections.abc import Sequence

from kentry.results.case_name import NONE, State
from kentry.results.recording import CaseResult, Recording

# A case in a task with this vector state.
StateCase = tuple[CaseResult, State]


def cells_of(recording: Recording) -> list[StateCase]:
    """Returns the cases with a vector state, all states of a case below each other."""
    groups: dict[tuple[str, str, int | None], list[StateCase]] = {}
    for case in recording.cases:
        if state := case.parsed.state:
            groups.setdefault((state.unit, case.parsed.call, state.length), []).append(
                (case, state)
            )
    return [cell for group in groups.values() for cell in group]


def without_use(case: CaseResult, state: State, cells: Sequence[StateCase]) -> CaseResult | None:
    """Returns the same case in a task that never used the unit."""
    wanted = (case.parsed.call, State(state.unit, NONE, state.length))
    return next((one for one, own in cells if (one.parsed.call, own) == wanted), None)
