# SPDX-License-Identifier: GPL-2.0-or-later
"""A target that boots nothing: it reads a console and a trace from a folder.

`console` and `trace` there are what a guest printed and what the plugin wrote; tests and
bug reports are made of them.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from kentry.errors import UserError
from kentry.kernels.kernel import Kernel
from kentry.progress import Update
from kentry.runners.console import explain, read_probe
from kentry.runners.exact import ExactOptions, GuestRun
from kentry.runners.plugin_trace import parse_trace


@dataclass(frozen=True)
class FakeRunner:
    """Replays one run out of `folder`."""

    folder: Path

    def run(self, kernel: Kernel, options: ExactOptions, update: Update) -> GuestRun:
        """The saved run; GuestError where its console has no end mark."""
        try:
            console = (self.folder / "console").read_text(encoding="utf-8", errors="replace")
        except OSError as err:
            raise UserError(
                f"{self.folder} holds no saved run: {err.strerror}.",
                "It needs two files, console and trace.",
            ) from err
        report = read_probe(console)
        if report.ended_cases is None:
            raise explain(console, report, "the saved console ends")
        trace = parse_trace(self.folder / "trace")
        return GuestRun(console, report, trace, {"kind": "fake", "emulator": "none"})
