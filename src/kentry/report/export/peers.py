# SPDX-License-Identifier: GPL-2.0-or-later
"""The lines that other benchmarks print, for scripts that read them; the numbers are kentry's.

None of these formats has a place for an interval, a spread, or a state that its program does not
know.  Only cases that are what the program measures are written; the others are in a note.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from kentry.arch import ARCHES
from kentry.errors import UserError
from kentry.model.case_name import CaseName
from kentry.model.recording import CaseResult, NoisyMetric, Recording
from kentry.report.export.common import Export, labels, left_out

_NS_PER_US = 1_000
_NS_PER_S = 1_000_000_000
_US_PER_S = 1_000_000

# A call that takes less or more, in ns, is no measurement: 30 years are 1e18.
_LEAST, _MOST = 1e-9, 1e18

_NS, _RATE, _TICKS = "ns", "ops_per_s", "ticks"

# A block of lines, and the cases that are in it.
Block = tuple[list[str], list[str]]


@dataclass(frozen=True)
class Peer:
    """A program's format: `blocks` of a recording, `cases` as they are named to the user.

    `headed`: a heading stands above each block, not above each recording.
    """

    name: str
    blocks: Callable[[Recording], Iterator[Block]]
    cases: str
    headed: bool = False

    def export(self, recordings: Sequence[Recording]) -> Export:
        """The recordings' lines; of several, each below its kernel's name."""
        names = labels(recordings)
        lines: list[str] = []
        notes: list[str] = []
        for recording, name in zip(recordings, names, strict=True):
            found = self._found(recording, name)
            heading = [f"--- {_heading(name, recording)} ---"] if len(recordings) > 1 else []
            for place, (block, _) in enumerate(found):
                lines += [*(heading if self.headed or not place else ()), *block]
            written = {case for _, cases in found for case in cases}
            missing = (case.name for case in recording.cases if case.name not in written)
            notes += left_out(missing, f"{self.name} has no line for it")
        return Export("\n".join(lines) + "\n", tuple(notes))

    def _found(self, recording: Recording, name: str) -> list[Block]:
        found = list(self.blocks(recording))
        if found:
            return found
        if not any(_ns(case) or _TICKS in case.noisy for case in recording.cases):
            raise UserError(
                f"{name} has counts and no time, and {self.name} has nothing but time.",
                "kentry stat -o FILE records times; benchfmt, ktap and csv have counts, too.",
            )
        raise UserError(
            f"{name} has no case that {self.name} measures.", f"It measures {self.cases}."
        )


def _heading(name: str, recording: Recording) -> str:
    """Which kernel the lines below are of, and its architecture."""
    arch = recording.kernel["arch"]
    return name if arch in name else f"{name} {arch}"


def _ns(case: CaseResult) -> float:
    """ns a call, or what a rate says it is; 0 where neither is known."""
    if _NS in case.noisy:
        return case.noisy[_NS].value
    rate = case.noisy.get(_RATE)
    return _NS_PER_S / rate.value if rate and rate.value else 0.0


def _rate(case: CaseResult) -> float:
    """Calls a second: as it was measured, or what the time says it is."""
    if _RATE in case.noisy and _NS not in case.noisy:
        return case.noisy[_RATE].value
    ns = _ns(case)
    return _NS_PER_S / ns if ns else 0.0


def _timed(recording: Recording, names: dict[str, str]) -> Iterator[tuple[CaseResult, str]]:
    """The cases of these names that have a time, with the peer's word, in its order."""
    for name, word in names.items():
        case = recording.case(name)
        if case and _LEAST < _ns(case) < _MOST:
            yield case, word


# --- lmbench -------------------------------------------------------------

# lat_syscall.c, and micro() in lib_timing.c: "%s: %.4f microseconds".
_LMBENCH = {
    "getppid": "syscall",
    "read": "read",
    "write": "write",
    "stat": "stat",
    "fstat": "fstat",
    "openat+close": "open/close",
}


def _lmbench(recording: Recording) -> Iterator[Block]:
    for case, word in _timed(recording, _LMBENCH):
        yield [f"Simple {word}: {_ns(case) / _NS_PER_US:.4f} microseconds"], [case.name]


# --- UnixBench -----------------------------------------------------------

# The programs of kdlucas/byte-unixbench, src/*.c, with the seconds of its Run.
_UNIXBENCH_SECONDS = 10
_UNIXBENCH = {
    "getpid": f"./syscall {_UNIXBENCH_SECONDS} getpid",
    "unixbench-mix": f"./syscall {_UNIXBENCH_SECONDS} mix",
    "pingpong": f"./context1 {_UNIXBENCH_SECONDS}",
    "fork+exit": f"./spawn {_UNIXBENCH_SECONDS}",
    "execve": f"./execl {_UNIXBENCH_SECONDS}",
}


def _unixbench(recording: Recording) -> Iterator[Block]:
    """How many loops would be in so many seconds."""
    for case, command in _timed(recording, _UNIXBENCH):
        count = round(_rate(case) * _UNIXBENCH_SECONDS)
        lines = [f"# {command}", f"COUNT|{count}|1|lps", f"TIME|{_UNIXBENCH_SECONDS}.0"]
        yield lines, [case.name]


# --- perf bench ----------------------------------------------------------

# tools/perf/bench/syscall.c: the benchmark, the call as it prints it, and its loops.
_PERF = {
    "getppid": ("basic", "getppid()", 10_000_000),
    "getpgid": ("getpgid", "getpgid()", 10_000_000),
    "fork+exit": ("fork", "fork()", 10_000),
    "execve": ("execve", "execve()", 10_000),
}


def _perf_bench(recording: Recording) -> Iterator[Block]:
    """As perf does: the run's whole microseconds, and both other numbers from them."""
    for case, name in _timed(recording, dict(zip(_PERF, _PERF, strict=True))):
        bench, call, loops = _PERF[name]
        total = max(round(_ns(case) * loops / _NS_PER_US), 1)
        seconds, rest = divmod(total, _US_PER_S)
        lines = [
            f"# Running 'syscall/{bench}' benchmark:",
            f"# Executed {loops} {call} calls",
            f" {'Total time':>14}: {seconds}.{rest // 1000:03} [sec]",
            "",
            f" {total / loops:14.6f} usecs/op",
            f" {loops * _US_PER_S // total:14} ops/sec",
            "",
        ]
        yield lines, [case.name]


# --- fp-pidbench ---------------------------------------------------------

# tools/testing/selftests/arm64/fp/fp-pidbench.S, Linux 7.0: 10000 << 12 loops.
_PIDBENCH_LOOPS = 10_000 << 12
_PIDBENCH_CASE, _PIDBENCH_UNIT = "getpid", "SVE"
_PIDBENCH = {
    "none": "No SVE",
    "once": "SVE used once",
    "each": "SVE used per syscall",
    "after": "No SVE after SVE",
}
_TICK = "# 1 tick is 1 ns: a timer of 1 GHz, not the machine's"


def _pidbench(recording: Recording) -> Iterator[Block]:
    """A run a vector length: the one without SVE, which has none, is in the first."""
    found = _pidbench_cases(recording)
    lengths = dict.fromkeys(length for length, use in found if use != "none")
    for place, length in enumerate(lengths or (None,)):
        lines = [f"Iterations per test: {_PIDBENCH_LOOPS}"]
        names = []
        for use, word in _PIDBENCH.items():
            case = found.get((None if use == "none" else length, use))
            if use == "none" and place:
                continue
            if use == "once" and length:
                lines.append(f"SVE VL: {length}")
            if case:
                lines.append(f"{word}: {round(_ticks(case) * _PIDBENCH_LOOPS)}")
                names.append(case.name)
        if names:
            ticks = any(_TICKS in case.noisy for case in found.values())
            yield [*([] if ticks else [_TICK]), *lines], names


def _pidbench_cases(recording: Recording) -> dict[tuple[int | None, str], CaseResult]:
    """The cases that it knows, by vector length and use; only SVE is in its words."""
    arch = ARCHES.get(recording.kernel["arch"])
    if arch is None or arch.vector.units[0].what != _PIDBENCH_UNIT:
        return {}
    found: dict[tuple[int | None, str], CaseResult] = {}
    for case in recording.cases:
        state = CaseName.parse(case.name).state
        if state and f"{_PIDBENCH_CASE}{state}" == case.name and _LEAST < _ticks(case) < _MOST:
            known = state.unit == arch.vector.units[0].name and state.use in _PIDBENCH
            if known and CaseName.parse(case.name).call == _PIDBENCH_CASE:
                found[None if state.use == "none" else state.length, state.use] = case
    return found


def _ticks(case: CaseResult) -> float:
    """Ticks a call: imported ones as they are, else of a timer of 1 GHz."""
    ticks: NoisyMetric | None = case.noisy.get(_TICKS)
    return ticks.value if ticks else _ns(case)


# --- will-it-scale -------------------------------------------------------

# Its runtest.py; those of its tests that do what a case does.
_SCALE_HEADER = "tasks,processes,processes_idle,threads,threads_idle,linear"
_SCALE = {"getppid": "getppid1", "sched_yield": "sched_yield"}


def _will_it_scale(recording: Recording) -> Iterator[Block]:
    """One task; idle time is not measured, and threads are not, for which the tool writes 0."""
    for case, test in _timed(recording, _SCALE):
        rate = int(_rate(case))
        lines = [
            f"# ./runtest.py {test}",
            _SCALE_HEADER,
            "0,0,100,0,100,0",
            f"1,{rate},0.00,0,0.00,{rate}",
        ]
        yield lines, [case.name]


def _names(cases: dict[str, object]) -> str:
    return ", ".join(cases)


PEERS = (
    Peer("lmbench", _lmbench, _names({**_LMBENCH})),
    Peer("unixbench", _unixbench, _names({**_UNIXBENCH})),
    Peer("perf-bench", _perf_bench, _names({**_PERF})),
    Peer(
        "fp-pidbench",
        _pidbench,
        "getpid+vec=none, once, each and after on arm64",
    ),
    Peer("will-it-scale", _will_it_scale, _names({**_SCALE}), headed=True),
)
