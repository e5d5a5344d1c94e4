# SPDX-License-Identifier: GPL-2.0-or-later
"""The matrix of cases and vector states."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence

from kentry.arch import Arch
from kentry.compare.counted import compare_case
from kentry.model.case_name import NONE, State
from kentry.model.comparison import CaseComparison
from kentry.model.recording import INSTRUCTIONS, CaseResult, Recording
from kentry.report.numbers import per_call
from kentry.report.table import Column, Table, text_column, wrapped

Cell = tuple[CaseResult, State]


def cells_of(recording: Recording) -> list[Cell]:
    """The cases with a vector state, all states of a case below each other."""
    groups: dict[tuple[str, str, int | None], list[Cell]] = {}
    for case in recording.cases:
        if state := case.parsed.state:
            groups.setdefault((state.unit, case.parsed.call, state.length), []).append(
                (case, state)
            )
    return [cell for group in groups.values() for cell in group]


def matrix_lines(recording: Recording, arch: Arch) -> list[str]:
    """A row a state: its count per call, the ratio to "none", its events; then the markers."""
    cells = cells_of(recording)
    keys = [text_column("case"), Column("vl"), text_column("state")]
    events = text_column("events per call", wraps=True)
    table = Table([*keys, Column("instructions"), Column("x none"), events], keys=len(keys))
    above: tuple[str, int] | None = None
    for case, state in cells:
        label = (case.parsed.call, arch.vector.bits(state.unit, state.length))
        count, calls = case.metrics[INSTRUCTIONS], case.parsed.calls
        base = _without_use(case, state, cells)
        ratio = None
        if base and base.metrics[INSTRUCTIONS].is_decided and count.is_decided:
            per_base = base.metrics[INSTRUCTIONS].value / base.parsed.calls
            ratio = f"{count.value / calls / per_base:.2f}" if per_base else None
        table.row(
            *(label if label != above else ("", "")),
            f"{state.unit}={state.use}",
            per_call(count.value, calls),
            ratio,
            _events(case),
        )
        above = label
    named = {state.unit for _, state in cells}
    units = ", ".join(f"{one.name} is {one.what}" for one in arch.vector.units if one.name in named)
    return [*table.lines(), "", *marker_lines(recording, arch), *wrapped(f"{units}; vl: bits")]


def _without_use(case: CaseResult, state: State, cells: Sequence[Cell]) -> CaseResult | None:
    """The same case in a task that never used the unit."""
    wanted = (case.parsed.call, State(state.unit, NONE, state.length))
    return next((one for one, own in cells if (one.parsed.call, own) == wanted), None)


def _events(case: CaseResult) -> str:
    """The events per call; how many windows have the count unless all have."""
    count, calls = case.metrics[INSTRUCTIONS], case.parsed.calls
    times: Counter[tuple[str, str]] = Counter()
    for event in case.events or ():
        times[event.name, event.cause] += event.times
    texts = [f"{name} {per_call(n, calls)} ({cause})" for (name, cause), n in times.items()]
    text = "not known" if case.events is None else ", ".join(texts) or "-"
    if count.agreeing == count.windows:
        return text
    if count.is_decided:
        return f"{text} [{count.agreeing} of {count.windows} windows]"
    values = [value for value, _ in count.samples]
    low, high = (per_call(edge, calls) for edge in (min(values), max(values)))
    return f"{text} [undecided: {low} to {high} in {count.windows} windows]"


def marker_lines(recording: Recording, arch: Arch) -> list[str]:
    """The kernel code by which each event was found, and the events that have none."""
    markers = recording.markers or {}
    known = "; ".join(f"{event}: {label}" for event, label in markers.items())
    absent = [one.event for one in arch.vector.markers if one.event not in markers]
    lines = wrapped(f"markers: {known}")
    if absent:
        lines += wrapped(f"not in this kernel, so not counted: {', '.join(absent)}")
    return lines


def added_by_states(recording: Recording) -> Iterator[tuple[CaseComparison, State, State]]:
    """What each state adds to the same case without use: the comparison and both states."""
    cells = cells_of(recording)
    for case, state in cells:
        base = _without_use(case, state, cells)
        if base is None or base is case or base.parsed.calls != case.parsed.calls:
            continue
        if base.metrics[INSTRUCTIONS].is_decided and case.metrics[INSTRUCTIONS].is_decided:
            assert base.parsed.state
            yield compare_case(base, case, recording, recording), state, base.parsed.state
