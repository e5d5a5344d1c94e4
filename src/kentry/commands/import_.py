# SPDX-License-Identifier: GPL-2.0-or-later
"""kentry import: other tools' outputs and published numbers, checked, and as recordings."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from kentry.errors import EXIT_DONE

if TYPE_CHECKING:
    from kentry.importing.reading import Imported
    from kentry.model.recording import Recording

NAME = "import"
HELP = "numbers of other tools and of published texts, checked, and as recordings"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The command's arguments."""
    parser.add_argument(
        "files", metavar="FILE", nargs="+", type=Path, help="a tool's output, a mail, an article"
    )
    parser.add_argument(
        "-o", "--output", metavar="DIR", type=Path, help="write a recording for each side"
    )
    parser.add_argument("--json", action="store_true", help="print kentry/import/1")
    parser.add_argument(
        "--format", metavar="F", default="", help="read this format only; otherwise all are tried"
    )
    parser.add_argument(
        "--arch", metavar="A", default="", help="where it was measured, if the text does not say"
    )


def run(args: argparse.Namespace) -> int:
    """Reads, checks, writes the recordings, prints."""
    from kentry.importing.reading import import_file
    from kentry.model.recording import dump
    from kentry.report.imported import imported_text, imported_to_json

    only, arch = _format(args.format), _arch(args.arch)
    found = [import_file(file, only, arch) for file in args.files]
    written = _write(found, args.output) if args.output else []
    if args.json:
        sys.stdout.write(dump(imported_to_json(found)))
    else:
        sys.stdout.write(imported_text(found, written))
    return EXIT_DONE


def _format(name: str) -> str:
    from kentry.errors import UserError
    from kentry.importing.reading import NAMES

    if name and name not in NAMES:
        raise UserError(f"Unknown format '{name}'.", f"Formats: {', '.join(NAMES)}.")
    return name


def _arch(name: str) -> str:
    """The architecture by kentry's name; another one's by its own, since kentry need not run it."""
    from kentry.arch import find_arch
    from kentry.errors import UserError
    from kentry.importing.text import FOREIGN_ARCHES

    if not name or name in FOREIGN_ARCHES:
        return name
    try:
        return find_arch(name).name
    except UserError as err:
        raise UserError(
            err.sentence, f"{err.remedy.rstrip('.')}, {', '.join(FOREIGN_ARCHES)}."
        ) from err


def _write(found: list[Imported], folder: Path) -> list[str]:
    """Writes a recording a side of each text, or none if one cannot be made; their names."""
    from kentry.host.cache import no_space_is_an_error
    from kentry.importing.recordings import recordings, slug
    from kentry.model.recording import write_recording

    files: dict[Path, Recording] = {}
    for one in found:
        if not one.numbers:
            continue
        stem = slug(Path(one.document.name).stem)
        for name, recording in recordings(one).items():
            parts = [stem] if len(found) > 1 or not name else []
            file = folder / f"{'-'.join([*parts, *([name] if name else [])])}.json"
            number = 2
            while file in files:
                file = file.with_name(f"{file.stem}-{number}.json")
                number += 1
            files[file] = recording
    with no_space_is_an_error(folder):
        folder.mkdir(parents=True, exist_ok=True)
    for file, recording in files.items():
        write_recording(recording, file)
    return [str(file) for file in files]
