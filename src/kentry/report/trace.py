# SPDX-License-Identifier: GPL-2.0-or-later
"""A vector trace as text: what is in it, and what it says about the use of vectors.

Every line fits into a mail.  A percentage's base stands in the heading above it, or beside it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import pairwise
from typing import Any

import numpy as np

from kentry import __version__
from kentry.arch import find_arch
from kentry.report.plain import ascii_lines, plain, shortened, wrapped
from kentry.vector.statistics import (
    ENOUGH_LOADS,
    Counts,
    Histogram,
    Share,
    Statistics,
    decades,
    doublings,
)
from kentry.vector.trace import Cut, Event, VectorTrace

WIDTH = 75

STATISTICS_SCHEMA = "kentry/vector-statistics/1"

# Tasks in the table of `kentry vector stats`.
TASKS_SHOWN = 12

# What docs/vector.md calls the acts that a trace has seen.
ACTS = {
    Event.SEEN_TRAP: "trap",
    Event.SEEN_FLUSH: "flush",
    Event.SEEN_DROP: "drop",
    Event.SEEN_SAVE: "save",
    Event.SEEN_RESTORE: "restore",
    Event.SEEN_SMALL_SAVE: "fpsimd-save",
    Event.SEEN_SMALL_RESTORE: "fpsimd-restore",
    Event.SEEN_SMSTOP: "smstop",
    Event.SEEN_SME_TRAP: "sme-trap",
    Event.SEEN_ZA_SAVE: "za-save",
    Event.SEEN_ZA_RESTORE: "za-restore",
}

# Mark Brown, "[PATCH v8 0/2] arm64/sve: Performance improvements with SVE state saving",
# 20 March 2026, of the boot of Debian Bookworm and of distributions before it.
SERIES = "the series (M. Brown, arm64/sve v8, 2026)"
MAJORITY = (
    "the overwhelming majority of tasks triggered another SVE access trap more than 50% of the"
    " time after loading FPSIMD only state with a substantial number near 100%"
)
MIDDLE = (
    "few tasks in the range 5-45%, most tasks either used SVE frequently or used it only a tiny"
    " proportion of times"
)
OLDER = (
    "older distributions which do not have the SVE performance work available showed no SVE usage"
    " in general applications"
)

# A microsecond to 10 s; 0 to 1024 calls and more.
_SHORTEST, _LONGEST = 1_000, 10_000_000_000
_MOST_CALLS = 1024
SECOND = 1_000_000_000


def _wrapped(sentence: str, first: str = "", then: str = "  ") -> list[str]:
    """The lines of a sentence; no number is parted from its "%"."""
    lines = wrapped(plain(sentence).replace(" %", "\xa0%"), WIDTH, first, then)
    return [line.replace("\xa0", " ") for line in lines]


def _of(part: float, whole: float) -> str:
    """A percentage, "-" of nothing; neither 0 nor 100 where it is not quite that."""
    if not whole:
        return "-"
    digits = f"{100 * part / whole:.1f}"
    if part and digits == "0.0":
        return "<0.1 %"
    return ">99.9 %" if digits == "100.0" and part < whole else f"{digits} %"


def _counted(count: int, what: str) -> str:
    return f"{count} {what}" if count == 1 else f"{count} {what}s"


def unit_of(trace: VectorTrace, statistics: Statistics | None = None) -> str:
    """What the unit is called on the trace's architecture: SVE, V, AVX."""
    if statistics and statistics.side.use == Event.USE_SME:
        return "SME"
    return find_arch(trace.meta["arch"]).vector.units[0].what


# --- what is in it -------------------------------------------------------


def trace_text(trace: VectorTrace, cut: Cut | None = None, size: int | None = None) -> str:
    """What `kentry vector trace` prints: the workload, how much was seen, what the kernel did.

    `size` is the file's in bytes.
    """
    lines = [*_head(trace), *_amount(trace, size), *_ending(trace), "", *_acts(trace)]
    return ascii_lines([*lines, *_notes(trace, cut)])


def _head(trace: VectorTrace) -> list[str]:
    meta, kernel = trace.meta, trace.meta["kernel"]
    bits = f", {meta['unit']['vl']} bits" if "vl" in meta["unit"] else ""
    texts = (
        f"{meta['workload']['name']} on {kernel['spec']} ({meta['arch']}): Linux"
        f" {kernel['release']}",
        f"{unit_of(trace)}{bits}; the kernel's own policy: {meta['policy']}",
    )
    return [line for text in texts for line in _wrapped(text)]


def _amount(trace: VectorTrace, size: int | None) -> list[str]:
    # Those that came back to user mode: not the kernel's own, nor one that was there and slept.
    users = len(np.unique(trace.task[trace.event == Event.EXIT]))
    kernel = sum(task.kernel for task in trace.tasks)
    each = f", {size / len(trace):.1f} bytes each" if size and len(trace) else ""
    text = (
        f"{_counted(len(trace), 'event')}{each}; {_counted(users, 'user task')}, "
        f"{_counted(kernel, 'kernel thread')}; {trace.seconds:.3f} s of the"
        " guest's clock"
    )
    return _wrapped(text)


def _ending(trace: VectorTrace) -> list[str]:
    status = trace.meta["workload"].get("status")
    if status:
        return [f"the workload failed in the guest: exit status {status}"]
    return [] if trace.meta["complete"] else ["the recording did not get to the workload's end"]


def _acts(trace: VectorTrace) -> Iterator[str]:
    """How often the kernel did what, and in how many tasks."""
    total = np.bincount(trace.event, minlength=256)
    calls = int(total[Event.SYSCALL])
    yield f"{'the traced kernel did':<24} {'times':>10} {'a 1000 calls':>13} {'tasks':>7}"
    for event, name in ACTS.items():
        if times := int(total[event]):
            tasks = len(np.unique(trace.task[trace.event == event]))
            rate = f"{1000 * times / calls:.1f}" if calls else "-"
            yield f"  {name:<22} {times:>10} {rate:>13} {tasks:>7}"
    others = (("system calls", Event.SYSCALL), ("user interrupts", Event.INTERRUPT))
    switches = int(total[Event.SWITCH_BLOCKED] + total[Event.SWITCH_PREEMPTED])
    found = [f"{int(total[event])} {name}" for name, event in others]
    yield from _wrapped(
        f"in {found[0]}, {found[1]}, {switches} switches"
        f" ({int(total[Event.SWITCH_BLOCKED])} as the task blocked)",
    )


def _notes(trace: VectorTrace, cut: Cut | None) -> Iterator[str]:
    notes = [caveat["text"] for caveat in trace.meta["caveats"]]
    if cut:
        notes.insert(0, cut.sentence("the trace").rstrip("."))
    if notes:
        yield ""
    for note in notes:
        yield from _wrapped(f"note: {note}", then="      ")


# --- what it says --------------------------------------------------------


def statistics_text(trace: VectorTrace, statistics: Statistics, cut: Cut | None = None) -> str:
    """What `kentry vector stats` prints: use, loads and what followed, gaps, tasks, notes."""
    unit = unit_of(trace, statistics)
    lines = [*_head(trace), *_amount(trace, None), "", *_use_lines(statistics, unit)]
    lines += ["", *_share_lines(statistics, unit)]
    if statistics.by_trap:
        lines += ["", *quote_lines(trace, statistics)]
    lines += ["", *_gap_lines(statistics, unit), "", *_task_lines(statistics, unit)]
    return ascii_lines([*lines, *_notes(trace, cut)])


def _use_lines(statistics: Statistics, unit: str) -> Iterator[str]:
    sums = statistics.counts.of(statistics.user)
    users, using = int(statistics.user.sum()), int(statistics.using.sum())
    rows = (
        ("user tasks", "that used it", users, using),
        ("system calls", "with use just before", sums["calls"], sums["calls_used"]),
        ("user intervals", "with use", sums["intervals"], sums["intervals_used"]),
    )
    yield f"Use of {unit} by user programs:"
    for what, which, whole, part in rows:
        yield f"  {what:<15} {whole:>9}   {which + ':':<21} {part:>9}  {_of(part, whole):>8}"
    yield from _wrapped(
        "A user interval lies between two kernel entries; a use that traps and its retry are one.",
        "  ",
    )


def _loads(statistics: Statistics) -> tuple[str, str]:
    """What a load is and what follows it, in a word each."""
    if statistics.by_trap:
        return "FPSIMD-only load", "trap"
    return "restore", "use"


def _share_lines(statistics: Statistics, unit: str) -> Iterator[str]:
    load, follow = _loads(statistics)
    columns = [statistics.classes(least) for least in (1, ENOUGH_LOADS)]
    sums = [sum(column.values()) for column in columns]
    yield from _wrapped(
        f"Share of a task's {load}s followed by another {follow} before the next {load}; tasks"
        f" that used {unit}:",
    )
    yield f"  {'':<24} {'with a load':>18} {f'with {ENOUGH_LOADS} or more':>21}"
    yield f"  {'share':<24} {'tasks':>8} {'of them':>9} {'tasks':>11} {'of them':>9}"
    for share in Share:
        cells = [(column[share], total) for column, total in zip(columns, sums, strict=True)]
        yield _share_row(share.value, cells)
    yield _share_row("all", [(total, total) for total in sums])
    yield from _wrapped(_share_note(statistics, load, follow, unit), "  ")


def _share_row(label: str, cells: Sequence[tuple[int, int]]) -> str:
    (one, of_one), (two, of_two) = cells
    return f"  {label:<24} {one:>8} {_of(one, of_one):>9} {two:>11} {_of(two, of_two):>9}"


def _share_note(statistics: Statistics, load: str, follow: str, unit: str) -> str:
    chosen = statistics.loading
    sums = statistics.counts.of(chosen)
    without = int((statistics.using & ~chosen).sum())
    never = statistics.user & ~statistics.using
    text = (
        f"Of their {sums['loads']} {load}s {sums['followed']}"
        f" ({_of(sums['followed'], sums['loads'])}) were followed by a {follow}"
    )
    if statistics.by_trap:
        text += f"; {sums['drops']} took away access that the task had"
    return (
        f"{text}. Not among them: {_counted(without, 'task')} with use and no {load},"
        f" {int(never.sum())} that never used {unit}"
        f" ({statistics.counts.of(never)['loads']} {load}s)."
    )


def quote_lines(trace: VectorTrace, statistics: Statistics) -> list[str]:
    """The series' three sentences, each with what this trace shows."""
    lines = [f"What {SERIES} says, and this trace:"]
    for quote, here in zip((MAJORITY, MIDDLE, OLDER), _here(trace, statistics), strict=True):
        lines += ["", *_wrapped(f'"{quote}"', "  ", "   ")]
        lines += _wrapped(f"here: {here}", "    ", "    ")
    return lines


def _here(trace: VectorTrace, statistics: Statistics) -> tuple[str, str, str]:
    found = statistics.classes()
    tasks = sum(found.values())
    above = found[Share.MOST] + found[Share.NEARLY_ALL]
    base = f"of the {tasks} tasks with use and a load"
    using, users = int(statistics.using.sum()), int(statistics.user.sum())
    release = trace.meta["workload"].get("release") or "this user space"
    return (
        f"above 50 %: {_of(above, tasks)} {base}; 95 % and more:"
        f" {_of(found[Share.NEARLY_ALL], tasks)}",
        f"5 to 45 %: {_of(found[Share.FEW], tasks)} {base}; above 50 % or below 5 %:"
        f" {_of(above + found[Share.NEARLY_NONE], tasks)}",
        f"{using} of {users} user tasks used SVE ({_of(using, users)}); {release}",
    )


def _duration(ns: int) -> str:
    """A power of ten as people write it: 100 us."""
    for unit, size in (("s", SECOND), ("ms", 1_000_000), ("us", 1_000)):
        if ns >= size:
            return f"{ns // size} {unit}"
    return f"{ns} ns"


def _gap_lines(statistics: Statistics, unit: str) -> Iterator[str]:
    gaps = statistics.gaps
    yield from _wrapped(
        f"Gaps between uses of {unit}: from the end of a user interval with use to the first use"
        f" in the task's next such interval. Of {_counted(len(gaps), 'gap')}:",
    )
    if not len(gaps):
        return
    time = decades(gaps.ns, _SHORTEST, _LONGEST)
    edges = [_duration(int(edge)) for edge in time.edges[1:-1]]
    labels = [f"below {edges[0]}"]
    labels += [f"{low} to {high}" for low, high in pairwise(edges)]
    yield from _bars("guest's clock", [*labels, f"{edges[-1]} and more"], time)
    yield ""
    calls = doublings(gaps.calls, _MOST_CALLS)
    yield from _bars("system calls between", _call_labels(calls.edges), calls)
    above = int((gaps.ns >= SECOND).sum())
    half, most = (int(np.percentile(gaps.ns, q, method="lower")) for q in (50, 99))
    yield from _wrapped(
        f"Half are shorter than {_rough(half)}, 99 % than {_rough(most)};"
        f" {above} ({_of(above, len(gaps))}) are a second or longer.",
        "  ",
    )


def _rough(ns: int) -> str:
    """A time with three digits."""
    for unit, size in (("s", SECOND), ("ms", 1_000_000), ("us", 1_000)):
        if ns >= size:
            return f"{ns / size:.3g} {unit}"
    return f"{ns} ns"


def _call_labels(edges: Counts) -> list[str]:
    spans = list(pairwise(map(int, edges)))
    labels = [f"{low}" if high == low + 1 else f"{low} to {high - 1}" for low, high in spans]
    return [*labels[:-1], f"{edges[-2]} and more"]


_BAR = 20


def _bars(title: str, labels: Iterable[str], histogram: Histogram) -> Iterator[str]:
    """A histogram: counts, their share of all, the share so far, a bar."""
    total, largest, so_far = int(histogram.counts.sum()), int(histogram.counts.max()), 0
    yield f"  {title:<21} {'gaps':>9} {'of all':>8} {'so far':>8}"
    for label, count in zip(labels, map(int, histogram.counts), strict=True):
        so_far += count
        bar = "#" * -(-_BAR * count // largest)
        yield (
            f"  {label:<21} {count:>9} {_of(count, total):>8} {_of(so_far, total):>8}  {bar}"
        ).rstrip()


_TASK_HEADS = ("calls", "used", "loads", "followed", "traps", "drops")
_TASK_WIDTHS = (8, 7, 7, 8, 7, 7)


def _task_lines(statistics: Statistics, unit: str) -> Iterator[str]:
    chosen = statistics.most(TASKS_SHOWN)
    load, follow = _loads(statistics)
    if not chosen:
        yield f"No user task used {unit}."
        return
    yield from _wrapped(
        f"Tasks with most {load}s that a {follow} followed (used: share of their calls with use"
        f" of {unit} just before; followed: share of their loads; drops: loads that took away"
        " access):"
    )
    yield f"  {'pid':>7} {'name':<15}" + _cells(_TASK_HEADS)
    for index in chosen:
        task, one = statistics.tasks[index], statistics.counts.of(np.array([index]))
        cells = (
            one["calls"],
            _of(one["calls_used"], one["calls"]),
            one["loads"],
            _of(one["followed"], one["loads"]),
            one["traps"],
            one["drops"],
        )
        yield f"  {task.pid:>7} {shortened(plain(task.name), 15):<15}" + _cells(cells)
    rest = int(statistics.using.sum()) - len(chosen)
    if rest > 0:
        yield f"  and {_counted(rest, 'other task')} that used {unit}"


def _cells(values: Iterable[object]) -> str:
    return "".join(f" {value:>{width}}" for value, width in zip(values, _TASK_WIDTHS, strict=True))


# --- JSON ----------------------------------------------------------------


def statistics_to_json(
    trace: VectorTrace, statistics: Statistics, cut: Cut | None = None
) -> dict[str, Any]:
    """The same for programs: sums, shares, gaps, and every user task."""
    gaps = statistics.gaps
    return {
        "schema": STATISTICS_SCHEMA,
        "tool": {"name": "kentry", "version": __version__},
        "kernel": trace.meta["kernel"],
        "workload": trace.meta["workload"],
        "policy": trace.meta["policy"],
        "unit": unit_of(trace, statistics),
        "events": len(trace),
        "cut": None if cut is None else vars(cut),
        "user_tasks": int(statistics.user.sum()),
        "using_tasks": int(statistics.using.sum()),
        "sums": statistics.counts.of(statistics.user),
        "loads": statistics.side.load.name,
        "followed_by": (statistics.side.trap if statistics.by_trap else statistics.side.use).name,
        "shares": {
            str(least): {share.value: count for share, count in statistics.classes(least).items()}
            for least in (1, ENOUGH_LOADS)
        },
        "gaps": len(gaps),
        "gaps_ns": _histogram_to_json(decades(gaps.ns, _SHORTEST, _LONGEST)),
        "gaps_calls": _histogram_to_json(doublings(gaps.calls, _MOST_CALLS)),
        "tasks": [_task_to_json(statistics, int(i)) for i in np.flatnonzero(statistics.user)],
        "caveats": list(trace.meta["caveats"]),
    }


def _histogram_to_json(histogram: Histogram) -> list[list[int | None]]:
    """[from, before, count]; null where there is no such end."""
    edges: list[int | None] = [int(edge) for edge in histogram.edges]
    edges[0], edges[-1] = 0, None
    ends = zip(edges[:-1], edges[1:], map(int, histogram.counts), strict=True)
    return [[low, high, count] for low, high, count in ends]


def _task_to_json(statistics: Statistics, index: int) -> dict[str, Any]:
    task = statistics.tasks[index]
    return {
        "pid": task.pid,
        "name": task.name,
        **statistics.counts.of(np.array([index])),
    }
