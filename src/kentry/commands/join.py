# SPDX-License-Identifier: GPL-2.0-or-later
"""kentry join: the counts and the times of one kernel in one recording."""

from dataclasses import dataclass
from pathlib import Path

from kentry.commands import measuring, values
from kentry.commands.emit import emit
from kentry.commands.options import TextOptions, operand, path_option
from kentry.count.joining import with_times
from kentry.results.recording import INSTRUCTIONS, read_recording, write_recording
from kentry.show.blocks import Layout

EXAMPLES = (
    "kentry record debian:6.12 -o counts.json",
    "kentry stat kvm:debian:6.12 -o times.json",
    "kentry join counts.json times.json -o both.json",
)


@dataclass(frozen=True, kw_only=True)
class Options(TextOptions):
    """What `kentry join` takes."""

    exact: Path = operand(
        type=values.path, metavar="EXACT", help="a recording with counts (kentry record)"
    )
    timed: Path = operand(
        type=values.path, metavar="TIMED", help="a recording of the same kernel with times"
    )
    output: Path = path_option("-o", "--output", required=True, help="write the recording to FILE")


def run(options: Options) -> None:
    """Reads both, joins them, writes the recording and prints which cases have which metrics."""
    measuring.check_writable(options.output)
    counted, timed = read_recording(options.exact), read_recording(options.timed)
    both = with_times(counted, timed)
    write_recording(both, options.output)
    cases: dict[str, list[str]] = {}
    for case in both.cases:
        exact = [INSTRUCTIONS] if INSTRUCTIONS in case.metrics else []
        cases.setdefault(", ".join([*exact, *case.noisy]), []).append(case.name)
    new = [caveat for caveat in both.caveats if caveat not in (*counted.caveats, *timed.caveats)]
    lines = [f"{metrics}: {', '.join(names)}" for metrics, names in cases.items()]
    emit(options, lambda: Layout("join", "", "", lines, new))
