# SPDX-License-Identifier: GPL-2.0-or-later
"""A vector trace as text: what is in it, and what it says about the use of vectors."""

from collections.abc import Iterable, Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import msgspec
import numpy as np

from kentry import __version__
from kentry.arch import find_arch
from kentry.show.blocks import Block, Column, Layout, Prose, Table, text_column
from kentry.show.numbers import duration, share
from kentry.show.sections import Notes
from kentry.vector.documents import StatisticsDocument, Sums, TaskSums
from kentry.vector.statistics import ENOUGH_LOADS, Histogram, Share, Statistics, decades, doublings
from kentry.vector.trace import Event, VectorTrace

# Tasks in the table of `kentry vector stats`.
_TASKS_SHOWN = 12

# The acts that a trace has seen, by the names of docs/reference/vector-states.md.
_ACTS = {
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

# A microsecond to 10 s; 0 to 1024 calls and more.
_SHORTEST, _LONGEST = 1_000, 10_000_000_000
_MOST_CALLS = 1024
_SECOND = 1_000_000_000
_BAR = 20


def _counted(count: int, what: str) -> str:
    return f"{count} {what}" if count == 1 else f"{count} {what}s"


def _unit_of(trace: VectorTrace, statistics: Statistics | None = None) -> str:
    if statistics and statistics.side.use == Event.USE_SME:
        return "SME"
    return find_arch(trace.meta["arch"]).vector.units[0].what


def trace_layout(trace: VectorTrace, size: int | None = None, file: Path | None = None) -> Layout:
    """Lays out what was seen, and what the kernel did; `size` of the trace's `file` in bytes."""
    blocks = _head(trace, size)
    if status := trace.meta["workload"].get("status"):
        blocks.append(f"the workload failed in the guest: exit status {status}")
    elif not trace.meta["complete"]:
        blocks.append("the recording did not get to the workload's end")
    total = np.bincount(trace.event, minlength=256).tolist()
    calls = total[Event.SYSCALL]
    heads = ("times", "per 1000 calls", "tasks")
    rows = Table((text_column("the traced kernel did"), *map(Column, heads)))
    for event, name in _ACTS.items():
        if times := total[event]:
            tasks = len(np.unique(trace.task[trace.event == event]))
            rate = f"{1000 * times / calls:.1f}" if calls else "-"
            rows.row(name, times, rate, tasks)
    blocked = total[Event.SWITCH_BLOCKED]
    text = (
        f"in {calls} system calls, {total[Event.INTERRUPT]} user interrupts,"
        f" {blocked + total[Event.SWITCH_PREEMPTED]} switches ({blocked} as the task blocked)"
    )
    blocks += ["", rows, Prose(text), Notes(trace.meta["caveats"])]
    if file:
        blocks += ["", f"The trace is in {file}; kentry vector stats and replay read it."]
    return Layout("vector-trace", "", "", blocks)


def _head(trace: VectorTrace, size: int | None = None) -> list[Block]:
    meta, kernel = trace.meta, trace.meta["kernel"]
    bits = f", {meta['unit']['vl']} bits" if "vl" in meta["unit"] else ""
    # Tasks that came back to user mode: no kernel threads, and none that only slept.
    users = len(np.unique(trace.task[trace.event == Event.EXIT]))
    each = f", {size / len(trace):.1f} bytes each" if size and len(trace) else ""
    policy = f"the kernel's own policy: {meta['policy']}"
    kernels = sum(task.kernel for task in trace.tasks)
    texts = (
        f"{meta['workload']['name']} on {kernel['spec']} ({meta['arch']}): Linux"
        f" {kernel['release']}",
        f"{_unit_of(trace)}{bits}; {policy}",
        f"{_counted(len(trace), 'event')}{each}; {_counted(users, 'user task')},"
        f" {_counted(kernels, 'kernel thread')}; {trace.seconds:.3f} s of the guest's clock",
    )
    return [Prose(text) for text in texts]


def statistics_layout(trace: VectorTrace, statistics: Statistics) -> Layout:
    """Lays out use, loads and what followed, gaps, tasks, notes."""
    unit = _unit_of(trace, statistics)
    blocks = _head(trace)
    for section in (_use_blocks, _share_blocks, _gap_blocks, _task_blocks):
        blocks += ["", *section(statistics, unit)]
    return Layout("vector-statistics", "", "", blocks, trace.meta["caveats"])


def _use_blocks(statistics: Statistics, unit: str) -> Iterator[Block]:
    sums = statistics.counts.of(statistics.user)
    head = text_column(f"use of {unit} by user programs")
    rows = Table((head, *map(Column, ("all", "with use", ""))))
    for what, whole, part in (
        ("user tasks", int(statistics.user.sum()), int(statistics.using.sum())),
        ("system calls, use just before", sums["calls"], sums["calls_used"]),
        ("user intervals", sums["intervals"], sums["intervals_used"]),
    ):
        rows.row(what, whole, part, share(part, whole))
    note = (
        "A user interval lies between two kernel entries; a use that traps and its retry are one."
    )
    yield from (rows, Prose(note, "  "))


def _loads(statistics: Statistics) -> tuple[str, str]:
    return ("FPSIMD-only load", "trap") if statistics.by_trap else ("restore", "use")


def _share_blocks(statistics: Statistics, unit: str) -> Iterator[Block]:
    load, follow = _loads(statistics)
    yield Prose(
        f"Share of a task's {load}s followed by another {follow} before the next {load}; tasks"
        f" that used {unit}:"
    )
    groups = ((1, "with a load"), (ENOUGH_LOADS, f"with {ENOUGH_LOADS} or more"))
    heads = [Column(name, group=group) for _, group in groups for name in ("tasks", "of them")]
    rows = Table((text_column("share"), *heads))
    columns = [statistics.classes(least) for least, _ in groups]
    totals = [sum(column.values()) for column in columns]
    for one in Share:
        cells = [(column[one], whole) for column, whole in zip(columns, totals, strict=True)]
        rows.row(one.value, *(cell for n, whole in cells for cell in (n, share(n, whole))))
    rows.row("all", *(cell for whole in totals for cell in (whole, share(whole, whole))))
    yield rows
    chosen = statistics.loading
    sums, never = statistics.counts.of(chosen), statistics.user & ~statistics.using
    followed = f"{sums['followed']} ({share(sums['followed'], sums['loads'])})"
    without = _counted(int((statistics.using & ~chosen).sum()), "task")
    drops = f"; {sums['drops']} took away access that the task had" if statistics.by_trap else ""
    yield Prose(
        f"Of their {sums['loads']} {load}s {followed} were followed by a {follow}{drops}."
        f" Not among them: {without} with use and no {load}, {int(never.sum())} that never used"
        f" {unit} ({statistics.counts.of(never)['loads']} {load}s).",
        "  ",
    )


def _gap_blocks(statistics: Statistics, unit: str) -> Iterator[Block]:
    gaps = statistics.gaps
    yield Prose(
        f"Gaps between uses of {unit}: from the end of a user interval with use to the first use"
        f" in the task's next such interval. Of {_counted(len(gaps), 'gap')}:"
    )
    if not len(gaps):
        return
    time, calls = decades(gaps.ns, _SHORTEST, _LONGEST), doublings(gaps.calls, _MOST_CALLS)
    edges = [duration(int(edge)) for edge in time.edges[1:-1]]
    labels = [f"below {edges[0]}", *(f"{low} to {high}" for low, high in pairwise(edges))]
    yield _histogram("guest's clock", [*labels, f"{edges[-1]} and more"], time)
    yield ""
    spans = list(pairwise(map(int, calls.edges)))[:-1]
    labels = [f"{low}" if high == low + 1 else f"{low} to {high - 1}" for low, high in spans]
    labels.append(f"{calls.edges[-2]} and more")
    yield _histogram("system calls between", labels, calls)
    above = int((gaps.ns >= _SECOND).sum())
    half, most = (int(np.percentile(gaps.ns, q, method="lower")) for q in (50, 99))
    yield Prose(
        f"Half are shorter than {duration(half)}, 99 % than {duration(most)};"
        f" {above} ({share(above, len(gaps))}) are a second or longer.",
        "  ",
    )


def _histogram(title: str, labels: Iterable[str], histogram: Histogram) -> Table:
    total, largest, so_far = int(histogram.counts.sum()), int(histogram.counts.max()), 0
    rows = Table((text_column(title), *map(Column, ("gaps", "of all", "so far")), text_column()))
    for label, count in zip(labels, map(int, histogram.counts), strict=True):
        so_far += count
        bar = "#" * -(-_BAR * count // largest)
        rows.row(label, count, share(count, total), share(so_far, total), bar)
    return rows


def _task_blocks(statistics: Statistics, unit: str) -> Iterator[Block]:
    chosen = statistics.most(_TASKS_SHOWN)
    load, follow = _loads(statistics)
    if not chosen:
        yield f"No user task used {unit}."
        return
    yield Prose(
        f"Tasks with most {load}s that a {follow} followed (used: share of their calls with use"
        f" of {unit} just before; followed: share of their loads; drops: loads that took away"
        " access):"
    )
    heads = ("calls", "used", "loads", "followed", "traps", "drops")
    rows = Table((Column("pid"), text_column("name", most=15), *map(Column, heads)), keys=2)
    for index in chosen:
        task, one = statistics.tasks[index], statistics.counts.of(np.array([index]))
        rows.row(
            *(task.pid, task.name, one["calls"], share(one["calls_used"], one["calls"])),
            *(one["loads"], share(one["followed"], one["loads"]), one["traps"], one["drops"]),
        )
    yield rows
    rest = int(statistics.using.sum()) - len(chosen)
    if rest > 0:
        yield f"and {_counted(rest, 'other task')} that used {unit}"


def statistics_to_json(trace: VectorTrace, statistics: Statistics) -> dict[str, Any]:
    """The same as kentry/vector-statistics/1: sums, shares, gaps, and every user task."""
    gaps, counts, tasks = statistics.gaps, statistics.counts, statistics.tasks
    document = StatisticsDocument(
        tool={"name": "kentry", "version": __version__},
        kernel=trace.meta["kernel"],
        workload=trace.meta["workload"],
        policy=trace.meta["policy"],
        unit=_unit_of(trace, statistics),
        events=len(trace),
        cut=None,
        user_tasks=int(statistics.user.sum()),
        using_tasks=int(statistics.using.sum()),
        sums=Sums(**counts.of(statistics.user)),
        loads=statistics.side.load.name,
        followed_by=(statistics.side.trap if statistics.by_trap else statistics.side.use).name,
        shares={
            str(least): {one.value: count for one, count in statistics.classes(least).items()}
            for least in (1, ENOUGH_LOADS)
        },
        gaps=len(gaps),
        gaps_ns=_bins(decades(gaps.ns, _SHORTEST, _LONGEST)),
        gaps_calls=_bins(doublings(gaps.calls, _MOST_CALLS)),
        tasks=[
            TaskSums(pid=tasks[i].pid, name=tasks[i].name, **counts.of(np.array([i])))
            for i in np.flatnonzero(statistics.user)
        ],
        caveats=list(trace.meta["caveats"]),
    )
    built: dict[str, Any] = msgspec.to_builtins(document)
    return built


def _bins(histogram: Histogram) -> list[tuple[int, int | None, int]]:
    """[from, before, count]; null where there is no such end."""
    edges = [0, *map(int, histogram.edges[1:-1])]
    highs: list[int | None] = [*edges[1:], None]
    return list(zip(edges, highs, map(int, histogram.counts), strict=True))
