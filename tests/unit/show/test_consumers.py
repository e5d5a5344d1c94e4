# SPDX-License-Identifier: GPL-2.0-or-later
"""flamegraph.pl and speedscope read the exports that are for them."""

import json
import os
import re
import shutil
import subprocess
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest

from kentry.host.cache import cache_dir, sha256_of, write_atomically
from kentry.results.recording import Recording
from kentry.show.export.formats import FORMATS
from tests import ROOT
from tests.builders import skip_without
from tests.unit.show.test_stacks import (
    COUNTS,
    HOSTILE,
    NEW,
    OF_RESULTS,
    OLD,
    every,
    functions,
    hostile,
    in_order,
)

pytestmark = pytest.mark.slow

CONSUMERS = ROOT / "tests" / "consumers"
# Where Debian's libdevel-nytprof-perl has flamegraph.pl.
NYTPROF = "/usr/share/perl5/Devel/NYTProf"


def program(name: str, package: str) -> str:
    """Where a program is; without it the test is skipped, or fails if no skip is allowed."""

    def find() -> str:
        found = shutil.which(name, path=f"{os.environ['PATH']}:{NYTPROF}")
        if not found:
            raise FileNotFoundError(f"{name} is not installed (Debian's package: {package})")
        return found

    skip_without(find, FileNotFoundError)
    return find()


def run(*words: str | Path, cwd: Path | None = None) -> str:
    """What a program prints; it must not complain."""
    env = {**os.environ, "LC_ALL": "C"}
    done = subprocess.run(words, cwd=cwd, env=env, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, ""), done.stderr
    return done.stdout


def files(folder: Path, recordings: Sequence[Recording]) -> dict[str, Path]:
    """The exports in files, by format."""
    found = {}
    for name, export in every(recordings).items():
        found[name] = folder / f"profile.{name}"
        write_atomically(found[name], export.text)
    return found


# --- flamegraph.pl ---------------------------------------------------------------


def flames(folder: Path, recordings: Sequence[Recording]) -> list[str]:
    """The titles of the frames of a flame graph."""
    # Its interpreter is named as an option, because the package's file may not be executable.
    words = ("perl", program("flamegraph.pl", "libdevel-nytprof-perl"), "--countname=instructions")
    picture = run(*words, "--minwidth=0", files(folder, recordings)["folded"])
    titles = ElementTree.fromstring(picture).iter("{http://www.w3.org/2000/svg}title")
    return [title.text or "" for title in titles]


def test_flamegraph_draws_a_frame_for_each_function(tmp_path: Path) -> None:
    titles = flames(tmp_path, [NEW])
    assert "all (576 instructions, 100%)" in titles
    for name, count in COUNTS.items():
        assert f"{name} ({count} instructions, {100 * count / 576:.2f}%)" in titles
    stacks = {stack for one in in_order(NEW).values() for stack, _ in one}
    drawn = {title.partition(" ")[0] for title in titles}
    assert drawn == {"all", *COUNTS, *(name for stack in stacks for name in stack)}


def test_flamegraph_draws_a_difference(tmp_path: Path) -> None:
    titles = flames(tmp_path, [OLD, NEW])
    assert "all (576 instructions, 100%)" in titles
    # The share of the new total by which its own instructions changed.
    change = functions(NEW, "getppid")["__task_pid_nr_ns"]
    change -= functions(OLD, "getppid")["__task_pid_nr_ns"]
    assert any(
        re.fullmatch(rf"__task_pid_nr_ns \(35 .*; {100 * change / 576:+.2f}%\)", title)
        for title in titles
    )


# --- speedscope -------------------------------------------------------------------------


def speedscope(file: Path) -> list[dict[str, Any]]:
    """The profiles that speedscope's importer reads."""
    node, npm = program("node", "nodejs"), program("npm", "npm")
    folder = cache_dir("consumers", sha256_of(CONSUMERS / "package-lock.json")[:16])
    package = folder / "node_modules" / "speedscope"

    def install() -> None:
        if not (folder / "node_modules" / ".package-lock.json").exists():
            for name in ("package.json", "package-lock.json"):
                shutil.copy(CONSUMERS / name, folder)
            words = (npm, "ci", "--ignore-scripts", "--no-audit", "--no-fund")
            subprocess.run(words, cwd=folder, check=True, capture_output=True, timeout=300)

    skip_without(install, subprocess.SubprocessError)
    found: list[dict[str, Any]] = json.loads(run(node, CONSUMERS / "speedscope.cjs", package, file))
    return found


def paths(profile: dict[str, Any]) -> list[tuple[tuple[str, ...], int]]:
    """The stacks of a profile in its order, with how long each lasts."""
    found: list[tuple[tuple[str, ...], int]] = []
    ends: list[tuple[str, int]] = []
    at = 0

    def passed(until: int) -> None:
        nonlocal at
        if until > at:
            found.append((tuple(name for name, _ in ends), until - at))
            at = until

    for depth, name, start, end in profile["calls"]:
        while len(ends) > depth:
            passed(ends[-1][1])
            ends.pop()
        passed(start)
        ends.append((name, end))
    while ends:
        passed(ends[-1][1])
        ends.pop()
    return found


def test_speedscope_reads_its_own_format(tmp_path: Path) -> None:
    found = speedscope(files(tmp_path, [NEW])["speedscope"])
    assert {one["name"]: one["total"] for one in found} == COUNTS
    assert {one["name"]: paths(one) for one in found} == in_order(NEW)
    both = speedscope(files(tmp_path, [OLD, NEW])["speedscope"])
    assert [one["total"] for one in both] == [310, 312, 261, 264]


def test_speedscope_reads_folded_stacks(tmp_path: Path) -> None:
    written = files(tmp_path, [NEW])
    assert set(written) == {name.replace("-", "_") for name in FORMATS} - {*OF_RESULTS}
    expected = Counter[tuple[str, ...]]()
    for name, lasting in in_order(NEW).items():
        for stack, times in lasting:
            expected[name, *stack] += times
    [profile] = speedscope(written["folded"])
    sums = Counter[tuple[str, ...]]()
    for stack, times in paths(profile):
        sums[stack] += times
    assert sums == expected


def test_speedscope_reads_perf_script(tmp_path: Path) -> None:
    found = speedscope(files(tmp_path, [NEW])["perf_script"])
    for one, (name, expected) in zip(found, in_order(NEW).items(), strict=True):
        assert one["name"].startswith(f"{name} ")
        # It is seconds from the first sample to the last, and each change is between two samples.
        assert round(one["total"] * 1_000_000) == COUNTS[name] - 1
        assert [stack for stack, _ in paths(one)] == [stack for stack, _ in expected]


# --- hostile names -------------------------------------------------------------------------


def test_hostile_names_are_read_by_all(tmp_path: Path) -> None:
    written = files(tmp_path, [hostile()])
    count = 3 * len(HOSTILE)
    assert f"all ({count} instructions, 100%)" in flames(tmp_path, [hostile()])
    for name in ("speedscope", "folded"):
        profile, *_ = speedscope(written[name])
        assert profile["total"] == count
    [profile] = speedscope(written["perf_script"])
    assert round(profile["total"] * 1_000_000) == count - 1
