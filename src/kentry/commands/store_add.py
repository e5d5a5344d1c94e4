# SPDX-License-Identifier: GPL-2.0-or-later
"""kentry store add: results' files into a store."""

from dataclasses import dataclass

from kentry.commands.emit import emit
from kentry.commands.options import StoreOptions, operand
from kentry.errors import EXIT_DONE, EXIT_MISTAKE
from kentry.progress import progress, say
from kentry.show.blocks import Layout

EXAMPLES = (
    "kentry store add results 6.1.json 6.12.json",
    "kentry store add results rows/",
    "kentry store add 'postgresql://db/kentry?objects=s3://kentry/objects' results",
)


@dataclass(frozen=True, kw_only=True)
class Options(StoreOptions):
    """What `kentry store add` takes."""

    files: tuple[str, ...] = operand(
        nargs="+", metavar="FILE", help="a result's file, a folder of them, or another store"
    )


def run(options: Options) -> int:
    """Adds what can be; EXIT_MISTAKE where a file is none of kentry's, or damaged."""
    from kentry.store.store import Store, shown

    new = known = refused = 0
    with progress(f"adding to {shown(options.store)}") as update:
        for added in Store(options.store, create=True).add(options.files):
            update(None, f"reading {added.name}")
            new += added.new
            known += not (added.new or added.error)
            if added.error:
                refused += 1
                say(str(added.error), is_error=True)
    counts = [f"{new} added", *([f"{known} already there"] if known else [])]
    counts += [f"{refused} refused"] if refused else []
    emit(options, lambda: Layout("store", "", "", [", ".join(counts)]))
    return EXIT_MISTAKE if refused else EXIT_DONE
