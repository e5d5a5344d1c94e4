# SPDX-License-Identifier: GPL-2.0-or-later
"""kentry store gc: what is of no use in a store goes."""

from dataclasses import dataclass

from kentry.commands.emit import emit
from kentry.commands.options import STORE, TextOptions, operand
from kentry.errors import EXIT_DONE
from kentry.progress import progress
from kentry.show.blocks import Layout

EXAMPLES = (
    "kentry store gc results",
    "kentry store verify results; kentry store gc results",
    "kentry store gc results && kentry store add results 6.1.json",
)


@dataclass(frozen=True, kw_only=True)
class Options(TextOptions):
    """What `kentry store gc` takes."""

    store: str = operand(**STORE)


def run(options: Options) -> int:
    """Takes out damaged files, and objects that were added by nobody who came to an end."""
    from kentry.store.store import Store

    with progress(f"reading {options.store}"):
        files, objects = Store(options.store).gc()
    text = f"files that were lost or damaged: {files}; objects removed: {objects}"
    emit(options, lambda: Layout("store", "", "", [text]))
    return EXIT_DONE
