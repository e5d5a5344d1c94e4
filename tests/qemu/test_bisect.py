# SPDX-License-Identifier: GPL-2.0-or-later
"""kentry bisect and kentry log on real kernels: a history of 45 commits, two of which count.

The history is tests/histories.py's of one seed.  `make bench-bisect` has ten.
"""

from __future__ import annotations

import hashlib
import json
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from kentry.arch import ARCHES
from kentry.host.cache import cache_dir
from kentry.kernels import build
from kentry.results.studies import NO_BUILD
from tests.histories import History, make
from tests.processes import awaited

from .conftest import or_skip, timed
from .test_record import kentry

pytestmark = pytest.mark.qemu

ARCH = ARCHES["riscv64"]
SEED = 1
# What each verification builds from nothing, two kernels a commit, is a third of this file's time:
# the one commit of test_one_culprit is verified.
ALL = ("--all", "--no-verify")
# Steps that a run makes before it is killed.
KILLED_AFTER = 4


@pytest.fixture(scope="module")
def history(tmp_path_factory: pytest.TempPathFactory) -> History:
    or_skip("no tools", build.check_tools, ARCH)
    return or_skip("no source", make, SEED, tmp_path_factory.mktemp("history") / "linux")


def bisect_words(history: History, *words: str) -> list[str]:
    ends = ("--good", history.first, "--bad", "master", "--tree", str(history.folder))
    return ["bisect", *ends, "--arch", ARCH.name, *words]


def steps_of(state: Path) -> list[dict[str, Any]]:
    file = state / "steps.json"
    return list(json.loads(file.read_text())["steps"]) if file.exists() else []


@pytest.fixture(scope="module")
def found(history: History) -> dict[str, Any]:
    """What a bisection came to that was killed in the middle and went on."""
    name = hashlib.sha256(str(history.folder.resolve()).encode()).hexdigest()[:16]
    state = cache_dir("bisections", name)
    # Of an earlier run of the tests, in a folder of the same name.
    shutil.rmtree(state)
    with timed(f"kentry bisect of {len(history.kinds)} commits for {ARCH.name}, killed once"):
        argv = [sys.executable, "-m", "kentry", *bisect_words(history, *ALL)]
        process = subprocess.Popen(argv, stderr=subprocess.DEVNULL, stdout=subprocess.DEVNULL)
        try:
            # From the first build on a machine with other work to a few steps.
            awaited(lambda: len(steps_of(state)) >= KILLED_AFTER or process.poll() is not None)
            before = steps_of(state)
        finally:
            process.kill()
            process.wait()
        assert len(before) >= KILLED_AFTER
        go_on = ("bisect", "--continue", "--no-verify", "--tree", str(history.folder), "--json")
        done = kentry(*go_on)
    document: dict[str, Any] = json.loads(done.stdout)
    # None of what was measured is made again, to the seconds that it took.
    measured = [step for step in before if step["status"] == "measured"]
    assert measured == [step for step in document["steps"] if step in measured] != []
    return document


def test_both_commits_are_named_and_no_other(history: History, found: dict[str, Any]) -> None:
    assert {one["commit"]: one["delta"] for one in found["culprits"]} == history.steps
    assert found["explained"] == found["delta"] == sum(history.steps.values())
    for one in found["culprits"]:
        assert sum(row["delta"] for row in one["functions"]) == one["delta"]
        assert one["compiled"]


def test_few_commits_are_built_and_fewer_are_booted(
    history: History, found: dict[str, Any]
) -> None:
    status = {step["commit"]: step["status"] for step in found["steps"]}
    assert len(status) < len(history.kinds) / 2
    assert "not-compiled" in status.values()
    assert "measured" in status.values()
    for name, what in status.items():
        assert (what == NO_BUILD) == (history.kinds[name] == "build-break"), name


def test_the_same_question_again_finds_everything_known(
    history: History, found: dict[str, Any]
) -> None:
    again = json.loads(kentry(*bisect_words(history, *ALL, "--json")).stdout)
    assert again["culprits"] == found["culprits"]
    assert again["steps"] == found["steps"]


def test_one_culprit_is_asked_for_and_one_is_named(history: History, found: dict[str, Any]) -> None:
    one = json.loads(kentry(*bisect_words(history, "--json")).stdout)
    assert one["culprit"]["commit"] in history.steps
    assert [caveat["kind"] for caveat in one["caveats"]] == ["not-time", "more-remains"]


def test_the_log_has_its_change_points_at_exactly_the_two(
    history: History, found: dict[str, Any]
) -> None:
    words = ("log", f"{history.first}..master", "--tree", str(history.folder))
    log = json.loads(kentry(*words, "--arch", ARCH.name, "--json").stdout)
    assert {one["names"][-1]: one["delta"] for one in log["changes"]} == history.steps
    assert [one["value"] for one in log["points"]][:: len(log["points"]) - 1] == [
        found["good"]["value"],
        found["bad"]["value"],
    ]


def test_git_bisect_run_ends_on_the_same_commit(
    history: History, found: dict[str, Any], tmp_path: Path
) -> None:
    up = next(name for name, delta in history.steps.items() if delta > 0)
    most = next(one["parent"]["value"] for one in found["culprits"] if one["commit"] == up)
    budget = tmp_path / "budget.toml"
    budget.write_text(f"[{ARCH.name}]\ngetppid = {most}\n")

    def git(*words: str) -> str:
        argv = ["git", "-C", str(history.folder), *words]
        return subprocess.run(argv, check=True, capture_output=True, text=True).stdout

    spec = f"tree:{history.folder}@BISECT_HEAD"
    check = ("check", spec, "--budget", str(budget), "--arch", ARCH.name, "--bisect", "-q")
    try:
        git("bisect", "start", "--no-checkout", "--first-parent", "master", history.first)
        with timed("git bisect run kentry check --bisect"):
            git("bisect", "run", sys.executable, "-m", "kentry", *check)
        assert git("rev-parse", "refs/bisect/bad").strip() == up
    finally:
        git("bisect", "reset")
