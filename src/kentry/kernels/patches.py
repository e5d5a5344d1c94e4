# SPDX-License-Identifier: GPL-2.0-or-later
"""A series of patches: read, checked, in order, and applied to a source.

git mailsplit and git mailinfo take mails apart.  b4 is not used: it takes several unnumbered
patches in one mbox for versions of one and keeps the last, needs a Message-ID, and gives an undated
mail today's date.  git apply drops what a hunk's header does not promise, so a damaged patch could
apply as another one: a diff is checked before it is applied.
"""

from __future__ import annotations

import contextlib
import itertools
import os
import posixpath
import re
import subprocess
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import UTC
from email.utils import format_datetime, parsedate_to_datetime
from pathlib import Path
from tempfile import TemporaryDirectory

from kentry.errors import PatchError, UserError
from kentry.host.cache import read_at_most
from kentry.kernels.repository import Git, Repository, Revision

FETCH_RAW = "Fetch it again as raw mail: b4 am, or lore's raw link."
_KINDS = "Name an mbox, a patch, a folder from git format-patch, or a quilt series file."
_WHOLE_SERIES = "Give one version of one series, whole, or take the n/m out of the subjects."
_LOOK_AT_IT = "kentry applies only patches that stay in the tree: look at where this one is from."

# Without an author or a date the same patch must still make the same commit everywhere.
_NOBODY = ("unknown", "unknown@localhost")
_NO_DATE = "Thu, 1 Jan 1970 00:00:00 +0000"
_LAST_DATE = 2**32  # seconds; git refuses dates after 2099
# A thread has a few hundred messages; each takes git some milliseconds.
_MOST_MESSAGES = 1000
# A month of the largest mailing list has 100 MB.
_MOST_BYTES = 256 << 20
# Of a mail, bytes: to match them takes a hundred times as much memory.
_LONGEST_HEADER = 1 << 20
# What git may take to apply one, whose binary parts are packed: bytes.
_MOST_MEMORY = 1 << 30

# How an mbox, and a mail on its own, begin: RFC 5322 2.2.
_BEGINNING = re.compile(rb"\s*(?:From |(?:[!-9;-~]+:[^\n]*\n(?:[ \t][^\n]*\n)*)*?(?:From|Date): )")
_FORMAT_PATCH = re.compile(rb"\s*From [0-9a-f]{40,64} Mon Sep 17 00:00:00 2001\n")
_DIFF = re.compile(rb"^(?:diff --git |--- [^\n]+\n\+\+\+ |@@ -\d)", re.MULTILINE)
# How the text of an archive's page begins.
_TITLE = re.compile(rb"\s*(\[(?=[^]\n]*\])[^]\n]*?PATCH[^]\n]*\][^\n]+)")
# What stands between the messages of a page of lore, and above each commit of git log -p.
_PASTED = re.compile(rb"^(?:\^ permalink raw reply|commit [0-9a-f]{40}\b)", re.MULTILINE)
_TAGS = re.compile(r"(?:\s*\[[^]]*\]\s*)+")
_REPLY = re.compile(r"\s*(re|fwd?|aw)\s*:", re.IGNORECASE)
_NUMBER = re.compile(r"\b(\d{1,6})/(\d{1,6})\b")
_BASE = re.compile(rb"^base-commit: ([0-9a-f]{40})\s*$", re.MULTILINE)
_CHANGE_ID = re.compile(rb"^change-id: ([\w.+-]{1,200})\s*$", re.MULTILINE)
# Nine digits: more lines than a kernel has.
_HUNK = re.compile(rb"@@ -\d{1,9}(?:,(\d{1,9}))? \+\d{1,9}(?:,(\d{1,9}))? @@")
# Lines of a file's header that name a file, the old one too, which git apply --numstat leaves out.
_NAMED = re.compile(rb"(?:---|\+\+\+|(?:rename|copy) (?:from|to)) ([^\t]+)")


@dataclass(frozen=True)
class Patch:
    """A mail taken apart: `log` is the text above its ---, `diff` everything below.

    `tags` are the brackets at the head of the subject, "[PATCH v2 1/3]".  `source` says which file
    it is from and which message of it.  `line` is the line of `file` at which `diff` begins, 0
    where the mail was encoded.  `placed` says that a quilt series file gives it its place.
    """

    file: Path
    source: str
    tags: str
    subject: str
    author: str
    date: str
    log: bytes
    diff: bytes
    line: int = 0
    placed: bool = False

    @property
    def message(self) -> bytes:
        """The message of the commit."""
        return self.subject.encode() + b"\n\n" + self.log


def _mails(named: Path) -> Iterator[Patch]:
    if not os.path.isdir(named):  # unlike Path's, never an OSError
        quilt = named.name == "series" or named.suffix == ".series"
        yield from _quilt(named) if quilt else _file(named)
        return
    if os.path.exists(named / "series"):
        yield from _quilt(named / "series")
        return
    try:
        files = sorted(
            file
            for file in named.iterdir()
            if file.suffix in (".patch", ".eml") and os.path.isfile(file)
        )
    except OSError as err:
        raise UserError(f"{named} cannot be read: {err.strerror}.", _KINDS) from err
    if not files:
        raise UserError(f"The folder {named} has no *.patch, no *.eml and no series in it.", _KINDS)
    for file in files:
        yield from _file(file)


def _no_repository(folder: Path) -> Git:
    """Return git in a folder that is no repository, the same for every user."""
    return Git(folder / "none", folder)


def _one_line(text: str) -> str:
    """Return `text` on one line, without what a terminal would act on."""
    return " ".join("".join(char if char.isprintable() else " " for char in text).split())


def _quilt(series: Path) -> Iterator[Patch]:
    """Read a quilt series, in its order; UserError for what kentry does not apply."""
    remedy = "Export the patches with git format-patch, or change the series file."
    inside = Path(os.path.realpath(series.parent))
    files: list[Path] = []
    for number, line in enumerate(_text(series).decode(errors="replace").splitlines(), 1):
        # A comment is a line of its own, or comes after a name and a blank.
        name, *options = re.sub(r"(^|\s)#.*", "", line).split() or [""]
        if not name:
            continue
        where = f"Line {number} of {series}"
        if other := next((word for word in options if word != "-p1"), None):
            raise UserError(f"{where} has the option '{other}'; only -p1 is supported.", remedy)
        file = series.parent / name
        real = Path(os.path.realpath(file))
        if not real.is_relative_to(inside) or {"..", "/"} & set(Path(name).parts):
            raise UserError(f"{where} names {name}, which is outside its folder.", remedy)
        if not os.path.isfile(file):
            raise UserError(f"{where} names {name}, which is not a file there.", remedy)
        files.append(file)
    if not files:
        raise UserError(f"{series} names no patch.", _KINDS)
    # A line of a few bytes may name a large file, and many lines the same one.
    if len(files) > _MOST_MESSAGES or sum(file.stat().st_size for file in files) > _MOST_BYTES:
        most = f"{_MOST_MESSAGES} patches or {_MOST_BYTES >> 20} MiB"
        raise UserError(f"{series} names more than {most}.", "Name a part of the series.")
    for patch in itertools.chain.from_iterable(map(_file, files)):
        yield replace(patch, placed=True)


def _text(file: Path) -> bytes:
    data = read_at_most(file, _MOST_BYTES, _KINDS)
    if b"\0" in data:
        raise UserError(f"{file} is an archive or binary, not patches.", f"Unpack it. {_KINDS}")
    if not data.strip():
        raise UserError(f"{file} is empty.", _KINDS)
    return data.replace(b"\r\n", b"\n").removesuffix(b"\n") + b"\n"


def _file(file: Path) -> Iterator[Patch]:
    data = mbox = _text(file)
    if not _BEGINNING.match(data, 0, _LONGEST_HEADER):
        # A bare diff, perhaps with a text above it.
        if not _DIFF.search(data):
            raise UserError(f"{file} has no patch in it.", _KINDS)
        if len(_PASTED.findall(data)) > 1 or b"\n^ permalink raw" in data:
            raise UserError(
                f"{file} has several messages or commits in it that nothing keeps apart.",
                f"{FETCH_RAW} From a repository: git format-patch.",
            )
        titled = _TITLE.match(data)
        subject = titled[1] if titled else file.stem.encode(errors="replace")
        mbox = b"From: \nSubject: %b\n\n%b" % (subject, data)
    with TemporaryDirectory(prefix="kentry-mail-") as name:
        folder = Path(name)
        git = _no_repository(folder)
        # git format-patch does not quote "From "; an archive does.
        quoting = [] if _FORMAT_PATCH.match(mbox) else ["--mboxrd"]
        try:
            git("mailsplit", "-b", *quoting, f"-o{folder}", feed=mbox)
            mails = sorted(folder.iterdir())
            if len(mails) > _MOST_MESSAGES:
                raise UserError(
                    f"{file} has {len(mails)} messages; kentry reads at most {_MOST_MESSAGES}.",
                    "Name an mbox of one thread, as b4 mbox fetches it.",
                )
            for number, mail in enumerate(mails, 1):
                source = f"{file}, message {number}" if len(mails) > 1 else str(file)
                patch = _patch(file, source, mail.read_bytes(), git, folder)
                at = data.find(patch.diff) if patch.diff else -1
                yield replace(patch, line=data.count(b"\n", 0, at) + 1 if at >= 0 else 0)
        except subprocess.CalledProcessError as err:
            raise UserError(f"git cannot read {file} as mail.", FETCH_RAW, err.stderr) from err


def _patch(file: Path, source: str, mail: bytes, git: Git, folder: Path) -> Patch:
    # quoted-cr: base64 and quoted-printable hide carriage returns.  Not --encoding=UTF-8, the
    # default: git 2.39 does not convert at all if it is given.
    command = ("mailinfo", "-k", "--no-scissors", "--quoted-cr=strip")
    log, diff = folder / "log", folder / "diff"
    fields = dict.fromkeys(("Author", "Email", "Subject", "Date"), "")
    for row in git(*command, str(log), str(diff), feed=mail).stdout.split("\n"):
        key, _, value = row.partition(": ")
        if key in fields:
            fields[key] = _one_line(f"{fields[key]} {value}")
    author, address = (re.sub("[<>]", "", fields[key]) for key in ("Author", "Email"))
    if "@" not in address:
        author, address = author or _NOBODY[0], _NOBODY[1]
    date = _NO_DATE
    with contextlib.suppress(ValueError, OverflowError):
        # A zone that has no number ("CEST") reads as UTC.
        moment = parsedate_to_datetime(fields["Date"])
        moment = moment if moment.tzinfo else moment.replace(tzinfo=UTC)
        if 0 <= moment.timestamp() < _LAST_DATE:
            date = format_datetime(moment)
    tags = match[0] if (match := _TAGS.match(fields["Subject"])) else ""
    return Patch(
        file,
        source,
        tags,
        fields["Subject"].removeprefix(tags).strip(" :") or file.stem,
        f"{author or address} <{address}>",
        date,
        log.read_text(errors="replace").encode(),
        diff.read_bytes().removeprefix(b"---\n"),
    )


@dataclass(frozen=True)
class PatchSeries:
    """The patches in order, format-patch's base-commit, b4's change-id, what was left out."""

    patches: tuple[Patch, ...]
    base_commit: str | None
    change_id: str | None
    notes: tuple[str, ...]


def read_patches(files: Sequence[Path]) -> PatchSeries:
    """Read the series in `files`; UserError says what is wrong with them, or with a patch."""
    mails = [mail for file in files for mail in _mails(file)]
    written = [mail for mail in mails if not _REPLY.match(mail.subject)]
    replies = len(mails) - len(written)
    notes = [f"skipped {replies} repl{'y' if replies == 1 else 'ies'}"] if replies else []
    chosen = []
    for mail in written:
        if _place(mail)[0] == 0:
            notes.append(f"skipped cover letter '{mail.tags}{mail.subject}'")
        elif not _DIFF.search(mail.diff):
            notes.append(f"skipped '{mail.tags}{mail.subject}': it has no diff")
        else:
            chosen.append(mail)
    if not chosen:
        which = ", ".join(str(file) for file in files) or "The list of files"
        skipped = f" ({'; '.join(notes)})" if notes else ""
        raise UserError(f"{which} has no patch in it{skipped}.", FETCH_RAW)
    patches = _in_order(chosen, notes)
    for number, patch in enumerate(patches, 1):
        _check_diff(f"Patch {number} ({patch.subject})", patch)
    text = b"\n".join(patch.log + patch.diff for patch in written)
    base, change_id = (
        match[1].decode() if (match := trailer.search(text)) else None
        for trailer in (_BASE, _CHANGE_ID)
    )
    return PatchSeries(tuple(patches), base, change_id, tuple(notes))


def _place(patch: Patch) -> tuple[int, int]:
    """Return n and m of [PATCH n/m]; -1 for both without."""
    match = None if patch.placed else _NUMBER.search(patch.tags)
    return (int(match[1]), int(match[2])) if match else (-1, -1)


def _in_order(patches: list[Patch], notes: list[str]) -> list[Patch]:
    """Sort the patches by their n/m if all have one; UserError where one is missing or twice."""
    numbered = [patch for patch in patches if _place(patch)[0] >= 0]
    ordered = sorted(numbered, key=lambda patch: _place(patch)[0])
    total = 0
    for expected, patch in enumerate(ordered, 1):
        number, total = _place(patch)
        if number > expected:
            raise UserError(f"Patch {expected} of {total} is missing.", _WHOLE_SERIES)
        if number < expected:
            sentence = f"Patch {number} of {total} is there twice, in {patch.source}."
            raise UserError(sentence, _WHOLE_SERIES)
    if len(ordered) < total:
        notes.append(f"of {total} patches only 1 to {len(ordered)} are given")
    if len(ordered) < len(patches) or ordered == numbered:
        return patches
    notes.append("patches were out of order: sorted by their [PATCH n/m]")
    return ordered


def _check_diff(name: str, patch: Patch) -> None:
    """Raise UserError, with the patch's `name`, if its diff is damaged or leaves the tree."""
    headers: list[bytes] = []
    lines = patch.diff.removesuffix(b"\n").split(b"\n")
    # Hunks are found as git apply finds them.
    target, by_git, at = "", False, 0
    while at < len(lines):
        line, after, third = (*lines[at : at + 3], b"", b"")[:3]
        if line.startswith(b"@@ -"):
            end = _end_of_hunk(lines, at) if target else 0
            if not end:
                raise _damaged(name, patch, at, target)
            at = end
            continue
        if line.startswith(b"diff --git "):
            by_git = True
        elif line.startswith(b"--- ") and after.startswith(b"+++ "):
            # GNU diff puts a time after a tab; the first component is a/, b/ or a folder's name.
            old, new = (
                _one_line(header[4:].partition(b"\t")[0].decode(errors="replace"))
                for header in (line, after)
            )
            file = old if new == "/dev/null" else new
            target = file.partition("/")[2] or file
            if by_git and not third.startswith(b"@@ -"):
                raise _damaged(name, patch, at + 2, target)
            by_git = False
        headers.append(line)
        at += 1
    named = filter(None, map(_NAMED.match, headers))
    _check_inside(name, [match[1].decode(errors="replace") for match in named])
    with TemporaryDirectory(prefix="kentry-diff-") as folder:
        try:
            command = ("apply", "--numstat", "-z")
            git = _no_repository(Path(folder))
            rows = git(*command, feed=patch.diff).stdout.split("\0")
        except subprocess.CalledProcessError as err:
            sentence = f"{name} is damaged: git apply cannot read it."
            raise UserError(sentence, FETCH_RAW, err.stderr) from err
    _check_inside(name, [row.split("\t", 2)[2] for row in rows if row])


def _damaged(name: str, patch: Patch, at: int, target: str) -> UserError:
    where = f"line {at + max(patch.line, 1)} of"
    where += f" {patch.file}" if patch.line else f" the diff in {patch.source}"
    where += f" for {target}" if target else ""
    return UserError(
        f"{name} is damaged: the hunk at {where} does not have the lines its header promises.",
        FETCH_RAW,
    )


def _check_inside(name: str, paths: list[str]) -> None:
    for path in paths:
        for end in (path.partition("/")[2], path):
            outside = {"..", ".git"} & set(end.lower().split("/")) or end.startswith("/")
            if outside and end != "/dev/null":
                sentence = f"{name} changes {_one_line(end)}, which is outside the kernel tree."
                raise UserError(sentence, _LOOK_AT_IT)


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


def apply_patches(base: Revision, patches: Sequence[Patch]) -> list[Step]:
    """Make a step of each patch, on those before that apply; UserError if it leaves the tree."""
    # In an index of their own, so that no file of the work tree is touched and compiled again.
    repository, steps, commit = base.repository, [], base.commit
    with TemporaryDirectory(prefix="kentry-patch-") as folder, repository.reading(commit):
        repository.check(commit)
        git = Git(repository.git.folder, repository.work, f"{folder}/index")
        git("read-tree", commit)
        for number, patch in enumerate(patches, 1):
            try:
                commit, tree = _apply(git, repository, commit, patch)
            except PatchError as err:
                steps.append(Step(number, patch.subject, None, err.sentence))
                continue
            origin = {**base.origin, "patch": patch.subject, "patched_commit": commit}
            revision = Revision(repository, commit, tree, origin)
            steps.append(Step(number, patch.subject, revision))
    return steps


def _apply(git: Git, repository: Repository, parent: str, patch: Patch) -> tuple[str, str]:
    """Return the commit that git am would make, and its tree; PatchError, KernelError."""
    words = ("apply", "--cached", "--whitespace=nowarn")
    done = git(*words, check=False, feed=patch.diff, memory=_MOST_MEMORY)
    if unread := re.search(r"^error: failed to read (.*)", done.stderr, re.MULTILINE):
        repository.failed(parent, f"{unread[1]} is missing")
    if done.returncode:
        raise PatchError(f"does not apply: {_why(done.stderr)}.")
    tree = git.line("write-tree")
    # A link that the patch makes may not lead out of the tree, however the patch makes it.
    rows = git("diff-tree", "-r", "--no-renames", "-z", parent, tree).stdout.split("\0")
    for row, path in zip(rows[::2], rows[1::2], strict=False):
        _, mode, _, blob, _ = row.split()
        what = f"The patch '{patch.subject}' makes {_one_line(path)}"
        if mode == "160000":
            raise UserError(f"{what} a submodule.", _LOOK_AT_IT)
        if mode != "120000":
            continue
        target = git("cat-file", "blob", blob).stdout
        leads = posixpath.normpath(posixpath.join(posixpath.dirname(path), target))
        # Where a link leads that goes up after it went down depends on other links.
        parts = [part for part in target.split("/") if part not in ("", ".")]
        climbs = ".." in itertools.dropwhile(lambda part: part == "..", parts)
        if not target or climbs or leads[0] == "/" or {"..", ".git"} & set(leads.split("/")):
            where = f"a symbolic link to '{_one_line(target)}', which leads out of the tree."
            raise UserError(f"{what} {where}", _LOOK_AT_IT)
    message = git("stripspace", feed=patch.message).stdout.replace("\0", "").encode()
    name, _, address = patch.author.removesuffix(">").rpartition(" <")
    author = {"NAME": name, "EMAIL": address, "DATE": patch.date}
    env = {f"GIT_AUTHOR_{what}": text for what, text in author.items()}
    done = git("commit-tree", "-p", parent, tree, feed=message, env=env, check=False)
    if done.returncode:
        raise PatchError(f"cannot be committed: {_why(done.stderr)}.")
    return done.stdout.strip(), tree


def _why(stderr: str) -> str:
    lines = [line.strip() for line in stderr.splitlines() if line.strip()]
    for mark in ("error: ", "fatal: "):
        lines = [line.removeprefix(mark) for line in lines if line.startswith(mark)] or lines
    if hunk := re.fullmatch(r"patch failed: (.+):(\d+)", lines[0] if lines else ""):
        return f"the hunk for {hunk[1]} at line {hunk[2]} does not match the file"
    return _one_line((lines or ["git gave no reason"])[0]).rstrip(".")
