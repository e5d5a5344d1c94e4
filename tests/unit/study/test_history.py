# SPDX-License-Identifier: GPL-2.0-or-later
"""The history of a store: which kernels are in one line, in which order, and where they differ."""

from __future__ import annotations

import hashlib
import re
import shlex
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest

from kentry.cli import build_parser, main
from kentry.results.document import dump, to_json
from kentry.results.recording import Recording, write_recording
from kentry.store.store import Store
from kentry.study import history
from tests.builders import recording
from tests.golden import test_golden
from tests.unit.compare.test_contexts import in_contexts
from tests.unit.show.pages import HOSTILE, Page

DAYS = ("2026-01-09", "2026-02-01", "2026-03-05", "2026-04-02", "2026-05-01")
ATOM = "{http://www.w3.org/2005/Atom}"


def package(
    version: str,
    counts: Mapping[str, Sequence[tuple[str, int]]],
    date: str = DAYS[0],
    *,
    flavour: str = "arm64",
    compiler: str = "gcc-12 (Debian 12.2.0-14) 12.2.0",
    cpu: str = "max",
    words: str = "nokaslr",
) -> Recording:
    """A recording of a kernel of Debian's."""
    release = f"{version.partition('-')[0]}+deb12-{flavour}"
    kernel = {
        "spec": "debian:6.12",
        "release": release,
        "banner": f"Linux version {release} ({compiler}) #1 SMP Debian {version} ({date})",
        "compiler": compiler,
        "origin": {"kind": "debian", "version": version},
    }
    return recording(counts, kernel=kernel, target={"processor": cpu, "cmdline": words})


def stored(tmp_path: Path, recordings: Sequence[Recording]) -> str:
    """The place of a store that has them, added in this order."""
    folder, place = tmp_path / "files", str(tmp_path / "store")
    folder.mkdir(exist_ok=True)
    store = Store(place, create=True)
    for number, one in enumerate(recordings):
        write_recording(one, folder / f"{number}.json")
        assert [own.error for own in store.add([folder / f"{number}.json"])] == [None]
    return place


def of_read() -> dict[str, Any]:
    """A bisection between the releases that rising() has."""
    document: dict[str, Any] = to_json(test_golden.a_bisection())
    document |= {"case": "read", "arch": "arm64"}
    document["good"]["subject"], document["bad"]["subject"] = "Linux 6.12.9", "Linux 6.12.10"
    document["origin"] = {"cpu": "max"}
    return document


def lines_of(place: str) -> list[history.Line]:
    return history.history(place, history.read_sources(place), lambda fraction, now: None)


def rising(*values: int) -> list[Recording]:
    """Releases 6.12.9, 6.12.10, ... of one line, in which read has these counts."""
    return [
        package(f"6.12.{9 + at}-1", {"read": [("a", 10), ("b", value - 10)]}, DAYS[at])
        for at, value in enumerate(values)
    ]


def test_kernels_are_in_the_order_of_versions_and_changes_are_where_counts_differ(
    tmp_path: Path,
) -> None:
    one, two, three, four = rising(20, 20, 27, 22)
    place = stored(tmp_path, [four, one, three, two])
    [line] = lines_of(place)
    log = line.logs["read"]
    names = ["debian:6.12.9-1", "debian:6.12.10-1", "debian:6.12.11-1", "debian:6.12.12-1"]
    assert [point.name for point in log.points] == names
    assert [point.date[:10] for point in log.points] == list(DAYS[:4])
    told = [(one.names, one.old, one.new, one.releases) for one in log.changes]
    assert told == [
        ((names[2],), 20, 27, ("6.12.10", "6.12.11")),
        ((names[3],), 27, 22, ("6.12.11", "6.12.12")),
    ]
    assert [(own.name, own.delta) for own in log.changes[0].functions] == [("b", 7)]
    # What the index has, which another part of kentry wrote.
    statement = "SELECT value FROM history WHERE metric = 'instructions' ORDER BY package_version"
    indexed = sorted(value for [value] in Store(place).query(statement)[1])
    assert sorted(point.value or 0 for point in log.points) == indexed


def test_a_line_has_one_processor_flavour_compiler_and_command_line(tmp_path: Path) -> None:
    apart = [
        {},
        {"flavour": "rt-arm64"},
        {"compiler": "gcc-14 (Debian 14.2.0-19) 14.2.0"},
        {"cpu": "cortex-a76"},
        {"words": "nokaslr mitigations=off"},
    ]
    counts = {"read": [("a", 10)]}
    place = stored(
        tmp_path, [package(version, counts, **own) for own in apart for version in ("1.2", "1.3")]
    )
    lines = lines_of(place)
    assert {line.name: len(line.kernels) for line in lines} == dict.fromkeys(
        [
            "arm64 max, gcc 12",
            "arm64 max, rt-arm64, gcc 12",
            "arm64 max, gcc 14",
            "arm64 cortex-a76, gcc 12",
            "arm64 max, gcc 12, mitigations=off",
        ],
        2,
    )


@pytest.mark.parametrize(
    ("release", "flavour"),
    [
        ("6.1.0-46-arm64", "arm64"),
        ("6.12.117+deb12-cloud-amd64", "cloud-amd64"),
        ("6.12.115+deb13.1-arm64-16k", "arm64-16k"),
        ("6.12.74+deb13+1-rt-arm64", "rt-arm64"),
        ("6.10.11+bpo-amd64", "amd64"),
        ("7.0.0-rc3", ""),
        ("6.12.95", ""),
        ("7.0.0-rc3-next-20260101", "next"),
        ("7.0.0-rc3-00012-g0123456789ab-dirty", ""),
        ("6.12.9-g0123456789ab", ""),
        ("6.12.9-dirty", ""),
        ("6.12.9-64k", "64k"),
        ("7.0.0-rc3-next-20260101-00012-g0123456789ab", "next"),
        ("7.0.0-rc3-next-20260101-64k", "next-64k"),
        ("6.1.0-0.deb11.21-arm64", "arm64"),
        ("6.12.0-55.8.1.el10_1.aarch64", ""),
        ("6.12.9-200.fc41.x86_64+debug", "debug"),
        ("6.12.9-arch1-1", ""),
        ("6.8.0-45-generic", "generic"),
    ],
)
def test_the_flavour_is_what_follows_the_version(
    release: str, flavour: str, tmp_path: Path
) -> None:
    own = recording({"read": [("a", 10)]}, kernel={"release": release})
    [line] = lines_of(stored(tmp_path, [own]))
    assert line.kernels[0].line[2] == (flavour or "-")


def test_commits_of_a_tree_are_in_the_order_in_which_they_were_made(tmp_path: Path) -> None:
    recordings = [
        recording(
            {"read": [("a", 10 + place)]},
            kernel={
                "release": "6.12.0",
                "banner": "Linux version 6.12.0 #1 SMP Thu Jan  1 00:00:00 UTC 1970",
                "origin": {
                    "kind": "tree",
                    "config": "tiny",
                    "commit": f"{9 - place}" * 40,
                    "subject": f"commit {place}",
                    "date": date,
                },
            },
        )
        for place, date in (
            (3, "2026-01-03T10:00:00+00:00"),
            # In UTC 23:00 of the second, and 07:30 of the third.
            (1, "2026-01-03T01:00:00+02:00"),
            (2, "2026-01-02T23:30:00-08:00"),
        )
    ]
    [line] = lines_of(stored(tmp_path, recordings))
    assert [point.title for point in line.logs["read"].points] == [
        "commit 1",
        "commit 2",
        "commit 3",
    ]
    assert [change.names for change in line.logs["read"].changes] == [("7" * 40,), ("6" * 40,)]


def test_a_candidate_comes_before_its_release_and_a_kernel_counts_once(tmp_path: Path) -> None:
    def built(release: str, count: int) -> Recording:
        return recording({"read": [("a", count)]}, kernel={"release": release, "spec": release})

    place = stored(tmp_path, [built("7.0.0", 5), built("7.0.0-rc2", 3), built("7.0.0-rc2", 4)])
    [line] = lines_of(place)
    # As it was added last.
    assert [point.value for point in line.logs["read"].points] == [4, 5]


@pytest.mark.parametrize(
    ("origin", "names"),
    [
        ({"kind": "image"}, ["image:Image 6.12.9 0000000a", "image:Image 6.12.9 0000000b"]),
        ({"kind": "source", "version": "6.12.9-1"}, ["source:6.12.9-1"]),
        ({"version": "6.12.9-1", "date": "0001-01-01T00:00:00+05:00"}, 2),
        ({"kind": "tree", "commit": "c" * 40}, ["c" * 40]),
        ({"kind": "tree", "commit": "c" * 40, "patched_commit": "d" * 40}, ["d" * 40]),
    ],
)
def test_a_spec_that_names_many_kernels_is_not_their_name(
    origin: dict[str, str], names: list[str] | int, tmp_path: Path
) -> None:
    kernel = {"spec": "image:Image", "release": "6.12.9", "origin": origin}
    images = [kernel | {"image_sha256": digit.rjust(8, "0") + 56 * "0"} for digit in "ab"]
    place = stored(tmp_path, [recording({"read": [("a", 9)]}, kernel=own) for own in images])
    [line] = lines_of(place)
    own = [point.name for point in line.logs["read"].points]
    assert names in (own, len(own))


@pytest.mark.parametrize(
    ("newest", "kind", "cell"),
    [
        ([40, 60, 60], "sum-of-contexts", "60 (0)"),
        ([20, 20, 60], "undecided", "20 (?)"),
    ],
)
def test_a_count_that_no_recording_has_is_said_to_be_a_sum(
    newest: list[int], kind: str, cell: str, tmp_path: Path
) -> None:
    recordings = []
    for at, counts in enumerate(([20, 20, 40], newest)):
        own = in_contexts([[("a", count)] for count in counts])
        own.kernel = {**own.kernel, "release": f"6.12.{at}", "spec": f"6.12.{at}"}
        recordings.append(own)
    place, site = stored(tmp_path, recordings), tmp_path / "site"
    [line] = lines_of(place)
    # In a context that both have nothing changed, or it is not known.
    assert line.logs["stat"].points[-1].value == 20
    kinds = {note["kind"] for note in line.logs["stat"].caveats}
    assert kinds & {"sum-of-contexts", "undecided"} == {kind}
    assert main(["history", place, "-o", str(site)]) == 0
    # The overview and the table of all lines have what the newest recording has.
    assert cell in (site / "index.html").read_text()


def test_only_what_is_new_is_read_and_compared(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    *old, newest = rising(20, 21, 22, 23, 24)
    place = stored(tmp_path, old)
    lines_of(place)
    kept = {file: file.stat().st_ino for file in (tmp_path / "cache/compared").iterdir()}
    assert len(kept) == 4 + 3 + 1
    lines_of(stored(tmp_path, [*old, newest]))
    after = {file: file.stat().st_ino for file in (tmp_path / "cache/compared").iterdir()}
    assert len(after) == 5 + 4 + 2
    assert after.items() >= kept.items()
    # What is damaged, or in another's place, is made again.
    damaged, *others = sorted(kept)
    texts = [file.read_text() for file in others]
    damaged.write_text(damaged.read_text().replace("2", "3"))
    for file, text in zip(others, reversed(texts), strict=True):
        file.write_text(text)
    [line] = lines_of(place)
    assert [point.value for point in line.logs["read"].points] == [20, 21, 22, 23, 24]


@pytest.mark.parametrize(
    ("counts", "changes"),
    [
        ((20, 27), {}),
        # Of another processor or metric, or a change the other way.
        ((20, 27), {"origin": {"cpu": "cortex-a76"}}),
        ((20, 27), {"metric": "ns"}),
        ((27, 20), {}),
    ],
    ids=str,
)
def test_a_commit_that_a_bisection_named_stands_at_its_change(
    counts: tuple[int, int], changes: dict[str, Any], tmp_path: Path
) -> None:
    place = stored(tmp_path, rising(*counts))
    document = of_read() | changes
    # A later one that found none, of another config.
    none: dict[str, Any] = {"culprits": [], "culprit": None}
    for answer in ({}, none):
        file = tmp_path / "bisection.json"
        file.write_text(dump(document | answer))
        assert [own.error for own in Store(place).add([file])] == [None]
    [line] = lines_of(place)
    [change] = line.logs["read"].changes
    if changes or counts == (27, 20):
        assert change.found == ()
        return
    culprit = document["culprits"][0]
    assert change.found[0].startswith(culprit["commit"][:12])
    assert culprit["subject"] in change.found[0]


def test_the_site_has_a_page_a_case_and_a_feed_of_what_got_worse(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    place, site = stored(tmp_path, rising(20, 27, 25, 26)), tmp_path / "site"
    assert main(["history", place, "-o", str(site)]) == 0
    names = {file.name for file in site.iterdir()}
    assert names == {"index.html", "case-read.html", "releases.html", "compare.html", "feed.xml"}
    feed = ElementTree.fromstring((site / "feed.xml").read_bytes())
    updated = [entry.findtext(f"{ATOM}updated") for entry in feed.iter(f"{ATOM}entry")]
    assert updated == [f"{DAYS[3]}T00:00:00+00:00", f"{DAYS[1]}T00:00:00+00:00"]
    assert feed.findtext(f"{ATOM}updated") == updated[0]
    ids = [entry.findtext(f"{ATOM}id") or "" for entry in feed.iter(f"{ATOM}entry")]
    assert len(set(ids)) == 2 and all(one.startswith("urn:uuid:") for one in ids)
    # Every link leads to a file of the site.
    links = [link.get("href") or "" for link in feed.iter(f"{ATOM}link")]
    assert {link.partition("#")[0] for link in links} <= names
    for link in links:
        file, _, place_in_it = link.partition("#")
        assert f'id="{place_in_it}"' in (site / file).read_text() or not place_in_it
    # The page of comparisons has every count.
    [document] = Page((site / "compare.html").read_text()).json
    count, path_number, *_ = document["kernels"][1]["cases"]["read"]
    path = document["paths"][path_number]
    counted = {document["functions"][path[at]]: path[at + 1] for at in range(0, len(path), 2)}
    assert count == 27 and counted == {"a": 10, "b": 17}
    # What it says to type is what kentry takes.
    text = (site / "releases.html").read_text()
    [asked] = re.findall(r"kentry (bisect --good v6.12.9 --bad v6.12.10 [^<]*)", text)
    build_parser().parse_args(shlex.split(asked))
    assert "--arch arm64 --cpu max --case read" in asked
    before = {file.name: file.stat().st_mtime_ns for file in site.iterdir()}
    capsys.readouterr()
    assert main(["history", place, "-o", str(site)]) == 0
    assert {file.name: file.stat().st_mtime_ns for file in site.iterdir()} == before
    assert "0 of 5" in capsys.readouterr().out
    # On another day, too; but for what is no page.
    assert "page of" not in (site / "index.html").read_text()
    (site / "index.html").write_bytes(b"\xff")
    assert main(["history", place, "-o", str(site)]) == 0
    assert "1 of 5" in capsys.readouterr().out
    (site / "feed.xml").unlink()
    assert main(["history", place, "-o", str(site)]) == 0
    assert "1 of 5" in capsys.readouterr().out


def test_pages_are_drawn_again_where_a_store_or_the_code_says_something_else(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    drawn = list[str]()

    def site(lines: Sequence[history.Line], title: str) -> Iterator[tuple[str, str]]:
        drawn.append(title)
        yield "index.html", f"{title} {len(lines[0].kernels)}"

    monkeypatch.setattr("kentry.show.history.site", site)
    place, folder = stored(tmp_path, rising(20, 27)), tmp_path / "site"
    for times in (1, 1):
        assert main(["history", place, "-o", str(folder)]) == 0
        assert len(drawn) == times
    stored(tmp_path, rising(20, 27, 25))
    assert main(["history", place, "-o", str(folder)]) == 0
    assert (folder / "index.html").read_text() == "store 3"
    monkeypatch.setattr("kentry.commands.history._drawing_digest", lambda: "another")
    assert main(["history", place, "-o", str(folder)]) == 0
    assert main(["history", place, "-o", str(tmp_path / "other")]) == 0
    assert len(drawn) == 4
    Path(place).rename(tmp_path / "renamed")
    assert main(["history", str(tmp_path / "renamed"), "-o", str(folder)]) == 0
    assert (folder / "index.html").read_text() == "renamed 3"


def test_a_bisection_that_comes_back_is_on_the_pages(tmp_path: Path) -> None:
    place, site = stored(tmp_path, rising(20, 27)), tmp_path / "site"
    file = tmp_path / "bisection.json"
    file.write_text(dump(of_read()))
    assert [own.error for own in Store(place).add([file])] == [None]
    key = hashlib.sha256(file.read_bytes()).hexdigest()
    [stored_at] = (tmp_path / "store" / "objects").rglob(f"{key}*")
    kept = stored_at.read_bytes()
    commit = of_read()["culprits"][0]["commit"][:12]
    for content, has in ((b"", False), (kept, True)):
        stored_at.write_bytes(content)
        assert main(["history", place, "-o", str(site)]) == 0
        assert (commit in (site / "releases.html").read_text()) == has


def test_names_from_anyone_stay_inside_the_folder_and_the_pages(tmp_path: Path) -> None:
    counts = {"../../read": [(HOSTILE, 10)], "read": [("a", 5)], "Read": [("a", 6)]}
    more = {"../../read": [(HOSTILE, 12)], "read": [("a", 7)], "Read": [("a", 8)]}
    recordings = [package("6.12.9-1", counts), package(f"6.12.10-1{HOSTILE}", more, DAYS[1])]
    place, site = stored(tmp_path, recordings), tmp_path / "deep" / "site"
    assert main(["history", place, "-o", str(site)]) == 0
    assert [path.name for path in (tmp_path / "deep").iterdir()] == ["site"]
    assert len(list(site.iterdir())) == 3 + 4
    for file in site.iterdir():
        assert "<script>document.title" not in file.read_text()
    ElementTree.fromstring((site / "feed.xml").read_bytes())


def test_a_store_without_counts_or_with_a_lost_object_is_a_sentence(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ["-o", str(tmp_path / "site")]
    Store(str(tmp_path / "empty"), create=True)
    assert main(["history", str(tmp_path / "empty"), *words]) == 2
    assert main(["history", str(tmp_path / "none"), *words]) == 2
    place = stored(tmp_path, rising(20, 27))
    next((tmp_path / "store" / "objects").rglob("*.gz")).unlink()
    assert main(["history", place, *words]) == 2
    assert "Traceback" not in capsys.readouterr().err
    assert main(["history", place]) == 2
