# SPDX-License-Identifier: GPL-2.0-or-later
"""Applies patches to a kernel's source, one on top of the other."""

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
from kentry.host.cache import no_space_is_an_error, read_json, write_atomically
from kentry.kernels.mail import one_line
from kentry.kernels.patches import LOOK_AT_IT, Patch, read_patches
from kentry.kernels.repository import Git, Revision
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
        applied = read_json(memory)
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


def _apply(git: Git, patch: Patch) -> str:
    """Applies a patch to the work tree and commits it, as git am does; the new commit.

    PatchError says why it does not apply; the work tree then is as before.  UserError if it leads
    out of the tree.
    """
    with TemporaryDirectory(prefix="kentry-patch-") as name:
        diff, message = Path(name, "diff"), Path(name, "message")
        diff.write_bytes(patch.diff)
        message.write_bytes(patch.message)
        done = git("apply", "--index", "--whitespace=nowarn", str(diff), check=False)
        if done.returncode:
            raise PatchError(f"does not apply: {explain_rejection(done.stderr)}.")
        # A link that the patch makes may not lead out of the tree, however the patch makes it.
        rows = git("diff-index", "--cached", "--no-renames", "-z", "HEAD").stdout.split("\0")
        for row, path in zip(rows[::2], rows[1::2], strict=False):
            _, mode, _, blob, _ = row.split()
            what = f"Patch {patch.number} ({patch.subject}) makes {one_line(path)}"
            if mode == "160000":
                raise UserError(f"{what} a submodule.", LOOK_AT_IT)
            if mode != "120000":
                continue
            target = git("cat-file", "blob", blob).stdout
            leads = posixpath.normpath(posixpath.join(posixpath.dirname(path), target))
            # Where a link leads that goes up after it went down depends on other links.
            parts = [part for part in target.split("/") if part not in ("", ".")]
            climbs = ".." in itertools.dropwhile(lambda part: part == "..", parts)
            if not target or climbs or leads[0] == "/" or {"..", ".git"} & set(leads.split("/")):
                where = f"a symbolic link to '{one_line(target)}', which leads out of the tree."
                raise UserError(f"{what} {where}", LOOK_AT_IT)
        words = ("--quiet", "--allow-empty", "--no-verify", "--cleanup=whitespace")
        origin = (f"--author={patch.author}", f"--date={patch.date}", f"--file={message}")
        git("commit", *words, *origin)
    return git.line("rev-parse", "HEAD")


def explain_rejection(stderr: str) -> str:
    """Why git apply refused a patch, as a clause that a sentence can end with."""
    lines = [line.strip() for line in stderr.splitlines() if line.strip()]
    for mark in ("error: ", "fatal: "):
        lines = [line.removeprefix(mark) for line in lines if line.startswith(mark)] or lines
    if hunk := re.fullmatch(r"patch failed: (.+):(\d+)", lines[0] if lines else ""):
        return f"the hunk for {hunk[1]} at line {hunk[2]} does not match the file"
    return one_line((lines or ["git gave no reason"])[0]).rstrip(".")
