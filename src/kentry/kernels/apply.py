# SPDX-License-Identifier: GPL-2.0-or-later
"""Applies patches to a kernel's source, one on top of the other."""

from __future__ import annotations

import hashlib
import itertools
import json
import posixpath
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

from kentry.errors import PatchError, UserError
from kentry.host.cache import no_space_is_an_error, write_atomically
from kentry.kernels.diff_check import LOOK_AT_IT
from kentry.kernels.git import Git
from kentry.kernels.mail import one_line
from kentry.kernels.patches import Patch, read_patches
from kentry.kernels.repository import Revision
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
    """One step for each patch; a patch that does not apply is left out of those after it.

    UserError if a patch leads out of the tree, or the disk is full.
    """
    repository = base.repository
    steps = []
    commit, checked_out = base.commit, ""
    with repository.locked(update), no_space_is_an_error(repository.folder):
        # To apply a patch again would touch its files, and so have them compiled again.
        memory = repository.folder / "applied.json"
        applied = _read_memory(memory)
        for patch in patches:
            parts = (patch.author.encode(), patch.date.encode(), patch.message, patch.diff)
            key = f"{commit} {hashlib.sha256(bytes(1).join(parts)).hexdigest()}"
            after = applied.get(key, "")
            if not after or repository.git("cat-file", "-e", after, check=False).returncode:
                if checked_out != commit:
                    repository.check_out(commit, update)
                    checked_out = commit
                update(None, "applying the patch")
                try:
                    after = _apply(repository.git, patch)
                except PatchError as err:
                    steps.append(Step(patch.number, patch.subject, None, err.sentence))
                    continue
                checked_out = applied[key] = after
            commit = after
            origin = {**base.origin, "patch": patch.subject, "patched_commit": commit}
            revision = Revision(repository, commit, repository.tree_of(commit), origin)
            steps.append(Step(patch.number, patch.subject, revision))
        write_atomically(memory, json.dumps(applied, indent=0) + "\n")
    return steps


def _read_memory(file: Path) -> dict[str, str]:
    try:
        found = json.loads(file.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return found if isinstance(found, dict) else {}


def _apply(git: Git, patch: Patch) -> str:
    """Applies a patch to the work tree and commits it, as git am does; the new commit.

    PatchError says why it does not apply; the work tree then is as before.
    """
    with TemporaryDirectory(prefix="kentry-patch-") as name:
        diff, message = Path(name, "diff"), Path(name, "message")
        diff.write_bytes(patch.diff)
        message.write_bytes(patch.message)
        done = git("apply", "--index", "--whitespace=nowarn", str(diff), check=False)
        if done.returncode:
            raise PatchError(f"does not apply: {explain_rejection(done.stderr)}.")
        _check_links(git, patch)
        words = ("--quiet", "--allow-empty", "--no-verify", "--cleanup=whitespace")
        origin = (f"--author={patch.author}", f"--date={patch.date}", f"--file={message}")
        git("commit", *words, *origin)
    return git.line("rev-parse", "HEAD")


def _check_links(git: Git, patch: Patch) -> None:
    """UserError if the patch makes a link that leads out of the tree, however it makes it."""
    rows = git("diff-index", "--cached", "--no-renames", "-z", "HEAD").stdout.split("\0")
    for row, path in zip(rows[::2], rows[1::2], strict=False):
        _, mode, _, blob, _ = row.split()
        name = f"Patch {patch.number} ({patch.subject}) makes {one_line(path)}"
        if mode == "160000":
            raise UserError(f"{name} a submodule.", LOOK_AT_IT)
        if mode != "120000":
            continue
        target = git("cat-file", "blob", blob).stdout
        leads = posixpath.normpath(posixpath.join(posixpath.dirname(path), target))
        # Where a link leads that goes up after it went down depends on other links.
        parts = [part for part in target.split("/") if part not in ("", ".")]
        climbs = ".." in itertools.dropwhile(lambda part: part == "..", parts)
        if not target or climbs or leads[0] == "/" or {"..", ".git"} & set(leads.split("/")):
            raise UserError(
                f"{name} a symbolic link to '{one_line(target)}', which leads out of the tree.",
                LOOK_AT_IT,
            )


# Messages of git's apply.c, 2.39, and what they mean.  "patch does not apply" comes last of all
# about a file: the line before it says more.
_CLAUSES = (
    (r"patch failed: (.+):(\d+)", "the hunk for {0} at line {1} does not match the file"),
    (r"(.+): does not exist in index", "{0} does not exist in the tree"),
    (r"(.+): No such file or directory", "{0} does not exist in the tree"),
    (r"(.+): already exists in (?:index|working directory)", "{0} is already there"),
    (r"(.+): does not match index", "{0} was changed after it was checked out"),
    (r"(.+): wrong type", "{0} is not the kind of file the patch expects"),
    (r"corrupt patch at (?:\S*:|line )(\d+)", "its diff is damaged at line {0}"),
    (r"invalid path '(.+)'", "it changes {0}, which is outside the tree"),
    (r"affected file '(.+)' is beyond a symbolic link", "{0} is behind a symbolic link"),
    (r"cannot apply binary patch to '(.+)' without full index line", "{0} is binary and left out"),
    (r"(.+): patch does not apply", "the change to {0} does not match the file"),
)


def explain_rejection(stderr: str) -> str:
    """Why git apply refused a patch, as a clause that a sentence can end with."""
    lines = [line.strip() for line in stderr.splitlines() if line.strip()]
    errors = [line.removeprefix("error: ") for line in lines if line.startswith("error: ")]
    for error in errors:
        for pattern, clause in _CLAUSES:
            if match := re.fullmatch(pattern, error):
                return clause.format(*match.groups())
    fatal = [line.removeprefix("fatal: ") for line in lines if line.startswith("fatal: ")]
    return one_line((errors or fatal or lines or ["git gave no reason"])[0]).rstrip(".")
