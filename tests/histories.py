# SPDX-License-Identifier: GPL-2.0-or-later
"""Git histories of 45 commits on a real kernel's source, of which two change a count.

    python -m tests.histories SEED FOLDER     makes one, and prints a line a commit

The source is Debian's linux-source, which kentry fetches.  Its objects are borrowed, and those of
the histories are beside it in the cache: one costs a second and a few files, and needs the cache
(KENTRY_CACHE) that it was made with.  The checkout of master is sparse: its top files only, so
nobody waits for 80,000 others.

The seed decides the order of the commits, which files they change, and how many instructions the
two steps have.  By rule:

- an odd seed has a run of commits that do not build right before or after the commit that adds;
- one that divides by 3 has the commit that takes away in the merged branch;
- one that divides by 4 with the rest 2 has the commit that adds there.
"""

from __future__ import annotations

import itertools
import os
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from random import Random

from kentry.host.cache import cache_dir, write_atomically
from kentry.host.process import run
from kentry.kernels.debian import revision
from kentry.kernels.spec import parse
from tests import history_edits as edits
from tests.history_edits import AnchorError, Change

COMMITS = 45

_PEOPLE = (
    ("Ada Marsh", "ada@kernel.example", "+0000"),
    ("Bo Lindqvist", "bo@distro.example", "+0100"),
    ("Chen Rui", "chenrui@silicon.example", "+0800"),
    ("Dana Petrov", "dana@cloud.example", "+0200"),
    ("Emeka Obi", "emeka@boards.example", "+0100"),
    ("Frances Howe", "frances@kernel.example", "-0500"),
)
# The first commit's time: Monday, 2 December 2024, 08:00 UTC.
_START = 1733126400
_HOUR = 3600


@dataclass(frozen=True)
class History:
    """A history: full names of commits, `kinds` in the order in which they were made.

    `folder` is a checkout of branch master.  `first`, the root, is Debian's source with the
    instructions that one of the `steps` takes away; `last` is HEAD.  `steps` are the two commits
    that change getppid on a tiny kernel for riscv64, with the instructions they add to it.
    """

    folder: Path
    first: str
    last: str
    steps: dict[str, int]
    kinds: dict[str, str]


@dataclass(frozen=True)
class Planned:
    """A commit to be made; `parents` are places in the plan."""

    change: Change
    parents: tuple[int, ...]


def make(seed: int, folder: Path, source: str = "6.12") -> History:
    """The history of a seed, made in a new folder; FetchError where Debian's source is not had."""
    kernel = revision(parse(f"source:{source}"), lambda fraction, now: None)
    store = cache_dir("histories", kernel.commit[:12])
    return lay(seed, folder, store, kernel.repository.git.folder, kernel.commit)


def lay(seed: int, folder: Path, store: Path, repository: Path, commit: str) -> History:
    """The history of a seed on top of the source that a commit of a repository has.

    Its objects are put into the folder `store`.  kentry knows a repository by its objects, so
    histories with the same store are built in one work tree, each file once.  AnchorError where
    the source has no place for a change.
    """
    (folder / ".git").mkdir(parents=True)
    (folder / ".git/objects").symlink_to(store.resolve(), target_is_directory=True)
    git(folder, "init", "--quiet", "--initial-branch=master", "--template=")
    for setting in ("core.autocrlf=false", "core.fsync=none", "gc.auto=0"):
        git(folder, "config", *setting.split("="))
    objects = git(repository, "rev-parse", "--path-format=absolute", "--git-path", "objects")
    write_atomically(store / "info/alternates", objects)
    planned = plan(seed)
    marks = folder / ".git/marks"
    stream = "".join(_stream(planned, Random(seed), folder, commit))
    words = ("fast-import", "--quiet", f"--export-marks={marks}")
    git(folder, *words, feed=stream.encode())
    made = dict(line[1:].split() for line in marks.read_text().splitlines())
    names = [made[str(mark)] for mark in range(1, len(planned) + 1)]
    marks.unlink()
    git(folder, "sparse-checkout", "set", "--cone", "--sparse-index")
    git(folder, "reset", "--quiet", "--hard", "master")
    changes = {name: one.change for name, one in zip(names, planned, strict=True)}
    steps = {name: change.adds for name, change in changes.items() if change.adds}
    kinds = {name: change.kind for name, change in changes.items()}
    return History(folder, names[0], names[-1], steps, kinds)


def plan(seed: int) -> list[Planned]:
    """The commits of a seed in the order in which they are made, the root first."""
    rng = Random(seed)
    adds = edits.more_instructions(rng.choice(edits.STEPS), rng.randint(7, edits.MOST))
    text, takes = edits.ballast(rng.randrange(edits.BALLASTS), rng.randint(3, 6))
    runs = _runs(rng, edits.BUILD_BREAKS, "build-fix", (rng.randint(1, 3), rng.randint(1, 3)))
    runs += _runs(rng, edits.BOOT_BREAKS, "boot-fix", (rng.randint(1, 2),))

    # A commit of a run has no count, so nothing comes between its commits.
    blocks = [[adds], [takes], *runs]
    if seed % 2:
        blocks[0] = rng.choice([runs[0] + [adds], [adds] + runs[0]])
        blocks.remove(runs[0])
    branch = [step for step, inside in ((takes, seed % 3 == 0), (adds, seed % 4 == 2)) if inside]
    for step in branch:
        blocks.remove([step])
    known = 2 + sum(map(len, blocks)) + len(branch)  # with the root and the merge
    harmless = _harmless(rng, COMMITS - known)
    more = rng.randint(3, 5) - len(branch)
    branch += harmless[:more]
    rng.shuffle(branch)
    blocks += [[change] for change in harmless[more:]]
    rng.shuffle(blocks)

    why = "With instructions that a later commit takes away."
    root = Change("base", "Linux as Debian has it", why, (text,))
    planned = [Planned(root, ())]
    fork = rng.randrange(3, len(blocks) - 8)
    merge = fork + rng.randint(2, 5)
    tip = 0
    for number, block in enumerate(blocks):
        if number == fork:
            parent = tip
            for change in branch:
                planned.append(Planned(change, (parent,)))
                parent = len(planned) - 1
            end_of_branch = parent
        if number == merge:
            made = tuple(edit for change in branch for edit in change.edits)
            body = "\n".join(f" - {change.subject}" for change in branch)
            joined = Change("merge", "Merge branch 'topic/cleanups'", body, made)
            planned.append(Planned(joined, (tip, end_of_branch)))
            tip = len(planned) - 1
        for change in block:
            planned.append(Planned(change, (tip,)))
            tip = len(planned) - 1
    return planned


def _runs(
    rng: Random, pool: tuple[Change, ...], fix: str, lengths: tuple[int, ...]
) -> list[list[Change]]:
    """Runs of so many broken commits, each with the commit that repairs them; no file twice."""
    chosen = iter(rng.sample(pool, sum(lengths)))
    runs = []
    for length in lengths:
        broken = list(itertools.islice(chosen, length))
        area = broken[-1].subject.partition(":")[0]
        what = "boots" if fix == "boot-fix" else "builds"
        subject = f"{area}: Fix what no longer {what}"
        body = "\n".join(f"Repairs: {change.subject}" for change in broken)
        repair = tuple(edit for change in broken for edit in change.repair)
        runs.append([*broken, Change(fix, subject, body, repair)])
    return runs


def _harmless(rng: Random, count: int) -> list[Change]:
    """So many changes without effect on a count, at least three of each kind."""
    pools = [rng.sample(pool, len(pool)) for pool in edits.HARMLESS]
    chosen = [change for pool in pools for change in pool[:3]]
    rest = [change for pool in pools for change in pool[3:]]
    chosen += rng.sample(rest, count - len(chosen))
    rng.shuffle(chosen)
    return chosen


def data(text: str) -> str:
    """A message or a file for git fast-import."""
    return f"data {len(text.encode())}\n{text}\n"


def commit_header(mark: int, who: str, authored: str, committed: str, message: str) -> str:
    """The beginning of a commit of master for git fast-import; its author signs it off."""
    signed = data(f"{message}\n\nSigned-off-by: {who}\n")
    people = f"author {who} {authored}\ncommitter {who} {committed}\n"
    return f"commit refs/heads/master\nmark :{mark}\n{people}{signed}"


def _stream(planned: list[Planned], rng: Random, folder: Path, commit: str) -> Iterator[str]:
    """What git fast-import makes the commits of; a commit's mark is its place, from 1."""
    paths = dict.fromkeys(edit.path for one in planned for edit in one.change.edits)
    source = _read(folder, commit, list(paths))
    files: list[dict[str, str]] = []
    time = _START
    for mark, one in enumerate(planned, start=1):
        now = dict(files[one.parents[0]] if one.parents else source)
        for edit in one.change.edits:
            now[edit.path] = edit.apply(now[edit.path])
        files.append(now)
        name, address, zone = rng.choice(_PEOPLE)
        time += rng.randint(_HOUR // 4, 30 * _HOUR)
        authored = f"{time - rng.randint(60, _HOUR // 4)} {zone}"
        message = f"{one.change.subject}\n\n{one.change.body}"
        yield commit_header(mark, f"{name} <{address}>", authored, f"{time} {zone}", message)
        for word, parent in zip(("from", "merge"), one.parents, strict=False):
            yield f"{word} :{parent + 1}\n"
        if not one.parents:
            tree = git(folder, "rev-parse", f"{commit}^{{tree}}").strip()
            yield f'M 040000 {tree} ""\n'
        for path in dict.fromkeys(edit.path for edit in one.change.edits):
            yield f"M 100644 inline {path}\n{data(now[path])}"
        yield "\n"


def _read(folder: Path, commit: str, paths: list[str]) -> dict[str, str]:
    """The text of these files; AnchorError where one is missing."""
    asked = "".join(f"{commit}:{path}\n" for path in paths)
    answer = git(folder, "cat-file", "--batch", feed=asked.encode()).encode()
    texts = {}
    for path in paths:
        header, _, answer = answer.partition(b"\n")
        if header.endswith(b" missing"):
            raise AnchorError(f"The source has no {path}: tests/history_edits.py names it.")
        size = int(header.split()[-1])
        texts[path], answer = answer[:size].decode(), answer[size + 1 :]
    return texts


def git(folder: Path, *words: str, feed: bytes = b"", check: bool = True) -> str:
    """What git WORDS prints in that folder, whatever the user's settings are.

    A hook's variables would name another repository.
    """
    own = ("GIT_CONFIG_GLOBAL=/dev/null", "GIT_CONFIG_NOSYSTEM=1", "LC_ALL=C")
    unset = [f"--unset={name}" for name in os.environ if name.startswith("GIT_")]
    argv = ["env", *unset, *own, "git", "-C", str(folder), *words]
    return run(argv, feed=feed, check=check).stdout


def main(seed: str, folder: str) -> None:
    """The program: see above."""
    history = make(int(seed), Path(folder))
    for (name, kind), one in zip(history.kinds.items(), plan(int(seed)), strict=True):
        step = f"  <- {history.steps[name]:+}" if name in history.steps else ""
        print(f"{name[:12]} {kind:18} {one.change.subject}{step}")


if __name__ == "__main__":
    main(*sys.argv[1:])
