# SPDX-License-Identifier: GPL-2.0-or-later
"""kentry import: other tools' output and plain tables, checked, and as recordings."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from kentry.errors import EXIT_DONE

if TYPE_CHECKING:
    from kentry.importing.import_file import Imported
    from kentry.model.recording import Recording

NAME = "import"
HELP = "numbers of other tools and of plain tables, checked, and as recordings"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The command's arguments."""
    parser.add_argument(
        "files", metavar="FILE", nargs="+", type=Path, help="a tool's output, or a table"
    )
    parser.add_argument(
        "-o", "--output", metavar="DIR", type=Path, help="write a recording for each side"
    )
    parser.add_argument("--json", action="store_true", help="print kentry/import/1")
    parser.add_argument(
        "--arch", metavar="A", default="", help="the architecture it was measured on, for -o"
    )


def run(args: argparse.Namespace) -> int:
    """Reads, checks, writes the recordings, prints."""
    from kentry.importing.import_file import import_file
    from kentry.importing.recordings import arch_name
    from kentry.model.recording import dump
    from kentry.report.imported import imported_text, imported_to_json

    arch = arch_name(args.arch)
    files = [import_file(file, arch) for file in args.files]
    written = _write(files, args.output) if args.output else []
    sys.stdout.write(dump(imported_to_json(files)) if args.json else imported_text(files, written))
    return EXIT_DONE


def _write(files: Sequence[Imported], folder: Path) -> list[str]:
    """Writes a recording for each side of each file, or none if one cannot be made; their names."""
    from kentry.host.cache import no_space_is_an_error
    from kentry.importing.recordings import recordings, slug
    from kentry.model.recording import write_recording

    outputs: dict[Path, Recording] = {}
    for one in files:
        stem = slug(Path(one.name).stem)
        for name, recording in recordings(one).items():
            parts = [stem] if len(files) > 1 or not name else []
            base = "-".join([*parts, *([name] if name else [])])
            output, number = folder / f"{base}.json", 2
            while output in outputs:
                output = folder / f"{base}-{number}.json"
                number += 1
            outputs[output] = recording
    with no_space_is_an_error(folder):
        folder.mkdir(parents=True, exist_ok=True)
    for output, recording in outputs.items():
        write_recording(recording, output)
    return [str(output) for output in outputs]
