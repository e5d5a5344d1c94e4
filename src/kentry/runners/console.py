# SPDX-License-Identifier: GPL-2.0-or-later
"""What a guest's console says: did the probe reach its end, and if not, what happened?

Only what follows "kentry-probe " in a line is the probe's (a line of the kernel's may have
begun before it); everything else is for people.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field

from kentry.errors import GuestError

_PREFIX = "kentry-probe "
_TAIL_LINES = 12
_LINE_LIMIT = 200  # characters of a console line that are shown

# kernel/panic.c; and what an oops of init ends in.
_PANIC = re.compile(r"Kernel panic - not syncing: (.*)")
_CONTROL = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]|[^\x20-\x7e\t]")


@dataclass
class ProbeReport:
    """The probe's own lines, read; `vector` is each unit's vector length in bits, 0 without it."""

    started: bool = False
    release: str | None = None
    notes: bytes = b""
    failed: dict[str, str] = field(default_factory=dict)
    absent: dict[str, str] = field(default_factory=dict)
    vector: dict[str, int] = field(default_factory=dict)
    ended_cases: int | None = None


def read_probe(console: str) -> ProbeReport:
    """The probe's report out of a console's whole text; damaged lines count as not there."""
    report = ProbeReport()
    for line in console.splitlines():
        _, found, rest = line.partition(_PREFIX)
        if not found:
            continue
        word, _, text = _CONTROL.sub("", rest).strip().partition(" ")
        _take(report, word, text)
    return report


def _take(report: ProbeReport, word: str, text: str) -> None:
    name, _, reason = text.partition(" ")
    if word == "start":
        report.started = True
    elif word == "release":
        report.release = text
    elif word == "notes" and re.fullmatch(r"([0-9a-f]{2})+", text):
        report.notes = bytes.fromhex(text)
    elif word == "failed":
        report.failed[name] = reason
    elif word == "absent":
        report.absent[name] = reason
    elif word == "vector" and reason.isdecimal():
        report.vector[name] = int(reason)
    elif word == "end" and re.fullmatch(r"cases=\d+", text):
        report.ended_cases = int(text.removeprefix("cases="))


def tail(console: str) -> str:
    """The console's last lines, fit to be printed on a terminal."""
    return "\n".join(_shown(console)[-_TAIL_LINES:])


def _shown(console: str) -> list[str]:
    lines = [_CONTROL.sub("", line)[:_LINE_LIMIT].rstrip() for line in console.splitlines()]
    return [f"  | {line}" for line in lines if line]


def explain(console: str, report: ProbeReport, ending: str) -> GuestError:
    """The one sentence for a guest without an end mark.

    `ending` says how the run ended, as a clause: "it was stopped after 60 s".
    """
    panic = _PANIC.search(console)
    where = "while the cases ran" if report.started else "before the probe started"
    if panic:
        sentence = f"The kernel panicked {where}: {_CONTROL.sub('', panic[1]).strip()}."
        shown = _shown(console[panic.start() :])[:_TAIL_LINES]
    else:
        sentence = f"The guest never reached the probe's end mark: {ending}, {where}."
        shown = _shown(console)[-_TAIL_LINES:]
    return GuestError(
        sentence,
        "Nothing was measured; run again with -v for the command line"
        " and --console FILE to keep the whole console.",
        "\n".join(shown) or "  | (the console stayed empty)",
    )
