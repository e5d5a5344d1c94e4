# SPDX-License-Identifier: GPL-2.0-or-later
"""kentry history: the counts of all kernels in a store as a site of static pages."""

import os
from dataclasses import dataclass
from pathlib import Path

from kentry.commands.emit import emit
from kentry.commands.options import StoreOptions, path_option
from kentry.errors import UserError
from kentry.host.cache import no_space_is_an_error, write_atomically
from kentry.progress import progress
from kentry.show.blocks import Layout

EXAMPLES = (
    "kentry history results -o site",
    "kentry history 'postgresql://db/kentry?objects=s3://kentry/objects' -o site",
    "kentry store add results 6.12.json && kentry history results -o site",
)


@dataclass(frozen=True, kw_only=True)
class Options(StoreOptions):
    """What `kentry history` takes."""

    output: Path | None = path_option("-o", "--output", help="write the pages into the folder FILE")


def run(options: Options) -> None:
    """Writes each page that is new or says something else than before."""
    from kentry.show.history import site
    from kentry.store.store import shown
    from kentry.study.history import history

    folder = options.output
    if not folder:
        raise UserError("The site has no folder.", "Name one with -o.")
    with no_space_is_an_error(folder):
        folder.mkdir(parents=True, exist_ok=True)
    written = total = 0
    with progress(f"history of {shown(options.store)}") as update:
        lines = history(options.store, update)
        place = Path(os.path.abspath(shown(options.store).partition("?")[0]))
        for name, text in site(lines, place.name.rpartition("***@")[2]):
            file, total = folder / name, total + 1
            update(None, f"writing {name}")
            if not file.is_file() or file.read_bytes() != text.encode():
                write_atomically(file, text)
                written += 1
    said = f"{folder / 'index.html'}: {written} of {total} pages written"
    emit(options, lambda: Layout("history", "", "", [said]))
