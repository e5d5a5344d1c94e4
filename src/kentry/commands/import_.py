# SPDX-License-Identifier: GPL-2.0-or-later
"""kentry import: other tools' output and plain tables, checked, and as recordings."""

import re
from dataclasses import dataclass
from pathlib import Path

from kentry.commands import values
from kentry.commands.emit import emit
from kentry.commands.options import ResultOptions, operand, option, path_option
from kentry.host.cache import no_space_is_an_error
from kentry.importing.import_file import arch_name, import_file, recordings
from kentry.results.recording import Recording, write_recording
from kentry.show.imported import imported_layout, imported_to_json

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
    output: Path | None = path_option("-o", "--output DIR", help="write a recording for each side")
    arch: str = option(
        "--arch ARCH", default="", help="the architecture it was measured on; -o needs it"
    )


def run(options: Options) -> None:
    """Reads the files, writes a recording for each side of each, or none if one cannot be made."""
    arch = arch_name(options.arch)
    files = [import_file(file, arch) for file in options.files]
    outputs: dict[Path, Recording] = {}
    if options.output:
        for imported in files:
            for side, recording in recordings(imported):
                parts = [Path(imported.name).stem] if len(files) > 1 or not _file_name(side) else []
                name = "-".join(filter(None, map(_file_name, (*parts, side))))
                file, number = options.output / f"{name}.json", 2
                while file in outputs:
                    file, number = options.output / f"{name}-{number}.json", number + 1
                outputs[file] = recording
        with no_space_is_an_error(options.output):
            options.output.mkdir(parents=True, exist_ok=True)
    for file, recording in outputs.items():
        write_recording(recording, file)
    emit(
        options,
        lambda: imported_layout(files, [str(file) for file in outputs]),
        lambda: imported_to_json(files),
    )


def _file_name(text: str) -> str:
    """Returns a side's name as a file's: "Without this patchset" is without-this-patchset."""
    return re.sub(r"[^a-z0-9.]+", "-", text.lower()).strip("-.")[:60]
