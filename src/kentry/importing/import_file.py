# SPDX-License-Identifier: GPL-2.0-or-later
"""A file -> the numbers that each reader finds in it."""

from dataclasses import dataclass
from itertools import chain
from pathlib import Path

from kentry.errors import UserError
from kentry.importing import benchmarks, lkp, perf, plain_table
from kentry.importing.published import Number, Text

# A report of LKP with every metric has 60 KB.
_MOST_BYTES = 8 << 20

FORMATS = {
    "lat_syscall": benchmarks.read_lat_syscall,
    "fp-pidbench": benchmarks.read_fp_pidbench,
    "unixbench": benchmarks.read_unixbench,
    "will-it-scale": benchmarks.read_will_it_scale,
    "lkp": lkp.read,
    "perf-stat": perf.read_stat,
    "perf-bench": perf.read_bench,
    "table": plain_table.read,
}


@dataclass(frozen=True)
class Imported:
    """What was read from the file `name`; `arch` is "" where the user named none."""

    name: str
    arch: str
    formats: tuple[str, ...]
    numbers: tuple[Number, ...]


def import_file(file: Path, arch: str = "") -> Imported:
    """Every number in a file; UserError where no reader finds any."""
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
    """Every number in a text; UserError where no reader finds any."""
    text = Text.parse(name, content)
    numbers = {format_name: list(read(text)) for format_name, read in FORMATS.items()}
    formats = tuple(format_name for format_name in FORMATS if numbers[format_name])
    if not formats:
        raise UserError(
            f"{name} has no numbers in a format that kentry reads.",
            f"It reads {', '.join(FORMATS)}.",
        )
    merged = sorted(chain.from_iterable(numbers.values()), key=lambda number: number.line)
    if wrong := next((number for number in merged if not number.is_plausible), None):
        raise UserError(
            f"Line {wrong.line} of {name} has '{wrong.published[:40]}' in place of a number.",
            "Correct it, or cut the line out.",
        )
    return Imported(name, arch, formats, tuple(merged))
