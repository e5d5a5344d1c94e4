# SPDX-License-Identifier: GPL-2.0-or-later
"""Two recordings -> a Comparison: verdicts, and function deltas that sum to each delta."""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass, field
from typing import Any

from kentry import caveats
from kentry.arch import find_arch
from kentry.caveats import Caveat
from kentry.errors import UserError
from kentry.path.stream import stream
from kentry.path.symbols import base_name
from kentry.recording import INSTRUCTIONS, CaseResult, Recording
from kentry.stats import exact

SCHEMA = "kentry/comparison/1"

# How many of the config options that shape kernel entry a caveat names.
_OPTIONS_NAMED = 8

# Options that say how the kernel was named or built rather than what is in it.
_NOT_CONFIG = (
    "CC_",
    "GCC_",
    "LD_",
    "AS_",
    "CLANG_",
    "PAHOLE_",
    "RUSTC_",
    "BUILD_SALT",
    "LOCALVERSION",
)


@dataclass(frozen=True)
class FunctionDelta:
    """A function's instructions in the modal path, on each side."""

    name: str
    old: int
    new: int

    @property
    def delta(self) -> int:
        """New less old."""
        return self.new - self.old

    def to_json(self) -> dict[str, Any]:
        """As every format has it."""
        return {"name": self.name, "old": self.old, "new": self.new, "delta": self.delta}


@dataclass(frozen=True)
class EventDelta:
    """How often a vector event happened in a window on each side, and in which functions.

    None: that kernel has no marker of it, so nothing is known.
    """

    name: str
    cause: str
    old: int | None
    new: int | None
    functions: tuple[str, ...]

    @property
    def is_change(self) -> bool:
        """Whether both sides are known and differ."""
        return self.old is not None and self.new is not None and self.old != self.new

    def to_json(self) -> dict[str, Any]:
        """As every format has it."""
        return {
            "name": self.name,
            "cause": self.cause,
            "old": self.old,
            "new": self.new,
            "functions": list(self.functions),
        }


@dataclass(frozen=True)
class CaseComparison:
    """One case on two kernels; of one with a vector state, `events` of the modal paths.

    `functions` sum to `old` and `new` exactly, changed ones first; they are empty where a
    path is missing, which a caveat then says.
    """

    name: str
    old: int
    new: int
    verdict: str
    functions: tuple[FunctionDelta, ...]
    identical_path: bool
    caveats: tuple[Caveat, ...]
    events: tuple[EventDelta, ...] = ()
    metric: str = INSTRUCTIONS

    @property
    def delta(self) -> int:
        """New less old."""
        return self.new - self.old

    @property
    def percent(self) -> float | None:
        """The delta in per cent of the old value; None where that is 0."""
        return 100 * self.delta / self.old if self.old else None


@dataclass(frozen=True)
class Comparison:
    """All cases that both recordings have, and what else differs between the two.

    `lost` are the cases that only the old one has.
    """

    old: Recording
    new: Recording
    cases: tuple[CaseComparison, ...]
    caveats: tuple[Caveat, ...] = field(default=())
    lost: tuple[str, ...] = ()


def compare(old: Recording, new: Recording, names: list[str] | None = None) -> Comparison:
    """Compares every case both have, or those named; UserError when there is none."""
    if old.kernel["arch"] != new.kernel["arch"]:
        raise UserError(
            f"The recordings are of two architectures, {old.kernel['arch']} and"
            f" {new.kernel['arch']}.",
            "Compare two kernels of one.",
        )
    wanted = names or [case.name for case in old.cases]
    pairs = [(old.case(name), new.case(name)) for name in wanted]
    cases = tuple(compare_case(a, b, old, new) for a, b in pairs if a and b)
    if not cases:
        raise UserError(
            "The two recordings have no case in common.",
            f"The old one has {_names(old)}; the new one {_names(new)}.",
        )
    lost = tuple(name for name in wanted if old.case(name) and not new.case(name))
    return Comparison(old, new, cases, tuple(_differences(old, new, names)), lost)


def _names(recording: Recording) -> str:
    return ", ".join(case.name for case in recording.cases)


def compare_case(
    old: CaseResult, new: CaseResult, old_recording: Recording, new_recording: Recording
) -> CaseComparison:
    """One case on each side; they may be two states of a case in one recording."""
    a, b = old.metrics[INSTRUCTIONS], new.metrics[INSTRUCTIONS]
    return CaseComparison(
        name=old.name,
        old=a.value,
        new=b.value,
        verdict=exact.verdict(dict(a.samples), dict(b.samples)),
        functions=_functions(old, new),
        identical_path=a.value == b.value and _same_path(old, new, old_recording, new_recording),
        caveats=tuple(_of_both(list(old.caveats), list(new.caveats))),
        events=_events(old, new, old_recording, new_recording),
    )


def _events(
    old: CaseResult, new: CaseResult, old_recording: Recording, new_recording: Recording
) -> tuple[EventDelta, ...]:
    """The events of either side, those that changed most first."""
    if old.events is None or new.events is None:
        return ()
    sides = (old.events, new.events)
    deltas = []
    for name, cause in {(event.name, event.cause): None for side in sides for event in side}:
        mine = [[one for one in side if (one.name, one.cause) == (name, cause)] for side in sides]
        before, after = (
            sum(one.times for one in events) if name in (recording.markers or {}) else None
            for events, recording in zip(mine, (old_recording, new_recording), strict=True)
        )
        functions = dict.fromkeys(one.function for events in reversed(mine) for one in events)
        deltas.append(EventDelta(name, cause, before, after, tuple(functions)))
    return tuple(sorted(deltas, key=lambda one: -abs((one.new or 0) - (one.old or 0))))


def _functions(old: CaseResult, new: CaseResult) -> tuple[FunctionDelta, ...]:
    """Every function of either path, by its own name: a compiler's clones count as one."""
    a, b = _by_base_name(old), _by_base_name(new)
    if a.total() != old.metrics[INSTRUCTIONS].value or b.total() != new.metrics[INSTRUCTIONS].value:
        return ()
    rows = [FunctionDelta(name, a[name], b[name]) for name in {**a, **b}]
    return tuple(sorted(rows, key=lambda row: (-abs(row.delta), -row.delta, row.name)))


def _by_base_name(case: CaseResult) -> Counter[str]:
    counts: Counter[str] = Counter()
    for name, instructions in case.functions:
        counts[base_name(name)] += instructions
    return counts


def _same_path(
    old: CaseResult, new: CaseResult, old_recording: Recording, new_recording: Recording
) -> bool:
    executed = _stream(old, old_recording)
    return executed is not None and executed == _stream(new, new_recording)


def _stream(case: CaseResult, recording: Recording) -> tuple[tuple[str, str], ...] | None:
    """The modal path as executed, wherever it was linked."""
    path = case.modal_path
    if path is None:
        return None
    return stream(recording.instructions(path), find_arch(recording.kernel["arch"]))


def _differences(old: Recording, new: Recording, names: list[str] | None) -> list[Caveat]:
    found: list[Caveat] = []
    for what, keys in (
        ("target", _TARGET_KEYS),
        ("kernel", _KERNEL_KEYS),
        ("options", _OPTION_KEYS),
    ):
        a, b = getattr(old, what), getattr(new, what)
        for key, label in keys:
            if _plain(a.get(key)) != _plain(b.get(key)):
                found.append(caveats.differs(label, str(a.get(key)), str(b.get(key))))
    found += _config_difference(old, new)
    for side, mine, other in (("old", old, new), ("new", new, old)):
        for case in mine.cases:
            if other.case(case.name) is None and (not names or case.name in names):
                found.append(caveats.only_in(side, case.name))
    return found + _of_both(old.caveats, new.caveats)


def _of_both(old: list[Caveat], new: list[Caveat]) -> list[Caveat]:
    """The caveats of two sides: what both have once, the others with whose they are."""
    common = [caveat for caveat in old if caveat in new]
    return [
        *common,
        *(caveats.of_side("old", caveat) for caveat in old if caveat not in common),
        *(caveats.of_side("new", caveat) for caveat in new if caveat not in common),
    ]


def _plain(value: Any) -> str:
    """Without a cross compiler's prefix: the same compiler under another name is no difference."""
    return _CROSS_PREFIX.sub("", str(value))


_CROSS_PREFIX = re.compile(r"^\w+-linux-gnu-(?=gcc|clang)")
_TARGET_KEYS = (
    ("kind", "target"),
    ("emulator", "emulator"),
    ("machine", "machine"),
    ("cpu", "cpu model"),
    ("cmdline", "kernel command line"),
    ("seed", "seed"),
    ("memory_mib", "guest memory in MiB"),
)
_KERNEL_KEYS = (("arch", "architecture"), ("compiler", "compiler"))
_OPTION_KEYS = (("windows", "windows a case"),)


def _config_difference(old: Recording, new: Recording) -> list[Caveat]:
    a, b = old.kernel.get("config"), new.kernel.get("config")
    if a is None or b is None:
        known = "neither side's" if a is None and b is None else "one side's"
        return [caveats.config_unknown(known)]
    changed = [
        name
        for name in sorted(a.keys() | b.keys())
        if a.get(name) != b.get(name) and not name.startswith(_NOT_CONFIG)
    ]
    if not changed:
        return []
    named = [
        f"{name}={a.get(name, 'n')}/{b.get(name, 'n')}"
        for name in changed
        if _ENTRY_OPTIONS.match(name)
    ]
    return [
        caveats.config_differs(
            len(changed),
            sum(name not in b for name in changed),
            sum(name not in a for name in changed),
            named[:_OPTIONS_NAMED],
        )
    ]


# What a system call's path is made of, by the start of the option's name.
_ENTRY_OPTIONS = re.compile(
    r"PREEMPT|HZ|NO_HZ|GENERIC_ENTRY|AUDIT|SECCOMP|STACKPROTECTOR|RANDOMIZE|CONTEXT_TRACKING"
    r"|VIRT_CPU_ACCOUNTING|TRACING|FTRACE|FUNCTION_TRACER|SHADOW_CALL|CFI|KASAN|UBSAN|LOCKDEP"
    r"|DEBUG_ENTRY|INIT_STACK|ZERO_CALL|LTO|KCOV|SPECULATION|MITIGATION|RETPOLINE|CALL_DEPTH"
    r"|IA32_EMUL|X86_KERNEL_IBT|FUNCTION_PADDING|PAGE_TABLE_ISOLATION|ARM64_(PTR_AUTH|BTI|SVE|SME"
    r"|E0PD|MTE|PAN|PSEUDO_NMI|ERRATUM\w*|SW_TTBR0)|UNMAP_KERNEL|RISCV_(ISA|ALTERNATIVE)"
)


def to_json(comparison: Comparison) -> dict[str, Any]:
    """The comparison as kentry/comparison/1."""
    return {
        "schema": SCHEMA,
        "tool": comparison.new.tool,
        "old": side_to_json(comparison.old),
        "new": side_to_json(comparison.new),
        "cases": [
            {
                "name": case.name,
                "metric": case.metric,
                "old": case.old,
                "new": case.new,
                "delta": case.delta,
                "percent_of_old": case.percent,
                "verdict": case.verdict,
                "identical_path": case.identical_path,
                "functions": [row.to_json() for row in case.functions],
                **({"events": [one.to_json() for one in case.events]} if case.events else {}),
                "caveats": list(case.caveats),
            }
            for case in comparison.cases
        ],
        "caveats": list(comparison.caveats),
    }


def side_to_json(recording: Recording) -> dict[str, Any]:
    """What was measured on what, without the kernel's whole config."""
    kernel = {name: value for name, value in recording.kernel.items() if name != "config"}
    return {"kernel": kernel, "target": recording.target}
