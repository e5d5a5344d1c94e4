# SPDX-License-Identifier: GPL-2.0-or-later
"""How a workload ended, from the lines that guest/runner.c prints on the console."""

from __future__ import annotations

import re
import signal
from dataclasses import dataclass

# How many lines of a failed workload's output are shown.
_TAIL_LINES = 40

# ECMA-48's control sequences, which move a terminal's cursor or colour its text.
_CONTROL = re.compile(
    r"\x1b(?:\[[0-?]*[ -/]*[@-~]|[P\]X^_][^\x07\x1b\n]*(?:\x07|\x1b\\)?|[ -/]*[0-~])|\r"
)

# If the workload's output has no newline at its end, the runner's line follows on the same line.
_LINE = re.compile(r"^(.*)kentry-workload (start|end|failed|cut)\b ?(.*)$")


@dataclass(frozen=True)
class Ending:
    """How a workload ended: its exit code or 128 + a signal's number, None if it did not.

    `output` is what it and the system printed, its last lines; `problems` are the runner's own
    complaints, as "lo 19" (what could not be done, errno).
    """

    status: int | None
    output: str
    problems: tuple[str, ...] = ()

    @property
    def clause(self) -> str:
        """The status in words, to go on with after "it"."""
        if self.status is None:
            return "did not end"
        if self.status > 128:
            try:
                return f"was ended by {signal.Signals(self.status - 128).name}"
            except ValueError:
                pass
        return f"ended with exit code {self.status}"


def read_ending(console: str) -> Ending:
    """The workload's end on a whole console."""
    status: int | None = None
    problems: list[str] = []
    output: list[str] = []
    for line in _CONTROL.sub("", console).split("\n"):
        found = _LINE.match(line)
        if not found:
            output.append(line)
            continue
        before, what, rest = found.groups()
        if before:
            output.append(before)
        if what == "failed":
            problems.append(rest)
        elif what == "start":
            output.clear()
        elif what == "cut":
            output.append(f"[{rest} bytes of output are left out here]")
        elif rest.isdecimal():
            status = int(rest)
            break
    text = "\n".join(output).strip("\n").split("\n")
    return Ending(status, "\n".join(text[-_TAIL_LINES:]), tuple(problems))
