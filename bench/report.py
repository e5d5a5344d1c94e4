# SPDX-License-Identifier: GPL-2.0-or-later
"""How long it takes to write the page of a large series, and how long until a browser shows it.

The same for a comparison of 14 cases on two kernels, less the time of `kentry diff --json`, which
reads both recordings and compares their paths.

The series has 12 patches, 8 cases and 2 architectures.  Its counts and functions are those of
recordings; the changes are made up.  Prints the seconds of `kentry report`, with the ratio to
Python that only reads the JSON and writes it into an empty page, the size of the page, and the
first paint in headless Chromium, with the ratio to that empty page.

    python -m bench.report [FILE...]

FILE is a recording; Debian's 6.12 for arm64 and riscv64 is recorded without any.
"""

from __future__ import annotations

import random
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from statistics import median
from typing import Any

from playwright.sync_api import Browser, sync_playwright

from kentry.results.comparison import FunctionDelta
from kentry.results.document import dump, to_json
from kentry.results.recording import CaseResult, Measured, Recording, read_recording

# Seconds, seconds, bytes.
WRITTEN, PAINTED, SIZE = 2.0, 1.0, 2 << 20
# A long series, with fewer cases: its filter answers a letter within the milliseconds.
LONG_PATCHES, LONG_CASES, ANSWERED = 200, 2, 50.0
# Of a comparison of two kernels.
COMPARED, COMPARED_PAINTED, COMPARED_SIZE = 1.5, 0.5, 1 << 20
PATCHES, CASES, CHANGED = 12, 8, 10
ROUNDS = 5
SPEC, NAMES = "debian:6.12", "getpid,getppid,getuid,read,write,stat,pipe,openat+close"
EMPTY = """
import json, sys
text = json.dumps(json.load(open(sys.argv[1]))).replace("<", "\\\\u003c")
page = '<!doctype html><title>x</title><p>x<script type="application/json">%s</script>'
open(sys.argv[2], "w").write(page % text)
"""


def recorded(folder: Path, arch: str, spec: str = SPEC, cases: str = NAMES) -> Path:
    file = folder / f"{spec}-{arch}-{len(cases)}.json".replace(":", "-")
    words = ["record", spec, "--arch", arch, *(["--case", cases] if cases else [])]
    words += ["-q", "-o", str(file)]
    subprocess.run([sys.executable, "-m", "kentry", *words], check=True, stdout=subprocess.DEVNULL)
    return file


def series_of(
    recordings: list[Recording], patches: int = PATCHES, cases: int = CASES
) -> dict[str, Any]:
    """A series of these kernels, in which each patch changes functions of every case."""
    chosen = {
        f"{one.kernel['arch']}:{case.name}": (one, case)
        for one in recordings
        for case in [case for case in one.cases if case.functions][:cases]
    }
    rows: list[dict[str, Any]] = []
    functions = {name: dict(case.functions) for name, (_, case) in chosen.items()}
    drawn = random.Random(1)
    for patch in range(patches + 1):
        cells = {}
        for name, (_, case) in chosen.items():
            deltas = changed(functions[name], drawn) if patch else ()
            cells[name] = cell(case, sum(functions[name].values()), deltas)
        rows.append(
            {
                "patch": patch,
                "subject": f"arch: entry: change {CHANGED} functions" if patch else "baseline",
                "commit": f"{patch:040x}",
                "status": "measured",
                "identical_path": False,
                "cases": cells,
                "problems": {},
                "caveats": [],
            }
        )
    return {
        "schema": "kentry/series/1",
        "tool": {"name": "kentry", "version": "0"},
        "origin": {"base": SPEC},
        "base": {one.kernel["arch"]: to_json(Measured.of(one)) for one in recordings},
        "columns": [
            {"name": name, "case": case.name, "arch": one.kernel["arch"]}
            for name, (one, case) in chosen.items()
        ],
        "rows": rows,
        "totals": {name: sum(row["cases"][name]["delta"] for row in rows) for name in chosen},
        "caveats": [],
    }


def changed(functions: dict[str, int], drawn: random.Random) -> list[FunctionDelta]:
    """Changes some functions; the deltas."""
    names = drawn.sample(sorted(functions), min(CHANGED, len(functions)))
    deltas = []
    for name in names:
        new = max(1, functions[name] + drawn.choice((-3, -2, -1, 1, 2)))
        if new != functions[name]:
            deltas.append(FunctionDelta(name, functions[name], new))
            functions[name] = new
    return deltas


def cell(case: CaseResult, count: int, deltas: Sequence[FunctionDelta]) -> dict[str, Any]:
    rows: list[dict[str, Any]] = to_json(deltas)
    return {
        "instructions": count,
        "delta": sum(row["delta"] for row in rows),
        "cumulative": count - sum(times for _, times in case.functions),
        "identical_path": False,
        "windows": 1000,
        "agreeing": 1000,
        "functions": rows,
    }


def seconds(run: Callable[[], object]) -> float:
    found = []
    for _ in range(ROUNDS):
        start = time.monotonic()
        run()
        found.append(time.monotonic() - start)
    return median(found)


@contextmanager
def browser() -> Iterator[Browser]:
    with sync_playwright() as playwright:
        program = shutil.which("chromium")
        chromium = playwright.chromium.launch(executable_path=program, args=["--no-sandbox"])
        yield chromium
        chromium.close()


def first_paint(files: list[Path]) -> list[float]:
    """Seconds until the browser shows something of each page, the median of several rounds."""
    found: list[list[float]] = [[] for _ in files]
    with browser() as chromium:
        for _ in range(ROUNDS):
            for times, file in zip(found, files, strict=True):
                page = chromium.new_page()
                page.goto(file.as_uri())
                paint = page.evaluate(
                    """new Promise((done) => new PerformanceObserver((list) =>
                         done(list.getEntriesByName("first-contentful-paint")[0].startTime)
                       ).observe({ type: "paint", buffered: true }))"""
                )
                times.append(paint / 1000)
                page.close()
    return [median(times) for times in found]


def filtering(file: Path) -> bool:
    """Whether the page of a long series filters at once; prints the milliseconds to the paint."""
    with browser() as chromium:
        page = chromium.new_page()
        page.goto(file.as_uri())
        times: list[float] = page.evaluate(
            """(async () => {
                 const times = [], field = document.querySelector("input[type=search]");
                 for (const text of ["1", "12", "", "no such", "entry"]) {
                   const start = performance.now();
                   field.value = text;
                   field.dispatchEvent(new Event("input"));
                   document.body.offsetHeight;
                   await new Promise((done) => requestAnimationFrame(() => setTimeout(done)));
                   times.push(performance.now() - start);
                 }
                 return times;
               })()"""
        )
    word = "within" if max(times) <= ANSWERED else "over"
    print(
        f"report of {LONG_PATCHES} patches, {file.stat().st_size >> 10} KiB: filters in"
        f" {median(times):.0f} ms, {max(times):.0f} at most ({word} {ANSWERED:g} ms)"
    )
    return max(times) <= ANSWERED


def comparison(folder: Path) -> bool:
    """Whether the page of the default cases on two kernels is small and soon there; prints it."""
    sides = [recorded(folder, "arm64", spec, "") for spec in ("debian:6.1", SPEC)]
    page = folder / "comparison.html"
    words = [str(side) for side in sides]
    ours = [sys.executable, "-m", "kentry", "report", *words, "-o", str(page)]
    peer = [sys.executable, "-m", "kentry", "diff", *words, "--json", "-q"]
    comparing = seconds(lambda: subprocess.run(peer, check=True, stdout=subprocess.DEVNULL))
    writing = seconds(lambda: subprocess.run(ours, check=True)) - comparing
    [painting], size = first_paint([page]), page.stat().st_size
    within = [writing <= COMPARED, painting <= COMPARED_PAINTED, size <= COMPARED_SIZE]
    one, two, three = ("within" if good else "over" for good in within)
    print(
        f"report of two kernels: written in {writing:.2f} s beside comparing in"
        f" {comparing:.2f} s ({one} {COMPARED:g} s), first paint {painting:.2f} s"
        f" ({two} {COMPARED_PAINTED:g} s),"
        f" {size >> 10} KiB ({three} {COMPARED_SIZE >> 10} KiB)"
    )
    return all(within)


def main() -> int:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        inputs = [Path(one) for one in sys.argv[1:]]
        inputs = inputs or [recorded(folder, arch) for arch in ("arm64", "riscv64")]
        recordings = [read_recording(file) for file in inputs]
        document, long = series_of(recordings), folder / "long.json"
        long.write_text(dump(series_of(recordings, LONG_PATCHES, LONG_CASES)))
        source, page, empty = (folder / one for one in ("series.json", "page.html", "empty.html"))
        source.write_text(dump(document))
        ours = [sys.executable, "-m", "kentry", "report", str(source), "-o", str(page)]
        peer = [sys.executable, "-c", EMPTY, str(source), str(empty)]
        writing = seconds(lambda: subprocess.run(ours, check=True))
        bare = seconds(lambda: subprocess.run(peer, check=True))
        size = page.stat().st_size
        painting, of_empty = first_paint([page, empty])
        subprocess.run([*ours[:4], str(long), "-o", str(long.with_suffix(".html"))], check=True)
        answered = filtering(long.with_suffix(".html"))
        compared = comparison(folder)
    within = [writing <= WRITTEN, painting <= PAINTED, size <= SIZE]
    words = ["within" if one else "over" for one in within]
    columns = len(document["columns"])
    print(
        f"report {PATCHES} patches x {columns} columns: written in {writing:.2f} s"
        f" ({words[0]} {WRITTEN:g} s) {writing / bare:.1f} x JSON into an empty page"
    )
    print(
        f"report first paint {painting:.2f} s ({words[1]} {PAINTED:g} s)"
        f" {painting / of_empty:.1f} x the empty page; {size >> 10} KiB"
        f" ({words[2]} {SIZE >> 10} KiB)"
    )
    return 0 if all([*within, compared, answered]) else 1


if __name__ == "__main__":
    raise SystemExit(main())
