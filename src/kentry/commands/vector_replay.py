# SPDX-License-Identifier: GPL-2.0-or-later
"""kentry vector replay: what each policy would have cost the workloads of traces."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from kentry.commands import measuring, output, values
from kentry.commands.options import RARE, Need, list_option, operand, option, path_option
from kentry.commands.vector_stats import UnitOptions
from kentry.errors import EXIT_DONE, UserError
from kentry.models.costs import CostTable, load_costs, table_for
from kentry.progress import progress
from kentry.results.document import dump
from kentry.vector.policies import POLICIES, parse_policy

if TYPE_CHECKING:
    from kentry.vector.ranking import TraceFile

EXAMPLES = (
    "kentry vector replay shell-arm64.parquet",
    "kentry vector replay idle-arm64.parquet --costs sve128 --policy drop-on-load,timeout-entry:1s",
    "kentry vector replay base.parquet --closed-loop patched.parquet",
)

_OPEN_LOOP = Need(
    lambda options: not options.closed_loop,
    "with --closed-loop: it counts acts of the second kernel's own policy",
)


@dataclass(frozen=True, kw_only=True)
class Options(UnitOptions):
    """What `kentry vector replay` takes."""

    traces: tuple[Path, ...] = operand(
        nargs="+", type=values.path, metavar="TRACE", help="files of kentry vector trace"
    )
    policy: tuple[str, ...] = list_option(
        "--policy",
        metavar="POLICY,...",
        needs=(_OPEN_LOOP,),
        help="policies such as drop-on-load or timeout-entry:10ms; all that fit by default",
    )
    costs: str | None = option(
        "--costs",
        metavar="TABLE",
        needs=(_OPEN_LOOP,),
        help="a cost table's file or name; the counted one of the trace's vector length by default",
    )
    sweep: tuple[str, ...] = list_option(
        "--sweep",
        metavar="NAME,...",
        needs=(_OPEN_LOOP,),
        help="policies to replay with 100 values: timeout, timeout-entry, timeout-from-use, count,"
        " count-from-use; timeout-entry and count by default",
    )
    picture: Path | None = path_option(
        "--picture",
        needs=(_OPEN_LOOP,),
        **measuring.PICTURE,
    )
    closed_loop: Path | None = path_option(
        "--closed-loop",
        metavar="TRACE",
        group=RARE,
        help="a trace of the same workload on a kernel with another policy: print what replay says"
        " of that policy beside what was seen",
    )


def run(options: Options) -> int:
    """Reads, replays, prints."""
    from kentry.show.policy_costs import draw, replay_text, replay_to_json
    from kentry.vector.ranking import rank
    from kentry.vector.tuning import recommend, sweep

    if options.closed_loop:
        return _close_loop(options, options.closed_loop)
    for text in options.policy:
        parse_policy(text)
    if options.picture:
        measuring.check_writable(options.picture)
    table = load_costs(options.costs) if options.costs else None
    with progress("replaying") as update:
        traces = [_read(file, options) for file in options.traces]
        table = _check_together(traces, table)
        rankings = []
        for number, source in enumerate(traces):
            update(number / len(traces), f"every policy on {source.name}")
            rankings.append(rank(source, options.policy, table))
        fit = POLICIES["timeout-entry"].fits(traces[0].prepared.mechanism)
        families = options.sweep or (("timeout-entry", "count") if fit else ())
        if options.picture and not families:
            raise UserError(
                "Access cannot be turned off on that architecture: there is nothing to sweep.",
                "Leave --picture out.",
            )
        update(None, f"sweeping {', '.join(families)}")
        prices = table.prices
        sweeps = [
            [sweep(source.prepared, family, prices) for source in traces] for family in families
        ]
        advice = [recommend(one, prices) for one in sweeps]
    if options.picture:
        draw(options.picture, rankings, sweeps[0], advice[0], table)
    if options.json:
        sys.stdout.write(dump(replay_to_json(rankings, advice, table)))
    else:
        output.show(options, replay_text, rankings, advice, table)
    return EXIT_DONE


def _close_loop(options: Options, second: Path) -> int:
    from kentry.show.policy_costs import closed_text
    from kentry.vector.ranking import close_loop

    if len(options.traces) > 1:
        raise UserError("--closed-loop takes one trace to replay on.", "Name them one at a time.")
    source, after = _read(options.traces[0], options), _read(second, options)
    closed = close_loop(source, after)
    if options.json:
        sys.stdout.write(dump(msgspec.to_builtins(closed)))
    else:
        output.show(options, closed_text, closed, source, after)
    return EXIT_DONE


def _read(file: Path, options: Options) -> TraceFile:
    from kentry.vector.ranking import TraceFile
    from kentry.vector.trace import read_trace

    trace = read_trace(file)
    if not len(trace):
        raise UserError(f"{file} has no events.", "Trace a workload that does something.")
    return TraceFile.of(str(file), trace, options.unit)


def _check_together(traces: Sequence[TraceFile], table: CostTable | None) -> CostTable:
    """The table, or the counted one of the traces; UserError if they do not go together."""
    arches = sorted({source.trace.meta["arch"] for source in traces})
    lengths = sorted({source.trace.meta["unit"]["vl"] for source in traces})
    if len(arches) > 1:
        raise UserError(
            f"These traces are of different architectures: {', '.join(arches)}.",
            "Replay them one architecture at a time.",
        )
    if len(lengths) > 1 and not table:
        raise UserError(
            f"These traces are of different vector lengths: {', '.join(map(str, lengths))} bits.",
            "Replay them one length at a time, or name a cost table for all with --costs.",
        )
    names = [source.name for source in traces]
    if twice := next((name for name in names if names.count(name) > 1), None):
        raise UserError(f"{twice} is named twice.", "Name each trace once: they count the same.")
    table = table or table_for(arches[0], lengths[0], traces[0].prepared.unit)
    if table.arch != arches[0]:
        raise UserError(
            f"The cost table {table.name} is of {table.arch}, the trace of {arches[0]}.",
            "Name another with --costs; kentry vector costs lists and makes them.",
        )
    return table
