# SPDX-License-Identifier: GPL-2.0-or-later
"""A trace's text: fit for a mail, with every number."""

import json
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from kentry.boot.task_hooks import Event
from kentry.show.text import to_text
from kentry.show.vector import statistics_layout, statistics_to_json, trace_layout
from kentry.vector.statistics import statistics
from kentry.vector.trace import VectorTrace
from tests.unit.vector.traces import SVE_TRAP, Row, trace_of

Golden = Callable[[str, str], None]


def boot(shares: list[tuple[int, int]], **meta: Any) -> VectorTrace:
    """Tasks of a drop-on-load kernel with so many loads, so many of them followed by a trap."""
    rows: list[Row] = []
    ns = 0
    for task, (loads, followed) in enumerate(shares, start=1):
        for turn in range(loads + 1):
            used = turn <= followed
            steps = [(Event.SEEN_SMALL_RESTORE, 0)] if turn else []
            steps += [(Event.EXIT, 0)]
            if used:
                steps += [(Event.USE, 1), (Event.FAULT, SVE_TRAP), (Event.SEEN_TRAP, 0)]
                steps += [(Event.EXIT, 0), (Event.USE, 3)]
            for event, arg in [*steps, (Event.SYSCALL, 63)]:
                ns += 1000
                rows.append((event, task, ns, arg))
    return trace_of(rows, len(shares) + 1, **meta)


BOOT = boot([(20, 20), (20, 19), (20, 12), (20, 10), (20, 4), (20, 0), (2, 1)])


def text_of(trace: VectorTrace) -> str:
    return to_text(statistics_layout(trace, statistics(trace)))


def row(text: str, label: str) -> list[str]:
    (line,) = [line for line in text.splitlines() if line.strip().startswith(label)]
    return line.split(label)[1].split()


def test_the_whole_texts(golden: Golden) -> None:
    golden("vector-stats.txt", text_of(BOOT))
    golden("vector-trace.txt", to_text(trace_layout(BOOT, size=len(BOOT) * 5)))


def test_a_kernel_without_small_loads_has_restores() -> None:
    rows = [(Event.EXIT, 1, 0, 0), (Event.USE, 1, 1, 1), (Event.SYSCALL, 1, 2, 0)]
    trace = trace_of([*rows, (Event.SEEN_RESTORE, 1, 3, 0)], arch="riscv64", policy="discard")
    text = text_of(trace)
    assert "FPSIMD" not in text
    assert "of V" in text
    assert "restores" in text


def test_gaps_name_their_bins() -> None:
    rows: list[Row] = []
    for turn, gap in enumerate((500, 2_000, 2_000, 3 * 10**9)):
        ns = (rows[-1][2] if rows else 0) + gap
        rows += [(Event.USE, 1, ns, 1), (Event.SYSCALL, 1, ns + 1, turn)]
    text = text_of(trace_of(rows))
    assert row(text, "1 us to 10 us") == ["2", "66.7", "%", "66.7", "%", "#" * 20]
    assert row(text, "1 s to 10 s") == ["1", "33.3", "%", "100.0", "%", "#" * 10]
    assert "1 (33.3 %)" in " ".join(text.split())
    assert row(text, "1024 and more") == ["0", "0.0", "%", "100.0", "%"]


def test_the_summary_says_how_it_failed() -> None:
    workload = {"name": "shell", "status": 3}
    assert "exit status 3" in to_text(
        trace_layout(replace(BOOT, meta={**BOOT.meta, "workload": workload}))
    )
    unfinished = to_text(trace_layout(replace(BOOT, meta={**BOOT.meta, "complete": False})))
    assert unfinished != to_text(trace_layout(BOOT))


def test_the_json_has_every_user_task_and_adds_up() -> None:
    found = json.loads(json.dumps(statistics_to_json(BOOT, statistics(BOOT))))
    assert found["schema"] == "kentry/vector-statistics/1"
    assert [task["name"] for task in found["tasks"]] == [f"task-{i}" for i in range(1, 8)]
    for name, total in found["sums"].items():
        assert total == sum(task[name] for task in found["tasks"])
    assert found["followed_by"] == "SEEN_TRAP"
    assert sum(found["shares"]["1"].values()) == 7
    for histogram in (found["gaps_ns"], found["gaps_calls"]):
        assert sum(count for _, _, count in histogram) == found["gaps"]
        assert histogram[0][0] == 0
        assert histogram[-1][1] is None
