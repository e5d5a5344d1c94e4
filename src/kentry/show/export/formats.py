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
from kentry.show.export.profiles import folded, speedscope

_SAMPLES = "kernel,arch,case,metric,unit,build,boot,group,slot,calls,block,value,times"


def csv_samples(recordings: Sequence[Recording]) -> Export:
    """Write CSV as in RFC 4180, a row a sample; those of the clock alone are of METRIC-empty."""
    text = io.StringIO(newline="")
    writer = csv.writer(text)
    writer.writerow(_SAMPLES.split(","))
    for recording in recordings:
        for row in (row for case in recording.cases for row in _rows(recording, case)):
            writer.writerow([_cell(one) if isinstance(one, str) else one for one in row])
    return Export(text.getvalue())


def _cell(text: str) -> str:
    # A spreadsheet would compute what begins so, and a name in a recording may be of anyone.
    return ("'" if text.startswith(("=", "+", "-", "@")) else "") + printable(text)


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
    for metric, noisy in case.noisy.items():
        for process in noisy.samples:
            origin = (process.build, process.boot, process.group, process.slot, process.calls)
            for name, values in ((metric, process.values), (f"{metric}-empty", process.empties)):
                for block, taken in enumerate(values):
                    yield (*side, name, noisy.unit, *origin, block, taken, 1)


# What makes the formats of recordings.
_MAKERS: dict[str, Callable[[Sequence[Recording]], Export]] = {
    "benchfmt": benchfmt,
    "csv": csv_samples,
    "folded": folded,
    "speedscope": speedscope,
}
FORMATS = ("benchfmt", "ktap", "csv", "folded", "speedscope")


def export_files(files: Sequence[Path], name: str) -> Export:
    """Read the files and write them in that format; UserError if there is no such format."""
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
    if name == "folded" and len(recordings) > 2:
        raise UserError(
            f"folded holds two recordings at most, and {len(recordings)} were named.",
            "Export them one by one, or with --format speedscope.",
        )
    return _MAKERS[name](recordings)
