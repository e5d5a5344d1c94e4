# SPDX-License-Identifier: GPL-2.0-or-later
"""kentry history: the counts of all kernels in a store as a site of static pages."""

import hashlib
import os
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from kentry import show
from kentry.commands.emit import emit
from kentry.commands.options import StoreOptions, path_option
from kentry.errors import UserError
from kentry.host.cache import (
    cache_dir,
    digest_of,
    has_files,
    no_space_is_an_error,
    read_json,
    sha256_of,
    write_atomically,
    write_json,
)
from kentry.progress import Update, progress
from kentry.results.document import to_json
from kentry.show.blocks import Layout

EXAMPLES = (
    "kentry history results -o site",
    "kentry history 'postgresql://db/kentry?objects=s3://kentry/objects' -o site",
    "kentry store add results 6.12.json && kentry history results -o site",
)


@dataclass(frozen=True, kw_only=True)
class Options(StoreOptions):
    """What `kentry history` takes."""

    output: Path | None = path_option("-o", "--output DIR", help="write the pages into DIR")


def run(options: Options) -> None:
    """Writes each page that is new or says something else than before."""
    from kentry.show.history import site
    from kentry.store.store import shown
    from kentry.study.history import history, read_sources

    folder = options.output
    if not folder:
        raise UserError("The site has no folder.", "Name one with -o.")
    with no_space_is_an_error(folder):
        folder.mkdir(parents=True, exist_ok=True)
    place = Path(os.path.abspath(shown(options.store).partition("?")[0]))
    title = place.name.rpartition("***@")[2]
    with progress(f"history of {shown(options.store)}") as update:
        sources = read_sources(options.store)
        key = {"sources": to_json(sources), "title": title, "show": _drawing_digest()}
        kept = cache_dir("compared") / f"{digest_of(key)}.json"
        # Drawing takes longest: pages that were made of the same sources stay.
        pages: Any = read_json(kept).get("pages")
        written = 0
        if not has_files(folder, pages):
            lines = history(options.store, sources, update)
            pages, written = _write(folder, site(lines, title), update)
            write_json(kept, {"pages": pages})
    said = f"{folder / 'index.html'}: {written} of {len(pages)} pages written"
    emit(options, lambda: Layout("history", "", "", [said]))


def _drawing_digest() -> str:
    """A hash of what draws pages: the package `show`, with its templates."""
    root = Path(show.__path__[0])
    files = (file for file in root.rglob("*.*") if file.suffix != ".pyc")
    return digest_of({str(file.relative_to(root)): sha256_of(file) for file in files})


def _write(
    folder: Path, pages: Iterable[tuple[str, str]], update: Update
) -> tuple[dict[str, str], int]:
    """Writes the pages that are new or say something else; returns all hashes, and how many."""
    hashes, written = dict[str, str](), 0
    for name, text in pages:
        file, content = folder / name, text.encode()
        hashes[name] = hashlib.sha256(content).hexdigest()
        update(None, f"writing {name}")
        if not file.is_file() or file.read_bytes() != content:
            write_atomically(file, content)
            written += 1
    return hashes, written
