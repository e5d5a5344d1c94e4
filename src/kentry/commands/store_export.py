# SPDX-License-Identifier: GPL-2.0-or-later
"""kentry store export: all files of a store."""

from dataclasses import dataclass
from pathlib import Path

from kentry.commands import values
from kentry.commands.emit import emit
from kentry.commands.options import StoreOptions, operand
from kentry.errors import EXIT_DONE, EXIT_MISTAKE
from kentry.progress import progress, say
from kentry.results.caveats import amount
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


def run(options: Options) -> int:
    """Writes the files, each named by its kernel and content; EXIT_MISTAKE where one is damaged."""
    from kentry.store.store import Store, shown

    number = damaged = 0
    with progress(f"exporting {shown(options.store)}") as update:
        for file in Store(options.store).export(options.folder):
            update(None, f"writing {file.name}")
            number += file.new
            if file.error:
                damaged += 1
                say(str(file.error), is_error=True)
    text = f"{amount(number, 'file')} in {options.folder}"
    emit(options, lambda: Layout("store", "", "", [text]))
    return EXIT_MISTAKE if damaged else EXIT_DONE
