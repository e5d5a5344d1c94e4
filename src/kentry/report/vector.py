# SPDX-License-Identifier: GPL-2.0-or-later
"""Vector state as text: the matrix of states and cases, events, and other benchmarks' own forms."""

from __future__ import annotations

import textwrap
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from fractions import Fraction

from kentry.arch import Arch
from kentry.compare.counted import compare_case
from kentry.model import caveats
from kentry.model.case_name import AFTER, EACH, NONE, ONCE, USES, CaseName, State
from kentry.model.caveats import Caveat
from kentry.model.comparison import CaseComparison, EventDelta
from kentry.model.recording import INSTRUCTIONS, CaseResult, Recording
from kentry.model.series import Series
from kentry.report.plain import wrapped
from kentry.stats import exact

# Columns of the matrix: events of a case are a list.
_WIDE = 110

# Kinds of caveats that a row of the matrix shows itself where the count is not decided.
_SHOWN = frozenset((caveats.no_majority("", 0)["kind"], caveats.unrecorded_path("", 0)["kind"]))


def stateful(recording: Recording) -> list[CaseResult]:
    """The cases with a vector state."""
    return [case for case in recording.cases if case.parsed.state]


def _state(case: CaseResult) -> State:
    found = case.parsed.state
    assert found
    return found


def _bits(case: CaseResult, arch: Arch) -> int:
    state = _state(case)
    return arch.vector.bits(state.unit, state.length)


def _per_call(case: CaseResult) -> Fraction:
    return Fraction(case.metrics[INSTRUCTIONS].value, case.parsed.calls)


def _number(value: Fraction) -> str:
    """A count per call: whole where it is, else with what one decimal says, or three of a rate."""
    if value.denominator == 1:
        return str(value.numerator)
    return f"{float(value):.1f}" if value > 1 else f"{float(value):.3g}"


def _none_of(case: CaseResult, cases: Iterable[CaseResult]) -> CaseResult | None:
    """The same case in a task that never used the unit."""
    own = _state(case)
    wanted = f"{case.parsed.call}{State(own.unit, NONE, own.length)}"
    return next((one for one in cases if one.name == wanted), None)


def _ratio(case: CaseResult, cases: Iterable[CaseResult]) -> str:
    base = _none_of(case, cases)
    if base is None or not _per_call(base) or not (_is_decided(base) and _is_decided(case)):
        return "-"
    return f"{float(_per_call(case) / _per_call(base)):.2f}"


def _is_decided(case: CaseResult) -> bool:
    return exact.is_decided(dict(case.metrics[INSTRUCTIONS].samples))


def _rows(cases: Sequence[CaseResult]) -> list[CaseResult]:
    """A case's states below each other, in the order in which cases and states came."""
    groups: dict[tuple[str, str, int | None], list[CaseResult]] = {}
    for case in cases:
        own = _state(case)
        groups.setdefault((own.unit, case.parsed.call, own.length), []).append(case)
    return [case for group in groups.values() for case in group]


def matrix_lines(recording: Recording, arch: Arch) -> list[str]:
    """A row a state: its count, how much more that is than without vectors, its events."""
    cases = stateful(recording)
    width = max(len(case.parsed.call) for case in cases)
    head = f"{'case':<{width}} {'vl':>5}  {'state':<10} {'instructions':>12} {'x none':>7}"
    lines = [f"{head}  events per call"]
    last = ""
    for case in _rows(cases):
        own = _state(case)
        label = f"{case.parsed.call:<{width}} {_bits(case, arch):>5}"
        shown, last = (label if label != last else " " * len(label)), label
        row = (
            f"{shown}  {f'{own.unit}={own.use}':<10} {_number(_per_call(case)):>12}"
            f" {_ratio(case, cases):>7}  "
        )
        lines += textwrap.wrap(
            f"{_event_cell(case)}{_spread(case)}",
            _WIDE,
            initial_indent=row,
            subsequent_indent=" " * len(row),
            break_on_hyphens=False,
        )
    return [*lines, "", *marker_lines(recording, arch)]


def _event_cell(case: CaseResult) -> str:
    if case.events is None:
        return "not known"
    times: Counter[tuple[str, str]] = Counter()
    for event in case.events:
        times[event.name, event.cause] += event.times
    return (
        ", ".join(
            f"{name} {_number(Fraction(count, case.parsed.calls))} ({cause})"
            for (name, cause), count in times.items()
        )
        or "-"
    )


def _spread(case: CaseResult) -> str:
    """How many windows have the count, where not all do; its range where that is under half."""
    samples = dict(case.metrics[INSTRUCTIONS].samples)
    total, agreeing = sum(samples.values()), samples[case.metrics[INSTRUCTIONS].value]
    if agreeing == total:
        return ""
    if exact.is_decided(samples):
        return f"  [{agreeing} of {total} windows]"
    low, high = (
        _number(Fraction(edge, case.parsed.calls)) for edge in (min(samples), max(samples))
    )
    return f"  [undecided: {low} to {high} in {total} windows]"


def over_none(recording: Recording) -> list[tuple[CaseComparison, str, str]]:
    """What each state adds to the same case in a task that never used the unit; both states."""
    cases = stateful(recording)
    found = []
    for case in cases:
        base = _none_of(case, cases)
        if base in (None, case) or not (_is_decided(base) and _is_decided(case)):
            continue
        if base.parsed.calls == case.parsed.calls:
            one = compare_case(base, case, recording, recording)
            found.append((one, str(_state(case)), str(_state(base))))
    return found


def marker_lines(recording: Recording, arch: Arch, width: int = 79) -> list[str]:
    """By what each event was known, and which the kernel has no marker of."""
    markers = recording.markers or {}
    known = "; ".join(f"{event}: {label}" for event, label in markers.items())
    absent = [one.event for one in arch.vector.markers if one.event not in markers]
    lines = wrapped(f"markers: {known}", width)
    if absent:
        lines += wrapped(f"not in this kernel, so not counted: {', '.join(absent)}", width)
    return lines


# --- the changelog's form ------------------------------------------------


def narrow_lines(recording: Recording, arch: Arch, width: int) -> list[str]:
    """Cases down, states across; then the events, the cases with the same ones together."""
    lines: list[str] = []
    cases = _rows(stateful(recording))
    for unit, bits in dict.fromkeys((_state(case).unit, _bits(case, arch)) for case in cases):
        here = [c for c in cases if (_state(c).unit, _bits(c, arch)) == (unit, bits)]
        what = next(one.what for one in arch.vector.units if one.name == unit)
        lines += ["", f"{unit}= is {what}, {bits} bits; kernel instructions a call:", ""]
        lines += _across(here, width)
        if not all(map(_is_decided, here)):
            lines.append("  ~ under half of the windows have this count")
        lines += ["", "events a call:", *_grouped_events(here, width)]
    return lines[1:]


def _across(cases: Sequence[CaseResult], width: int) -> Iterator[str]:
    """A table of cases and uses; tables below each other where the uses have no room beside."""
    uses = list(dict.fromkeys(_state(case).use for case in cases))
    names = list(dict.fromkeys(case.parsed.call for case in cases))
    cells = {
        (c.parsed.call, _state(c).use): ("" if _is_decided(c) else "~") + _number(_per_call(c))
        for c in cases
    }
    label = max(map(len, ("case", *names)))
    column = max(8, *map(len, cells.values()))
    most = max(1, (width - label - 2) // (column + 1))
    for first in range(0, len(uses), most):
        here = uses[first : first + most]
        if first:
            yield ""
        yield f"  {'case':<{label}}" + "".join(f" {use:>{column}}" for use in here)
        for name in names:
            row = "".join(f" {cells.get((name, use), '-'):>{column}}" for use in here)
            yield f"  {name:<{label}}{row}"


def _grouped_events(cases: Sequence[CaseResult], width: int) -> Iterator[str]:
    """Uses and cases with the same events together."""
    named: dict[tuple[str, str], list[str]] = {}
    for case in cases:
        named.setdefault((_state(case).use, _event_cell(case)), []).append(case.parsed.call)
    groups: dict[tuple[str, str], list[str]] = {}
    for (use, events), names in named.items():
        groups.setdefault((events, ", ".join(names)), []).append(use)
    for (events, where), uses in groups.items():
        if events != "-":
            yield from wrapped(f"{', '.join(uses)}: {events}: {where}", width, "  ", "    ")


def own_caveats(cases: Iterable[CaseResult]) -> Iterator[Caveat]:
    """The caveats of cases, less what the tables here already show of those with a state."""
    for case in cases:
        for caveat in case.caveats:
            shown = caveat["kind"] in _SHOWN and not _is_decided(case)
            if not case.parsed.state or not shown:
                yield caveat


# --- what changed --------------------------------------------------------


def _per(calls: int) -> str:
    return "call" if calls == 1 else f"{calls} calls"


def _change(event: EventDelta, calls: int) -> str:
    sides = ["?" if side is None else str(side) for side in (event.old, event.new)]
    where = f", in {', '.join(event.functions)}" if event.functions else ""
    return f"{event.name} ({event.cause}) {sides[0]} -> {sides[1]} per {_per(calls)}{where}"


def event_change_lines(cases: Iterable[CaseComparison], width: int) -> list[str]:
    """The policy before the price: every case whose events are not the same, and which."""
    lines = []
    for case in cases:
        calls = CaseName.parse(case.name).calls
        for event in (one for one in case.events if one.is_change):
            lines += wrapped(f"{case.name}: {_change(event, calls)}", width, "  ", "    ")
    return ["Vector events:", *lines] if lines else []


def short_changes(case: CaseComparison) -> str:
    """The event that changed most, and how many others did; nothing where none changed."""
    changed = [event for event in case.events if event.is_change]
    calls = CaseName.parse(case.name).calls
    texts = [_change(event, calls) for event in changed[:1]]
    return "; ".join([*texts, *([f"{len(changed) - 1} more"] if changed[1:] else [])])


def series_event_lines(series: Series, width: int) -> list[str]:
    """A line a patch and change of events, with the cases it is the same for."""
    lines = []
    for row in series.rows:
        groups: dict[str, list[str]] = {}
        for column, cell in row.cells.items():
            calls = CaseName.parse(column.case).calls
            text = "; ".join(_change(event, calls) for event in cell.events)
            if text:
                groups.setdefault(text, []).append(series.name(column))
        for text, names in groups.items():
            lines += wrapped(f"Patch {row.patch}: {text}: {', '.join(names)}", width)
    return lines


# --- other benchmarks' own forms -----------------------------------------


def preset_lines(name: str, recording: Recording, arch: Arch) -> list[str]:
    """The rows of a preset as the benchmark itself prints them, counts in place of time.

    Its sums are those of as many calls as windows were asked for, each with the case's value.
    """
    return _PRESET_LINES[name](recording, arch)


def _value(recording: Recording, name: str) -> int | None:
    case = recording.case(name)
    return case.metrics[INSTRUCTIONS].value if case else None


def _by_length(recording: Recording, base: str) -> Iterator[tuple[int | None, dict[str, int]]]:
    """By vector length, None for the cpu model's own, a benchmark's counts in each state."""
    for length in dict.fromkeys(_state(case).length for case in stateful(recording)):
        found = {use: _value(recording, f"{base}{State('vec', use, length)}") for use in USES}
        known = {use: value for use, value in found.items() if value is not None}
        if known:
            yield length, known


def _fp_pidbench(recording: Recording, arch: Arch) -> list[str]:
    lines = ["In fp-pidbench's form, kernel instructions in place of timer ticks:"]
    windows = recording.options["windows"]
    for length, known in _by_length(recording, "getpid"):
        lines.append(f"Iterations per test: {windows}")
        for use, label in (
            (NONE, "No SVE"),
            ("", "SVE VL"),
            (ONCE, "SVE used once"),
            (EACH, "SVE used per syscall"),
            (AFTER, "No SVE after SVE"),
        ):
            if not use:
                lines.append(f"{label}: {arch.vector.bits('vec', length)}")
            elif use in known:
                lines.append(f"{label}: {known[use] * windows}")
    return lines


def _v_getppid(recording: Recording, _arch: Arch) -> list[str]:
    lines = ["In the posted loop's form, kernel instructions in place of ns:"]
    windows = recording.options["windows"]
    for length, known in _by_length(recording, "getppid"):
        bits = f", {length} bits" if length else ""
        for number, use in enumerate((NONE, ONCE)):
            if use in known:
                lines.append(
                    f"V={number} {known[use]:.1f} instructions/call"
                    f" ({known[use] * windows} instructions / {windows} iters{bits})"
                )
    return lines


_PRESET_LINES = {"fp-pidbench": _fp_pidbench, "v-getppid": _v_getppid}
