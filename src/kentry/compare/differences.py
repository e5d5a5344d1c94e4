# SPDX-License-Identifier: GPL-2.0-or-later
"""What differs between two recordings besides the thing compared, as caveats."""

import re
from collections.abc import Iterator, Sequence
from typing import Any

from kentry.errors import UserError
from kentry.results import caveats
from kentry.results.caveats import Caveat
from kentry.results.recording import INSTRUCTIONS, PROBE_METRICS, CaseResult, OnTarget, Recording

# Options that say how the kernel was named or built rather than what is in it.
_NOT_CONFIG = re.compile(r"(CC|GCC|LD|AS|CLANG|PAHOLE|RUSTC)_|BUILD_SALT|LOCALVERSION")

# A cross compiler's prefix.
_CROSS_PREFIX = re.compile(r"^\w+-linux-gnu-(?=gcc|clang)")
# What a caveat calls a key of a target, of a kernel or of options; others by their own names.
_LABELS = {
    "kind": "target",
    "cpu": "cpu model",
    "cpu_model": "cpu",
    "cmdline": "kernel command line",
    "memory_mib": "guest memory in MiB",
    "seccomp_filters": "seccomp filters",
    "arch": "architecture",
    "windows": "windows a case",
}
_TARGET_KEYS = ("kind", "emulator", "machine", "cpu", "cmdline", "seed", "memory_mib")
_TIMED_TARGET_KEYS = (
    *("kind", "host", "cpu_model", "microcode", "clock"),
    *("cmdline", "mitigations", "audit", "seccomp_filters"),
)

_HASH_DIGITS = 12  # of a hash, as of a commit in text

# Options that shape kernel entry, by the start of their names; a caveat names at most 8.
_OPTIONS_NAMED = 8
_ENTRY_OPTIONS = re.compile(
    r"PREEMPT|HZ|NO_HZ|GENERIC_ENTRY|AUDIT|SECCOMP|STACKPROTECTOR|RANDOMIZE|CONTEXT_TRACKING"
    r"|VIRT_CPU_ACCOUNTING|TRACING|FTRACE|FUNCTION_TRACER|SHADOW_CALL|CFI|KASAN|UBSAN|LOCKDEP"
    r"|DEBUG_ENTRY|INIT_STACK|ZERO_CALL|LTO|KCOV|SPECULATION|MITIGATION|RETPOLINE|CALL_DEPTH"
    r"|IA32_EMUL|X86_KERNEL_IBT|FUNCTION_PADDING|PAGE_TABLE_ISOLATION|ARM64_(PTR_AUTH|BTI|SVE|SME"
    r"|E0PD|MTE|PAN|PSEUDO_NMI|ERRATUM\w*|SW_TTBR0)|UNMAP_KERNEL|RISCV_(ISA|ALTERNATIVE)"
)


def one_architecture(old: OnTarget, new: OnTarget, remedy: str) -> None:
    """Raises UserError, with this remedy, where the recordings are of two architectures."""
    if old.kernel["arch"] != new.kernel["arch"]:
        arches = f"{old.kernel['arch']} and {new.kernel['arch']}"
        raise UserError(f"The recordings are of two architectures, {arches}.", remedy)


def differences(
    old: Recording,
    new: Recording,
    pairs: Sequence[tuple[CaseResult, CaseResult]],
    names: list[str] | None,
    *,
    counted: bool,
    timed: bool,
) -> list[Caveat]:
    """What differs besides the kernels' cost; `names` are the cases asked for, None for all."""
    notes: list[Caveat] = []
    if counted:
        named = all(side.target.get("processor") for side in (old, new))
        keys = [key if key != "cpu" or not named else "processor" for key in _TARGET_KEYS]
        notes += differing(old.target, new.target, keys)
        notes += _instruments(old, new)
    if timed:
        notes += differing(old.timed_target, new.timed_target, _TIMED_TARGET_KEYS)
    # The floor has no config, no compiler shaped it, and it has two cases.
    of_linux = not old.is_floor and not new.is_floor
    notes += differing(old.kernel, new.kernel, ("arch", "compiler") if of_linux else ())
    notes += differing(old.options, new.options, ("windows",) if counted else ())
    notes += _config_difference(old, new) if of_linux else []
    for side, mine, other in (("old", old, new), ("new", new, old)):
        for case in mine.cases if of_linux else ():
            if other.case(case.name) is None and (not names or case.name in names):
                notes.append(caveats.only_in(side, case.name))
    notes += _metrics_of_one_side(pairs)
    notes += of_both(old.caveats, new.caveats)
    return caveats.unique(notes)


def differing(old: dict[str, Any], new: dict[str, Any], keys: Sequence[str]) -> Iterator[Caveat]:
    """Yields a caveat for each of the keys of a target or a kernel that the sides differ in."""
    for key in keys:
        sides = [old.get(key), new.get(key)]
        # The same compiler has another name as a cross compiler.
        if len({_CROSS_PREFIX.sub("", str(value)) for value in sides}) > 1:
            texts = ["not known" if value in (None, "") else str(value) for value in sides]
            yield caveats.differs(_LABELS.get(key, key), *texts)


def _instruments(old: Recording, new: Recording) -> Iterator[Caveat]:
    """Two probes or two plugins; one side of which neither is known."""
    # Before targets had them, recordings of the cache said what they were made for.
    hashes = [{**side.made_for, **side.target} for side in (old, new)]
    known = ["probe" in hash_of for hash_of in hashes]
    if known[0] != known[1]:
        yield caveats.unknown_instruments("new" if known[0] else "old")
        return
    for name in ("probe", "plugin"):
        sides = [str(own.get(name, ""))[:_HASH_DIGITS] for own in hashes]
        if sides[0] != sides[1]:
            yield caveats.differs(f"hash of the {name}", *sides)


def _config_difference(old: Recording, new: Recording) -> list[Caveat]:
    a, b = old.kernel.get("config"), new.kernel.get("config")
    if a is None or b is None:
        known = "both sides'" if a is None and b is None else "one side's"
        return [caveats.config_unknown(known)]
    changed = [
        name
        for name in sorted(a.keys() | b.keys())
        if a.get(name) != b.get(name) and not _NOT_CONFIG.match(name)
    ]
    if not changed:
        return []
    named = [
        f"{name}={a.get(name, 'n')}/{b.get(name, 'n')}"
        for name in changed
        if _ENTRY_OPTIONS.match(name)
    ]
    entry = f"{caveats.OF_ENTRY}{', '.join(named[:_OPTIONS_NAMED])}" if named else ""
    gone, added = (sum(name not in side for name in changed) for side in (b, a))
    counts = {"gone": gone, "new": added, "changed": len(changed) - gone - added}
    parts = ", ".join(f"{count} {what}" for what, count in counts.items() if count)
    options = caveats.amount(len(changed), "built-in option")
    return [caveats.config_differs(options, parts, entry)]


def shared_metrics(old: CaseResult, new: CaseResult) -> list[str]:
    """Returns the noisy metrics of a kernel that both have in one unit."""
    return [
        metric
        for metric, noisy in old.noisy.items()
        if metric in new.noisy
        and new.noisy[metric].unit == noisy.unit
        and metric not in PROBE_METRICS
    ]


def _metrics_of_one_side(pairs: Sequence[tuple[CaseResult, CaseResult]]) -> Iterator[Caveat]:

    def compared(case: CaseResult) -> list[str]:
        counted = [INSTRUCTIONS] if INSTRUCTIONS in case.metrics else []
        return counted + [name for name in case.noisy if name not in PROBE_METRICS]

    only: dict[tuple[str, str], list[str]] = {}
    for pair in pairs:
        for side, mine, other in (("old", *pair), ("new", *pair[::-1])):
            for metric in compared(mine):
                if metric not in compared(other):
                    only.setdefault((side, metric), []).append(mine.name)
    for (side, metric), names in only.items():
        yield caveats.metric_only_in(side, metric, caveats.some(names))
    for old, new in pairs:
        for metric, a in old.noisy.items():
            b = new.noisy.get(metric)
            if b is None or metric in PROBE_METRICS:
                continue
            if a.unit != b.unit:
                yield caveats.differs(f"unit of {metric}", a.unit, b.unit)
            elif a.estimator and b.estimator and a.estimator != b.estimator:
                yield caveats.differs(f"estimator of {metric}", a.estimator, b.estimator)


def of_both(old: list[Caveat], new: list[Caveat]) -> list[Caveat]:
    """Returns the caveats of two sides: what both have once, the others with whose they are."""
    common = [caveat for caveat in old if caveat in new]
    return [
        *common,
        *(caveats.of_side("old", caveat) for caveat in old if caveat not in common),
        *(caveats.of_side("new", caveat) for caveat in new if caveat not in common),
    ]
