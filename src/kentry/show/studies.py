# SPDX-License-Identifier: GPL-2.0-or-later
"""The layouts of a bisection, a log, an ablation and a check."""

import re
from bisect import bisect_left
from collections import Counter
from collections.abc import Iterator, Sequence
from datetime import date
from itertools import chain
from typing import Literal

from kentry.results import studies
from kentry.results.caveats import amount, some
from kentry.results.comparison import Real
from kentry.results.recording import INSTRUCTIONS
from kentry.show import charts, provenance
from kentry.show.beside import counts_text, without_model_notes
from kentry.show.blocks import SHOWN, Block, Cell, Column, Layout, Prose, Table, text_column
from kentry.show.numbers import change, number, signed, significant
from kentry.show.provenance import HowMeasured, how_measured, kernel_lines, kernel_name
from kentry.show.sections import Chart, Deltas, Detail, Drawn, Fold, InText, Notes, OnPage, Section
from kentry.show.table import line_width

_NAME, _NAMED, _ALL = 12, 6, 100
# By how a commit was tried: in the table, and in the sentence that counts them.
_STATUS = {
    studies.MEASURED: ("booted", "booted"),
    studies.SAME_CODE: ("built; the same code as {}", "only built (the code of another)"),
    studies.NOT_COMPILED: ("not built; the same kernel as {}", "not built (another's kernel)"),
    studies.NO_BUILD: ("does not build", "failed to build"),
    studies.NO_BOOT: ("does not boot", "failed to boot"),
}
# Of commits that a program of the user's measured.
_BY_METER = _STATUS | {
    studies.MEASURED: ("measured",) * 2,
    studies.NO_BOOT: ("not measured",) * 2,
}
# Kernels that the axis of a chart names.
_LABELLED = 6
_LEVELS = "▁▂▃▄▅▆▇█"
# For an output that is not UTF-8.
_ASCII_LEVELS = "_.-=+*#@"
_COMMIT = re.compile("[0-9a-f]{40,64}")
_CASES_SHOWN = 4
# A budget and its reason stand on one line where they can.
_ROW = 100


def bisection_layout(bisection: studies.Bisection, shown: int | None = SHOWN) -> Layout:
    """Lays out a bisection, with `shown` rows in a table of functions, None for all."""
    unit, good, bad = bisection.unit, bisection.good, bisection.bad
    ends = Table([text_column(), text_column(), text_column(wraps=True)], headings=False, gap=1)
    for name, end in (("good", good), ("bad", bad)):
        ends.row(name, end.commit[:_NAME], end.subject)
    changes = list(_answer_blocks(bisection, unit, shown)) or ["", "No commit was found."]
    for other in bisection.others:
        values = f"{number(other.good)} to {number(other.bad)} {other.unit}"
        text = f"{other.case}: from {values}, {_change(other.delta, other.good)}"
        own = [Prose(text), *_answer_blocks(other, other.unit, shown), Notes(other.caveats)]
        changes += ["", Section(other.case, own)]
    summary = "Several commits are suspect." if bisection.suspects else "No commit was found."
    if bisection.culprits:
        named = "; ".join(f'{c.commit[:_NAME]} ("{c.subject}")' for c in bisection.culprits)
        summary = f"{named}, {bisection.explained:+.6g} {unit}"
    by_meter = "meter" in bisection.origin
    counts = Counter(step.status for step in bisection.steps)
    statuses = _BY_METER if by_meter else _STATUS
    tried = [f"{counts[status]} {text}" for status, (_, text) in statuses.items() if counts[status]]
    failed = [step for step in bisection.steps if step.problem or step.detail]
    steps = [
        _step_table(bisection.steps, by_meter=by_meter),
        *(Fold(f"{step.commit[:_NAME]}: {step.problem}", [Detail(step.detail)]) for step in failed),
    ]
    return Layout(
        "bisection",
        f"Bisection of {bisection.case} ({bisection.arch})",
        summary,
        [
            Prose(
                f"{bisection.origin['tree']} ({_where(bisection)}): {bisection.case} from"
                f" {number(good.value)} to {number(bad.value)} {unit},"
                f" {_change(bisection.delta, good.value)}"
            ),
            ends,
            Prose(
                f"{amount(bisection.commits, 'commit')}, {len(bisection.steps)} tried:"
                f" {', '.join(tried)}."
            ),
            OnPage(_step_charts(bisection)),
            Section("Changes", changes),
            OnPage([Section("Commits tried", steps)]),
        ],
        bisection.caveats,
        units=[bisection.unit],
        **_how_measured(bisection),
    )


def _answer_blocks(
    answer: studies.Bisection | studies.Answer, unit: str, shown: int | None
) -> Iterator[Block]:
    for culprit in answer.culprits:
        yield from ("", _culprit_fold(culprit, unit, shown))
    for suspects in answer.suspects:
        many = len(suspects.commits)
        which = f"One of these {many} commits" if many > 1 else "This commit"
        why = "those before the last do not build or boot" if many > 1 else "but see the note"
        yield from ("", Prose(f"{which} changed the count by {suspects.delta:+g} {unit}; {why}:"))
        for suspect in suspects.commits:
            yield Prose(f"{suspect.commit[:_NAME]} {suspect.subject}", "  ", "    ")


def steps_layout(
    steps: Sequence[studies.Step],
    provisional: Sequence[studies.Provisional] = (),
    *,
    by_meter: bool = False,
) -> Layout:
    """Lays out the commits that were tried, in that order; and what was named, not verified."""
    blocks: list[Block] = [_step_table(steps, by_meter=by_meter)]
    for row in provisional:
        blocks += ["", Prose(f"Not verified yet: {row}.")]
    if provisional:
        blocks.append(Prose("To verify: kentry bisect --continue."))
    return Layout("steps", "", "", blocks)


def _step_table(steps: Sequence[studies.Step], *, by_meter: bool) -> Table:
    names = [text_column("commit"), Column("value"), text_column("subject", most=34)]
    table = Table([*names, text_column("how", wraps=True)])
    statuses = _BY_METER if by_meter else _STATUS
    for step in steps:
        how = statuses[step.status][0].format(step.like[:_NAME])
        table.row(step.commit[:_NAME], number(step.value), step.subject, how)
    return table


def _step_charts(bisection: studies.Bisection) -> list[Block]:
    unit = bisection.unit
    culprits = {culprit.commit for culprit in bisection.culprits}
    points = [
        charts.Point(
            index,
            step.value,
            f"{step.commit[:_NAME]} {step.subject}: {number(step.value)} {unit}",
            _direction(bisection.delta, bisection) if step.commit in culprits else "point",
        )
        for index, step in enumerate(bisection.steps, start=1)
        if step.value is not None
    ]
    if not points:
        return []
    ends = (("good", bisection.good), ("bad", bisection.bad))
    levels = [(end.value, name) for name, end in ends if end.value is not None]
    label = f"{bisection.case}: {unit} of the commits in the order in which they were tried"
    drawing = charts.line(points, label, "commit tried", unit, shape="dots", levels=levels)
    return [Chart(drawing, "Each dot is a commit that was tried; the lines are good and bad.")]


def _culprit_fold(culprit: studies.Culprit, unit: str, shown: int | None) -> Fold:
    before = culprit.parent.value or 0
    # Where another commit went the other way, a commit may explain more than the whole change.
    share = ""
    if culprit.share is not None and 0 < culprit.share <= _ALL:
        share = f", {culprit.share:.3g} % of the whole change"
    values = f"{number(before)} -> {number(culprit.value)} {unit}"
    blocks: list[Block] = [
        Prose(f"{culprit.author}, {culprit.date[:10]}"),
        Prose(f"{values}, {_change(culprit.delta, before)}{share}"),
    ]
    if culprit.functions:
        blocks += ["", Deltas(culprit.functions, int(before), int(culprit.value), shown)]
    if culprit.compiled is not None:
        names = some(list(culprit.compiled), _NAMED) or "none"
        blocks.append(Prose(f"Files it changes that this kernel is built from: {names}."))
    blocks.append(Notes(culprit.doubts))
    return Fold(Prose(f'{culprit.commit[:_NAME]} ("{culprit.subject}")'), blocks, open=True)


def _change(delta: Real, old: Real | None) -> str:
    return f"{delta:+.6g}" + (f" ({change(delta, old)})" if old else "")


def _where(searched: studies.Log | studies.Bisection) -> str:
    """Returns the architecture, and the emulated processor where all was measured on one."""
    cpu = searched.origin.get("cpu")
    return f"{searched.arch}, cpu {cpu}" if cpu else searched.arch


def _how_measured(searched: studies.Log | studies.Bisection) -> HowMeasured:
    how = how_measured(searched.tool, *searched.measured)
    # The kernels say more of their compiler and their processor.
    how["facts"] = list({**searched.origin, **dict(how["facts"])}.items())
    return how


def log_layout(log: studies.Log, shown: int | None = SHOWN, *, blocks: bool = True) -> Layout:
    """Lays out a log; `blocks` draws the sparkline in block elements instead of ASCII."""
    ends = _ends([point.value for point in log.points], log.unit) or "no values"
    measured = f"{len(log.points)} of {amount(log.kernels, 'kernel')} measured"
    head = Prose(f"{log.origin['what']} ({_where(log)}): {log.case}, {measured}: {ends}")
    levels = _LEVELS if blocks else _ASCII_LEVELS
    names = [Column("place"), text_column("kernel", most=34), *map(Column, ("old", "new", "delta"))]
    table = Table([*names, text_column("subject", wraps=True)])
    for step in log.changes:
        sides = number(step.old), number(step.new), f"{step.delta:+.6g}"
        table.row(step.place, _short(step.names[-1]), *sides, step.title)
    body: list[Block] = [table if log.changes else "No change was found."]
    body += _change_folds(log.changes, shown, "")
    if failed := [_short(point.name) for point in log.points if point.value is None]:
        body += ["", Prose(f"Not measured: {', '.join(failed)}.")]
    for other in log.others:
        span = _ends(other.values, other.unit) or "no value"
        body += ["", Prose(f"{other.case}: {span}{'' if other.changes else ', no change'}")]
        body += _change_folds(other.changes, shown, f"{other.case}-")
    names = [Column("place"), text_column("kernel"), Column(log.unit)]
    kernels = Table([*names, *map(text_column, ("date", "subject"))], caption="Oldest first")
    for point in log.points:
        about = ": ".join(filter(None, (point.title, point.problem)))
        value = number(point.value)
        kernels.row(point.place, _short(point.name), value, point.date[:10], about)
    has_value = any(point.value is not None for point in log.points)
    return Layout(
        "log",
        f"History of {log.case} ({log.arch})",
        f"{measured}, {ends}, {amount(len(log.changes), 'change')}",
        [
            InText([head, "", Drawn(lambda: "".join(_sparkline(log, levels))), ""]),
            OnPage([log_chart(log)] if has_value else []),
            Section("Changes", body),
            OnPage([Section("Kernels", [kernels])]),
        ],
        log.caveats,
        **_how_measured(log),
    )


def _ends(values: Sequence[Real | None], unit: str) -> str:
    known = [value for value in values if value is not None]
    return f"{number(known[0])} to {number(known[-1])} {unit}" if known else ""


def log_chart(log: studies.Log, *, by_date: bool = False) -> Chart:
    """Draws the values as steps, the changes as large dots; by date those that have one."""
    changes = {
        point.place: (_direction(point.delta, log), f"change-{at}", f"{point.delta:+.6g}")
        for at, point in enumerate(log.changes, start=1)
    }
    at = {point.place: point.place for point in log.points}
    if by_date:
        at = {p.place: date.fromisoformat(p.date[:10]).toordinal() for p in log.points if p.date}
    known = [p for p in log.points if p.value is not None and p.place in at]
    known.sort(key=lambda point: at[point.place])
    points = [
        charts.Point(
            at[point.place],
            point.value or 0,
            f"{_short(point.name)} {point.title}: {number(point.value)} {log.unit}",
            *changes.get(point.place, ()),
        )
        for point in known
    ]
    order = "by date" if by_date else "oldest first"
    label = f"{log.case}: {log.unit} of each kernel, {order}"
    # A place says nothing: the months of a few, or the releases where several branches mix months.
    months = [point.date[:7] for point in known]
    in_order = all(months) and months == sorted(months)
    few = known[:: -(-len(known) // _LABELLED)]
    named = [(at[p.place], p.date[:7] if in_order else _release(p.name)) for p in few]
    shape: Literal["dots", "steps"] = "dots" if by_date else "steps"
    drawing = charts.line(points, label, "kernel", log.unit, shape=shape, named=named)
    return Chart(drawing, "The large dots are the changes; a hollow one is for the better.")


def _direction(delta: Real, of: studies.Log | studies.Bisection) -> str:
    """Returns the class of a change's dot; what a user's own program measured may be no cost."""
    if "meter" in of.origin:
        return "change"
    return f"change {'worse' if delta > 0 else 'better'}"


def _sparkline(log: studies.Log, levels: str) -> Iterator[str]:
    """Yields a character a kernel, or a stretch of kernels, whose last one stands for it.

    A kernel that was not tried has the value of both sides where these are the same.
    """
    tried: dict[int, Real | None] = {point.place: point.value for point in log.points}
    known = {index: value for index, value in tried.items() if value is not None}
    low, high = min(known.values()), max(known.values())
    values: list[Real | None] = []
    before: Real | None = None
    indexes = sorted(known)
    for index in range(log.kernels):
        before = known.get(index, before)
        at = bisect_left(indexes, index)
        after = known[indexes[at]] if at < len(indexes) else before
        values.append(before if before == after and tried.get(index, before) is not None else None)
    step = -(-len(values) // line_width())
    for start in range(0, len(values), step):
        part = [value for value in values[start : start + step] if value is not None]
        share = (part[-1] - low) / (high - low) if part and high > low else 0
        yield levels[round(share * (len(levels) - 1))] if part else "?"


def _change_folds(
    changes: Sequence[studies.ChangePoint], shown: int | None, prefix: str
) -> Iterator[Block]:
    for index, point in enumerate(changes, start=1):
        title = Prose(
            f"{_short(point.names[-1])} {point.title}: {number(point.old)} -> {number(point.new)},"
            f" {point.delta:+.6g} ({change(point.delta, point.old)})"
        )
        blocks: list[Block] = []
        if others := ", ".join(map(_short, point.names[:-1])):
            blocks.append(
                Prose(f"or one before it, which could not be measured: {others}", first="  ")
            )
        blocks += [Prose(f"A bisection named {commit}.", first="  ") for commit in point.found]
        if point.functions:
            blocks.append(Deltas(point.functions, int(point.old), int(point.new), shown))
        yield from ("", Fold(title, blocks, f"{prefix}change-{index}", open=True))


def _short(name: str) -> str:
    return name[:_NAME] if _COMMIT.fullmatch(name) else name


def _release(name: str) -> str:
    """Of debian:6.12.57-1~bpo12+1,flavour=rt the part that tells it from its neighbours."""
    return _short(re.split("[~,]", name)[0]).rpartition(":")[2]


def ablation_layout(
    ablation: studies.Ablation, functions: bool = False, most: int | None = SHOWN
) -> Layout:
    """Lays out the table, options without numbers; with `functions` at most `most` for each."""
    base = ablation.base
    origin = base.kernel["origin"]
    sets = f", {origin['config_set']}" if origin.get("config_set") else ""
    of_mitigations = any(row.words for row in ablation.rows)
    config = [] if of_mitigations else [f"config {origin.get('config', '?')}{sets}"]
    what = "mitigation" if of_mitigations else "option"
    # A file says which cases were measured by what it has of them.
    names = list(ablation.cases or dict.fromkeys(chain(*(row.cases for row in ablation.rows))))
    # Cases to which every option adds the same, by their additions; then by the first of them.
    same: dict[tuple[int | None, ...], list[str]] = {}
    for name in names:
        adds = [row.cases[name].delta if name in row.cases else None for row in ablation.rows]
        same.setdefault(tuple(adds), []).append(name)
    groups = {first: others for first, *others in same.values()}
    shown = list(groups)[:_CASES_SHOWN]
    table, folds = _rows(ablation.rows, shown, what)
    blocks: list[Block] = [table]
    others = [
        f"{', '.join(groups[name])}: each {what} adds the same as to {name}."
        for name in shown
        if groups[name]
    ]
    if left := [name for first in list(groups)[_CASES_SHOWN:] for name in (first, *groups[first])]:
        others.append(f"Not shown (--case shows them): {', '.join(left)}.")
    problems = [f"{row.option}: {row.problem}" for row in ablation.rows if row.problem]
    marks = []
    if of_mitigations:
        marks.append("A mitigation that is part of another goes with it, so rows may overlap.")
    elif any(row.on_in_base for row in ablation.rows):
        marks.append("* The base has this option on; the row says what turning it off removes.")
    if any(row.needs for row in ablation.rows if row.cases):
        marks.append('Options after "with" are on in both kernels of that row.')
    if ablation.passed_over:
        marks.append(f"Not options of this source: {', '.join(ablation.passed_over)}.")
    for sentences in filter(None, (others, problems, marks)):
        blocks += ["", *map(Prose, sentences)]
    for row in ablation.rows if functions else ():
        added = row.cases.get(names[0])
        if added and added.functions:
            title = f"{row.option}, {names[0]} ({added.delta:+d})"
            blocks.append(InText(["", title, Deltas(added.functions, shown=most)]))
    known = [bool(row.cases) for row in ablation.rows if row.option != studies.TOGETHER]
    return Layout(
        "ablation",
        f"What {'' if of_mitigations else 'config '}{what}s add: {kernel_name(base.kernel)}",
        f"{sum(known)} of {amount(len(known), what)} measured on {amount(len(names), 'case')}",
        [
            InText([*kernel_lines(base.kernel), *config, *provenance.emulator_lines(base), ""]),
            Section(f"{what.capitalize()}s", blocks),
            OnPage([Section("Where", folds)]),
        ],
        ablation.caveats,
        **how_measured(ablation.tool, base),
    )


def _rows(
    rows: Sequence[studies.OptionRow], shown: list[str], what: str
) -> tuple[Table, list[Block]]:
    groups = [Column(name, group=case) for case in shown for name in ("off", "on", "adds")]
    table, folds = Table([text_column(what), *groups]), list[Block]()
    for index, row in enumerate(rows):
        if not row.cases:
            continue
        cells: list[object] = []
        for added in map(row.cases.get, shown):
            if added is None:
                cells += [None, None, None]
            else:
                same = "same" if added.identical_path and not added.delta else signed(added.delta)
                cells += [added.off, added.on, same]
        mark = f" ({row.words})" if row.words else " *" if row.on_in_base else ""
        option = f"{row.option}{mark}"
        table.row(Cell(option, link=f"option-{index}"), *cells)
        if row.needs:
            table.note(f"with {' '.join(row.needs)}")
        sections = [
            Section(f"{name} ({case.delta:+d})", [Deltas(case.functions, case.off, case.on)])
            for name, case in row.cases.items()
            if case.functions
        ]
        none = "No function's number of instructions changes."
        folds.append(Fold(row.option, sections or [none], f"option-{index}"))
    return table, folds


def check_layout(check: studies.Check) -> Layout:
    """Lays out the budgets; of --update what it changed instead of verdicts."""
    measured, baseline = check.measured, check.baseline
    lines: list[Block] = [*kernel_lines(measured.kernel)]
    lines += provenance.processor_lines(measured.target)
    how = how_measured(check.tool, measured)
    how["facts"].append(("budgets", check.budgets))
    if baseline:
        lines += kernel_lines(baseline.kernel, "baseline: ")[:1]
        how["facts"].append(("baseline", kernel_name(baseline.kernel)))
    budgets: list[Block] = [InText([Prose(summary(check)), ""]), _table(check)]
    broken = [*check.of_verdict(studies.OVER), *check.of_verdict(studies.UNDECIDED)]
    return Layout(
        "check",
        f"Budgets: {kernel_name(measured.kernel)}",
        summary(check),
        [
            InText([*lines, f"budgets: {check.budgets}", ""]),
            Section("Budgets", budgets if check.written is None else _changes(check)),
        ],
        without_model_notes(check.caveats, cycles=False),
        lead=[Prose(f"{row.name} {row.metric}: {row_sentence(row)}") for row in broken],
        units={row.unit for row in check.rows if row.unit},
        **how,
    )


def summary(check: studies.Check) -> str:
    """Returns how many budgets there are, and how many of them do not hold: a sentence."""
    total, counts = len(check.rows), Counter(row.verdict for row in check.rows)
    if counts[studies.WITHIN] == total:
        return "The budget holds." if total == 1 else f"All {total} budgets hold."
    verdicts = (studies.OVER, studies.UNDECIDED, studies.WITHIN)
    parts = ", ".join(f"{counts[word]} {word}" for word in verdicts if counts[word])
    return f"Of {amount(total, 'budget')}: {parts}."


def row_sentence(row: studies.CheckRow) -> str:
    """Returns a row in words: "312 instructions, at most 310: over by 2"."""
    phrases = [f"{_measured(row)} {row.unit}"] if row.value is not None else []
    if row.limit is not None:
        of = f" ({row.budget} of {number(row.baseline)})" if row.baseline is not None else ""
        phrases.append(f"at most {number(row.limit)}{of}")
    return f"{', '.join(phrases)}{': ' if phrases else ''}{_verdict(row)}"


def _table(check: studies.Check) -> Table:
    relative = any(row.baseline is not None for row in check.rows)
    metrics = {row.metric for row in check.rows} != {INSTRUCTIONS}
    columns = [text_column("case", most=40)]
    columns += [text_column("metric")] if metrics else []
    columns += [Column("budget"), Column("baseline")] if relative else []
    columns += [Column("at most"), Column("measured"), text_column("verdict", wraps=True)]
    table = Table(columns, width=_ROW)
    for row in check.rows:
        table.row(
            row.name,
            *([row.metric] if metrics else []),
            *([row.budget, number(row.baseline)] if relative else []),
            number(row.limit),
            _measured(row),
            Cell(_verdict(row), row.verdict),
        )
        if row.counts and row.verdict != studies.WITHIN:
            table.note(f"{row.name}: {counts_text(row.counts)}")
    return table


def _measured(row: studies.CheckRow) -> str:
    """Returns the number, or the first and last of what it may be."""
    if row.low is None or row.high is None or row.low == row.high:
        return number(row.value if row.low is None or row.high is None else row.low)
    return f"{number(row.low)}..{number(row.high)}"


def _verdict(row: studies.CheckRow) -> str:
    if row.verdict == studies.UNDECIDED:
        return f"{studies.UNDECIDED}: {row.reason}"
    if row.verdict == studies.OVER and row.low is not None and row.limit is not None:
        over = row.low - row.limit
        return f"over by {significant(over, 3) if isinstance(over, float) else over}"
    return row.verdict


def _changes(check: studies.Check) -> list[Block]:
    columns = [text_column("case", most=40), text_column("metric"), *map(Column, ("old", "new"))]
    table = Table([*columns, text_column("in")], width=_ROW)
    for row in check.changes:
        table.row(row.name, row.metric, number(row.old), number(row.new), row.file)
    return [
        *(Prose(f"written: {file}") for file in check.written or ()),
        *(["", table] if check.changes else ["no number changed"]),
        *(Prose(f"not renewed: {r.name} {r.metric}: {r.reason}") for r in check.not_renewed),
    ]
