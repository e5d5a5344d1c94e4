# SPDX-License-Identifier: GPL-2.0-or-later
"""What `kentry diff` prints: verdicts, then functions, then caveats."""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace

from msgspec import UnsetType

from kentry.arch import Arch, find_arch
from kentry.path.calls import PARTS
from kentry.path.pairs import unpack_pairs
from kentry.results import caveats
from kentry.results.annotation import PathPair
from kentry.results.case_name import CaseName
from kentry.results.caveats import Caveat, some
from kentry.results.comparison import (
    CaseChange,
    CaseComparison,
    Comparison,
    Distribution,
    EventDelta,
    Overview,
    TimedComparison,
    decimals,
)
from kentry.results.recording import INSTRUCTIONS, OF_LAYOUT
from kentry.show import beside, charts, numbers
from kentry.show.blocks import SHOWN, Block, Cell, Column, Layout, Prose, Table, text_column
from kentry.show.paths import Stretches, hunks_once, path_summary
from kentry.show.provenance import how_measured, repeat, side_lines, versions
from kentry.show.recording import time_blocks
from kentry.show.sections import Chart, Deltas, Fold, InText, OnPage, Paths, Section
from kentry.show.table import WIDTH, bars, shortened
from kentry.stats import CONFIDENCE
from kentry.stats.exact import BETTER, SAME, UNDECIDED, WORSE

Row = CaseComparison | TimedComparison

_OPEN_ON_A_PAGE = 3
# Changes that the first screen names where no overview does.
_FEW = 4
# Unchanged instructions around a change, of a page with many paths.
_CONTEXT = 2
# A change and its verdict stand on one line, which may be wider than a mail.
_ROW = 120
# Characters of a function's name in the table of verdicts of a page.
_NAME = 20
# More cache lines or fetch windows may take more time or not: "worse" would be a guess.
_LAYOUT_WORDS = {WORSE: "more", BETTER: "fewer"}
_COLOURS = {word: verdict for verdict, word in _LAYOUT_WORDS.items()}
_INTERVALS = (
    "Changes of time in per cent of old: the dot is the change, the line its interval, the band"
    " the noise floor of the run."
)


def comparison_layout(
    comparison: Comparison, shown: int | None = SHOWN, *, of_metrics: bool = True
) -> Layout:
    """Lays out a comparison; without `of_metrics` only instructions have tables of functions."""
    old, new, rows, cases = comparison.old, comparison.new, comparison.rows, comparison.cases
    packed = comparison.modal_paths
    # What was imported may be of an architecture that kentry does not know.
    arch = find_arch(new.kernel["arch"]) if packed else None
    paths = unpack_pairs(packed, arch) if packed and arch else {}
    links = {
        id(row): f"row-{number}"
        for number, row in enumerate(rows)
        if isinstance(row, TimedComparison)
        or row.delta
        or (row.metric == INSTRUCTIONS and row.name in paths)
    }
    folds = list(_folds(comparison, shown, links, paths, arch, of_metrics=of_metrics))
    timed = [row for row in comparison.timed if row.percent is not None]
    drawing = charts.intervals(timed, "Changes of time with their intervals", "% of old")
    events = event_change_blocks(cases)
    above = OnPage([charts.MIRROR_HELP] if packed and packed.cases else [])
    verdicts = [
        InText([_text_table(rows)]),
        OnPage([_page_table(rows, links)]),
        *beside.sum_notes([*cases, *comparison.metrics]),
        *beside.comparison_context_blocks(cases),
        *beside.layout_blocks(cases, whole=shown is None),
    ]
    lead = overview_blocks(comparison.overview)
    specs = " \u2192 ".join(dict.fromkeys(side.kernel["spec"] for side in (old, new)))
    return Layout(
        "comparison",
        f"{specs} ({new.kernel['arch']})",
        _page_summary(rows),
        [
            InText(side_lines(old, new)),
            *(Prose(fact, then="    ") for fact in timing_facts(comparison, named=True)),
            "",
            InText(lead),
            *([*events, ""] if events else []),
            Section("Verdicts", verdicts),
            OnPage([Chart(drawing, _INTERVALS)] if timed else []),
            Section("Where", [above, *folds]) if folds else OnPage(["Nothing changed."]),
            *beside.estimate_change_blocks(cases),
        ],
        comparison_caveats(comparison),
        lead=lead or _few_changes(comparison),
        **how_measured(comparison.tool, old, new),
        versions=versions(old, new),
        command=repeat("diff", (old, new), comparison.names),
    )


def _values(row: Row) -> tuple[str, str]:
    if isinstance(row, TimedComparison):
        return timed_values(row)
    return str(row.old), beside.counted(row.new, row)


def _page_table(rows: Sequence[Row], links: Mapping[int, str]) -> Table:
    """Returns the largest changes first; with those of each part, where some row has them."""
    counted = [row for row in rows if isinstance(row, CaseComparison)]
    known = {part.name for row in counted for part in row.parts if part.delta}
    parts = [name for name in PARTS if name in known]
    columns = [text_column("case"), text_column("verdict"), Column("change", size=True)]
    columns += [Column("%", size=True), *map(Column, ("on one axis", "old", "new"))]
    columns += [Column(name, group="of the change, in", size=True) for name in parts]
    names_functions = any(row.functions for row in counted)
    columns += [text_column("most of it")] * names_functions
    table = Table(columns, filters=True)
    most = max((abs(row.percent) for row in rows if row.percent), default=1)
    for row in sorted(rows, key=_size):
        metric = "" if row.metric == INSTRUCTIONS else f" {row.metric}"
        name = f"{row.name}{CaseName.parse(row.name).calls_note}{metric}"
        change = f"{row.delta:+.6g}" if row.delta else "0"
        word, percent, deltas = _word(row), "", dict[str, int]()
        # The change of a count is exact in per cent; a time's has the digits of its interval.
        if isinstance(row, TimedComparison):
            verdict, largest = timed_verdict(row), ""
            if row.percent is not None:
                percent = numbers.change_with_interval(row.percent, row.interval)
        else:
            verdict, largest = f"{word}{_identical(row)}", _most_of(row)
            deltas = {part.name: part.delta for part in row.parts}
            if row.percent is not None:
                percent = numbers.change(row.percent, 100)
        own = [numbers.signed(deltas[name]) if name in deltas else "-" for name in parts]
        case = Cell(name, link=links.get(id(row), ""))
        axis = Cell("", _COLOURS.get(word, word), at=(row.percent or 0) / most)
        own += [largest] * names_functions
        sizes = change, percent.replace(" %", "") or None, axis
        table.row(case, Cell(verdict, word), *sizes, *_values(row), *own)
    return table


def _most_of(row: CaseComparison) -> str:
    """Returns the function, or the call with all below it, that changed most in its direction."""
    changes = [(own.delta, own.name) for own in row.calls]
    changes += [(own.delta, own.name) for own in row.functions]
    alike = [(abs(delta), delta, name) for delta, name in changes if delta * row.delta > 0]
    _, delta, name = max(alike, default=(0, 0, ""))
    return f"{shortened(name, _NAME)}\u00a0{delta:+d}" if alike else ""


def _identical(row: CaseComparison) -> str:
    return ", identical path" if row.identical_path and row.verdict == SAME else ""


def _size(row: Row) -> tuple[bool, float]:
    """Sorts what is counted first, by the size of its change."""
    return isinstance(row, TimedComparison), -abs(row.delta)


def overview_blocks(overview: Overview | UnsetType) -> list[Block]:
    """Returns what nearly every case has in common, the range of the rest, the largest changes."""
    if isinstance(overview, UnsetType):
        return []
    rest = " to ".join(f"{own.name} {_change(own)}" for own in overview.rest)
    sentences = [f"No function changes alike in each case: {rest}."]
    if overview.common:
        names = ", ".join(f"{own.name} {own.delta:+d}" for own in overview.common)
        but = f" but {some(list(overview.without))}" if overview.without else ""
        common = f"In common: {overview.delta:+d} a call in every case{but}: {names}."
        sentences = [common, f"Beside it: {rest}."]
    if largest := ", ".join(f"{own.name} {_change(own)}" for own in overview.largest):
        sentences.append(f"Largest: {largest}.")
    return [*map(Prose, sentences), ""]


def _few_changes(comparison: Comparison) -> list[Block]:
    """Returns the largest changes of a comparison that has no overview."""
    rows: list[Row] = [*comparison.cases, *comparison.timed]
    names = [f"{row.name} {_verdict(row)}" for row in sorted(rows, key=_size) if row.delta]
    return [Prose(f"Largest: {some(names, _FEW)}.")] if names else []


def _change(own: CaseChange) -> str:
    digits = numbers.fixed_percent(own.percent, 1)
    return f"{own.delta:+d} ({'+' * (own.percent >= 0)}{digits})"


def _folds(
    comparison: Comparison,
    shown: int | None,
    links: Mapping[int, str],
    paths: Mapping[str, PathPair],
    arch: Arch | None,
    *,
    of_metrics: bool,
) -> Iterator[Block]:
    """Yields the folds of the rows that have a link, the largest changes of a count first."""
    stretches: Stretches = {}
    counted = [*sorted(comparison.cases, key=_size), *comparison.metrics]
    for number, case in enumerate(case for case in counted if id(case) in links):
        is_metric, pair, link = case.metric != INSTRUCTIONS, paths.get(case.name), links[id(case)]
        drawn = _drawn(case, comparison, pair, arch, stretches, link) if pair and arch else []
        fold = replace(_fold(case, shown, drawn), id=link, open=number < _OPEN_ON_A_PAGE)
        if case.delta and (not is_metric or (of_metrics and case.functions)):
            yield from (InText([*([] if is_metric else purpose_blocks(case)), ""]), fold)
        else:
            yield OnPage([fold])
    times = comparison.distributions or {}
    for noisy in comparison.timed:
        fold = _timed_fold(noisy, comparison, times.get(noisy.name, {}).get(noisy.metric))
        yield OnPage([replace(fold, id=links[id(noisy)], open=True)])


def _page_summary(rows: Sequence[Row]) -> str:
    if len(rows) == 1:
        [row] = rows
        amount = f"{row.delta:+d}" if isinstance(row, CaseComparison) else bare_change(row)
        return f"{row.name}: {_word(row)}, {amount} {row.metric}"
    counts = Counter(map(_word, rows))
    verdicts = (WORSE, BETTER, *_LAYOUT_WORDS.values(), UNDECIDED, SAME)
    amounts = [f"{counts[verdict]} {verdict}" for verdict in verdicts if counts[verdict]]
    return f"{', '.join(amounts)}, of {len(rows)}"


def _drawn(
    row: CaseComparison,
    comparison: Comparison,
    pair: PathPair,
    arch: Arch,
    stretches: Stretches,
    link: str,
) -> list[Block]:
    """Draws both paths of a case; stretches that an earlier one has are shown there."""
    if row.metric != INSTRUCTIONS or (row.identical_path and row.verdict == SAME):
        return []
    scale = max(len(pair.old), len(pair.new))
    old, new = (charts.frames(code, arch, row.functions) for code in (pair.old, pair.new))
    sizes = (
        f"{len(code)} instructions of {side.kernel['spec']}"
        for code, side in ((pair.old, comparison.old), (pair.new, comparison.new))
    )
    label = f"{row.name}: {' above, '.join(sizes)} below"
    drawing, left_out = charts.icicle(new, scale, label, old)
    lines = list(hunks_once(pair.diff, _CONTEXT, stretches, link))
    diff = [*path_summary(pair.diff), Paths(pair.diff, change=row.delta, hunks=lines)]
    return [
        Chart(drawing, label + left_out, charts.CHANGE_KINDS),
        Fold("Both paths, side by side", diff, open=True),
    ]


def _fold(row: CaseComparison, shown: int | None, of_page: Sequence[Block]) -> Fold:
    metric = "" if row.metric == INSTRUCTIONS else f" {row.metric}"
    title = f"{row.name}{CaseName.parse(row.name).calls_note}{metric} ({row.delta:+d})"
    purposes = [] if metric else purpose_blocks(row)
    mark = beside.NO_COUNT * row.sum_of_contexts
    functions = [Deltas(row.functions, row.old, row.new, shown, mark=mark)] if row.delta else []
    about = "Functions that are called more or less often, each with all that it calls:"
    calls = [Prose(about), _calls_table(row)] if row.calls else []
    # What changed stands before where the paths differ, which is long.
    what, why = [*of_page[:1], *calls], [*of_page[1:], *purposes]
    return Fold(title, [OnPage(what), *functions, OnPage(why)])


def _calls_table(row: CaseComparison) -> Table:
    """Returns a row a function: its calls, and the instructions of these and of all below."""
    counts = [
        Column(side, group=what) for what in ("calls", "instructions") for side in ("old", "new")
    ]
    table = Table([text_column("function"), *counts, Column("delta", size=True)])
    for call in row.calls:
        sides = (call.old_calls, call.new_calls, call.old, call.new)
        table.row(call.name, *sides, numbers.signed(call.delta))
    return table


def _timed_fold(
    row: TimedComparison, comparison: Comparison, sides: tuple[Distribution, Distribution] | None
) -> Fold:
    limits = {"noise floor": row.floor, "threshold": row.threshold, "would see": row.detectable}
    texts = [
        f"{name} {numbers.percent(value)}" for name, value in limits.items() if value is not None
    ]
    blocks: list[Block] = [f"{'; '.join([bare_change(row), *texts])}."]
    if sides:
        old, new = ({row.metric: side} for side in sides)
        blocks += time_blocks(row.name, comparison.old.kernel["spec"], old, new)
        blocks += time_blocks(row.name, comparison.new.kernel["spec"], new, old)
    before, after = timed_values(row)
    return Fold(f"{row.name} {row.metric}: {before} \u2192 {after}", blocks)


def _text_table(rows: Sequence[Row]) -> Table:
    """The values and verdicts; on a screen a bar for what is surely worse (+) or better (-)."""
    cells, last = [], ""
    for row in rows:
        label = "" if row.name == last else f"{row.name}{CaseName.parse(row.name).calls_note}:"
        cells.append((label, *_values(row), _verdict(row)))
        last = row.name
    sides = {WORSE: 1, BETTER: -1}
    sizes = [abs(row.percent or 0) * sides.get(row.verdict, 0) for row in rows]
    columns = zip(*cells, strict=True)
    beside = sum(max(map(len, column)) + 1 for column in columns) + len("->")
    drawn = bars(sizes, beside)
    table = verdict_table(width=_ROW, drawn=any(drawn))
    for (label, before, after, verdict), bar in zip(cells, drawn, strict=True):
        table.row(label, before, "->", after, *([bar] if any(drawn) else []), verdict)
    return table


def verdict_table(indent: str = "", width: int | None = None, *, drawn: bool = False) -> Table:
    """Returns a table for rows of (case, old, "->", new, a bar if there are, the verdict)."""
    values = map(Column, ("old", "", "new"))
    columns = [text_column("case", most=40), *values, *([text_column()] if drawn else [])]
    columns.append(text_column("verdict", wraps=True))
    return Table(columns, headings=False, indent=indent, gap=1, width=width)


def comparison_caveats(comparison: Comparison) -> list[Caveat]:
    """Returns the caveats of the comparison, then those of its rows and tables, each once."""
    notes = list(comparison.caveats)
    tables = (case.functions for case in comparison.cases if case.delta)
    if any(row.delta and row.renamed for rows in tables for row in rows):
        notes.append(caveats.by_body())
    counted = [*comparison.cases, *comparison.metrics]
    notes += [caveat for case in counted for caveat in case.caveats]
    # A mark in the table says so.
    notes = [note for note in notes if note["kind"] != caveats.sum_of_contexts.kind]
    notes += [caveat for row in comparison.timed for caveat in row.caveats]
    cycles = any(case.estimates for case in comparison.cases)
    return beside.without_model_notes(caveats.unique(notes), cycles=cycles)


def purpose_blocks(case: CaseComparison) -> list[Block]:
    """Returns, against the floor, a table of parts and one of reasons."""
    blocks: list[Block] = []
    # The parts of other comparisons are columns of a page's table.
    parts = case.parts if case.reasons else ()
    for title, rows in (("part of the path", parts), ("reason", case.reasons)):
        if rows:
            blocks += ["", Deltas(rows, case.old, case.new, title=f"{case.name}: {title}")]
    return blocks


def _verdict(row: Row) -> str:
    if isinstance(row, TimedComparison):
        # User's or kernel's; of a call where the case's exact count has several calls.
        unit = row.metric.replace("-", " ") if row.metric.endswith(f"-{row.unit}") else row.unit
        unit += " a call" if CaseName.parse(row.name).calls > 1 else ""
        floor = ""
        if row.floor is not None:
            floor = f"; floor {numbers.fixed_percent(row.floor, row.percent_digits)}"
        return f"{unit} ({timed_change(row)}{floor}) {timed_verdict(row)}"
    unit = f"kernel {row.metric}" if row.metric == INSTRUCTIONS else row.metric
    if row.delta:
        percent = f", {numbers.change(row.delta, row.old)}" if row.old else ""
        return f"{unit} ({row.delta:+d}{percent}) {_word(row)}"
    return f"{unit} {row.verdict}{_identical(row)}"


def _word(row: Row) -> str:
    """Returns the verdict; of a metric of layout only what is sure."""
    return _LAYOUT_WORDS.get(row.verdict, row.verdict) if row.metric in OF_LAYOUT else row.verdict


def event_change_blocks(cases: Iterable[CaseComparison]) -> list[Block]:
    """Returns a sentence for each event whose number changed, below a heading; [] without one."""
    blocks: list[Block] = [
        Prose(f"{case.name}: {event_change(event, case.name)}", "  ", "    ")
        for case in cases
        for event in case.events
        if event.is_change
    ]
    return ["Vector events:", *blocks] if blocks else []


def event_change(event: EventDelta, case: str) -> str:
    """Returns how often an event happens on both sides, per call, and where."""
    old, new = ("?" if side is None else side for side in (event.old, event.new))
    calls = CaseName.parse(case).calls
    per = "call" if calls == 1 else f"{calls} calls"
    where = f", in {', '.join(event.functions)}" if event.functions else ""
    return f"{event.name} ({event.cause}) {old} -> {new} per {per}{where}"


def timed_values(row: TimedComparison) -> tuple[str, str]:
    """Old and new, with the digits of the change's interval, or else of each one's own."""
    halves = row.halves
    if row.interval:
        halves = ((row.interval[1] - row.interval[0]) / 2 / 100 * row.old,) * 2
    old, new = (
        numbers.significant(value) if half is None else numbers.fixed(value, decimals(half))
        for value, half in zip((row.old, row.new), halves, strict=True)
    )
    return old, new


def timed_change(row: TimedComparison) -> str:
    """Returns the change with its interval and confidence: '-1.7 % [-2.0, -1.3], 99 %'."""
    if row.confidence is None or not row.interval:
        return bare_change(row)
    # A look's own interval is wider; all of them together hold with the plan's confidence.
    return f"{bare_change(row)}, {numbers.level(min(row.confidence, CONFIDENCE))}"


def bare_change(row: TimedComparison) -> str:
    """Returns the change in per cent of old, and its interval: '-1.7 % [-2.0, -1.3]'."""
    if row.percent is None:
        return f"{row.delta:+.6g}"
    return numbers.change_with_interval(row.percent, row.interval)


def timed_verdict(row: TimedComparison) -> str:
    """Returns the verdict with its reason, the detectable change, or "layout"."""
    if row.verdict == UNDECIDED:
        return f"{UNDECIDED}: {row.reason}" if row.reason else UNDECIDED
    if row.verdict == SAME and row.detectable:
        return f"{SAME}, would see {row.detectable:.2g} %"
    return f"{row.verdict}, layout" if row.is_layout else row.verdict


def timing_facts(comparison: Comparison, *, named: bool = False) -> list[str]:
    """A sentence a fact: the machine (with its host name if `named`), groups, boots, estimator."""
    if not comparison.timed:
        return []
    labels = {"cpu_model": "", "microcode": "microcode ", "clock": "clock "}
    labels = {"host": "", **labels} if named else labels
    machines = []
    for side in (comparison.old, comparison.new):
        target = side.timed_target
        kind = "elsewhere (imported)" if target["kind"] == "import" else str(target["kind"])
        facts_of = [f"{label}{target[key]}" for key, label in labels.items() if target.get(key)]
        machines.append(", ".join([kind, *facts_of]))
    old, new = machines
    facts = [f"timed on {old}"]
    if old != new:
        facts = [f"timed on (old): {old}", f"timed on (new): {new}"]
    if paired := next((row for row in comparison.timed if row.paired), None):
        boots = f"{paired.boots} boots" if paired.boots > 1 else "one boot"
        groups = f"{paired.groups} groups of processes in {boots}"
        how = groups if paired.groups else f"{boots} of each"
        facts.append(f"old and new interleaved: {how}")
    estimators = {estimator for row in comparison.timed for estimator in row.estimators}
    return [*facts, f"value: {estimators.pop()}"] if len(estimators) == 1 else facts


def changelog_times(rows: Sequence[TimedComparison]) -> Iterator[Block]:
    """Yields a line a case and metric: both values, the change with its interval, the verdict."""
    metrics: dict[str, list[TimedComparison]] = {}
    for row in rows:
        metrics.setdefault(row.metric, []).append(row)
    for number, (metric, table) in enumerate(metrics.items()):
        yield from [""] if number else []
        unit = table[0].unit
        what = f"Time of a call in {unit}" if metric == unit == "ns" else f"{metric} a call, {unit}"
        if unit.endswith("/s"):
            what = f"{metric}, {unit}"
        levels = {row.confidence for row in table if row.confidence is not None and row.interval}
        confidence = f"{numbers.level(min(levels))} " if len(levels) == 1 else ""
        interval = f" [its {confidence}interval]" if levels else ""
        text = f"{what}, in the old and the new kernel; change in % of old{interval}:"
        yield from (Prose(text, then=""), "")
        values = [timed_values(row) for row in table]
        name = max(len(row.name) for row in table) + 1
        digits = max(len(value) for pair in values for value in pair)
        for row, (old, new) in zip(table, values, strict=True):
            label = f"{row.name}:"
            change = f"({bare_change(row)}) {timed_verdict(row)}"
            line = f"  {label:<{name}} {old:>{digits}} -> {new:>{digits}} {change}"
            if len(line) <= WIDTH:
                yield line
            else:
                yield from (f"  {label} {old} -> {new}", Prose(change, "    ", "    "))
