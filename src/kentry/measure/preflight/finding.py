# SPDX-License-Identifier: GPL-2.0-or-later
"""What a check finds."""

from __future__ import annotations

from typing import NamedTuple

# What makes results spread or puts them off on this machine; what belongs to the number, which
# compares only with others that have the same; what cannot be known without root.
WARNING, NOTE, UNKNOWN = LEVELS = ("warning", "note", "unknown")

MOST_TEXT = 150


class Finding(NamedTuple):
    """One sentence on the machine, what to do about it, and how much it matters."""

    kind: str
    text: str
    remedy: str
    level: str

    @property
    def caveat(self) -> dict[str, str]:
        """As it stands in a recording."""
        return {"kind": self.kind, "text": self.text, "remedy": self.remedy}


def warning(kind: str, text: str, remedy: str) -> Finding:
    """One that makes results spread, or puts them off."""
    return Finding(f"preflight-{kind}", text, remedy, WARNING)


def unknown(kind: str, text: str, remedy: str) -> Finding:
    """One that nobody without root can tell."""
    return Finding(f"preflight-{kind}", text, remedy, UNKNOWN)


def note(kind: str, text: str, remedy: str) -> Finding:
    """One that belongs to the number."""
    return Finding(f"preflight-{kind}", text, remedy, NOTE)


def fitted(before: str, names: list[str], after: str = "") -> str:
    """A sentence with as many of the names as there is room for."""
    for count in range(len(names), 0, -1):
        left = len(names) - count
        more = f" and {left} more" if left else ""
        text = f"{before}{', '.join(names[:count])}{more}{after}"
        if len(text) <= MOST_TEXT:
            return text
    return f"{before}{len(names)}{after}"


def shortened(text: str, most: int) -> str:
    """A name that something else chose, cut where it is longer than `most`."""
    return text if len(text) <= most else text[: most - 3] + "..."
