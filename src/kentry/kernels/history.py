# SPDX-License-Identifier: GPL-2.0-or-later
"""The commits between two of a git tree, as lines of parents; the tree is only read.

A line follows first parents, as git log --first-parent does: one commit of it is one step, and a
merge is a step with commits of its own.
"""

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from kentry.errors import UserError
from kentry.kernels import tree
from kentry.kernels.repository import in_folder
from kentry.progress import printable, say

_ABBREVIATED = 12
_FIELDS = ("%H", "%P", "%an", "%aI", "%s")


@dataclass(frozen=True)
class Commit:
    """A commit: its full name, its parents' names, and what git log shows of it."""

    name: str
    parents: tuple[str, ...]
    author: str
    date: str
    subject: str

    @property
    def short(self) -> str:
        """The start of its name, as in "Fixes: 0123456789ab"."""
        return self.name[:_ABBREVIATED]

    @property
    def is_merge(self) -> bool:
        """Whether it has several parents."""
        return len(self.parents) > 1


@dataclass(frozen=True)
class Range:
    """The commits of a tree between two: all that `bad` has and `start` has not, by name.

    `start` is `good`, or where the histories of the two part.
    """

    folder: Path
    good: Commit
    start: Commit
    bad: Commit
    commits: Mapping[str, Commit]

    def line(self) -> list[Commit]:
        """From `start` to `bad`, each the parent of the next: the first parent where it can be."""
        later = {self.start.name}
        # The older ones first.
        for one in reversed(list(self.commits.values())):
            if later.intersection(one.parents):
                later.add(one.name)
        line = [self.bad]
        while line[-1].name != self.start.name:
            name = next(one for one in line[-1].parents if one in later)
            line.append(self.commits.get(name, self.start))
        return line[::-1]

    def branches(self, merge: Commit, before: Commit, known: set[str]) -> list[list[Commit]]:
        """Return what a merge brought to its parent `before`: a line for each other parent.

        A line begins with the commit that it branched off from, each the first parent of the next.
        Commits in `known`, and those that are older than the range, are not brought in.
        """
        branches = []
        for tip in merge.parents:
            line: list[Commit] = []
            name = tip
            while name in self.commits and name not in known:
                line.append(self.commits[name])
                if not line[-1].parents:
                    break
                name = line[-1].parents[0]
            if line and tip != before.name and line[-1].parents:
                branches.append([commit(self.folder, name), *reversed(line)])
        return branches

    def reachable(self, *names: str) -> set[str]:
        """Return those commits and all of the range that they have."""
        names_in_range: set[str] = set()
        left = list(names)
        while left:
            name = left.pop()
            if name in self.commits and name not in names_in_range:
                names_in_range.add(name)
                left += self.commits[name].parents
        return names_in_range


def find_range(folder: Path, good: str, bad: str) -> Range:
    """Find the range between two commits by any names that git knows; UserError if none."""
    if not folder.is_dir() or not tree.is_repository(folder, bad):
        raise UserError(f"{folder} is not a git repository.", "Name one: --tree DIR.")
    old, new = (commit(folder, tree.full_name(folder, name)) for name in (good, bad))
    if old.name == new.name:
        raise UserError(f"{good} and {bad} are one commit.", "Name two.")
    base = in_folder(folder, "merge-base", old.name, new.name).stdout.strip()
    if not base:
        raise UserError(
            f"{good} and {bad} have no commit in common that this repository knows.",
            f"In a shallow clone run: git -C {folder} fetch --unshallow",
        )
    if base == new.name:
        raise UserError(
            f"{bad} is older than {good}.",
            "Swap the two: the count may grow or shrink from the older one on.",
        )
    if changed := tree.local_changes(folder):
        say(f"{folder} has local changes ({changed}); only what is committed is measured.")
    commits = {one.name: one for one in _log(folder, "--topo-order", f"{base}..{new.name}")}
    return Range(folder, old, commit(folder, base), new, commits)


def touching(folder: Path, line: Sequence[Commit], paths: Sequence[str]) -> list[int]:
    """Return the places of a line's commits that touch the paths, and of both its ends.

    UserError where none does, or git does not take a path.
    """
    if not paths:
        return list(range(len(line)))
    places = []
    for place, (old, new) in enumerate(itertools.pairwise(line), start=1):
        words = ("diff", "--quiet", "--no-ext-diff", old.name, new.name, "--", *paths)
        done = in_folder(folder, *words)
        if done.returncode > 1:
            reason = done.stderr.strip().partition("\n")[0].removeprefix("fatal: ")
            raise UserError(f"git cannot search the paths: {reason}.", "Name paths in the tree.")
        if done.returncode:
            places.append(place)
    if not places:
        raise UserError(
            f"No commit between the two touches {' '.join(paths)}.", "Name other paths, or none."
        )
    return sorted({0, *places, len(line) - 1})


def commit(folder: Path, name: str) -> Commit:
    """Return what git knows of a commit, by its full name."""
    return _log(folder, "-1", name)[0]


def changed_files(folder: Path, old: str, new: str) -> list[tuple[str, str]]:
    """Return the files that differ between two commits: (A, M, D or T, path)."""
    words = ("diff-tree", "-r", "-z", "--no-renames", "--name-status", old, new)
    done = in_folder(folder, *words)
    done.check_returncode()
    fields = done.stdout.split("\0")
    return list(zip(fields[::2], fields[1::2], strict=False))


def diff(folder: Path, old: str, new: str) -> str:
    """Return the text of the difference between two commits, without context."""
    words = ("diff", "--no-ext-diff", "--no-textconv", "--no-color", "-U0", old, new, "--")
    return in_folder(folder, *words).stdout


def _log(folder: Path, *words: str) -> list[Commit]:
    form = "%x00".join(_FIELDS)
    plain = ("-z", "--no-show-signature", "--no-color", "--no-follow")
    done = in_folder(folder, "log", *plain, f"--format={form}", *words, "--")
    done.check_returncode()
    fields = iter(done.stdout.split("\0"))
    return [
        Commit(name, tuple(parents.split()), printable(author), date, printable(subject))
        for name, parents, author, date, subject in zip(*[fields] * len(_FIELDS), strict=False)
    ]
