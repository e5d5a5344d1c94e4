# SPDX-License-Identifier: GPL-2.0-or-later
"""What `kentry bisect` prints: the commit, its functions, and how much of the change it is."""

from collections import Counter
from collections.abc import Iterator, Sequence

from kentry.results.bisection import (
    MEASURED,
    NOT_COMPILED,
    SAME_CODE,
    Answer,
    Bisection,
    Culprit,
    Provisional,
    Step,
    Suspects,
)
from kentry.results.comparison import Real
from kentry.results.series import NO_BOOT, NO_BUILD
from kentry.show.frame import caveat_lines
from kentry.show.functions import SHOWN, function_lines_with_total
from kentry.show.numbers import change, number
from kentry.show.table import Column, Table, ascii_lines, text_column, wrapped
from kentry.study.commits import provisional_words

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


def bisection_text(found: Bisection, shown: int | None = SHOWN) -> str:
    """The whole report, with `shown` rows in a table of functions, None for all."""
    unit = found.unit
    lines = wrapped(
        f"{found.origin['tree']} ({found.arch}): {found.case} from {number(found.good.value)} to"
        f" {number(found.bad.value)} {unit}, {_change(found.delta, found.good.value)}"
    )
    ends = Table([text_column(), text_column(), text_column(wraps=True)], headings=False, gap=1)
    for name, one in (("good", found.good), ("bad", found.bad)):
        ends.row(name, one.commit[:_NAME], one.subject)
    lines += [
        *ends.lines(),
        *wrapped(f"{found.commits} commits, {len(found.steps)} tried: {_tried(found)}."),
    ]
    for culprit in found.culprits:
        lines += ["", *_culprit_lines(culprit, unit, shown)]
    for suspects in found.suspects:
        lines += ["", *_suspect_lines(suspects, unit)]
    if not found.culprits and not found.suspects:
        lines += ["", "No commit was found."]
    for other in found.others or ():
        lines += ["", *_other_lines(other, shown)]
    return ascii_lines([*lines, *caveat_lines(found.caveats)])


def _other_lines(other: Answer, shown: int | None) -> Iterator[str]:
    """Another case: its change, and the commits that made it."""
    ends = f"{number(other.good)} to {number(other.bad)} {other.unit}"
    yield from wrapped(f"{other.case}: from {ends}, {_change(other.delta, other.good)}")
    for culprit in other.culprits:
        yield ""
        yield from _culprit_lines(culprit, other.unit, shown)
    for suspects in other.suspects:
        yield ""
        yield from _suspect_lines(suspects, other.unit)
    yield from caveat_lines(other.caveats)


def steps_text(
    steps: tuple[Step, ...], provisional: Sequence[Provisional] = (), *, by_program: bool = False
) -> str:
    """A row for each commit that was tried, in that order; and what was named and not verified."""
    table = Table(
        [
            text_column("commit"),
            Column("value"),
            text_column("subject", most=34),
            text_column("how", wraps=True),
        ]
    )
    for step in steps:
        table.row(
            step.commit[:_NAME], number(step.value), step.subject, step_words(step, by_program)
        )
    lines = [*table.lines()]
    for row in provisional:
        lines += ["", *wrapped(f"Not verified yet: {provisional_words(row)}.")]
    if provisional:
        lines += wrapped("To verify: kentry bisect --continue.")
    return ascii_lines(lines)


def step_words(step: Step, by_program: bool) -> str:
    """What became of a commit that was tried, by kentry or by a program of the user's."""
    words = _STATUS | _BY_PROGRAM if by_program else _STATUS
    return words[step.status].format(step.like[:_NAME])


def _culprit_lines(culprit: Culprit, unit: str, shown: int | None) -> Iterator[str]:
    yield from wrapped(f'{culprit.commit[:_NAME]} ("{culprit.subject}")')
    yield from wrapped(f"{culprit.author}, {culprit.date[:10]}")
    before = culprit.parent.value or 0
    # Where another commit went the other way, one is more than all.
    share = ""
    if culprit.share is not None and 0 < culprit.share <= _ALL:
        share = f", {culprit.share:.3g} % of the whole change"
    yield from wrapped(
        f"{number(before)} -> {number(culprit.value)} {unit},"
        f" {_change(culprit.delta, before)}{share}"
    )
    if culprit.functions:
        yield ""
        yield from function_lines_with_total(
            culprit.functions, int(before), int(culprit.value), shown
        )
    if culprit.compiled is not None:
        names = ", ".join(culprit.compiled[:_NAMED]) or "none"
        more = len(culprit.compiled) - _NAMED
        yield from wrapped(
            f"Of the files it changes the kernel is made of: {names}"
            f"{f' and {more} more' if more > 0 else ''}."
        )
    yield from caveat_lines(culprit.doubts)


def _suspect_lines(suspects: Suspects, unit: str) -> Iterator[str]:
    many = len(suspects.commits)
    which = f"One of these {many} commits" if many > 1 else "This commit"
    why = "those before the last do not build or boot" if many > 1 else "but see the note"
    yield from wrapped(f"{which} changed the count by {suspects.delta:+g} {unit}; {why}:")
    for one in suspects.commits:
        yield from wrapped(f"{one.commit[:_NAME]} {one.subject}", first="  ", then="    ")


def _tried(found: Bisection) -> str:
    counts = Counter(step.status for step in found.steps)
    words = _COUNTED | _BY_PROGRAM if "run" in found.origin else _COUNTED
    return ", ".join(f"{counts[status]} {text}" for status, text in words.items() if counts[status])


def _change(delta: Real, old: Real | None) -> str:
    return f"{delta:+.6g}" + (f" ({change(delta, old)})" if old else "")
