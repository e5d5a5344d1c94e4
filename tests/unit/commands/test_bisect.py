# SPDX-License-Identifier: GPL-2.0-or-later
"""kentry bisect on small git trees, each commit measured by a program that reads its count.

The program is what a board's owner would give to --run; the kernels are built and booted in
tests/qemu/.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import jsonschema
import pytest
from filelock import FileLock

from kentry.cli import main
from kentry.compare.counted import compare
from kentry.count import cache
from kentry.results.comparison import Comparison
from kentry.results.recording import Recording, write_recording
from kentry.study import commits as study_commits
from kentry.study.bisection import _only_comments
from kentry.study.commits import State
from tests.builders import recording, schema, timed
from tests.unit.kernels import sources

# COMMIT FILE: each commit's tree has its recording; one that does not build has none.
_PROGRAM = """#!/bin/sh
echo "$1" >> {log}
git -C {tree} show "$1:recording.json" > "$2" || exit 125
"""


@dataclass
class Tree:
    """A repository whose commits say what they count, and what kentry bisect does with it."""

    folder: Path
    log: Path
    program: Path

    def commit(self, count: int | str, files: dict[str, str] | None = None, **cases: int) -> str:
        """A commit with a count for getppid, and for more `cases`."""
        file = self.folder / "recording.json"
        if count == "skip":
            file.unlink(missing_ok=True)
        else:
            counts = {"getppid": int(count), **cases}
            functions = {
                case: [("handle_exception", 100), ("syscall", own)] for case, own in counts.items()
            }
            write_recording(recording(functions), file)
        return sources.commit(self.folder, f"commit of {count}", files or {})

    def line(self, *counts: int | str) -> list[str]:
        # A file of its own, so that no two commits have the same tree.
        return [self.commit(count, {f"file{i}": "x"}) for i, count in enumerate(counts)]

    def git(self, *words: str) -> str:
        return sources.git(self.folder, *words)

    @property
    def measured(self) -> list[str]:
        return self.log.read_text().split() if self.log.exists() else []

    def bisect(self, good: str, bad: str, *words: str) -> int:
        own = ["--good", good, "--bad", bad, "--tree", str(self.folder), "--run", str(self.program)]
        return main(["bisect", *own, *words])


@pytest.fixture
def tree(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Tree:
    monkeypatch.setenv("KENTRY_CACHE", str(tmp_path / "cache"))
    folder = tmp_path / "linux"
    folder.mkdir()
    sources.git(folder, "init", "--quiet", "--initial-branch=master", "--template=")
    log, program = tmp_path / "log", tmp_path / "measure"
    program.write_text(_PROGRAM.format(log=log, tree=folder))
    program.chmod(0o755)
    return Tree(folder, log, program)


Printed = Callable[[], dict[str, Any]]


@pytest.fixture
def printed(capsys: pytest.CaptureFixture[str]) -> Printed:
    """The JSON on standard output, which is what its schema says."""

    def read() -> dict[str, Any]:
        document: dict[str, Any] = json.loads(capsys.readouterr().out)
        jsonschema.validate(document, schema("bisection-1"))
        return document

    return read


def counted(
    pairs: Counter[tuple[int, int]], old: Recording, new: Recording, cases: list[str]
) -> Comparison:
    """compare(), which takes note of the two recordings."""
    pairs[id(old), id(new)] += 1
    return compare(old, new, cases)


def names(found: dict[str, Any]) -> list[str]:
    return [one["commit"] for one in found["culprits"]]


@pytest.mark.parametrize("at", range(1, 9))
def test_the_commit_is_named_with_its_functions(tree: Tree, printed: Printed, at: int) -> None:
    commits = tree.line(*(10 if place < at else 15 for place in range(9)))
    assert tree.bisect(commits[0], "master", "--json") == 0
    found = printed()
    assert found["culprit"]["commit"] == commits[at]
    assert found["culprit"]["parent"]["commit"] == commits[at - 1]
    assert (found["good"]["value"], found["bad"]["value"], found["delta"]) == (110, 115, 5)
    assert (found["culprit"]["delta"], found["explained"]) == (5, 5)
    assert found["culprit"]["share"] == 100
    assert [(row["name"], row["delta"]) for row in found["functions"]] == [("syscall", 5)]
    # Two ends, three steps of eight commits, and two again.
    assert len(tree.measured) <= 7


def test_of_two_steps_the_larger_share_is_named_and_all_finds_both(
    tree: Tree, printed: Printed
) -> None:
    commits = tree.line(10, 10, 18, 18, 18, 20, 20, 20)
    assert tree.bisect(commits[0], "master", "--json") == 0
    found = printed()
    assert names(found) == [commits[2]]
    assert found["culprit"]["share"] == 80
    assert [one["kind"] for one in found["caveats"]] == ["more-remains"]
    assert tree.bisect(commits[0], "master", "--json", "--all") == 0
    found = printed()
    assert names(found) == [commits[2], commits[5]]
    assert found["culprit"]["commit"] == commits[2]
    assert (found["explained"], found["caveats"]) == (10, [])
    assert tree.bisect(commits[0], "master", "--json", "--all", "--least", "3") == 0
    found = printed()
    assert names(found) == [commits[2]]
    assert [one["kind"] for one in found["caveats"]] == ["more-remains"]


def test_a_count_that_fell_is_searched_the_same_way(tree: Tree, printed: Printed) -> None:
    commits = tree.line(20, 20, 20, 11, 11)
    assert tree.bisect(commits[0], "master", "--json") == 0
    found = printed()
    assert names(found) == [commits[3]]
    assert found["delta"] == -9


def test_commits_that_cannot_be_measured_are_passed(tree: Tree, printed: Printed) -> None:
    commits = tree.line(10, 10, "skip", "skip", 10, 10, 12, 12, "skip", 12)
    assert tree.bisect(commits[0], "master", "--json") == 0
    assert names(printed()) == [commits[6]]


def test_where_they_lie_beside_the_step_all_of_them_are_named(tree: Tree, printed: Printed) -> None:
    commits = tree.line(10, 10, "skip", "skip", 12, 12, 12)
    assert tree.bisect(commits[0], "master", "--json") == 3
    found = printed()
    assert (found["culprit"], found["culprits"]) == (None, [])
    [suspects] = found["suspects"]
    assert [one["commit"] for one in suspects["commits"]] == commits[2:5]
    assert suspects["delta"] == 2


@dataclass
class Merged:
    """Two branches and their merge; `own` are the topic's commits, `main` the main line's."""

    base: str
    own: list[str]
    main: list[str]
    merge: str


def merged(tree: Tree, topic: Sequence[int], main: Sequence[int], after: int) -> Merged:
    base = tree.commit(10)
    tree.git("checkout", "--quiet", "-b", "topic")
    own = [tree.commit(count, {f"own{i}": "x"}) for i, count in enumerate(topic)]
    tree.git("checkout", "--quiet", "master")
    line = [tree.commit(count, {f"main{i}": "x"}) for i, count in enumerate(main)]
    tree.git("merge", "--quiet", "--no-commit", "--strategy=ours", "topic")
    tree.git("checkout", "topic", "--", *(f"own{i}" for i in range(len(own))))
    merge = tree.commit(after)
    tree.commit(after, {"later": "x"})
    return Merged(base, own, line, merge)


def test_a_merge_is_searched_where_its_branch_has_the_change(tree: Tree, printed: Printed) -> None:
    history = merged(tree, topic=[10, 10, 17, 17], main=[10, 10, 10], after=17)
    assert tree.bisect(history.base, "master", "--json") == 0
    assert names(printed()) == [history.own[2]]
    assert tree.bisect(history.base, "master", "--json", "--first-parent") == 0
    found = printed()
    assert names(found) == [history.merge]
    [doubt] = found["culprit"]["doubts"]
    assert "--first-parent" in doubt["text"]


def test_a_merge_that_makes_the_change_itself_is_named(tree: Tree, printed: Printed) -> None:
    history = merged(tree, topic=[10, 10], main=[10, 10], after=13)
    assert tree.bisect(history.base, "master", "--json") == 0
    found = printed()
    assert names(found) == [history.merge]
    assert "--first-parent" not in found["culprit"]["doubts"][0]["text"]


def test_a_merge_whose_branch_has_no_value_is_named_as_that(tree: Tree, printed: Printed) -> None:
    base = tree.commit(10)
    tree.git("checkout", "--quiet", "-b", "topic", base)
    tree.commit("skip", {"own": "x"})
    tree.git("checkout", "--quiet", "master")
    tree.commit(10, {"main": "x"})
    tree.git("merge", "--quiet", "--no-commit", "--strategy=ours", "topic")
    merge = tree.commit(13)
    assert tree.bisect(base, "master", "--json") == 0
    found = printed()
    assert names(found) == [merge]
    assert "not be measured" in found["culprit"]["doubts"][0]["text"]


def test_a_good_commit_aside_is_compared_from_where_the_two_part(
    tree: Tree, printed: Printed
) -> None:
    base = tree.commit(10)
    tree.git("checkout", "--quiet", "-b", "stable")
    good = tree.commit(10, {"stable": "x"})
    tree.git("checkout", "--quiet", "master")
    line = tree.line(10, 10, 14, 14)
    assert tree.bisect(good, "master", "--json") == 0
    found = printed()
    assert names(found) == [line[2]]
    assert [one["kind"] for one in found["caveats"]] == ["aside"]
    assert tree.git("merge-base", good, "master") == base


def test_only_commits_that_touch_the_paths_are_tried(tree: Tree, printed: Printed) -> None:
    commits = [
        tree.commit(10 if place < 5 else 12, {"riscv/a" if place % 2 else "doc": str(place)})
        for place in range(10)
    ]
    assert tree.bisect(commits[0], "master", "--json", "--", "riscv") == 0
    found = printed()
    assert names(found) == [commits[5]]
    tried = {one["commit"] for one in found["steps"]}
    assert tried & set(commits[2:9:2]) <= {commits[4]}


def test_a_change_outside_the_paths_is_said(tree: Tree, capsys: pytest.CaptureFixture[str]) -> None:
    commits = [
        tree.commit(10 if place < 4 else 12, {"riscv/a" if place % 2 else "doc": str(place)})
        for place in range(10)
    ]
    assert tree.bisect(commits[0], "master", "--", "riscv") == 2
    assert "touch riscv" in capsys.readouterr().err


def test_an_end_that_cannot_be_measured(tree: Tree, capsys: pytest.CaptureFixture[str]) -> None:
    commits = tree.line("skip", 10, 12, "skip")
    assert tree.bisect(commits[0], commits[2]) == 2
    assert commits[0][:12] in capsys.readouterr().err
    assert tree.bisect(commits[1], commits[3]) == 2
    assert commits[3][:12] in capsys.readouterr().err


def test_what_cannot_be_searched(tree: Tree, capsys: pytest.CaptureFixture[str]) -> None:
    commits = tree.line(10, 10, 12)
    for good, bad, says in (
        (commits[2], commits[0], "is older than"),
        (commits[0], commits[0], "are one commit"),
        (commits[0], commits[1], "there is no difference"),
        (commits[0], "v9.9", "no commit called 'v9.9'"),
        ("-x", commits[2], "expected one argument"),
    ):
        assert tree.bisect(good, bad) == 2
        assert says in capsys.readouterr().err
    tree.git("checkout", "--quiet", "--orphan", "other")
    other = tree.commit(12, {"other": "x"})
    assert tree.bisect(commits[0], other) == 2
    assert "in common" in capsys.readouterr().err
    assert tree.bisect(commits[0], commits[2], "--", "../..") == 2
    assert "outside" in capsys.readouterr().err


def test_what_is_not_committed_is_not_measured(
    tree: Tree, printed: Printed, capsys: pytest.CaptureFixture[str]
) -> None:
    commits = tree.line(10, 10, 12)
    (tree.folder / "recording.json").write_text("{}")
    assert tree.bisect(commits[0], "HEAD", "--json") == 0
    assert names(printed()) == [commits[2]]
    assert tree.bisect(commits[0], "HEAD") == 0
    assert "has local changes (recording.json)" in capsys.readouterr().err


def test_a_repository_without_a_checkout_is_searched_too(
    tree: Tree, capsys: pytest.CaptureFixture[str]
) -> None:
    commits = tree.line(10, 10, 12)
    bare = tree.folder / "bare.git"
    sources.git(tree.folder, "clone", "--quiet", "--bare", str(tree.folder), str(bare))
    clone = tree.folder / "clone"
    sources.git(tree.folder, "clone", "--quiet", "--no-checkout", str(tree.folder), str(clone))
    words = ("--good", commits[0], "--bad", commits[2], "--run", str(tree.program), "--json")
    for folder in (bare, clone):
        assert main(["bisect", "--tree", str(folder), *words]) == 0
        out, said = capsys.readouterr()
        assert names(json.loads(out)) == [commits[2]]
        assert "local changes" not in said


def test_a_program_that_fails_ends_the_run_and_continue_goes_on(
    tree: Tree, printed: Printed, capsys: pytest.CaptureFixture[str]
) -> None:
    commits = tree.line(10, 10, 10, 10, 10, 16, 16, 16)
    whole = tree.program.read_text()
    tree.log.touch()
    fails = f"#!/bin/sh\n[ $(wc -l < {tree.log}) -lt 3 ] || exit 1\n"
    tree.program.write_text(fails + whole)
    assert tree.bisect(commits[0], "master") == 2
    assert "ended with status 1" in capsys.readouterr().err
    before = tree.measured
    assert len(before) == 3
    assert main(["bisect", "--log", "--tree", str(tree.folder), "--json"]) == 0
    steps = json.loads(capsys.readouterr().out)["steps"]
    assert [one["commit"] for one in steps] == before
    tree.program.write_text(whole)
    assert main(["bisect", "--continue", "--tree", str(tree.folder), "--json"]) == 0
    assert names(printed()) == [commits[5]]
    # What was known is not measured again, but for the culprit and its parent.
    after = tree.measured[3:]
    assert set(after) & set(before) <= {commits[4], commits[5]}
    assert len(after) <= 5


def test_continue_refuses_other_options(tree: Tree, capsys: pytest.CaptureFixture[str]) -> None:
    again = ["bisect", "--continue", "--tree", str(tree.folder)]
    assert main(again) == 2
    assert "no bisection" in capsys.readouterr().err
    commits = tree.line(10, 12)
    assert tree.bisect(commits[0], commits[1]) == 0
    assert main([*again, "--good", commits[0]]) == 2
    assert main(again) == 0


def test_options_of_kernels_have_no_effect_beside_a_program(
    tree: Tree, capsys: pytest.CaptureFixture[str]
) -> None:
    commits = tree.line(10, 12)
    assert tree.bisect(commits[0], commits[1], "--config", "distro") == 2
    assert "--config has no effect" in capsys.readouterr().err
    assert tree.bisect(commits[0], commits[1], "--arch", "arm64") == 2
    assert "on recordings" not in capsys.readouterr().err


def test_several_cases_are_searched_among_the_same_recordings(
    tree: Tree, printed: Printed, monkeypatch: pytest.MonkeyPatch
) -> None:
    pairs: Counter[tuple[int, int]] = Counter()
    monkeypatch.setattr(
        study_commits, "compare", lambda old, new, cases: counted(pairs, old, new, cases)
    )
    commits = [
        tree.commit(10 if place < 3 else 12, {"file": str(place)}, read=20 if place < 6 else 27)
        for place in range(9)
    ]
    assert tree.bisect(commits[0], "master", "--json", "--case", "read,getppid") == 0
    found = printed()
    [other] = found["others"]
    answers = {one["case"]: one for one in (found, other)}
    assert set(answers) == {"getppid", "read"}
    for case, place, delta in (("getppid", 3, 2), ("read", 6, 7)):
        assert names(answers[case]) == [commits[place]]
        assert answers[case]["delta"] == answers[case]["explained"] == delta
    # The two ends, at most three steps a case, and two again of each.
    assert len(tree.measured) <= 2 + 3 + 3 + 4
    # Two recordings are compared once.
    assert max(pairs.values()) == 1
    assert main(["bisect", "--continue", "--tree", str(tree.folder)]) == 0


def test_a_case_that_does_not_change_is_no_error_beside_one_that_does(
    tree: Tree, printed: Printed
) -> None:
    commits = [tree.commit(10, {"f": str(place)}, read=20 + 4 * (place > 1)) for place in range(4)]
    assert tree.bisect(commits[0], "master", "--json", "--case", "getppid,read") == 0
    found = printed()
    [other] = found["others"]
    same, changed = (found, other) if found["case"] == "getppid" else (other, found)
    assert (same["culprits"], same["delta"]) == ([], 0)
    assert [one["kind"] for one in same["caveats"]] == ["no-difference"]
    assert names(changed) == [commits[2]]
    assert tree.bisect(commits[0], "master", "--case", "getppid") == 2


def test_operands_are_checked_while_another_bisection_of_the_tree_runs(tree: Tree) -> None:
    commits = tree.line(10, 12)
    own = ("--tree", str(tree.folder), "--run", str(tree.program))
    argv = [sys.executable, "-m", "kentry", "bisect", "--good", commits[0], *own]
    with FileLock(State(tree.folder).folder / "lock"):
        for words in (("--bad", "v9.9"), ("--bad", commits[1], "--case", "nosuch")):
            done = subprocess.run([*argv, *words], check=False, timeout=60)
            assert done.returncode == 2


def test_the_commit_is_named_before_it_is_verified(
    tree: Tree, printed: Printed, capsys: pytest.CaptureFixture[str]
) -> None:
    commits = tree.line(10, 10, 13, 13)
    whole = tree.program.read_text()
    # Ctrl-C at the first measurement of the verification.
    stops = f"#!/bin/sh\n[ $(wc -l < {tree.log}) -lt 4 ] || kill -INT $PPID\n"
    tree.log.touch()
    tree.program.write_text(stops + whole)
    assert tree.bisect(commits[0], "master") == 130
    said = capsys.readouterr().err
    assert f'not verified yet: {commits[2][:12]} ("commit of 13")' in said
    assert "syscall +3" in said
    assert "--no-verify" in said
    assert f"kentry bisect --continue --tree {tree.folder}" in said
    log = ["bisect", "--log", "--tree", str(tree.folder)]
    assert main([*log, "--json"]) == 0
    [row] = json.loads(capsys.readouterr().out)["provisional"]
    assert (row["commit"], row["delta"]) == (commits[2], 3)
    assert main(log) == 0
    assert "--continue" in capsys.readouterr().out
    tree.program.write_text(whole)
    assert main(["bisect", "--continue", "--tree", str(tree.folder), "--json"]) == 0
    assert names(printed()) == [commits[2]]
    assert main([*log, "--json"]) == 0
    assert "provisional" not in json.loads(capsys.readouterr().out)


def test_without_verification_nothing_is_measured_twice_and_the_result_says_so(
    tree: Tree, printed: Printed
) -> None:
    commits = tree.line(10, 10, 10, 13, 13, 13)
    assert tree.bisect(commits[0], "master", "--json", "--no-verify") == 0
    found = printed()
    assert names(found) == [commits[3]]
    assert (found["culprit"]["value"], found["culprit"]["delta"]) == (113, 3)
    assert [one["kind"] for one in found["caveats"]] == ["not-verified"]
    assert len(tree.measured) == len(set(tree.measured))


def test_what_a_program_measured_is_not_said_to_be_booted(
    tree: Tree, capsys: pytest.CaptureFixture[str]
) -> None:
    commits = tree.line(10, "skip", 10, 12)
    assert tree.bisect(commits[0], "master") == 0
    assert main(["bisect", "--log", "--tree", str(tree.folder)]) == 0
    printed, said = capsys.readouterr()
    assert "boot" not in printed
    assert "step 1 of about 4: " in said


def test_what_a_topic_merged_itself_is_not_its_own(tree: Tree, printed: Printed) -> None:
    """The topic merges the main line, which grew before good, and adds a little of its own."""
    tree.commit(10)
    tree.git("checkout", "--quiet", "-b", "topic")
    tree.commit(10, {"t1": "x"})
    tree.git("checkout", "--quiet", "master")
    for place, count in enumerate((10, 15, 15)):
        good = tree.commit(count, {f"m{place}": "x"})
    tree.commit(15, {"m5": "x"})
    tree.git("checkout", "--quiet", "topic")
    tree.git("merge", "--quiet", "--no-commit", "--strategy=ours", "master")
    tree.commit(15)
    culprit = tree.commit(18, {"t2": "x"})
    tree.git("checkout", "--quiet", "master")
    tree.git("merge", "--quiet", "--no-commit", "--no-ff", "topic")
    tree.commit(18)
    tree.commit(18, {"later": "x"})
    for words in ((), ("--all",)):
        assert tree.bisect(good, "master", "--json", *words) == 0
        found = printed()
        assert (names(found), found["explained"]) == ([culprit], 3)


def test_a_good_commit_of_a_topic_is_followed_from_there(tree: Tree, printed: Printed) -> None:
    tree.commit(10)
    tree.git("checkout", "--quiet", "-b", "topic")
    good = tree.commit(15, {"t1": "x"})
    culprit = tree.commit(17, {"t2": "x"})
    tree.git("checkout", "--quiet", "master")
    tree.commit(10, {"m1": "x"})
    tree.git("merge", "--quiet", "--no-commit", "--no-ff", "--strategy=ours", "topic")
    tree.commit(17)
    assert tree.bisect(good, "master", "--json", "--all") == 0
    found = printed()
    assert (names(found), found["delta"], found["explained"]) == ([culprit], 2, 2)


def test_a_branch_that_does_not_explain_its_merge_is_not_blamed(
    tree: Tree, printed: Printed
) -> None:
    """The topic's commit is also on the main line; the merge adds something of its own."""
    tree.commit(10)
    tree.git("checkout", "--quiet", "-b", "topic")
    tree.commit(15, {"fix": "x"})
    tree.git("checkout", "--quiet", "master")
    good = tree.commit(15, {"fix": "x", "m": "x"})
    tree.git("merge", "--quiet", "--no-commit", "--no-ff", "--strategy=ours", "topic")
    merge = tree.commit(18)
    assert tree.bisect(good, "master", "--json") == 0
    found = printed()
    assert names(found) == [merge]
    assert [one["kind"] for one in found["culprit"]["doubts"]] == ["doubt"]


def test_each_branch_of_an_octopus_is_searched(tree: Tree, printed: Printed) -> None:
    base = tree.commit(10)
    own = {}
    for name, count in (("one", 11), ("two", 19)):
        tree.git("checkout", "--quiet", "-b", name, base)
        own[name] = tree.commit(count, {name: "x"})
    tree.git("checkout", "--quiet", "master")
    tree.commit(10, {"m": "x"})
    tree.git("merge", "--quiet", "--no-commit", "--strategy=ours", "one", "two")
    tree.commit(20)
    assert tree.bisect(base, "master", "--json", "--all") == 0
    assert set(names(printed())) == set(own.values())
    assert tree.bisect(base, "master", "--json") == 0
    assert names(printed()) == [own["two"]]


def test_a_step_beside_commits_without_a_value_may_lie_outside_the_paths(
    tree: Tree, printed: Printed
) -> None:
    first = tree.commit(10)
    broken = tree.commit("skip", {"riscv/a": "1"})
    mended = tree.commit("skip", {"doc": "1"})
    last = tree.commit(12, {"riscv/a": "2"})
    tree.commit(12, {"riscv/a": "3"})
    assert tree.bisect(first, "master", "--json", "--", "riscv") == 3
    [suspects] = printed()["suspects"]
    assert [one["commit"] for one in suspects["commits"]] == [broken, mended, last]


def test_paths_that_nothing_touches_are_refused_at_once(
    tree: Tree, capsys: pytest.CaptureFixture[str]
) -> None:
    commits = tree.line(10, 12)
    assert tree.bisect(commits[0], commits[1], "--", "riskv") == 2
    assert "touches riskv" in capsys.readouterr().err
    assert tree.measured == []


def test_a_subject_of_odd_characters_is_one_commit(tree: Tree, printed: Printed) -> None:
    commits = tree.line(10, 10)
    tree.git("commit", "--quiet", "--allow-empty", "-m", "a\x0cb\u2028c\x1cd\x85e\rf")
    culprit = tree.commit(12, {"x": "x"})
    assert tree.bisect(commits[0], "master", "--json") == 0
    assert names(printed()) == [culprit]


def test_several_are_measured_at_once(tree: Tree, printed: Printed) -> None:
    commits = tree.line(*[10] * 9, *[13] * 8)
    assert tree.bisect(commits[0], "master", "--json", "--jobs", "4") == 0
    found = printed()
    assert names(found) == [commits[9]]
    assert {step["value"] for step in found["steps"]} == {110, 113}


def test_the_smallest_change_may_be_larger_than_any(tree: Tree, printed: Printed) -> None:
    commits = tree.line(10, 12, 14, 16)
    assert tree.bisect(commits[0], "master", "--json", "--all", "--least", "2.5") == 0
    found = printed()
    assert found["culprits"] == found["suspects"] == []
    assert [one["kind"] for one in found["caveats"]] == ["no-step"]


def test_a_program_that_changes_its_mind_leaves_a_suspect(tree: Tree, printed: Printed) -> None:
    commits = tree.line(10, 10, 13, 13)
    # From the fifth time on it measures the same of every commit.
    always = f"$([ $(wc -l < {tree.log}) -gt 4 ] && echo {commits[0]} || echo $1)"
    text = tree.program.read_text().replace("$1:recording.json", f"{always}:recording.json")
    tree.program.write_text(text)
    assert tree.bisect(commits[0], "master", "--json") == 3
    found = printed()
    assert [one["commit"] for one in found["suspects"][0]["commits"]] == [commits[2]]
    assert [one["kind"] for one in found["caveats"]] == ["unconfirmed"]


def test_a_bisection_of_another_kentry_does_not_go_on(
    tree: Tree, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    commits = tree.line(10, 12)
    assert tree.bisect(commits[0], commits[1]) == 0
    monkeypatch.setattr(cache, "code_digest", lambda folder: "another")
    assert main(["bisect", "--continue", "--tree", str(tree.folder)]) == 2
    assert "has changed since" in capsys.readouterr().err


def test_a_command_with_an_open_quote(tree: Tree, capsys: pytest.CaptureFixture[str]) -> None:
    commits = tree.line(10, 12)
    ends = ["--good", commits[0], "--bad", commits[1], "--tree", str(tree.folder)]
    assert main(["bisect", *ends, "--run", "a 'b"]) == 2
    assert "Mend the quotes" in capsys.readouterr().err


@pytest.mark.parametrize(("factor", "code"), [(1.2, 0), (1.0003, 3)])
def test_a_time_is_searched_where_its_intervals_are_apart(
    tree: Tree, printed: Printed, factor: float, code: int
) -> None:
    commits = []
    for place in range(8):
        ns = 100 * (factor if place > 4 else 1) + place / 1000
        write_recording(timed({"getppid": ns}), tree.folder / "recording.json")
        commits.append(sources.commit(tree.folder, f"commit {place}", {f"f{place}": "x"}))
    assert tree.bisect(commits[0], "master", "--json", "--metric", "ns") == code
    found = printed()
    if not code:
        assert names(found) == [commits[5]]
        assert found["unit"] == "ns"
        one = found["culprit"]
        assert one["value"] - one["parent"]["value"] == pytest.approx(one["delta"])
    assert [one["kind"] for one in found["caveats"]] == ["noise" if not code else "undecided"]


@pytest.mark.parametrize(
    ("diff", "comments"),
    [
        ("+/* one */\n-// two\n+ * three\n+ */\n+\n", True),
        ("+\t/* begins\n+\t * goes on\n+\t */\n", True),
        ("-*res = 1;\n+*res = 2;\n", False),
        ("+int x = 5; /* n */\n", False),
        ("+\t* res = 1;\n", False),
        ("+/* a */ call();\n", False),
        ("", False),
    ],
)
def test_what_is_only_a_comment(diff: str, comments: bool) -> None:
    assert _only_comments(f"--- a/x\n+++ b/x\n@@ -1 +1 @@\n{diff}") == comments
