# SPDX-License-Identifier: GPL-2.0-or-later
"""Policies replayed on a small trace, as text."""

from collections.abc import Callable
from dataclasses import replace

import pytest
from msgspec import to_builtins

from kentry.boot.task_hooks import Event
from kentry.models.costs import load_costs
from kentry.results.document import dump
from kentry.show.table import WIDTH
from kentry.show.text import to_text
from kentry.show.vector import replay_layout, value_text
from kentry.vector.ranking import TraceFile, rank, recommend, replay_document, sweep
from kentry.vector.trace import VectorTrace
from tests.unit.vector.traces import META, SVE_TRAP, Row, trace_of

# Compiles the search for the best decisions.
pytestmark = pytest.mark.slow

Golden = Callable[[str, str], None]
E = Event
MS = 10**6
POLICIES = ("eager", "keep", "drop-each-syscall", "drop-on-load", "timeout-entry:4ms", "count:3")
TABLE = load_costs("arm64-counted-128")


def busy(name: str, policy: str = "drop-on-load") -> VectorTrace:
    """A task that traps, makes calls, blocks, and uses the unit again."""
    rows: list[Row] = []
    now = MS
    for turn in range(4):
        rows += [(E.SEEN_SMALL_RESTORE, 1, now, 0), (E.EXIT, 1, now, 0), (E.USE, 1, now + 10, 1)]
        rows += [(E.FAULT, 1, now + 10, SVE_TRAP), (E.SEEN_TRAP, 1, now + 20, 0)]
        rows += [(E.SEEN_FLUSH, 1, now + 25, 0), (E.EXIT, 1, now + 30, 0), (E.USE, 1, now + 40, 9)]
        for _ in range(2 + turn):
            now += MS
            rows += [(E.SYSCALL, 1, now, 63), (E.SEEN_FLUSH, 1, now, 0), (E.EXIT, 1, now + 100, 0)]
        now += MS
        rows += [(E.SYSCALL, 1, now, 63), (E.SEEN_FLUSH, 1, now, 0), (E.SEEN_SMALL_SAVE, 1, now, 0)]
        rows += [(E.SWITCH_BLOCKED, 1, now, 0), (E.SWITCH_BLOCKED, 0, now + MS, 1)]
        now += MS
    workload = {**META["workload"], "name": name}
    return trace_of(rows, 2, workload=workload, policy=policy)


def source(name: str, policy: str = "drop-on-load") -> TraceFile:
    return TraceFile.of(f"{name}.parquet", busy(name, policy), "vec")


@pytest.mark.parametrize("names", [("boot",), ("boot", "shell")], ids=len)
def test_the_whole_text_and_document(names: tuple[str, ...], golden: Golden) -> None:
    sources = [source(name) for name in names]
    rankings = [rank(one, POLICIES, TABLE) for one in sources]
    swept = [sweep(one.prepared, "count", TABLE.prices, (1, 3, 10, 100)) for one in sources]
    document = replay_document(rankings, [recommend(swept, TABLE.prices)], TABLE)
    text = to_text(replay_layout(document))
    assert max(map(len, text.splitlines())) <= WIDTH
    golden(f"vector-replay-{len(names)}.txt", text)
    golden(f"vector-replay-{len(names)}.json", dump(to_builtins(document)))


def test_a_check_that_differs_names_the_task() -> None:
    trace = busy("boot")
    seen = trace.event.copy()
    seen[seen == E.SEEN_TRAP] = E.SEEN_SAVE
    one = TraceFile.of("x", replace(trace, event=seen), "vec")
    text = to_text(replay_layout(replay_document([rank(one, POLICIES, TABLE)], [], TABLE)))
    assert "DIFFERS" in text
    assert "task-1 (101)" in text


@pytest.mark.parametrize(
    ("family", "value", "text"),
    [("timeout", 10**8, "100ms"), ("timeout-entry", 1_357_000_000, "1.36s"), ("count", 12, "12")],
)
def test_a_swept_value_has_three_digits(family: str, value: int, text: str) -> None:
    assert value_text(family, value) == text
