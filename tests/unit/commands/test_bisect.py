# SPDX-License-Identifier: GPL-2.0-or-later
"""kentry bisect on small git trees, each commit measured by a program that reads its count.

The program is what a board's owner would give to --meter; the kernels are built and booted in
tests/qemu/.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from filelock import FileLock

from kentry.cli import main
from kentry.compare.counted import compare
from kentry.count import cache
from kentry.host.cache import cache_dir
from kentry.results.caveats import not_time
from kentry.results.comparison import Comparison
from kentry.results.recording import Recording, write_recording
from kentry.study import commits as study_commits
from kentry.study.bisection import _only_comments
from kentry.study.commits import State
from tests.builders import recording, timed, validate
from tests.processes import PATIENCE
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
    capsys: pytest.CaptureFixture[str]

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

    def graph(self, rows: str) -> dict[str, str]:
        """Commits by name, each NAME=COUNT[:PARENT,...], of the one before by default."""
        ids: dict[str, str] = {}
        for name, count, parents in re.findall(r"(\w+)=(\w+)(?::([\w,]+))?", rows):
            first, *others = parents.split(",")
            if first and ids[first] != [*ids.values()][-1]:
                self.git("checkout", "--quiet", "-B", "master", first)
            if others:
                self.git("merge", "--quiet", "--no-commit", "--no-ff", "--strategy=ours", *others)
            ids[name] = self.commit(count, {name: "x"})
            self.git("tag", name)
        return ids

    def git(self, *words: str) -> str:
        return sources.git(self.folder, *words)

    @property
    def measured(self) -> list[str]:
        return self.log.read_text().split() if self.log.exists() else []

    @property
    def options(self) -> list[str]:
        return ["--tree", str(self.folder), "--meter", str(self.program)]

    def bisect(self, good: str, bad: str, *words: str) -> int:
        own = ["--good", good, "--bad", bad, *self.options]
        return main(["bisect", *own, *words])

    def again(self, *words: str) -> int:
        """With --continue or --log."""
        return main(["bisect", "--tree", str(self.folder), *words])

    def found(self, good: str, *words: str, code: int = 0) -> dict[str, Any]:
        """What a bisection up to master came to; without `good` one that goes on."""
        if good:
            assert self.bisect(good, "master", "--json", *words) == code
        else:
            assert self.again("--continue", "--json") == code
        document: dict[str, Any] = json.loads(self.capsys.readouterr().out)
        validate(document, "bisection-1")
        return document

    def steps(self) -> dict[str, Any]:
        """The JSON of --log."""
        assert self.again("--log", "--json") == 0
        document: dict[str, Any] = json.loads(self.capsys.readouterr().out)
        return document

    @property
    def said(self) -> str:
        """What was printed on standard error."""
        return self.capsys.readouterr().err


@pytest.fixture
def tree(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Tree:
    monkeypatch.setenv("KENTRY_CACHE", str(tmp_path / "cache"))
    folder = tmp_path / "linux"
    folder.mkdir()
    sources.git(folder, "init", "--quiet", "--initial-branch=master", "--template=")
    log, program = tmp_path / "log", tmp_path / "measure"
    program.write_text(_PROGRAM.format(log=log, tree=folder))
    program.chmod(0o755)
    return Tree(folder, log, program, capsys)


def names(found: dict[str, Any]) -> list[str]:
    return [one["commit"] for one in found["culprits"]]


def kinds(notes: list[dict[str, str]]) -> list[str]:
    return [one["kind"] for one in notes]


# tests/unit/study/test_bisection.py tries every place.
@pytest.mark.parametrize("at", [1, 4, 8])
def test_the_commit_is_named_with_its_functions(tree: Tree, at: int) -> None:
    commits = tree.line(*(10 if place < at else 15 for place in range(9)))
    found = tree.found(commits[0])
    assert found["culprit"]["commit"] == commits[at]
    assert found["culprit"]["parent"]["commit"] == commits[at - 1]
    assert (found["good"]["value"], found["bad"]["value"], found["delta"]) == (110, 115, 5)
    assert (found["culprit"]["delta"], found["explained"]) == (5, 5)
    assert found["culprit"]["share"] == 100
    assert [(row["name"], row["delta"]) for row in found["functions"]] == [("syscall", 5)]
    # Two ends, three steps of eight commits, and two again.
    assert len(tree.measured) <= 7


def test_the_answer_says_how_its_ends_were_measured(tree: Tree) -> None:
    commits = []
    for count in (10, 15):
        kernel = {"spec": f"a kernel of {count}"}
        one = recording({"getppid": [("syscall", count)]}, {}, kernel, {"processor": "rpi5"})
        one.caveats.append(not_time())
        write_recording(one, tree.folder / "recording.json")
        commits.append(sources.commit(tree.folder, f"{count}", {}))
    found = tree.found(commits[0])
    assert found["caveats"] == [not_time()]
    assert [one["kernel"]["spec"][-2:] for one in found["measured"]] == ["10", "15"]
    assert tree.bisect(commits[0], "master", "--changelog=short") == 0
    assert "cpu rpi5" in tree.capsys.readouterr().out
    assert tree.bisect(commits[0], "master", "--no-verify") == 0
    assert "verifies" not in tree.said


@pytest.mark.parametrize(
    ("counts", "words", "culprits", "caveats", "facts"),
    [
        # Of two steps the larger share is named, and --all finds both.
        ("10 10 18 18 18 20 20 20", "", [2], ["more-remains"], {"share": 80}),
        ("10 10 18 18 18 20 20 20", "--all", [2, 5], [], {"explained": 10}),
        ("10 10 18 18 18 20 20 20", "--all --least 3", [2], ["more-remains"], {}),
        # The smallest change may be larger than any.
        ("10 12 14 16", "--all --least 2.5", [], ["no-step"], {"suspects": []}),
        ("10 10 10 13 13 13", "--no-verify", [3], ["not-verified"], {"value": 113, "delta": 3}),
    ],
)
def test_the_steps_of_a_line(
    counts: str, words: str, culprits: list[int], caveats: list[str], facts: Any, tree: Tree
) -> None:
    commits = tree.line(*counts.split())
    found = tree.found(commits[0], *words.split())
    assert names(found) == [commits[place] for place in culprits]
    assert kinds(found["caveats"]) == caveats
    # Of two of one name the culprit's own.
    assert facts.items() <= (found | (found["culprit"] or {})).items()
    # Without verification nothing is measured twice.
    assert len(tree.measured) == len(set(tree.measured)) or "no-verify" not in words


def test_where_they_lie_beside_the_step_all_of_them_are_named(tree: Tree) -> None:
    commits = tree.line(10, 10, "skip", "skip", 12, 12, 12)
    found = tree.found(commits[0], code=3)
    assert (found["culprit"], found["culprits"]) == (None, [])
    [suspects] = found["suspects"]
    assert [one["commit"] for one in suspects["commits"]] == commits[2:5]
    assert suspects["delta"] == 2


BRANCHES = "base=10 own0=10 own1=10 own2=17 own3=17 m0=10:base m1=10 m2=10 merge=17:m2,own3 x=17"
OWN = "base=10 own0=10 own1=10 m0=10:base m1=10 merge=13:m1,own1 later=13"
# The topic merges the main line, which grew before good, and adds a little of its own.
CROSSED = "base=10 t1=10 m0=10:base good=15 m2=15 m3=15 t3=15:t1,m3 t2=18 merge=18:m3,t2 x=18"


@pytest.mark.parametrize(
    ("rows", "good", "words", "culprits", "delta", "doubt"),
    [
        (BRANCHES, "base", "", ["own2"], 7, "$"),
        (BRANCHES, "base", "--first-parent", ["merge"], 7, ".*--first-parent"),
        # The merge makes the change itself.
        (OWN, "base", "", ["merge"], 3, "(?!.*(--first-parent|not be measured)).+"),
        (OWN.replace("own1=10", "own1=skip"), "base", "", ["merge"], 3, ".*not be measured"),
        # A good commit aside is compared from where the two part.
        ("base=10 good=10 a=10:base b=10 c=14 d=14", "good", "", ["c"], 4, "$"),
        (CROSSED, "good", "", ["t2"], 3, "$"),
        (CROSSED, "good", "--all", ["t2"], 3, "$"),
        # A good commit of a topic is followed from there.
        ("base=10 good=15 t=17 m=10:base merge=17:m,t", "good", "--all", ["t"], 2, "$"),
        # The topic's commit is also on the main line; the merge adds something of its own.
        ("base=10 t=15 good=15:base merge=18:good,t", "good", "", ["merge"], 3, ".+"),
        # Each branch of an octopus is searched.
        ("base=10 a=11 b=19:base m=10:base merge=20:m,a,b", "base", "--all", ["a", "b"], 10, "$"),
        ("base=10 a=11 b=19:base m=10:base merge=20:m,a,b", "base", "", ["b"], 10, "$"),
    ],
)
def test_branches_are_searched_where_they_have_the_change(
    rows: str, good: str, words: str, culprits: list[str], delta: int, doubt: str, tree: Tree
) -> None:
    commits = tree.graph(rows)
    found = tree.found(commits[good], *words.split())
    assert set(names(found)) == {commits[name] for name in culprits}
    assert found["delta"] == delta
    assert found["explained"] == (9 if culprits == ["b"] else delta)
    assert re.match(doubt, " ".join(one["text"] for one in found["culprit"]["doubts"]))
    assert ("aside" in kinds(found["caveats"])) == ("good=10 a=10:base" in rows)


def test_only_commits_that_touch_the_paths_are_tried(tree: Tree) -> None:
    commits = [
        tree.commit(10 if place < 5 else 12, {"riscv/a" if place % 2 else "doc": str(place)})
        for place in range(10)
    ]
    found = tree.found(commits[0], "--", "riscv")
    assert names(found) == [commits[5]]
    tried = {one["commit"] for one in found["steps"]}
    assert tried & set(commits[2:9:2]) <= {commits[4]}
    # One that does not touch them made the change.
    assert tree.bisect(commits[0], "master", "--", "doc") == 2
    assert "touch doc" in tree.said


def test_what_is_not_committed_is_not_measured(tree: Tree) -> None:
    commits = tree.line(10, 10, 12)
    (tree.folder / "recording.json").write_text("{}")
    assert names(tree.found(commits[0])) == [commits[2]]
    assert tree.bisect(commits[0], "HEAD") == 0
    assert "has local changes (recording.json)" in tree.said


def test_a_repository_without_a_checkout_is_searched_too(tree: Tree) -> None:
    commits = tree.line(10, 10, 12)
    bare = tree.folder / "bare.git"
    sources.git(tree.folder, "clone", "--quiet", "--bare", str(tree.folder), str(bare))
    clone = tree.folder / "clone"
    sources.git(tree.folder, "clone", "--quiet", "--no-checkout", str(tree.folder), str(clone))
    for tree.folder in (bare, clone):
        assert tree.bisect(commits[0], commits[2], "--json") == 0
        out, said = tree.capsys.readouterr()
        assert names(json.loads(out)) == [commits[2]]
        assert "local changes" not in said


def test_a_program_that_fails_ends_the_run_and_continue_goes_on(tree: Tree) -> None:
    commits = tree.line(10, 10, 10, 10, 10, 16, 16, 16)
    whole = tree.program.read_text()
    tree.log.touch()
    fails = f"#!/bin/sh\n[ $(wc -l < {tree.log}) -lt 3 ] || exit 1\n"
    tree.program.write_text(fails + whole)
    assert tree.bisect(commits[0], "master") == 2
    assert "ended with status 1" in tree.said
    before = tree.measured
    assert len(before) == 3
    assert [one["commit"] for one in tree.steps()["steps"]] == before
    # A value that was changed since is none.
    [file] = cache_dir("bisections").glob("*/steps.json")
    text = file.read_text()
    assert '"value": 110' in text
    for damaged in (text.replace('"value": 110', '"value": 118', 1).encode(), b"\xff" * 99):
        file.write_bytes(damaged)
        assert tree.again("--log", "--json") == 2
        assert f"{file} is damaged" in tree.capsys.readouterr().err
    file.write_text(text)
    # Nor is a recording of another commit.
    first, last = (file.with_name(f"{commit}.json") for commit in before[:2])
    first.write_bytes(last.read_bytes())
    tree.program.write_text(whole)
    assert names(tree.found("")) == [commits[5]]
    # What was known is not measured again, but for the culprit and its parent.
    after = tree.measured[3:]
    assert set(after) & set(before) <= {before[0], commits[4], commits[5]}
    assert before[0] in after and len(after) <= 6


def test_several_cases_are_searched_among_the_same_recordings(
    tree: Tree, monkeypatch: pytest.MonkeyPatch
) -> None:
    pairs = Counter[tuple[int, int]]()

    def counting(
        old: Recording, new: Recording, cases: list[str], *_: Any, **__: Any
    ) -> Comparison:
        pairs[id(old), id(new)] += 1
        return compare(old, new, cases)

    monkeypatch.setattr(study_commits, "compare", counting)
    commits = [
        tree.commit(10 if place < 3 else 12, {"file": str(place)}, read=20 if place < 6 else 27)
        for place in range(9)
    ]
    found = tree.found(commits[0], "--case", "read,getppid")
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
    assert tree.again("--continue") == 0


def test_a_case_that_does_not_change_is_no_error_beside_one_that_does(tree: Tree) -> None:
    commits = [tree.commit(10, {"f": str(place)}, read=20 + 4 * (place > 1)) for place in range(4)]
    found = tree.found(commits[0], "--case", "getppid,read")
    [other] = found["others"]
    same, changed = (found, other) if found["case"] == "getppid" else (other, found)
    assert (same["culprits"], same["delta"]) == ([], 0)
    assert kinds(same["caveats"]) == ["no-difference"]
    assert names(changed) == [commits[2]]
    assert tree.bisect(commits[0], "master", "--case", "getppid") == 2


@pytest.mark.slow
def test_operands_are_checked_while_another_bisection_of_the_tree_runs(tree: Tree) -> None:
    commits = tree.line(10, 12)
    argv = [sys.executable, "-m", "kentry", "bisect", "--good", commits[0], *tree.options]
    with FileLock(State(tree.folder).folder / "lock"):
        for words in (("--bad", "v9.9"), ("--bad", commits[1], "--case", "nosuch")):
            done = subprocess.run([*argv, *words], check=False, timeout=PATIENCE)
            assert done.returncode == 2


def test_the_commit_is_named_before_it_is_verified(tree: Tree) -> None:
    commits = tree.line(10, 10, 13, 13)
    whole = tree.program.read_text()
    # Ctrl-C at the first measurement of the verification.
    stops = f"#!/bin/sh\n[ $(wc -l < {tree.log}) -lt 4 ] || kill -INT $PPID\n"
    tree.log.touch()
    tree.program.write_text(stops + whole)
    assert tree.bisect(commits[0], "master") == 130
    said = tree.said
    assert f'not verified yet: {commits[2][:12]} ("commit of 13")' in said
    assert "syscall +3" in said
    assert "--no-verify" in said
    assert f"kentry bisect --continue --tree {tree.folder}" in said
    [row] = tree.steps()["provisional"]
    assert (row["commit"], row["delta"]) == (commits[2], 3)
    assert tree.again("--log") == 0
    assert "--continue" in tree.capsys.readouterr().out
    tree.program.write_text(whole)
    assert names(tree.found("")) == [commits[2]]
    assert "provisional" not in tree.steps()


def test_what_a_program_measured_is_not_said_to_be_booted(tree: Tree) -> None:
    commits = tree.line(10, "skip", 10, 12)
    assert tree.bisect(commits[0], "master") == 0
    assert tree.again("--log") == 0
    printed, said = tree.capsys.readouterr()
    assert "boot" not in printed
    assert "step 1 of about 4: " in said


def test_a_step_beside_commits_without_a_value_may_lie_outside_the_paths(tree: Tree) -> None:
    first = tree.commit(10)
    broken = tree.commit("skip", {"riscv/a": "1"})
    mended = tree.commit("skip", {"doc": "1"})
    last = tree.commit(12, {"riscv/a": "2"})
    tree.commit(12, {"riscv/a": "3"})
    [suspects] = tree.found(first, "--", "riscv", code=3)["suspects"]
    assert [one["commit"] for one in suspects["commits"]] == [broken, mended, last]


def test_a_subject_of_odd_characters_is_one_commit(tree: Tree) -> None:
    commits = tree.line(10, 10)
    tree.git("commit", "--quiet", "--allow-empty", "-m", "a\x0cb\u2028c\x1cd\x85e\rf")
    culprit = tree.commit(12, {"x": "x"})
    assert names(tree.found(commits[0])) == [culprit]


def test_a_program_that_changes_its_mind_leaves_a_suspect(tree: Tree) -> None:
    commits = tree.line(10, 10, 13, 13)
    # From the fifth time on it measures the same of every commit.
    always = f"$([ $(wc -l < {tree.log}) -gt 4 ] && echo {commits[0]} || echo $1)"
    text = tree.program.read_text().replace("$1:recording.json", f"{always}:recording.json")
    tree.program.write_text(text)
    found = tree.found(commits[0], code=3)
    assert [one["commit"] for one in found["suspects"][0]["commits"]] == [commits[2]]
    assert kinds(found["caveats"]) == ["unconfirmed"]


def test_a_bisection_of_another_kentry_does_not_go_on(
    tree: Tree, monkeypatch: pytest.MonkeyPatch
) -> None:
    commits = tree.line(10, 12)
    assert tree.bisect(commits[0], commits[1]) == 0
    monkeypatch.setattr(cache, "code_digest", lambda: "another")
    assert tree.again("--continue") == 2
    assert "has changed since" in tree.said


@pytest.mark.parametrize(("factor", "code"), [(1.2, 0), (1.0003, 3)])
def test_a_time_is_searched_where_its_intervals_are_apart(
    tree: Tree, factor: float, code: int
) -> None:
    commits = []
    for place in range(8):
        ns = 100 * (factor if place > 4 else 1) + place / 1000
        write_recording(timed({"getppid": ns}), tree.folder / "recording.json")
        commits.append(sources.commit(tree.folder, f"commit {place}", {f"f{place}": "x"}))
    found = tree.found(commits[0], "--metric", "ns", code=code)
    if not code:
        assert names(found) == [commits[5]]
        assert found["unit"] == "ns"
        one = found["culprit"]
        assert one["value"] - one["parent"]["value"] == pytest.approx(one["delta"])
    assert kinds(found["caveats"]) == ["noise" if not code else "undecided"]


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


def test_a_metric_that_no_kernel_has_leaves_the_last_bisection(
    tree: Tree, monkeypatch: pytest.MonkeyPatch
) -> None:
    commits = tree.line(10, 10, 12)
    tree.found(commits[0], "--no-verify")
    before = tree.steps()
    monkeypatch.setattr(study_commits.Kernels, "made_with", lambda *words: [])
    words = ["--good", commits[0], "--bad", "master", "--arch", "arm64", "--metric"]
    for metric in ("foo", "serialising.foo"):
        assert tree.again(*words, metric) == 2
        assert metric in tree.said
        assert tree.steps() == before


def test_continue_verifies_only_what_the_run_before_would_have(tree: Tree) -> None:
    commits = tree.line(10, 10, 10, 10, 12, 12)
    whole = tree.program.read_text()
    for words, kinds_found in ((["--no-verify"], ["not-verified"]), ([], [])):
        tree.log.write_text("")
        tree.program.write_text(f"#!/bin/sh\n[ $(wc -l < {tree.log}) -lt 3 ] || exit 1\n{whole}")
        assert tree.bisect(commits[0], "master", *words) == 2
        tree.program.write_text(whole)
        assert kinds(tree.found("")["caveats"]) == kinds_found
    # What is found need not be verified.
    assert tree.again("--continue", "--no-verify", "--json") == 0
    assert kinds(json.loads(tree.capsys.readouterr().out)["caveats"]) == ["not-verified"]


def test_what_cannot_be_searched(tree: Tree) -> None:
    assert tree.again("--continue") == 2
    assert "no bisection" in tree.said
    commits = tree.line(10, 10, "skip", 12)
    for good, bad, words, says in (
        (commits[3], commits[0], (), "is older than"),
        (commits[0], commits[0], (), "are one commit"),
        (commits[0], "v9.9", (), "no commit called 'v9.9'"),
        ("-x", commits[3], (), "expected one argument"),
        (commits[0], commits[3], ("--", "../.."), "outside"),
        (commits[0], commits[3], ("--", "riskv"), "touches riskv"),
        (commits[0], commits[3], ("--meter", "a 'b"), "Mend the quotes"),
        # Of kernels, which a program does not build.
        (commits[0], commits[3], ("--config", "distro"), "--config has no effect"),
        (commits[0], commits[3], ("--arch", "arm64"), "--arch has no effect"),
    ):
        assert tree.bisect(good, bad, *words) == 2
        assert says in tree.said
    assert tree.measured == []
    for good, bad, says in (
        (commits[2], commits[3], commits[2][:12]),
        (commits[0], commits[2], commits[2][:12]),
        (commits[0], commits[1], "there is no difference"),
    ):
        assert tree.bisect(good, bad) == 2
        assert says in tree.said
    assert tree.bisect(commits[0], commits[3]) == 3
    assert tree.again("--continue", "--good", commits[0], "--bad", "HEAD") == 2
    assert "Leave out --good, --bad" in tree.said
    assert tree.again("--continue", "--arch", "arm64", "--timeout", "9") == 2
    assert "Leave out --arch, --timeout" in tree.said
    assert tree.again("--continue", "--metric", "loads") == 2
    assert "Leave out --metric" in tree.said
    # The program measures here.
    assert tree.again("--continue", "--plan", "x") == 2
    assert "no effect with --meter" in tree.said
    assert tree.again("--continue") == 3
    tree.git("checkout", "--quiet", "--orphan", "other")
    assert tree.bisect(commits[0], tree.commit(12, {"other": "x"})) == 2
    assert "in common" in tree.said
