# SPDX-License-Identifier: GPL-2.0-or-later
"""A file -> the numbers that each reader finds in it -> a recording for each side."""

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import chain
from pathlib import Path

from kentry.arch import ARCHES, find_arch
from kentry.errors import UserError
from kentry.importing.published import Number, parse_text, samples
from kentry.importing.readers import FORMATS
from kentry.results.case_name import CaseName
from kentry.results.caveats import imported as imported_caveat
from kentry.results.recording import CaseResult, NoisyMetric, Recording

# Architectures that kentry does not run, by the kernel's names.
FOREIGN_ARCHES = ("ia64", "powerpc", "loongarch64", "s390x")
_MOST_BYTES = 8 << 20


@dataclass(frozen=True)
class Imported:
    """What was read from the file `name`; `arch` is "" where the user named none."""

    name: str
    arch: str
    formats: tuple[str, ...]
    numbers: tuple[Number, ...]


def import_file(file: Path, arch: str = "") -> Imported:
    """Read every number in a file; UserError where no reader finds any."""
    try:
        with file.open("rb") as stream:
            data = stream.read(_MOST_BYTES + 1)
    except OSError as err:
        raise UserError(
            f"{file} cannot be read: {err.strerror}.", "Name a file with a tool's output."
        ) from err
    if len(data) > _MOST_BYTES:
        raise UserError(
            f"{file} has more than {_MOST_BYTES >> 20} MiB.", "Cut out the part with the numbers."
        )
    if b"\0" in data:
        raise UserError(f"{file} is not text.", "Name a file with a tool's output.")
    return import_text(data.decode("utf-8-sig", "replace"), file.name, arch)


def import_text(content: str, name: str, arch: str = "") -> Imported:
    """Read every number in a text; UserError where no reader finds any."""
    text = parse_text(name, content)
    by_format = {form: numbers for form, read in FORMATS.items() if (numbers := list(read(text)))}
    if not by_format:
        raise UserError(
            f"{name} has no numbers in a format that kentry reads.",
            f"It reads {', '.join(FORMATS)}. docs/howto/import.md shows how to write a table.",
        )
    merged = sorted(chain.from_iterable(by_format.values()), key=lambda number: number.line)
    if wrong := next((number for number in merged if not number.is_plausible), None):
        raise UserError(
            f"Line {wrong.line} of {name} has '{wrong.published[:40]}' in place of a number.",
            "Correct it, or cut the line out.",
        )
    return Imported(name, arch, tuple(by_format), tuple(merged))


def arch_name(name: str) -> str:
    """Return the name of an architecture for a recording; UserError where it is unknown."""
    if not name or name in FOREIGN_ARCHES:
        return name
    try:
        return find_arch(name).name
    except UserError as err:
        names = ", ".join((*ARCHES, *FOREIGN_ARCHES))
        raise UserError(err.sentence, f"Use one of: {names}.") from err


def recordings(imported: Imported) -> Iterator[tuple[str, Recording]]:
    """Make a recording of each side.

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
        results = [CaseResult(case, {}, (), (), (), noisy=noisy) for case, noisy in cases.items()]
        yield (
            side,
            Recording(
                kernel=kernel,
                target=target,
                options={},
                caveats=[imported_caveat(name)],
                cases=results,
                code=[],
            ),
        )
