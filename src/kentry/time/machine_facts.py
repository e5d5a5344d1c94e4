# SPDX-License-Identifier: GPL-2.0-or-later
"""What a machine says about itself in /proc and /sys, read by the probe without root.

The probe reads the files (`facts=`), so this works alike on this machine, over ssh, on a board and
in a guest.  A file that is missing or makes no sense is an unknown fact, never an error.
"""

import contextlib
import re
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from kentry.boot.probe_protocol import parse_line
from kentry.errors import KentryError
from kentry.machines.machine import Machine

# Seconds between the two readings: 50 ticks of /proc/stat, so one tick is 2 %.
BETWEEN = 0.5
TIMEOUT = 30.0
# The probe cuts a file after this many bytes, perhaps in the middle of a line.
MOST_BYTES = 65536

CPU_FOLDER = "/sys/devices/system/cpu"
CLOCKSOURCE = "/sys/devices/system/clocksource/clocksource0"
TRACING = "/sys/kernel/tracing"
SYSCTL = "/proc/sys/kernel"
NO_TURBO = f"{CPU_FOLDER}/intel_pstate/no_turbo"
BOOST = f"{CPU_FOLDER}/cpufreq/boost"
CPU_MAX = "/sys/fs/cgroup/cpu.max"
_CPUSET = "/sys/fs/cgroup/cpuset.cpus.effective"
# The cpus of isolated cpuset partitions, in Linux 6.7 and later.
_PARTITIONS = "/sys/fs/cgroup/cpuset.cpus.isolated"

# Ordered by how much they can do to a kernel entry.
VULNERABILITIES = [
    "meltdown",
    "retbleed",
    "spec_rstack_overflow",
    "spectre_v2",
    "mds",
    "mmio_stale_data",
    "reg_file_data_sampling",
    "tsx_async_abort",
    "tsa",
    "indirect_target_selection",
    "vmscape",
    "spectre_v1",
    "spec_store_bypass",
    "srbds",
    "l1tf",
    "gather_data_sampling",
    "itlb_multihit",
    "ghostwrite",
    "old_microcode",
]
_CHANGING = ("/proc/stat", "/proc/interrupts")
_OF_MACHINE = (
    *_CHANGING,
    "/proc/cpuinfo",
    "/proc/cmdline",
    "/proc/version",
    "/proc/self/status",
    "/proc/self/loginuid",
    "/run/auditd.pid",
    *(f"{SYSCTL}/{name}" for name in ("hostname", "osrelease", "randomize_va_space")),
    f"{SYSCTL}/perf_event_paranoid",
    *(f"{CPU_FOLDER}/{name}" for name in ("online", "isolated", "nohz_full", "smt/active")),
    NO_TURBO,
    BOOST,
    *(f"{CPU_FOLDER}/vulnerabilities/{name}" for name in VULNERABILITIES),
    f"{CLOCKSOURCE}/current_clocksource",
    f"{CLOCKSOURCE}/available_clocksource",
    *(f"{TRACING}/{name}" for name in ("tracing_on", "current_tracer", "events/enable")),
    "/sys/class/dmi/id/sys_vendor",
    "/sys/class/dmi/id/product_name",
    "/proc/device-tree/model",
    CPU_MAX,
    _CPUSET,
    _PARTITIONS,
    "/sys/kernel/mm/transparent_hugepage/enabled",
    "/sys/kernel/security/lsm",
)
_OF_CPU = (
    *(f"cpufreq/scaling_{name}" for name in ("governor", "min_freq", "max_freq")),
    "cpufreq/base_frequency",
    "cpufreq/cpuinfo_max_freq",
    "cpufreq/boost",
    "topology/thread_siblings_list",
)

# include/uapi/asm-generic/errno-base.h: errnos of a file that does not exist, or does.
ENOENT = 2
_EXISTS = frozenset({1, 13})  # EPERM, EACCES

# Rows of /proc/interrupts that count errors, or the cpu's own timer: x86, arm64, riscv64.
_NO_WORK = re.compile(r"(ERR|MIS|Err|LOC) .*|.*\b(arch_timer|riscv-timer)")


class Ticks(NamedTuple):
    """What a cpu did, in ticks of 10 ms (USER_HZ): proc(5), /proc/stat."""

    busy: int
    idle: int
    steal: int


class Interrupts(NamedTuple):
    """One row of /proc/interrupts: its name ("36", "LOC"), its device, a count for each cpu."""

    name: str
    device: str
    counts: dict[int, int]


@dataclass(frozen=True)
class Facts:
    """What the probe read.

    `cpu` is the one to measure on.  `files` has the newest text by path, `missing` the errno of
    files that could not be read, `before` what the files that change held `seconds` earlier.
    `virtualization` is the answer of systemd-detect-virt, "" if the machine does not have it.
    """

    cpu: int = 0
    files: dict[str, str] = field(default_factory=dict)
    missing: dict[str, int] = field(default_factory=dict)
    before: dict[str, str] = field(default_factory=dict)
    seconds: float = 0.0
    virtualization: str = ""

    def text(self, path: str) -> str | None:
        """Strips surrounding blanks and a final NUL, which the probe prints as "?"."""
        text = self.files.get(path)
        return None if text is None else text.strip().rstrip("?")

    def number(self, path: str) -> int | None:
        """Returns a decimal number."""
        with contextlib.suppress(ValueError):
            return int(self.text(path) or "")
        return None

    def cpus(self, path: str) -> tuple[int, ...]:
        """Returns a list of cpus; empty if unknown."""
        return cpu_list(self.text(path) or "")

    def exists(self, path: str) -> bool:
        """Tells whether the file exists, readable or not."""
        return path in self.files or self.missing.get(path) in _EXISTS

    def of_cpu(self, name: str) -> str:
        """Returns the path of a file of the chosen cpu."""
        return f"{CPU_FOLDER}/cpu{self.cpu}/{name}"

    @property
    def online(self) -> tuple[int, ...]:
        """The cpus that are online; at least one."""
        return (
            self.cpus(f"{CPU_FOLDER}/online")
            or tuple(_ticks(self.files.get("/proc/stat", "")))
            or (self.cpu,)
        )

    @property
    def isolated(self) -> tuple[int, ...]:
        """The cpus that the scheduler leaves alone, from boot on or as a cpuset partition."""
        return self.cpus(f"{CPU_FOLDER}/isolated") + self.cpus(_PARTITIONS)

    @property
    def siblings(self) -> tuple[int, ...]:
        """The other threads of the chosen cpu's core."""
        threads = self.cpus(self.of_cpu("topology/thread_siblings_list"))
        return tuple(other for other in threads if other != self.cpu and other in self.online)

    @property
    def status(self) -> dict[str, str]:
        """The probe's own /proc/self/status."""
        return _fields(self.files.get("/proc/self/status", ""))

    @property
    def is_first_process(self) -> bool:
        """Whether the probe was PID 1 of a guest, with nothing else running there."""
        return self.status.get("Pid") == "1"

    @property
    def cmdline(self) -> list[str]:
        """The kernel's command line; words after "--" are the first process's."""
        words = self.files.get("/proc/cmdline", "").split()
        return words[: words.index("--")] if "--" in words else words

    @property
    def processor(self) -> dict[str, str]:
        """What /proc/cpuinfo says about the chosen cpu, or the first one if it is not there."""
        blocks = map(_fields, re.split(r"\n\s*\n", self.files.get("/proc/cpuinfo", "")))
        by_number = {block["processor"]: block for block in blocks if "processor" in block}
        return by_number.get(str(self.cpu)) or next(iter(by_number.values()), {})

    def ticks_between(self) -> dict[int, Ticks]:
        """Returns each cpu's ticks between the two readings; empty after one reading."""
        before, now = (_ticks(files.get("/proc/stat", "")) for files in (self.before, self.files))
        # iowait may go backwards, so no difference counts below 0.
        passed = {
            cpu: Ticks(*(max(new - old, 0) for old, new in zip(before[cpu], now[cpu], strict=True)))
            for cpu in now.keys() & before.keys()
        }
        return {cpu: ticks for cpu, ticks in sorted(passed.items()) if sum(ticks) >= 10}

    def busy(self, cpu: int) -> float | None:
        """Returns the share of the time between the readings that a cpu worked."""
        passed = self.ticks_between().get(cpu)
        return None if passed is None else passed.busy / sum(passed)

    def interrupts(self) -> list[Interrupts]:
        """Returns the rows of /proc/interrupts since boot, but for the cpu's own timer."""
        return _interrupts(self.files.get("/proc/interrupts", ""))

    def interrupt_rates(self) -> list[tuple[float, Interrupts]]:
        """Returns each row's interrupts a second on the chosen cpu between the readings."""
        rows = _interrupts(self.before.get("/proc/interrupts", ""))
        before = {row.name: row.counts[self.cpu] for row in rows if self.cpu in row.counts}
        return [
            (max(row.counts[self.cpu] - before[row.name], 0) / self.seconds, row)
            for row in self.interrupts()
            if self.seconds > 0 and self.cpu in row.counts and row.name in before
        ]


def cpu_list(text: str) -> tuple[int, ...]:
    """Returns the cpus of a list as the kernel writes it: "0-3,8"; "" and "(null)" have none."""
    cpus: set[int] = set()
    for part in text.split(","):
        if match := re.fullmatch(r"\s*(\d+)(?:-(\d+))?\s*", part):
            first, last = int(match[1]), int(match[2] or match[1])
            cpus.update(range(first, min(last, first + 65536) + 1))
    return tuple(sorted(cpus))


def _fields(text: str) -> dict[str, str]:
    """Parses lines "NAME: VALUE"."""
    pairs = (line.partition(":") for line in text.splitlines())
    return {name.strip(): value.strip() for name, colon, value in pairs if colon}


def _ticks(stat: str) -> dict[int, Ticks]:
    cpus = {}
    for line in stat.splitlines():
        if match := re.fullmatch(r"cpu(\d+)((?: +\d+){4,})\s*", line):
            values = [int(word) for word in match[2].split()] + [0] * 4
            user, nice, system, idle, iowait, irq, softirq, steal = values[:8]
            busy = user + nice + system + irq + softirq
            cpus[int(match[1])] = Ticks(busy, idle + iowait, steal)
    return cpus


def _interrupts(text: str) -> list[Interrupts]:
    """Returns the rows that count interrupts of every cpu, but for its own timer's."""
    lines = text.splitlines()
    if len(text) >= MOST_BYTES - 1:
        lines = lines[:-1]
    cpus = [int(number) for number in re.findall(r"\bCPU(\d+)", lines[0])] if lines else []
    rows = []
    for line in lines[1:]:
        name, _, rest = line.strip().partition(":")
        words = rest.split(None, len(cpus))
        numbers = [int(word) for word in words[: len(cpus)] if word.isdecimal()]
        device = " ".join(words[len(cpus) :])
        if cpus and len(numbers) == len(cpus) and not _NO_WORK.fullmatch(f"{name} {device}"):
            rows.append(Interrupts(name, device, dict(zip(cpus, numbers, strict=True))))
    return rows


def paths_to_read(cpu: int | None, of_machine: Sequence[str] = _OF_MACHINE) -> list[str]:
    """Returns the files of the machine, and those of `cpu` if it is chosen already."""
    of_cpu = [] if cpu is None else [f"{CPU_FOLDER}/cpu{cpu}/{name}" for name in _OF_CPU]
    return [*of_machine, *of_cpu]


def gather(machine: Machine, cpu: int | None, clock: Any = time) -> Facts:
    """Reads twice, half a second apart; chooses the cpu if `cpu` is None.

    In a guest whose first process is the probe, one reading is enough: nothing else runs there.
    """
    start = clock.monotonic()
    first = read(machine, paths_to_read(cpu), cpu or 0)
    chosen = choose_cpu(first) if cpu is None else cpu
    if first.is_first_process:
        return Facts(chosen, first.files, first.missing)
    virtualization = ""
    with contextlib.suppress(KentryError):
        answer = machine.run_command(["systemd-detect-virt", "--vm"], TIMEOUT).stdout.strip()
        virtualization = answer if re.fullmatch(r"[a-z0-9-]+", answer) else ""
    clock.sleep(BETWEEN)
    again = clock.monotonic()
    second = read(machine, paths_to_read(chosen, _CHANGING), chosen)
    return Facts(
        chosen,
        first.files | second.files,
        first.missing | second.missing,
        {path: first.files[path] for path in _CHANGING if path in first.files},
        again - start,
        virtualization,
    )


def read(machine: Machine, paths: Sequence[str], cpu: int = 0) -> Facts:
    """Returns what the files hold now."""
    lines: list[str] = []
    machine.run_probe([f"facts={','.join(paths)}"], TIMEOUT, lines.append)
    return parse_lines(lines, cpu)


def parse_lines(lines: Sequence[str], cpu: int = 0) -> Facts:
    """Collects the files that the probe printed (guest/facts.h); it skips a console's lines."""
    files: dict[str, list[str]] = {}
    missing: dict[str, int] = {}
    rows: list[str] = []
    for line in lines:
        word, rest = parse_line(line) or ("", "")
        if word == "file":
            rows = files.setdefault(rest, [])
        elif word == "nofile":
            path, _, error = rest.rpartition(" ")
            missing[path] = int(error) if error.isdecimal() else 0
        elif word == ">":
            rows.append(rest)
        elif word == "+" and rows:
            rows[-1] += rest
    return Facts(cpu, {path: "\n".join(text) for path, text in files.items()}, missing)


def choose_cpu(facts: Facts) -> int:
    """Chooses an isolated cpu, else not cpu 0; then the one with the fewest interrupts.

    Of the isolated cpus it prefers those without nohz_full, whose kernel entry does more.  A task
    starts on the cpus that are not isolated and may ask for the others, so its list of allowed
    cpus is a limit only if it has fewer than those.
    """
    online, isolated = set(facts.online), set(facts.isolated)
    tickless = set(facts.cpus(f"{CPU_FOLDER}/nohz_full"))
    allowed = set(cpu_list(facts.status.get("Cpus_allowed_list", ""))) or online
    if allowed >= online - isolated:
        allowed |= isolated
    in_group = set(facts.cpus(_CPUSET)) or online
    usable = online & allowed & in_group or online & allowed or {min(allowed)}
    rows = facts.interrupts()
    return min(
        usable,
        key=lambda cpu: (
            cpu not in isolated | tickless,
            cpu in tickless,
            cpu == 0,
            sum(row.counts.get(cpu, 0) for row in rows),
            cpu,
        ),
    )
