# SPDX-License-Identifier: GPL-2.0-or-later
"""Restores a patch series from the text of an archive's page, against the source that it is for.

Such a text has lost blank lines, indentation and the blank before a line of context.  All that a
hunk does not add is in the source: it is found there, blank lines and all, and a header's lengths
and git's three lines of context say where added lines stand among blank ones.  It
prints what is not found, or found twice.  The indentation of added lines is lost: they get one tab
for it, which C and assembly read alike.  Usage: python scripts/restore.py TEXT SPEC FOLDER
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

CONTEXT = 3  # lines
_MESSAGE = re.compile(r"^\* (\[.*PATCH.*)$", re.MULTILINE)
_FROM = re.compile(r"^From: (.*?) @ (\d{4}-\d\d-\d\d)", re.MULTILINE)
_BASE = re.compile(r"^base-commit: [0-9a-f]{40}$", re.MULTILINE)
_FILE = re.compile(r"^diff --git a/(\S+) b/\S+\n", re.MULTILINE)
_HUNK = re.compile(r"^@@ -(\d+)(?:,(\d+))? \+\d+(?:,(\d+))? @@.*\n", re.MULTILINE)
_END = re.compile(r"^--\n", re.MULTILINE)


@dataclass(frozen=True)
class Hunk:
    """A hunk as the text has it: its place and lengths by its header, and the lines it has."""

    start: int
    old: int
    new: int
    lines: tuple[str, ...]


@dataclass(frozen=True)
class Fit:
    """A hunk in a file: the index of its first line, and its lines with their marks, restored."""

    start: int
    lines: tuple[str, ...]


@dataclass(frozen=True)
class Message:
    """A message with a patch: its head, and the hunks of each file."""

    subject: str
    author: str
    date: str
    files: tuple[tuple[str, tuple[Hunk, ...]], ...]


def messages(text: str) -> list[Message]:
    """The messages of a page that have a diff, in its order."""
    # An archive's page as text: the browser took &curren of &current for a currency sign.
    parts = _MESSAGE.split(text.replace("\u00a4", "&curren"))
    found = []
    for subject, body in zip(parts[1::2], parts[2::2], strict=True):
        pieces = _FILE.split(body)
        files = tuple(
            (path, tuple(_hunks(diff)))
            for path, diff in zip(pieces[1::2], pieces[2::2], strict=True)
        )
        if files and (sender := _FROM.search(body)):
            found.append(Message(subject, sender[1], sender[2], files))
    return found


def _hunks(diff: str) -> Iterator[Hunk]:
    _, *pieces = _HUNK.split(_END.split(diff)[0])
    for at in range(0, len(pieces), 4):
        start, old, new, lines = pieces[at : at + 4]
        yield Hunk(int(start), int(old or 1), int(new or 1), tuple(lines.splitlines()))


def fits(hunk: Hunk, file: Sequence[str]) -> list[Fit]:
    """Every way in which the hunk can stand in the file's lines."""
    return [
        Fit(start, lines) for start in range(len(file) + 1) for lines in _from(hunk, file, start)
    ]


def _from(hunk: Hunk, file: Sequence[str], start: int) -> Iterator[tuple[str, ...]]:
    """The ways that begin at a line of the file."""
    ways: list[tuple[int, tuple[str, ...]]] = [(start, ())]
    before = " "
    for line in hunk.lines:
        mark, text = (line[0], line[1:]) if line[:1] in ("+", "-") else (" ", line)
        if mark == "+" and before == "+":
            ways = [(at, (*lines, _added(text))) for at, lines in ways]
        elif mark == "+":
            # Blank lines of the source may stand above what is added, or below it.
            ways = [
                (at + blank, (*lines, *[" "] * blank, _added(text)))
                for at, lines in ways
                for blank in range(_blanks(file, at) + 1)
            ]
        else:
            ways = [
                (at + blank + 1, (*lines, *[" "] * blank, mark + file[at + blank]))
                for at, lines in ways
                for blank in ([_blanks(file, at)] if text.strip() else [0])
                if at + blank < len(file) and _same(text, file[at + blank])
            ]
        before = mark
    for at, lines in ways:
        after = range(_blanks(file, at) + 1)
        for whole in ((*lines, *[" "] * blank) for blank in after):
            at_end = at + len(whole) - len(lines) == len(file)
            if _is_whole(hunk, whole, start == 0, at_end):
                yield whole


def _is_whole(hunk: Hunk, lines: Sequence[str], at_start: bool, at_end: bool) -> bool:
    """Whether it has the lengths that its header promises, and the context that git writes."""
    changes = [number for number, line in enumerate(lines) if line[0] != " "]
    above, below = changes[0], len(lines) - 1 - changes[-1]
    return (
        len([line for line in lines if line[0] != "+"]) == hunk.old
        and len([line for line in lines if line[0] != "-"]) == hunk.new
        and (above == CONTEXT or (at_start and above < CONTEXT))
        and (below == CONTEXT or (at_end and below < CONTEXT))
    )


def _blanks(file: Sequence[str], at: int) -> int:
    """How many blank lines follow."""
    return next((n for n, line in enumerate(file[at:]) if line.strip()), len(file) - at)


def _same(text: str, line: str) -> bool:
    return text.split() == line.split()


def _added(text: str) -> str:
    if not text.strip():
        return "+"
    return "+" + ("\t" if text[0] == " " else "") + text.strip()


def missing(hunk: Hunk, file: Sequence[str]) -> str:
    """The first line of the hunk that the file does not have where it has most of those above."""
    old = [line.lstrip("-") for line in hunk.lines if line.strip("-") and line[0] != "+"]
    lines = [line for line in file if line.strip()]
    most = 0
    for start in range(len(lines)):
        pairs = zip(old, lines[start:], strict=False)
        most = max(most, next((n for n, pair in enumerate(pairs) if not _same(*pair)), 0))
    return old[most].strip()


def restore(message: Message, files: dict[str, list[str]]) -> tuple[str, list[str]]:
    """The diff for these files, which get its changes, and what is to be said of its hunks."""
    diff, said = [], []
    for path, hunks in message.files:
        diff += [f"diff --git a/{path} b/{path}", f"--- a/{path}", f"+++ b/{path}"]
        before, after, offset = files[path], list(files[path]), 0
        for hunk in hunks:
            found = sorted(fits(hunk, before), key=lambda fit: abs(fit.start + 1 - hunk.start))
            if not found:
                line = missing(hunk, before) if before else "the file"
                said.append(f"does not fit: {path}, hunk at line {hunk.start}: without {line}")
                continue
            place, others = found[0], len(found) - 1
            if others:
                said.append(f"not unique: {path}:{place.start + 1}, {others + 1} ways")
            new = [line[1:] for line in place.lines if line[0] != "-"]
            at = place.start + offset
            diff += [f"@@ -{place.start + 1},{hunk.old} +{at + 1},{hunk.new} @@", *place.lines]
            after[at : at + hunk.old] = new
            offset += hunk.new - hunk.old
        files[path] = after
    return "\n".join(diff) + "\n", said


def main(text: Path, spec: str, folder: Path) -> int:
    """Writes the patches, says how each fits, and returns 1 where one does not."""
    from kentry.kernels.resolve import resolve_source

    page = text.read_text(encoding="utf-8")
    revision = resolve_source(spec, lambda fraction, now: None)
    git = revision.repository.git
    files: dict[str, list[str]] = {}
    folder.mkdir(parents=True, exist_ok=True)
    base = _BASE.search(page)
    ended = 0
    for number, message in enumerate(messages(page), start=1):
        for path, _ in message.files:
            shown = git("show", f"{revision.commit}:{path}", check=False)
            files.setdefault(path, shown.stdout.splitlines())
        diff, said = restore(message, files)
        hunks = sum(len(hunks) for _, hunks in message.files)
        bad = [line for line in said if line.startswith("does not fit")]
        print(f"{message.subject}\n  {hunks - len(bad)} of {hunks} hunks fit {spec}")
        print("".join(f"  {line}\n" for line in said), end="")
        head = [f"From: {message.author}", f"Date: {message.date}", f"Subject: {message.subject}"]
        body = ["", base[0] if base else "", "---", diff]
        if not bad:
            (folder / f"{number:04}.patch").write_text("\n".join(head + body), encoding="utf-8")
        ended |= bool(bad)
    return ended


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1]), sys.argv[2], Path(sys.argv[3])))
