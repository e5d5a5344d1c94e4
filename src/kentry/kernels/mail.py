# SPDX-License-Identifier: GPL-2.0-or-later
"""Reads what a user names as patches: git mailsplit and git mailinfo take the mails apart.

b4 is not used: it takes several unnumbered patches in one mbox for versions of one and keeps the
last, needs a Message-ID, and gives an undated mail today's date.
"""

import contextlib
import os
import re
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass, replace
from datetime import UTC
from email.utils import format_datetime, parsedate_to_datetime
from pathlib import Path
from tempfile import TemporaryDirectory

from kentry.errors import UserError
from kentry.host.cache import read_bytes
from kentry.host.process import need, run

FETCH_RAW = "Fetch it again as raw mail: b4 am, or lore's raw link."
_KINDS = "Name an mbox, a patch, a folder from git format-patch, or a quilt series file."

# Without an author or a date the same patch must still make the same commit everywhere.
_NOBODY = ("unknown", "unknown@localhost")
_NO_DATE = "Thu, 1 Jan 1970 00:00:00 +0000"
_LAST_DATE = 2**32  # seconds; git refuses dates after 2099
# A thread has a few hundred messages; each takes git some milliseconds.
_MOST_MESSAGES = 1000

# How an mbox, and a mail on its own, begin: RFC 5322 2.2.
_BEGINNING = re.compile(rb"\s*(?:From |(?:[!-9;-~]+:[^\n]*\n(?:[ \t][^\n]*\n)*)*?(?:From|Date): )")
_FORMAT_PATCH = re.compile(rb"\s*From [0-9a-f]{40,64} Mon Sep 17 00:00:00 2001\n")
_DIFF = re.compile(rb"^(?:diff --git |--- [^\n]+\n\+\+\+ |@@ -\d)", re.MULTILINE)
# How the text of an archive's page begins.
_TITLE = re.compile(rb"\s*(\[[^]\n]*PATCH[^]\n]*\][^\n]+)")
# What stands between the messages of a page of lore, and above each commit of git log -p.
_PASTED = re.compile(rb"^(?:\^ permalink raw reply|commit [0-9a-f]{40}\b)", re.MULTILINE)
_TAGS = re.compile(r"(?:\s*\[[^]]*\]\s*)+")


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
    def has_diff(self) -> bool:
        """Whether there is a diff, or what is left of one."""
        return bool(_DIFF.search(self.diff))

    @property
    def message(self) -> bytes:
        """The message of the commit."""
        return self.subject.encode() + b"\n\n" + self.log


def read_mails(named: Path) -> Iterator[Patch]:
    """Read every mail in what the user named; UserError if patches do not come in that form."""
    if not os.path.isdir(named):  # unlike Path's, never an OSError
        quilt = named.name == "series" or named.suffix == ".series"
        yield from _quilt(named) if quilt else _file(named)
        return
    if os.path.exists(named / "series"):
        yield from _quilt(named / "series")
        return
    try:
        files = sorted(file for file in named.iterdir() if file.suffix in (".patch", ".eml"))
    except OSError as err:
        raise UserError(f"{named} cannot be read: {err.strerror}.", _KINDS) from err
    if not files:
        raise UserError(f"The folder {named} has no *.patch, no *.eml and no series in it.", _KINDS)
    for file in files:
        yield from _file(file)


def plain_git(*words: str, folder: Path, feed: bytes = b"") -> str:
    """Run git outside of a repository, the same for every user; CalledProcessError if it fails."""
    env = {
        "GIT_CONFIG_GLOBAL": "/dev/null",
        "GIT_CONFIG_NOSYSTEM": "1",
        "GIT_CEILING_DIRECTORIES": str(folder.parent),
        "LC_ALL": "C",
    }
    return run([need("git", "git"), *words], env=env, cwd=folder, feed=feed).stdout


def one_line(text: str) -> str:
    """Return `text` on one line, without what a terminal would act on."""
    return " ".join("".join(char if char.isprintable() else " " for char in text).split())


def _quilt(series: Path) -> Iterator[Patch]:
    """Read a quilt series, in its order; UserError for what kentry does not apply."""
    remedy = "Export the patches with git format-patch, or change the series file."
    inside = Path(os.path.realpath(series.parent))
    names = 0
    for number, line in enumerate(_text(series).decode(errors="replace").splitlines(), 1):
        # A comment is a line of its own, or comes after a name and a blank.
        name, *options = re.sub(r"(^|\s)#.*", "", line).split() or [""]
        if not name:
            continue
        names += 1
        where = f"Line {number} of {series}"
        if other := next((word for word in options if word != "-p1"), None):
            raise UserError(f"{where} has the option '{other}'; only -p1 is supported.", remedy)
        file = series.parent / name
        real = Path(os.path.realpath(file))  # Path.resolve() raises on a loop of links
        if not real.is_relative_to(inside) or {"..", "/"} & set(Path(name).parts):
            raise UserError(f"{where} names {name}, which is outside its folder.", remedy)
        if not os.path.isfile(file):
            raise UserError(f"{where} names {name}, which is not a file there.", remedy)
        for patch in _file(file):
            yield replace(patch, placed=True)
    if not names:
        raise UserError(f"{series} names no patch.", _KINDS)


def _text(file: Path) -> bytes:
    """Read the file, with LF line ends; UserError if that cannot be text."""
    data = read_bytes(file, _KINDS)
    if b"\0" in data:
        raise UserError(f"{file} is an archive or binary, not patches.", f"Unpack it. {_KINDS}")
    if not data.strip():
        raise UserError(f"{file} is empty.", _KINDS)
    data = data.replace(b"\r\n", b"\n")
    return data if data.endswith(b"\n") else data + b"\n"


def _file(file: Path) -> Iterator[Patch]:
    """Read the mails of one file that is neither a folder nor a series file."""
    data = _text(file)
    mbox = data
    if not _BEGINNING.match(data):
        # A bare diff, perhaps with a text above it.
        if not _DIFF.search(data):
            raise UserError(f"{file} has no patch in it.", _KINDS)
        if len(_PASTED.findall(data)) > 1 or b"\n^ permalink raw" in data:
            raise UserError(
                f"{file} has several messages or commits in it that nothing keeps apart.",
                f"{FETCH_RAW} From a repository: git format-patch.",
            )
        subject = (
            titled[1] if (titled := _TITLE.match(data)) else file.stem.encode(errors="replace")
        )
        mbox = b"From: \nSubject: %b\n\n%b" % (subject, data)
    with TemporaryDirectory(prefix="kentry-mail-") as name:
        folder = Path(name)
        # git format-patch does not quote "From "; an archive does.
        quoting = [] if _FORMAT_PATCH.match(mbox) else ["--mboxrd"]
        try:
            plain_git("mailsplit", "-b", *quoting, f"-o{folder}", folder=folder, feed=mbox)
            mails = sorted(folder.iterdir())
            if len(mails) > _MOST_MESSAGES:
                raise UserError(
                    f"{file} has {len(mails)} messages; kentry reads at most {_MOST_MESSAGES}.",
                    "Name an mbox of one thread, as b4 mbox fetches it.",
                )
            for number, mail in enumerate(mails, 1):
                source = f"{file}, message {number}" if len(mails) > 1 else str(file)
                patch = _patch(file, source, mail.read_bytes(), folder)
                at = data.find(patch.diff) if patch.diff else -1
                yield replace(patch, line=data.count(b"\n", 0, at) + 1 if at >= 0 else 0)
        except subprocess.CalledProcessError as err:
            sentence = f"git cannot read {file} as mail."
            raise UserError(sentence, FETCH_RAW, err.stderr) from err


def _patch(file: Path, source: str, mail: bytes, folder: Path) -> Patch:
    """Take one mail apart; CalledProcessError if git cannot."""
    # quoted-cr: base64 and quoted-printable hide carriage returns.  Not --encoding=UTF-8, the
    # default: git 2.39 does not convert at all if it is given.
    words = ("mailinfo", "-k", "--no-scissors", "--quoted-cr=strip")
    log, diff = folder / "log", folder / "diff"
    rows = plain_git(*words, str(log), str(diff), folder=folder, feed=mail).split("\n")
    fields = dict.fromkeys(("Author", "Email", "Subject", "Date"), "")
    for row in rows:
        key, _, value = row.partition(": ")
        if key in fields:
            fields[key] = one_line(f"{fields[key]} {value}")
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
