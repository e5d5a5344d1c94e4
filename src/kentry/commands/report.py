# SPDX-License-Identifier: GPL-2.0-or-later
"""kentry report: results of any kind as one HTML page that needs no other file."""

import sys
from dataclasses import dataclass
from pathlib import Path

from kentry.commands import measuring, values
from kentry.commands.options import Common, flag, operand, path_option
from kentry.errors import UserError
from kentry.host.cache import write_atomically
from kentry.progress import progress

EXAMPLES = (
    "kentry report 6.12.json -o 6.12.html",
    "kentry report old.json new.json -o diff.html",
    "kentry report rows/* -o series.html",
)


@dataclass(frozen=True, kw_only=True)
class Options(Common):
    """What `kentry report` takes."""

    files: tuple[Path, ...] = operand(
        type=values.path,
        nargs="+",
        metavar="FILE",
        help="recordings, of which two are compared, and the --json of diff, annotate OLD NEW,"
        " stat --compare, series, bisect, log, ablate, check, run or vector replay",
    )
    output: Path | None = path_option(
        "-o", "--output", help="write to FILE; a comment without it to stdout"
    )
    comment: bool = flag(
        "--comment", help="write the first lines of the page alone, for a mail or in Markdown"
    )


def run(options: Options) -> None:
    """Reads all files, then writes the page, or prints its first lines."""
    # They load jinja2, and the parser of the whole command line must not.
    from kentry.commands.pages import report
    from kentry.show.comment import comments
    from kentry.show.page import page

    if options.output:
        measuring.check_writable(options.output)
    elif not options.comment:
        raise UserError("The page has no file.", "Name a file with -o, or add --comment.")
    with progress(f"a page of {', '.join(map(str, options.files))}"):
        text = report(options.files, comments if options.comment else page)
    if options.output:
        write_atomically(options.output, text)
    else:
        sys.stdout.write(text)
