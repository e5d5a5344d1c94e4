# SPDX-License-Identifier: GPL-2.0-or-later
"""kentry import: other tools' output and plain tables, checked, and as recordings."""

from __future__ import annotations

import re
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from kentry.commands import values
from kentry.commands.options import ResultOptions, operand, option
from kentry.errors import EXIT_DONE

if TYPE_CHECKING:
    from kentry.importing.import_file import Imported
    from kentry.model.recording import Recording

EXAMPLES = (
    "kentry import lat_syscall.txt",
    "kentry import docs/cases/ia64-syscall-series.csv",
    "kentry import before-and-after.md --arch arm64 -o old",
)


@dataclass(frozen=True, kw_only=True)
class Options(ResultOptions):
    """What `kentry import` takes."""

    files: tuple[Path, ...] = operand(
        nargs="+", type=values.path, metavar="FILE", help="a tool's output, or a table"
    )
    output: Path | None = option(
        "-o", "--output", type=values.path, metavar="DIR", help="write a recording for each side"
    )
    arch: str = option(
        "--arch",
        default="",
        metavar="ARCH",
        help="the architecture it was measured on; -o needs it",
    )


def run(options: Options) -> int:
    """Reads the files, writes the recordings and prints the numbers."""
    from kentry.importing.import_file import import_file
    from kentry.importing.recordings import arch_name
    from kentry.model.document import dump
    from kentry.report.imported import imported_text, imported_to_json

    arch = arch_name(options.arch)
    files = [import_file(file, arch) for file in options.files]
    written = _write(files, options.output) if options.output else []
    text = dump(imported_to_json(files)) if options.json else imported_text(files, written)
    sys.stdout.write(text)
    return EXIT_DONE


def _write(files: Sequence[Imported], folder: Path) -> list[str]:
    """Writes a recording for each side of each file, or none if one cannot be made; their names."""
    from kentry.host.cache import no_space_is_an_error
    from kentry.importing.recordings import recordings
    from kentry.model.recording import write_recording

    outputs: dict[Path, Recording] = {}
    for one in files:
        for side, recording in recordings(one):
            parts = [Path(one.name).stem] if len(files) > 1 or not _file_name(side) else []
            name = "-".join(filter(None, map(_file_name, (*parts, side))))
            output, number = folder / f"{name}.json", 2
            while output in outputs:
                output, number = folder / f"{name}-{number}.json", number + 1
            outputs[output] = recording
    with no_space_is_an_error(folder):
        folder.mkdir(parents=True, exist_ok=True)
    for output, recording in outputs.items():
        write_recording(recording, output)
    return [str(output) for output in outputs]


def _file_name(text: str) -> str:
    """A side's name as a file's: "Without this patchset" is without-this-patchset."""
    return re.sub(r"[^a-z0-9.]+", "-", text.lower()).strip("-.")[:60]
