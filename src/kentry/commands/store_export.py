# SPDX-License-Identifier: GPL-2.0-or-later
"""kentry store export: all files of a store."""

from dataclasses import dataclass
from pathlib import Path

from kentry.commands import values
from kentry.commands.emit import emit
from kentry.commands.options import StoreOptions, operand
from kentry.show.blocks import Layout

EXAMPLES = (
    "kentry store export results files/",
    "kentry store export 'postgresql://db/kentry?objects=s3://kentry/objects' files/",
    "kentry store export results files/ && kentry report files/*.json -o all.html",
)


@dataclass(frozen=True, kw_only=True)
class Options(StoreOptions):
    """What `kentry store export` takes."""

    folder: Path = operand(type=values.path, metavar="FOLDER", help="where to write them")


def run(options: Options) -> None:
    """Writes the files, each named by its kernel and its content."""
    from kentry.store.store import Store

    number = Store(options.store).export(options.folder)
    emit(options, lambda: Layout("store", "", "", [f"{number} files in {options.folder}"]))
