# SPDX-License-Identifier: GPL-2.0-or-later
"""The matrix of cases and vector states, and the presets in their benchmarks' own form."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence

from kentry.arch import Arch
from kentry.compare.counted import compare_case
from kentry.model.case_name import AFTER, EACH, NONE, ONCE, USES, State
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
    table = Table(
        [
            text_column("case"),
            Column("vl"),
            text_column("state"),
            Column("instructions"),
            Column("x none"),
            text_column("events per call", wraps=True),
        ],
        keys=3,
    )
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
            f"{_events(case)} {_spread(case)}",
        )
        above = label
    return [*table.lines(), "", *marker_lines(recording, arch)]


def _without_use(case: CaseResult, state: State, cells: Sequence[Cell]) -> CaseResult | None:
    """The same case in a task that never used the unit."""
    wanted = (case.parsed.call, State(state.unit, NONE, state.length))
    return next((one for one, own in cells if (one.parsed.call, own) == wanted), None)


def _events(case: CaseResult) -> str:
    if case.events is None:
        return "not known"
    times: Counter[tuple[str, str]] = Counter()
    for event in case.events:
        times[event.name, event.cause] += event.times
    texts = (
        f"{name} {per_call(count, case.parsed.calls)} ({cause})"
        for (name, cause), count in times.items()
    )
    return ", ".join(texts) or "-"


def _spread(case: CaseResult) -> str:
    """How many windows have the count if not all have; its range if no more than half have."""
    count = case.metrics[INSTRUCTIONS]
    if count.agreeing == count.windows:
        return ""
    if count.is_decided:
        return f"[{count.agreeing} of {count.windows} windows]"
    values = [value for value, _ in count.samples]
    low, high = (per_call(edge, case.parsed.calls) for edge in (min(values), max(values)))
    return f"[undecided: {low} to {high} in {count.windows} windows]"


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


# --- presets -------------------------------------------------------------


def preset_lines(name: str, recording: Recording, arch: Arch) -> list[str]:
    """The rows of a preset as the benchmark itself prints them, with counts in place of time.

    A sum is the case's value times the number of windows that were asked for.
    """
    fp_pidbench = name == "fp-pidbench"
    lines = [
        "In fp-pidbench's form, kernel instructions in place of timer ticks:"
        if fp_pidbench
        else "In the posted loop's form, kernel instructions in place of ns:"
    ]
    windows = recording.options["windows"]
    for length in dict.fromkeys(state.length for _, state in cells_of(recording)):
        cases = {
            use: recording.case(f"{'getpid' if fp_pidbench else 'getppid'}{state}")
            for use in USES
            for state in [State("vec", use, length)]
        }
        counts = {use: one.metrics[INSTRUCTIONS].value for use, one in cases.items() if one}
        if not counts:
            continue
        if fp_pidbench:
            sums = {use: count * windows for use, count in counts.items()}
            rows = [("Iterations per test", windows), ("No SVE", sums.get(NONE))]
            rows += [("SVE VL", arch.vector.bits("vec", length)), ("SVE used once", sums.get(ONCE))]
            rows += [
                ("SVE used per syscall", sums.get(EACH)),
                ("No SVE after SVE", sums.get(AFTER)),
            ]
            lines += [f"{label}: {value}" for label, value in rows if value is not None]
            continue
        bits = f", {length} bits" if length else ""
        lines += [
            f"V={number} {counts[use]:.1f} instructions/call"
            f" ({counts[use] * windows} instructions / {windows} iters{bits})"
            for number, use in enumerate((NONE, ONCE))
            if use in counts
        ]
    return lines
