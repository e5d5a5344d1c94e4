# SPDX-License-Identifier: GPL-2.0-or-later
"""A replay says one thing: the cheapest, the recommended, and what cannot be told apart."""

import json
from typing import Any

import msgspec

from kentry.show.vector import replay_layout
from kentry.vector.documents import Alike, Answer, Choice, ReplayDocument
from tests import ROOT

# A file from before there was an answer.
REPLAYED = json.loads((ROOT / "tests" / "golden" / "vector-replay-1.json").read_text())


def sweep(family: str, costs: dict[int, float]) -> dict[str, Any]:
    least = min(costs, key=lambda value: costs[value])
    one: dict[str, Any] = REPLAYED["sweeps"][0]
    return one | {
        "family": family,
        "values": list(costs),
        "cost_per_call": list(costs.values()),
        "regret_per_call": [0.0] * len(costs),
        "regret_per_second": [0.0] * len(costs),
        "recommended": least,
        "interval": [least, least],
        "within_1_percent": [least, least],
        "never": None,
        "per_call_by_trace": [list(costs.values())],
    }


def document(policies: dict[str, float], *sweeps: dict[str, Any]) -> ReplayDocument:
    [trace] = REPLAYED["traces"]
    rows = [
        trace["policies"][0] | {"policy": name, "cost_per_call": cost}
        for name, cost in policies.items()
    ]
    found = {**REPLAYED, "traces": [trace | {"policies": rows}], "sweeps": list(sweeps)}
    # What a file says is not believed: it follows from the rest.
    found["answer"] = None
    return msgspec.convert(found, ReplayDocument)


def test_all_values_near_the_least_are_named_and_not_the_neighbours_of_a_spike() -> None:
    timeouts = {10: 32.9, 20: 32.71, 30: 33.4, 40: 32.6, 50: 33.3, 60: 32.8, 70: 32.9}
    got = document(
        {"optimal": 20.0, "timeout:100ms": 31.8, "keep": 32.8, "eager": 40.0},
        sweep("timeout-entry", timeouts),
        sweep("count", {8: 35.0, 16: 32.7}),
    ).answer
    assert got == Answer(
        cheapest=Choice("timeout:100ms", None, 31.8),
        recommended=Choice("timeout-entry", 40, 32.6),
        above=32.6 / 31.8 - 1,
        values=[
            Alike("timeout-entry", 10, 20),
            Alike("timeout-entry", 40, 40),
            Alike("timeout-entry", 60, 70),
            Alike("count", 16, 16),
        ],
        policies=["keep"],
    )


def test_a_flat_curve_has_no_least() -> None:
    got = document({"keep": 10.0}, sweep("timeout-entry", {10: 10.05, 20: 10.01, 30: 10.0})).answer
    assert got and got.recommended is None
    assert got.values == [Alike("timeout-entry", 10, 30)]
    assert got.policies == ["keep"]


def test_the_swept_value_itself_may_be_the_cheapest_and_without_a_sweep_none_is_recommended() -> (
    None
):
    got = document({"keep": 10.0}, sweep("count", {1: 9.0, 2: 12.0})).answer
    assert got and got.cheapest == got.recommended == Choice("count", 1, 9.0)
    assert (got.above, got.policies) == (0, [])
    none = document({"keep": 10.0, "eager": 9.0}).answer
    assert none == Answer(Choice("eager", None, 9.0), None, 0.0, [], [])


def test_page_and_json_name_the_same() -> None:
    found = document({"keep": 10.0}, sweep("timeout-entry", {10**7: 9.0, 10**9: 12.0}))
    layout = replay_layout(found)
    assert layout.summary.endswith("timeout-entry:10ms, 9.00 insn/call.")
    assert "timeout-entry:10ms" in str(layout.lead[0])
    assert msgspec.to_builtins(found)["answer"]["recommended"]["value"] == 10**7
