# SPDX-License-Identifier: GPL-2.0-or-later
"""Checks a patch before it is applied: its diff is whole and changes only files of the tree.

git apply drops what a hunk's header does not promise, so a damaged patch could apply as
another one.
"""

from __future__ import annotations

import html
import re
import subprocess
from pathlib import Path
from tempfile import TemporaryDirectory

from kentry.errors import UserError
from kentry.host.process import need, run
from kentry.kernels.mail import FETCH_RAW, Mail, git_env, one_line

LOOK_AT_IT = "kentry applies only patches that stay in the tree: look at where this one is from."

# Nine digits: more lines than a kernel has.
_HUNK = re.compile(rb"@@ -\d{1,9}(?:,(\d{1,9}))? \+\d{1,9}(?:,(\d{1,9}))? @@")
# Lines of a file's header that name a file, the old one too, which git apply --numstat leaves out.
_NAMED = re.compile(rb"(?:---|\+\+\+|(?:rename|copy) (?:from|to)) ([^\t]+)")
# What a browser makes of &current and its like in a page; all are addresses taken in C.
_ENTITIES = {
    html.unescape(f"&{word}"): f"&{word}"
    for word in ("current", "regs", "param", "timespec", "timestamp", "timer", "notifier")
}


class _HunkError(Exception):
    """The hunk at a line of the diff, from 0, is damaged; `target` is the file it is for."""

    def __init__(self, place: int, target: str) -> None:
        super().__init__(target)
        self.place, self.target = place, target


def check(name: str, mail: Mail) -> None:
    """UserError if the mail's diff is damaged or names a file outside the tree.

    `name` is what the user knows the patch by.
    """
    lines = mail.diff.removesuffix(b"\n").split(b"\n")
    try:
        headers = _headers(lines)
    except _HunkError as err:
        target = f" for {err.target}" if err.target else ""
        raise UserError(
            f"{name} is damaged: the hunk at {_where(mail, err.place)}{target} does not have the"
            " lines its header promises.",
            FETCH_RAW,
        ) from err
    for place, line in enumerate(lines):
        text = "" if line.isascii() else line.decode(errors="replace")
        if entity := next((entity for entity in _ENTITIES if entity in text), None):
            problem = f"has {entity} where {_ENTITIES[entity]} must have been"
            raise UserError(f"{name} is damaged: {_where(mail, place)} {problem}.", FETCH_RAW)
    if mail.pasted:
        raise UserError(
            f"{mail.source} is damaged: several messages or commits are pasted together in it.",
            f"{FETCH_RAW} From a repository: git format-patch.",
        )
    named = [found[1].decode(errors="replace") for line in headers if (found := _NAMED.match(line))]
    _check_inside(name, named)
    _check_inside(name, _new_names(name, mail.diff))


def _check_inside(name: str, paths: list[str]) -> None:
    for path in paths:
        inner = path.partition("/")[2]
        if leaves := next((one for one in (inner, path) if _leaves(one)), None):
            where = f"changes {one_line(leaves)}, which is outside the kernel tree."
            raise UserError(f"{name} {where}", LOOK_AT_IT)


def _new_names(name: str, diff: bytes) -> list[str]:
    """The files that git apply would write; UserError in git's own words if it cannot read it."""
    with TemporaryDirectory(prefix="kentry-diff-") as folder:
        file = Path(folder) / "diff"
        file.write_bytes(diff)
        argv = [need("git", "git"), "apply", "--numstat", "-z", str(file)]
        try:
            rows = run(argv, env=git_env(file.parent), cwd=file.parent).stdout.split("\0")
        except subprocess.CalledProcessError as err:
            sentence = f"{name} is damaged: git apply cannot read it."
            raise UserError(sentence, FETCH_RAW, err.stderr) from err
    return [row.split("\t", 2)[2] for row in rows if row]


def _leaves(path: str) -> bool:
    parts = {part.lower() for part in path.split("/")}
    return path != "/dev/null" and (path.startswith("/") or bool({"..", ".git"} & parts))


def _where(mail: Mail, place: int) -> str:
    """A line of the diff, from 0, as a user finds it."""
    of = mail.file if mail.line else f"the diff in {mail.source}"
    return f"line {place + max(mail.line, 1)} of {of}"


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
