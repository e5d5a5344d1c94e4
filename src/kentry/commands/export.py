# SPDX-License-Identifier: GPL-2.0-or-later
"""kentry export: recordings as Go benchmarks, KTAP or CSV."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from kentry.commands import measuring
from kentry.errors import EXIT_DONE

NAME = "export"
HELP = "write recordings as Go benchmarks, KTAP or CSV"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The command's arguments."""
    parser.add_argument(
        "files",
        metavar="FILE",
        nargs="+",
        type=Path,
        help="a recording; for ktap, or the JSON of kentry diff",
    )
    parser.add_argument(
        "--format",
        metavar="F",
        required=True,
        help="benchfmt, ktap or csv",
    )
    parser.add_argument(
        "--summary", action="store_true", help="csv: a row a case and metric, not a row a sample"
    )
    parser.add_argument(
        "-o", "--output", type=Path, metavar="FILE", help="write there instead of standard output"
    )


def run(args: argparse.Namespace) -> int:
    """Reads all, then writes; what the format has no place for is said beside it."""
    from kentry.host.cache import write_atomically
    from kentry.report.export.formats import check_format, export_files

    check_format(args.format, summary=args.summary)
    if args.output:
        measuring.check_writable(args.output)
    found = export_files(args.files, args.format, summary=args.summary)
    for note in found.notes:
        print(f"kentry: {note}", file=sys.stderr)
    if args.output:
        write_atomically(args.output, found.text)
    else:
        sys.stdout.write(found.text)
    return EXIT_DONE
