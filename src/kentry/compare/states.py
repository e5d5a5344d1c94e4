# SPDX-License-Identifier: GPL-2.0-or-later
"""What each vector state adds to a case."""

from collections.abc import Iterator

from kentry.compare.contexts import Side
from kentry.compare.counted import compare_case
from kentry.results.case_name import State
from kentry.results.comparison import CaseComparison
from kentry.results.recording import INSTRUCTIONS, Recording
from kentry.results.states import cells_of, without_use


def added_by_states(recording: Recording) -> Iterator[tuple[CaseComparison, State, State]]:
    """Yields what each state adds to the same case without use: the comparison and both states."""
    cells = cells_of(recording)
    for case, state in cells:
        base = without_use(case, state, cells)
        if base is None or base is case or base.parsed.calls != case.parsed.calls:
            continue
        if base.metrics[INSTRUCTIONS].is_decided and case.metrics[INSTRUCTIONS].is_decided:
            assert base.parsed.state
            sides = Side(base, recording), Side(case, recording)
            yield compare_case(*sides), state, base.parsed.state
