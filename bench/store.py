# SPDX-License-Identifier: GPL-2.0-or-later
"""How quick a store is with a million results: the history of a case, and fifty writers at once.

The peer is sqlite3, Python's own, with the same statement on the same file.
Usage: python -m bench.store [RESULTS]
"""

from __future__ import annotations

import sqlite3
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from statistics import median
from timeit import repeat

from kentry.store import store as stores
from kentry.store.store import Store

CASES, METRICS, RUNS, WRITERS, FILES = 14, 30, 21, 50, 4
HISTORY = "SELECT release, value FROM history WHERE case_name = 'case-7' AND metric = 'metric-3'"
WRITER = """
import sys
from pathlib import Path
from kentry.store.store import Store
from tests.unit.store.test_store import made
first = 10 + int(sys.argv[2]) * int(sys.argv[3])
files = made(Path(sys.argv[1], f"files-{first}"), *range(first, first + int(sys.argv[3])))
store = Store(str(Path(sys.argv[1], "store")))
sys.exit(sum(not one.new for one in store.add(files)))
"""


def fill(store: Store, results: int) -> int:
    """Puts the rows of made-up recordings into the index; returns how many results it then has."""
    recordings = max(1, results // (CASES * METRICS))
    for number in range(recordings):
        key = f"{number:064x}"
        texts = {
            column.name: f"{column.name} {number % 300}"
            for column in stores._documents.c
            if column.name not in ("sha256", "added")
        }
        rows = [
            {"sha256": key, "case_name": f"case-{case}", "metric": f"metric-{metric}"}
            | {"value": float(number + case), "unit": ""}
            for case in range(CASES)
            for metric in range(METRICS)
        ]
        with store._engine.begin() as connection:
            connection.execute(stores._documents.insert(), {"sha256": key, "added": 0.0, **texts})
            connection.execute(stores._results.insert(), rows)
    return recordings * CASES * METRICS


def main() -> None:
    """Prints the figures."""
    with tempfile.TemporaryDirectory(prefix="kentry-store-") as name:
        place = str(Path(name, "store"))
        store = Store(place, create=True)
        results = fill(store, int(sys.argv[1]) if len(sys.argv) > 1 else 1_000_000)

        def peer() -> None:
            with sqlite3.connect(Path(place, "index.sqlite")) as index:
                index.execute(HISTORY).fetchall()

        found = len(store.query(HISTORY)[1])
        calls = (lambda: store.query(HISTORY)), peer
        own, raw = (median(repeat(call, number=1, repeat=RUNS)) for call in calls)
        print(f"history of one case, {found} rows of {results} results: {1000 * own:.1f} ms,")
        print(f"  {own / raw:.1f} x sqlite3's {1000 * raw:.1f} ms (bar: 100 ms)")
        began = time.monotonic()
        argv = [sys.executable, "-c", WRITER, name]
        writers = [subprocess.Popen([*argv, str(number), str(FILES)]) for number in range(WRITERS)]
        errors = sum(writer.wait() != 0 for writer in writers)
        took = time.monotonic() - began
        [[there]] = store.query("SELECT COUNT(*) FROM results WHERE metric = 'instructions'")[1]
        print(
            f"{WRITERS} writers at once, {FILES} files each: {took:.1f} s, {errors} with an error,"
        )
        print(f"  {WRITERS * FILES - there} rows lost (bar: 0 and 0)")


if __name__ == "__main__":
    main()
