# SPDX-License-Identifier: GPL-2.0-or-later
"""The history of a tree's commits, which a program measures that reads each commit's recording."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest

from kentry.kernels.tree import find_range
from kentry.results import caveats
from kentry.results.comparison import Real
from kentry.results.recording import INSTRUCTIONS, Recording, write_recording
from kentry.results.studies import Log
from kentry.study.bisection import Question
from kentry.study.commits import Difference, Meter
from kentry.study.log import Neighbours, followed, log_tree
from tests.builders import recording
from tests.unit.compare.test_contexts import in_contexts, stat
from tests.unit.kernels import sources

# Each commit's counts of two cases; the third does not build.
COUNTS = ((10, 20), (10, 20), None, (14, 20), (14, 20), (14, 29), (14, 29), (14, 29))


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    return committed(
        tmp_path,
        [
            counts and recording({"getppid": [("a", counts[0])], "read": [("b", counts[1])]})
            for counts in COUNTS
        ],
    )


def committed(tmp_path: Path, recordings: Sequence[Recording | None]) -> Path:
    """A tree with a commit for each recording, and beside it a program that measures them."""
    folder = tmp_path / "linux"
    folder.mkdir()
    sources.git(folder, "init", "--quiet", "--initial-branch=master", "--template=")
    file = folder / "recording.json"
    for place, one in enumerate(recordings):
        file.unlink(missing_ok=True)
        if one:
            write_recording(one, file)
        sources.commit(folder, f"commit {place}", {"file": str(place)})
    program = tmp_path / "measure"
    program.write_text(f'#!/bin/sh\ngit -C {folder} show "$1:recording.json" > "$2" || exit 125\n')
    program.chmod(0o755)
    return folder


def history(
    tree: Path,
    every: int | None,
    at_once: int = 1,
    commits: int = len(COUNTS),
    cases: Sequence[str] = ("getppid", "read"),
) -> Log:
    span = find_range(tree, f"master~{commits - 1}", "master")
    question = Question(cases=tuple(cases), metric=INSTRUCTIONS, everything=True)
    program = Meter([str(tree.parent / "measure")], tree.parent)
    return log_tree(
        *(span, question, program, {"what": "all"}, lambda fraction, now: None),
        every=every,
        at_once=at_once,
        fresh=False,
    )


@pytest.mark.parametrize(("every", "at_once"), [(None, 1), (3, 1), (1, 3)])
def test_every_change_of_every_case_has_its_place(
    tree: Path, every: int | None, at_once: int
) -> None:
    log = history(tree, every, at_once)
    [change] = log.changes
    # The commit before it has no value.
    assert (change.place, change.delta, len(change.names)) == (3, 4, 2)
    assert log.others
    [other] = log.others
    assert [(change.place, change.delta) for change in other.changes] == [(5, 9)]
    for point, value in zip(log.points, other.values, strict=True):
        counts = COUNTS[point.place]
        assert (point.value, value) == (counts or (None, None))
    assert every != 1 or len(log.points) == len(COUNTS)


def test_what_was_measured_is_found_again(tree: Path) -> None:
    first = history(tree, every=1)
    sources.git(tree, "gc", "--quiet")
    # What could not be measured is tried again.
    (tree.parent / "measure").write_text("#!/bin/sh\nexit 125\n")
    assert history(tree, every=1).changes == first.changes


def test_a_count_that_no_context_has_is_named(tmp_path: Path) -> None:
    sides = [in_contexts(stat([0, 0, 1])), in_contexts(stat([1, 2, 1], entry=301), seed=2)]
    log = history(committed(tmp_path, sides), 1, commits=2, cases=["stat"])
    assert [point.value for point in log.points] == [446, 447]
    sums = [one["text"] for one in log.caveats if one["kind"] == "sum-of-contexts"]
    assert [text.partition(" is")[0] for text in sums] == ["447 instructions of stat"]


def test_a_difference_that_is_not_known_is_no_change_and_named() -> None:
    values: dict[int, Real] = {0: 5}
    apart = Neighbours(0, 2, Difference(3, None, None))
    changes, notes = followed(values, [apart], ["a", "b", "c"], {2: "Linux c"})
    assert (values, changes) == ({0: 5, 2: 8}, [])
    assert notes == [caveats.undecided_between("a", "c")]
