# SPDX-License-Identifier: GPL-2.0-or-later
"""Which formats there are, the files that each of them takes, and the plainest: CSV."""

import csv
import io
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from kentry.errors import UserError, did_you_mean
from kentry.results.comparison import read_comparison
from kentry.results.recording import CaseResult, Recording, read_recording
from kentry.show.export.benchfmt import benchfmt
from kentry.show.export.ci import ktap
from kentry.show.export.common import Export, printable
from kentry.show.export.profiles import folded, perf_script, speedscope

_SAMPLES = "kernel,arch,case,metric,unit,build,boot,group,slot,calls,block,value,times"


def csv_samples(recordings: Sequence[Recording]) -> Export:
    """Write CSV as in RFC 4180, a row a sample; those of the clock alone are of METRIC-empty."""
    text = io.StringIO(newline="")
    writer = csv.writer(text)
    writer.writerow(_SAMPLES.split(","))
    for recording in recordings:
        for row in (row for case in recording.cases for row in _rows(recording, case)):
            writer.writerow([printable(one) if isinstance(one, str) else one for one in row])
    return Export(text.getvalue())


def _rows(recording: Recording, case: CaseResult) -> Iterator[Sequence[object]]:
    side = (recording.kernel["spec"], recording.kernel["arch"], case.name)
    # A row a value of a count, with the windows that had it: these have no process.
    none = (None, None, None, None)
    for metric, count in case.metrics.items():
        # The unit of most exact metrics is what their name begins with.
        unit = metric.partition(".")[0]
        if unit not in ("lines", "pages", "bytes", "fetches", "functions"):
            unit = "bytes" if metric.endswith(".bytes") else "instructions"
        for value, times in count.samples:
            yield (*side, metric, unit, *none, case.parsed.calls, None, value, times)
    # A row a block, in the order of the process.
    for metric, one in case.noisy.items():
        for process in one.samples:
            place = (process.build, process.boot, process.group, process.slot, process.calls)
            for name, values in ((metric, process.values), (f"{metric}-empty", process.empties)):
                for block, taken in enumerate(values):
                    yield (*side, name, one.unit, *place, block, taken, 1)


# What makes the formats of recordings, and of how many at most.
_MAKERS: dict[str, tuple[Callable[[Sequence[Recording]], Export], int | None]] = {
    "benchfmt": (benchfmt, None),
    "csv": (csv_samples, None),
    "folded": (folded, 2),
    "speedscope": (speedscope, None),
    "perf-script": (perf_script, 1),
}
FORMATS = ("benchfmt", "ktap", "csv", "folded", "speedscope", "perf-script")
# Formats of older versions, and what to use in their place.
_REMOVED = {
    "callgrind": "Use --format folded for flamegraph.pl or --format speedscope.",
    "pprof": "Use --format folded for flamegraph.pl or --format speedscope.",
    "perfetto": "Use --format speedscope; the Firefox Profiler reads --format perf-script.",
}


def export_files(files: Sequence[Path], name: str) -> Export:
    """Read the files and write them in that format; UserError if there is no such format."""
    if name in _REMOVED:
        raise UserError(f"kentry no longer writes the format {name}.", _REMOVED[name])
    if name not in FORMATS:
        meant = did_you_mean(name, FORMATS)
        raise UserError(f"Unknown format '{name}'.{meant}", f"Formats: {', '.join(FORMATS)}.")
    # KTAP has a place for verdicts, so it takes comparisons too.
    if name == "ktap":
        return ktap([read_comparison(file) or read_recording(file) for file in files])
    recordings = []
    for file in files:
        # A pipe can be read once.
        if file.is_file() and read_comparison(file):
            raise UserError(
                f"{file} is a comparison, and {name} has no place for verdicts.",
                "Name the two recordings, or use --format ktap.",
            )
        recordings.append(read_recording(file))
    export, most = _MAKERS[name]
    if most and len(recordings) > most:
        raise UserError(
            f"{name} holds {'one recording' if most == 1 else 'two recordings at most'},"
            f" and {len(recordings)} were named.",
            "Export them one by one, or with --format speedscope.",
        )
    return export(recordings)
