# SPDX-License-Identifier: GPL-2.0-or-later
"""The harness's table: what it says of results that are known."""

from typing import Any

import pytest
from bench.honesty.table import Injected, Report, table

from kentry.stats.exact import BETTER, SAME, UNDECIDED, WORSE

INJECTED = (Injected(400, 0.001, None), Injected(100, 0.0025, 30.0))
DIFFERENCES = {"kentry": 0.001, "perf bench": 0.05, "lat_syscall": -0.03, "UnixBench": 0.02}


def run_of(verdict: str = SAME, effect: float = 0.0, **more: Any) -> dict[str, Any]:
    step = {
        "via": "compare_cases",
        "verdict": verdict,
        "effect": effect,
        "seconds": 3.0,
        "interval": [effect - 0.001, effect + 0.001],
        "error": 0.0004,
    }
    return step | more


def no_change(*verdicts: str) -> list[dict[str, Any]]:
    return [
        run_of(verdict, 0.0005 * (-1) ** number, differences=DIFFERENCES)
        for number, verdict in enumerate(verdicts)
    ]


def made(steps: dict[str, Any]) -> Report:
    report = table(["kentry's honesty"], steps, INJECTED, 30.0, "not installed")
    text = str(report)
    assert text.isascii()
    assert max(map(len, text.splitlines())) <= 79
    return report


def test_everything_is_at_most_79_columns() -> None:
    command = {"via": "command", "verdict": UNDECIDED, "effect": 0.0, "seconds": 12.34}
    worse = [run_of(WORSE, 0.01002, seconds=123.4)] * 40
    simulated = {
        "noise": "disturbed-processes",
        "groups": 100,
        "looks": 5,
        "change": 0.01,
        "runs": 10000,
        "better": 0,
        "worse": 9999,
        "same": 1,
        "covered": 0.99,
        "seconds": 1234.5,
    }
    steps = {
        "simulated": [simulated, simulated | {"change": 0.0, "worse": 10, "same": 900}],
        "A/A": [*no_change(*[SAME] * 180), command | {"status_is_right": True}],
        "1/400": worse,
        "1/100": worse,
        "session": [{"seconds": 24.0, "4": [DIFFERENCES] * 6, "8": [DIFFERENCES] * 3}],
        "perf": [{"kentry": 1e-5, "perf": 0.21, "perf_seconds": 3.1, "seconds": 6.0}] * 30,
    }
    text = str(made(steps))
    assert "0 of 181, 0.00 % [0.00, 2.02]" in text
    assert "perf bench itself" in text


FAR = [{"seconds": 24.0, "4": [DIFFERENCES] * 6}]
NEAR = [{"seconds": 24.0, "4": [DIFFERENCES | {"perf bench": 0.005}] * 6}]
FOUND = run_of(WORSE, 0.0101)
LATE = run_of(WORSE, 0.01, seconds=31.0)


@pytest.mark.parametrize(
    ("steps", "missed", "text"),
    [
        ({"A/A": no_change(*[SAME] * 49, BETTER)}, 1, "false positives at most 1%: 1 of 50"),
        ({"A/A": no_change(*[SAME] * 40, *[UNDECIDED] * 10)}, 0, "0 of 50, 0.00 % [0.00, 7.11]"),
        ({"A/A": [run_of() | {"status_is_right": False}]}, 1, "exit status as the verdict: 1 are"),
        ({"A/A": [run_of(interval=[1, 2], differences=DIFFERENCES)] * 2}, 0, "FEW"),
        ({"1/100": [FOUND] * 17 + [LATE] * 3}, 1, "17 of 20"),
        ({"1/100": [FOUND] * 20}, 0, "20 of 20"),
        ({"1/400": [run_of(UNDECIDED, 0.002)] * 4}, 0, "0.0 % [0.0, 60.2]"),
        ({"1/400": [FOUND, run_of(BETTER)]}, 1, "none of 2 called same or better: 1"),
        ({"session": FAR}, 0, "50 [50,50]"),
        ({"session": NEAR}, 1, "5.0"),
    ],
)
def test_a_bar_is_met_or_missed(steps: dict[str, Any], missed: int, text: str) -> None:
    report = made(steps)
    assert report.missed == missed
    assert text in str(report)
