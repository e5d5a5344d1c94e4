# SPDX-License-Identifier: GPL-2.0-or-later
"""A series of patches: the newest version of each, checked, in order, and applied to a source.

git apply drops what a hunk's header does not promise, so a damaged patch could apply as another
one: a diff is checked before it is applied.
"""

from __future__ import annotations

import hashlib
import itertools
import json
import posixpath
import re
import subprocess
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

from kentry.errors import PatchError, UserError
from kentry.host.cache import no_space_is_an_error, read_json, write_atomically
from kentry.host.process import need, run
from kentry.kernels.mail import FETCH_RAW, Mail, git_env, one_line, read_mails
from kentry.kernels.repository import Git, Revision
from kentry.progress import Update

_WHOLE_SERIES = "Give one version of one series, whole, or take the n/m out of the subjects."

# A reply as mail programs mark it; \uff1a is the colon of Chinese ones.
_REPLY = re.compile(
    "\\s*(re|aw|fwd?|sv|vs|wg|antw|回复|答复|转发)(\\[\\d+\\])?\\s*[:\uff1a]", re.IGNORECASE
)
_TAGS = re.compile(r"(?:\s*\[[^]]*\])+")
_NUMBER = re.compile(r"\b(\d{1,6})/(\d{1,6})\b")
_VERSION = re.compile(r"(?<![a-z])(?:patch|rfc)?\s*v(\d{1,4})(?![\w.])", re.IGNORECASE)
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
class Patch:
    """One patch of a series and the commit to make of it.

    `number` is its place from 1; `subject` has no [PATCH ...]; `source` says which file and
    which message of it; `message` is the commit's, subject and all.
    """

    number: int
    subject: str
    author: str
    date: str
    message: bytes
    diff: bytes
    source: str


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


@dataclass(frozen=True)
class _Numbered:
    """A mail with what its subject's brackets say: [PATCH v2 1/3]; `number` None without n/m."""

    mail: Mail
    version: int
    number: int | None
    total: int

    @classmethod
    def of(cls, mail: Mail) -> _Numbered:
        found = _TAGS.match(mail.subject)
        text = found[0] if found else ""
        version, number = _VERSION.search(text), _NUMBER.search(text)
        if mail.placed:
            number = None
        return cls(
            mail,
            int(version[1]) if version else 1,
            int(number[1]) if number else None,
            int(number[2]) if number else 0,
        )


def read_patches(files: Sequence[Path]) -> PatchSeries:
    """The series in `files`; UserError says what is wrong with them, or with a patch."""
    mails = [mail for file in files for mail in read_mails(file)]
    written = [_Numbered.of(mail) for mail in mails if not _REPLY.match(mail.subject)]
    replies = len(mails) - len(written)
    notes = [f"skipped {replies} repl{'y' if replies == 1 else 'ies'}"] if replies else []
    newest = _newest(written, notes)
    chosen: list[_Numbered] = []
    for one in newest:
        cover = one.number == 0
        if one.mail.has_diff and not cover:
            chosen.append(one)
        else:
            why = "" if cover else ": it has no diff"
            notes.append(f"skipped {'cover letter ' if cover else ''}'{one.mail.subject}'{why}")
    if not chosen:
        which = ", ".join(str(file) for file in files) or "The list of files"
        skipped = f" ({'; '.join(notes)})" if notes else ""
        raise UserError(f"{which} has no patch in it{skipped}.", FETCH_RAW)
    patches = []
    for number, mail in enumerate(_in_order(chosen, notes), 1):
        subject = _TAGS.sub("", mail.subject, count=1).strip(" :")
        check_diff(f"Patch {number} ({subject})", mail)
        message = subject.encode() + b"\n\n" + mail.log
        patches.append(
            Patch(number, subject, mail.author, mail.date, message, mail.diff, mail.source)
        )
    text = b"\n".join(one.mail.log + one.mail.diff for one in newest)
    trailers = []
    for pattern in (_BASE, _CHANGE_ID):
        values = list(dict.fromkeys(match[1].decode() for match in pattern.finditer(text)))
        if len(values) > 1:
            notes.append(f"the messages name {', '.join(values)}: took the first")
        trailers.append(values[0] if values else None)
    return PatchSeries(tuple(patches), trailers[0], trailers[1], tuple(notes))


def _newest(mails: list[_Numbered], notes: list[str]) -> list[_Numbered]:
    """`mails` without those of which there is a later version: [PATCH v2] for [PATCH]."""
    groups: dict[str | None, list[_Numbered]] = {}
    for one in mails:
        # A series has one version as a whole; a patch on its own has its own.
        bare = None if one.number is not None else _TAGS.sub("", one.mail.subject, 1)
        groups.setdefault(bare, []).append(one)
    left_out: list[_Numbered] = []
    for bare, group in groups.items():
        version = max(one.version for one in group)
        older = [one for one in group if one.version < version and not one.mail.placed]
        numbers = Counter(one.number for one in group if one.mail.has_diff)
        if older and (bare is not None or max(numbers.values(), default=0) > 1):
            versions = sorted({one.version for one in older})
            notes.append(f"took v{version}, left out {', '.join(f'v{old}' for old in versions)}")
            left_out += older
    return [one for one in mails if one not in left_out]


def _in_order(mails: list[_Numbered], notes: list[str]) -> list[Mail]:
    """The mails sorted by n of their n/m, those without staying in their places."""
    by_number: dict[int, _Numbered] = {}
    for one in mails:
        if one.number is None:
            continue
        other = by_number.setdefault(one.number, one)
        if other is not one:
            twice = f"{other.mail.source} and {one.mail.source}"
            raise UserError(f"Patch {one.number} is there twice: {twice}.", _WHOLE_SERIES)
    last = max(by_number, default=0)
    total = max([one.total for one in by_number.values()] + [last])
    for number in range(1, last):
        if number not in by_number:
            raise UserError(f"Patch {number} of {total} is missing.", _WHOLE_SERIES)
    if last < total:
        notes.append(f"of {total} patches only 1 to {last} are given")
    in_order = iter(sorted(by_number))
    ordered = [one if one.number is None else by_number[next(in_order)] for one in mails]
    if ordered != mails:
        notes.append("patches were out of order: sorted by their [PATCH n/m]")
    return [one.mail for one in ordered]


def check_diff(name: str, mail: Mail) -> None:
    """UserError, with the patch's `name`, if its diff is damaged or leaves the tree."""
    lines = mail.diff.removesuffix(b"\n").split(b"\n")
    try:
        headers = _headers(lines)
    except _HunkError as err:
        place, target = err.args
        where = f"line {place + max(mail.line, 1)} of"
        where += f" {mail.file}" if mail.line else f" the diff in {mail.source}"
        where += f" for {target}" if target else ""
        raise UserError(
            f"{name} is damaged: the hunk at {where} does not have the lines its header promises.",
            FETCH_RAW,
        ) from err
    if mail.pasted:
        raise UserError(
            f"{mail.source} is damaged: several messages or commits are pasted together in it.",
            f"{FETCH_RAW} From a repository: git format-patch.",
        )
    names = [_NAMED.match(line) for line in headers]
    _check_inside(name, [found[1].decode(errors="replace") for found in names if found])
    with TemporaryDirectory(prefix="kentry-diff-") as folder:
        file = Path(folder) / "diff"
        file.write_bytes(mail.diff)
        argv = [need("git", "git"), "apply", "--numstat", "-z", str(file)]
        try:
            rows = run(argv, env=git_env(file.parent), cwd=file.parent).stdout.split("\0")
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
    """The lines outside the hunks, which are found as git apply finds them."""
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
    """The place of the line after the hunk at `start`; 0 where its header promises others."""
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
            tree = repository.git.line("rev-parse", f"{commit}^{{tree}}")
            revision = Revision(repository, commit, tree, origin)
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
