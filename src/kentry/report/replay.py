# SPDX-License-Identifier: GPL-2.0-or-later
"""Policies replayed on traces: as text for a mail, and for programs.

Every line fits into a mail.  A cost names its unit, a percentage its base.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from kentry import __version__
from kentry.report.plain import ascii_lines, plain, shortened, wrapped
from kentry.vector.costs import NS
from kentry.vector.mechanism import ACTS, SME, VEC
from kentry.vector.ranking import prices_of
from kentry.vector.sweep import value_text

if TYPE_CHECKING:
    from kentry.vector.costs import CostTable
    from kentry.vector.ranking import Closed, Ranking, Row, Swept, Traced
    from kentry.vector.sweep import Bound, Flip

SCHEMA = "kentry/vector-replay/1"
WIDTH = 75

# Rows of a sweep's text: every so many of its values.
_SWEEP_ROWS = 15
_BAR = 24
_LEAST_SHOWN = 0.01
_FLIPS_SHOWN = 6
_FAR = 100.0
# Differences between a replay and the traced kernel that are listed one by one.
_DIFFERENCES_SHOWN = 8


def replay_text(
    rankings: Sequence[Ranking],
    swept: Sequence[Swept],
    bounds: Mapping[str, Bound],
    table: CostTable,
    tasks: int = 0,
) -> str:
    """All of it; `tasks` is how many are shown of each trace."""
    lines: list[str] = []
    for ranking in rankings:
        lines += [*_trace_lines(ranking.traced), ""]
        if tasks:
            lines += [*_task_lines(ranking, table, tasks), ""]
    lines += list(_cost_lines(table))
    if len(rankings) == 1:
        lines += [*_rank_lines(rankings[0], table), ""]
        lines += [*_flip_lines(rankings[0].flips, table), ""]
    else:
        lines += [*_mean_lines(rankings, table), ""]
    for one in swept:
        lines += [*_sweep_lines(one, rankings, table), ""]
    lines += [*_bound_lines(bounds), ""]
    lines += list(_notes(rankings))
    return ascii_lines(lines)


def _wrapped(text: str, first: str = "", then: str = "  ") -> list[str]:
    return wrapped(plain(text), WIDTH, first, then)


def _trace_lines(traced: Traced) -> Iterator[str]:
    meta, prepared = traced.trace.meta, traced.prepared
    yield from _wrapped(
        f"{meta['workload']['name']} on {meta['kernel']['spec']} ({meta['arch']},"
        f" {meta['unit']['vl']} bits): {prepared.events} events,"
        f" {prepared.seconds:.3f} s of the guest's clock"
    )
    if traced.cut:
        yield from _wrapped(traced.cut.sentence(traced.name), "note: ")
    yield from check_lines(traced)


def check_lines(traced: Traced) -> Iterator[str]:
    """Whether the replay of the traced kernel's own policy has what the kernel was seen doing."""
    verdict = traced.check
    word = "matches" if verdict.exact else "DIFFERS from"
    yield from _wrapped(f"replayed {verdict.policy} {word} the kernel: {verdict.sentence}")
    shown = verdict.differences[:_DIFFERENCES_SHOWN]
    for one in shown:
        task = traced.trace.tasks[one.task]
        yield (
            f"  {one.act} of {plain(task.name)} ({task.pid}): replayed {one.replayed},"
            f" seen {one.seen}"
        )
    if len(verdict.differences) > len(shown):
        yield f"  and {len(verdict.differences) - len(shown)} more, in --json"


def closed_text(closed: Closed, traced: Traced, after: Traced) -> str:
    """What replay said of a policy, and what a kernel with it was then seen doing."""
    lines = [
        *_trace_lines(traced),
        *_trace_lines(after),
        "",
        *_wrapped(f"{closed.policy}: replayed on the first, seen on the second"),
        f"{'':15}{shortened(closed.base, 16):>17}{'replayed':>10}{'seen':>10}"
        f"{'replayed - seen':>21}",
    ]
    for act, (base, said, seen) in closed.acts.items():
        off = f"{100 * abs(said - seen) / seen:.1f} % of seen" if seen else ""
        lines.append(
            f"{act.replace('_', ' '):15}{base:17}{said:10}{seen:10}{said - seen:+7} {off:>13}"
        )
    return ascii_lines(lines)


def _cost_lines(table: CostTable) -> Iterator[str]:
    known = sorted({figure.assume for figure in table.figures.values()})
    yield from _wrapped(f"costs: {table.name}, in {table.unit}, {' and '.join(known)}")


def _units(table: CostTable) -> tuple[str, str, float]:
    """What a cost per call and one per second are in, and by what the latter is divided."""
    if table.unit == NS:
        return "ns/call", "us/s", 1e3
    return "insn/call", "kinsn/s", 1e3


@dataclass(frozen=True)
class _Columns:
    """What of a policy's counts a table shows, and what its headings are about."""

    headings: tuple[str, str, str, str]
    acts: tuple[tuple[str, ...], ...]
    about: str


_SHOWN = {
    VEC: _Columns(
        ("traps", "flushes", "saves", "loads"),
        (("trap",), ("flush", "kept_load"), ("save",), ("restore",)),
        "saves and loads: of the whole vector state",
    ),
    SME: _Columns(
        ("traps", "returns", "saves", "loads"),
        (("sme_trap",), ("open_return",), ("za_save",), ("za_restore",)),
        "returns: to user mode with access on; saves and loads: of ZA",
    ),
}


def _rank_lines(ranking: Ranking, table: CostTable) -> Iterator[str]:
    per_call, per_second, scale = _units(table)
    columns = _SHOWN[ranking.traced.prepared.unit]
    traps, flushes, saves, loads = columns.headings
    yield (
        f"{'policy':23}{traps:>7}{flushes:>9}{saves:>6}{loads:>6}"
        f"{per_call:>10}{per_second:>9}{'regret':>7}"
    )
    for row in (ranking.optimal, *ranking.rows):
        total = row.counts.total()
        a, b, c, d = (sum(total[act] for act in acts) for acts in columns.acts)
        yield (
            f"{shortened(row.policy.text, 22):23}{a:7}{b:9}{c:6}{d:6}"
            f"{row.total / max(1, ranking.calls):10.2f}"
            f"{row.total / scale / max(1e-9, ranking.traced.prepared.seconds):9.0f}"
            f"{_percent(ranking.regret(row)) if row is not ranking.optimal else '-':>7}"
        )
    yield from _wrapped(
        f"a call, a second: of the {ranking.calls} system calls of all tasks, of the guest's"
        f" clock; regret: above optimal, in % of it; {columns.about}",
        "  ",
    )
    if ranking.rows and ranking.rows[0].total < ranking.optimal.total:
        yield from _below_optimal(ranking.rows[0].policy.text)


def _below_optimal(policy: str) -> list[str]:
    return _wrapped(
        f"{policy} costs less than optimal, which gives access by a trap alone and saves and"
        " loads as the kernel does",
        "  ",
    )


def _mean_lines(rankings: Sequence[Ranking], table: CostTable) -> Iterator[str]:
    """A row a policy, over all workloads, each counting alike: the least mean cost first."""
    per_call, _, _ = _units(table)
    rows = sorted(means(rankings), key=lambda row: (row.per_call, row.policy))
    yield f"{'policy':23}{per_call:>10}{'mean regret':>13}{'most regret':>13}  of"
    for row in rows:
        yield (
            f"{shortened(row.policy, 22):23}{row.per_call:10.2f}{_percent(row.regret):>13}"
            f"{_percent(row.most):>13}  {shortened(plain(row.of), 14)}"
        )
    yield from _wrapped(
        f"the mean of {len(rankings)} workloads, each counting alike; regret: above optimal on"
        " the same trace, in % of it",
        "  ",
    )
    if rows[0].policy != rankings[0].optimal.policy.text:
        yield from _below_optimal(rows[0].policy)


@dataclass(frozen=True)
class Mean:
    """A policy over several traces: cost a call, mean regret, the most and of which workload."""

    policy: str
    per_call: float
    regret: float
    most: float
    of: str


def means(rankings: Sequence[Ranking]) -> list[Mean]:
    """Of the policies that every trace was replayed with, `optimal` among them."""
    result = []
    for policy in [ranking.optimal.policy.text for ranking in rankings[:1]] + [
        row.policy.text for row in rankings[0].rows
    ]:
        rows = [_row_of(ranking, policy) for ranking in rankings]
        pairs = [
            (ranking, row) for ranking, row in zip(rankings, rows, strict=True) if row is not None
        ]
        if len(pairs) < len(rankings):
            continue
        regrets = [(ranking.regret(row), _name(ranking)) for ranking, row in pairs]
        cost = sum(row.total / max(1, ranking.calls) for ranking, row in pairs) / len(pairs)
        result.append(Mean(policy, cost, sum(r for r, _ in regrets) / len(pairs), *max(regrets)))
    return result


def _row_of(ranking: Ranking, policy: str) -> Row | None:
    rows = (ranking.optimal, *ranking.rows)
    return next((row for row in rows if row.policy.text == policy), None)


def _percent(part: float) -> str:
    value = 100 * part
    return f"{value:.1f}%" if abs(value) < 99.95 else f"{value:.0f}%"


def _task_lines(ranking: Ranking, table: CostTable, shown: int) -> Iterator[str]:
    """The tasks with most regret under the traced kernel's own policy, or the dearest."""
    own = _own_row(ranking)
    regret = own.cost - ranking.optimal.cost
    calls = own.counts.of("calls")
    yield f"tasks that {own.policy.text} costs most above optimal, in {table.unit}:"
    yield (
        f"{'pid':>8} {'name':16}{'calls':>9}{'traps':>7}{'flushes':>9}{'cost':>10}{'optimal':>10}"
    )
    for i in np.argsort(-regret, kind="stable")[:shown]:
        task = ranking.traced.trace.tasks[i]
        yield (
            f"{task.pid:8} {shortened(plain(task.name), 16):16}{calls[i]:9}"
            f"{own.counts.of('trap')[i]:7}{own.counts.of('flush')[i]:9}"
            f"{own.cost[i]:10.0f}{ranking.optimal.cost[i]:10.0f}"
        )


def _own_row(ranking: Ranking) -> Row:
    own = ranking.traced.trace.meta["policy"]
    return next((row for row in ranking.rows if row.policy.text == own), ranking.rows[0])


def _flip_lines(flips: Sequence[Flip], table: CostTable) -> Iterator[str]:
    """Where another policy becomes the cheapest as one cost changes, the others as they are."""
    # A trap's cost is told as one over a flush's, and nobody's cost is wrong a hundredfold.
    leading = [
        flip
        for flip in flips
        if flip.leads and flip.act != "trap" and 1 / _FAR < flip.factor < _FAR
    ]
    if not leading:
        yield "no change of a single cost makes another of these the cheapest"
        return
    yield "another policy becomes the cheapest as one cost changes:"
    # Policies that did the same change places together: one of them is named.
    once = {(flip.act, f"{flip.value:.3g}"): flip for flip in reversed(leading)}
    shown = sorted(once.values(), key=leading.index)
    for flip in shown[:_FLIPS_SHOWN]:
        unit = "" if flip.act == "B/r" else f" {table.unit}"
        what = "a trap's cost over a flush's" if flip.act == "B/r" else flip.act
        yield from _wrapped(
            f"{what} {flip.value:.3g}{unit} (now {flip.now:.3g}): {flip.cheaper_below} below,"
            f" {flip.cheaper_above} above",
            "  ",
            "    ",
        )


def _sweep_lines(swept: Swept, rankings: Sequence[Ranking], table: CostTable) -> Iterator[str]:
    per_call, _, _ = _units(table)
    advice = swept.advice
    unit = per_call.removesuffix("/call")
    yield (
        f"{swept.family + ':':16}{per_call:>10}{'above optimal':>16}"
        f"   {'(mean of the workloads)' if len(rankings) > 1 else ''}"
    )
    rows = np.unique(np.linspace(0, len(advice.values) - 1, _SWEEP_ROWS).round().astype(int))
    # Differences that no printed digit shows are none.
    most = max(float(advice.regret_per_call.max()), _LEAST_SHOWN)
    for place in sorted({*map(int, rows), advice.place()}):
        regret = float(advice.regret_per_call[place])
        mark = "  <- the least" if place == advice.place() else ""
        bar = "#" * max(0, round(_BAR * regret / most))
        yield (
            f"  {rounded(swept.family, advice.values[place]):14}"
            f"{advice.per_call[place]:10.2f}{regret:11.2f} {unit:4} {bar}{mark}"
        )
    yield from _wrapped(recommendation(swept), "  ")


def recommendation(swept: Swept) -> str:
    """The value to choose, in a sentence."""
    advice, family = swept.advice, swept.family
    if float(advice.per_call.max() - advice.per_call.min()) < _LEAST_SHOWN:
        return "no value costs less than another"

    def text(value: int) -> str:
        return rounded(family, value)

    return (
        f"recommended: {family}:{text(advice.value)}; in 95 % of 1000 draws of tasks and"
        f" workloads the best is from {text(advice.low)} to {text(advice.high)}; from"
        f" {text(advice.flat[0])} to {text(advice.flat[1])} costs at most 1 % more"
    )


def rounded(family: str, value: int) -> str:
    """A swept value to three digits: a time is as people write one."""
    if not family.startswith("timeout"):
        return value_text(family, value)
    for unit, ns in (("s", 10**9), ("ms", 10**6), ("us", 10**3)):
        if value >= ns:
            return f"{value / ns:.3g}{unit}"
    return f"{value}ns"


def _bound_lines(bounds: Mapping[str, Bound]) -> Iterator[str]:
    """The policies with a ratio, and one of those without, which differ by their times alone."""
    with_ratio = [(name, bound) for name, bound in bounds.items() if bound.ratio is not None]
    without = {
        name.partition(":")[0]: (name, bound)
        for name, bound in bounds.items()
        if bound.ratio is None
    }
    shown = [*sorted(with_ratio, key=lambda item: (item[1].ratio, item[0])), *without.values()]
    if not shown:
        return
    yield "whatever the workload, a task at a time:"
    for name, bound in shown:
        yield from _wrapped(f"{name}: {bound.sentence}", "  ", "    ")
    yield from _wrapped(f"that holds {shown[0][1].holds}", "  ", "  ")


def _notes(rankings: Sequence[Ranking]) -> Iterator[str]:
    yield from _wrapped(
        "replayed as it happened: a policy that costs less would let what follows come earlier",
        "note: ",
    )
    seen = {
        caveat["text"] for ranking in rankings for caveat in ranking.traced.trace.meta["caveats"]
    }
    for text in sorted(seen):
        yield from _wrapped(text, "note: ")


# --- for programs -------------------------------------------------------------------------


def to_json(
    rankings: Sequence[Ranking],
    swept: Sequence[Swept],
    bounds: Mapping[str, Bound],
    table: CostTable,
) -> dict[str, Any]:
    """The same, with every task."""
    return {
        "schema": SCHEMA,
        "tool": {"name": "kentry", "version": __version__},
        "costs": {
            "name": table.name,
            "unit": table.unit,
            "figures": {act: vars(figure) for act, figure in table.figures.items()},
        },
        "means": [vars(row) for row in means(rankings)] if len(rankings) > 1 else [],
        "traces": [_ranking_to_json(ranking) for ranking in rankings],
        "sweeps": [_swept_to_json(one) for one in swept],
        "bounds": {
            name: {"ratio": bound.ratio, "text": bound.sentence} for name, bound in bounds.items()
        },
    }


def _ranking_to_json(ranking: Ranking) -> dict[str, Any]:
    traced = ranking.traced
    verdict = traced.check
    return {
        "trace": traced.name,
        "kernel": traced.trace.meta["kernel"],
        "workload": traced.trace.meta["workload"]["name"],
        "events": traced.prepared.events,
        "seconds": traced.prepared.seconds,
        "calls": ranking.calls,
        "cut": None if traced.cut is None else vars(traced.cut),
        "check": {
            "policy": verdict.policy,
            "exact": verdict.exact,
            "acts": {
                act: {"replayed": ours, "seen": theirs}
                for act, (ours, theirs) in verdict.totals.items()
            },
            "differences": [vars(one) for one in verdict.differences],
        },
        "policies": [_row_to_json(ranking, row) for row in (ranking.optimal, *ranking.rows)],
        "flips": [
            {**vars(flip), "factor": None if not flip.now else flip.factor}
            for flip in ranking.flips
        ],
        "caveats": list(traced.trace.meta["caveats"]),
    }


def _row_to_json(ranking: Ranking, row: Row) -> dict[str, Any]:
    seconds = ranking.traced.prepared.seconds
    return {
        "policy": row.policy.text,
        "counts": row.counts.total(),
        "cost": row.total,
        "cost_per_call": row.total / ranking.calls if ranking.calls else None,
        "cost_per_second": row.total / seconds if seconds else None,
        "regret": ranking.regret(row),
        "tasks": [
            {
                "task": int(i),
                "pid": ranking.traced.trace.tasks[i].pid,
                "name": ranking.traced.trace.tasks[i].name,
                "cost": float(row.cost[i]),
                **{act: int(row.counts.of(act)[i]) for act in ACTS if row.counts.of(act)[i]},
            }
            for i in np.flatnonzero(row.counts.of("returns"))
        ],
    }


def _swept_to_json(swept: Swept) -> dict[str, Any]:
    advice = swept.advice
    return {
        "family": swept.family,
        "values": list(advice.values),
        "cost_per_call": advice.per_call.tolist(),
        "regret_per_call": advice.regret_per_call.tolist(),
        "regret_per_second": advice.regret_per_second.tolist(),
        "recommended": advice.value,
        "interval": [advice.low, advice.high],
        "within_1_percent": list(advice.flat),
    }


# --- for a picture ------------------------------------------------------------------------


def picture_of(
    rankings: Sequence[Ranking], swept: Swept, table: CostTable
) -> tuple[str, list[tuple[str, Any, Any]], dict[str, float], str]:
    """Title, curves (name, x, y), levels and the y axis' label of a sweep's picture.

    A curve a trace, of the cost per system call above optimal; the levels are policies without a
    value, where there is one trace.
    """
    unit = _units(table)[0].removesuffix("/call")
    costs = prices_of(table)
    curves = []
    for ranking, one in zip(rankings, swept.sweeps, strict=True):
        calls = max(1, ranking.calls)
        above = (one.cost(costs).sum(axis=1) - ranking.optimal.total) / calls
        curves.append((_name(ranking), np.array(one.values), above))
    levels = {}
    if len(rankings) == 1:
        only = rankings[0]
        levels = {
            row.policy.text: (row.total - only.optimal.total) / max(1, only.calls)
            for row in only.rows
            if row.policy.text in (only.traced.trace.meta["policy"], "keep")
        }
    title = f"{swept.family}, costs of {table.name}"
    return title, curves, levels, f"above optimal, {unit} a system call"


def _name(ranking: Ranking) -> str:
    return str(ranking.traced.trace.meta["workload"]["name"])
