# SPDX-License-Identifier: GPL-2.0-or-later
"""kentry vector stats: what a trace says about the use of vectors."""

from dataclasses import dataclass
from pathlib import Path

from kentry.commands import values
from kentry.commands.emit import emit
from kentry.commands.options import MeasuredOptions, operand, option

EXAMPLES = (
    "kentry vector stats shell-arm64.parquet",
    "kentry vector stats shell-arm64.parquet --json",
    "kentry vector stats shell-arm64.parquet --unit sme",
)


@dataclass(frozen=True, kw_only=True)
class UnitOptions(MeasuredOptions):
    """For a command that reads a trace."""

    unit: str = option(
        "--unit",
        default="vec",
        choices=("vec", "sme"),
        help="vec is SVE, V or AVX; sme is arm64's SME",
    )


@dataclass(frozen=True, kw_only=True)
class Options(UnitOptions):
    """What `kentry vector stats` takes."""

    trace: Path = operand(type=values.path, metavar="TRACE", help="a file of kentry vector trace")


def run(options: Options) -> None:
    """Reads, counts, prints."""
    from kentry.show.vector import statistics_layout, statistics_to_json
    from kentry.vector.statistics import statistics
    from kentry.vector.trace import read_trace

    trace = read_trace(options.trace)
    usage = statistics(trace, options.unit)
    emit(options, lambda: statistics_layout(trace, usage), lambda: statistics_to_json(trace, usage))
