# SPDX-License-Identifier: GPL-2.0-or-later
"""What a user names as patches, taken apart into mails by git's own mailsplit and mailinfo.

A mail need not have been one: a bare diff and the text of a list archive's page are given the
headers they lack, so that whatever follows sees one form.
"""

from __future__ import annotations

import os
import re
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass, replace
from datetime import datetime, timedelta, timezone
from email.utils import format_datetime, mktime_tz, parsedate_tz
from pathlib import Path
from tempfile import TemporaryDirectory

from kentry.errors import UserError
from kentry.host.process import command_line, log, need, run

FETCH_RAW = "Fetch it again as raw mail: b4 am, or lore's raw link."
_KINDS = "Name an mbox, a patch, a folder from git format-patch, or a quilt series file."

# Without an author or a date the same patch must still make the same commit everywhere.
_NOBODY = ("unknown", "unknown@localhost")
_NO_DATE = "Thu, 1 Jan 1970 00:00:00 +0000"
_LAST_DATE = 2**32  # seconds; git refuses dates after 2099

_ARCHIVES = (b"\x1f\x8b", b"BZh", b"\xfd7zXZ\x00", b"\x28\xb5\x2f\xfd", b"PK\x03\x04")
_TAR = slice(257, 262)  # where a tar file says "ustar"

# git mailsplit's idea of where a message begins: builtin/mailsplit.c, is_from_line().
_MBOX = re.compile(rb"From [^\n]*\d:\d\d[^\n]*\d{4}")
_FORMAT_PATCH = re.compile(rb"\s*From [0-9a-f]{40,64} Mon Sep 17 00:00:00 2001\n")
_QUOTED = re.compile(rb"^>+From ", re.MULTILINE)
_HEADER_LINE = re.compile(rb"([!-9;-~]+):|[ \t]")  # RFC 5322 2.2, as git am looks for it
_WEB_PAGE = re.compile(rb"\A\s*<(?:!doctype|html)", re.IGNORECASE)
_DIFF = re.compile(rb"^(?:diff --git |--- [^\n]+\n\+\+\+ |@@ -\d)", re.MULTILINE)
# What stands below each message of a lore page, and above each commit of git log -p.
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
    """A mail taken apart; `log` is what is above its ---, `diff` all that is below.

    `line` is the line of `file` at which `diff` begins, 0 if the mail was encoded.  `placed`
    says that a quilt series file gives its place; `pasted` that `file` is several messages
    or commits in one text, which no header keeps apart.
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


@dataclass(frozen=True)
class Info:
    """What git mailinfo makes of a mail, which is what git am commits."""

    name: str
    address: str
    subject: str
    date: str
    log: bytes
    diff: bytes


def read_mails(named: Path) -> Iterator[Mail]:
    """Every mail in what the user named; UserError if that is nothing patches come in."""
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


def mailinfo(mail: bytes, source: str, *options: str) -> Info:
    """Runs git mailinfo on one mail; UserError if it can make nothing of it.

    Text in an encoding that git does not know is kept, with what is not UTF-8 replaced.
    """
    with TemporaryDirectory(prefix="kentry-mail-") as name:
        folder = Path(name)
        # quoted-cr: base64 and quoted-printable hide carriage returns from whoever splits mails.
        # Not --encoding=UTF-8, its default: git 2.39 given it does not convert at all.
        argv = [need("git", "git"), "mailinfo", "--no-scissors"]
        argv += ["--quoted-cr=strip", *options, str(folder / "log"), str(folder / "diff")]
        env = git_env(folder)
        log.info("$ %s < a message of %s", command_line(argv, env), source)
        # Not run(): git mailinfo takes its mail from stdin only, as bytes of any encoding.
        done = subprocess.run(
            argv, input=mail, capture_output=True, cwd=folder, env={**os.environ, **env}
        )
        if done.returncode and "-n" not in options:
            return mailinfo(mail, source, *options, "-n")
        if done.returncode:
            words = done.stderr.decode(errors="replace")
            raise UserError(f"git cannot read {source} as a mail.", FETCH_RAW, words)
        text, diff = (folder / "log").read_bytes(), (folder / "diff").read_bytes()
    first, _, rest = diff.partition(b"\n")
    found = dict.fromkeys(("Author", "Email", "Subject", "Date"), "")
    for line in done.stdout.decode(errors="replace").split("\n"):
        key, _, value = line.partition(": ")
        if key in found:
            found[key] = printable(f"{found[key]} {value}")
    diff = rest if first.strip() == b"---" else diff
    text = text.decode(errors="replace").encode()
    return Info(found["Author"], found["Email"], found["Subject"], found["Date"], text, diff)


def git_env(folder: Path) -> dict[str, str]:
    """What makes git do the same for every user, in a folder wherever that is."""
    return {
        "GIT_CONFIG_GLOBAL": "/dev/null",
        "GIT_CONFIG_NOSYSTEM": "1",
        "GIT_CEILING_DIRECTORIES": str(folder.parent),
        "LC_ALL": "C",
    }


def printable(text: str) -> str:
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
    if not _is_mail(data):
        mail = _mail(file, str(file), *_with_headers(file, data))
        yield replace(mail, pasted=bool(_LORE.search(data)) or len(_COMMIT.findall(data)) > 1)
        return
    parts = _mailsplit(file, data)
    line = 1 + len(data) - len(data.lstrip(b"\n"))
    for number, part in enumerate(parts, 1):
        source = f"{file}, message {number}" if len(parts) > 1 else str(file)
        yield _mail(file, source, part, line)
        line += part.count(b"\n")


def _text(file: Path) -> bytes:
    """What is in the file, with LF line ends; UserError if that cannot be text."""
    try:
        data = file.read_bytes()
    except FileNotFoundError as err:
        raise UserError(f"{file} does not exist.", _KINDS) from err
    except OSError as err:
        raise UserError(f"{file} cannot be read: {err.strerror}.", _KINDS) from err
    if data.startswith(_ARCHIVES) or data[_TAR] == b"ustar":
        raise UserError(f"{file} is compressed or an archive.", f"Unpack it. {_KINDS}")
    if b"\0" in data:
        raise UserError(f"{file} is a binary file, not patches.", _KINDS)
    data = data.removeprefix(b"\xef\xbb\xbf").replace(b"\r\n", b"\n")
    if not data.strip():
        raise UserError(f"{file} is empty.", _KINDS)
    return data if data.endswith(b"\n") else data + b"\n"


def _is_mail(data: bytes) -> bool:
    """Whether there are a mail's headers; DEP-3's fields look like some but seldom have these."""
    data = data.lstrip(b"\n")
    if _MBOX.match(data):
        return True
    lines = data.partition(b"\n\n")[0].split(b"\n")
    found = [_HEADER_LINE.match(line) for line in lines]
    names = {(match[1] or b"").lower() for match in found if match}
    return all(found) and b"from" in names and bool({b"subject", b"date"} & names)


def _mailsplit(file: Path, data: bytes) -> list[bytes]:
    """The messages of an mbox, or the one mail there is."""
    words = ["-b", "-d9"]
    # git format-patch does not quote "From "; who has read it back from an archive does.
    if _QUOTED.search(data) and not _FORMAT_PATCH.match(data):
        words.append("--mboxrd")
    with TemporaryDirectory(prefix="kentry-mail-") as name:
        folder = Path(name)
        mbox, out = folder / "mbox", folder / "out"
        mbox.write_bytes(data)
        out.mkdir()
        argv = [need("git", "git"), "mailsplit", *words, f"-o{out}", "--", str(mbox)]
        try:
            run(argv, env=git_env(folder), cwd=folder)
        except subprocess.CalledProcessError as err:
            raise UserError(f"git cannot split {file} into mails.", FETCH_RAW, err.stderr) from err
        return [part.read_bytes() for part in sorted(out.iterdir())]


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
    """Takes one mail apart, which begins at `line` of `file`."""
    info = mailinfo(_DISGUISED_FROM.sub(rb"From: \3 <\1@\2>", data), source, "-k")
    at = data.find(info.diff) if info.diff else -1
    name, address = info.name, info.address
    if "@" not in address:
        name, address = name or _NOBODY[0], _NOBODY[1]
    bare = re.sub(r"\[[^]]*\]|\s", "", info.subject)
    return Mail(
        file,
        source,
        info.subject if bare else f"{info.subject} {file.stem}".strip(),
        f"{name} <{address}>",
        _date(info.date),
        info.log,
        info.diff,
        line + data.count(b"\n", 0, at) if at >= 0 else 0,
    )


def _date(text: str) -> str:
    """A Date: as RFC 5322 has it, in its own time zone, or what stands for none."""
    parsed = parsedate_tz(text)
    try:
        # A zone that has no number ("CEST") reads as UTC.
        zone = timezone(timedelta(seconds=(parsed and parsed[9]) or 0))
        seconds = mktime_tz(parsed) if parsed else -1
        if 0 <= seconds < _LAST_DATE:
            return format_datetime(datetime.fromtimestamp(seconds, zone))
    except (ValueError, OverflowError):
        pass
    return _NO_DATE
