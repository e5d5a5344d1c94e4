# SPDX-License-Identifier: GPL-2.0-or-later
"""Which formats there are, and the files that each of them takes."""

from collections.abc import Callable, Sequence
from pathlib import Path

from kentry.errors import UserError, did_you_mean
from kentry.results.comparison import read_comparison
from kentry.results.recording import Recording, read_recording
from kentry.show.export.benchfmt import benchfmt
from kentry.show.export.ci import ktap
from kentry.show.export.common import Export
from kentry.show.export.profiles import folded, speedscope

# What makes the formats of recordings.
_MAKERS: dict[str, Callable[[Sequence[Recording]], Export]] = {
    "benchfmt": benchfmt,
    "folded": folded,
    "speedscope": speedscope,
}
FORMATS = ("benchfmt", "ktap", "folded", "speedscope")


def export_files(files: Sequence[Path], name: str) -> Export:
    """Read the files and write them in that format; UserError if there is no such format."""
    if name not in FORMATS:
        meant = did_you_mean(name, FORMATS)
        raise UserError(f"Unknown format '{name}'.{meant}", f"Formats: {', '.join(FORMATS)}.")
    if name == "ktap":
        comparison = read_comparison(files[0]) if len(files) == 1 else None
        if comparison is None:
            raise UserError(
                "KTAP is made of the verdicts of one comparison.",
                "Name what kentry diff --json or kentry stat --compare --json printed.",
            )
        return ktap(comparison)
    recordings = []
    for file in files:
        # A pipe can be read once.
        if file.is_file() and read_comparison(file):
            raise UserError(
                f"{file} is a comparison, and {name} has no place for verdicts.",
                "Name the two recordings, or use --format ktap.",
            )
        recordings.append(read_recording(file))
    if name == "folded" and len(recordings) > 2:
        raise UserError(
            f"folded holds two recordings at most, and {len(recordings)} were named.",
            "Export them one by one, or with --format speedscope.",
        )
    return _MAKERS[name](recordings)
