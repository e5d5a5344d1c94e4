# SPDX-License-Identifier: GPL-2.0-or-later
"""Policies replayed on traces: as text for a mail, as JSON, as a picture."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec
import numpy as np

from kentry import __version__
from kentry.arch.mechanism import ACTS, SME, VEC
from kentry.models.costs import NS
from kentry.show.numbers import duration, share
from kentry.show.table import Column, Table, ascii_lines, plain, text_column, wrapped
from kentry.vector.documents import (
    Costs,
    PolicyDocument,
    PolicyMean,
    ReplayDocument,
    TaskCost,
    TraceRanking,
)

if TYPE_CHECKING:
    from kentry.models.costs import CostTable
    from kentry.vector.ranking import ClosedLoop, Ranking, TraceFile
    from kentry.vector.tuning import Recommendation, Sweep

# Rows of a sweep's text, of its 100 values.
_SWEEP_ROWS = 15
_BAR = 24
_LEAST_SHOWN = 0.01
# Differences between a replay and the traced kernel that are listed one by one.
_DIFFERENCES_SHOWN = 8
_POLICY_WIDTH = 22

_BELOW_OPTIMAL = (
    " costs less than optimal, because optimal gives access only by a trap, and saves and loads as"
    " the traced kernel does"
)


def replay_text(
    rankings: Sequence[Ranking], advice: Sequence[Recommendation], table: CostTable
) -> str:
    """All of it: the traces, the policies on them, sweeps, notes."""
    lines: list[str] = []
    for ranking in rankings:
        lines += [*_trace_lines(ranking.source), ""]
    assumptions = sorted({figure.assume for figure in table.figures.values()})
    lines += wrapped(f"costs: {table.name}, in {table.unit}, {' and '.join(assumptions)}")
    if len(rankings) == 1:
        lines += [*_rank_lines(rankings[0], table), ""]
    else:
        lines += [*_mean_lines(rankings, table), ""]
    for one in advice:
        lines += [*_sweep_lines(one, len(rankings), table), ""]
    lines += wrapped(
        "replay keeps the trace's times; under a cheaper policy later events would come earlier",
        "note: ",
    )
    caveats = (caveat for one in rankings for caveat in one.source.trace.meta["caveats"])
    for text in sorted({caveat["text"] for caveat in caveats}):
        lines += wrapped(text, "note: ")
    return ascii_lines(lines)


def _trace_lines(source: TraceFile) -> Iterator[str]:
    """The trace, and whether the replay of its kernel's own policy does what the kernel did."""
    meta, prepared, check = source.trace.meta, source.prepared, source.check
    yield from wrapped(
        f"{_name(source)} on {meta['kernel']['spec']} ({meta['arch']},"
        f" {meta['unit']['vl']} bits): {prepared.events} events,"
        f" {prepared.seconds:.3f} s of the guest's clock"
    )
    word = "matches" if check.exact else "DIFFERS from"
    acts = ", ".join(
        f"{act.replace('_', ' ')}{'es' if act.endswith('flush') else 's'} {pair.replayed}"
        f" {'=' if pair.replayed == pair.seen else '!='} {pair.seen}"
        for act, pair in check.acts.items()
    )
    yield from wrapped(f"replayed {check.policy} {word} the kernel: {acts}")
    for one in check.differences[:_DIFFERENCES_SHOWN]:
        task = source.trace.tasks[one.task]
        yield (
            f"  {one.act} of {plain(task.name)} ({task.pid}): replayed {one.replayed},"
            f" seen {one.seen}"
        )
    if len(check.differences) > _DIFFERENCES_SHOWN:
        yield f"  and {len(check.differences) - _DIFFERENCES_SHOWN} more, in --json"


def closed_text(closed: ClosedLoop, source: TraceFile, after: TraceFile) -> str:
    """What replay said of a policy, and what a kernel with it was then seen doing."""
    heads = ("replayed", "seen", "replayed - seen", "of seen")
    rows = Table((text_column("act"), Column(closed.base, most=16), *map(Column, heads)))
    for act, (base, said, seen) in closed.acts.items():
        off = share(abs(said - seen), seen) if seen else ""
        rows.row(act.replace("_", " "), base, said, seen, f"{said - seen:+}", off)
    lines = [*_trace_lines(source), *_trace_lines(after), ""]
    lines += wrapped(f"{closed.policy}: replayed on the first, seen on the second")
    return ascii_lines([*lines, *rows.lines()])


def _units(table: CostTable) -> tuple[str, str]:
    """The units of a cost per call, and of a thousand of it per second."""
    return ("ns", "us") if table.unit == NS else ("insn", "kinsn")


# By unit: the headings of four columns with their acts, and a note on the headings.
_SHOWN: Mapping[str, tuple[Mapping[str, tuple[str, ...]], str]] = {
    VEC: (
        {
            "traps": ("trap",),
            "flushes": ("flush", "kept_load"),
            "saves": ("save",),
            "loads": ("restore",),
        },
        "saves and loads: of the whole vector state",
    ),
    SME: (
        {
            "traps": ("sme_trap",),
            "returns": ("open_return",),
            "saves": ("za_save",),
            "loads": ("za_restore",),
        },
        "returns: to user mode with access on; saves and loads: of ZA",
    ),
}


def _rank_lines(ranking: Ranking, table: CostTable) -> Iterator[str]:
    per_call, per_second = _units(table)
    columns, about = _SHOWN[ranking.source.prepared.unit]
    heads = (*columns, f"{per_call}/call", f"{per_second}/s", "regret")
    rows = Table((text_column("policy", most=_POLICY_WIDTH), *map(Column, heads)))
    seconds = max(1e-9, ranking.source.prepared.seconds)
    for row in (ranking.optimal, *ranking.rows):
        total = row.counts.total()
        rows.row(
            row.policy.text,
            *(sum(total[act] for act in acts) for acts in columns.values()),
            f"{row.total / max(1, ranking.calls):.2f}",
            f"{row.total / 1e3 / seconds:.0f}",
            _regret(ranking.regret(row)) if row is not ranking.optimal else None,
        )
    yield from rows.lines()
    yield from wrapped(
        f"per call: of the {ranking.calls} system calls of all tasks; per second: of the guest's"
        f" clock; regret: above optimal, in % of it; {about}",
        first="  ",
    )
    if ranking.rows and ranking.rows[0].total < ranking.optimal.total:
        yield from wrapped(ranking.rows[0].policy.text + _BELOW_OPTIMAL, first="  ")


def _mean_lines(rankings: Sequence[Ranking], table: CostTable) -> Iterator[str]:
    """A row a policy, over all workloads, each counting the same: the least mean cost first."""
    means = sorted(_means(rankings), key=lambda row: (row.per_call, row.policy))
    heads = (f"{_units(table)[0]}/call", "mean regret", "most regret")
    policy, of = text_column("policy", most=_POLICY_WIDTH), text_column("of", most=14)
    rows = Table((policy, *map(Column, heads), of))
    for row in means:
        regrets = (_regret(row.regret), _regret(row.most))
        rows.row(row.policy, f"{row.per_call:.2f}", *regrets, row.of)
    yield from rows.lines()
    yield from wrapped(
        f"the mean of {len(rankings)} workloads, each counting the same; regret: above optimal on"
        " the same trace, in % of it",
        first="  ",
    )
    if means[0].policy != rankings[0].optimal.policy.text:
        yield from wrapped(means[0].policy + _BELOW_OPTIMAL, first="  ")


def _means(rankings: Sequence[Ranking]) -> list[PolicyMean]:
    """The policies that every trace was replayed with, `optimal` first."""
    result = []
    for policy in [row.policy.text for row in (rankings[0].optimal, *rankings[0].rows)]:
        pairs = [
            (ranking, row)
            for ranking in rankings
            for row in (ranking.optimal, *ranking.rows)
            if row.policy.text == policy
        ]
        if len(pairs) < len(rankings):
            continue
        regrets = [(ranking.regret(row), _name(ranking.source)) for ranking, row in pairs]
        cost = sum(row.total / max(1, ranking.calls) for ranking, row in pairs) / len(pairs)
        mean = sum(regret for regret, _ in regrets) / len(pairs)
        result.append(PolicyMean(policy, cost, mean, *max(regrets)))
    return result


def _regret(part: float) -> str:
    value = 100 * part
    return f"{value:.1f}%" if abs(value) < 99.95 else f"{value:.0f}%"


def _sweep_lines(advice: Recommendation, traces: int, table: CostTable) -> Iterator[str]:
    unit = _units(table)[0]
    rows = Table(
        (
            text_column(f"{advice.family}:"),
            Column(f"{unit}/call"),
            Column(f"above optimal, {unit}"),
            text_column("(mean of the workloads)" if traces > 1 else ""),
        )
    )
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
            f"{bar}  <- the least" if place == best else bar,
        )
    yield from rows.lines()
    if max(advice.cost_per_call) - min(advice.cost_per_call) < _LEAST_SHOWN:
        yield "  no value costs less than another"
        return
    value, low, high, first, last = (
        value_text(advice.family, one)
        for one in (advice.recommended, *advice.interval, *advice.within_1_percent)
    )
    yield from wrapped(
        f"recommended: {advice.family}:{value}; in 95 % of 1000 bootstrap draws of tasks and"
        f" workloads the best value is from {low} to {high}; values from {first} to {last} cost at"
        " most 1 % more",
        first="  ",
    )


def value_text(family: str, value: int) -> str:
    """A swept value to three digits: 100ms of a timeout, 12 of a count."""
    return duration(value).replace(" ", "") if family.startswith("timeout") else str(value)


def replay_to_json(
    rankings: Sequence[Ranking], advice: Sequence[Recommendation], table: CostTable
) -> dict[str, Any]:
    """The same as kentry/vector-replay/1, with every task."""
    document = ReplayDocument(
        tool={"name": "kentry", "version": __version__},
        costs=Costs(table.name, table.unit, table.figures),
        means=_means(rankings) if len(rankings) > 1 else [],
        traces=[_ranking_to_json(ranking) for ranking in rankings],
        sweeps=list(advice),
    )
    built: dict[str, Any] = msgspec.to_builtins(document)
    return built


def _ranking_to_json(ranking: Ranking) -> TraceRanking:
    source = ranking.source
    meta, seconds = source.trace.meta, source.prepared.seconds
    policies = []
    for row in (ranking.optimal, *ranking.rows):
        acts = {act: row.counts.of(act) for act in ACTS}
        tasks = []
        for i in np.flatnonzero(row.counts.of("returns")):
            task, counts = source.trace.tasks[i], {act: int(acts[act][i]) for act in ACTS}
            done = {act: count for act, count in counts.items() if count}
            tasks.append(
                TaskCost(task=int(i), pid=task.pid, name=task.name, cost=float(row.cost[i]), **done)
            )
        policies.append(
            PolicyDocument(
                policy=row.policy.text,
                counts=row.counts.total(),
                cost=row.total,
                cost_per_call=row.total / ranking.calls if ranking.calls else None,
                cost_per_second=row.total / seconds if seconds else None,
                regret=ranking.regret(row),
                tasks=tasks,
            )
        )
    return TraceRanking(
        trace=source.name,
        kernel=meta["kernel"],
        workload=_name(source),
        events=source.prepared.events,
        seconds=seconds,
        calls=ranking.calls,
        cut=None,
        check=source.check,
        policies=policies,
        caveats=list(meta["caveats"]),
    )


def draw(
    file: Path,
    rankings: Sequence[Ranking],
    sweeps: Sequence[Sweep],
    advice: Recommendation,
    table: CostTable,
) -> None:
    """A picture of a sweep: a curve a trace, of the cost per system call above optimal.

    Of one trace, the kernel's own policy and `keep` are levels.
    """
    from kentry.show.picture import Curve, sweep_picture

    prices = table.prices
    curves = []
    for ranking, one in zip(rankings, sweeps, strict=True):
        calls = max(1, ranking.calls)
        above = (one.cost(prices).sum(axis=1) - ranking.optimal.total) / calls
        curves.append(Curve(_name(ranking.source), np.array(one.values), above))
    only = rankings[0]
    levels = {
        row.policy.text: (row.total - only.optimal.total) / max(1, only.calls)
        for row in (only.rows if len(rankings) == 1 else ())
        if row.policy.text in (only.source.trace.meta["policy"], "keep")
    }
    sweep_picture(
        file,
        curves,
        f"{advice.family}, costs of {table.name}",
        x=advice.family,
        y=f"above optimal, {_units(table)[0]} a system call",
        times=advice.family.startswith("timeout"),
        recommended=advice.recommended,
        interval=advice.interval,
        levels=levels,
    )


def _name(source: TraceFile) -> str:
    return str(source.trace.meta["workload"]["name"])
