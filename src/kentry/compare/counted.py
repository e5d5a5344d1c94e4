# SPDX-License-Identifier: GPL-2.0-or-later
"""Two recordings -> a Comparison: verdicts, and function deltas that sum to each delta."""

from collections import Counter

from kentry.arch import find_arch
from kentry.compare.differences import differences, of_both, shared_metrics
from kentry.errors import UserError
from kentry.model.comparison import (
    CaseComparison,
    Comparison,
    EventDelta,
    FunctionDelta,
    TimedComparison,
)
from kentry.model.recording import INSTRUCTIONS, CaseResult, Recording
from kentry.path.stream import stream
from kentry.path.symbols import base_name
from kentry.stats import exact


def compare(
    old: Recording, new: Recording, names: list[str] | None = None, threshold: float | None = None
) -> Comparison:
    """Compares every case both have, or those named; UserError when there is none.

    Changes of time up to `threshold`, a fraction, are none; the usual one is stats.THRESHOLD.
    """
    if old.kernel["arch"] != new.kernel["arch"]:
        raise UserError(
            f"The recordings are of two architectures, {old.kernel['arch']} and"
            f" {new.kernel['arch']}.",
            "Compare two kernels of one.",
        )
    wanted = names or [case.name for case in old.cases]
    pairs = [(a, b) for a, b in ((old.case(name), new.case(name)) for name in wanted) if a and b]
    cases = tuple(
        compare_case(a, b, old, new)
        for a, b in pairs
        if INSTRUCTIONS in a.metrics and INSTRUCTIONS in b.metrics
    )
    timed: list[TimedComparison] = []
    if any(shared_metrics(a, b) for a, b in pairs):
        # It loads numpy and scipy, which exact counts do not need.
        from kentry.compare.timed import compare_timed

        timed = compare_timed(pairs, {case.name: case for case in cases}, old, new, threshold)
    if not cases and not timed:
        what = f"metric of {pairs[0][0].name}" if pairs else "case"
        present = [
            ", ".join(
                dict.fromkeys(
                    name
                    for case in side.cases
                    for name in ((*case.metrics, *case.noisy) if pairs else (case.name,))
                )
            )
            for side in (old, new)
        ]
        raise UserError(
            f"The two recordings have no {what} in common.",
            f"The old one has {present[0]}; the new one {present[1]}.",
        )
    counted, compared = {case.name for case in cases}, {row.name for row in timed}
    lost = []
    for name in wanted:
        case = old.case(name)
        if case and name not in counted and (INSTRUCTIONS in case.metrics or name not in compared):
            lost.append(name)
    found = differences(old, new, pairs, names, counted=bool(cases), timed=bool(timed))
    return Comparison(old, new, cases, tuple(found), tuple(lost), tuple(timed))


def compare_case(
    old: CaseResult, new: CaseResult, old_recording: Recording, new_recording: Recording
) -> CaseComparison:
    """One case on each side; they may be two states of a case in one recording."""
    a, b = old.metrics[INSTRUCTIONS], new.metrics[INSTRUCTIONS]
    paths = [
        stream(recording.instructions(path), find_arch(recording.kernel["arch"]))
        for recording, path in ((old_recording, old.modal_path), (new_recording, new.modal_path))
        if path and a.value == b.value
    ]
    identical = len(paths) == 2 and paths[0] == paths[1]
    return CaseComparison(
        name=old.name,
        old=a.value,
        new=b.value,
        verdict=exact.verdict(dict(a.samples), dict(b.samples)),
        functions=_functions(old, new),
        identical_path=identical,
        caveats=tuple(of_both(list(old.caveats), list(new.caveats))),
        events=_events(old, new, old_recording, new_recording),
    )


def _events(
    old: CaseResult, new: CaseResult, old_recording: Recording, new_recording: Recording
) -> tuple[EventDelta, ...]:
    """The events of either side, those that changed most first."""
    if old.events is None or new.events is None:
        return ()
    sides = (old.events, new.events)
    deltas = []
    for name, cause in {(event.name, event.cause): None for side in sides for event in side}:
        mine = [[one for one in side if (one.name, one.cause) == (name, cause)] for side in sides]
        before, after = (
            sum(one.times for one in events) if name in (recording.markers or {}) else None
            for events, recording in zip(mine, (old_recording, new_recording), strict=True)
        )
        functions = dict.fromkeys(one.function for events in reversed(mine) for one in events)
        deltas.append(EventDelta(name, cause, before, after, tuple(functions)))
    return tuple(sorted(deltas, key=lambda one: -abs((one.new or 0) - (one.old or 0))))


def _functions(old: CaseResult, new: CaseResult) -> tuple[FunctionDelta, ...]:
    """Every function of either path, by its own name: a compiler's clones count as one."""
    sides = []
    for case in (old, new):
        counts: Counter[str] = Counter()
        for name, instructions in case.functions:
            counts[base_name(name)] += instructions
        if counts.total() != case.metrics[INSTRUCTIONS].value:
            return ()
        sides.append(counts)
    a, b = sides
    rows = [FunctionDelta(name, a[name], b[name]) for name in {**a, **b}]
    return tuple(sorted(rows, key=lambda row: (-abs(row.delta), -row.delta, row.name)))
