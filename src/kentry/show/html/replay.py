# SPDX-License-Identifier: GPL-2.0-or-later
"""A replay of vector traces as a document of a page: policies, sweeps, and each task's regret."""

from collections.abc import Mapping
from typing import Any

import msgspec

from kentry.results.caveats import Caveat
from kentry.show.html import charts
from kentry.show.html.page import Document
from kentry.show.numbers import duration
from kentry.show.policy_costs import policy_text, sweep_sentences
from kentry.vector.documents import ReplayDocument, TraceRanking
from kentry.vector.policies import POLICIES, TIME
from kentry.vector.tuning import Recommendation

# Of a trace, the tasks with the largest costs; the JSON has all.
_TASKS = 40
_OPTIMAL = "optimal"


def replay_document(found: ReplayDocument, document: Mapping[str, Any]) -> Document:
    """Sweeps first, then policies and tasks of each trace."""
    cheapest = [
        min((one for one in trace.policies if one.policy != _OPTIMAL), key=lambda one: one.cost)
        for trace in found.traces
        if len(trace.policies) > 1
    ]
    workloads = [trace.workload for trace in found.traces]
    sweeps = [_sweep(one, workloads, found.costs.unit) for one in found.sweeps]
    best = [
        f"cheapest on {trace.workload}: {one.policy}"
        for trace, one in zip(found.traces, cheapest, strict=False)
    ]
    caveats: list[Caveat] = []
    for trace in found.traces:
        found_here = msgspec.convert(trace.caveats, list[Caveat])
        caveats += [one for one in found_here if one not in caveats]
    return Document(
        template="replay.html",
        title=f"Vector policies on {', '.join(trace.workload for trace in found.traces)}",
        summary="; ".join(best),
        json=document,
        values={
            "unit": found.costs.unit,
            "sweeps": sweeps,
            "means": [
                msgspec.structs.replace(one, policy=policy_text(one.policy)) for one in found.means
            ],
            "traces": [_trace(one) for one in found.traces],
            "figures": found.costs.figures,
            "table": found.costs.name,
        },
        caveats=caveats,
        facts=[
            *(
                (
                    f"trace {one.trace}",
                    f"{one.kernel.get('spec', '')} ({one.kernel.get('arch', '')})",
                )
                for one in found.traces
            ),
            ("cost table", f"{found.costs.name}, {found.costs.unit}"),
        ],
    )


def _sweep(one: Recommendation, workloads: list[str], unit: str) -> dict[str, Any]:
    timed = POLICIES[one.family].parameter == TIME if one.family in POLICIES else False

    def text(value: float) -> str:
        return duration(value) if timed else f"{value:g}"

    points = [
        charts.Point(
            value,
            cost,
            f"{text(value)}: {cost:.5g} {unit} a call",
            "recommended" if value == one.recommended and not one.flat else "point",
        )
        for value, cost in zip(one.values, one.cost_per_call, strict=True)
    ]
    ticks = [10**power for power in range(19) if one.values[0] <= 10**power <= one.values[-1]]
    label = f"{one.family}: {unit} a call by its value"
    return {
        "family": one.family,
        "sentences": [*sweep_sentences(one, workloads, unit)],
        "chart": charts.line(
            points,
            label,
            one.family,
            f"{unit} a call",
            logarithmic=True,
            band=None if one.flat else one.within_1_percent,
            named=[(tick, text(tick)) for tick in ticks],
        ),
    }


def _trace(trace: TraceRanking) -> dict[str, Any]:
    """The policies, and of each task what every policy costs above the optimal one."""
    policies = [one for one in trace.policies if one.policy != _OPTIMAL]
    least = next((one for one in trace.policies if one.policy == _OPTIMAL), None)
    of_task: dict[tuple[int, int, str], dict[str, float]] = {}
    for one in trace.policies:
        for task in one.tasks:
            key = (task.task, task.pid, task.name)  # type: ignore[attr-defined]
            of_task.setdefault(key, {})[one.policy] = task.cost  # type: ignore[attr-defined]
    rows = sorted(of_task.items(), key=lambda item: -max(item[1].values()))
    return {
        "trace": trace,
        "policies": [
            msgspec.structs.replace(one, policy=policy_text(one.policy)) for one in trace.policies
        ],
        "largest": max((one.cost for one in trace.policies), default=0) or 1,
        "names": [one.policy for one in policies],
        "left": max(0, len(rows) - _TASKS),
        "tasks": [
            {
                "pid": pid,
                "name": name,
                "optimal": costs.get(_OPTIMAL, 0),
                "regrets": [costs.get(one.policy, 0) - costs.get(_OPTIMAL, 0) for one in policies],
            }
            for (_, pid, name), costs in rows[:_TASKS]
        ]
        if least
        else [],
    }
