# SPDX-License-Identifier: GPL-2.0-or-later
"""The site of a store's history: an overview, a page for each case, one that compares two kernels.

All links are names of files in one folder, so any web server serves it, and a browser opens it
without one.
"""

import hashlib
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Any
from uuid import NAMESPACE_URL, uuid5

from kentry import __version__
from kentry.arch import find_arch
from kentry.results.caveats import amount, some
from kentry.results.document import to_json
from kentry.results.studies import ChangePoint, Log, Point
from kentry.show.blocks import Block, Cell, Column, Layout, Prose, Table, text_column
from kentry.show.numbers import number, signed
from kentry.show.page import page, rendered
from kentry.show.sections import Fold, OnPage, Section
from kentry.show.studies import log_chart, log_layout
from kentry.stats.exact import BETTER, WORSE
from kentry.study.history import Kernel, Line

_RELEASES = "releases.html"
_LINKS = [
    ("Overview", "index.html"),
    ("What each release changed", _RELEASES),
    ("Compare two kernels", "compare.html"),
    ("Feed of regressions", "feed.xml"),
]
# Releases on the overview, entries of the feed; cases and functions that a sentence names, and
# functions of a release.
_NEWEST, _ENTRIES, _NAMED, _FUNCTIONS = 50, 100, 4, 40
# Of a change whose kernel has no date; a feed must have one.
_NO_DATE = "1970-01-01T00:00:00"


@dataclass(frozen=True)
class _Release:
    """A kernel at which counts of its line changed, and how, by case."""

    line: Line
    point: Point
    changes: dict[str, ChangePoint]

    @property
    def title(self) -> str:
        return f"{self.point.name.removeprefix('debian:')} ({self.line.name})"

    @property
    def id(self) -> str:
        return f"release-{hashlib.sha256(self.title.encode()).hexdigest()[:12]}"

    @property
    def worse(self) -> dict[str, ChangePoint]:
        return {case: change for case, change in self.changes.items() if change.delta > 0}


def site(lines: Sequence[Line], title: str) -> Iterator[tuple[str, str]]:
    """Yields the name and the text of each file; `title` says whose history it is."""
    cases = list(dict.fromkeys(case for line in lines for case in line.logs))
    files = {case: _file(case) for case in cases}
    releases = sorted(_releases(lines), key=lambda release: release.point.date, reverse=True)
    yield "index.html", page([_overview(lines, title, files, releases)], links=_LINKS)
    for case, file in files.items():
        logs = [(line, line.logs[case]) for line in lines if case in line.logs]
        layouts = [_log(line, log) for line, log in logs]
        yield file, page([_beside(case, logs), *layouts], links=_LINKS)
    yield _RELEASES, page([_release_page(releases)], links=_LINKS)
    yield "compare.html", page([_compare(lines)], links=_LINKS, more="compare.js")
    yield "feed.xml", _feed(title, [release for release in releases if release.worse][:_ENTRIES])


def _file(case: str) -> str:
    """A name that no case's name can lead out of the folder, and no two cases share."""
    plain = re.sub(r"[^a-z0-9_]+", "-", case.lower()).strip("-")[:60]
    digest = "" if plain == case else f"-{hashlib.sha256(case.encode()).hexdigest()[:8]}"
    return f"case-{plain}{digest}.html"


def _releases(lines: Sequence[Line]) -> Iterator[_Release]:
    for line in lines:
        by_name: dict[str, dict[str, ChangePoint]] = {}
        points: dict[str, Point] = {}
        for case, log in line.logs.items():
            points |= {point.name: point for point in log.points}
            for change in log.changes:
                by_name.setdefault(change.names[-1], {})[case] = change
        for name, changes in by_name.items():
            yield _Release(line, points[name], changes)


def _overview(
    lines: Sequence[Line], title: str, files: dict[str, str], releases: Sequence[_Release]
) -> Layout:
    table = Table(
        [text_column("case"), *(Column(line.name) for line in lines)],
        caption="Instructions of the newest kernel, and how many more than of the oldest; (?) where"
        " that depends on the context",
    )
    for case, file in files.items():
        cells: list[object] = []
        # The first result of the page has all lines.
        place = 1
        for line in lines:
            if case not in line.logs:
                cells.append(None)
                continue
            place += 1
            value = number(line.having[case][-1].cases[case].value)
            if not (change := line.ends.get(case)):
                cells.append(value)
                continue
            kind = (WORSE if change.delta > 0 else BETTER) if change.is_sure else ""
            delta = "?" if change.low is None else signed(int(change.delta))
            cells.append(Cell(f"{value} ({delta})", kind, f"{file}#result-{place}"))
        table.row(Cell(case, link=file), *cells)
    newest = Table(
        [Column("date"), *map(text_column, ("kernel", "line", "worse", "better"))],
        filters=True,
    )
    for release in releases[:_NEWEST]:
        better = {case: own for case, own in release.changes.items() if own.delta < 0}
        newest.row(
            release.point.date[:10] or None,
            Cell(release.point.name, link=f"{_RELEASES}#{release.id}"),
            release.line.name,
            Cell(_changes(release.worse), WORSE) if release.worse else "",
            Cell(_changes(better), BETTER) if better else "",
        )
    kernels = Table([text_column("line"), Column("kernels"), *map(text_column, ("first", "last"))])
    for line in lines:
        first, last = (line.kernels[at].name for at in (0, -1))
        kernels.row(line.name, len({kernel.name for kernel in line.kernels}), first, last)
    count = len({kernel.sha256 for line in lines for kernel in line.kernels})
    blocks: list[Block] = [
        Section("Cases", [table]),
        Section("Newest changes", [newest if releases else "No count changed."]),
        Section("Lines", [kernels, "The kernels of a line differ by their version alone."]),
    ]
    counts = {"recording": count, "case": len(files), "line": len(lines), "change": len(releases)}
    summary = ", ".join(amount(own, what) for what, own in counts.items())
    return Layout("history", f"History: {title}", summary, blocks)


def _changes(changes: dict[str, ChangePoint]) -> str:
    return some([f"{case} {change.delta:+}" for case, change in changes.items()], _NAMED)


def _beside(case: str, logs: Sequence[tuple[Line, Log]]) -> Layout:
    """All lines beside each other, a row a kernel."""
    table = Table([text_column("kernel"), Column("date"), *(Column(line.name) for line, _ in logs)])
    rows: dict[str, dict[int, Kernel]] = {}
    for at, (line, _) in enumerate(logs):
        for kernel in line.having[case]:
            rows.setdefault(kernel.name, {})[at] = kernel
    ordered = sorted(rows.items(), key=lambda row: max(own.date for own in row[1].values()))
    for name, kernels in reversed(ordered):
        own = [kernels.get(at) for at in range(len(logs))]
        values = [number(kernel.cases[case].value) if kernel else None for kernel in own]
        table.row(name, next(iter(kernels.values())).date[:10] or None, *values)
    ends = [line.ends[case] for line, _ in logs if case in line.ends]
    rose, fell = (sum(end.is_sure and sign * end.delta > 0 for end in ends) for sign in (1, -1))
    summary = (
        f"{amount(len(rows), 'kernel')}; from the first to the last of a line the count rose in"
        f" {rose} of {amount(len(logs), 'line')}, and fell in {fell}"
    )
    return Layout(
        "beside", f"History of {case}", summary, [Section("All lines beside each other", [table])]
    )


def _log(line: Line, log: Log) -> Layout:
    layout = log_layout(log)
    has_dates = len({point.date[:10] for point in log.points} - {""}) > 1
    more: list[Block] = [Section("By date", [log_chart(log, by_date=True)])] if has_dates else []
    facts = [("line", line.name), ("kernels", str(len({own.name for own in line.kernels})))]
    return replace(
        layout,
        title=f"{log.case}: {line.name}",
        blocks=[*layout.blocks, OnPage(more)],
        facts=facts,
        json=to_json(log),
    )


def _release_page(releases: Sequence[_Release]) -> Layout:
    """A fold a release: what each function adds to each case, and below the case's change."""
    folds: list[Block] = []
    for release in releases:
        cases = release.changes
        rows: dict[str, dict[str, int]] = {}
        for case, change in cases.items():
            for own in change.functions:
                rows.setdefault(own.name, {})[case] = own.delta
        largest = sorted(rows, key=lambda name: -max(map(abs, rows[name].values())))
        table = Table([text_column("function"), *map(Column, cases)], sorts=True)
        for name in largest[:_FUNCTIONS]:
            table.row(
                name, *(signed(rows[name][case]) if case in rows[name] else "" for case in cases)
            )
        if left := largest[_FUNCTIONS:]:
            rest = [sum(rows[name].get(case, 0) for name in left) for case in cases]
            table.row(f"{len(left)} more", *map(signed, rest))
        table.row("all", *(f"{change.delta:+}" for change in cases.values()))
        found = dict.fromkeys(commit for change in cases.values() for commit in change.found)
        notes = [Prose(f"A bisection named {commit}.") for commit in found]
        before = dict.fromkeys(change.before for change in cases.values())
        title = f"{release.point.date[:10]} {release.title}: {_changes(cases)}".strip()
        after = Prose(f"After {', '.join(before)}.")
        folds.append(Fold(title, [after, *notes, *_to_find(release), table], release.id))
    intro = "Instructions that each function adds to each case, the newest release first."
    changed = len({release.point.name for release in releases})
    summary = f"{amount(changed, 'release')} changed a count"
    summary += f": {amount(len(releases), 'change')} on all lines"
    return Layout("releases", "What each release changed", summary, [intro, *folds])


def _to_find(release: _Release) -> Iterator[Block]:
    """What a bisection is asked where no commit is known."""
    case, change = max(release.changes.items(), key=lambda item: abs(item[1].delta))
    if change.releases and not change.found:
        (old, new), (arch, cpu, flavour, *_) = change.releases, release.line.kernels[0].line
        ends = f"kentry bisect --good v{old} --bad v{new} --config distro"
        # Debian's config that kentry knows is that of the flavour without a name of its own.
        if flavour == find_arch(arch).debian:
            yield Prose(f"To find the commit: {ends} --arch {arch} --cpu {cpu} --case {case}")


def _compare(lines: Sequence[Line]) -> Layout:
    functions: dict[str, int] = {}
    paths: dict[tuple[int, ...], int] = {}
    kernels: list[dict[str, Any]] = []
    for at, line in enumerate(lines):
        # Recordings of a kernel may have different cases.
        by_name: dict[str, dict[str, Any]] = {}
        for kernel in line.kernels:
            cases = by_name.setdefault(kernel.name, {})
            for case, counted in kernel.cases.items():
                pairs = ((functions.setdefault(f, len(functions)), n) for f, n in counted.functions)
                path = tuple(item for pair in pairs for item in pair)
                index = paths.setdefault(path, len(paths)) if path else None
                cases[case] = [counted.value, index, len(counted.contexts) > 1]
        kernels += [{"name": name, "line": at, "cases": own} for name, own in by_name.items()]
    return Layout(
        "compare",
        "Compare two kernels",
        "",
        [],
        facts=[("unit", "instructions")],
        json={
            "lines": [line.name for line in lines],
            "kernels": kernels,
            "functions": list(functions),
            "paths": list(paths),
        },
        lead=["Choose two; the address of this page then names them. It needs scripts."],
    )


def _feed(title: str, releases: Sequence[_Release]) -> str:
    """An entry a kernel in which a count rose, the newest first."""
    entries = []
    for release in releases:
        lines = []
        for case, change in release.worse.items():
            rows = sorted(change.functions, key=lambda row: -abs(row.delta))
            where = some([f"{row.name} {row.delta:+d}" for row in rows], _NAMED)
            of = f"{case} {change.delta:+}"
            lines.append("; ".join(filter(None, (of, where, *change.found))))
        entries.append(
            {
                "title": f"{release.title}: {_changes(release.worse)}",
                "id": _urn(title, release.title),
                "updated": _time(release.point.date),
                "link": f"{_RELEASES}#{release.id}",
                "text": "\n".join(lines),
            }
        )
    updated = max((entry["updated"] for entry in entries), default=_time(""))
    variables = {"title": title, "id": _urn(title), "updated": updated, "version": __version__}
    return rendered("feed.xml", variables | {"entries": entries})


def _urn(*parts: str) -> str:
    return uuid5(NAMESPACE_URL, "\0".join(parts)).urn


def _time(date: str) -> str:
    """A date of a kernel as the feed wants it, RFC 3339."""
    own = datetime.fromisoformat(date or _NO_DATE)
    return (own if own.tzinfo else own.replace(tzinfo=UTC)).isoformat()
