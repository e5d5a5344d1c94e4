# SPDX-License-Identifier: GPL-2.0-or-later
"""kentry store verify: whether a store has what its index says."""

from kentry.commands.emit import emit
from kentry.commands.options import StoreOptions
from kentry.errors import EXIT_DONE, EXIT_MISTAKE
from kentry.progress import progress
from kentry.show.blocks import Block, Layout, Prose

EXAMPLES = (
    "kentry store verify results",
    "kentry store verify 'postgresql://db/kentry?objects=s3://kentry/objects'",
    "kentry store verify results || kentry store gc results",
)
Options = StoreOptions


def run(options: StoreOptions) -> int:
    """Prints a line a file that is not as it was added; EXIT_MISTAKE where there is one."""
    from kentry.store.store import Store, shown

    store = Store(options.store)
    with progress(f"reading {shown(options.store)}"):
        bad = list(store.verify())
    total = len(store.hashes())
    lines: list[Block] = [Prose(f"{key}: {why}") for key, why in bad]
    lines.append(f"{total - len(bad)} of {total} files are as they were added")
    emit(options, lambda: Layout("store", "", "", lines))
    return EXIT_MISTAKE if bad else EXIT_DONE
