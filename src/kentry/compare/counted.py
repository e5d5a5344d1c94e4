# SPDX-License-Identifier: GPL-2.0-or-later
"""Two recordings -> a Comparison: verdicts, and function deltas that sum to each delta."""

import itertools
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence

from msgspec import UNSET, UnsetType
from msgspec.structs import replace

from kentry.arch import find_arch
from kentry.compare.contexts import (
    Change,
    MetricChange,
    Side,
    depends_on_contexts,
    function_changes,
    identical_paths,
    is_unchanged,
    metric_changes,
    place_change,
    place_values,
    sum_of,
)
from kentry.compare.differences import differences, of_both, one_architecture, shared_metrics
from kentry.compare.layout import layout_change
from kentry.errors import UserError
from kentry.path import metrics as path_metrics
from kentry.path.calls import NOT_KNOWN, purposes
from kentry.path.pairs import pack_pairs
from kentry.path.symbols import base_name, depends_on_context
from kentry.path.variation import distinct_paths, functions_of, settles
from kentry.results import caveats
from kentry.results.case_name import State
from kentry.results.caveats import Caveat
from kentry.results.comparison import (
    CaseComparison,
    Comparison,
    Contexts,
    Cycles,
    EstimateChange,
    EventDelta,
    FunctionDelta,
    PurposeDelta,
    TimedComparison,
    cells_of,
    without_use,
)
from kentry.results.recording import (
    ABOUT_PATHS,
    INSTRUCTIONS,
    OF_LAYOUT,
    CaseResult,
    Measured,
    Metric,
    Recording,
)
from kentry.stats import exact
from kentry.stats.exact import BETTER, SAME, UNDECIDED, WORSE

# Stands for every metric.
ALL = "all"


def compare(
    old: Recording,
    new: Recording,
    names: list[str] | None = None,
    metrics: Sequence[str] = (),
    threshold: float | None = None,
) -> Comparison:
    """Compares every case that both have, or those named; UserError when there is none."""
    # `metrics` are exact ones beside instructions, or ALL; changes of time up to `threshold`, a
    # fraction, are none.
    one_architecture(old, new, "Compare two kernels of one.")
    wanted = names or [case.name for case in old.cases]
    pairs = [(a, b) for a, b in ((old.case(name), new.case(name)) for name in wanted) if a and b]
    both = [pair for pair in pairs if all(INSTRUCTIONS in case.metrics for case in pair)]
    cases = [compare_case(Side(a, old), Side(b, new)) for a, b in both]
    timed: list[TimedComparison] = []
    if any(shared_metrics(a, b) for a, b in pairs):
        # It loads numpy and scipy, which exact counts do not need.
        from kentry.compare.timed import compare_timed

        timed = compare_timed(pairs, {case.name: case for case in cases}, old, new, threshold)
    if not cases and not timed:
        raise _nothing_in_common(pairs, old, new)
    counted, compared = {case.name for case in cases}, {row.name for row in timed}
    lost = [
        case.name
        for name in wanted
        if (case := old.case(name))
        and name not in counted
        and (INSTRUCTIONS in case.metrics or name not in compared)
    ]
    notes = differences(old, new, pairs, names, counted=bool(cases), timed=bool(timed))
    alone = [
        a.name
        for a, b in both
        if min(len(a.contexts), len(b.contexts)) < 2
        and depends_on_context({name for name, _ in (*a.functions, *b.functions)})
    ]
    if alone:
        notes.append(caveats.one_context(", ".join(alone)))
    if metrics:
        # Recordings from before a metric of layout have the paths that it follows from.
        both = [(_with_layout(a, old), _with_layout(b, new)) for a, b in both]
    more = _compare_metrics(old, new, both, metrics) if metrics else ()
    order = {case.name: place for place, case in enumerate(old.cases)}
    return Comparison(
        tool=new.tool,
        old=Measured.of(old),
        new=Measured.of(new),
        rows=tuple(sorted((*cases, *more, *timed), key=lambda row: order[row.name])),
        caveats=tuple(notes),
        lost=tuple(lost),
    )


def _nothing_in_common(
    pairs: Sequence[tuple[CaseResult, CaseResult]], *sides: Recording
) -> UserError:
    what, present = "case", [[case.name for case in side.cases] for side in sides]
    if pairs:
        what = f"metric of {pairs[0][0].name}"
        metrics = ([(*case.metrics, *case.noisy) for case in side.cases] for side in sides)
        present = [list(dict.fromkeys(itertools.chain(*own))) for own in metrics]
    old, new = map(", ".join, present)
    return UserError(
        f"The two recordings have no {what} in common.",
        f"The old one has {old}; the new one {new}.",
    )


def compare_case(old: Side, new: Side) -> CaseComparison:
    """Compares one case of each side; they may be two states of a case in one recording."""
    # Where the count depends on the context, `new` is the old value with each function's change:
    # contexts.py.  If the value's own path was not recorded, the functions are of another context.
    cases = old.case, new.case
    a, b = (case.metrics[INSTRUCTIONS] for case in cases)
    functions = _functions(*cases)
    before, after = a.value, b.value
    change = Change(*[after - before] * 2) if a.is_decided and b.is_decided else None
    verdict, _ = _verdict(old.case.name, change)
    notes = of_both(*(list(case.caveats) for case in cases))
    contexts: Contexts | UnsetType = UNSET
    if depends_on_contexts(*cases):
        contexts = Contexts(*(tuple(case.values.items()) for case in cases))
        functions, change = _in_contexts(old, new)
        verdict, why = _verdict(old.case.name, change)
        # That a recording has no paths, its own caveats say.
        notes += why if functions else []
        if functions:
            after = before + sum(row.delta for row in functions)
            if not old.case.modal_path:
                path = sum(row.old for row in functions)
                notes.append(caveats.functions_of_context(old.case.name, path, before))
    alike = identical_paths(old, new) if before == after else None
    of_floor = old.recording.is_floor or new.recording.is_floor
    parts, reasons = _purposes_of_both(old, new, [before, after]) if of_floor else ((), ())
    if not of_floor:
        functions = _with_renames(functions, old, new)
    return CaseComparison(
        name=old.case.name,
        old=before,
        new=after,
        verdict=verdict,
        functions=functions,
        identical_path=alike is not None,
        caveats=tuple(notes),
        events=_events(old, new),
        parts=parts,
        reasons=reasons,
        contexts=contexts,
        layout=layout_change(*alike, old.arch) if alike and verdict == SAME else UNSET,
        estimates=_estimates(*cases),
        windows=((a.agreeing, a.windows), (b.agreeing, b.windows)),
        change=change,
    )


def _estimates(old: CaseResult, new: CaseResult) -> tuple[EstimateChange, ...]:
    before, after = (
        {
            (one.core, one.llvm): Cycles(one.low, one.high, one.missing, one.steady)
            for one in case.estimates
        }
        for case in (old, new)
    )
    return tuple(
        EstimateChange(*model, cycles, after[model])
        for model, cycles in before.items()
        if model in after
    )


def _in_contexts(old: Side, new: Side) -> tuple[tuple[FunctionDelta, ...], Change | None]:
    """The functions, and by how much the count changes, where it depends on the context."""
    by_function = function_changes(old, new)
    if by_function is None:
        return (), None
    # The value's own path may not have been recorded in any context.
    case = old.case
    path = case.modal_path or max(distinct_paths(case), key=lambda one: len(one[1]))[0]
    shares = functions_of(path, old.recording)
    before = case.metrics[INSTRUCTIONS].value
    functions = function_rows(shares, by_function, before, new.case.values)
    settled = settles(case) and settles(new.case)
    return functions, sum_of(by_function.values()) if settled else None


def function_rows(
    shares: Mapping[str, int], changes: Mapping[str, Change], old: int, seen: Mapping[int, int]
) -> tuple[FunctionDelta, ...]:
    """Rows of functions that have `shares` of the old value, and their changes.

    Where these depend on the context, they add up to the commonest value `seen` in contexts of the
    new kernel that they can add up to; if there is none, each is its least.
    """
    # A function executes no fewer than none.
    bounded = {
        name: Change(*(max(end, -shares.get(name, 0)) for end in change))
        for name, change in changes.items()
    }
    low, high = sum_of(bounded.values())
    often = sorted(seen, key=lambda value: (-seen[value], value))
    more = next((value - old - low for value in often if low <= value - old <= high), 0)
    rows = []
    for name in dict.fromkeys((*shares, *changes)):
        least, most = bounded.get(name, Change(0, 0))
        own = min(more, most - least)
        more -= own
        before = shares.get(name, 0)
        rows.append(FunctionDelta(name, before, before + least + own))
    return _by_size(row for row in rows if row.old or row.new)


def _events(old: Side, new: Side) -> tuple[EventDelta, ...]:
    if old.case.events is None or new.case.events is None:
        return ()
    times: dict[tuple[str, str], list[int]] = {}
    for side, events in enumerate((old.case.events, new.case.events)):
        for event in events:
            times.setdefault((event.name, event.cause), [0, 0])[side] += event.times
    deltas = []
    for (name, cause), own in times.items():
        before, after = (
            count if name in (side.recording.markers or {}) else None
            for count, side in zip(own, (old, new), strict=True)
        )
        functions = dict.fromkeys(
            event.function
            for event in (*new.case.events, *old.case.events)
            if (event.name, event.cause) == (name, cause)
        )
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
    return _by_size(rows.values())


def _functions(old: CaseResult, new: CaseResult) -> tuple[FunctionDelta, ...]:
    sides = []
    for case in (old, new):
        counts: Counter[str] = Counter()
        for name, instructions in case.functions:
            counts[base_name(name)] += instructions
        if counts.total() != case.metrics[INSTRUCTIONS].value:
            return ()
        sides.append(counts)
    return _function_deltas(*sides)


def _compare_metrics(
    old: Recording,
    new: Recording,
    pairs: Sequence[tuple[CaseResult, CaseResult]],
    wanted: Sequence[str],
) -> Iterator[CaseComparison]:
    """Compares each metric but instructions that both sides have; UserError for others."""
    chosen = choose_metrics(pairs, wanted)
    for pair in pairs:
        sides = Side(pair[0], old), Side(pair[1], new)
        metrics = [metric for metric in chosen if _has(pair, metric)]
        of_places = [metric for metric in metrics if metric in path_metrics.OF_PLACES]
        by_path = metric_changes(*sides, [one for one in metrics if one not in of_places])
        of_data = [_of_data(*side) for side in sides]
        missing = of_data[0][2] | of_data[1][2]
        words = ", ".join(f"{name} ({times} times)" for name, times in sorted(missing.items()))
        unchanged = bool(of_places) and is_unchanged(*sides)
        for metric in metrics:
            if metric in by_path:
                row = _of_paths(*sides, metric, by_path[metric])
            elif metric in of_places:
                change = place_change(*sides, metric, unchanged=unchanged)
                row = _of_samples(*sides, metric, change)
                shares = [
                    path_metrics.shares(own.get(metric, Counter()), f) for f, own, _ in of_data
                ]
                if [one.total() for one in shares] == [row.old, row.new]:
                    row = replace(row, functions=_function_deltas(*shares))
            else:
                row = _of_samples(*sides, metric, None)
            if words and metric in path_metrics.OF_ACCESSES:
                notes = (*row.caveats, caveats.unreported_accesses(pair[0].name, words))
                row = replace(row, caveats=notes)
            yield row


def _with_layout(case: CaseResult, recording: Recording) -> CaseResult:
    """The case with the metrics of layout that it lacks, of its modal path, if it has one."""
    path, missing = case.modal_path, [name for name in OF_LAYOUT if name not in case.metrics]
    if path is None or not missing:
        return case
    arch = find_arch(recording.kernel["arch"])
    amounts = path_metrics.amounts_of_code(recording.instructions(path), arch)
    own = {name: Metric.of({amounts[name].total(): path.times}) for name in missing}
    return replace(case, metrics=case.metrics | own)


def _of_paths(old: Side, new: Side, metric: str, change: MetricChange) -> CaseComparison:
    """A metric's row where the paths of all contexts decide it."""
    before = sum(change.shares.values())
    seen = exact.histogram((value, 1) for value in change.values[1].values())
    functions = function_rows(change.shares, change.by_function, before, seen)
    whole = change.change if settles(old.case) and settles(new.case) else None
    verdict, notes = _verdict(f"{metric} of {old.case.name}", whole)
    several = any(len({*own.values()}) > 1 for own in change.values)
    return CaseComparison(
        name=old.case.name,
        metric=metric,
        old=sum(row.old for row in functions),
        new=sum(row.new for row in functions),
        verdict=verdict,
        identical_path=False,
        functions=functions,
        contexts=_by_context(change.values) if several else UNSET,
        caveats=tuple(notes),
        change=whole,
    )


def _by_context(values: Sequence[Mapping[int, int]]) -> Contexts:
    """In how many contexts of each side each value was the commonest."""
    return Contexts(
        *(tuple(exact.histogram((one, 1) for one in own.values()).items()) for own in values)
    )


def _of_samples(old: Side, new: Side, metric: str, change: Change | None) -> CaseComparison:
    """A metric's row of the first boots' windows; `change` is None where contexts decide it not."""
    samples = [
        dict(case.metrics[metric].samples) if metric in case.metrics else {0: 1}
        for case, _ in (old, new)
    ]
    before, after = map(exact.mode, samples)
    values = [place_values(case, metric) for case, _ in (old, new)]
    several = all(values) and len({*values[0].values(), *values[1].values(), before, after}) > 1
    verdict, notes = exact.verdict(*samples), list[Caveat]()
    if change:
        verdict, notes = _verdict(f"{metric} of {old.case.name}", change)
        if change.low == change.high:
            # What the new kernel has in the context of the old value.
            after = before + change.low
    elif depends_on_contexts(old.case, new.case):
        verdict, notes = UNDECIDED, [caveats.one_context(f"{metric} of {old.case.name}")]
    elif verdict != UNDECIDED:
        change = Change(*[after - before] * 2)
    return CaseComparison(
        name=old.case.name,
        metric=metric,
        old=before,
        new=after,
        verdict=verdict,
        identical_path=False,
        functions=(),
        contexts=_by_context(values) if several else UNSET,
        caveats=tuple(notes),
        change=change,
    )


def _verdict(name: str, change: Change | None) -> tuple[str, list[Caveat]]:
    """The verdict of a change, None where nothing settles, and why it is not an exact one."""
    if change is None:
        return UNDECIDED, [caveats.unsettled(name)]
    low, high = change
    if low == high:
        return SAME if low == 0 else WORSE if low > 0 else BETTER, []
    verdict = WORSE if low > 0 else BETTER if high < 0 else UNDECIDED
    return verdict, [caveats.change_by_context(name, low, high)]


def _of_data(
    case: CaseResult, recording: Recording
) -> tuple[list[str], path_metrics.Amounts, Counter[str]]:
    """Of a modal path: the functions, each metric's amounts, the accesses that are not reported."""
    path = case.modal_path
    if path is None or path.accesses is None:
        return [], {}, Counter()
    code = recording.instructions(path)
    missing = path_metrics.unreported(code, path.accesses, find_arch(recording.kernel["arch"]))
    functions = [base_name(insn.function) for insn in code]
    return functions, path_metrics.amounts_of_accesses(path.accesses), missing


def choose_metrics(groups: Sequence[Sequence[CaseResult]], wanted: Sequence[str]) -> list[str]:
    """Those asked for but instructions, ALL being all that a group has; UserError for others."""
    known = [metric for metric in ABOUT_PATHS if any(_has(group, metric) for group in groups)]
    known += sorted(
        {
            metric
            for group in groups
            for case in group
            for metric in case.metrics
            if metric.startswith(f"{path_metrics.SERIALISING}.") and _has(group, metric)
        }
    )
    if ALL in wanted:
        return known
    for name in wanted:
        if name not in (*known, INSTRUCTIONS):
            have = ", ".join([INSTRUCTIONS, *known])
            raise UserError(
                f"No case has a metric '{name}' that can be compared.",
                f"There are {have}. Recordings of an older kentry have fewer: make them again with"
                " kentry record.",
            )
    return [name for name in dict.fromkeys(wanted) if name != INSTRUCTIONS]


def _has(group: Sequence[CaseResult], metric: str) -> bool:
    """Whether all have the metric; a case that never executed an instruction has it, too."""
    total = metric.partition(".")[0] if metric.startswith(path_metrics.SERIALISING) else metric
    return all(total in case.metrics for case in group)


def _function_deltas(old: Counter[str], new: Counter[str]) -> tuple[FunctionDelta, ...]:
    return _by_size(FunctionDelta(name, old[name], new[name]) for name in {**old, **new})


def _by_size(rows: Iterable[FunctionDelta]) -> tuple[FunctionDelta, ...]:
    """The largest change first, growth before what shrank as much."""
    return tuple(sorted(rows, key=lambda row: (-abs(row.delta), -row.delta, row.name)))


def _purposes_of_both(
    old: Side, new: Side, counts: list[int]
) -> tuple[tuple[PurposeDelta, ...], tuple[PurposeDelta, ...]]:
    """Parts in the path's order, reasons by change; both add up to the counts or are empty."""
    sides = [
        list(purposes(side.recording.instructions(path), side.arch))
        if (path := side.case.modal_path)
        else []
        for side in (old, new)
    ]
    if [len(side) for side in sides] != counts:
        return (), ()
    parts = _deltas([[(purpose.part, "") for purpose in side] for side in sides])
    reasons = _deltas([[(purpose.reason, purpose.source) for purpose in side] for side in sides])
    order = list(dict.fromkeys(purpose.part for side in reversed(sides) for purpose in side))
    return (
        tuple(sorted(parts, key=lambda row: order.index(row.name))),
        tuple(sorted(reasons, key=lambda row: (row.name == NOT_KNOWN, -abs(row.delta), row.name))),
    )


def _deltas(sides: Sequence[Sequence[tuple[str, str]]]) -> list[PurposeDelta]:
    counts = [Counter(name for name, _ in side) for side in sides]
    sources: dict[str, dict[str, None]] = {}
    for name, source in (pair for side in sides for pair in side):
        sources.setdefault(name, {}).update({source: None} if source else {})
    old, new = counts
    return [
        PurposeDelta(name, old[name], new[name], sources=tuple(own))
        for name, own in sources.items()
    ]


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


def with_paths_and_samples(comparison: Comparison, old: Recording, new: Recording) -> Comparison:
    """The comparison of two recordings with both sides' paths and values of processes."""
    # They load numpy, which counts do not need.
    from kentry.compare.path_diff import modal_paths
    from kentry.results.samples import distribution

    pairs = {
        row.name: pair
        for row in comparison.cases
        if not (row.identical_path and row.verdict == SAME)
        and (pair := modal_paths(row.name, old, new))
    }
    distributions = {}
    for name in dict.fromkeys(row.name for row in comparison.timed):
        if (before := old.case(name)) and (after := new.case(name)):
            distributions[name] = {
                metric: (distribution(one), distribution(after.noisy[metric]))
                for metric, one in before.noisy.items()
                if metric in after.noisy
            }
    return replace(
        comparison,
        modal_paths=pack_pairs(pairs, find_arch(new.kernel["arch"])) if pairs else UNSET,
        distributions=distributions or UNSET,
    )
