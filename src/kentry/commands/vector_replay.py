# SPDX-License-Identifier: GPL-2.0-or-later
"""kentry vector replay: what each policy would have cost the workloads of traces."""

from dataclasses import dataclass
from pathlib import Path

from kentry.commands import values
from kentry.commands.emit import emit
from kentry.commands.options import list_option, operand, option
from kentry.commands.vector_stats import UnitOptions
from kentry.progress import progress
from kentry.vector.policies import parse_policy

EXAMPLES = (
    "kentry vector replay shell-arm64.parquet",
    "kentry vector replay idle-arm64.parquet --costs sve128 --policy drop-on-load,timeout-entry:1s",
    "kentry vector replay boot.parquet shell.parquet --sweep count",
)


@dataclass(frozen=True, kw_only=True)
class Options(UnitOptions):
    """What `kentry vector replay` takes."""

    traces: tuple[Path, ...] = operand(
        nargs="+", type=values.path, metavar="TRACE", help="files of kentry vector trace"
    )
    policy: tuple[str, ...] = list_option(
        "--policy POLICY,...",
        help="policies such as drop-on-load or timeout-entry:10ms; all that fit by default",
    )
    costs: str | None = option(
        "--costs TABLE",
        help="a cost table's file or name; the counted one of the trace's vector length by default",
    )
    sweep: tuple[str, ...] = list_option(
        "--sweep NAME,...",
        help="policies to replay with 100 values: timeout, timeout-entry, timeout-from-use, count,"
        " count-from-use; timeout-entry and count by default",
    )


def run(options: Options) -> None:
    """Reads, replays, prints."""
    from kentry.show.vector import replay_layout
    from kentry.vector.ranking import TraceFile, compare_policies, find_table

    for text in options.policy:
        parse_policy(text)
    with progress("replaying") as update:
        sources = [TraceFile.read(file, options.unit) for file in options.traces]
        table = find_table(sources, options.costs)
        replay = compare_policies(sources, options.policy, options.sweep, table, update)
    emit(options, lambda: replay_layout(replay), lambda: replay)
