# SPDX-License-Identifier: GPL-2.0-or-later
"""Policies replayed on traces: as text for a mail, and as a picture."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from kentry.arch.mechanism import SME, VEC
from kentry.errors import UserError
from kentry.models.costs import NS
from kentry.show.numbers import duration, share
from kentry.show.table import Column, Table, ascii_lines, plain, text_column, wrapped

if TYPE_CHECKING:
    from kentry.models.costs import Unit
    from kentry.vector.documents import PolicyMean, ReplayDocument, ReplayedTrace, TraceRanking
    from kentry.vector.ranking import ClosedLoop
    from kentry.vector.tuning import Recommendation

# Rows of a sweep's text, of its 100 values.
_SWEEP_ROWS = 15
_BAR = 18
_LEAST_SHOWN = 0.01
# Differences between a replay and the traced kernel that are listed one by one.
_DIFFERENCES_SHOWN = 8
_POLICY_WIDTH = 22

_OPTIMAL = "optimal"
# It gives access by a trap alone.  A policy that does so otherwise can cost less.
_WITH_TRAPS = "optimal with traps"
_BELOW_OPTIMAL = (
    f" costs less than {_WITH_TRAPS}, which gives access only by a trap, and saves and loads as"
    " the traced kernel does"
)


def replay_text(document: ReplayDocument) -> str:
    """All of it: the traces, the policies on them, sweeps, notes."""
    lines: list[str] = []
    for trace in document.traces:
        lines += [*_trace_lines(trace), ""]
    costs, traces = document.costs, document.traces
    assumptions = sorted({figure.assume for figure in costs.figures.values()})
    lines += wrapped(f"costs: {costs.name}, in {costs.unit}, {' and '.join(assumptions)}")
    if len(traces) == 1:
        lines += [*_rank_lines(traces[0], costs.unit), ""]
    else:
        lines += [*_mean_lines(document.means, len(traces), costs.unit), ""]
    for one in document.sweeps:
        names = [trace.workload for trace in traces]
        lines += [*_sweep_lines(one, names, costs.unit), ""]
    for text in dict.fromkeys(note["text"] for trace in traces for note in trace.caveats):
        lines += wrapped(text, "note: ")
    return ascii_lines(lines)


def _trace_lines(trace: ReplayedTrace) -> Iterator[str]:
    """The trace, and whether the replay of its kernel's own policy does what the kernel did."""
    kernel, check = trace.kernel, trace.check
    bits = f", {trace.vl} bits" if trace.vl else ""
    yield from wrapped(
        f"{trace.workload} on {kernel['spec']} ({kernel['arch']}{bits}): {trace.events} events,"
        f" {trace.seconds:.3f} s of the guest's clock"
    )
    word = "matches" if check.exact else "DIFFERS from"
    acts = ", ".join(
        f"{act.replace('_', ' ')}{'es' if act.endswith('flush') else 's'} {pair.replayed}"
        f" {'=' if pair.replayed == pair.seen else '!='} {pair.seen}"
        for act, pair in check.acts.items()
    )
    yield from wrapped(f"replayed {check.policy} {word} the kernel: {acts}")
    for one in check.differences[:_DIFFERENCES_SHOWN]:
        yield (
            f"  {one.act} of {plain(one.name)} ({one.pid}): replayed {one.replayed},"
            f" seen {one.seen}"
        )
    if len(check.differences) > _DIFFERENCES_SHOWN:
        yield f"  and {len(check.differences) - _DIFFERENCES_SHOWN} more, in --json"


def closed_text(closed: ClosedLoop, first: ReplayedTrace, second: ReplayedTrace) -> str:
    """What replay said of a policy, and what a kernel with it was then seen doing."""
    heads = ("replayed", "seen", "replayed - seen", "of seen")
    rows = Table((text_column("act"), Column(closed.base, most=16), *map(Column, heads)))
    for act, (base, said, seen) in closed.acts.items():
        off = share(abs(said - seen), seen) if seen else ""
        rows.row(act.replace("_", " "), base, said, seen, f"{said - seen:+}", off)
    lines = [*_trace_lines(first), *_trace_lines(second), ""]
    lines += wrapped(f"{closed.policy}: replayed on the first, seen on the second")
    return ascii_lines([*lines, *rows.lines()])


def _units(unit: Unit) -> tuple[str, str]:
    """The units of a cost per call, and of a thousand of it per second."""
    return ("ns", "us") if unit == NS else ("insn", "kinsn")


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


def policy_text(policy: str) -> str:
    """A policy as reports name it."""
    return _WITH_TRAPS if policy == _OPTIMAL else policy


def _rank_lines(ranking: TraceRanking, unit: Unit) -> Iterator[str]:
    per_call, per_second = _units(unit)
    columns, about = _SHOWN[ranking.unit]
    heads = (*columns, f"{per_call}/call", f"{per_second}/s", "regret")
    rows = Table((text_column("policy", most=_POLICY_WIDTH), *map(Column, heads)))
    seconds = max(1e-9, ranking.seconds)
    for row in ranking.policies:
        rows.row(
            policy_text(row.policy),
            *(sum(row.counts[act] for act in acts) for acts in columns.values()),
            f"{row.cost / max(1, ranking.calls):.2f}",
            f"{row.cost / 1e3 / seconds:.0f}",
            _regret(row.regret) if row.policy != _OPTIMAL else None,
        )
    yield from rows.lines()
    yield from wrapped(
        f"per call: of the {ranking.calls} system calls of all tasks; per second: of the guest's"
        f" clock; regret: above {_WITH_TRAPS}, in % of it; {about}",
        first="  ",
    )
    best, *others = ranking.policies
    if others and others[0].cost < best.cost:
        yield from wrapped(others[0].policy + _BELOW_OPTIMAL, first="  ")


def _mean_lines(means: Sequence[PolicyMean], traces: int, unit: Unit) -> Iterator[str]:
    """A row a policy, over all workloads, each counting the same: the least mean cost first."""
    means = sorted(means, key=lambda row: (row.per_call, row.policy))
    heads = (f"{_units(unit)[0]}/call", "mean regret", "most regret")
    policy, of = text_column("policy", most=_POLICY_WIDTH), text_column("of", most=14)
    rows = Table((policy, *map(Column, heads), of))
    for row in means:
        regrets = (_regret(row.regret), _regret(row.most))
        rows.row(policy_text(row.policy), f"{row.per_call:.2f}", *regrets, row.of)
    yield from rows.lines()
    yield from wrapped(
        f"the mean of {traces} workloads, each counting the same; regret: above {_WITH_TRAPS} on"
        " the same trace, in % of it",
        first="  ",
    )
    if means[0].policy != _OPTIMAL:
        yield from wrapped(means[0].policy + _BELOW_OPTIMAL, first="  ")


def _regret(part: float) -> str:
    value = 100 * part
    return f"{value:.1f}%" if abs(value) < 99.95 else f"{value:.0f}%"


def _sweep_lines(advice: Recommendation, workloads: Sequence[str], unit: Unit) -> Iterator[str]:
    per_call = _units(unit)[0]
    rows = Table(
        (
            text_column(f"{advice.family}:"),
            Column(f"{per_call}/call"),
            Column("above optimal"),
            text_column("(mean of the workloads)" if len(workloads) > 1 else ""),
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
            f"{bar}  <- the least" if place == best and not advice.flat else bar,
        )
    yield from rows.lines()
    for sentence in sweep_sentences(advice, workloads, per_call):
        yield from wrapped(sentence, first="  ")


def sweep_sentences(
    advice: Recommendation, workloads: Sequence[str], per_call: str
) -> Iterator[str]:
    """What a sweep says: its least value and those as good, and what its traces cannot tell."""

    def text(value: int) -> str:
        return value_text(advice.family, value)

    never = advice.never
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


def draw(file: Path, document: ReplayDocument) -> None:
    """A picture of the first sweep: a curve a trace, of the cost per system call above optimal.

    Of one trace, the kernel's own policy and `keep` are levels.  UserError without a sweep.
    """
    from kentry.show.picture import Curve, sweep_picture

    if not document.sweeps:
        raise UserError(
            "Access cannot be turned off on that architecture: there is nothing to sweep.",
            "Leave --picture out.",
        )
    advice, costs = document.sweeps[0], document.costs
    curves = []
    for ranking, per_call in zip(document.traces, advice.per_call_by_trace, strict=True):
        above = np.array(per_call) - ranking.policies[0].cost / max(1, ranking.calls)
        curves.append(Curve(ranking.workload, np.array(advice.values), above))
    only = document.traces[0]
    levels = {
        row.policy: (row.cost - only.policies[0].cost) / max(1, only.calls)
        for row in (only.policies[1:] if len(document.traces) == 1 else ())
        if row.policy in (only.check.policy, "keep")
    }
    sweep_picture(
        file,
        curves,
        f"{advice.family}, costs of {costs.name}",
        x=advice.family,
        y=f"above {_WITH_TRAPS}, {_units(costs.unit)[0]} a system call",
        times=advice.family.startswith("timeout"),
        recommended=advice.recommended,
        interval=advice.interval,
        levels=levels,
    )
