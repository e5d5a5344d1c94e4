# SPDX-License-Identifier: GPL-2.0-or-later
"""kentry vector replay: what each policy would have cost the workloads of traces."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from kentry.commands import measuring
from kentry.commands.vector_stats import add_unit_argument
from kentry.errors import EXIT_DONE, UserError

if TYPE_CHECKING:
    from kentry.vector.costs import CostTable
    from kentry.vector.policies import Policy
    from kentry.vector.ranking import Ranking, Swept, Traced

NAME = "replay"
HELP = "what each policy would have cost a trace's workload, and which value is best"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The command's arguments."""
    parser.add_argument(
        "traces", metavar="TRACE", nargs="+", type=Path, help="files of kentry vector trace"
    )
    parser.add_argument(
        "--policy",
        action="append",
        default=[],
        metavar="POLICY,...",
        help="such as drop-on-load or timeout-entry:10ms; all that fit, by default",
    )
    parser.add_argument(
        "--costs",
        metavar="FILE",
        help="a cost table's file or name (the counted one of the trace's vector length)",
    )
    parser.add_argument(
        "--closed-loop",
        type=Path,
        metavar="TRACE",
        help="a trace of the same workload on a kernel that has another policy: what replay says"
        " of that policy beside what was seen",
    )
    parser.add_argument(
        "--sweep",
        action="append",
        default=[],
        metavar="NAME,...",
        help="policies to try with 100 values: timeout, timeout-entry, count, ...",
    )
    parser.add_argument(
        "--picture",
        type=Path,
        metavar="FILE",
        help="a picture of the first sweep; .svg or .png",
    )
    parser.add_argument(
        "--speed",
        type=_speed,
        default=1.0,
        metavar="N",
        help="instructions that the cpu dispatches in a ns (1, as it was traced)",
    )
    parser.add_argument(
        "--tasks", type=_count, default=0, metavar="N", help="show so many tasks of each trace"
    )
    add_unit_argument(parser)
    parser.add_argument("--json", action="store_true", help="print kentry/vector-replay/1")


def run(args: argparse.Namespace) -> int:
    """Reads, replays, prints."""
    from kentry.model.recording import dump
    from kentry.progress import progress
    from kentry.report.replay import replay_text, to_json
    from kentry.vector.policies import parse_policy
    from kentry.vector.ranking import bounds, rank, sweep_all

    if args.closed_loop:
        return _close_loop(args)
    wanted = _words(args.policy)
    for text in wanted:
        parse_policy(text)
    if args.picture:
        measuring.check_writable(args.picture)
    table = _table(args.costs, None) if args.costs else None
    with progress("replaying") as update:
        traces = [_read(file, args) for file in args.traces]
        _check_together(traces, table)
        table = table or _table(None, traces[0])
        rankings = []
        for number, traced in enumerate(traces):
            update(number / len(traces), f"every policy on {traced.name}")
            rankings.append(rank(traced, wanted, table))
        families = _words(args.sweep) or _families(traces[0])
        if args.picture and not families:
            raise UserError(
                "Access cannot be turned off on that architecture: there is nothing to sweep.",
                "Leave --picture out.",
            )
        update(None, f"sweeping {', '.join(families)}")
        swept = [sweep_all(traces, family, table) for family in families]
    limits = bounds(_bounded(rankings[0]), table)
    if args.picture:
        _draw(args.picture, rankings, swept[0], table)
    if args.json:
        sys.stdout.write(dump(to_json(rankings, swept, limits, table)))
    else:
        sys.stdout.write(replay_text(rankings, swept, limits, table, args.tasks))
    return EXIT_DONE


def _count(text: str) -> int:
    if not text.isdecimal():
        raise argparse.ArgumentTypeError(f"{text} is no number of tasks")
    return int(text)


def _speed(text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = 0.0
    if not 0.01 <= value <= 100:
        raise argparse.ArgumentTypeError(f"{text} is no number from 0.01 to 100")
    return value


def _close_loop(args: argparse.Namespace) -> int:
    from kentry.model.recording import dump
    from kentry.report.replay import closed_text
    from kentry.vector.ranking import close_loop

    if args.policy or args.costs or args.sweep or args.picture:
        raise UserError(
            "--closed-loop counts acts of the second kernel's own policy.",
            "Leave out --policy, --costs, --sweep and --picture.",
        )
    if len(args.traces) > 1:
        raise UserError("--closed-loop takes one trace to replay on.", "Name them one at a time.")
    traced, after = _read(args.traces[0], args), _read(args.closed_loop, args)
    closed = close_loop(traced, after)
    if args.json:
        sys.stdout.write(dump({"schema": "kentry/vector-closed-loop/1", **vars(closed)}))
    else:
        sys.stdout.write(closed_text(closed, traced, after))
    return EXIT_DONE


def _words(groups: list[str]) -> list[str]:
    return [word for group in groups for word in group.split(",") if word]


def _read(file: Path, args: argparse.Namespace) -> Traced:
    from kentry.vector.ranking import Traced
    from kentry.vector.trace import read_trace

    trace, cut = read_trace(file)
    if not len(trace):
        raise UserError(f"{file} has no events.", "Trace a workload that does something.")
    return Traced.of(str(file), trace, cut, args.unit, args.speed)


def _table(costs: str | None, traced: Traced | None) -> CostTable:
    from kentry.vector.costs import load_costs, table_for

    if costs is not None:
        return load_costs(costs)
    assert traced is not None
    meta = traced.trace.meta
    return table_for(meta["arch"], int(meta["unit"]["vl"]), traced.prepared.unit)


def _check_together(traces: list[Traced], table: CostTable | None) -> None:
    arches = {traced.trace.meta["arch"] for traced in traces}
    lengths = {traced.trace.meta["unit"]["vl"] for traced in traces}
    if len(arches) > 1:
        raise UserError(
            f"These traces are of different architectures: {', '.join(sorted(arches))}.",
            "Replay them one architecture at a time.",
        )
    if len(lengths) > 1 and not table:
        raise UserError(
            f"These traces are of different vector lengths: {', '.join(map(str, lengths))} bits.",
            "Replay them one length at a time, or name a cost table for all with --costs.",
        )
    if len({traced.name for traced in traces}) < len(traces):
        raise UserError("A trace is named twice.", "Name each once: they count alike.")
    if table and table.arch not in arches:
        raise UserError(
            f"The cost table {table.name} is of {table.arch}, the trace of {arches.pop()}.",
            "Name another with --costs; kentry vector costs lists and makes them.",
        )


def _families(traced: Traced) -> list[str]:
    """What is worth a sweep on that architecture: a time and a count, where access can be dropped.

    Where the kernel can see the last use, from that one on.
    """
    from kentry.vector.ranking import sweepable

    return sweepable(traced.prepared)


def _bounded(ranking: Ranking) -> list[Policy]:
    """The policies for which something holds whatever the workload."""
    from kentry.vector.policies import Counted, DropEachSyscall, Timed

    return [
        row.policy
        for row in ranking.rows
        if isinstance(row.policy, Counted | DropEachSyscall | Timed)
    ]


def _draw(file: Path, rankings: list[Ranking], swept: Swept, table: CostTable) -> None:
    from kentry.report.picture import Curve, sweep_picture
    from kentry.report.replay import picture_of

    title, curves, levels, axis = picture_of(rankings, swept, table)
    advice = swept.advice
    sweep_picture(
        file,
        [Curve(*curve) for curve in curves],
        title,
        x=swept.family,
        y=axis,
        times=swept.family.startswith("timeout"),
        recommended=advice.value,
        interval=(advice.low, advice.high),
        levels=levels,
    )
