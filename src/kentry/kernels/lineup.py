# SPDX-License-Identifier: GPL-2.0-or-later
"""A base and its patches -> the commits to build, each with what became of its patch."""

from __future__ import annotations

import hashlib
import json
import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from kentry.errors import PatchError, UserError
from kentry.host.cache import write_atomically
from kentry.kernels import tree
from kentry.kernels.git import in_folder
from kentry.kernels.patches import Patch, read_patches
from kentry.kernels.repository import Repository, Revision
from kentry.kernels.resolve import resolve_source
from kentry.kernels.spec import parse
from kentry.progress import Update


@dataclass(frozen=True)
class Step:
    """One patch: the source with it, or why there is none."""

    number: int
    subject: str
    revision: Revision | None
    problem: str = ""


@dataclass(frozen=True)
class Lineup:
    """The base, the patches in order, and what a reader should know of how they were read.

    `base_spec` is what to call the base, `options` what it says of how to build; the
    trailers are None where no patch has them.
    """

    base_spec: str
    options: Mapping[str, str]
    base: Revision
    steps: tuple[Step, ...]
    base_commit: str | None = None
    change_id: str | None = None
    notes: tuple[str, ...] = ()


def line_up(base: str, patches: Sequence[str], update: Update) -> Lineup:
    """Applies `patches` (files, folders, or one A..B) to `base`, one on top of the other.

    A patch that does not apply is left out and said; the next is tried without it.  UserError
    where the base or a patch cannot be read.
    """
    commits = _range(base, patches)
    if commits:
        return _of_range(*commits)
    if not patches:
        raise UserError(
            "There are no patches.", "Name files after the base, or commits: tree:DIR A..B."
        )
    series = read_patches([Path(os.path.expanduser(name)) for name in patches])
    revision = resolve_source(base, update)
    return Lineup(
        base,
        parse(base).options,
        revision,
        tuple(_apply(revision, series.patches, update)),
        series.base_commit,
        series.change_id,
        series.notes,
    )


def patched(base: Revision, patches: Path, update: Update) -> Revision:
    """`base` with every patch of a file or folder; PatchError names the first that fails."""
    steps = _apply(base, read_patches([patches]).patches, update)
    for step in steps:
        if step.revision is None:
            raise PatchError(
                f"Patch {step.number}, '{step.subject}', {step.problem}",
                "kentry series shows what becomes of each patch.",
            )
    assert steps[-1].revision
    return steps[-1].revision


def _range(base: str, patches: Sequence[str]) -> tuple[str, Path, str, str] | None:
    """The spec of the folder, the folder, and A and B, where commits are named as A..B."""
    if not patches and ".." in base and ":" not in base and not Path(base).exists():
        base, patches = "tree:.", [base]
    # No name of a commit begins with a slash: ../a.patch is a file that is not there.
    if len(patches) != 1 or not re.search(r"\.\.(?!/)", patches[0]):
        return None
    if Path(os.path.expanduser(patches[0])).exists():
        return None
    spec = parse(base)
    if "/" in patches[0].partition("..")[0] and spec.kind != "tree":
        return None
    if spec.kind != "tree":
        raise UserError(
            f"{patches[0]} names commits, but {base} is not a git tree.",
            "Name the tree they are in: kentry series tree:DIR A..B.",
        )
    folder, name = tree.split(spec.value)
    first, _, last = patches[0].partition("..")
    if last.startswith("."):
        raise UserError(f"{patches[0]} has three dots.", "Write A..B.")
    if name and first and last:
        raise UserError(f"{base} and {patches[0]} both name a commit.", "Write tree:DIR A..B.")
    start = first or name
    if not start:
        raise UserError(f"{patches[0]} does not say where to begin.", "Write A..B.")
    if not folder.is_dir() or not tree.is_repository(folder, start):
        raise UserError(f"{folder} is not a git repository.", "Name one: tree:DIR.")
    return base, folder, start, last or (name if first and name else "HEAD")


def _of_range(spec: str, folder: Path, first: str, last: str) -> Lineup:
    start, end = tree.full_name(folder, first), tree.full_name(folder, last)
    base = in_folder(folder, "merge-base", start, end).stdout.strip()
    if not base:
        raise UserError(
            f"{first} and {last} have no commit in common that this repository knows.",
            f"In a shallow clone run: git -C {folder} fetch --unshallow",
        )
    if in_folder(folder, "rev-list", "--merges", f"{base}..{end}").stdout:
        raise UserError(
            f"There are merges between {first} and {last}, so the commits are no series.",
            "Make them one line of commits: git rebase.",
        )
    commits = in_folder(folder, "rev-list", "--reverse", f"{base}..{end}").stdout.split()
    if not commits:
        raise UserError(
            f"There is no commit between {first} and {last}.", "Name an older first one."
        )
    steps = []
    for number, commit in enumerate(commits, start=1):
        revision = tree.of_commit(folder, commit)
        steps.append(Step(number, revision.origin["subject"], revision))
    parsed = parse(spec)
    name = f"tree:{tree.split(parsed.value)[0]}@{first if base == start else base[:12]}"
    notes = [] if base == start else [f"the baseline is where {last} left {first}: {base[:12]}"]
    revision = tree.of_commit(folder, base)
    return Lineup(name, parsed.options, revision, tuple(steps), notes=tuple(notes))


def _apply(base: Revision, patches: Sequence[Patch], update: Update) -> list[Step]:
    repository = base.repository
    steps = []
    commit = base.commit
    with repository.locked(update):
        known = _Applied(repository)
        for patch in patches:
            try:
                commit = known.commit(commit, patch, update)
            except PatchError as err:
                steps.append(Step(patch.number, patch.subject, None, err.sentence))
                continue
            origin = {**base.origin, "patch": patch.subject, "patched_commit": commit}
            revision = Revision(repository, commit, repository.tree_of(commit), origin)
            steps.append(Step(patch.number, patch.subject, revision))
        known.keep()
    return steps


class _Applied:
    """Which commit a patch on a commit makes: to apply one again would touch its files."""

    def __init__(self, repository: Repository) -> None:
        self._repository = repository
        self._file = repository.folder / "applied.json"
        self._checked_out = ""
        try:
            found = json.loads(self._file.read_text(encoding="utf-8"))
        except (OSError, ValueError):
            found = None
        self._known: dict[str, str] = found if isinstance(found, dict) else {}

    def commit(self, before: str, patch: Patch, update: Update) -> str:
        """The commit of `patch` on `before`; PatchError where it does not apply."""
        key = f"{before} {hashlib.sha256(patch.message).hexdigest()}"
        after = self._known.get(key, "")
        if after and not self._repository.git("cat-file", "-e", after, check=False).returncode:
            return after
        if self._checked_out != before:
            self._repository.check_out(before, update)
        try:
            after = self._repository.apply(patch.message, update)
        except PatchError:
            self._checked_out = ""
            raise
        self._checked_out = self._known[key] = after
        return after

    def keep(self) -> None:
        """Remembers it for the next run."""
        write_atomically(self._file, json.dumps(self._known, indent=0) + "\n")
