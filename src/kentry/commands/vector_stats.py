# SPDX-License-Identifier: GPL-2.0-or-later
"""kentry vector stats: what a trace says about the use of vectors."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from kentry.commands import measuring
from kentry.errors import EXIT_DONE

if TYPE_CHECKING:
    from kentry.vector.statistics import Statistics
    from kentry.vector.trace import VectorTrace

NAME = "stats"
HELP = "how a trace's tasks use vectors: traps, loads, the gaps between uses"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The command's arguments."""
    parser.add_argument("trace", metavar="TRACE", type=Path, help="a file of kentry vector trace")
    add_unit_argument(parser)
    parser.add_argument("--json", action="store_true", help="print them as JSON, every task too")
    parser.add_argument(
        "--shares", type=Path, metavar="FILE", help="a picture of the loads followed by a trap"
    )
    parser.add_argument(
        "--gaps", type=Path, metavar="FILE", help="a picture of the gaps; .svg or .png"
    )


def add_unit_argument(parser: argparse.ArgumentParser) -> None:
    """--unit, of whoever reads a trace."""
    parser.add_argument(
        "--unit",
        choices=("vec", "sme"),
        default="vec",
        help="SVE, V or AVX (vec), or arm64's SME (sme)",
    )


def run(args: argparse.Namespace) -> int:
    """Reads, counts, prints."""
    from kentry.model.recording import dump
    from kentry.report.trace import statistics_text, statistics_to_json
    from kentry.vector.statistics import statistics
    from kentry.vector.trace import read_trace

    for file in filter(None, (args.shares, args.gaps)):
        measuring.check_writable(file)
    trace, cut = read_trace(args.trace)
    found = statistics(trace, args.unit)
    _draw(args, trace, found)
    if args.json:
        sys.stdout.write(dump(statistics_to_json(trace, found, cut)))
    else:
        sys.stdout.write(statistics_text(trace, found, cut))
    return EXIT_DONE


def _draw(args: argparse.Namespace, trace: VectorTrace, found: Statistics) -> None:
    if not args.shares and not args.gaps:
        return
    from kentry.report.picture import gaps_picture, share_picture
    from kentry.vector.statistics import ENOUGH_LOADS

    workload, kernel = trace.meta["workload"]["name"], trace.meta["kernel"]["spec"]
    title = f"{workload} on {kernel}, {trace.meta['arch']}"
    if args.shares:
        share_picture(
            args.shares,
            found.shares(ENOUGH_LOADS),
            f"{title}: tasks with {ENOUGH_LOADS} loads or more",
        )
    if args.gaps:
        gaps_picture(args.gaps, found.gaps.ns, found.gaps.calls, f"{title}: gaps between uses")
