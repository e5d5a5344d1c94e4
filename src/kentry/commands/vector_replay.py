# SPDX-License-Identifier: GPL-2.0-or-later
"""kentry vector replay: what each policy would have cost the workloads of traces."""

from dataclasses import dataclass
from pathlib import Path

from kentry.commands import measuring, values
from kentry.commands.emit import emit
from kentry.commands.options import RARE, list_option, operand, option, path_option
from kentry.commands.vector_stats import UnitOptions
from kentry.errors import EXIT_DONE, UserError
from kentry.progress import progress
from kentry.show import charts
from kentry.vector.policies import parse_policy

EXAMPLES = (
    "kentry vector replay shell-arm64.parquet",
    "kentry vector replay idle-arm64.parquet --costs sve128 --policy drop-on-load,timeout-entry:1s",
    "kentry vector replay base.parquet --closed-loop patched.parquet",
)

RETIRED = {"--speed": "the trace as it is: an instruction takes 1 ns of its time"}

_OPEN_LOOP = {
    "with --closed-loop: it counts acts of the second kernel's own policy": lambda options: (
        not options.closed_loop
    )
}


@dataclass(frozen=True, kw_only=True)
class Options(UnitOptions):
    """What `kentry vector replay` takes."""

    traces: tuple[Path, ...] = operand(
        nargs="+", type=values.path, metavar="TRACE", help="files of kentry vector trace"
    )
    policy: tuple[str, ...] = list_option(
        "--policy POLICY,...",
        needs=_OPEN_LOOP,
        help="policies such as drop-on-load or timeout-entry:10ms; all that fit by default",
    )
    costs: str | None = option(
        "--costs TABLE",
        needs=_OPEN_LOOP,
        help="a cost table's file or name; the counted one of the trace's vector length by default",
    )
    sweep: tuple[str, ...] = list_option(
        "--sweep NAME,...",
        needs=_OPEN_LOOP,
        help="policies to replay with 100 values: timeout, timeout-entry, timeout-from-use, count,"
        " count-from-use; timeout-entry and count by default",
    )
    picture: Path | None = path_option(
        "--picture",
        needs=_OPEN_LOOP,
        **measuring.PICTURE,
    )
    closed_loop: Path | None = path_option(
        "--closed-loop TRACE",
        group=RARE,
        help="a trace of the same workload on a kernel with another policy: print what replay says"
        " of that policy beside what was seen",
    )


def run(options: Options) -> int:
    """Reads, replays, prints."""
    from kentry.show.vector import closed_layout, replay_layout, replay_picture
    from kentry.vector.ranking import TraceFile, close_loop, compare_policies, find_table

    if options.closed_loop:
        if len(options.traces) > 1:
            raise UserError(
                "--closed-loop takes one trace to replay on.", "Name them one at a time."
            )
        files = (*options.traces, options.closed_loop)
        first, after = (TraceFile.read(file, options.unit) for file in files)
        closed = close_loop(first, after)
        emit(options, lambda: closed_layout(closed, first.head, after.head), lambda: closed)
        return EXIT_DONE
    for text in options.policy:
        parse_policy(text)
    if options.picture:
        charts.check_picture(options.picture)
        measuring.check_writable(options.picture)
    with progress("replaying") as update:
        sources = [TraceFile.read(file, options.unit) for file in options.traces]
        table = find_table(sources, options.costs)
        replay = compare_policies(sources, options.policy, options.sweep, table, update)
    emit(
        options,
        lambda: replay_layout(replay),
        lambda: replay,
        picture=lambda: replay_picture(replay),
    )
    return EXIT_DONE
