# SPDX-License-Identifier: GPL-2.0-or-later
"""Two recordings -> a Comparison: verdicts, and function deltas that sum to each delta."""

from collections import Counter
from collections.abc import Sequence

from msgspec import UNSET

from kentry.compare.contexts import (
    Change,
    Side,
    depends_on_contexts,
    function_changes,
    sum_of,
)
from kentry.compare.differences import differences, of_both, shared_metrics
from kentry.compare.metrics import by_size, compare_metrics, function_deltas
from kentry.compare.purpose import Deltas, purposes_of_both
from kentry.errors import UserError
from kentry.path.stream import stream
from kentry.path.symbols import base_name, depends_on_context
from kentry.path.variation import distinct_paths, functions_of, settles
from kentry.results import caveats
from kentry.results.caveats import Caveat
from kentry.results.comparison import (
    CaseComparison,
    Comparison,
    Contexts,
    Cycles,
    EstimateChange,
    EventDelta,
    FunctionDelta,
    TimedComparison,
)
from kentry.results.estimate import Estimate
from kentry.results.recording import INSTRUCTIONS, CaseResult, Measured, Recording
from kentry.stats import exact
from kentry.stats.exact import BETTER, SAME, UNDECIDED, WORSE


def compare(
    old: Recording,
    new: Recording,
    names: list[str] | None = None,
    metrics: Sequence[str] = (),
    threshold: float | None = None,
) -> Comparison:
    """Compares every case that both have, or those named; UserError when there is none.

    `metrics` are the exact metrics to compare beside instructions, ALL for every one: see
    choose_metrics().  Changes of time up to `threshold`, a fraction, are none; the usual one is
    stats.THRESHOLD.
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
        compare_case(Side(a, old), Side(b, new))
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
    notes = differences(old, new, pairs, names, counted=bool(cases), timed=bool(timed))
    counted_pairs = [(a, b) for a, b in pairs if a.name in counted]
    if alone := _in_one_context(counted_pairs):
        notes.append(caveats.one_context(", ".join(alone)))
    more = compare_metrics(old, new, counted_pairs, metrics) if metrics else ()
    order = {case.name: place for place, case in enumerate(old.cases)}
    return Comparison(
        tool=new.tool,
        old=Measured.of(old),
        new=Measured.of(new),
        rows=tuple(sorted((*cases, *more, *timed), key=lambda row: order[row.name])),
        caveats=tuple(notes),
        lost=tuple(lost),
    )


def compare_case(old: Side, new: Side) -> CaseComparison:
    """Compares one case of each side; they may be two states of a case in one recording.

    Where the count depends on the context, `old` is the value or, if its path was not recorded,
    the count of most contexts, and `new` is what the new kernel executes in that: contexts.py.
    """
    cases = old.case, new.case
    a, b = (case.metrics[INSTRUCTIONS] for case in cases)
    functions = _functions(*cases)
    verdict, before, after = exact.verdict(dict(a.samples), dict(b.samples)), a.value, b.value
    notes = of_both(*(list(case.caveats) for case in cases))
    contexts = None
    if depends_on_contexts(*cases):
        contexts = Contexts(*(tuple(case.values.items()) for case in cases))
        functions, verdict, reasons = _in_contexts(old, new)
        notes += reasons
        if functions:
            before = sum(row.old for row in functions)
            after = sum(row.new for row in functions)
    parts: Deltas = ()
    purposes: Deltas = ()
    if old.recording.is_floor or new.recording.is_floor:
        parts, purposes = purposes_of_both((old, before), (new, after))
    else:
        functions = _with_renames(functions, old, new)
    return CaseComparison(
        name=old.case.name,
        old=before,
        new=after,
        verdict=verdict,
        functions=functions,
        identical_path=before == after and _is_identical(old, new),
        caveats=tuple(notes),
        events=_events(old, new),
        parts=parts,
        reasons=purposes,
        contexts=contexts or UNSET,
        estimates=_estimates(*cases),
        windows=((a.agreeing, a.windows), (b.agreeing, b.windows)),
    )


def _estimates(old: CaseResult, new: CaseResult) -> tuple[EstimateChange, ...]:
    """Returns both sides on the cores that both were estimated for, by the same version of LLVM."""
    before, after = (
        {(estimate.core, estimate.llvm): _cycles(estimate) for estimate in case.estimates}
        for case in (old, new)
    )
    return tuple(
        EstimateChange(*model, cycles, after[model])
        for model, cycles in before.items()
        if model in after
    )


def _cycles(estimate: Estimate) -> Cycles:
    return Cycles(estimate.low, estimate.high, estimate.missing, estimate.steady)


def _in_contexts(old: Side, new: Side) -> tuple[tuple[FunctionDelta, ...], str, list[Caveat]]:
    """Returns the functions, the verdict and its reasons where a count depends on the context."""
    by_function = function_changes(old, new)
    if by_function is None:
        return (), UNDECIDED, []
    # The value's own path may not have been recorded in any context.
    case = old.case
    path = case.modal_path or max(distinct_paths(case), key=lambda one: len(one[1]))[0]
    shares = functions_of(path, old.recording)
    rows = [
        FunctionDelta(name, shares[name], max(0, shares[name] + change.low))
        for name, change in (dict.fromkeys(shares, Change(0, 0)) | by_function).items()
    ]
    functions = by_size(row for row in rows if row.old or row.new)
    if not settles(case) or not settles(new.case):
        return functions, UNDECIDED, [caveats.unsettled(case.name)]
    low, high = sum_of(by_function)
    if low == high:
        return functions, SAME if low == 0 else WORSE if low > 0 else BETTER, []
    verdict = WORSE if low > 0 else BETTER if high < 0 else UNDECIDED
    return functions, verdict, [caveats.change_by_context(case.name, low, high)]


def _is_identical(old: Side, new: Side) -> bool:
    """Tells whether a context's path of one kernel is that of a context of the other."""
    # A stream takes long to make, and two are the same only where all functions' shares are.
    before, after = (
        {
            frozenset(functions_of(path, recording).items()): recording.instructions(path)
            for path, _ in distinct_paths(case)
        }
        for case, recording in (old, new)
    )
    alike = before.keys() & after.keys()
    return any(
        stream(before[shares], old.arch) == stream(after[shares], old.arch) for shares in alike
    )


def _in_one_context(pairs: Sequence[tuple[CaseResult, CaseResult]]) -> list[str]:
    """Lists the cases whose count can depend on the context, where a side has only one context."""
    return [
        old.name
        for old, new in pairs
        if (len(old.contexts) < 2 or len(new.contexts) < 2)
        and depends_on_context({name for case in (old, new) for name, _ in case.functions})
    ]


def _events(old: Side, new: Side) -> tuple[EventDelta, ...]:
    """Returns the events of either side, those that changed most first."""
    if old.case.events is None or new.case.events is None:
        return ()
    sides = (old.case.events, new.case.events)
    deltas = []
    for name, cause in {(event.name, event.cause): None for side in sides for event in side}:
        own = [
            [event for event in side if (event.name, event.cause) == (name, cause)]
            for side in sides
        ]
        before, after = (
            sum(event.times for event in events) if name in (side.recording.markers or {}) else None
            for events, side in zip(own, (old, new), strict=True)
        )
        functions = dict.fromkeys(event.function for events in reversed(own) for event in events)
        deltas.append(EventDelta(name, cause, before, after, tuple(functions)))
    return tuple(sorted(deltas, key=lambda delta: -abs((delta.new or 0) - (delta.old or 0))))


def _with_renames(
    functions: tuple[FunctionDelta, ...], old: Side, new: Side
) -> tuple[FunctionDelta, ...]:
    """Makes one row of functions that were renamed, inlined or split; the sums stay the same."""
    paths = [(side.recording, side.case.modal_path) for side in (old, new)]
    if not all(path for _, path in paths) or all(row.old and row.new for row in functions):
        return functions
    # It loads numpy, which most comparisons of two like kernels do not need.
    from kentry.compare.path_diff import renames

    before, after = (recording.instructions(path) for recording, path in paths if path)
    rows = {row.name: row for row in functions}
    for renamed in renames(before, after, old.arch):
        names = dict.fromkeys(name for name, _ in (*renamed.new, *renamed.old) if name in rows)
        own = [rows.pop(name) for name in names]
        if own:
            sums = sum(row.old for row in own), sum(row.new for row in own)
            rows[renamed.name] = FunctionDelta(renamed.name, *sums, renamed=renamed)
    return by_size(rows.values())


def _functions(old: CaseResult, new: CaseResult) -> tuple[FunctionDelta, ...]:
    """Returns every function of either path, by its own name: a compiler's clones count as one."""
    sides = []
    for case in (old, new):
        counts: Counter[str] = Counter()
        for name, instructions in case.functions:
            counts[base_name(name)] += instructions
        if counts.total() != case.metrics[INSTRUCTIONS].value:
            return ()
        sides.append(counts)
    return function_deltas(*sides)
