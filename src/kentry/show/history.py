# SPDX-License-Identifier: GPL-2.0-or-later
"""The layouts of a bisection and of a log: which commit changed a value, and its functions."""

import re
from bisect import bisect_left
from collections import Counter
from collections.abc import Iterator, Sequence

from kentry.results.comparison import Real
from kentry.results.studies import (
    MEASURED,
    NO_BOOT,
    NO_BUILD,
    NOT_COMPILED,
    SAME_CODE,
    Answer,
    Bisection,
    ChangePoint,
    Culprit,
    Log,
    Provisional,
    Step,
)
from kentry.show import charts
from kentry.show.blocks import SHOWN, Block, Column, Layout, Prose, Table, text_column
from kentry.show.numbers import change, number
from kentry.show.sections import Chart, Deltas, Detail, Drawn, Fold, InText, Notes, OnPage, Section
from kentry.show.table import line_width

_NAME, _NAMED, _ALL = 12, 6, 100
# By how a commit was tried: in the table, and in the sentence that counts them.
_STATUS = {
    MEASURED: ("booted", "booted"),
    SAME_CODE: ("built; the same code as {}", "built and not booted"),
    NOT_COMPILED: ("not built; the same kernel as {}", "not built"),
    NO_BUILD: ("does not build", "did not build"),
    NO_BOOT: ("does not boot", "did not boot"),
}
# Of commits that a program of the user's measured.
_BY_PROGRAM = _STATUS | {MEASURED: ("measured",) * 2, NO_BOOT: ("not measured",) * 2}
# Kernels that the axis of a chart names.
_LABELLED = 6
_LEVELS = "▁▂▃▄▅▆▇█"
# For an output that is not UTF-8.
_ASCII_LEVELS = "_.-=+*#@"
_COMMIT = re.compile("[0-9a-f]{40,64}")


def bisection_layout(bisection: Bisection, shown: int | None = SHOWN) -> Layout:
    """Lays out a bisection, with `shown` rows in a table of functions, None for all."""
    unit, good, bad = bisection.unit, bisection.good, bisection.bad
    ends = Table([text_column(), text_column(), text_column(wraps=True)], headings=False, gap=1)
    for name, one in (("good", good), ("bad", bad)):
        ends.row(name, one.commit[:_NAME], one.subject)
    changes = list(_answer_blocks(bisection, unit, shown)) or ["", "No commit was found."]
    for other in bisection.others:
        values = f"{number(other.good)} to {number(other.bad)} {other.unit}"
        text = f"{other.case}: from {values}, {_change(other.delta, other.good)}"
        own = [Prose(text), *_answer_blocks(other, other.unit, shown), Notes(other.caveats)]
        changes += ["", Section(other.case, own)]
    named = "; ".join(f'{one.commit[:_NAME]} ("{one.subject}")' for one in bisection.culprits)
    explains = f"{named}, {bisection.explained:+.6g} {unit}"
    suspected = "Several commits are suspect." if bisection.suspects else "No commit was found."
    by_program = "run" in bisection.origin
    counts = Counter(step.status for step in bisection.steps)
    words = _BY_PROGRAM if by_program else _STATUS
    tried = [f"{counts[one]} {text}" for one, (_, text) in words.items() if counts[one]]
    failed = [step for step in bisection.steps if step.problem or step.detail]
    steps = [
        _step_table(bisection.steps, by_program=by_program),
        *(Fold(f"{step.commit[:_NAME]}: {step.problem}", [Detail(step.detail)]) for step in failed),
    ]
    return Layout(
        "bisection",
        f"Bisection of {bisection.case} ({bisection.arch})",
        explains if bisection.culprits else suspected,
        [
            Prose(
                f"{bisection.origin['tree']} ({bisection.arch}): {bisection.case} from"
                f" {number(good.value)} to {number(bad.value)} {unit},"
                f" {_change(bisection.delta, good.value)}"
            ),
            ends,
            Prose(
                f"{bisection.commits} commits, {len(bisection.steps)} tried: {', '.join(tried)}."
            ),
            OnPage(_step_charts(bisection)),
            Section("Changes", changes),
            OnPage([Section("Commits tried", steps)]),
        ],
        bisection.caveats,
        list(bisection.origin.items()),
    )


def _answer_blocks(answer: Bisection | Answer, unit: str, shown: int | None) -> Iterator[Block]:
    """The commits that made a change, and those of which one made it."""
    for culprit in answer.culprits:
        yield from ("", _culprit_fold(culprit, unit, shown))
    for suspects in answer.suspects:
        many = len(suspects.commits)
        which = f"One of these {many} commits" if many > 1 else "This commit"
        why = "those before the last do not build or boot" if many > 1 else "but see the note"
        yield from ("", Prose(f"{which} changed the count by {suspects.delta:+g} {unit}; {why}:"))
        for one in suspects.commits:
            yield Prose(f"{one.commit[:_NAME]} {one.subject}", "  ", "    ")


def steps_layout(
    steps: Sequence[Step], provisional: Sequence[Provisional] = (), *, by_program: bool = False
) -> Layout:
    """Lays out the commits that were tried, in that order; and what was named, not verified."""
    blocks: list[Block] = [_step_table(steps, by_program=by_program)]
    for row in provisional:
        blocks += ["", Prose(f"Not verified yet: {row}.")]
    if provisional:
        blocks.append(Prose("To verify: kentry bisect --continue."))
    return Layout("steps", "", "", blocks)


def _step_table(steps: Sequence[Step], *, by_program: bool) -> Table:
    """What became of each commit, tried by kentry or by a program of the user's."""
    names = [text_column("commit"), Column("value"), text_column("subject", most=34)]
    table = Table([*names, text_column("how", wraps=True)])
    words = _BY_PROGRAM if by_program else _STATUS
    for step in steps:
        how = words[step.status][0].format(step.like[:_NAME])
        table.row(step.commit[:_NAME], number(step.value), step.subject, how)
    return table


def _step_charts(bisection: Bisection) -> list[Block]:
    unit = bisection.unit
    culprits = {one.commit for one in bisection.culprits}
    points = [
        charts.Point(
            place,
            step.value,
            f"{step.commit[:_NAME]} {step.subject}: {number(step.value)} {unit}",
            "change" if step.commit in culprits else "point",
        )
        for place, step in enumerate(bisection.steps, start=1)
        if step.value is not None
    ]
    if not points:
        return []
    ends = (("good", bisection.good), ("bad", bisection.bad))
    levels = [(one.value, name) for name, one in ends if one.value is not None]
    label = f"{bisection.case}: {unit} of the commits in the order in which they were tried"
    drawing = charts.line(points, label, "commit tried", unit, shape="dots", levels=levels)
    return [Chart(drawing, "Each dot is a commit that was tried; the lines are good and bad.")]


def _culprit_fold(culprit: Culprit, unit: str, shown: int | None) -> Fold:
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
        names = ", ".join(culprit.compiled[:_NAMED]) or "none"
        more = len(culprit.compiled) - _NAMED
        names += f" and {more} more" if more > 0 else ""
        blocks.append(Prose(f"Of the files it changes the kernel is made of: {names}."))
    blocks.append(Notes(culprit.doubts))
    return Fold(Prose(f'{culprit.commit[:_NAME]} ("{culprit.subject}")'), blocks, open=True)


def _change(delta: Real, old: Real | None) -> str:
    return f"{delta:+.6g}" + (f" ({change(delta, old)})" if old else "")


def log_layout(log: Log, shown: int | None = SHOWN, *, blocks: bool = True) -> Layout:
    """Lays out a log; `blocks` draws the sparkline in block elements instead of ASCII."""
    ends = _ends([one.value for one in log.points], log.unit) or "no values"
    measured = f"{len(log.points)} of {log.kernels} kernels measured"
    head = Prose(f"{log.origin['what']} ({log.arch}): {log.case}, {measured}: {ends}")
    levels = _LEVELS if blocks else _ASCII_LEVELS
    names = [Column("place"), text_column("kernel", most=34), *map(Column, ("old", "new", "delta"))]
    table = Table([*names, text_column("subject", wraps=True)])
    for one in log.changes:
        sides = number(one.old), number(one.new), f"{one.delta:+.6g}"
        table.row(one.place, _short(one.names[-1]), *sides, one.title)
    body: list[Block] = [table if log.changes else "No change was found."]
    body += _change_folds(log.changes, shown, "")
    if failed := [_short(one.name) for one in log.points if one.value is None]:
        body += ["", Prose(f"Without a value: {', '.join(failed)}.")]
    for other in log.others:
        words = _ends(other.values, other.unit) or "no value"
        body += ["", Prose(f"{other.case}: {words}{'' if other.changes else ', no change'}")]
        body += _change_folds(other.changes, shown, f"{other.case}-")
    names = [Column("place"), text_column("kernel"), Column(log.unit)]
    kernels = Table([*names, *map(text_column, ("date", "subject"))], caption="Oldest first")
    for point in log.points:
        about = ": ".join(filter(None, (point.title, point.problem)))
        value = number(point.value)
        kernels.row(point.place, _short(point.name), value, point.date[:10], about)
    has_value = any(one.value is not None for one in log.points)
    return Layout(
        "log",
        f"History of {log.case} ({log.arch})",
        f"{measured}, {ends}, {len(log.changes)} changes",
        [
            InText([head, "", Drawn(lambda: "".join(_sparkline(log, levels))), ""]),
            OnPage([log_chart(log)] if has_value else []),
            Section("Changes", body),
            OnPage([Section("Kernels", [kernels])]),
        ],
        log.caveats,
        list(log.origin.items()),
    )


def _ends(values: Sequence[Real | None], unit: str) -> str:
    known = [one for one in values if one is not None]
    return f"{number(known[0])} to {number(known[-1])} {unit}" if known else ""


def log_chart(log: Log) -> Chart:
    """Draws the values as steps, the changes as large dots."""
    changes = {
        one.place: ("change", f"change-{at}", f"{one.delta:+.6g}")
        for at, one in enumerate(log.changes, start=1)
    }
    points = [
        charts.Point(
            one.place,
            one.value,
            f"{_short(one.name)} {one.title}: {number(one.value)} {log.unit}",
            *changes.get(one.place, ()),
        )
        for one in log.points
        if one.value is not None
    ]
    label = f"{log.case}: {log.unit} of each kernel, oldest first"
    # The releases or the months of a few, because a place says nothing.
    few = log.points[:: -(-len(log.points) // _LABELLED)]
    named = [(one.place, one.date[:7] or one.name.rpartition(":")[2][-_NAME:]) for one in few]
    drawing = charts.line(points, label, "kernel", log.unit, shape="steps", named=named)
    return Chart(drawing, "The large dots are the changes.")


def _sparkline(log: Log, levels: str) -> Iterator[str]:
    """Yields a character a kernel, or a stretch of kernels where there are more than columns.

    A kernel that was not tried has the value of those on both sides where these are the same; the
    last of a stretch that changes stands for it.
    """
    tried: dict[int, Real | None] = {one.place: one.value for one in log.points}
    known = {place: value for place, value in tried.items() if value is not None}
    low, high = min(known.values()), max(known.values())
    values: list[Real | None] = []
    before: Real | None = None
    places = sorted(known)
    for place in range(log.kernels):
        before = known.get(place, before)
        at = bisect_left(places, place)
        after = known[places[at]] if at < len(places) else before
        values.append(before if before == after and tried.get(place, before) is not None else None)
    step = -(-len(values) // line_width())
    for start in range(0, len(values), step):
        part = [one for one in values[start : start + step] if one is not None]
        share = (part[-1] - low) / (high - low) if part and high > low else 0
        yield levels[round(share * (len(levels) - 1))] if part else "?"


def _change_folds(
    changes: Sequence[ChangePoint], shown: int | None, prefix: str
) -> Iterator[Block]:
    for place, one in enumerate(changes, start=1):
        title = Prose(
            f"{_short(one.names[-1])} {one.title}: {number(one.old)} -> {number(one.new)},"
            f" {one.delta:+.6g} ({change(one.delta, one.old)})"
        )
        blocks: list[Block] = []
        if others := ", ".join(map(_short, one.names[:-1])):
            blocks.append(Prose(f"or one before it, which has no value: {others}", first="  "))
        if one.functions:
            blocks.append(Deltas(one.functions, int(one.old), int(one.new), shown))
        yield from ("", Fold(title, blocks, f"{prefix}change-{place}", open=True))


def _short(name: str) -> str:
    return name[:_NAME] if _COMMIT.fullmatch(name) else name
