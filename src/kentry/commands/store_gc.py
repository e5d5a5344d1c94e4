# SPDX-License-Identifier: GPL-2.0-or-later
"""kentry store gc: what is of no use in a store goes."""

from kentry.commands.emit import emit
from kentry.commands.options import StoreOptions
from kentry.progress import progress
from kentry.show.blocks import Layout

EXAMPLES = (
    "kentry store gc results",
    "kentry store verify results; kentry store gc results",
    "kentry store gc results && kentry store add results 6.1.json",
)
Options = StoreOptions


def run(options: StoreOptions) -> None:
    """Takes out what is lost or damaged, and makes the index agree with the rest."""
    from kentry.store.store import Store, set_aside_damaged_index, shown

    with progress(f"reading {shown(options.store)}"):
        damaged = set_aside_damaged_index(options.store)
        files, objects, indexed = Store(options.store, create=damaged).gc()
    text = f"files that were lost or damaged: {files}; objects removed: {objects}"
    text += f"; indexed again: {indexed}"
    emit(options, lambda: Layout("store", "", "", [text]))
