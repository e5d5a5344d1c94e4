# SPDX-License-Identifier: GPL-2.0-or-later
"""What a machine says of itself, without root: the files to ask for, and what they said.

Everything is read by the probe (`look=`), so that it is the same on this machine, behind ssh, on
a board and in a guest.  A file that is not there is a fact that is not known.
"""

from __future__ import annotations

import contextlib
import re
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import PurePosixPath
from typing import Protocol

from kentry.measure.preflight import parse
from kentry.measure.preflight.parse import Interrupts, Ticks

# Seconds between two looks: 50 ticks of /proc/stat, so that one of them is 2 %.
BETWEEN = 0.5
TIMEOUT = 30.0

CPU_FOLDER = "/sys/devices/system/cpu"
CLOCKSOURCE = "/sys/devices/system/clocksource/clocksource0"
TRACING = "/sys/kernel/tracing"
SYSCTL = "/proc/sys/kernel"
# A Raspberry Pi's firmware: a hexadecimal mask.
FIRMWARE_THROTTLED = "/sys/devices/platform/soc/soc:firmware/get_throttled"

# In the order of how much they can do to a kernel entry.
VULNERABILITIES = (
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
)
MAINS = ("AC", "AC0", "ACAD", "ADP0", "ADP1", "macsmc-ac")
BATTERIES = ("BAT0", "BAT1", "BATT", "CMB0", "macsmc-battery")

# The cpus of the control groups that are isolated partitions, in Linux 6.7 and later.
PARTITIONS = "/sys/fs/cgroup/cpuset.cpus.isolated"

_RATES = ("/proc/stat", "/proc/interrupts")
# A path that ends in "/" and is a file cannot be opened (ENOTDIR), and says that it is there:
# nobody needs the 64 KiB of lockdep's own words.
LOCKDEP = "/proc/lockdep/"
KCSAN = "/sys/module/kcsan/"
_MACHINE = (
    *_RATES,
    "/proc/loadavg",
    "/proc/cpuinfo",
    "/proc/cmdline",
    "/proc/version",
    "/proc/self/status",
    "/proc/self/cgroup",
    "/proc/self/loginuid",
    "/run/auditd.pid",
    *(f"{SYSCTL}/{name}" for name in ("hostname", "osrelease", "randomize_va_space")),
    *(f"{SYSCTL}/{name}" for name in ("perf_event_paranoid", "nmi_watchdog")),
    LOCKDEP,
    KCSAN,
    *(f"{CPU_FOLDER}/{name}" for name in ("online", "isolated", "nohz_full", "smt/active")),
    f"{CPU_FOLDER}/intel_pstate/no_turbo",
    f"{CPU_FOLDER}/cpufreq/boost",
    *(f"{CPU_FOLDER}/vulnerabilities/{name}" for name in VULNERABILITIES),
    f"{CLOCKSOURCE}/current_clocksource",
    f"{CLOCKSOURCE}/available_clocksource",
    *(f"{TRACING}/{name}" for name in ("tracing_on", "current_tracer", "events/enable")),
    "/sys/hypervisor/type",
    "/sys/class/dmi/id/sys_vendor",
    "/sys/class/dmi/id/product_name",
    "/proc/device-tree/model",
    "/proc/device-tree/hypervisor/compatible",
    "/run/.containerenv",
    "/run/systemd/container",
    "/.dockerenv",
    *(f"/sys/class/power_supply/{name}/online" for name in MAINS),
    *(f"/sys/class/power_supply/{name}/status" for name in BATTERIES),
    FIRMWARE_THROTTLED,
    "/sys/devices/cpu_atom/cpus",
    PARTITIONS,
    "/sys/kernel/mm/transparent_hugepage/enabled",
    "/sys/kernel/security/lsm",
)
_OF_A_CPU = (
    *(f"cpufreq/scaling_{name}" for name in ("governor", "driver", "min_freq", "max_freq")),
    "cpufreq/base_frequency",
    "cpufreq/cpuinfo_max_freq",
    "cpufreq/boost",
    "topology/thread_siblings_list",
    "cpu_capacity",
    "thermal_throttle/core_throttle_count",
    "regs/identification/midr_el1",
)

# include/uapi/asm-generic/errno-base.h: what an errno says of a file.
_ABSENT = 2  # ENOENT
_HIDDEN = frozenset({1, 13})  # EPERM, EACCES
_THERE = _HIDDEN | {20, 21}  # ENOTDIR, EISDIR


class Clock(Protocol):
    """The two functions of the module `time` that are used."""

    def monotonic(self) -> float:
        """Seconds."""

    def sleep(self, seconds: float, /) -> None:
        """Waits."""


class ProbeRunner(Protocol):
    """A place, as far as it is needed here."""

    def run_probe(
        self, words: Sequence[str], timeout: float, on_line: Callable[[str], None]
    ) -> None:
        """Runs the probe with these arguments; each line it says goes to `on_line`."""


@dataclass(frozen=True)
class Facts:
    """What the probe read.

    `cpu` is the one to measure on; `files` has the newest text by path, `missing` the errno of
    those that could not be read; `before` are the texts of the first look, `seconds` earlier, of
    what changes with time.
    """

    cpu: int = 0
    files: dict[str, str] = field(default_factory=dict)
    missing: dict[str, int] = field(default_factory=dict)
    before: dict[str, str] = field(default_factory=dict)
    seconds: float = 0.0

    def text(self, path: str) -> str | None:
        """Without blanks around it, or a NUL, which the probe prints as a '?', after it."""
        text = self.files.get(path)
        return None if text is None else text.strip().rstrip("?")

    def number(self, path: str) -> int | None:
        """A decimal number."""
        with contextlib.suppress(ValueError):
            return int(self.text(path) or "")
        return None

    def cpus(self, path: str) -> tuple[int, ...]:
        """A list of cpus; none where it is not known."""
        return parse.cpu_list(self.text(path) or "")

    def is_there(self, path: str) -> bool:
        """Whether the file or folder exists, readable or not."""
        return path in self.files or self.missing.get(path) in _THERE

    def is_absent(self, path: str) -> bool:
        """Whether it was looked for and does not exist."""
        return self.missing.get(path) == _ABSENT

    def is_hidden(self, path: str) -> bool:
        """Whether it exists, and only root may read it."""
        return self.missing.get(path) in _HIDDEN

    def of_cpu(self, name: str) -> str:
        """The path of a file of the chosen cpu."""
        return f"{CPU_FOLDER}/cpu{self.cpu}/{name}"

    @property
    def online(self) -> tuple[int, ...]:
        """The cpus that run; at least one."""
        return self.cpus(f"{CPU_FOLDER}/online") or tuple(self.ticks()) or (self.cpu,)

    @property
    def isolated(self) -> tuple[int, ...]:
        """Those that the scheduler leaves alone, from boot on or as a control group's partition."""
        return self.cpus(f"{CPU_FOLDER}/isolated") + self.cpus(PARTITIONS)

    @property
    def nohz_full(self) -> tuple[int, ...]:
        """Those whose tick stops while one task runs."""
        return self.cpus(f"{CPU_FOLDER}/nohz_full")

    @property
    def siblings(self) -> tuple[int, ...]:
        """The other threads of the chosen cpu's core."""
        threads = self.cpus(self.of_cpu("topology/thread_siblings_list"))
        return tuple(other for other in threads if other != self.cpu and other in self.online)

    @property
    def status(self) -> dict[str, str]:
        """The probe's own /proc/self/status."""
        return parse.fields(self.files.get("/proc/self/status", ""))

    @property
    def cpus_allowed(self) -> tuple[int, ...]:
        """Those that the probe may run on as it was started."""
        return parse.cpu_list(self.status.get("Cpus_allowed_list", ""))

    @property
    def cpuset(self) -> tuple[int, ...]:
        """Those of the control group at the top, in a container its own; none: not known.

        Those of isolated partitions are not among them.
        """
        return self.cpus("/sys/fs/cgroup/cpuset.cpus.effective")

    @property
    def is_first_process(self) -> bool:
        """Whether the probe was PID 1 of a guest: there is nothing else in it."""
        return self.status.get("Pid") == "1"

    @property
    def cmdline(self) -> list[str]:
        """The kernel's words."""
        return parse.kernel_words(self.files.get("/proc/cmdline", ""))

    def argument(self, name: str) -> str | None:
        """The value of a word of the command line, the last one's: "" where it has none."""
        for word in reversed(self.cmdline):
            key, _, value = word.partition("=")
            if key == name:
                return value
        return None

    @property
    def processor(self) -> dict[str, str]:
        """What /proc/cpuinfo says of the chosen cpu."""
        return parse.processor(self.files.get("/proc/cpuinfo", ""), self.cpu)

    def ticks(self) -> dict[int, Ticks]:
        """Each cpu's since boot."""
        return parse.ticks(self.files.get("/proc/stat", ""))

    def ticks_between(self) -> dict[int, Ticks]:
        """Each cpu's between the two looks; none where there was one look."""
        before = parse.ticks(self.before.get("/proc/stat", ""))
        found = {cpu: now.since(before[cpu]) for cpu, now in self.ticks().items() if cpu in before}
        return {cpu: passed for cpu, passed in found.items() if passed.total >= 10}

    def busy(self, cpu: int) -> float | None:
        """The share of the time between the looks that a cpu worked."""
        passed = self.ticks_between().get(cpu)
        return None if passed is None else passed.busy / passed.total

    def interrupts(self) -> list[Interrupts]:
        """The rows since boot."""
        return parse.interrupts(self.files.get("/proc/interrupts", ""))

    def interrupt_rates(self) -> dict[str, tuple[float, Interrupts]]:
        """By row, how many a second the chosen cpu took between the looks."""
        rows = {row.name: row for row in parse.interrupts(self.before.get("/proc/interrupts", ""))}
        rates = {}
        for row in self.interrupts() if self.seconds > 0 else ():
            old = rows.get(row.name)
            if old is not None and self.cpu in row.counts and self.cpu in old.counts:
                more = max(row.counts[self.cpu] - old.counts[self.cpu], 0)
                rates[row.name] = (more / self.seconds, row)
        return rates


def wanted(cpu: int | None, cpus: int = 0) -> list[str]:
    """The paths to look at: the machine's, and those of `cpu`; of the first `cpus` where None."""
    chosen = range(cpus) if cpu is None else (cpu,)
    return [*_MACHINE, *_cgroup_files("/"), *(path for one in chosen for path in _cpu_files(one))]


def gather(place: ProbeRunner, cpu: int | None, clock: Clock = time) -> Facts:
    """Looks twice, half a second apart; chooses the cpu where None is given.

    Where the probe is a guest's first process one look is all: nothing else runs there.
    """
    from kentry.measure.preflight.pinning import choose_cpu

    start = clock.monotonic()
    first = look(place, wanted(cpu), cpu or 0)
    chosen = choose_cpu(first) if cpu is None else cpu
    if first.is_first_process:
        return Facts(chosen, first.files, first.missing)
    more = [*_RATES, *_cpu_files(chosen), *_own_cgroup_files(first)]
    clock.sleep(BETWEEN)
    again = clock.monotonic()
    second = look(place, more, chosen)
    return Facts(
        chosen,
        first.files | second.files,
        first.missing | second.missing,
        {path: first.files[path] for path in _RATES if path in first.files},
        again - start,
    )


def look(place: ProbeRunner, paths: Sequence[str], cpu: int = 0) -> Facts:
    """What the files hold now."""
    lines: list[str] = []
    place.run_probe([f"look={','.join(paths)}"], TIMEOUT, lines.append)
    return parse_lines(lines, cpu)


def parse_lines(lines: Sequence[str], cpu: int = 0) -> Facts:
    """The probe's words (guest/look.h); other lines, a console's among them, are passed over."""
    files: dict[str, list[str]] = {}
    missing: dict[str, int] = {}
    rows: list[str] = []
    for line in lines:
        match = re.fullmatch(r"kentry-probe (file|nofile|>|\+) ?(.*?)\r?\n?", line)
        if match is None:
            continue
        word, rest = match.groups()
        if word == "file":
            rows = files.setdefault(rest, [])
        elif word == "nofile":
            path, _, error = rest.rpartition(" ")
            missing[path] = int(error) if error.isdecimal() else 0
        elif word == ">":
            rows.append(rest)
        elif rows:
            rows[-1] += rest
    return Facts(cpu, {path: "\n".join(of) for path, of in files.items()}, missing)


def _cpu_files(cpu: int) -> list[str]:
    return [f"{CPU_FOLDER}/cpu{cpu}/{name}" for name in _OF_A_CPU]


def _cgroup_files(path: str, controllers: dict[str, str] | None = None) -> list[str]:
    """The limits on a cpu's time of a control group, version 2 and 1, and the cpus it may use."""
    where = PurePosixPath("/sys/fs/cgroup")
    v1 = PurePosixPath((controllers or {}).get("cpu", "/").lstrip("/"))
    return [
        str(where / path.lstrip("/") / "cpu.max"),
        str(where / path.lstrip("/") / "cpuset.cpus.effective"),
        str(where / "cpu" / v1 / "cpu.cfs_quota_us"),
        str(where / "cpu" / v1 / "cpu.cfs_period_us"),
    ]


def _own_cgroup_files(facts: Facts) -> list[str]:
    """Those of the probe's groups, whose paths are known only after a look.

    A path with a comma cannot be asked for.
    """
    groups = parse.cgroups(facts.files.get("/proc/self/cgroup", ""))
    own = PurePosixPath(groups.get("", "/"))
    paths = [path for one in (own, *own.parents) for path in _cgroup_files(str(one), groups)]
    return [path for path in dict.fromkeys(paths) if "," not in path and ".." not in path]
