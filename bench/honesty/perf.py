# SPDX-License-Identifier: GPL-2.0-or-later
"""The real `perf bench syscall basic`: getppid() through libc, 10 million times unless told."""

from __future__ import annotations

import math
import re
import shutil
import subprocess
from dataclasses import dataclass

from kentry.host.process import run

INSTALL = "apt-get install linux-perf (Ubuntu: linux-tools-generic; Fedora: perf)"
_PILOT_CALLS = 500_000
_PER_CALL = re.compile(r"^\s*([0-9.]+)\s+usecs/op\s*$", re.MULTILINE)


def parse(text: str) -> float:
    """ns a call of what perf bench printed; ValueError where it printed none."""
    match = _PER_CALL.search(text)
    if not match:
        raise ValueError("no usecs/op in what perf bench printed")
    return 1000 * float(match[1])


@dataclass(frozen=True)
class PerfBench:
    """perf bench on one cpu; `calls` take about as long as it was asked for."""

    cpu: int
    calls: int = _PILOT_CALLS

    def ns(self) -> float:
        """One run: ns a call, as it prints it."""
        words = ["taskset", "-c", str(self.cpu)] if self.cpu >= 0 else []
        words += ["perf", "bench", "syscall", "basic", "-l", str(self.calls)]
        return parse(run(words, env={"LC_ALL": "C"}).stdout)


def open_perf(cpu: int, seconds: float) -> tuple[PerfBench | None, str]:
    """perf bench for runs of about this many seconds; or None, and why not."""
    if not shutil.which("perf"):
        return None, f"perf is not installed: {INSTALL}"
    try:
        pilot = min(PerfBench(cpu).ns() for _ in range(3))
    except (subprocess.CalledProcessError, ValueError, OSError) as err:
        return None, f"perf bench syscall basic does not run here ({err}): {INSTALL}"
    return PerfBench(cpu, math.ceil(seconds * 1e9 / pilot)), ""
