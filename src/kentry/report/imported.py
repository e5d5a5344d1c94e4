# SPDX-License-Identifier: GPL-2.0-or-later
"""Imported numbers of several texts in one table: each with its base, each change re-derived."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from kentry.importing import icount
from kentry.importing.check import change_digits
from kentry.importing.limits import limits
from kentry.importing.numbers import UNITS, Check, Claim, Group, Number, groups, plain_number
from kentry.importing.reading import Imported
from kentry.importing.recordings import metric_name
from kentry.importing.text import role
from kentry.report.plain import ascii_lines, plain, shortened, wrapped

_WIDTH = 79
_LINE, _CHANGE = 5, 7
# Fewer ASCII words than that say nothing of a sentence in another script.
_FEW_WORDS = 4
# A side's name has at least so many columns, whatever else is in the row.
_SIDE_LEAST = 12
# With two sides a step is the change.
_NO_SERIES = 2
# Re-derivations that hold are listed up to so many a text; then they are counted.
_MOST_SHOWN = 12


@dataclass(frozen=True)
class _Row:
    """A number with the base that its change is of; `step` is the change from the row above it."""

    number: Number
    base: Group | None
    change: str
    step: str


@dataclass(frozen=True)
class _Widths:
    """The columns of one text's rows; no `step` where there are but two sides."""

    case: int
    side: int
    value: int
    base: int
    step: int


def imported_text(found: Sequence[Imported], written: Iterable[str] = ()) -> str:
    """The table, what follows from what, what does not, and what none of it can support."""
    lines: list[str] = []
    for one in found:
        lines += [
            *_text_head(one),
            *_table_lines(one),
            *_claim_lines(one),
            *_derived_lines(one),
            "",
        ]
    lines += [*_finding_lines(found), "", *_limit_lines(found)]
    # A file's name is never broken: it may be pasted.
    lines += [f"wrote {plain(file)}" for file in written]
    return ascii_lines(lines)


def _table_lines(one: Imported) -> list[str]:
    """A row a number; the side is named where it changes."""
    rows = _rows(one)
    if not rows:
        return []
    widths = _widths(rows)
    lines = [_head(widths)]
    last: str | None = None
    seen: set[tuple[str, tuple[str, str, str]]] = set()
    for row in rows:
        number = row.number
        side = plain(number.side)
        shown = "" if side == last else side
        if len(shown) > widths.side:
            lines.append(f"{number.line:>{_LINE}} {shortened(shown, _WIDTH - _LINE - 1)}")
            shown = ""
        first = (number.side, number.key) not in seen
        lines.append(_number_line(row, shown, widths, first))
        seen.add((number.side, number.key))
        last = side
    return lines


def _widths(rows: Sequence[_Row]) -> _Widths:
    value = max(len("published"), *(len(_published(row.number)) for row in rows))
    base = max(len("of"), *(len(row.base.lines) if row.base else 0 for row in rows))
    step = _CHANGE if any(row.step for row in rows) else 0
    left = _WIDTH - _LINE - value - _CHANGE - base - step - 5 - bool(step)
    case = max(len("case"), *(len(_name(row.number)) for row in rows))
    case = min(case, left - _SIDE_LEAST)
    side = max(_SIDE_LEAST, *(len(plain(row.number.side)) for row in rows))
    return _Widths(case, min(side, left - case), value, base, step)


def _head(widths: _Widths) -> str:
    step = f" {'step':>{widths.step}}" if widths.step else ""
    return (
        f"{'line':>{_LINE}} {'side':<{widths.side}} {'case':<{widths.case}}"
        f" {'published':>{widths.value}} {'change':>{_CHANGE}} {'of':<{widths.base}}{step}"
    ).rstrip()


def _name(number: Number) -> str:
    """Case and statistic, and the metric where its unit does not say it."""
    metric = "" if number.metric in (*UNITS, icount.METRIC) else number.metric
    return plain(f"{number.case} {number.statistic} {metric}")


def _published(number: Number) -> str:
    """What was printed, with its unit and spread."""
    if number.relative_to:
        return plain(f"{number.written}% {number.spread}")
    return plain(f"{number.written} {number.unit} {number.spread}")


def _text_head(one: Imported) -> list[str]:
    arch = one.arch or "architecture not said"
    left = f"; {one.left_out} other rows left out" if one.left_out else ""
    return wrapped(plain(f"{one.document.name}: {', '.join(one.formats)}; {arch}{left}"), _WIDTH)


def _rows(one: Imported) -> list[_Row]:
    """Every number with the first side of its case and metric as its base."""
    before: dict[tuple[str, str, str], Group] = {}
    sides: dict[tuple[str, str, str], set[str]] = {}
    for number in one.numbers:
        sides.setdefault(number.key, set()).add(number.side)
    facts: dict[tuple[str, tuple[str, str, str]], tuple[Group | None, str, str]] = {}
    found = groups(one.numbers)
    named = [group for group in found if role(group.side) == "before"]
    firsts = {group.key: group for group in reversed(found)}
    # A side whose name says "before" is the base, or else the first.
    firsts |= {group.key: group for group in reversed(named)}
    for group in found:
        base = firsts[group.key]
        last = before.get(group.key)
        # What has no name may be anything: it is no base, and no change.
        unnamed = not (base.side and group.side)
        is_base = base.side == group.side or unnamed or bool(group.numbers[0].relative_to)
        change = "" if is_base else change_digits(base, group)
        few = len(sides[group.key]) <= _NO_SERIES
        step = "" if last is None or is_base or few else change_digits(last, group)
        facts[group.side, group.key] = (None if is_base else base, change, step)
        before[group.key] = group
    return [_Row(number, *facts[number.side, number.key]) for number in one.numbers]


def _number_line(row: _Row, side: str, widths: _Widths, first: bool) -> str:
    number = row.number
    change, step, base = (row.change, row.step, row.base) if first else ("", "", None)
    last = f" {step:>{widths.step}}" if widths.step else ""
    return (
        f"{number.line:>{_LINE}} {side:<{widths.side}}"
        f" {shortened(_name(number), widths.case):<{widths.case}}"
        f" {_published(number):>{widths.value}} {change:>{_CHANGE}}"
        f" {base.lines if base else '':<{widths.base}}{last}"
    ).rstrip()


def _claim_lines(one: Imported) -> list[str]:
    lines: list[str] = []
    for claim in one.claims:
        base = claim.base.replace('"', "'")
        if not base.isascii() and len(plain(base).replace("?", "").split()) < _FEW_WORDS:
            base = "see the text"
        text = f'claims {_said(claim)}: "{base}"; {_backing(one.backed.get(claim))}'
        lines += wrapped(plain(text), _WIDTH, f"{claim.line:>{_LINE}} ", " " * 8)
    return lines


def _said(claim: Claim) -> str:
    """A claim as written, its qualifier in English."""
    if claim.written.isascii():
        return claim.written
    bound = {1: "more than ", -1: "less than "}.get(claim.bound, "")
    return f"{bound}{plain_number(claim.value)}{claim.unit}"


def _backing(check: Check | None) -> str:
    if check is None:
        return "no measurement given"
    return f"{'holds' if check.holds else 'DOES NOT HOLD'}: {check.formula}"


def _derived_lines(one: Imported) -> list[str]:
    lines: list[str] = []
    for item in one.derived:
        text = f"re-derived: {item.case} {item.value} {item.unit}: {item.formula}"
        lines += wrapped(plain(text), _WIDTH, f"{item.line:>{_LINE}} ", " " * 8)
    for relative in dict.fromkeys(n.relative_to for n in one.numbers if n.relative_to):
        lines += wrapped(plain(f"percentages of: {relative}"), _WIDTH, " " * 6, " " * 8)
    holding = [check for check in one.checks if check.holds and check.formula]
    for check in holding[:_MOST_SHOWN]:
        text = f"{check.said} holds: {check.formula}"
        lines += wrapped(plain(text), _WIDTH, f"{check.line:>{_LINE}} ", " " * 8)
    if len(holding) > _MOST_SHOWN:
        lines.append(f"      and {len(holding) - _MOST_SHOWN} more that hold")
    return lines


def _finding_lines(found: Sequence[Imported]) -> list[str]:
    lines: list[str] = []
    checked = sum(len(one.checks) + len(one.backed) for one in found)
    wrong = [(one, check) for one in found for check in one.findings]
    if not checked:
        return ["Nothing here follows from anything else here: nothing could be checked."]
    if not wrong:
        return [f"Checked against each other: {checked}; all of them hold."]
    verb = "does" if len(wrong) == 1 else "do"
    lines.append(f"Checked against each other: {checked}; {len(wrong)} {verb} not hold:")
    for one, check in wrong:
        text = f"{one.document.name}:{check.line}: {check.said} does not hold: {check.better}"
        lines += wrapped(plain(text), _WIDTH, "  ", "    ")
    return lines


def _limit_lines(found: Sequence[Imported]) -> list[str]:
    lines: list[str] = []
    for caveat in _limits(found):
        lines += wrapped(caveat["text"], _WIDTH, "note: ", "      ")
    return lines


def _limits(found: Sequence[Imported]) -> list[dict[str, str]]:
    numbers = tuple(number for one in found for number in one.numbers)
    claims = sum(len(one.claims) for one in found)
    return limits(numbers, claims, claims - sum(len(one.backed) for one in found))


def imported_to_json(found: Sequence[Imported]) -> dict[str, Any]:
    """kentry/import/1."""
    return {
        "schema": "kentry/import/1",
        "files": [_file_to_json(one) for one in found],
        "caveats": _limits(found),
    }


def _file_to_json(one: Imported) -> dict[str, Any]:
    return {
        "file": one.document.name,
        "formats": list(one.formats),
        "arch": one.arch or None,
        "arch_from": one.arch_from or None,
        "sides": list(one.sides),
        "numbers": [_number_to_json(row) for row in _rows(one)],
        "claims": [_claim_to_json(claim, one.backed.get(claim)) for claim in one.claims],
        "derived": [
            {
                "line": item.line,
                "case": item.case,
                "value": float(item.value),
                "unit": item.unit,
                "formula": item.formula,
            }
            for item in one.derived
        ],
        "checks": [_check_to_json(check) for check in one.checks],
        "findings": [_check_to_json(check) for check in one.findings],
        "left_out": one.left_out,
    }


def _number_to_json(row: _Row) -> dict[str, Any]:
    number = row.number
    return {
        "line": number.line,
        "text": number.text,
        "format": number.format,
        "side": number.side,
        "case": number.case,
        "metric": metric_name(Group(number.side, number.key, (number,))),
        "published": number.written,
        "unit": number.unit,
        "value": float(number.amount),
        "about": number.about,
        "spread": number.spread,
        "percent_of": number.relative_to or None,
        "base": _base_to_json(row),
        "absent": list(number.absent),
    }


def _base_to_json(row: _Row) -> dict[str, Any] | None:
    base = row.base
    if base is None or not base.middle:
        return None
    return {
        "side": base.side,
        "lines": [number.line for number in base.numbers],
        "value": float(base.middle),
        "change_percent": row.change,
        "step_percent": row.step or None,
    }


def _claim_to_json(claim: Claim, check: Check | None) -> dict[str, Any]:
    return {
        "line": claim.line,
        "published": claim.written,
        "unit": claim.unit,
        "value": float(claim.value),
        "upper": None if claim.upper is None else float(claim.upper),
        "base": claim.base,
        "text": claim.text,
        "check": None if check is None else _check_to_json(check),
    }


def _check_to_json(check: Check) -> dict[str, Any]:
    return {
        "line": check.line,
        "said": check.said,
        "formula": check.formula,
        "holds": check.holds,
        "better": check.better,
    }
