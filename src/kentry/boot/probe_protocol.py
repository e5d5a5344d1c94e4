# SPDX-License-Identifier: GPL-2.0-or-later
"""The lines that the probe prints: PREFIX, a word and the word's own text.

guest/probe.c lists the words.  The lines come from another machine, perhaps over a serial
console: other text is ignored, and a damaged line counts as missing.
"""

import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

PREFIX = "kentry-probe "

OnLine = Callable[[str], None]

# Sequences that move a terminal's cursor, and characters that are not printable ASCII.
CONTROL = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]|[^\x20-\x7e\t]")

# A kernel that means harm can say a number that Python will not read.
_NUMBER = r"[0-9]{1,18}"
_REGISTER = re.compile(
    rf"([a-z]+\d+) byte=({_NUMBER}) is=({_NUMBER}) filled=({_NUMBER}) promised=({_NUMBER})"
)


def parse_line(line: str) -> tuple[str, str] | None:
    """Returns a probe line's word and text, also behind a kernel's message; None for others."""
    _, prefix, rest = line.partition(PREFIX)
    if not prefix:
        return None
    word, _, text = rest.rstrip("\r\n").partition(" ")
    return word, text


@dataclass
class ProbeReport:
    """What a probe that counts says of the kernel and of its cases.

    `vector` maps each vector unit to its length in bits, 0 if the machine lacks it.  `ended_cases`
    is the end mark's number of cases, None without an end mark.  `counter` is the machine's own
    counter, and why it does not count; `blocks` are what it counted, by case: calls, with them and
    without.  `files` are the texts of files that were read after the cases, by path.
    `registers` are the vector registers that are wrong after a case's calls, by case and name: the
    first wrong byte, what it is, what the program wrote, what the ABI promises.
    """

    started: bool = False
    release: str | None = None
    notes: bytes = b""
    failed: dict[str, str] = field(default_factory=dict)
    absent: dict[str, str] = field(default_factory=dict)
    vector: dict[str, int] = field(default_factory=dict)
    ended_cases: int | None = None
    counter: str = ""
    files: dict[str, str] = field(default_factory=dict)
    blocks: dict[str, list[tuple[int, int, int]]] = field(default_factory=dict)
    registers: dict[str, dict[str, tuple[int, ...]]] = field(default_factory=dict)


def read_report(lines: Iterable[str]) -> ProbeReport:
    """Returns the report in the lines of a console."""
    lines = list(lines)
    report = ProbeReport(files=read_files(lines)[0])
    for line in lines:
        word, text = parse_line(line) or ("", "")
        text = CONTROL.sub("", text).strip()
        name, _, rest = text.partition(" ")
        if word == "start":
            report.started = True
        elif word == "release":
            report.release = text
        elif word == "notes" and re.fullmatch(r"([0-9a-f]{2})+", text):
            report.notes = bytes.fromhex(text)
        elif word == "failed":
            report.failed[name] = rest
        elif word == "absent":
            report.absent[name] = rest
        elif word == "vector" and re.fullmatch(_NUMBER, rest):
            report.vector[name] = int(rest)
        elif word == "counter":
            report.counter = text
        elif word == "block" and re.fullmatch(rf"(?!0){_NUMBER}( {_NUMBER}){{2}}", rest):
            calls, count, empty = map(int, rest.split())
            report.blocks.setdefault(name, []).append((calls, count, empty))
        elif word == "register" and (wrong := _REGISTER.fullmatch(rest)):
            values = tuple(map(int, wrong.groups()[1:]))
            report.registers.setdefault(name, {}).setdefault(wrong[1], values)
        elif word == "end" and re.fullmatch(f"cases={_NUMBER}", text):
            report.ended_cases = int(text.removeprefix("cases="))
    return report


def read_files(lines: Iterable[str]) -> tuple[dict[str, str], dict[str, int]]:
    """Returns the texts of files that the probe printed (guest/facts.h), the errno of others."""
    files: dict[str, list[str]] = {}
    missing: dict[str, int] = {}
    rows: list[str] = []
    for line in lines:
        word, rest = parse_line(line) or ("", "")
        if word == "file":
            rows = files.setdefault(rest, [])
        elif word == "nofile":
            path, _, error = rest.rpartition(" ")
            missing[path] = int(error) if re.fullmatch(_NUMBER, error) else 0
        elif word == ">":
            rows.append(rest)
        elif word == "+" and rows:
            rows[-1] += rest
    return {path: "\n".join(text) for path, text in files.items()}, missing


@dataclass
class ProbeLines:
    """Hands on the lines of one run of the probe, and notes whether it started and ended."""

    on_line: OnLine
    count: int = 0
    started: bool = False
    ended: bool = False

    def __call__(self, line: str) -> None:
        """One line without its newline; other lines are counted and handed on too."""
        self.count += 1
        parsed = parse_line(line)
        if parsed:
            self.started = self.started or parsed[0] == "start"
            self.ended = self.ended or parsed[0] == "end"
        self.on_line(line)
