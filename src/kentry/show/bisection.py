# SPDX-License-Identifier: GPL-2.0-or-later
"""The layout of a bisection: the commit, its functions, and how much of the change it is."""

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
    Culprit,
    Provisional,
    Step,
    Suspects,
)
from kentry.show import charts
from kentry.show.blocks import (
    SHOWN,
    Block,
    Chart,
    Column,
    Deltas,
    Detail,
    Fold,
    Layout,
    Notes,
    OnPage,
    Prose,
    Section,
    Table,
    text_column,
)
from kentry.show.numbers import change, number

_NAME = 12
_NAMED = 6
_ALL = 100
_STATUS = {
    MEASURED: "booted",
    SAME_CODE: "built; the same code as {}",
    NOT_COMPILED: "not built; the same kernel as {}",
    NO_BUILD: "does not build",
    NO_BOOT: "does not boot",
}
_COUNTED = {
    MEASURED: "booted",
    SAME_CODE: "built and not booted",
    NOT_COMPILED: "not built",
    NO_BUILD: "did not build",
    NO_BOOT: "did not boot",
}
# Of commits that a program of the user's measured.
_BY_PROGRAM = {MEASURED: "measured", NO_BOOT: "not measured"}


def bisection_layout(bisection: Bisection, shown: int | None = SHOWN) -> Layout:
    """Lays out a bisection, with `shown` rows in a table of functions, None for all."""
    unit, good, bad = bisection.unit, bisection.good, bisection.bad
    ends = Table([text_column(), text_column(), text_column(wraps=True)], headings=False, gap=1)
    for name, one in (("good", good), ("bad", bad)):
        ends.row(name, one.commit[:_NAME], one.subject)
    changes: list[Block] = []
    for culprit in bisection.culprits:
        changes += ["", _culprit_fold(culprit, unit, shown)]
    for suspects in bisection.suspects:
        changes += ["", *_suspect_blocks(suspects, unit)]
    changes = changes or ["", "No commit was found."]
    for other in bisection.others:
        changes += ["", Section(other.case, list(_other_blocks(other, shown)))]
    named = "; ".join(f'{one.commit[:_NAME]} ("{one.subject}")' for one in bisection.culprits)
    explains = f"{named}, {bisection.explained:+.6g} {unit}"
    suspected = "Several commits are suspect." if bisection.suspects else "No commit was found."
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
                f"{bisection.commits} commits, {len(bisection.steps)} tried: {_tried(bisection)}."
            ),
            OnPage(_charts(bisection)),
            Section("Changes", changes),
            OnPage([Section("Commits tried", _step_blocks(bisection))]),
        ],
        bisection.caveats,
        list(bisection.origin.items()),
    )


def _other_blocks(other: Answer, shown: int | None) -> Iterator[Block]:
    """Yields another case: its change, and the commits that made it."""
    ends = f"{number(other.good)} to {number(other.bad)} {other.unit}"
    yield Prose(f"{other.case}: from {ends}, {_change(other.delta, other.good)}")
    for culprit in other.culprits:
        yield from ("", _culprit_fold(culprit, other.unit, shown))
    for suspects in other.suspects:
        yield from ("", *_suspect_blocks(suspects, other.unit))
    yield Notes(other.caveats)


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
    """Returns what became of each commit, tried by kentry or by a program of the user's."""
    names = [text_column("commit"), Column("value"), text_column("subject", most=34)]
    table = Table([*names, text_column("how", wraps=True)])
    words = _STATUS | _BY_PROGRAM if by_program else _STATUS
    for step in steps:
        how = words[step.status].format(step.like[:_NAME])
        table.row(step.commit[:_NAME], number(step.value), step.subject, how)
    return table


def _step_blocks(bisection: Bisection) -> list[Block]:
    """Returns the table, then what went wrong with each commit."""
    failed = [step for step in bisection.steps if step.problem or step.detail]
    return [
        _step_table(bisection.steps, by_program="run" in bisection.origin),
        *(Fold(f"{step.commit[:_NAME]}: {step.problem}", [Detail(step.detail)]) for step in failed),
    ]


def _charts(bisection: Bisection) -> list[Block]:
    """Draws the values in the order in which the commits were tried."""
    found = {one.commit for one in bisection.culprits}
    points = [
        charts.Point(
            place,
            step.value,
            f"{step.commit[:_NAME]} {step.subject}: {number(step.value)} {bisection.unit}",
            "change" if step.commit in found else "point",
        )
        for place, step in enumerate(bisection.steps, start=1)
        if step.value is not None
    ]
    if not points:
        return []
    ends = (("good", bisection.good), ("bad", bisection.bad))
    levels = [(one.value, name) for name, one in ends if one.value is not None]
    label = (
        f"{bisection.case}: {bisection.unit} of the commits in the order in which they were tried"
    )
    drawing = charts.line(
        points, label, "commit tried", bisection.unit, shape="dots", levels=levels
    )
    return [Chart(drawing, "Each dot is a commit that was tried; the lines are good and bad.")]


def _culprit_fold(culprit: Culprit, unit: str, shown: int | None) -> Fold:
    before = culprit.parent.value or 0
    # Where another commit went the other way, a commit may explain more than the whole change.
    share = ""
    if culprit.share is not None and 0 < culprit.share <= _ALL:
        share = f", {culprit.share:.3g} % of the whole change"
    blocks: list[Block] = [
        Prose(f"{culprit.author}, {culprit.date[:10]}"),
        Prose(
            f"{number(before)} -> {number(culprit.value)} {unit},"
            f" {_change(culprit.delta, before)}{share}"
        ),
    ]
    if culprit.functions:
        blocks += ["", Deltas(culprit.functions, int(before), int(culprit.value), shown)]
    if culprit.compiled is not None:
        names = ", ".join(culprit.compiled[:_NAMED]) or "none"
        more = len(culprit.compiled) - _NAMED
        blocks.append(
            Prose(
                f"Of the files it changes the kernel is made of: {names}"
                f"{f' and {more} more' if more > 0 else ''}."
            )
        )
    blocks.append(Notes(culprit.doubts))
    return Fold(Prose(f'{culprit.commit[:_NAME]} ("{culprit.subject}")'), blocks, open=True)


def _suspect_blocks(suspects: Suspects, unit: str) -> list[Block]:
    many = len(suspects.commits)
    which = f"One of these {many} commits" if many > 1 else "This commit"
    why = "those before the last do not build or boot" if many > 1 else "but see the note"
    return [
        Prose(f"{which} changed the count by {suspects.delta:+g} {unit}; {why}:"),
        *(
            Prose(f"{one.commit[:_NAME]} {one.subject}", first="  ", then="    ")
            for one in suspects.commits
        ),
    ]


def _tried(bisection: Bisection) -> str:
    counts = Counter(step.status for step in bisection.steps)
    words = _COUNTED | _BY_PROGRAM if "run" in bisection.origin else _COUNTED
    return ", ".join(f"{counts[status]} {text}" for status, text in words.items() if counts[status])


def _change(delta: Real, old: Real | None) -> str:
    return f"{delta:+.6g}" + (f" ({change(delta, old)})" if old else "")
