# SPDX-License-Identifier: GPL-2.0-or-later
"""Imported numbers as recordings: one a side, so that kentry diff can read them."""

from __future__ import annotations

import re
from decimal import Decimal

from kentry.errors import UserError
from kentry.importing.limits import imported as imported_caveat
from kentry.importing.numbers import UNITS, Group, groups
from kentry.importing.reading import Imported
from kentry.importing.text import FOREIGN_ARCHES
from kentry.model.case_name import CaseName
from kentry.model.recording import CaseResult, NoisyMetric, Recording, TimedProcess

# Of the base where only a percentage was published: 100 is no change.
_PERCENT = "percent"
_WHOLE = Decimal(100)


def recordings(imported: Imported) -> dict[str, Recording]:
    """A recording a side, by a name fit for a file; UserError where the architecture is missing."""
    if not imported.arch:
        raise UserError(
            f"{imported.document.name} does not say on which architecture it was measured.",
            "Say it with --arch.",
        )
    stateful = next((one.case for one in imported.numbers if CaseName.parse(one.case).state), "")
    if stateful and imported.arch in FOREIGN_ARCHES:
        raise UserError(
            f"{stateful} in {imported.document.name} has a vector state, which kentry does not"
            f" know of {imported.arch}.",
            "Say another architecture with --arch.",
        )
    found: dict[str, Recording] = {}
    for side in imported.sides:
        name = _unused(slug(side), found)
        found[name] = _recording(imported, side)
    return found


def slug(side: str) -> str:
    """A side's name as a file's: "Without this patchset" is without-this-patchset."""
    return re.sub(r"[^a-z0-9.]+", "-", side.lower()).strip("-.")[:60]


def _unused(name: str, taken: dict[str, Recording]) -> str:
    number = 2
    wanted = name
    while wanted in taken:
        wanted = f"{name}-{number}"
        number += 1
    return wanted


def _recording(imported: Imported, side: str) -> Recording:
    name = imported.document.name
    cases: dict[str, dict[str, NoisyMetric]] = {}
    lines: dict[str, str] = {}
    for group in groups(number for number in imported.numbers if number.side == side):
        case = group.key[0]
        cases.setdefault(case, {})[metric_name(group)] = noisy_metric(group)
        lines[case] = group.lines
    kernel = {
        "spec": f"import:{name}#{side}" if side else f"import:{name}",
        "arch": imported.arch,
        "release": "",
        "build_id": None,
        "banner": "",
        "compiler": "",
        "config_sha256": None,
        "config": None,
        "image_sha256": None,
        "symbols_from": "",
        "origin": {"kind": "import", "file": name, "side": side},
    }
    target = {"kind": "import", "emulator": "", "format": ", ".join(imported.formats)}
    return Recording(
        kernel=kernel,
        target=target,
        options={},
        code=[],
        cases=[
            CaseResult(case, {}, (), (), (), (), noisy) for case, noisy in cases.items() if noisy
        ],
        caveats=[imported_caveat(name)],
    )


def metric_name(group: Group) -> str:
    """The name in a recording: a percentage of an unpublished base has one of its own."""
    number = group.numbers[0]
    words = (number.metric, number.statistic, "of-base" if number.relative_to else "")
    return "-".join(word for word in words if word)


def noisy_metric(group: Group) -> NoisyMetric:
    """The published numbers as samples, and their median as the value."""
    first = group.numbers[0]
    values = [number.amount for number in group.numbers]
    unit = UNITS.get(first.metric) or first.unit or first.metric
    middle = group.middle
    if first.relative_to:
        values, unit, middle = [_WHOLE + value for value in values], _PERCENT, _WHOLE + middle
    count = len(values)
    return NoisyMetric(
        value=float(middle),
        unit=unit,
        samples=tuple(
            TimedProcess(0, 0, place, 0, 1, (float(value),)) for place, value in enumerate(values)
        ),
        estimator=f"median of {count} published values" if count > 1 else "one published value",
        absent=tuple(dict.fromkeys((*_absent(group, count), "kernel", "config", "interleaving"))),
    )


def _absent(group: Group, count: int) -> tuple[str, ...]:
    """What the number lacks: repeats in a text are repetitions."""
    words = group.numbers[0].absent
    return tuple(word for word in words if count == 1 or word != "repetitions")
