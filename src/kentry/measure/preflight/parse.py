# SPDX-License-Identifier: GPL-2.0-or-later
"""The texts of /proc and /sys as numbers; what makes no sense is left out, never an error."""

from __future__ import annotations

import contextlib
import re
from typing import NamedTuple

# The probe cuts a file after as many bytes: its last line may be half a one.
MOST_BYTES = 65536

# Names of the rows of /proc/interrupts that are the cpu's own timer: x86, arm64, riscv64.
_TIMERS = re.compile(r"LOC|.*\b(arch_timer|riscv-timer)")
# That of a system call or an interrupt that was counted wrongly is no cpu's.
_NO_INTERRUPT = frozenset({"ERR", "MIS", "Err"})


class Ticks(NamedTuple):
    """What a cpu did, in ticks of 10 ms (USER_HZ) since boot: proc(5), /proc/stat."""

    busy: int
    idle: int
    steal: int

    @property
    def total(self) -> int:
        """All of them."""
        return self.busy + self.idle + self.steal

    def since(self, before: Ticks) -> Ticks:
        """What came between; iowait is no clock and may go back, so nothing is below 0."""
        return Ticks(*(max(new - old, 0) for new, old in zip(self, before, strict=True)))


class Interrupts(NamedTuple):
    """One row of /proc/interrupts: its name ("36", "LOC"), what it is, a count for each cpu."""

    name: str
    device: str
    counts: dict[int, int]

    @property
    def is_timer(self) -> bool:
        """Whether it is the cpu's own timer."""
        return bool(_TIMERS.fullmatch(self.name) or _TIMERS.fullmatch(self.device))


def cpu_list(text: str) -> tuple[int, ...]:
    """The cpus of a list as the kernel writes it: "0-3,8"; "" and "(null)" have none."""
    found: set[int] = set()
    for part in text.split(","):
        if match := re.fullmatch(r"\s*(\d+)(?:-(\d+))?\s*", part):
            first, last = int(match[1]), int(match[2] or match[1])
            found.update(range(first, min(last, first + 65536) + 1))
    return tuple(sorted(found))


def ticks(stat: str) -> dict[int, Ticks]:
    """Each cpu's, from /proc/stat."""
    found = {}
    for line in stat.splitlines():
        if match := re.fullmatch(r"cpu(\d+)((?: +\d+){4,})\s*", line):
            values = [int(word) for word in match[2].split()] + [0] * 4
            user, nice, system, idle, iowait, irq, softirq, steal = values[:8]
            busy = user + nice + system + irq + softirq
            found[int(match[1])] = Ticks(busy, idle + iowait, steal)
    return found


def interrupts(text: str) -> list[Interrupts]:
    """The rows of /proc/interrupts that have a count for every cpu."""
    lines = text.splitlines()
    if len(text) >= MOST_BYTES - 1:
        lines = lines[:-1]
    cpus = [int(number) for number in re.findall(r"\bCPU(\d+)", lines[0])] if lines else []
    rows = []
    for line in lines[1:]:
        name, _, rest = line.partition(":")
        words = rest.split(None, len(cpus))
        numbers = [int(word) for word in words[: len(cpus)] if word.isdecimal()]
        if cpus and len(numbers) == len(cpus) and name.strip() not in _NO_INTERRUPT:
            device = " ".join(words[len(cpus) :])
            rows.append(Interrupts(name.strip(), device, dict(zip(cpus, numbers, strict=True))))
    return rows


def fields(text: str) -> dict[str, str]:
    """Lines "NAME: VALUE", as in /proc/self/status."""
    pairs = (line.partition(":") for line in text.splitlines())
    return {name.strip(): value.strip() for name, colon, value in pairs if colon}


def processor(cpuinfo: str, cpu: int) -> dict[str, str]:
    """What /proc/cpuinfo says of one cpu; of the first one where that one is not there."""
    blocks = [fields(block) for block in re.split(r"\n\s*\n", cpuinfo)]
    named = [block for block in blocks if block.get("processor", "").isdecimal()]
    for block in named:
        if int(block["processor"]) == cpu:
            return block
    return named[0] if named else {}


def load_average(text: str) -> float | None:
    """Of the last minute: how many tasks ran or wanted to."""
    with contextlib.suppress(ValueError, IndexError):
        return float(text.split()[0])
    return None


def kernel_words(cmdline: str) -> list[str]:
    """The words of a command line that are the kernel's: those before "--"."""
    words = cmdline.split()
    return words[: words.index("--")] if "--" in words else words


def cgroups(text: str) -> dict[str, str]:
    """/proc/self/cgroup: the path by controller, "" for version 2."""
    found = {}
    for line in text.splitlines():
        _, _, rest = line.partition(":")
        controllers, colon, path = rest.partition(":")
        if colon:
            found.update(dict.fromkeys(controllers.split(","), path))
    return found
