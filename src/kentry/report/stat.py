# SPDX-License-Identifier: GPL-2.0-or-later
"""What `kentry stat` prints: one table, then what a reader must know beside it."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from statistics import median
from typing import Any

from kentry.measure.preflight import WARNING, Finding
from kentry.measure.timed.analysis import LOOP, NS
from kentry.measure.timed.tails import SHARES, Tail
from kentry.model.case_name import CaseName
from kentry.model.caveats import Caveat
from kentry.model.recording import CaseResult, NoisyMetric, Recording
from kentry.report.plain import plain, wrapped
from kentry.stats.exact import SAME, UNDECIDED
from kentry.stats.noisy import Estimate

_WIDTH = 79
_BAR = 24
# Counters that have a column, in this order.
_COUNTERS = (
    "kernel-cycles",
    "user-cycles",
    "kernel-instructions",
    "user-instructions",
    "kernel-branches",
    "user-branches",
)


# --- numbers ------------------------------------------------------------------


def decimals(half: float) -> int:
    """Decimals of a number whose interval has this half: up to its first digit, 0 to 3."""
    if not math.isfinite(half) or half <= 0:
        return 3
    return min(3, max(0, -math.floor(math.log10(half))))


def value_text(metric: NoisyMetric) -> tuple[str, str]:
    """The number and half of its interval, no digit beyond that."""
    if metric.interval is None:
        return f"{metric.value:.4g}", "?"
    half = (metric.interval[1] - metric.interval[0]) / 2
    if half == 0:
        return f"{round(metric.value, 2):g}", "0"
    digits = decimals(half)
    return f"{metric.value:.{digits}f}", f"{half:.{digits}f}"


def share_text(share: float | None) -> str:
    """A fraction as per cent, two digits of it; "-" where it is not known."""
    if share is None or not math.isfinite(share):
        return "-"
    digits = max(0, 1 - math.floor(math.log10(100 * share))) if share > 0 else 1
    return f"{100 * share:.{min(digits, 3)}f}"


def effect_text(found: Estimate) -> str:
    """The change in per cent, and its interval: "+1.02 % [+0.96, +1.08]"."""
    low, high = found.interval
    if not math.isfinite(low):
        return f"{100 * found.effect:+.2g} %, no interval"
    digits = decimals(50 * (high - low))
    return f"{100 * found.effect:+.{digits}f} % [{100 * low:+.{digits}f}, {100 * high:+.{digits}f}]"


def confidence_text(confidence: float) -> str:
    """99 %, and of looks that ask for more, as many nines as it takes."""
    return f"{100 * confidence:.6g} %"


# --- what stands around a table -------------------------------------------------


def head_lines(recording: Recording) -> list[str]:
    """Which kernel, which machine, which cpu."""
    kernel, target = recording.kernel, recording.target
    machine = ", ".join(
        str(one) for one in (target.get("cpu_model"), target.get("machine"), _under(target)) if one
    )
    where = "" if target.get("place") in ("local", None) else f" on {target['place']}"
    cpu = f", cpu {target['on_cpu']}" if "on_cpu" in target else ""
    lines = [f"Linux {kernel['release']} ({kernel['arch']}){where}"]
    if machine:
        lines += wrapped(plain(machine) + cpu, _WIDTH)
    return lines


def _under(target: Mapping[str, Any]) -> str:
    """What is under a virtual machine, in a word."""
    accelerator = str(target.get("accelerator", ""))
    if "-icount" in accelerator:
        return "emulated, icount"
    if accelerator.startswith("tcg"):
        return "emulated"
    return accelerator or str(target.get("hypervisor", ""))


def note_lines(findings: Sequence[Finding], caveats: Iterable[Caveat], *, every: bool) -> list[str]:
    """Warnings with their remedies; of what else is known only how much, unless `every`."""
    shown = [one for one in findings if every or one.level == WARNING]
    lines = []
    for one in shown:
        mark = "warning" if one.level == WARNING else "note"
        lines += wrapped(f"{mark}: {plain(one.text)}", _WIDTH, then="      ")
        if one.remedy:
            lines += wrapped(plain(one.remedy), _WIDTH, first="      ", then="      ")
    for caveat in caveats:
        lines += wrapped(f"note: {plain(caveat['text'])}", _WIDTH, then="      ")
    rest = [one for one in findings if one not in shown]
    if rest:
        kinds = ", ".join(one.kind.removeprefix("preflight-") for one in rest)
        lines += wrapped(
            f"note: belongs to these numbers (-v prints it): {kinds}", _WIDTH, then="      "
        )
    return ["", *lines] if lines else []


# --- a table of cases ---------------------------------------------------------


def stat_text(
    recording: Recording, findings: Sequence[Finding], absent: Mapping[str, str], *, every: bool
) -> str:
    """ns a call of every case, its interval, the floor, and what could have been seen."""
    lines = [*head_lines(recording), "", *_table(recording.cases)]
    lines += _loops(recording.cases)
    for name, reason in absent.items():
        lines += wrapped(f"absent: {name}: {reason}", _WIDTH, then="      ")
    return "\n".join([*lines, *notes(recording, findings, every=every)]) + "\n"


def notes(recording: Recording, findings: Sequence[Finding], *, every: bool) -> list[str]:
    """Preflight's findings and the recording's own caveats."""
    return note_lines(findings, _own(recording, findings), every=every)


def _own(recording: Recording, findings: Sequence[Finding]) -> list[Caveat]:
    """The recording's caveats that are not preflight's."""
    kinds = {one.kind for one in findings}
    return [caveat for caveat in recording.caveats if caveat["kind"] not in kinds]


def _table(cases: Sequence[CaseResult]) -> Iterator[str]:
    counters = [name for name in _COUNTERS if any(name in case.noisy for case in cases)]
    width = max(len("case"), *(len(case.name) for case in cases))
    header = f"{'case':<{width}} {'ns a call':>10} {'+-':>7} {'floor %':>8} {'sees %':>7}"
    yield header + "".join(f" {_short(name):>8}" for name in counters)
    for case in cases:
        timed = case.noisy[NS]
        value, half = value_text(timed)
        row = f"{case.name:<{width}} {value:>10} {half:>7} {share_text(timed.floor):>8}"
        row += f" {share_text(timed.detectable):>7}"
        for name in counters:
            row += f" {value_text(case.noisy[name])[0] if name in case.noisy else '-':>8}"
        yield row
    first = cases[0].noisy[NS]
    level = confidence_text(first.confidence) if first.confidence else "no"
    yield ""
    boots = len({one.boot for one in first.samples})
    sampled = f"of {boots} boots" if boots > 1 else "of this boot's processes"
    yield from wrapped(
        f"+-: half of the {level} interval, {sampled} ({len(first.samples)} processes of each"
        " case). floor: by how much two processes of the same case seemed to differ here, at"
        " most. sees: the smallest change that this run would have found in 19 of 20 cases.",
        _WIDTH,
        then="",
    )


def _short(counter: str) -> str:
    side, _, kind = counter.partition("-")
    return f"{side[0]}-{kind[:5]}"


def _loops(cases: Sequence[CaseResult]) -> Iterator[str]:
    loops = [case.noisy[LOOP].value for case in cases if LOOP in case.noisy]
    if loops:
        text = f"The loop around a call is in it: {median(loops):.1f} ns (median of the cases)."
        yield from wrapped(text, _WIDTH, then="")


# --- a sweep ------------------------------------------------------------------


def sweep_text(recording: Recording, findings: Sequence[Finding], *, every: bool) -> str:
    """The curve: ns a call behind walks over more and more memory."""
    cases = recording.cases
    name = CaseName.parse(cases[0].name).counted
    most = max(case.noisy[NS].value for case in cases)
    lines = [
        *head_lines(recording),
        "",
        f"{name} among working sets",
    ]
    lines += [f"{'set':>6} {'ns a call':>10} {'+-':>7}"]
    for case in cases:
        value, half = value_text(case.noisy[NS])
        parsed = case.parsed
        size = parsed.cache if parsed.walk_bytes else "none"
        bar = "#" * max(1, round(_BAR * case.noisy[NS].value / most))
        lines.append(f"{size:>6} {value:>10} {half:>7} {bar}")
    lines.append("")
    lines += wrapped(
        "Before each call a walk reads so much memory, a cache line after the other, 4 KiB pages;"
        " its own time is outside of what is timed, and the clock's is taken off.",
        _WIDTH,
        then="",
    )
    return "\n".join([*lines, *notes(recording, findings, every=every)]) + "\n"


# --- tails --------------------------------------------------------------------


def tails_text(
    recording: Recording, tails: Sequence[Tail], findings: Sequence[Finding], *, every: bool
) -> str:
    """Percentiles of calls timed one by one."""
    width = max(len("case"), *(len(tail.name) for tail in tails))
    words = [*SHARES, "max"]
    lines = [*head_lines(recording), ""]
    lines.append(f"{'case':<{width}} {'calls':>9}" + "".join(f" {word:>9}" for word in words))
    for tail in tails:
        row = f"{tail.name:<{width}} {tail.calls:>9}"
        for word in SHARES:
            row += f" {value_text(tail.metrics[f'{word}_ns'])[0]:>9}"
        lines.append(f"{row} {tail.longest:>9}")
    timers = sorted({tail.timer for tail in tails})
    lines.append("")
    lines += wrapped(
        f"ns, each call by itself; {_span(timers)} ns that reading the clock takes are off."
        " A percentile has no digit beyond its interval from group to group.",
        _WIDTH,
        then="",
    )
    return "\n".join([*lines, *notes(recording, findings, every=every)]) + "\n"


def _span(values: Sequence[int]) -> str:
    return str(values[0]) if len(values) == 1 else f"{values[0]} to {values[-1]}"


# --- comparisons --------------------------------------------------------------


def comparison_lines(
    name: str, found: Estimate, values: tuple[str, str], unit: str, confidence: float
) -> list[str]:
    """One row: the verdict, the change, and what it is held against.

    `confidence` is that of all looks together, which each look's interval has a part in.
    """
    old, new = values
    lines = [f"{name}: {verdict_text(found)}"]
    lines.append(
        f"    {old} -> {new} {unit}, {effect_text(found)} of the first,"
        f" {confidence_text(confidence)}"
    )
    floor = share_text(found.floor)
    lines.append(
        f"    floor {floor} %, threshold {100 * found.threshold:g} %,"
        f" would see {share_text(found.detectable)} %; {found.groups} groups"
    )
    return lines


def verdict_text(found: Estimate) -> str:
    """The verdict; of an undecided one why, and how much longer would decide."""
    if found.verdict == SAME:
        return f"{SAME}, to {100 * found.threshold:g} %"
    if found.verdict != UNDECIDED:
        return found.verdict
    more = f"; {found.more:.1f} times as long should decide" if found.more else ""
    return f"{UNDECIDED}, {found.reason}{more}"


def values_text(found: Estimate, old: float, new: float) -> tuple[str, str]:
    """Two numbers in the ratio that was found, about their middle, no digit beyond its interval."""
    low, high = found.interval
    if not math.isfinite(low) or old <= 0 or new <= 0:
        return f"{old:.4g}", f"{new:.4g}"
    middle, root = math.sqrt(old * new), math.sqrt(1 + found.effect)
    if high == low:
        return f"{middle / root:g}", f"{middle * root:g}"
    digits = decimals((high - low) / 2 * middle)
    return f"{middle / root:.{digits}f}", f"{middle * root:.{digits}f}"
