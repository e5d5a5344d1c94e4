# SPDX-License-Identifier: GPL-2.0-or-later
"""Which formats a text contains, and every number of it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path

from kentry.errors import UserError
from kentry.importing import (
    claims,
    columns,
    fp_pidbench,
    icount,
    lat_syscall,
    lkp,
    loops,
    perf_bench,
    perf_stat,
    tables,
    unixbench,
    will_it_scale,
)
from kentry.importing.check import check_claims
from kentry.importing.numbers import OPS, Check, Claim, Number, Reading, groups, significant
from kentry.importing.text import Document, read_document, role

# In this order a line is a format's: the first that understands it has it.
FORMATS: dict[str, Callable[[Document], Reading]] = {
    module.NAME.replace(" ", "-"): module.read
    for module in (
        lat_syscall,
        fp_pidbench,
        loops,
        unixbench,
        will_it_scale,
        icount,
        lkp,
        perf_stat,
        tables,
        perf_bench,
        columns,
    )
}
TEXT = claims.NAME
NAMES = (*FORMATS, TEXT)


@dataclass(frozen=True)
class Derived:
    """A number that follows from two published ones, which nobody published."""

    line: int
    case: str
    value: Decimal
    unit: str
    formula: str


@dataclass(frozen=True)
class Imported:
    """Everything in one text.

    `arch` is "" where neither the user nor the text says it; `arch_from` is "--arch", "text" or "".
    `backed` are the claims that measurements in the text are behind, or should be; the others
    have no measurement given.
    """

    document: Document
    formats: tuple[str, ...]
    arch: str
    arch_from: str
    numbers: tuple[Number, ...]
    claims: tuple[Claim, ...]
    backed: dict[Claim, Check]
    checks: tuple[Check, ...]
    derived: tuple[Derived, ...]
    left_out: int

    @property
    def findings(self) -> tuple[Check, ...]:
        """What does not hold, by line."""
        everything = (*self.checks, *self.backed.values())
        return tuple(sorted((c for c in everything if not c.holds), key=lambda one: one.line))

    @property
    def sides(self) -> tuple[str, ...]:
        """The names of what was measured, in the order of the text."""
        return tuple(dict.fromkeys(number.side for number in self.numbers))


def import_file(file: Path, only: str = "", arch: str = "", name: str = "") -> Imported:
    """Every number in a file; UserError where no format knows any."""
    return import_document(read_document(file, name), only, arch)


def import_document(document: Document, only: str = "", arch: str = "") -> Imported:
    """Every number of a text; `only` one format's, if it is named."""
    found = Reading()
    formats = []
    for name, read in FORMATS.items():
        if only in ("", name):
            formats += [name] if _merge(found, read(document)) else []
    if only in ("", TEXT):
        said = claims.read(document, found.lines, _two_sides(found.numbers))
        formats += [TEXT] if _merge(found, said) else []
    if not found.numbers and not found.claims:
        raise UserError(
            f"{document.name} has no number in a form that kentry knows.",
            f"It reads {', '.join(NAMES)}.",
        )
    kept = _once(document, found.numbers)
    return Imported(
        document=document,
        formats=tuple(formats),
        arch=arch or document.arch,
        arch_from="--arch" if arch else "text" if document.arch else "",
        numbers=tuple(kept),
        claims=tuple(found.claims),
        backed=check_claims(found.claims, kept),
        checks=tuple(sorted(found.checks, key=lambda check: check.line)),
        derived=tuple(_derived(kept)),
        left_out=found.left_out,
    )


def _merge(found: Reading, more: Reading) -> bool:
    """Adds what a format found on lines that no other has; whether there was anything."""
    numbers = [number for number in more.numbers if number.line not in found.lines]
    checks = [check for check in more.checks if check.line not in found.lines]
    found.numbers += numbers
    found.checks += checks
    found.claims += more.claims
    found.lines |= more.lines
    found.left_out += more.left_out
    return bool(numbers or more.claims)


def _two_sides(numbers: Sequence[Number]) -> list[str]:
    """The two sides of a text, one with "before" in its name and one with "after"."""
    sides = dict.fromkeys(number.side for number in numbers)
    return [side for side in sides if role(side)]


def _once(document: Document, numbers: Sequence[Number]) -> list[Number]:
    """The numbers in the order of the text, without those that a reply only quotes again."""
    seen: set[tuple[str, str, str]] = set()
    kept = []
    for number in sorted(numbers, key=lambda one: one.line):
        key = (number.text, number.case, f"{number.metric} {number.side} {number.written}")
        if document.lines[number.line - 1].quoted and key in seen:
            continue
        seen.add(key)
        kept.append(number)
    return kept


def _derived(numbers: Sequence[Number]) -> list[Derived]:
    """Instructions a call: a machine's instructions a second over its calls a second."""
    found = groups(numbers)
    machine = next((group for group in found if group.key[1] == icount.METRIC), None)
    rates = [g for g in found if g.key[1] == OPS and g.numbers[0].format == unixbench.NAME]
    if machine is None or len(rates) != 1 or not rates[0].middle:
        return []
    calls = rates[0]
    each = significant(machine.middle / calls.middle)
    count = len(machine.numbers)
    what = f"median of {count} samples" if count > 1 else "one sample"
    return [
        Derived(
            line=calls.numbers[0].line,
            case=calls.key[0],
            value=each,
            unit="instructions a call",
            formula=f"{what} (lines {machine.lines}), {round(machine.middle)} a second,"
            f" / {significant(calls.middle, 8)} calls a second (line {calls.lines})",
        )
    ]
