# SPDX-License-Identifier: GPL-2.0-or-later
"""Folders for one run.  The next run removes those of a kentry that was killed."""

from __future__ import annotations

import contextlib
import fcntl
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

from kentry.host.cache import cache_dir, no_space_is_an_error

_LOCK = "lock"


@contextlib.contextmanager
def scratch_folder() -> Iterator[Path]:
    """An empty folder in the cache, removed when the block ends or by the next call."""
    base = cache_dir("scratch")
    # Its owner holds a lock on a file in each folder; the kernel releases the lock of a dead one.
    with no_space_is_an_error(base), (base / _LOCK).open("w") as all_folders:
        fcntl.flock(all_folders, fcntl.LOCK_EX)
        for folder in base.iterdir():
            if folder.is_dir() and _is_abandoned(folder):
                shutil.rmtree(folder, ignore_errors=True)
        folder = Path(tempfile.mkdtemp(dir=base))
        lock = (folder / _LOCK).open("w")
        fcntl.flock(lock, fcntl.LOCK_EX)
    try:
        (folder / "files").mkdir()
        yield folder / "files"
    finally:
        shutil.rmtree(folder, ignore_errors=True)
        lock.close()


def _is_abandoned(folder: Path) -> bool:
    try:
        with (folder / _LOCK).open() as lock:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except FileNotFoundError:
        return True  # its owner is removing it, or was killed while it did
    return True
