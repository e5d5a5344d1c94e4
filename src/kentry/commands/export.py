# SPDX-License-Identifier: GPL-2.0-or-later
"""kentry export: recordings in the formats of other programs."""

import sys
from dataclasses import dataclass
from pathlib import Path

from kentry.commands import measuring, values
from kentry.commands.options import Common, operand, option, path_option
from kentry.host.cache import write_atomically

EXAMPLES = (
    "kentry export old.json new.json --format benchfmt > both.txt",
    "kentry export old.json new.json --format folded | flamegraph.pl > difference.svg",
    "kentry diff old.json new.json --json > diff.json; kentry export diff.json --format ktap",
)


@dataclass(frozen=True, kw_only=True)
class Options(Common):
    """What `kentry export` takes."""

    files: tuple[Path, ...] = operand(
        type=values.path,
        nargs="+",
        metavar="FILE",
        help="recordings; for ktap also the JSON of kentry diff or kentry stat",
    )
    format: str = option(
        "--format FORMAT",
        required=True,
        help="benchfmt, ktap or csv; of paths: folded or speedscope",
    )
    output: Path | None = path_option("-o", "--output", help="write to FILE")


def run(options: Options) -> None:
    """Read all files, then write; print on stderr what the format has no place for."""
    # These load numpy, and the parser of the whole command line must not.
    from kentry.show.export.formats import export_files

    if options.output:
        measuring.check_writable(options.output)
    export = export_files(options.files, options.format)
    for note in export.notes:
        print(f"kentry: {note}", file=sys.stderr)
    if options.output:
        write_atomically(options.output, export.text)
    else:
        sys.stdout.write(export.text)
