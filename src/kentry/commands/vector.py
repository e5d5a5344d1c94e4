# SPDX-License-Identifier: GPL-2.0-or-later
"""kentry vector: trace a workload, look at the trace, replay policies on it, measure costs."""

from __future__ import annotations

import argparse

from kentry.commands import vector_costs, vector_replay, vector_stats, vector_trace

NAME = "vector"
HELP = "what the policy for vector state costs a workload: trace, replay, stats, costs"

_COMMANDS = (vector_trace, vector_replay, vector_stats, vector_costs)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The commands below this one."""
    commands = parser.add_subparsers(metavar="COMMAND", required=True)
    for command in _COMMANDS:
        sub = commands.add_parser(command.NAME, help=command.HELP, description=command.HELP)
        # Where they stand is a matter of taste; what was said before the name holds behind it.
        for flags, text in (
            (("-v", "--verbose"), "print every command line that is run"),
            (("-q", "--quiet"), "show no progress"),
        ):
            sub.add_argument(*flags, action="store_true", default=argparse.SUPPRESS, help=text)
        command.add_arguments(sub)
        sub.set_defaults(run_vector=command.run)


def run(args: argparse.Namespace) -> int:
    """Runs the one that was named."""
    code: int = args.run_vector(args)
    return code
