# SPDX-License-Identifier: GPL-2.0-or-later
"""What `kentry stat` prints: one table, then what a reader must know beside it."""

import math
from collections.abc import Iterable, Mapping, Sequence
from statistics import median

from kentry.results.case_name import WARM, WITH_CODE, CaseName
from kentry.results.comparison import TimedComparison, decimals
from kentry.results.recording import CaseResult, NoisyMetric, Recording
from kentry.show.blocks import Block, Column, Layout, Prose, Table, text_column
from kentry.show.numbers import change_with_interval, fixed, fraction, level, percent, significant
from kentry.stats import CONFIDENCE
from kentry.stats.exact import SAME, UNDECIDED
from kentry.time.measurements import LOOP, NS, SHARES, Ending, Tail
from kentry.time.preflight import Finding

# The width of the longest bar of a sweep, columns.
_BAR = 24
_INDENT = "      "
_COUNTERS = [
    f"{mode}-{event}"
    for event in ("cycles", "instructions", "branches")
    for mode in ("kernel", "user")
]


def stat_blocks(cases: Sequence[CaseResult], absent: Mapping[str, str]) -> list[Block]:
    """ns a call of every case, its interval, the noise floor and the detectable change."""
    counters = [name for name in _COUNTERS if any(name in case.noisy for case in cases)]
    # kernel-cycles is k-cycle, user-instructions u-instr.
    shortly = [f"{name[0]}-{name.partition('-')[2][:5]}" for name in counters]
    heads = map(Column, ("ns a call", "+-", "floor %", "sees %", *shortly))
    table = Table([text_column("case", most=40), *heads])
    for case in cases:
        time = case.noisy[NS]
        counts = [_value(case.noisy[name])[0] if name in case.noisy else None for name in counters]
        limits = (fraction(x).removesuffix(" %") for x in (time.floor, time.detectable))
        table.row(case.name, *_value(time), *limits, *counts)
    first = cases[0].noisy[NS]
    confidence = level(first.confidence) if first.confidence else "no"
    boots = len({process.boot for process in first.samples})
    sample = f"of {boots} boots" if boots > 1 else "of this boot's processes"
    blocks: list[Block] = [
        table,
        "",
        Prose(
            f"+-: half of the {confidence} interval, {sample} ({len(first.samples)} processes of"
            " each case). floor: the noise floor, the largest difference between processes of the"
            " same case. sees: the smallest change that 19 of 20 runs like this would find.",
            then="",
        ),
    ]
    if loops := [case.noisy[LOOP].value for case in cases if LOOP in case.noisy]:
        text = f"{median(loops):.1f} ns (median of the cases)"
        blocks += [Prose(f"The time includes the loop around a call: {text}.", then="")]
    return [*blocks, *_absent(absent)]


def _absent(absent: Mapping[str, str]) -> list[Block]:
    return [Prose(f"absent: {name}: {why}", then=_INDENT) for name, why in absent.items()]


def sweep_blocks(cases: Sequence[CaseResult], absent: Mapping[str, str]) -> list[Block]:
    """Returns both curves: ns a call behind walks through more and more data, and code, too."""
    walks = {CaseName.parse(case.name).cache or "": case.noisy[NS] for case in cases}
    most = max(metric.value for metric in walks.values())
    columns = [
        Column(name, group=group)
        for group in ("data", "data and code")
        for name in ("ns a call", "+-")
    ]
    table = Table([Column("set"), *columns, text_column()])
    for size, data in walks.items():
        if not size.endswith(WITH_CODE):
            both = walks.get(size + WITH_CODE)
            bars = [round(_BAR * metric.value / most) for metric in (data, both or data)]
            bar = "#" * max(1, bars[0]) + "+" * (bars[1] - max(1, bars[0]))
            table.row(
                "none" if size == WARM else size,
                *_value(data),
                *(_value(both) if both else ("", "")),
                bar,
            )
    note = (
        "Before each call a walk reads that much memory, one cache line after the other, in 4 KiB"
        " pages (#). For data and code it then runs through as much code, which has a jump in each"
        " line (what that adds: +). The time of the walk is not included, and that of reading the"
        " clock is subtracted."
    )
    title = f"{CaseName.parse(cases[0].name).counted} among working sets"
    return [title, table, "", Prose(note, then=""), *_absent(absent)]


def tails_blocks(tails: Sequence[Tail]) -> list[Block]:
    """Returns percentiles of calls timed one by one."""
    table = Table([text_column("case", most=40), *map(Column, ("calls", *SHARES, "max"))])
    for tail in tails:
        shares = [_value(tail.metrics[f"{word}_ns"])[0] for word in SHARES]
        table.row(tail.name, tail.calls, *shares, tail.longest)
    timers = sorted({tail.timer for tail in tails})
    subtracted = " to ".join(map(str, dict.fromkeys((timers[0], timers[-1]))))
    note = (
        f"ns, each call by itself; {subtracted} ns that reading the clock takes are subtracted."
        " A percentile has no digit beyond its interval from group to group."
    )
    return [table, "", Prose(note, then="")]


def pair_blocks(rows: Sequence[TimedComparison], ending: Ending) -> list[Block]:
    """Three lines a pair; the confidence is of all planned looks, and a look's own is higher."""
    blocks: list[Block] = []
    confidence = level(CONFIDENCE)
    for row, estimate in zip(rows, ending.rows, strict=True):
        assert estimate
        verdict, threshold = row.verdict, f"{100 * estimate.threshold:g} %"
        if verdict == SAME:
            verdict = f"{SAME}, to {threshold}"
        elif verdict == UNDECIDED:
            more = f"; {estimate.more:.1f} times as long should decide" if estimate.more else ""
            verdict = f"{UNDECIDED}, {row.reason}{more}"
        old, new = _values(row)
        change = change_with_interval(100 * estimate.effect, row.interval)
        limits = f"floor {percent(row.floor)}, threshold {threshold}"
        sees = f"would see {percent(row.detectable)}; {estimate.groups} groups"
        blocks += [
            Prose(f"{row.name}: {verdict}", then="    "),
            Prose(f"{old} -> {new} ns, {change} of the first, {confidence}", "    ", "    "),
            Prose(f"{limits}, {sees}", "    ", "    "),
            "",
        ]
    end = (
        f"Ended at look {ending.look.number} of {ending.looks} that were planned, after"
        f" {ending.done} of at most {ending.planned} {ending.unit}."
    )
    return [*blocks, Prose(end, then="")]


def _value(metric: NoisyMetric) -> tuple[str, str]:
    if metric.interval is None:
        return significant(metric.value, 4), "?"
    half = (metric.interval[1] - metric.interval[0]) / 2
    if half == 0:
        return f"{round(metric.value, 2):g}", "0"
    digits = max(0, decimals(half, 3))
    return fixed(metric.value, digits), fixed(half, digits)


def _values(row: TimedComparison) -> tuple[str, str]:
    """Both values in the ratio of the change, about their middle, with its interval's digits."""
    if row.interval is None or row.percent is None or row.old <= 0 or row.new <= 0:
        return significant(row.old, 4), significant(row.new, 4)
    low, high = row.interval
    middle, root = math.sqrt(row.old * row.new), math.sqrt(1 + row.percent / 100)
    if high == low:
        return f"{middle / root:g}", f"{middle * root:g}"
    digits = max(0, decimals((high - low) / 200 * middle, 3))
    return fixed(middle / root, digits), fixed(middle * root, digits)


def stat_layout(
    recording: Recording, blocks: Iterable[Block], findings: Sequence[Finding]
) -> Layout:
    """Lays the blocks out between the machine, with its warnings, and the notes."""
    kernel, target = recording.kernel, recording.target
    where = "" if target.get("place") in ("local", None) else f" on {target['place']}"
    accelerator = str(target.get("accelerator", ""))
    under = accelerator or str(target.get("hypervisor", ""))
    if accelerator.startswith("tcg"):
        under = "emulated, icount" if "-icount" in accelerator else "emulated"
    facts = [str(word) for word in (target.get("cpu_model"), target.get("machine"), under) if word]
    head: list[Block] = [f"Linux {kernel['release']} ({kernel['arch']}){where}"]
    if facts:
        facts += [f"cpu {target['on_cpu']}"] if "on_cpu" in target else []
        head.append(Prose(", ".join(facts)))
    for finding in findings:
        head += [Prose(f"warning: {finding.text}", then=_INDENT)]
        head += [Prose(finding.remedy, _INDENT, _INDENT)]
    kinds = {finding.kind for finding in findings}
    texts = [caveat["text"] for caveat in recording.caveats if caveat["kind"] not in kinds]
    notes: list[Block] = [Prose(f"note: {text}", then=_INDENT) for text in texts]
    return Layout("stat", "", "", [*head, "", *blocks, *(["", *notes] if notes else [])])
