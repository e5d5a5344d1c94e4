# SPDX-License-Identifier: GPL-2.0-or-later
"""A series of patches, from whatever it came in, as messages that git am takes.

Nothing here applies a patch.  What is looked at is what git am will see: each message is
written anew, and what git mailinfo makes of that is what is checked.
"""

from __future__ import annotations

import html
import posixpath
import re
import subprocess
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory

from kentry.errors import UserError
from kentry.host.process import need, run
from kentry.kernels.mail import FETCH_RAW, Mail, git_env, mailinfo, printable, read_mails

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

_HUNK = re.compile(rb"@@ -(\d+)(?:,(\d+))? \+(\d+)(?:,(\d+))? @@")
_NAME = re.compile(rb'"(?:\\.|[^"\\])*"|\S+')
_ESCAPE = re.compile(rb"\\([0-7]{3}|.)")
_LINK = re.compile(rb"(?:new file mode|new mode|index \S+) 120000")
_MOVED = (b"rename from ", b"rename to ", b"copy from ", b"copy to ")
# What a browser makes of &current and its like in a page; all are addresses taken in C.
_ENTITIES = {
    html.unescape(f"&{word}"): f"&{word}"
    for word in ("current", "regs", "param", "timespec", "timestamp", "timer", "notifier")
}


@dataclass(frozen=True)
class Patch:
    """One patch of a series as a message that git am takes.

    `number` is its place from 1; `subject` has no [PATCH ...]; `source` says which file and
    which message of it.
    """

    number: int
    subject: str
    message: bytes
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
class _Tags:
    """What is in the brackets before a subject: [PATCH v2 1/3]."""

    version: int
    number: int | None
    total: int


@dataclass
class _Change:
    """What a diff does to one file; `named` is every name as the diff has it."""

    named: list[str] = field(default_factory=list)
    old: str = ""
    new: str = ""
    hunks: list[int] = field(default_factory=list)  # the old file's line at which each begins
    link: bool = False
    added: list[bytes] = field(default_factory=list)  # only of a link: where it leads

    @property
    def path(self) -> str:
        """Its name for people."""
        return printable(self.old if self.new in ("", "/dev/null") else self.new)


class _DamageError(Exception):
    """A diff that is not as it was made: which line, from 0, and what is wrong there."""

    def __init__(self, line: int, path: str, entity: str = "") -> None:
        super().__init__(path)
        self.line, self.path, self.entity = line, path, entity


def read_patches(files: Sequence[Path]) -> PatchSeries:
    """The series in `files`; UserError says what is wrong with them, or with a patch."""
    mails = [mail for file in files for mail in read_mails(file)]
    notes: list[str] = []
    written = [mail for mail in mails if not _REPLY.match(mail.subject)]
    if replies := len(mails) - len(written):
        notes.append(f"skipped {replies} repl{'y' if replies == 1 else 'ies'}")
    wanted = _newest(written, notes)
    found: list[Mail] = []
    for mail in wanted:
        cover = _tags(mail).number == 0
        if mail.has_diff and not cover:
            found.append(mail)
        else:
            why = "" if cover else ": it has no diff"
            notes.append(f"skipped {'cover letter ' if cover else ''}'{mail.subject}'{why}")
    if not found:
        which = ", ".join(str(file) for file in files) or "The list of files"
        skipped = f" ({'; '.join(notes)})" if notes else ""
        raise UserError(f"{which} has no patch in it{skipped}.", FETCH_RAW)
    ordered = _in_order(found, notes)
    patches = tuple(_patch(mail, number) for number, mail in enumerate(ordered, 1))
    base = _trailer(_BASE, wanted, notes)
    return PatchSeries(patches, base, _trailer(_CHANGE_ID, wanted, notes), tuple(notes))


def explain_rejection(git_am_stderr: str, message: bytes) -> str:
    """Why git am refused `message`, as a clause that a sentence can end with."""
    lines = [line.strip() for line in git_am_stderr.splitlines() if line.strip()]
    errors = [line.removeprefix("error: ") for line in lines if line.startswith("error: ")]
    for error in errors:
        if match := re.fullmatch(r"patch failed: (.+):(\d+)", error):
            return _unmatched_hunk(match[1], int(match[2]), message)
        for pattern, clause in _CLAUSES:
            if match := re.fullmatch(pattern, error):
                return clause.format(*match.groups())
    fatal = [line.removeprefix("fatal: ") for line in lines if line.startswith("fatal: ")]
    return printable((errors or fatal or lines or ["git am gave no reason"])[0]).rstrip(".")


# The words of git's apply.c, 2.39, and what they mean.  "patch does not apply" comes last of
# all about a file: the line before it says more.
_CLAUSES = (
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


def _unmatched_hunk(path: str, line: int, message: bytes) -> str:
    # Our own messages have no --- line above the one that ends the log.
    diff = message.partition(b"\n---\n")[2] or message
    try:
        changes = _changes(diff)
    except _DamageError:
        changes = []
    for change in changes:
        if path in (change.old, change.new) and line in change.hunks:
            number, total = change.hunks.index(line) + 1, len(change.hunks)
            return f"hunk {number} of {total} for {path} (at line {line}) does not match the file"
    return f"the hunk for {path} at line {line} does not match the file"


def _tags(mail: Mail) -> _Tags:
    found = _TAGS.match(mail.subject)
    text = found[0] if found else ""
    version, number = _VERSION.search(text), _NUMBER.search(text)
    placed = mail.placed or not number
    return _Tags(
        int(version[1]) if version else 1,
        None if placed or not number else int(number[1]),
        0 if placed or not number else int(number[2]),
    )


def _newest(mails: list[Mail], notes: list[str]) -> list[Mail]:
    """`mails` without those of which there is a later version: [PATCH v2] for [PATCH]."""
    groups: dict[str | None, list[Mail]] = {}
    for mail in mails:
        # A series has one version as a whole; a patch on its own has its own.
        numbered = _tags(mail).number is not None
        groups.setdefault(None if numbered else _TAGS.sub("", mail.subject, 1), []).append(mail)
    old: set[str] = set()
    for key, group in groups.items():
        newest = max(_tags(mail).version for mail in group)
        older = [mail for mail in group if _tags(mail).version < newest and not mail.placed]
        numbers = Counter(_tags(mail).number for mail in group if mail.has_diff)
        if older and (key is not None or max(numbers.values(), default=0) > 1):
            versions = sorted({_tags(mail).version for mail in older})
            notes.append(f"took v{newest}, left out {', '.join(f'v{one}' for one in versions)}")
            old.update(mail.source for mail in older)
    return [mail for mail in mails if mail.source not in old]


def _in_order(mails: list[Mail], notes: list[str]) -> list[Mail]:
    """`mails` sorted by n of their n/m, those without staying in their places."""
    places = [place for place, mail in enumerate(mails) if _tags(mail).number is not None]
    numbered = [mails[place] for place in places]
    by_number: dict[int, Mail] = {}
    for mail in numbered:
        number = _tags(mail).number or 0
        other = by_number.setdefault(number, mail)
        if other is not mail:
            twice = f"{other.source} and {mail.source}"
            raise UserError(f"Patch {number} is there twice: {twice}.", _WHOLE_SERIES)
    total = max([_tags(mail).total for mail in numbered] + list(by_number), default=0)
    last = max(by_number, default=0)
    missing = next((number for number in range(1, last) if number not in by_number), None)
    if missing:
        raise UserError(f"Patch {missing} of {total} is missing.", _WHOLE_SERIES)
    if last < total:
        notes.append(f"of {total} patches only 1 to {last} are given")
    ordered = list(mails)
    for place, number in zip(places, sorted(by_number), strict=True):
        ordered[place] = by_number[number]
    if ordered != mails:
        notes.append("patches were out of order: sorted by their [PATCH n/m]")
    return ordered


def _trailer(pattern: re.Pattern[bytes], mails: list[Mail], notes: list[str]) -> str | None:
    found = [m[1].decode() for mail in mails for m in pattern.finditer(mail.log + mail.diff)]
    if len(set(found)) > 1:
        notes.append(f"the messages name {', '.join(dict.fromkeys(found))}: took the first")
    return found[0] if found else None


def _patch(mail: Mail, number: int) -> Patch:
    """The mail as a Patch; UserError if it is damaged or reaches outside the tree."""
    # No "From " line at its head: git mailsplit then takes it for one mail, whatever is in it.
    message = (
        f"From: {mail.author}\nDate: {mail.date}\nSubject: {mail.subject}\n"
        "MIME-Version: 1.0\nContent-Type: text/plain; charset=UTF-8\n"
        "Content-Transfer-Encoding: 8bit\n\n"
    ).encode(errors="replace") + b"%b\n---\n%b" % (mail.log.rstrip(b"\n"), mail.diff)
    info = mailinfo(message, mail.source)
    subject = info.subject
    name = f"Patch {number} ({subject})"
    try:
        changes = _changes(info.diff)
    except _DamageError as damage:
        raise UserError(f"{name} is damaged: {_damage(mail, damage)}.", FETCH_RAW) from damage
    if mail.pasted:
        raise UserError(
            f"{mail.source} is damaged: several messages or commits are pasted together in it.",
            f"{FETCH_RAW} From a repository: git format-patch.",
        )
    for change in changes:
        _check_inside(name, change)
    _check_readable(name, info.diff)
    return Patch(number, subject, message, mail.source)


def _damage(mail: Mail, damage: _DamageError) -> str:
    line, where = damage.line + max(mail.line, 1), str(mail.file)
    if not mail.line:
        where = f"the diff in {mail.source}"
    if damage.entity:
        was = _ENTITIES[damage.entity]
        return f"line {line} of {where} has {damage.entity} where {was} must have been"
    target = f" for {damage.path}" if damage.path else ""
    return f"the hunk at line {line} of {where}{target} does not have the lines its header promises"


def _check_inside(name: str, change: _Change) -> None:
    """UserError if the change is to a file outside the tree, or leads there."""
    remedy = "kentry applies only patches that stay in the tree: look at where this one is from."
    for named in change.named:
        inner = named.partition("/")[2]
        if path := next((path for path in (inner, named) if _outside(path)), None):
            where = f"changes {printable(path)}, which is outside the kernel tree."
            raise UserError(f"{name} {where}", remedy)
    if change.link:
        # A link in a binary patch has no target that can be read here.
        target = b"\n".join(change.added).decode(errors="replace")
        leads = posixpath.normpath(posixpath.join(posixpath.dirname(change.new), target))
        if not target or _climbs(target) or _outside(leads):
            raise UserError(
                f"{name} makes {change.path} a symbolic link to"
                f" '{printable(target)}', which is outside the kernel tree.",
                remedy,
            )


def _climbs(target: str) -> bool:
    """Whether a link goes up after it went down: where that leads is for other links to say."""
    parts = [part for part in target.split("/") if part not in (".", "")]
    down = next((at for at, part in enumerate(parts) if part != ".."), len(parts))
    return ".." in parts[down:]


def _outside(path: str) -> bool:
    parts = path.split("/")
    inside = not path.startswith("/") and not {"..", ".git"} & {part.lower() for part in parts}
    return not inside and path != "/dev/null"


def _check_readable(name: str, diff: bytes) -> None:
    """UserError with git's own words if git apply cannot read the diff."""
    with TemporaryDirectory(prefix="kentry-diff-") as folder:
        file = Path(folder) / "diff"
        file.write_bytes(diff)
        argv = [need("git", "git"), "apply", "--numstat", str(file)]
        try:
            run(argv, env=git_env(file.parent), cwd=file.parent)
        except subprocess.CalledProcessError as err:
            sentence = f"{name} is damaged: git apply cannot read it."
            raise UserError(sentence, FETCH_RAW, err.stderr) from err


def _changes(diff: bytes) -> list[_Change]:
    """What the diff does, file by file, found as git apply finds it; _DamageError otherwise."""
    lines = diff.removesuffix(b"\n").split(b"\n")
    changes: list[_Change] = []
    at, header = 0, False
    while at < len(lines):
        line, after, third = (*lines[at : at + 3], b"", b"")[:3]
        if line.startswith(b"diff --git "):
            named = [_unquoted(name) for name in _NAME.findall(line[11:])]
            changes.append(_Change(named, new=named[-1].partition("/")[2] if named else ""))
            header = True
        elif line.startswith(b"--- ") and after.startswith(b"+++ "):
            if not header:
                changes.append(_Change())
            _name(changes[-1], line[4:], after[4:])
            if header and not third.startswith(b"@@ -"):
                raise _DamageError(at + 2, changes[-1].path)
            header = False
            at += 1
        elif line.startswith(b"@@ -"):
            at = _hunk(lines, at, changes)
            continue
        elif header and line.startswith(_MOVED):
            changes[-1].named.append(_unquoted(line.split(b" ", 2)[2]))
        elif header and _LINK.match(line):
            changes[-1].link = True
        at += 1
    return changes


def _name(change: _Change, old: bytes, new: bytes) -> None:
    # GNU diff puts a time after a tab; the first component is a/ or b/, or a folder's name.
    names = [_unquoted(name.partition(b"\t")[0].strip()) for name in (old, new)]
    change.named += names
    change.old, change.new = (n if n == "/dev/null" else n.partition("/")[2] or n for n in names)


def _unquoted(name: bytes) -> str:
    """A name as it is, where git wrote it like a string in C."""
    if len(name) > 1 and name.startswith(b'"') and name.endswith(b'"'):
        name = _ESCAPE.sub(
            lambda found: bytes([int(found[1], 8) & 255]) if len(found[1]) == 3 else found[1],
            name[1:-1],
        )
    return name.decode(errors="replace")


def _hunk(lines: list[bytes], start: int, changes: list[_Change]) -> int:
    """Reads the hunk at `start` into the last change; the place of the line after it."""
    change = changes[-1] if changes else _Change()
    counts = _HUNK.match(lines[start])
    if not counts or not changes:
        raise _DamageError(start, change.path)
    old, new = (int(count) if count is not None else 1 for count in (counts[2], counts[4]))
    change.hunks.append(int(counts[1]))
    at = start + 1
    while old > 0 or new > 0:
        # An empty line is an empty line of context, to git apply and to GNU patch.
        mark = (lines[at][:1] or b" ") if at < len(lines) else b"?"
        if mark not in b" +-\\":
            raise _DamageError(start, change.path)
        old -= mark in b" -"
        new -= mark in b" +"
        _check_text(lines[at], at)
        if change.link and mark == b"+":
            change.added.append(lines[at][1:])
        at += 1
    # What is left over git apply takes for a remark and drops: a wrapped line, and all it pushed
    # out of the hunk.  A signature's "-- ", or the next ---, is none of that.
    left = lines[at] if at < len(lines) else b""
    if old or new or re.match(rb"\+|-(?!-)|[ \t]+\S", left):
        raise _DamageError(start, change.path)
    return at


def _check_text(line: bytes, at: int) -> None:
    if not line.isascii():
        text = line.decode(errors="replace")
        for entity in _ENTITIES:
            if entity in text:
                raise _DamageError(at, "", entity)
