# SPDX-License-Identifier: GPL-2.0-or-later
"""The layout of policies that were replayed on traces: sweeps, policies, each task's regret."""

from collections.abc import Iterator, Mapping, Sequence
from functools import partial

import msgspec
import numpy as np

from kentry.arch.mechanism import SME, VEC
from kentry.errors import UserError
from kentry.models.costs import NS, Unit
from kentry.results.caveats import Caveat, unique
from kentry.show import charts
from kentry.show.blocks import Block, Column, Layout, Prose, Table, text_column
from kentry.show.numbers import duration, number, share
from kentry.show.sections import Chart, InText, Notes, OnPage, Section
from kentry.show.table import plain
from kentry.vector import documents
from kentry.vector.ranking import ClosedLoop

# Rows of a sweep's text, of its 100 values.
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
    for one in replay.sweeps:
        chart = OnPage([sweep_chart(one, unit)])
        blocks += [Section(one.family, [chart, *_sweep_blocks(one, names, unit)]), ""]
    texts = dict.fromkeys(note["text"] for trace in traces for note in trace.caveats)
    blocks.append(InText([Prose(text, "note: ") for text in texts]))
    of_page = []
    for trace in traces:
        ranks = _rank_blocks(trace, unit) if len(traces) > 1 else ()
        tasks = _task_blocks(trace, unit)
        of_page.append(Section(trace.workload, [*_trace_blocks(trace), *ranks, *tasks]))
    of_page.append(Section(f"Costs of acts: {costs.name}", [_cost_table(costs)]))
    notes = msgspec.convert([note for one in traces for note in one.caveats], list[Caveat])
    of_page.append(Section("What to know beside the numbers", [Notes(unique(notes))]))
    blocks.append(OnPage(of_page))
    cheapest = [
        f"cheapest on {trace.workload}: {others[0].policy}"
        for trace in traces
        if (others := [one for one in trace.policies if one.policy != _OPTIMAL])
    ]
    facts = []
    for trace in traces:
        kernel = f"{trace.kernel.get('spec', '')} ({trace.kernel.get('arch', '')})"
        facts.append((f"trace {trace.trace}", kernel))
    facts.append(("cost table", f"{costs.name}, {unit}"))
    title = f"Vector policies on {', '.join(names)}"
    return Layout("vector-replay", title, "; ".join(cheapest), blocks, facts=facts)


def replay_picture(replay: documents.ReplayDocument) -> Chart:
    """The first sweep, each of several traces a curve; UserError without a sweep."""
    if not replay.sweeps:
        raise UserError(
            "Access cannot be turned off on that architecture: there is nothing to sweep.",
            "Leave --picture out.",
        )
    advice, only = replay.sweeps[0], replay.traces[0]
    if len(replay.traces) > 1:
        names = [trace.workload for trace in replay.traces]
        curves = dict(zip(names, advice.per_call_by_trace, strict=True))
        return sweep_chart(advice, replay.costs.unit, curves)
    levels = [
        (one.cost / max(1, only.calls), one.policy)
        for one in only.policies
        if one.policy in (only.check.policy, "keep")
    ]
    return sweep_chart(advice, replay.costs.unit, levels=levels)


def sweep_chart(
    advice: documents.Recommendation,
    unit: Unit,
    beside: Mapping[str, Sequence[float]] | None = None,
    levels: Sequence[tuple[float, str]] = (),
) -> Chart:
    """Draws the cost of a call over a policy's parameter, beside workloads and other policies."""
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
        band=None if advice.flat else advice.within_1_percent,
        named=[(tick, text(tick)) for tick in ticks],
        levels=levels,
        beside=beside,
    )
    return Chart(drawing, "The large dot is the least, the band what costs at most 1 % more.")


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
    for one in check.differences[:_DIFFERENCES_SHOWN]:
        pair = f"replayed {one.replayed}, seen {one.seen}"
        yield f"  {one.act} of {plain(one.name)} ({one.pid}): {pair}"
    if len(check.differences) > _DIFFERENCES_SHOWN:
        yield f"  and {len(check.differences) - _DIFFERENCES_SHOWN} more, in --json"


def closed_layout(
    closed: ClosedLoop, first: documents.ReplayedTrace, second: documents.ReplayedTrace
) -> Layout:
    """Lays out what replay said of a policy, and what a kernel with it was then seen doing."""
    heads = ("replayed", "seen", "replayed - seen", "of seen")
    rows = Table((text_column("act"), Column(closed.base, most=16), *map(Column, heads)))
    for act, (base, said, seen) in closed.acts.items():
        off = share(abs(said - seen), seen) if seen else ""
        rows.row(act.replace("_", " "), base, said, seen, f"{said - seen:+}", off)
    blocks: list[Block] = [*_trace_blocks(first), *_trace_blocks(second), ""]
    blocks += [Prose(f"{closed.policy}: replayed on the first, seen on the second")]
    return Layout("closed-loop", "", "", [*blocks, rows])


def _units(unit: Unit) -> tuple[str, str]:
    """The units of a cost per call, and of a thousand of it per second."""
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
    for place in sorted({*map(int, shown), best}):
        regret = advice.regret_per_call[place]
        bar = "#" * max(0, round(_BAR * regret / most))
        rows.row(
            value_text(advice.family, advice.values[place]),
            f"{advice.cost_per_call[place]:.2f}",
            f"{regret:.2f}",
            f"{bar}  <- the least" if place == best and not advice.flat else bar,
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
            f"{text(advice.recommended)}{', which means never in these traces' if same else ''};"
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
        yield f"values that a trace cannot tell from never, within 1 %: {', '.join(alike)}"


def value_text(family: str, value: int) -> str:
    """A swept value to three digits: 100ms of a timeout, 12 of a count."""
    return duration(value).replace(" ", "") if family.startswith("timeout") else str(value)


def _task_blocks(trace: documents.TraceRanking, unit: Unit) -> list[Block]:
    of_task: dict[tuple[int, int, str], dict[str, float]] = {}
    for one in trace.policies:
        for task in one.tasks:
            key = (task.task, task.pid, task.name)  # type: ignore[attr-defined]
            of_task.setdefault(key, {})[one.policy] = task.cost  # type: ignore[attr-defined]
    names = [one.policy for one in trace.policies if one.policy != _OPTIMAL]
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
        table.row(name, pid, number(least), *(f"{one:+.6g}" if one else "0" for one in above))
    left = len(rows) - _TASKS
    return [table, f"{left} other tasks are in the JSON." if left > 0 else ""]


def _cost_table(costs: documents.Costs) -> Table:
    heads = map(Column, ("cost", "low", "high"))
    columns = [text_column("act"), *heads, *map(text_column, ("how known", "source"))]
    table = Table(columns, caption=f"In {costs.unit}")
    for name, one in costs.figures.items():
        table.row(name, *map(number, (one.value, one.low, one.high)), one.assume, one.source)
    return table
