# SPDX-License-Identifier: GPL-2.0-or-later
"""kentry join: the counts and the times of one kernel in one recording."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from kentry.commands import measuring
from kentry.errors import EXIT_DONE

if TYPE_CHECKING:
    from collections.abc import Iterator

    from kentry.model.recording import Recording

NAME = "join"
HELP = "put the counts and the times of one kernel into one recording"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The command's arguments."""
    parser.add_argument(
        "exact", type=Path, metavar="EXACT", help="a recording with counts (kentry record)"
    )
    parser.add_argument(
        "timed", type=Path, metavar="TIMED", help="a recording of the same kernel with times"
    )
    parser.add_argument(
        "-o", "--output", type=Path, metavar="FILE", required=True, help="write the recording"
    )
    parser.add_argument("--json", action="store_true", help="print the recording, too")


def run(args: argparse.Namespace) -> int:
    """Reads both, joins, writes."""
    from kentry.measure.joining import with_times
    from kentry.model.recording import dump, read_recording, to_json, write_recording
    from kentry.report.text import caveat_lines

    measuring.check_writable(args.output)
    counted, timed = read_recording(args.exact), read_recording(args.timed)
    both = with_times(counted, timed)
    write_recording(both, args.output)
    if args.json:
        sys.stdout.write(dump(to_json(both)))
    else:
        known = (*counted.caveats, *timed.caveats)
        new = [caveat for caveat in both.caveats if caveat not in known]
        lines = [*_summary(both), *(caveat_lines(new) if new else ())]
        sys.stdout.write("\n".join(lines) + "\n")
    return EXIT_DONE


def _summary(recording: Recording) -> Iterator[str]:
    """The cases by the metrics they have."""
    from kentry.model.recording import INSTRUCTIONS

    found: dict[str, list[str]] = {}
    for case in recording.cases:
        exact = [INSTRUCTIONS] if INSTRUCTIONS in case.metrics else []
        found.setdefault(", ".join([*exact, *case.noisy]), []).append(case.name)
    for metrics, names in found.items():
        yield f"{metrics}: {', '.join(names)}"
