# SPDX-License-Identifier: GPL-2.0-or-later
"""A text with numbers in it: a mail, an article, a tool's output; and whose a number in it is."""

from __future__ import annotations

import html
import quopri
import re
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from kentry.arch import ARCHES
from kentry.errors import UserError
from kentry.importing.numbers import SYSCALL

# A mail of 0-day with every metric has 60 KB; a whole thread as one file, some hundreds.
MOST_BYTES = 8 << 20
# A line longer than that is no table and no sentence.
_LONGEST_LINE = 4000
# How far above a number its heading may stand, in lines that are not blank.
_HEADING_LINES = 60
_HEADING_LENGTH = 72

_BYTE_ORDER_MARKS = {b"\xff\xfe": "utf-16", b"\xfe\xff": "utf-16", b"\xef\xbb\xbf": "utf-8-sig"}
_QUOTED_PRINTABLE = re.compile(rb"^content-transfer-encoding:\s*quoted-printable", re.I | re.M)
_SOFT_BREAK = re.compile(rb"=(?:\r?\n|[0-9A-F]{2})")
_ESCAPE = re.compile(r"\x1b(?:\[[0-9;?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)|.)")
_ENTITY = re.compile(r"&(?:#[0-9]{1,7}|#x[0-9a-fA-F]{1,6}|[A-Za-z]{2,8});")
_QUOTE = re.compile(r"^(?:>+ ?|\|? ?> ?)+")

# Tools' own lines between a heading and the numbers: skipped on the way up.
_PROMPT = re.compile(r"^(?:[\w.@~:/\[\] -]{0,60}[$#]\s*\S|#|\$|\./|```|[-=*_~+ |]+$)")
_NOISE = re.compile(r"^(?:warmup|measurement|testcase:.*|vsetvli complete|.*\[sec\])$", re.I)
_NUMBERS = re.compile(r"\d[\d.,]*\s*(?:\w*secs?/op|ops/sec|ns\b|microseconds|\[sec\]|lps\b)")
_SETTING = re.compile(r"^[\w./-]+ = \S+$")
_COLON = re.compile(r"^[-*\s]*([^:<>|]{1,72}):$")
_BANNER = re.compile(
    r"^(?:[-=*]{2,}\s*(.{1,60}?)\s*[-=*]{2,}|#{1,6}\s+(.{1,60})|\*\*(.{1,60})\*\*)$"
)
_NOT_A_HEADING = re.compile(r"wrote$|^On |https?|Running '|^note$|^commit$|^changes", re.I)
_BEFORE = re.compile(
    r"\b(?:before|without|w/o|base(?:line)?|vanilla|unpatched|unmodified|old|orig(?:inal)?|off)\b",
    re.I,
)
_AFTER = re.compile(r"\b(?:after|with|patched|new|applied|on)\b|\bw/(?!o)", re.I)

_LOOP = re.compile(r"\bsyscall\(SYS_(\w+)\)")
_BASELINE = re.compile(r"\bbaseline(?: in all cases)? is (.{3,60}?)(?:\.\s|\.$|,|;|$)", re.I)

# What a text calls an architecture.  The name is the kernel's own where kentry has none.
_ARCH_WORDS = {
    "arm64": r"arm64|aarch64|kunpeng|graviton|cortex|neoverse",
    "riscv64": r"riscv\w*|risc-v|rvv|x280|sophgo|spacemit",
    "x86_64": r"x86(?:[-_]64)?|amd64|intel|skylake|xeon|sapphire rapids|ice lake",
    "ia64": r"ia64|itanium|madison",
    "powerpc": r"powerpc|ppc64\w*|ppc32|ppc",
    "loongarch64": r"loongarch\w*|loongson",
    "s390x": r"s390x?",
}
_ARCH_NAMES = {name: re.compile(rf"\b(?:{words})\b", re.I) for name, words in _ARCH_WORDS.items()}

# Those that kentry itself does not run.
FOREIGN_ARCHES = tuple(name for name in _ARCH_WORDS if name not in ARCHES)

# A tool's or a table's word for a system call, and kentry's case.
_CASE_OF = {
    "open/close": "openat+close",
    "openclose": "openat+close",
    "open+close": "openat+close",
    "fork": "fork+exit",
    "null": "getppid",
    "invalid": "invalid",
    **{
        name: name
        for name in (
            "getppid",
            "getpid",
            "getuid",
            "gettid",
            "getpgid",
            "fstat",
            "stat",
            "read",
            "write",
            "close",
            "execve",
            "sched_yield",
            "clock_gettime",
            "pipe",
            "umask",
            "dup",
        )
    },
}
# Words that are also plain English are cases only as a call: "read()", "syscall/read".
_CALL = re.compile(
    r"\b(getp?pid|getuid|gettid|getpgid|sched_yield|clock_gettime|fstat|execve|umask)\b"
    r"|\b(\w+)\(\)|\bsyscall/(\w+)"
)
_UNIXBENCH = re.compile(r"\./syscall\s+\d+\s+(\w+)")
_NULL_CALLS = re.compile(
    r"perf bench (?:basic )?syscall|lat_syscall(?:\s+-\w \S+)*\s+null|null[ _]syscall", re.I
)


@dataclass(frozen=True)
class Line:
    """A line as it is read: without quoting, escapes, control characters; `number` from 1."""

    number: int
    text: str
    quoted: bool


@dataclass(frozen=True)
class Document:
    """A text, line by line; `name` is how it is shown."""

    name: str
    lines: tuple[Line, ...]

    @cached_property
    def whole(self) -> str:
        """Everything, as it is read."""
        return "\n".join(line.text for line in self.lines)

    @cached_property
    def loop_case(self) -> str:
        """The system call of a posted loop, where the text has its source."""
        found = _LOOP.search(self.whole)
        return case_of(f"{found[1]}()") if found else ""

    @cached_property
    def baseline(self) -> str:
        """What the text says its percentages are of; "" where it does not."""
        found = _BASELINE.search(self.whole.replace("\n", " "))
        return found[1] if found else ""

    @cached_property
    def arch(self) -> str:
        """The one architecture that the text names most; "" where it names none, or several."""
        counts = sorted(
            ((len(words.findall(self.whole)), name) for name, words in _ARCH_NAMES.items()),
            reverse=True,
        )
        (most, name), (second, _) = counts[:2]
        return name if most > 2 * second else ""

    @cached_property
    def case(self) -> str:
        """The system call where a number's own line names none."""
        unixbench = _UNIXBENCH.search(self.whole)
        if unixbench and unixbench[1] in _CASE_OF:
            return _CASE_OF[unixbench[1]]
        if _NULL_CALLS.search(self.whole):
            return "getppid"
        return SYSCALL

    @cached_property
    def in_a_patch(self) -> frozenset[int]:
        """The numbers of lines that are a patch's: no sentence is in them."""
        found: set[int] = set()
        inside = False
        for line in self.lines:
            if line.text.startswith("diff --git "):
                inside = True
            elif line.text.rstrip() == "--" or line.text.startswith("^ permalink"):
                inside = False
            if inside:
                found.add(line.number)
        return frozenset(found)

    def side(self, number: int) -> str:
        """What the text calls whatever was measured on line `number`; "" where it says nothing."""
        seen = 0
        for line in reversed(self.lines[: number - 1]):
            text = line.text.strip()
            if not text:
                continue
            seen += 1
            if seen > _HEADING_LINES:
                return ""
            found = _heading(text)
            if found:
                return found
            if not (_PROMPT.match(text) or _NOISE.match(text) or _is_output(text)):
                return ""
        return ""


def _is_output(text: str) -> bool:
    """Whether a line is a tool's own rather than a sentence."""
    return bool(_NUMBERS.search(text)) or bool(re.match(r"^[\w ./]{1,40}[:=|]\s*\S*\d", text))


def _heading(text: str) -> str:
    """The heading that a line is; "" where it is none."""
    if _SETTING.match(text):
        return text
    banner = _BANNER.match(text)
    if banner:
        found = next(filter(None, banner.groups()), "").strip(" :")
        named = text.startswith("--") and found.strip("-= ")
        return found if role(found) or named else ""
    colon = _COLON.match(text)
    if colon and not _NOT_A_HEADING.search(colon[1]) and len(text) <= _HEADING_LENGTH:
        return colon[1].strip("-* ")
    return ""


def role(side: str) -> str:
    """Whether a side's name says "before" or "after"; "" where it says neither."""
    if _BEFORE.search(side):
        return "before"
    return "after" if _AFTER.search(side) else ""


def case_of(text: str) -> str:
    """The system call that `text` names; "" where it names none."""
    for match in _CALL.finditer(text):
        word = next(filter(None, match.groups()))
        if word.lower() in _CASE_OF:
            return _CASE_OF[word.lower()]
    return _CASE_OF.get(text.strip().lower(), "")


def read_document(file: Path, name: str = "") -> Document:
    """The text in a file; UserError where it is none."""
    try:
        with file.open("rb") as stream:
            data = stream.read(MOST_BYTES + 1)
    except OSError as err:
        raise UserError(
            f"{file} cannot be read: {err.strerror}.", "Name a tool's output or a text's file."
        ) from err
    if len(data) > MOST_BYTES:
        raise UserError(
            f"{file} has more than {MOST_BYTES >> 20} MiB.",
            "Cut out the part with the numbers.",
        )
    return document_of(decoded(data, str(file)), name or file.name)


def decoded(data: bytes, name: str) -> str:
    """Bytes as text: UTF-8 or Latin-1, or what a byte order mark says; UserError if binary."""
    encoding = _BYTE_ORDER_MARKS.get(data[:2]) or _BYTE_ORDER_MARKS.get(data[:3])
    try:
        if encoding:
            return data.decode(encoding)
        if b"\0" in data:
            raise UserError(f"{name} is not text.", "Name a tool's output or a text's file.")
        if _QUOTED_PRINTABLE.search(data) and _SOFT_BREAK.search(data):
            data = quopri.decodestring(data)
        return data.decode("utf-8")
    except UnicodeDecodeError:
        return data.decode("latin-1")


def document_of(text: str, name: str) -> Document:
    """A text, cleaned line by line."""
    lines = re.split(r"\r\n|\r|\n", text)
    return Document(name, tuple(_clean(n, line) for n, line in enumerate(lines, start=1)))


def _clean(number: int, text: str) -> Line:
    text = _ENTITY.sub(lambda found: html.unescape(found[0]), text[:_LONGEST_LINE])
    text = _ESCAPE.sub("", text)
    text = text.replace("\t", "        ").replace("\u00a0", " ").replace("\u202f", " ")
    text = "".join(char for char in text if char.isprintable())
    quoted = _QUOTE.match(text)
    return Line(number, text[quoted.end() :] if quoted else text, bool(quoted))
