# SPDX-License-Identifier: GPL-2.0-or-later
"""Two recordings -> a Comparison: verdicts, and function deltas that sum to each delta."""

import itertools
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence

from msgspec import UNSET, UnsetType
from msgspec.structs import replace

from kentry.arch import find_arch
from kentry.compare.contexts import Change, MetricChange, Side, Sides, place_values, sum_of
from kentry.compare.differences import differences, of_both, one_architecture, shared_metrics
from kentry.compare.layout import layout_change
from kentry.compare.workload import of_recordings
from kentry.errors import UserError
from kentry.path import metrics as path_metrics
from kentry.path.calls import NOT_KNOWN, parts_of, purposes, spans
from kentry.path.pairs import pack_pairs
from kentry.path.symbols import base_name, depends_on_context
from kentry.path.variation import distinct_paths, functions_of
from kentry.results import caveats
from kentry.results.case_name import State
from kentry.results.caveats import Caveat
from kentry.results.comparison import (
    CallsDelta,
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
from kentry.stats.exact import SAME, UNDECIDED

# Stands for every metric.
ALL = "all"


def compare(
    old: Recording,
    new: Recording,
    names: list[str] | None = None,
    metrics: Sequence[str] = (),
    threshold: float | None = None,
    *,
    brief: bool = False,
) -> Comparison:
    """Compares every case that both have, or those named; UserError when there is none."""
    # `metrics` are exact ones beside instructions, or ALL; changes of time up to `threshold`, a
    # fraction, are none.  A `brief` one has functions, and nothing else of the paths.
    one_architecture(old, new, "Compare two kernels of one.")
    wanted = names or [case.name for case in old.cases]
    pairs = [(a, b) for a, b in ((old.case(name), new.case(name)) for name in wanted) if a and b]
    counted = [pair for pair in pairs if all(INSTRUCTIONS in case.metrics for case in pair)]
    if metrics:
        # Recordings from before a metric of layout have the paths that it follows from.
        counted = [(_with_layout(a, old), _with_layout(b, new)) for a, b in counted]
    both = [Sides(Side(a, old), Side(b, new)) for a, b in counted]
    timed: list[TimedComparison] = []
    of_program = bool(old.program or new.program)
    if of_program:
        cases = of_recordings(old, new, names)
    else:
        cases = [compare_case(sides, brief=brief) for sides in both]
    if not of_program and any(shared_metrics(a, b) for a, b in pairs):
        # It loads numpy and scipy, which exact counts do not need.
        from kentry.compare.timed import compare_timed

        timed = compare_timed(pairs, {case.name: case for case in cases}, old, new, threshold)
    if not cases and not timed:
        raise _nothing_in_common(pairs, old, new)
    with_counts, with_times = {case.name for case in cases}, {row.name for row in timed}
    lost = [
        case.name
        for name in wanted
        if (case := old.case(name))
        and name not in with_counts
        and (INSTRUCTIONS in case.metrics or name not in with_times)
    ]
    notes = differences(old, new, pairs, names, counted=bool(cases), timed=bool(timed))
    alone = [
        a.name
        for a, b in counted
        if min(len(a.contexts), len(b.contexts)) < 2
        and depends_on_context({name for name, _ in (*a.functions, *b.functions)})
    ]
    if alone:
        notes.append(caveats.one_context(", ".join(alone)))
    chosen = choose_metrics(counted, metrics) if metrics else ()
    more = (row for sides in both for row in _metric_rows(sides, chosen)) if chosen else ()
    order = {case.name: index for index, case in enumerate(old.cases)}
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


def compare_case(sides: Sides, *, brief: bool = False) -> CaseComparison:
    """Compares one case; its two sides may be two states of a case in one recording."""
    # Where the count depends on the context, `new` is the old value with each function's change:
    # contexts.py.  If the value's own path was not recorded, the functions are of another context.
    old, new = sides
    cases, name = (old.case, new.case), old.case.name
    a, b = (case.metrics[INSTRUCTIONS] for case in cases)
    functions = _functions(*cases)
    before, after = a.value, b.value
    change = Change(*[after - before] * 2) if a.is_decided and b.is_decided else None
    verdict, _ = _verdict(name, change)
    notes = of_both(*(list(case.caveats) for case in cases))
    contexts: Contexts | UnsetType = UNSET
    if sides.depend_on_contexts:
        contexts = Contexts(*(tuple(case.values.items()) for case in cases))
        functions, change = _in_contexts(sides)
        verdict, why = _verdict(name, change)
        # That a recording has no paths, its own caveats say.
        notes += why if functions else []
        if functions:
            after = before + sum(row.delta for row in functions)
            if not old.case.modal_path:
                path = sum(row.old for row in functions)
                notes.append(caveats.functions_of_context(name, path, before))
    alike = sides.identical_paths if before == after and not brief else None
    of_floor = old.recording.is_floor or new.recording.is_floor
    add_up = not brief and [len(side.path or ()) for side in sides] == [before, after]
    if not of_floor:
        functions = _with_renames(functions, sides)
    return CaseComparison(
        name=name,
        old=before,
        new=after,
        verdict=verdict,
        functions=functions,
        identical_path=alike is not None,
        caveats=tuple(notes),
        events=_events(old, new),
        parts=_parts(sides) if add_up else (),
        calls=_calls(functions, sides) if add_up and not of_floor else (),
        reasons=_reasons(sides) if add_up and of_floor else (),
        contexts=contexts,
        layout=layout_change(*alike, old.arch) if alike and verdict == SAME else UNSET,
        estimates=_estimates(*cases),
        windows=((a.agreeing, a.windows), (b.agreeing, b.windows)),
        change=change,
    )


def _estimates(old: CaseResult, new: CaseResult) -> tuple[EstimateChange, ...]:
    before, after = (
        {
            (row.core, row.llvm): Cycles(row.low, row.high, row.missing, row.steady)
            for row in case.estimates
        }
        for case in (old, new)
    )
    return tuple(
        EstimateChange(*model, cycles, after[model])
        for model, cycles in before.items()
        if model in after
    )


def _in_contexts(sides: Sides) -> tuple[tuple[FunctionDelta, ...], Change | None]:
    """Returns the functions, and by how much the count changes, where it depends on the context."""
    if sides.by_function is None:
        return (), None
    # The value's own path may not have been recorded in any context.
    old, new = sides
    path = old.case.modal_path or max(distinct_paths(old.case), key=lambda own: len(own[1]))[0]
    shares, before = functions_of(path, old.recording), old.case.metrics[INSTRUCTIONS].value
    functions = function_rows(shares, sides.by_function, before, new.case.values)
    return functions, sum_of(sides.by_function.values()) if sides.settle else None


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


def _with_renames(functions: tuple[FunctionDelta, ...], sides: Sides) -> tuple[FunctionDelta, ...]:
    """Makes one row of functions that were renamed, inlined or split; the sums stay the same."""
    old, new = (side.path for side in sides)
    if old is None or new is None or all(row.old and row.new for row in functions):
        return functions
    # It loads numpy, which most comparisons of two like kernels do not need.
    from kentry.compare.path_diff import renames

    rows = {row.name: row for row in functions}
    for renamed in renames(old, new, sides.old.arch):
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


def _metric_rows(sides: Sides, chosen: Sequence[str]) -> Iterator[CaseComparison]:
    """Compares a case's metrics among those `chosen` that both sides have."""
    metrics = [name for name in chosen if _has([side.case for side in sides], name)]
    by_path = sides.by_metric([name for name in metrics if name not in path_metrics.OF_PLACES])
    by_function, missing = zip(*map(_of_accesses, sides), strict=True)
    unreported = sorted((missing[0] | missing[1]).items())
    unknown = ", ".join(f"{name} ({times} times)" for name, times in unreported)
    for metric in metrics:
        row = _metric_row(sides, metric, by_path.get(metric))
        shares = [own.get(metric, Counter()) for own in by_function]
        is_of_places = metric in path_metrics.OF_PLACES
        if is_of_places and [own.total() for own in shares] == [row.old, row.new]:
            row = replace(row, functions=_function_deltas(*shares))
        if unknown and metric in path_metrics.OF_ACCESSES:
            note = caveats.unreported_accesses(row.name, unknown)
            row = replace(row, caveats=(*row.caveats, note))
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


def _metric_row(sides: Sides, metric: str, by_path: MetricChange | None) -> CaseComparison:
    """A metric's row: of all contexts' paths where they decide it, else of the first boots."""
    name, functions = f"{metric} of {sides.old.case.name}", tuple[FunctionDelta, ...]()
    values: Sequence[Mapping[int, int]]
    change: Change | None
    if by_path:
        shares, changes, values = by_path
        seen = exact.histogram((value, 1) for value in values[1].values())
        functions = function_rows(shares, changes, sum(shares.values()), seen)
        before, after = sum(row.old for row in functions), sum(row.new for row in functions)
        several = any(len({*own.values()}) > 1 for own in values)
        change = sum_of(changes.values()) if sides.settle else None
        verdict, notes = _verdict(name, change)
    else:
        absent = Metric(0, ((0, 1),))
        samples = [dict(case.metrics.get(metric, absent).samples) for case, _ in sides]
        before, after = map(exact.mode, samples)
        values = [place_values(case, metric) for case, _ in sides]
        several = all(values) and len({*values[0].values(), *values[1].values(), before, after}) > 1
        if metric in path_metrics.OF_PLACES:
            change = sides.place_change(metric)
            verdict, notes = _verdict(name, change)
            # What the new kernel has in the context of the old value.
            after = before + change.low if change.low == change.high else after
        else:
            in_contexts = sides.depend_on_contexts
            decided = not in_contexts and all(map(exact.is_decided, samples))
            change = Change(*[after - before] * 2) if decided else None
            verdict, _ = _verdict(name, change)
            notes = [caveats.one_context(name)] if in_contexts else []
    # In how many contexts of each side each value was the commonest.
    each = (exact.histogram((value, 1) for value in own.values()).items() for own in values)
    return CaseComparison(
        name=sides.old.case.name,
        metric=metric,
        old=before,
        new=after,
        verdict=verdict,
        identical_path=False,
        functions=functions,
        contexts=Contexts(*map(tuple, each)) if several else UNSET,
        caveats=tuple(notes),
        change=change,
    )


def _verdict(name: str, change: Change | None) -> tuple[str, list[Caveat]]:
    """The verdict of a change, None where nothing settles, and why it is not an exact one."""
    if change is None:
        return UNDECIDED, [caveats.unsettled(name)]
    low, high = change
    notes = [caveats.change_by_context(name, low, high)] if low != high else []
    return exact.verdict(low, high), notes


def _of_accesses(side: Side) -> tuple[dict[str, Counter[str]], Counter[str]]:
    """Of a modal path: each metric of accesses by function, and what is not reported."""
    path = side.case.modal_path
    if path is None or path.accesses is None:
        return {}, Counter()
    code = side.recording.instructions(path)
    functions = [base_name(insn.function) for insn in code]
    amounts = path_metrics.amounts_of_accesses(path.accesses)
    by_function = {name: path_metrics.shares(own, functions) for name, own in amounts.items()}
    return by_function, path_metrics.unreported(code, path.accesses, side.arch)


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


def _parts(sides: Sides) -> tuple[PurposeDelta, ...]:
    """Returns the parts of both paths, in the order of the new one."""
    names = [list(parts_of(side.path or (), side.arch)) for side in sides]
    order = list(dict.fromkeys(name for own in reversed(names) for name in own))
    rows = _deltas([[(name, "") for name in own] for own in names])
    return tuple(sorted(rows, key=lambda row: order.index(row.name)))


def _calls(functions: Sequence[FunctionDelta], sides: Sides) -> tuple[CallsDelta, ...]:
    """Returns the functions that are called another number of times, by the size of the change.

    A function below another one of them is part of that one's row.  One that was renamed, inlined
    or split is called as before.
    """
    renamed = {
        name for row in functions if row.renamed for name, _ in (*row.renamed.old, *row.renamed.new)
    }
    calls = [
        [
            (base_name(span.function), span.caller, span.end - span.start)
            for span in spans(side.path or (), side.arch).spans
        ]
        for side in sides
    ]
    times = [Counter(name for name, _, _ in own) for own in calls]
    other = {name for name in times[0] | times[1] if times[0][name] != times[1][name]} - renamed
    other -= {name for side in sides for name in other if side.arch.assembly.fullmatch(name)}
    rows: dict[str, list[int]] = defaultdict(lambda: [0, 0, 0, 0])
    for side, own in enumerate(calls):
        within: list[bool] = []
        for name, caller, instructions in own:
            below = caller is not None and within[caller]
            within.append(below or name in other)
            if name in other and not below:
                rows[name][side] += 1
                rows[name][2 + side] += instructions
    deltas = [CallsDelta(name, *row) for name, row in rows.items() if row[0] != row[1]]
    return tuple(sorted(deltas, key=lambda row: (-abs(row.delta), row.name)))


def _reasons(sides: Sides) -> tuple[PurposeDelta, ...]:
    """Returns what the instructions of both paths are for, by the size of the change."""
    both = [purposes(side.path or (), side.arch) for side in sides]
    rows = _deltas([[(purpose.reason, purpose.source) for purpose in own] for own in both])
    return tuple(sorted(rows, key=lambda row: (row.name == NOT_KNOWN, -abs(row.delta), row.name)))


def _deltas(sides: Sequence[Sequence[tuple[str, str]]]) -> list[PurposeDelta]:
    old, new = (Counter(name for name, _ in side) for side in sides)
    sources: dict[str, dict[str, None]] = {}
    for name, source in (pair for side in sides for pair in side):
        sources.setdefault(name, {}).update({source: None} if source else {})
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
            sides = Sides(Side(base, recording), Side(case, recording))
            yield compare_case(sides), state, base.parsed.state


def with_paths_and_samples(comparison: Comparison, old: Recording, new: Recording) -> Comparison:
    """Returns the comparison of two recordings with both sides' paths and values of processes."""
    # It loads numpy, which counts do not need; samples load scipy.
    from kentry.compare.path_diff import modal_paths

    pairs = {
        row.name: pair
        for row in comparison.cases
        if not (row.identical_path and row.verdict == SAME)
        and (pair := modal_paths(row.name, old, new))
    }
    distributions = {}
    for name in dict.fromkeys(row.name for row in comparison.timed):
        if (before := old.case(name)) and (after := new.case(name)):
            from kentry.results.samples import distribution

            distributions[name] = {
                metric: (distribution(timed), distribution(after.noisy[metric]))
                for metric, timed in before.noisy.items()
                if metric in after.noisy
            }
    return replace(
        comparison,
        modal_paths=pack_pairs(pairs, find_arch(new.kernel["arch"])) if pairs else UNSET,
        distributions=distributions or UNSET,
    )
