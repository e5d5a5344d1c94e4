# SPDX-License-Identifier: GPL-2.0-or-later
"""A series of patches: checked, in order, and applied to a source.

git apply drops what a hunk's header does not promise, so a damaged patch could apply as another
one: a diff is checked before it is applied.
"""

from __future__ import annotations

import contextlib
import hashlib
import itertools
import json
import posixpath
import re
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

from kentry.errors import PatchError, UserError
from kentry.host.cache import no_space_is_an_error, read_json, write_atomically
from kentry.kernels.mail import FETCH_RAW, Patch, one_line, plain_git, read_mails
from kentry.kernels.repository import Git, Revision
from kentry.progress import Update

_WHOLE_SERIES = "Give one version of one series, whole, or take the n/m out of the subjects."

_REPLY = re.compile(r"\s*(re|fwd?|aw)\s*:", re.IGNORECASE)
_NUMBER = re.compile(r"\b(\d{1,6})/(\d{1,6})\b")
_BASE = re.compile(rb"^base-commit: ([0-9a-f]{40})\s*$", re.MULTILINE)
_CHANGE_ID = re.compile(rb"^change-id: ([\w.+-]{1,200})\s*$", re.MULTILINE)

LOOK_AT_IT = "kentry applies only patches that stay in the tree: look at where this one is from."

# Nine digits: more lines than a kernel has.
_HUNK = re.compile(rb"@@ -\d{1,9}(?:,(\d{1,9}))? \+\d{1,9}(?:,(\d{1,9}))? @@")
# Lines of a file's header that name a file, the old one too, which git apply --numstat leaves out.
_NAMED = re.compile(rb"(?:---|\+\+\+|(?:rename|copy) (?:from|to)) ([^\t]+)")


class _HunkError(Exception):
    """The hunk at a line of the diff, from 0, is damaged; `target` is the file it is for."""


@dataclass(frozen=True)
class PatchSeries:
    """The patches in the order they apply in, and what their messages say about them.

    `base_commit` and `change_id` are the trailers of git format-patch --base and of b4;
    `notes` say what was left out or moved.
    """

    patches: tuple[Patch, ...]
    base_commit: str | None
    change_id: str | None
    notes: tuple[str, ...]


def read_patches(files: Sequence[Path]) -> PatchSeries:
    """Read the series in `files`; UserError says what is wrong with them, or with a patch."""
    mails = [mail for file in files for mail in read_mails(file)]
    written = [mail for mail in mails if not _REPLY.match(mail.subject)]
    replies = len(mails) - len(written)
    notes = [f"skipped {replies} repl{'y' if replies == 1 else 'ies'}"] if replies else []
    chosen = []
    for mail in written:
        if _place(mail)[0] == 0:
            notes.append(f"skipped cover letter '{mail.tags}{mail.subject}'")
        elif not mail.has_diff:
            notes.append(f"skipped '{mail.tags}{mail.subject}': it has no diff")
        else:
            chosen.append(mail)
    if not chosen:
        which = ", ".join(str(file) for file in files) or "The list of files"
        skipped = f" ({'; '.join(notes)})" if notes else ""
        raise UserError(f"{which} has no patch in it{skipped}.", FETCH_RAW)
    patches = _in_order(chosen, notes)
    for number, patch in enumerate(patches, 1):
        check_diff(f"Patch {number} ({patch.subject})", patch)
    text = b"\n".join(one.log + one.diff for one in written)
    trailers = [
        match[1].decode() if (match := pattern.search(text)) else None
        for pattern in (_BASE, _CHANGE_ID)
    ]
    return PatchSeries(tuple(patches), trailers[0], trailers[1], tuple(notes))


def _place(patch: Patch) -> tuple[int, int] | tuple[None, None]:
    """Return n and m of [PATCH n/m]."""
    match = None if patch.placed else _NUMBER.search(patch.tags)
    return (int(match[1]), int(match[2])) if match else (None, None)


def _in_order(patches: list[Patch], notes: list[str]) -> list[Patch]:
    """Sort the patches by their n/m if all have one; UserError where one is missing or twice."""
    places = [_place(patch) for patch in patches]
    numbered = [
        (number, total, patch)
        for (number, total), patch in zip(places, patches, strict=True)
        if number is not None and total is not None
    ]
    ordered = sorted(numbered, key=lambda row: row[0])
    for expected, (number, total, patch) in enumerate(ordered, 1):
        if number != expected:
            what = "is missing" if number > expected else f"is there twice, in {patch.source}"
            which = expected if number > expected else number
            raise UserError(f"Patch {which} of {total} {what}.", _WHOLE_SERIES)
    if ordered and len(ordered) < ordered[-1][1]:
        notes.append(f"of {ordered[-1][1]} patches only 1 to {len(ordered)} are given")
    if len(ordered) < len(patches) or ordered == numbered:
        return patches
    notes.append("patches were out of order: sorted by their [PATCH n/m]")
    return [patch for *_, patch in ordered]


def check_diff(name: str, patch: Patch) -> None:
    """Raise UserError, with the patch's `name`, if its diff is damaged or leaves the tree."""
    lines = patch.diff.removesuffix(b"\n").split(b"\n")
    try:
        headers = _headers(lines)
    except _HunkError as err:
        place, target = err.args
        where = f"line {place + max(patch.line, 1)} of"
        where += f" {patch.file}" if patch.line else f" the diff in {patch.source}"
        where += f" for {target}" if target else ""
        raise UserError(
            f"{name} is damaged: the hunk at {where} does not have the lines its header promises.",
            FETCH_RAW,
        ) from err
    names = [_NAMED.match(line) for line in headers]
    _check_inside(name, [found[1].decode(errors="replace") for found in names if found])
    with TemporaryDirectory(prefix="kentry-diff-") as folder:
        try:
            words = ("apply", "--numstat", "-z")
            rows = plain_git(*words, folder=Path(folder), feed=patch.diff).split("\0")
        except subprocess.CalledProcessError as err:
            sentence = f"{name} is damaged: git apply cannot read it."
            raise UserError(sentence, FETCH_RAW, err.stderr) from err
    _check_inside(name, [row.split("\t", 2)[2] for row in rows if row])


def _check_inside(name: str, paths: list[str]) -> None:
    for path in paths:
        for end in (path.partition("/")[2], path):
            outside = {"..", ".git"} & set(end.lower().split("/")) or end.startswith("/")
            if outside and end != "/dev/null":
                raise UserError(
                    f"{name} changes {one_line(end)}, which is outside the kernel tree.", LOOK_AT_IT
                )


def _headers(lines: list[bytes]) -> list[bytes]:
    """Return the lines outside the hunks, which are found as git apply finds them."""
    headers: list[bytes] = []
    target, by_git, at = "", False, 0
    while at < len(lines):
        line, after, third = (*lines[at : at + 3], b"", b"")[:3]
        if line.startswith(b"@@ -"):
            end = _end_of_hunk(lines, at) if target else 0
            if not end:
                raise _HunkError(at, target)
            at = end
            continue
        if line.startswith(b"diff --git "):
            by_git = True
        elif line.startswith(b"--- ") and after.startswith(b"+++ "):
            # GNU diff puts a time after a tab; the first component is a/, b/ or a folder's name.
            old, new = (
                one_line(name[4:].partition(b"\t")[0].decode(errors="replace"))
                for name in (line, after)
            )
            name = old if new == "/dev/null" else new
            target = name.partition("/")[2] or name
            if by_git and not third.startswith(b"@@ -"):
                raise _HunkError(at + 2, target)
            by_git = False
        headers.append(line)
        at += 1
    return headers


def _end_of_hunk(lines: list[bytes], start: int) -> int:
    """Find the line after the hunk at `start`; 0 where its header promises other lines."""
    counts = _HUNK.match(lines[start])
    if not counts:
        return 0
    old, new = (int(count) if count else 1 for count in counts.groups())
    at = start + 1
    while old > 0 or new > 0:
        # An empty line is an empty line of context, to git apply and to GNU patch.
        mark = (lines[at][:1] or b" ") if at < len(lines) else b"?"
        if mark not in b" +-\\":
            return 0
        old -= mark in b" -"
        new -= mark in b" +"
        at += 1
    # git apply takes the rest for a remark and drops it: a wrapped line pushes lines out of the
    # hunk.  A signature's "-- " and the next file's --- are no such lines.
    left = lines[at] if at < len(lines) else b""
    return 0 if old or new or re.match(rb"\+|-(?!-)|[ \t]+\S", left) else at


@dataclass(frozen=True)
class Step:
    """One patch: the source with it, or why there is none."""

    number: int
    subject: str
    revision: Revision | None
    problem: str = ""


def apply_patches(base: Revision, patches: Sequence[Patch], update: Update) -> list[Step]:
    """Make a step of each patch; a patch that does not apply is left out of those after it.

    UserError if a patch leads out of the tree, or the disk is full.
    """
    repository = base.repository
    steps = []
    commit, checked_out = base.commit, ""
    with no_space_is_an_error(repository.folder), contextlib.ExitStack() as lock:
        # To apply a patch again would touch its files, and so have them compiled again.
        memory = repository.folder / "applied.json"
        before = read_json(memory)
        applied = dict(before)
        for number, patch in enumerate(patches, 1):
            parts = (patch.author.encode(), patch.date.encode(), patch.message, patch.diff)
            key = f"{commit} {hashlib.sha256(bytes(1).join(parts)).hexdigest()}"
            after = applied.get(key, "")
            if not after or repository.git("cat-file", "-e", after, check=False).returncode:
                if not checked_out:
                    # A series that was applied before waits for nobody.
                    lock.enter_context(repository.locked(update))
                if checked_out != commit:
                    repository.check_out(commit, update)
                    checked_out = commit
                update(None, "applying the patch")
                try:
                    after = _apply(repository.git, patch)
                except PatchError as err:
                    steps.append(Step(number, patch.subject, None, err.sentence))
                    continue
                checked_out = applied[key] = after
            commit = after
            origin = {**base.origin, "patch": patch.subject, "patched_commit": commit}
            tree = repository.git.line("rev-parse", f"{commit}^{{tree}}")
            revision = Revision(repository, commit, tree, origin)
            steps.append(Step(number, patch.subject, revision))
        if applied != before:
            write_atomically(memory, json.dumps(read_json(memory) | applied, indent=0) + "\n")
    return steps


def _apply(git: Git, patch: Patch) -> str:
    """Apply a patch to the work tree and commit it, as git am does; return the new commit.

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
            what = f"The patch '{patch.subject}' makes {one_line(path)}"
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
    """Return why git apply refused a patch, as a clause that a sentence can end with."""
    lines = [line.strip() for line in stderr.splitlines() if line.strip()]
    for mark in ("error: ", "fatal: "):
        lines = [line.removeprefix(mark) for line in lines if line.startswith(mark)] or lines
    if hunk := re.fullmatch(r"patch failed: (.+):(\d+)", lines[0] if lines else ""):
        return f"the hunk for {hunk[1]} at line {hunk[2]} does not match the file"
    return one_line((lines or ["git gave no reason"])[0]).rstrip(".")
