# SPDX-License-Identifier: GPL-2.0-or-later
"""kentry record: boot a kernel, measure, write a recording."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from kentry.commands import measuring
from kentry.errors import EXIT_DONE

NAME = "record"
HELP = "boot a kernel, measure it, write a recording"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The command's arguments."""
    parser.add_argument("spec", metavar="SPEC", help=measuring.SPEC_HELP)
    parser.add_argument("-o", "--output", type=Path, metavar="FILE", help="write the recording")
    parser.add_argument("--json", action="store_true", help="print the recording, not a table")
    parser.add_argument(
        "--changelog",
        action="store_true",
        help="print text for a cover letter or commit message, at most 75 columns",
    )
    measuring.add_arguments(parser)


def run(args: argparse.Namespace) -> int:
    """Measures, writes, prints."""
    from kentry.model.recording import dump, to_json, write_recording
    from kentry.report.changelog import recording_changelog
    from kentry.report.text import recording_table

    if args.output:
        measuring.check_writable(args.output)
    recording = measuring.record(args.spec, args)
    if args.json:
        sys.stdout.write(dump(to_json(recording)))
    elif args.changelog:
        sys.stdout.write(recording_changelog(recording))
    else:
        sys.stdout.write(recording_table(recording, args.preset))
    if args.output:
        write_recording(recording, args.output)
    return EXIT_DONE
