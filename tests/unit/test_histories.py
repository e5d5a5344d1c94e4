# SPDX-License-Identifier: GPL-2.0-or-later
"""Histories of seeds 1 to 10 on a source that has only the lines that they change.

tests/qemu has the real source, and whether the steps are what a history says.
"""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests import histories
from tests import history_edits as edits
from tests.histories import History, git, lay

SEEDS = range(1, 11)
ALL = [
    *(change for pool in edits.HARMLESS for change in pool),
    *(step(edits.MOST) for step in edits.MORE_INSTRUCTIONS),
    *edits.BUILD_BREAKS,
    *edits.BOOT_BREAKS,
]
BALLAST = [edits.ballast(number, 6)[0] for number in range(edits.BALLASTS)]
KINDS = {
    *("base", "comment", "header", "driver", "other-arch", "documentation", "selftest"),
    *("refactoring", "build-break", "build-fix", "boot-break", "boot-fix", "merge"),
    *("more-instructions", "fewer-instructions"),
}


def fake_files() -> dict[str, str]:
    """Each file with the lines that an edit looks for, and no other."""
    files: dict[str, str] = {"Makefile": "VERSION = 6\nPATCHLEVEL = 12\n"}
    every = [edit for change in ALL for edit in change.edits] + BALLAST
    # Functions first: the line with which one begins may be another edit's too.
    for edit in sorted(every, key=lambda edit: isinstance(edit, edits.Insert)):
        text = files.setdefault(edit.path, "")
        if isinstance(edit, edits.Rename):
            text += f"{edit.line}\n{{\n\t{edit.old}++;\n}}\n"
        elif isinstance(edit, edits.Move):
            text += f"{edit.before}\n{{\n}}\n\n{edit.line}\n{{\n}}\n"
        elif isinstance(edit, edits.Replace):
            text += f"{edit.old}\n"
        elif edit.line not in text:
            text += f"\t{edit.line}\n"
        files[edit.path] = text
    return files


def source(folder: Path, files: dict[str, str]) -> str:
    """A repository with these files; the name of its only commit."""
    folder.mkdir()
    git(folder, "init", "--quiet", "--bare")
    stream = "commit refs/heads/master\ncommitter Nobody <nobody@localhost> 0 +0000\ndata 0\n\n"
    for path, text in files.items():
        stream += f"M 100644 inline {path}\ndata {len(text)}\n{text}\n"
    git(folder, "fast-import", "--quiet", feed=stream.encode())
    return git(folder, "rev-parse", "master").strip()


@pytest.fixture(scope="module")
def fake(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, str]:
    folder = tmp_path_factory.mktemp("source") / "git"
    return folder, source(folder, fake_files())


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory, fake: tuple[Path, str]) -> list[History]:
    folder = tmp_path_factory.mktemp("histories")
    store = tmp_path_factory.mktemp("objects")
    return [lay(seed, folder / str(seed), store, *fake) for seed in SEEDS]


def levels(history: History) -> dict[str, int | None]:
    """What each commit adds to the count of the first one; None where it has no count."""
    reached: dict[str, set[str]] = {}
    log = git(history.folder, "log", "--format=%H %P", "--reverse", "--topo-order")
    for name, *parents in map(str.split, log.splitlines()):
        reached[name] = {name}.union(*(reached[parent] for parent in parents))
    return {
        name: None
        if kind in edits.BROKEN
        else sum(adds for step, adds in history.steps.items() if step in reached[name])
        for name, kind in history.kinds.items()
    }


def test_each_history_has_what_it_should(made: list[History]) -> None:
    for history in made:
        kinds = list(history.kinds.values())
        assert len(kinds) == histories.COMMITS >= 40
        assert set(kinds) == KINDS
        assert kinds.count(edits.MERGE) == 1
        steps = {history.kinds[name]: count for name, count in history.steps.items()}
        assert set(steps) == {edits.MORE, edits.FEWER}
        assert steps[edits.MORE] > -steps[edits.FEWER] > 0


def test_the_commits_are_those_of_master(made: list[History]) -> None:
    for history in made:
        log = git(history.folder, "log", "--format=%H %p %ct", "--reverse", "--topo-order")
        parents = {words[0]: words[1:-1] for words in map(str.split, log.splitlines())}
        times = {words[0]: int(words[-1]) for words in map(str.split, log.splitlines())}
        assert set(parents) == set(history.kinds)
        assert [times[name] for name in history.kinds] == sorted(set(times.values()))
        assert parents[history.first] == []
        assert git(history.folder, "rev-parse", "HEAD", "master").split() == [history.last] * 2
        merges = [name for name in parents if len(parents[name]) == 2]
        assert [history.kinds[name] for name in merges] == [edits.MERGE]


def test_the_seed_decides_the_names(
    made: list[History], fake: tuple[Path, str], tmp_path: Path
) -> None:
    again = lay(1, tmp_path / "again", tmp_path, *fake)
    assert (again.kinds, again.steps) == (made[0].kinds, made[0].steps)
    assert len({history.first for history in made}) > 1
    assert len({history.last for history in made}) == len(made)
    orders = {tuple(history.kinds.values()) for history in made}
    assert len(orders) == len(made)


def test_a_step_and_its_parents_have_a_count(made: list[History]) -> None:
    """So which commit it was can be told."""
    for history in made:
        level = levels(history)
        for step, count in history.steps.items():
            [parent] = git(history.folder, "rev-parse", f"{step}^@").split()
            before, after = level[parent], level[step]
            assert before is not None and after == before + count
        assert level[history.last] == sum(history.steps.values())


def test_the_merge_has_what_its_branch_has(made: list[History]) -> None:
    for history in made:
        [merge] = [name for name, kind in history.kinds.items() if kind == edits.MERGE]
        ours, theirs = f"{merge}^1", f"{merge}^2"
        fork = git(history.folder, "merge-base", ours, theirs).strip()
        brought = git(history.folder, "diff", "--numstat", ours, merge)
        assert brought == git(history.folder, "diff", "--numstat", fork, theirs) != ""


def test_broken_commits_are_repaired(made: list[History]) -> None:
    """What is wrong is in the commits of a run and in no other."""
    repairs = [one.repair[0] for one in (*edits.BUILD_BREAKS, *edits.BOOT_BREAKS)]
    paths = {repair.path for repair in repairs}
    for history in made[:3]:
        for name, kind in history.kinds.items():
            text = git(history.folder, "show", *(f"{name}:{path}" for path in paths))
            wrong = any(repair.old in text for repair in repairs)
            assert wrong == (kind in edits.BROKEN)


@pytest.mark.slow
def test_git_bisect_finds_the_commit_that_adds(made: list[History]) -> None:
    skips = []
    for history in made:
        level = levels(history)
        middle = sum(history.steps.values()) / 2
        folder = history.folder
        said = git(folder, "bisect", "start", "--no-checkout", history.last, history.first)
        skips.append(0)
        while "is the first bad commit" not in said:
            found = level[git(folder, "rev-parse", "BISECT_HEAD").strip()]
            word = "skip" if found is None else "bad" if found > middle else "good"
            skips[-1] += word == "skip"
            said = git(folder, "bisect", word, check=False)
            assert "We cannot bisect more" not in said
        blamed = said.split()[0]
        assert history.kinds[blamed] == edits.MORE
        git(folder, "bisect", "reset")
    assert skips[0] > 0


def test_a_rule_of_the_seed_holds(made: list[History]) -> None:
    """Where the steps are: beside commits that do not build, or in the merged branch."""
    for seed, history in zip(SEEDS, made, strict=True):
        folder = history.folder
        master = git(folder, "rev-list", "--first-parent", "--reverse", "master").split()
        at = {history.kinds[name]: name for name in history.steps}
        assert (at[edits.FEWER] not in master) == (seed % 3 == 0)
        assert (at[edits.MORE] not in master) == (seed % 4 == 2)
        if seed % 2:
            place = master.index(at[edits.MORE])
            beside = {history.kinds[name] for name in master[place - 1 : place + 2]}
            assert beside & {edits.BUILD_BREAK, edits.BUILD_FIX}


def test_the_checkout_is_clean_and_small(made: list[History]) -> None:
    folder = made[0].folder
    assert git(folder, "status", "--porcelain", "--ignored") == ""
    assert {path.name for path in folder.iterdir()} == {".git", "Makefile"}
    git(folder, "checkout", "--quiet", "HEAD~10")
    assert git(folder, "status", "--porcelain") == ""
    git(folder, "checkout", "--quiet", "master")


def test_every_edit_can_be_made_after_every_other() -> None:
    """A branch's edits are made twice, in other surroundings each time."""
    files = {}
    for changes in (ALL, ALL[::-1]):
        now = fake_files()
        for edit in (*BALLAST, *(edit for change in changes for edit in change.edits)):
            now[edit.path] = edit.apply(now[edit.path])
        for change in ALL:
            for repair in change.repair:
                now[repair.path] = repair.apply(now[repair.path])
        files[changes is ALL] = {path: sorted(text.splitlines()) for path, text in now.items()}
    assert files[True] == files[False]


@pytest.mark.parametrize("lost", ["the line", "the file"])
def test_a_source_without_the_place_is_an_error(lost: str, tmp_path: Path) -> None:
    files = fake_files()
    if lost == "the line":
        files[edits.ENTRY] = re.sub(".*PT_STATUS.*\n|.*scs_load.*\n", "", files[edits.ENTRY])
    else:
        del files[edits.ENTRY]
    commit = source(tmp_path / "git", files)
    with pytest.raises(edits.AnchorError) as caught:
        lay(1, tmp_path / "history", tmp_path, tmp_path / "git", commit)
    assert edits.ENTRY in str(caught.value)
