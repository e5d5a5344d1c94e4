# SPDX-License-Identifier: GPL-2.0-or-later
"""The harness's table: what it says of results that are known."""

from typing import Any

import pytest
from bench.honesty.table import Injected, Report, share, table

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


def made(steps: dict[str, Any], why_no_perf: str = "") -> Report:
    report = table(["kentry's honesty"], steps, INJECTED, 30.0, why_no_perf)
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


def test_a_false_positive_in_fifty_misses_the_bar() -> None:
    report = made({"A/A": no_change(*[SAME] * 49, BETTER)})
    assert "MISSED: false positives at most 1%: 1 of 50" in str(report)
    assert report.missed == 1


def test_undecided_is_no_false_positive() -> None:
    assert made({"A/A": no_change(*[SAME] * 40, *[UNDECIDED] * 10)}).missed == 0


def test_an_exit_status_that_is_not_the_verdicts_is_told() -> None:
    wrong = {"via": "command", "verdict": SAME, "effect": 0, "seconds": 3, "status_is_right": False}
    assert "exit status as the verdict: 1 are not" in str(made({"A/A": [wrong]}))


@pytest.mark.parametrize(("interval", "word"), [([-0.1, 0.1], "as they should"), ([1, 2], "FEW")])
def test_intervals_are_held_against_what_they_claim(interval: list[float], word: str) -> None:
    steps = [run_of(effect=0.001 * n, interval=interval, differences=DIFFERENCES) for n in range(9)]
    assert word in " ".join(str(made({"A/A": steps})).split())


def test_what_runs_differ_by_is_held_against_what_they_claim() -> None:
    steps = [run_of(effect=0.003 * (-1) ** n, error=0.001) for n in range(20)]
    for step in steps:
        step["differences"] = DIFFERENCES
    text = str(made({"A/A": steps}))
    assert "0.308 % (standard deviation), the runs" in text
    assert "0.291 %" in text


def test_a_change_found_too_late_is_not_found() -> None:
    late = [run_of(WORSE, 0.01, seconds=31.0)] * 3
    report = made({"1/100": [*[run_of(WORSE, 0.0101)] * 17, *late]})
    assert report.missed == 1
    assert "17 of 20" in str(report)
    assert made({"1/100": [run_of(WORSE, 0.0101)] * 20}).missed == 0


def test_a_size_without_a_bar_is_shown_only() -> None:
    report = made({"1/400": [run_of(UNDECIDED, 0.002)] * 4})
    assert report.missed == 0
    assert "0.0 % [0.0, 60.2]" in str(report)


@pytest.mark.parametrize("verdict", [SAME, BETTER])
def test_a_change_that_is_called_none_or_the_opposite_is_told(verdict: str) -> None:
    report = made({"1/400": [run_of(WORSE, 0.0025), run_of(verdict, 0.0)]})
    assert "MISSED: none of 2 called same or better: 1" in str(report)


def test_peers_are_divided_by_kentry() -> None:
    session = {"seconds": 24.0, "4": [DIFFERENCES] * 6}
    report = made({"session": [session]})
    assert report.missed == 0
    assert "50 [50,50]" in str(report)
    near = [DIFFERENCES | {"perf bench": 0.005}] * 6
    assert made({"session": [session | {"4": near}]}).missed == 1


def test_without_perf_it_says_how_to_have_it() -> None:
    assert "linux-perf" in str(made({}, "perf is not installed: apt-get install linux-perf"))


def test_a_share_has_an_interval() -> None:
    assert share(0, 200) == "0.00 % [0.00, 1.83]"
    assert share(0, 0) == "-"
