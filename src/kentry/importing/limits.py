# SPDX-License-Identifier: GPL-2.0-or-later
"""What imported numbers cannot support, as caveats."""

from __future__ import annotations

from kentry.importing.numbers import Number

Caveat = dict[str, str]


def imported(name: str) -> Caveat:
    """Every recording of imported numbers carries it."""
    return {
        "kind": "imported",
        "text": f"published in {name}, not measured by kentry: no interval, so no verdict",
    }


def limits(numbers: tuple[Number, ...], claims: int, unbacked: int) -> list[Caveat]:
    """What holds for everything that one import printed."""
    found = []
    if numbers:
        found.append(
            (
                "no-interval",
                "one run or a few of one boot, no interval: a change of a few per"
                " cent may be noise, and no verdict follows",
            )
        )
        found.append(
            (
                "not-interleaved",
                "one side was measured after the other: drift between them is in the difference",
            )
        )
        found.append(
            (
                "no-kernel",
                "no kernel, config or compiler is known: not a base for kentry diff,"
                " a budget or a bisection",
            )
        )
    if any(number.metric == "ticks" for number in numbers):
        found.append(("ticks", "ticks are of a timer whose frequency is not known: no ns"))
    if any(number.relative_to for number in numbers):
        found.append(("only-percent", "a percentage without its two values cannot be re-derived"))
    if unbacked:
        found.append(
            (
                "unbacked",
                f"{unbacked} of {claims} claims have no measurement in the text: they"
                " are shown as claims, and are in no recording",
            )
        )
    return [{"kind": kind, "text": text} for kind, text in found]
