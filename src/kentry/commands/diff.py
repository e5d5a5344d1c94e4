# SPDX-License-Identifier: GPL-2.0-or-later
"""kentry diff: two kernels or recordings, the verdict first, then functions that add up."""

from __future__ import annotations

import argparse
import sys
from typing import TYPE_CHECKING

from kentry.commands import measuring
from kentry.errors import EXIT_DONE, EXIT_REGRESSION, EXIT_UNDECIDED, UserError

if TYPE_CHECKING:
    from kentry.compare.counted import Comparison
    from kentry.model.recording import Recording

NAME = "diff"
HELP = "compare two kernels or recordings, function by function"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The command's arguments."""
    what = f"a recording, or a kernel: {measuring.SPEC_HELP}"
    parser.add_argument("old", metavar="OLD", help=what)
    parser.add_argument("new", metavar="NEW", help="likewise")
    parser.add_argument("--json", action="store_true", help="print kentry/comparison/1")
    parser.add_argument(
        "--changelog",
        action="store_true",
        help="print text for a commit message, at most 75 columns",
    )
    parser.add_argument(
        "--functions", choices=("some", "all"), default="some", help="how many rows a table"
    )
    parser.add_argument(
        "--fail-on-regression",
        action="store_true",
        help="exit with 1 if a case is worse, 3 if one is undecided or was lost",
    )
    parser.add_argument(
        "--fresh", action="store_true", help="measure again even what is in the cache"
    )
    measuring.add_arguments(parser)


def run(args: argparse.Namespace) -> int:
    """Obtains both sides, compares, prints."""
    from kentry.compare.counted import compare, to_json
    from kentry.model.recording import dump
    from kentry.report.changelog import comparison_changelog
    from kentry.report.text import FUNCTIONS_SHOWN, comparison_text

    sides = {}
    # A file first: what a pattern stands for in it is what the other side is measured for.
    for text in sorted((args.old, args.new), key=measuring.is_spec):
        sides[text] = measuring.obtain(text, args)
        if not measuring.is_spec(text):
            measuring.as_in_file(sides[text], args)
            if measuring.is_spec(args.old) or measuring.is_spec(args.new):
                _check_counts(text, sides[text])
    old, new = sides[args.old], sides[args.new]
    names = measuring.asked_for((args.old, args.new), (old, new), args)
    comparison = compare(old, new, names)
    if args.json:
        sys.stdout.write(dump(to_json(comparison)))
    elif args.changelog:
        sys.stdout.write(comparison_changelog(comparison))
    else:
        shown = FUNCTIONS_SHOWN if args.functions == "some" else None
        sys.stdout.write(comparison_text(comparison, shown))
    return _exit_code(comparison) if args.fail_on_regression else EXIT_DONE


def _check_counts(file: str, recording: Recording) -> None:
    """Says before a kernel is booted to count that there is no count to compare with."""
    from kentry.model.recording import INSTRUCTIONS

    if not any(INSTRUCTIONS in case.metrics for case in recording.cases):
        raise UserError(
            f"{file} has times only, and kentry diff would count the instructions of a spec.",
            "Name two recordings with times; kentry stat --compare measures two kernels in turns.",
        )


def _exit_code(comparison: Comparison) -> int:
    """Of counts and times; a time that changed where the code did not decides nothing."""
    from kentry.stats import exact

    verdicts = {case.verdict for case in comparison.cases}
    verdicts |= {exact.UNDECIDED if row.is_layout else row.verdict for row in comparison.timed}
    if exact.WORSE in verdicts:
        return EXIT_REGRESSION
    undecided = exact.UNDECIDED in verdicts or comparison.lost
    return EXIT_UNDECIDED if undecided else EXIT_DONE
