# SPDX-License-Identifier: GPL-2.0-or-later
"""Vector traces: what is in them, how tasks use vectors, and policies replayed on them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import Any

import msgspec
import numpy as np

from kentry import __version__
from kentry.arch import find_arch
from kentry.arch.mechanism import SME, VEC
from kentry.boot.task_hooks import Event
from kentry.models.costs import NS, Unit
from kentry.results.caveats import Caveat, amount, unique
from kentry.show import charts
from kentry.show.blocks import Block, Column, Layout, Prose, Table, text_column
from kentry.show.numbers import duration, fixed_percent, number, share
from kentry.show.sections import Chart, InText, Notes, OnPage, Section
from kentry.show.table import plain
from kentry.vector import documents
from kentry.vector.statistics import ENOUGH_LOADS, Histogram, Share, Statistics, decades, doublings
from kentry.vector.trace import VectorTrace

_SWEEP_ROWS = 15
_BAR = 18
_LEAST_SHOWN = 0.01
# Differences between a replay and the traced kernel that are listed one by one.
_DIFFERENCES_SHOWN = 8
_POLICY_WIDTH = 22

# Of a trace, the tasks with the largest costs; the JSON has all.
_TASKS = 40

_OPTIMAL = "optimal"
# It gives access by a trap alone.  A policy that does so otherwise can cost less.
_WITH_TRAPS = "optimal with traps"
_NAMES = {_OPTIMAL: _WITH_TRAPS}
_BELOW_OPTIMAL = (
    f" costs less than {_WITH_TRAPS}, which gives access only by a trap, and saves and loads as"
    " the traced kernel does"
)

_TASKS_SHOWN = 12

# The acts that a trace has seen, by the names of docs/reference/vector-states.md.
_ACTS = {
    event: event.name[5:].lower().replace("_", "-").replace("small", "fpsimd")
    for event in Event
    if event.name.startswith("SEEN_")
}

# A microsecond to 10 s; 0 to 1024 calls and more.
_SHORTEST, _LONGEST = 1_000, 10_000_000_000
_MOST_CALLS = 1024
_SECOND = 1_000_000_000
_GAP_BAR = 20


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
    bits = f", {length} bits" if (length := meta["unit"].get("vl")) else ""
    # Tasks that came back to user mode: no kernel threads, and none that only slept.
    users = len(np.unique(trace.task[trace.event == Event.EXIT]))
    each = f", {size / len(trace):.1f} bytes each" if size and len(trace) else ""
    policy = f"the kernel's own policy: {meta['policy']}"
    kernels = sum(task.kernel for task in trace.tasks)
    texts = (
        f"{meta['workload']['name']} on {kernel['spec']} ({meta['arch']}): Linux"
        f" {kernel['release']}",
        f"{_unit_of(trace)}{bits}; {policy}",
        f"{amount(len(trace), 'event')}{each}; {amount(users, 'user task')},"
        f" {amount(kernels, 'kernel thread')}; {trace.seconds:.3f} s of the guest's clock",
    )
    return [Prose(text) for text in texts]


def statistics_layout(trace: VectorTrace, statistics: Statistics) -> Layout:
    """Lays out use, loads and what followed, gaps, tasks, notes."""
    unit = _unit_of(trace, statistics)
    blocks = _head(trace)
    for section in (_use_blocks, _share_blocks, _gap_blocks, _user_blocks):
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
    for kind in Share:
        cells = [(column[kind], whole) for column, whole in zip(columns, totals, strict=True)]
        rows.row(kind.value, *(cell for n, whole in cells for cell in (n, share(n, whole))))
    rows.row("all", *(cell for whole in totals for cell in (whole, share(whole, whole))))
    yield rows
    chosen = statistics.loading
    sums, never = statistics.counts.of(chosen), statistics.user & ~statistics.using
    followed = f"{sums['followed']} ({share(sums['followed'], sums['loads'])})"
    without = amount(int((statistics.using & ~chosen).sum()), "task")
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
        f" in the task's next such interval. Of {amount(len(gaps), 'gap')}:"
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
        bar = "#" * -(-_GAP_BAR * count // largest)
        rows.row(label, count, share(count, total), share(so_far, total), bar)
    return rows


def _user_blocks(statistics: Statistics, unit: str) -> Iterator[Block]:
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
        task, sums = statistics.tasks[index], statistics.counts.of(np.array([index]))
        rows.row(
            *(task.pid, task.name, sums["calls"], share(sums["calls_used"], sums["calls"])),
            *(sums["loads"], share(sums["followed"], sums["loads"]), sums["traps"], sums["drops"]),
        )
    yield rows
    rest = int(statistics.using.sum()) - len(chosen)
    if rest > 0:
        yield f"and {amount(rest, 'other task')} that used {unit}"


def statistics_to_json(trace: VectorTrace, statistics: Statistics) -> dict[str, Any]:
    """Returns the same as kentry/vector-statistics/1: sums, shares, gaps, and every user task."""
    gaps, counts, tasks = statistics.gaps, statistics.counts, statistics.tasks
    document = documents.StatisticsDocument(
        tool={"name": "kentry", "version": __version__},
        kernel=trace.meta["kernel"],
        workload=trace.meta["workload"],
        policy=trace.meta["policy"],
        unit=_unit_of(trace, statistics),
        events=len(trace),
        cut=None,
        user_tasks=int(statistics.user.sum()),
        using_tasks=int(statistics.using.sum()),
        sums=documents.Sums(**counts.of(statistics.user)),
        loads=statistics.side.load.name,
        followed_by=(statistics.side.trap if statistics.by_trap else statistics.side.use).name,
        shares={
            str(least): {kind.value: count for kind, count in statistics.classes(least).items()}
            for least in (1, ENOUGH_LOADS)
        },
        gaps=len(gaps),
        gaps_ns=_bins(decades(gaps.ns, _SHORTEST, _LONGEST)),
        gaps_calls=_bins(doublings(gaps.calls, _MOST_CALLS)),
        tasks=[
            documents.TaskSums(pid=tasks[i].pid, name=tasks[i].name, **counts.of(np.array([i])))
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


def replay_layout(replay: documents.ReplayDocument) -> Layout:
    """Lays out the traces, the policies on them, sweeps, and for a page each task's regret."""
    costs, traces, unit = replay.costs, replay.traces, replay.costs.unit
    assumptions = sorted({figure.assume for figure in costs.figures.values()})
    blocks: list[Block] = [InText([*_trace_blocks(trace), ""]) for trace in traces]
    blocks.append(Prose(f"costs: {costs.name}, in {unit}, {' and '.join(assumptions)}"))
    if len(traces) == 1:
        blocks += [Section("Policies", list(_rank_blocks(traces[0], unit))), ""]
    else:
        means = list(_mean_blocks(replay.means, len(traces), unit))
        blocks += [Section("Mean of the traces", means), ""]
    names = [trace.workload for trace in traces]
    for sweep in replay.sweeps:
        chart = OnPage([_sweep_chart(sweep, unit)])
        blocks += [Section(sweep.family, [chart, *_sweep_blocks(sweep, names, unit)]), ""]
    answer = list(map(Prose, _answer(replay.answer, unit))) if replay.answer else []
    blocks.append(InText([*answer, ""] if answer else []))
    texts = dict.fromkeys(note["text"] for trace in traces for note in trace.caveats)
    blocks.append(InText([Prose(text, "note: ") for text in texts]))
    of_page = []
    for trace in traces:
        ranks = _rank_blocks(trace, unit) if len(traces) > 1 else ()
        tasks = _task_blocks(trace, unit)
        of_page.append(Section(trace.workload, [*_trace_blocks(trace), *ranks, *tasks]))
    of_page.append(Section(f"Costs of acts: {costs.name}", [_cost_table(costs)]))
    notes = msgspec.convert([note for trace in traces for note in trace.caveats], list[Caveat])
    of_page.append(Section("What to know beside the numbers", [Notes(unique(notes))]))
    blocks.append(OnPage(of_page))
    facts = [
        (f"trace {own.trace}", f"{own.kernel.get('spec', '')} ({own.kernel.get('arch', '')})")
        for own in traces
    ]
    facts.append(("cost table", f"{costs.name}, {unit}"))
    title = f"Vector policies on {', '.join(names)}"
    summary = answer[0].text if answer else ""
    return Layout("vector-replay", title, summary, blocks, facts=facts, lead=answer[1:])


def _answer(answer: documents.Answer, unit: Unit) -> Iterator[str]:
    """Yields the cheapest policy, the recommended value, and what costs as good as the same."""
    per_call, best = f"{_units(unit)[0]}/call", answer.recommended

    def name(own: documents.Choice) -> str:
        value = "" if own.value is None else f":{value_text(own.policy, own.value)}"
        return f"{own.policy}{value}, {own.cost_per_call:.2f} {per_call}"

    yield f"Cheapest of all that was replayed: {name(answer.cheapest)}."
    if best is None:
        if answer.values:
            yield "No value is recommended: none costs over 1 % more than another."
        return
    above = ", the cheapest"
    if answer.above > 0:
        above = f", {fixed_percent(100 * answer.above, 1)} more than {answer.cheapest.policy}"
    yield f"Recommended value: {name(best)}{above}."
    runs: dict[str, list[str]] = {}
    for own in answer.values:
        low, high = (value_text(own.policy, value) for value in (own.low, own.high))
        runs.setdefault(own.policy, []).append(low if low == high else f"{low} to {high}")
    alike = [f"{policy}:{', '.join(own)}" for policy, own in runs.items()] + answer.policies
    yield f"Within 1 % of it, so equal here: {'; '.join(alike)}."


def _sweep_chart(advice: documents.Recommendation, unit: Unit) -> Chart:
    """Draws the cost of a call over a policy's parameter."""
    per_call = f"{_units(unit)[0]} a call"

    def text(value: float) -> str:
        return duration(value) if advice.family.startswith("timeout") else f"{value:g}"

    points = [
        charts.Point(
            value,
            cost,
            f"{text(value)}: {cost:.5g} {per_call}",
            "recommended" if value == advice.recommended and not advice.flat else "point",
        )
        for value, cost in zip(advice.values, advice.cost_per_call, strict=True)
    ]
    ends = advice.values[0], advice.values[-1]
    ticks = [10**power for power in range(19) if ends[0] <= 10**power <= ends[1]]
    drawing = charts.line(
        points,
        f"{advice.family}: {per_call} by its value",
        advice.family,
        per_call,
        logarithmic=True,
        bands=[] if advice.flat else advice.good,
        named=[(tick, text(tick)) for tick in ticks],
    )
    caption = "The large dot is the least; the bands are the values that cost at most 1 % more."
    return Chart(drawing, caption)


def _trace_blocks(trace: documents.ReplayedTrace) -> Iterator[Block]:
    kernel, check = trace.kernel, trace.check
    bits = f", {trace.vl} bits" if trace.vl else ""
    yield Prose(
        f"{trace.workload} on {kernel['spec']} ({kernel['arch']}{bits}): {trace.events} events,"
        f" {trace.seconds:.3f} s of the guest's clock"
    )
    word = "matches" if check.exact else "DIFFERS from"
    acts = ", ".join(
        f"{act.replace('_', ' ')}{'es' if act.endswith('flush') else 's'} {pair.replayed}"
        f" {'=' if pair.replayed == pair.seen else '!='} {pair.seen}"
        for act, pair in check.acts.items()
    )
    yield Prose(f"replayed {check.policy} {word} the kernel: {acts}")
    for difference in check.differences[:_DIFFERENCES_SHOWN]:
        pair = f"replayed {difference.replayed}, seen {difference.seen}"
        yield f"  {difference.act} of {plain(difference.name)} ({difference.pid}): {pair}"
    if len(check.differences) > _DIFFERENCES_SHOWN:
        yield f"  and {len(check.differences) - _DIFFERENCES_SHOWN} more, in --json"


def _units(unit: Unit) -> tuple[str, str]:
    """Returns the units of a cost per call, and of a thousand of it per second."""
    return ("ns", "us") if unit == NS else ("insn", "kinsn")


# By unit: the headings of four columns with their acts, and a note on the headings.
_SHOWN = {
    VEC: (
        {"traps": "trap", "flushes": "flush kept_load", "saves": "save", "loads": "restore"},
        "saves and loads: of the whole vector state",
    ),
    SME: (
        {"traps": "sme_trap", "returns": "open_return", "saves": "za_save", "loads": "za_restore"},
        "returns: to user mode with access on; saves and loads: of ZA",
    ),
}


def _rank_blocks(ranking: documents.TraceRanking, unit: Unit) -> Iterator[Block]:
    per_call, per_second = _units(unit)
    columns, about = _SHOWN[ranking.unit]
    heads = (*columns, f"{per_call}/call", f"{per_second}/s", "regret")
    rows = Table((text_column("policy", most=_POLICY_WIDTH), *map(Column, heads)))
    seconds = max(1e-9, ranking.seconds)
    for row in ranking.policies:
        rows.row(
            _NAMES.get(row.policy, row.policy),
            *(sum(row.counts[act] for act in acts.split()) for acts in columns.values()),
            f"{row.cost / max(1, ranking.calls):.2f}",
            f"{row.cost / 1e3 / seconds:.0f}",
            _regret(row.regret) if row.policy != _OPTIMAL else None,
        )
    yield rows
    yield Prose(
        f"per call: of the {ranking.calls} system calls of all tasks; per second: of the guest's"
        f" clock; regret: above {_WITH_TRAPS}, in % of it; {about}",
        first="  ",
    )
    best, *others = ranking.policies
    if others and others[0].cost < best.cost:
        yield Prose(others[0].policy + _BELOW_OPTIMAL, first="  ")


def _mean_blocks(means: Sequence[documents.PolicyMean], traces: int, unit: Unit) -> Iterator[Block]:
    means = sorted(means, key=lambda row: (row.per_call, row.policy))
    heads = (f"{_units(unit)[0]}/call", "mean regret", "most regret")
    policy, of = text_column("policy", most=_POLICY_WIDTH), text_column("of", most=14)
    rows = Table((policy, *map(Column, heads), of))
    for row in means:
        regrets = (_regret(row.regret), _regret(row.most))
        rows.row(_NAMES.get(row.policy, row.policy), f"{row.per_call:.2f}", *regrets, row.of)
    yield rows
    yield Prose(
        f"the mean of {traces} workloads, each counting the same; regret: above {_WITH_TRAPS} on"
        " the same trace, in % of it",
        first="  ",
    )
    if means[0].policy != _OPTIMAL:
        yield Prose(means[0].policy + _BELOW_OPTIMAL, first="  ")


def _regret(part: float) -> str:
    value = 100 * part
    return f"{value:.1f}%" if abs(value) < 99.95 else f"{value:.0f}%"


def _sweep_blocks(
    advice: documents.Recommendation, workloads: Sequence[str], unit: Unit
) -> Iterator[Block]:
    per_call = _units(unit)[0]
    numbers = map(Column, (f"{per_call}/call", "above optimal"))
    mean = "(mean of the workloads)" if len(workloads) > 1 else ""
    rows = Table((text_column(f"{advice.family}:"), *numbers, text_column(mean)))
    shown = np.unique(np.linspace(0, len(advice.values) - 1, _SWEEP_ROWS).round().astype(int))
    best = advice.values.index(advice.recommended)
    # Differences that no printed digit shows are none.
    most = max(*advice.regret_per_call, _LEAST_SHOWN)
    for index in sorted({*map(int, shown), best}):
        regret = advice.regret_per_call[index]
        bar = "#" * max(0, round(_BAR * regret / most))
        rows.row(
            value_text(advice.family, advice.values[index]),
            f"{advice.cost_per_call[index]:.2f}",
            f"{regret:.2f}",
            f"{bar}  <- the least" if index == best and not advice.flat else bar,
        )
    yield rows
    for sentence in _sweep_sentences(advice, workloads, per_call):
        yield Prose(sentence, first="  ")


def _sweep_sentences(
    advice: documents.Recommendation, workloads: Sequence[str], per_call: str
) -> Iterator[str]:
    text, never = partial(value_text, advice.family), advice.never
    unreached = never.unreached if never else None
    if advice.flat:
        yield "no value costs over 1 % more than another"
    else:
        same = unreached is not None and advice.recommended >= unreached
        runs = [text(a) if a == b else f"{text(a)} to {text(b)}" for a, b in advice.good]
        low, high = map(text, advice.interval)
        yield (
            f"least: {min(advice.cost_per_call):.2f} {per_call}/call at {advice.family}:"
            f"{text(advice.recommended)}{', which never drops in these traces' if same else ''};"
            f" at most 1 % more: {', '.join(runs)}; in 95 % of 1000 bootstrap draws of tasks and"
            f" workloads the least is from {low} to {high}"
        )
    if not never:
        return
    as_never = f"; so do values from {text(unreached)} on in these traces" if unreached else ""
    yield f"never dropping costs {never.cost_per_call:.2f} {per_call}/call{as_never}"
    alike = [
        f"{name} from {text(value)} on"
        for name, value in zip(workloads, never.alike, strict=True)
        if value is not None
    ]
    if alike:
        yield f"values that cost within 1 % of never dropping: {', '.join(alike)}"


def value_text(family: str, value: int) -> str:
    """Returns a swept value to three digits: 100ms of a timeout, 12 of a count."""
    return duration(value).replace(" ", "") if family.startswith("timeout") else str(value)


def _task_blocks(trace: documents.TraceRanking, unit: Unit) -> list[Block]:
    of_task: dict[tuple[int, int, str], dict[str, float]] = {}
    for ranked in trace.policies:
        for task in ranked.tasks:
            key = (task.task, task.pid, task.name)  # type: ignore[attr-defined]
            of_task.setdefault(key, {})[ranked.policy] = task.cost  # type: ignore[attr-defined]
    names = [ranked.policy for ranked in trace.policies if ranked.policy != _OPTIMAL]
    if len(names) == len(trace.policies):
        return []
    table = Table(
        [text_column("task"), *map(Column, ("pid", _OPTIMAL, *names))],
        caption=f"Each task: the optimal cost, and what each policy costs above it, in {unit}",
    )
    rows = sorted(of_task.items(), key=lambda item: -max(item[1].values()))
    for (_, pid, name), costs in rows[:_TASKS]:
        least = costs.get(_OPTIMAL, 0)
        above = (costs.get(policy, 0) - least for policy in names)
        table.row(name, pid, number(least), *(f"{cost:+.6g}" if cost else "0" for cost in above))
    left = len(rows) - _TASKS
    return [table, f"{left} other tasks are in the JSON." if left > 0 else ""]


def _cost_table(costs: documents.Costs) -> Table:
    heads = map(Column, ("cost", "low", "high"))
    columns = [text_column("act"), *heads, *map(text_column, ("how known", "source"))]
    table = Table(columns, caption=f"In {costs.unit}")
    for name, row in costs.figures.items():
        table.row(name, *map(number, (row.value, row.low, row.high)), row.assume, row.source)
    return table
