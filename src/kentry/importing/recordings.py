# SPDX-License-Identifier: GPL-2.0-or-later
"""Imported numbers as recordings, one a side, so that kentry diff can read them."""

from __future__ import annotations

from decimal import Decimal

from kentry.arch import ARCHES, find_arch
from kentry.errors import UserError
from kentry.importing.import_file import Imported
from kentry.importing.published import (
    ALL_INSTRUCTIONS,
    CYCLES,
    NS,
    OPS,
    REPETITIONS,
    Samples,
    samples,
)
from kentry.model.case_name import CaseName
from kentry.model.caveats import imported as imported_caveat
from kentry.model.recording import CaseResult, NoisyMetric, Recording, TimedProcess

# The units of metrics that are published in others, such as us and lps.
_UNITS = {NS: "ns", CYCLES: "cycles", OPS: "ops/s", ALL_INSTRUCTIONS: "instructions"}

# Architectures that kentry does not run, by the kernel's names.
FOREIGN_ARCHES = ("ia64", "powerpc", "loongarch64", "s390x")


def arch_name(name: str) -> str:
    """The name of an architecture for a recording; UserError where it is unknown."""
    if not name or name in FOREIGN_ARCHES:
        return name
    try:
        return find_arch(name).name
    except UserError as err:
        names = ", ".join((*ARCHES, *FOREIGN_ARCHES))
        raise UserError(err.sentence, f"Use one of: {names}.") from err


def recordings(imported: Imported) -> list[tuple[str, Recording]]:
    """Each side with its recording.

    UserError where the architecture is missing, or has no vector state and a case names one.
    """
    if not imported.arch:
        raise UserError(
            f"{imported.name} does not say on which architecture it was measured.",
            "Say it with --arch.",
        )
    stateful = next((one.case for one in imported.numbers if CaseName.parse(one.case).state), "")
    if stateful and imported.arch in FOREIGN_ARCHES:
        raise UserError(
            f"{stateful} in {imported.name} has a vector state, which kentry does not know of"
            f" {imported.arch}.",
            "Name another architecture with --arch.",
        )
    sides = dict.fromkeys(number.side for number in imported.numbers)
    return [(side, _recording(imported, side)) for side in sides]


def _recording(imported: Imported, side: str) -> Recording:
    cases: dict[str, dict[str, NoisyMetric]] = {}
    for group in samples(number for number in imported.numbers if number.side == side):
        cases.setdefault(group.first.case, {})[group.first.metric] = _noisy_metric(group)
    kernel = {
        "spec": f"import:{imported.name}#{side}" if side else f"import:{imported.name}",
        "arch": imported.arch,
        "release": "",
        "build_id": None,
        "banner": "",
        "compiler": "",
        "config_sha256": None,
        "config": None,
        "image_sha256": None,
        "symbols_from": "",
        "origin": {"kind": "import", "file": imported.name, "side": side},
    }
    return Recording(
        kernel=kernel,
        target={"kind": "import", "emulator": "", "format": ", ".join(imported.formats)},
        options={},
        code=[],
        cases=[CaseResult(case, {}, (), (), (), (), noisy) for case, noisy in cases.items()],
        caveats=[imported_caveat(imported.name)],
    )


def _noisy_metric(group: Samples) -> NoisyMetric:
    """The numbers as samples and their median; a percentage of a base is 100 + that, "percent"."""
    first, count = group.first, len(group.numbers)
    metric = OPS if first.metric.startswith(f"{OPS}-") else first.metric
    unit, base = _UNITS.get(metric) or first.unit or metric, Decimal(0)
    if first.percent_of:
        unit, base = "percent", Decimal(100)
    # Repeats in one file are repetitions.
    lacks = [word for word in first.lacks if count == 1 or word != REPETITIONS]
    return NoisyMetric(
        value=float(base + group.middle),
        unit=unit,
        samples=tuple(
            TimedProcess(0, 0, place, 0, 1, (float(base + number.amount),), 0)
            for place, number in enumerate(group.numbers)
        ),
        estimator=f"median of {count} published values" if count > 1 else "one published value",
        absent=("interval", *lacks, "kernel", "config", "interleaving"),
    )
