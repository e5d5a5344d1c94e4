# SPDX-License-Identifier: GPL-2.0-or-later
"""Reads what a user names as patches, and takes it apart into mails with git mailinfo.

A bare diff and the text of a list archive's page are given the headers they lack, so that all
else sees one form.  b4 is not used: it takes several unnumbered patches in one mbox for
versions of one and keeps the last, needs a Message-ID, and gives an undated mail today's date.
"""

import contextlib
import os
import re
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

# Where a message begins in an mbox, as git's builtin/mailsplit.c has it: is_from_line().
_MBOX = re.compile(rb"^(?=From [^\n]*\d:\d\d[^\n]*\d{4})", re.MULTILINE)
_FORMAT_PATCH = re.compile(rb"\s*From [0-9a-f]{40,64} Mon Sep 17 00:00:00 2001\n")
_QUOTED = re.compile(rb"^>(?=>*From )", re.MULTILINE)
_HEADER_LINE = re.compile(rb"([!-9;-~]+):|[ \t]")  # RFC 5322 2.2, as git am looks for it
_WEB_PAGE = re.compile(rb"\A\s*<(?:!doctype|html)", re.IGNORECASE)
_DIFF = re.compile(rb"^(?:diff --git |--- [^\n]+\n\+\+\+ |@@ -\d)", re.MULTILINE)
# The line below each message of a lore page, and the line above each commit of git log -p.
_LORE = re.compile(rb"^\^ permalink raw reply", re.MULTILINE)
_COMMIT = re.compile(rb"^commit [0-9a-f]{40}\b", re.MULTILINE)
# Mailman's archive (pipermail): subject, "Name user at host", date.
_ARCHIVE = re.compile(
    rb"\s*(?P<subject>\S[^\n]*(?:\n[^\n]+){0,2})\n+"
    rb"(?P<name>[^\n]*?) ?(?P<user>[^\s@]+)(?: at |@)(?P<host>[\w.-]+)\n"
    rb"(?P<date>\w{3} \w{3} +\d+ [\d:]{8}(?: \w+)? \d{4})\n"
)
_DISGUISED = re.compile(rb"<([\w.+-]+) at ([\w-]+(?:\.[\w-]+)+)>")
_DISGUISED_FROM = re.compile(rb"^From: ([\w.+-]+) at ([\w.-]+)(?: \(([^)\n]*)\))?$", re.MULTILINE)
# DEP-3, https://dep-team.pages.debian.net/deps/dep3/; git show has Author and Date as well.
_FIELD = re.compile(
    rb"^(?P<key>Subject|Description|Author|From|Date):[ \t]*(?P<value>\S[^\n]*)", re.MULTILINE
)
_ALIASES = {b"description": b"subject", b"author": b"from"}


@dataclass(frozen=True)
class Mail:
    """A mail taken apart: `log` is the text above its ---, `diff` everything below.

    `subject` still has its [PATCH ...].  `line` is the line of `file` at which `diff` begins, 0
    where the mail was encoded.  `placed` says that a quilt series file gives the mail its
    place; `pasted` that `file` has several messages or commits which no header keeps apart.
    """

    file: Path
    source: str
    subject: str
    author: str
    date: str
    log: bytes
    diff: bytes
    line: int = 0
    placed: bool = False
    pasted: bool = False

    @property
    def has_diff(self) -> bool:
        """Whether there is a diff, or what is left of one."""
        return bool(_DIFF.search(self.diff))


def read_mails(named: Path) -> Iterator[Mail]:
    """Every mail in what the user named; UserError if patches do not come in that form."""
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


def git_env(folder: Path) -> dict[str, str]:
    """The environment in which git does the same for every user, wherever `folder` is."""
    return {
        "GIT_CONFIG_GLOBAL": "/dev/null",
        "GIT_CONFIG_NOSYSTEM": "1",
        "GIT_CEILING_DIRECTORIES": str(folder.parent),
        "LC_ALL": "C",
    }


def one_line(text: str) -> str:
    """`text` on one line, without what a terminal would act on."""
    return " ".join("".join(char if char.isprintable() else " " for char in text).split())


def _quilt(series: Path) -> Iterator[Mail]:
    """The mails of a quilt series, in its order; UserError for what kentry does not apply."""
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
        for mail in _file(file):
            yield replace(mail, placed=True)
    if not names:
        raise UserError(f"{series} names no patch.", _KINDS)


def _file(file: Path) -> Iterator[Mail]:
    """The mails of one file that is neither a folder nor a series file."""
    data = _text(file)
    start = data.lstrip(b"\n")
    line = 1 + len(data) - len(start)
    # DEP-3's fields look like a mail's headers but seldom have these.
    matches = [_HEADER_LINE.match(row) for row in start.partition(b"\n\n")[0].split(b"\n")]
    names = {(match[1] or b"").lower() for match in matches if match}
    has_headers = all(matches) and b"from" in names and bool({b"subject", b"date"} & names)
    if not _MBOX.match(start) and not has_headers:
        mail = _mail(file, str(file), *_with_headers(file, data))
        yield replace(mail, pasted=bool(_LORE.search(data)) or len(_COMMIT.findall(data)) > 1)
        return
    parts = [part for part in _MBOX.split(start) if part] if _MBOX.match(start) else [start]
    if len(parts) > _MOST_MESSAGES:
        raise UserError(
            f"{file} has {len(parts)} messages; kentry reads at most {_MOST_MESSAGES}.",
            "Name an mbox of one thread, as b4 mbox fetches it.",
        )
    # git format-patch does not quote "From "; an archive (mboxrd) does.
    mboxrd = len(parts) > 1 and not _FORMAT_PATCH.match(start)
    for number, part in enumerate(parts, 1):
        source = f"{file}, message {number}" if len(parts) > 1 else str(file)
        yield _mail(file, source, _QUOTED.sub(b"", part) if mboxrd else part, line)
        line += part.count(b"\n")


def _text(file: Path) -> bytes:
    """The file's content with LF line ends; UserError if that cannot be text."""
    data = read_bytes(file, _KINDS)
    if b"\0" in data:
        raise UserError(f"{file} is an archive or binary, not patches.", f"Unpack it. {_KINDS}")
    data = data.removeprefix(b"\xef\xbb\xbf").replace(b"\r\n", b"\n")
    if not data.strip():
        raise UserError(f"{file} is empty.", _KINDS)
    return data if data.endswith(b"\n") else data + b"\n"


def _with_headers(file: Path, data: bytes) -> tuple[bytes, int]:
    """A mail made of a text without headers, and the line of `file` it would begin at."""
    if _WEB_PAGE.match(data):
        raise UserError(f"{file} is a web page, not a patch.", FETCH_RAW)
    if page := _ARCHIVE.match(data):
        fields = {b"subject": page["subject"], b"date": page["date"]}
        fields[b"from"] = b"%b <%b@%b>" % (page["name"], page["user"], page["host"])
        start, body = page.end(), _DISGUISED.sub(rb"<\1@\2>", data[page.end() :])
    else:
        diff = _DIFF.search(data)
        if not diff:
            raise UserError(f"{file} has no patch in it.", _KINDS)
        found = list(_FIELD.finditer(data, 0, diff.start()))
        fields = {_ALIASES.get(key := m["key"].lower(), key): m["value"] for m in reversed(found)}
        start, body = 0, _FIELD.sub(b"", data[: diff.start()]) + data[diff.start() :]
    subject = fields.get(b"subject") or file.stem.encode(errors="replace")
    headers = b"From: %b\nDate: %b\nSubject: %b\n\n" % (
        fields.get(b"from", b""),
        fields.get(b"date", b""),
        b" ".join(subject.split()),
    )
    return headers + body, data.count(b"\n", 0, start) + 1 - headers.count(b"\n")


def _mail(file: Path, source: str, data: bytes, line: int) -> Mail:
    """Takes one mail apart, which begins at `line` of `file`; UserError if git cannot.

    Text in an encoding that git does not know is kept, with what is not UTF-8 replaced.
    """
    mail = _DISGUISED_FROM.sub(rb"From: \3 <\1@\2>", data)
    # quoted-cr: base64 and quoted-printable hide carriage returns.  Not --encoding=UTF-8, the
    # default: git 2.39 does not convert at all if it is given.
    argv = [need("git", "git"), "mailinfo", "-k", "--no-scissors", "--quoted-cr=strip"]
    with TemporaryDirectory(prefix="kentry-mail-") as name:
        folder = Path(name)
        env = git_env(folder)
        for option in ([], ["-n"]):
            words = [*argv, *option, str(folder / "log"), str(folder / "diff")]
            done = run(words, env=env, cwd=folder, check=False, feed=mail)
            if not done.returncode:
                break
        else:
            raise UserError(f"git cannot read {source} as a mail.", FETCH_RAW, done.stderr)
        text, diff = (folder / "log").read_bytes(), (folder / "diff").read_bytes()
    fields = dict.fromkeys(("Author", "Email", "Subject", "Date"), "")
    for row in done.stdout.split("\n"):
        key, _, value = row.partition(": ")
        if key in fields:
            fields[key] = one_line(f"{fields[key]} {value}")
    first, _, rest = diff.partition(b"\n")
    diff = rest if first.strip() == b"---" else diff
    at = data.find(diff) if diff else -1
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
    bare = re.sub(r"\[[^]]*\]|\s", "", fields["Subject"])
    return Mail(
        file,
        source,
        fields["Subject"] if bare else f"{fields['Subject']} {file.stem}".strip(),
        f"{author or address} <{address}>",
        date,
        text.decode(errors="replace").encode(),
        diff,
        line + data.count(b"\n", 0, at) if at >= 0 else 0,
    )
