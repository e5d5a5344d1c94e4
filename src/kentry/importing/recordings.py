# SPDX-License-Identifier: GPL-2.0-or-later
"""Imported numbers as recordings, one a side, so that kentry diff can read them."""

from collections.abc import Iterator

from kentry.arch import ARCHES, find_arch
from kentry.errors import UserError
from kentry.importing.import_file import Imported
from kentry.importing.published import samples
from kentry.model.case_name import CaseName
from kentry.model.caveats import imported as imported_caveat
from kentry.model.recording import CaseResult, NoisyMetric, Recording

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


def recordings(imported: Imported) -> Iterator[tuple[str, Recording]]:
    """Each side with its recording.

    UserError where the architecture is missing, or has no vector state and a case names one.
    """
    name, arch = imported.name, imported.arch
    if not arch:
        raise UserError(
            f"{name} does not say on which architecture it was measured.", "Say it with --arch."
        )
    for number in imported.numbers:
        if arch in FOREIGN_ARCHES and CaseName.parse(number.case).state:
            raise UserError(
                f"{number.case} in {name} has a vector state; kentry knows none of {arch}.",
                "Name another architecture with --arch.",
            )
    for side in dict.fromkeys(number.side for number in imported.numbers):
        cases: dict[str, dict[str, NoisyMetric]] = {}
        for group in samples(number for number in imported.numbers if number.side == side):
            cases.setdefault(group.first.case, {})[group.first.metric] = group.noisy_metric()
        kernel = {
            "spec": f"import:{name}#{side}" if side else f"import:{name}",
            "arch": arch,
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
        results = [CaseResult(case, {}, (), (), (), (), noisy) for case, noisy in cases.items()]
        yield side, Recording(kernel, target, {}, [], results, [imported_caveat(name)])
