# SPDX-License-Identifier: GPL-2.0-or-later
"""The harness's results file, and what is done next."""

import json
from pathlib import Path

import pytest
from bench.honesty import results as module
from bench.honesty import run
from bench.honesty.perf import parse
from bench.honesty.results import Results, Step, open_results
from bench.honesty.run import Kind, chosen_cpu, measure, next_kind, parse_arguments
from bench.honesty.simulated import NOISES

from kentry.errors import UserError

KEY: Step = {"probe_sha256": "0", "release": "6.12"}


def nothing(fraction: float | None, now: str) -> None:
    pass


def kinds(wanted: int = 3) -> list[Kind]:
    return [
        Kind("A/A", 2 * wanted, lambda number: {"number": number, "seconds": 1.0}),
        Kind("perf", wanted, lambda number: {"number": -number, "seconds": 1.0}),
    ]


def test_kinds_are_done_in_turn(tmp_path: Path) -> None:
    results = open_results(KEY, tmp_path / "r.json")
    order = []
    while kind := next_kind(kinds(), results):
        order.append(kind.name)
        results.add(kind.name, kind.make(len(results.of(kind.name))))
    assert order.count("A/A") == 6
    assert order[:3].count("perf") == order[3:6].count("perf") == 1


def test_an_interrupted_harness_goes_on(tmp_path: Path) -> None:
    file = tmp_path / "r.json"
    made = 0

    def make(number: int) -> Step:
        nonlocal made
        made += 1
        if made == 3:
            raise KeyboardInterrupt
        return {"number": number, "seconds": 1.0}

    with pytest.raises(KeyboardInterrupt):
        measure([Kind("A/A", 4, make)], open_results(KEY, file), nothing)
    again = open_results(KEY, file)
    assert [step["number"] for step in again.of("A/A")] == [0, 1]
    measure([Kind("A/A", 4, make)], again, nothing)
    assert [step["number"] for step in open_results(KEY, file).of("A/A")] == [0, 1, 2, 3]
    assert made == 5


def test_results_of_something_else_are_not_gone_on_with(tmp_path: Path) -> None:
    file = tmp_path / "r.json"
    Results(file, KEY).write()
    with pytest.raises(UserError, match="another release"):
        open_results({**KEY, "release": "6.13"}, file)
    file.write_text("{}")
    with pytest.raises(UserError, match="no results"):
        open_results(KEY, file)


def test_a_key_has_a_file_of_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KENTRY_CACHE", str(tmp_path))
    assert module.default_file(KEY) == module.default_file(dict(KEY))
    assert module.default_file(KEY) != module.default_file({**KEY, "release": "6.13"})


def test_what_was_simulated_is_not_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(run, "PLANS", ((30, 1, 0.0),))
    results = open_results(KEY, tmp_path / "r.json")
    run.simulate_all(results, 5, nothing)
    assert len(results.of("simulated")) == len(NOISES)
    monkeypatch.setattr(run, "simulate", None)
    run.simulate_all(results, 5, nothing)
    document = json.loads((tmp_path / "r.json").read_text())
    assert document["steps"]["simulated"][0]["runs"] == 5


def test_results_stay_on_the_cpu_that_they_began_with(tmp_path: Path) -> None:
    results = open_results(KEY, tmp_path / "r.json")
    assert chosen_cpu(results, None, 3) == 3
    assert chosen_cpu(results, None, 1) == 3
    assert chosen_cpu(results, 0, 1) == 0


def test_quick_is_less_of_everything() -> None:
    quick, whole = parse_arguments(["--quick"]), parse_arguments([])
    assert whole.runs == 200 and whole.power_runs == 40
    for name in ("runs", "power_runs", "perf_rounds", "session_seconds", "simulated"):
        assert 0 < getattr(quick, name) < getattr(whole, name)


def test_what_perf_bench_prints() -> None:
    text = """# Running 'syscall/basic' benchmark:
# Executed 1,000,000 getppid() calls
     Total time: 0.196 [sec]

       0.196619 usecs/op
      5,085,978 ops/sec
"""
    assert parse(text) == pytest.approx(196.619)
    with pytest.raises(ValueError, match="usecs/op"):
        parse("perf: not found")
