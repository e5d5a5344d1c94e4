# SPDX-License-Identifier: GPL-2.0-or-later
"""kentry log: the history of a count over commits, packages or any kernels, and its changes."""

import re
import sys
from dataclasses import dataclass, replace
from pathlib import Path

from kentry.commands import measuring, values
from kentry.commands.emit import emit
from kentry.commands.options import operand, option, path_option
from kentry.errors import UserError
from kentry.host.cache import write_atomically
from kentry.kernels import debian, tree
from kentry.kernels.spec import parse
from kentry.progress import progress
from kentry.results.recording import INSTRUCTIONS
from kentry.results.studies import Log
from kentry.show.charts import standing_alone
from kentry.show.studies import log_chart, log_layout
from kentry.study.bisection import Question
from kentry.study.commits import Kernels
from kentry.study.log import log_kernels, log_tree

EXAMPLES = (
    "kentry log v6.11..v6.12 --arch riscv64",
    "kentry log 'debian:6.1.*' --case read --arch arm64 --picture read.svg",
    "kentry log debian:6.1 source:6.12 tree:~/linux --json",
)
_MOST_NAMED = 60
_RANGE = re.compile(r"([^:]+?)\.\.([^:./][^:]*)?")
_EVERY_VERSION = re.compile(r"((?:debian|source):[^,]*)\.\*(,.*)?")
_COMMITS = {"without a range of commits, A..B": lambda options: options.range()}


@dataclass(frozen=True, kw_only=True)
class Options(measuring.TreeOptions, measuring.CachedOptions):
    """What `kentry log` takes."""

    kernels: tuple[str, ...] = operand(
        nargs="+",
        metavar="KERNELS",
        help="commits, A..B; or kernels in order: 'debian:6.1.*' is all versions that Debian has,"
        " and 'source:6.1.*' all of its sources",
    )
    every: int | None = option(
        "--every N",
        type=values.whole(1, values.MAX_COUNT),
        needs=_COMMITS,
        help="measure every Nth commit too; without it only the two ends, and what lies between"
        " where these differ",
    )
    picture: Path | None = path_option("--picture", help="write a picture to FILE (.svg)")

    def range(self) -> tuple[str, str] | None:
        """Returns the two commits of A..B, where that is what was named."""
        match = _RANGE.fullmatch(self.kernels[0]) if len(self.kernels) == 1 else None
        return (match[1], match[2] or "HEAD") if match else None

    def has_commits(self) -> bool:
        """Returns whether a range was named."""
        return self.range() is not None

    reads_tree = has_commits

    def inputs(self) -> list[str]:
        """Returns the kernels' specs, or that of the tree."""
        return [f"tree:{self.tree}"] if self.range() else list(self.kernels)


def run(options: Options) -> None:
    """Measures, looks for changes, prints."""
    if options.picture:
        if options.picture.suffix.lower() != ".svg":
            name = options.picture.name
            raise UserError(f"{name}: unknown picture format.", "End its name in .svg.")
        measuring.check_writable(options.picture)
    ends = options.range()
    log = _of_commits(options, *ends) if ends else _of_kernels(options)
    # What is not for a terminal can be mailed: it is ASCII.
    blocks = sys.stdout.isatty() and sys.stdout.encoding.lower().startswith("utf")
    blocks = blocks and not options.changelog
    if options.picture:
        write_atomically(options.picture, standing_alone(log_chart(log).drawing))
    emit(options, lambda: log_layout(log, options.rows_shown, blocks=blocks), lambda: log)


def _of_commits(options: Options, first: str, last: str) -> Log:
    span = tree.find_range(options.top(), first, last)
    arch = options.find_arch()
    measurement = options.measurement(arch)
    question = Question(
        cases=measurement.cases,
        metric=INSTRUCTIONS,
        everything=True,
        first_parent=options.first_parent,
    )
    kernels = Kernels(span.folder, arch, options.request(), measurement)
    origin = {"what": options.kernels[0], "config": options.request().config}
    origin["cpu"] = measurement.cpu
    with progress(f"{options.kernels[0]} ({arch.name})") as update:
        return log_tree(
            *(span, question, kernels, origin, update),
            every=options.every,
            at_once=options.jobs,
            fresh=options.fresh,
        )


def _of_kernels(options: Options) -> Log:
    files = [text for text in options.kernels if not measuring.is_spec(text)]
    if files and not options.arch:
        options = replace(options, arch=measuring.obtain(files[0], options).kernel["arch"])
    arch = options.find_arch()
    with progress("looking for the kernels") as update:
        specs: list[str] = []
        for text in options.kernels:
            if match := _EVERY_VERSION.fullmatch(text):
                spec = parse(f"{match[1]}{match[2] or ''}")
                specs += debian.every_version(spec, arch, update)
            else:
                specs.append(text)
    units = [options.unit(spec, fresh=options.fresh) for spec in specs]
    what = " ".join(options.kernels)
    # Many names would hide the numbers.
    origin = {"what": what if len(what) <= _MOST_NAMED else f"{len(specs)} kernels"}
    return log_kernels(units, origin)
