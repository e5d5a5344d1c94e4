# SPDX-License-Identifier: GPL-2.0-or-later
"""Applies patches to a kernel's source, one on top of the other."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from kentry.errors import PatchError
from kentry.host.cache import write_atomically
from kentry.kernels.patches import Patch, read_patches
from kentry.kernels.repository import Repository, Revision
from kentry.progress import Update


@dataclass(frozen=True)
class Step:
    """One patch: the source with it, or why there is none."""

    number: int
    subject: str
    revision: Revision | None
    problem: str = ""


def patched(base: Revision, patches: Path, update: Update) -> Revision:
    """`base` with every patch of a file or folder; PatchError names the first that fails."""
    steps = apply_patches(base, read_patches([patches]).patches, update)
    for step in steps:
        if step.revision is None:
            raise PatchError(
                f"Patch {step.number}, '{step.subject}', {step.problem}",
                "kentry series shows what becomes of each patch.",
            )
    assert steps[-1].revision
    return steps[-1].revision


def apply_patches(base: Revision, patches: Sequence[Patch], update: Update) -> list[Step]:
    """One step for each patch; a patch that does not apply is left out of those after it."""
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
