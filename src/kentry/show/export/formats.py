# SPDX-License-Identifier: GPL-2.0-or-later
"""Which formats there are, and the files that each of them takes."""

from collections.abc import Callable, Sequence
from pathlib import Path

from kentry.errors import UserError, did_you_mean
from kentry.results.comparison import read_comparison
from kentry.results.recording import Recording, read_recording
from kentry.show.export import benchfmt, csv, folded, ktap, perf_script, speedscope
from kentry.show.export.common import Export

# The formats of profilers, which hold paths: what makes them of recordings, and of how many.
_OF_PATHS: dict[str, tuple[Callable[[Sequence[Recording]], Export], int | None]] = {
    "folded": (folded.export, 2),
    "speedscope": (speedscope.export, None),
    "perf-script": (perf_script.export, 1),
}
FORMATS = ("benchfmt", "ktap", "csv", *_OF_PATHS)
# Formats of older versions, and what to use in their place.
_REMOVED = {
    "callgrind": "Use --format folded for flamegraph.pl or --format speedscope.",
    "pprof": "Use --format folded for flamegraph.pl or --format speedscope.",
    "perfetto": "Use --format speedscope; the Firefox Profiler reads --format perf-script.",
}


def export_files(files: Sequence[Path], name: str) -> Export:
    """Read the files and write them in that format.

    RecordingError and UserError as the files are read; UserError if there is no such format.
    """
    if name in _REMOVED:
        raise UserError(f"kentry no longer writes the format {name}.", _REMOVED[name])
    if name not in FORMATS:
        meant = did_you_mean(name, FORMATS)
        raise UserError(f"Unknown format '{name}'.{meant}", f"Formats: {', '.join(FORMATS)}.")
    # KTAP has a place for verdicts, so it takes comparisons too.
    if name == "ktap":
        return ktap.export([read_comparison(file) or read_recording(file) for file in files])
    recordings = []
    for file in files:
        # A pipe can be read once.
        if file.is_file() and read_comparison(file):
            raise UserError(
                f"{file} is a comparison, and {name} has no place for verdicts.",
                "Name the two recordings, or use --format ktap.",
            )
        recordings.append(read_recording(file))
    if name in _OF_PATHS:
        export, most = _OF_PATHS[name]
        if most and len(recordings) > most:
            raise UserError(
                f"{name} holds {'one recording' if most == 1 else 'two recordings at most'},"
                f" and {len(recordings)} were named.",
                "Export them one by one, or with --format speedscope.",
            )
        return export(recordings)
    return benchfmt.export(recordings) if name == "benchfmt" else csv.export(recordings)
