# SPDX-License-Identifier: GPL-2.0-or-later
"""What kentry stat prints: no digit beyond an interval; names from outside made plain."""

import math
import re
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kentry.results.comparison import TimedComparison
from kentry.results.recording import NoisyMetric, Recording
from kentry.show.stat import pair_blocks, stat_blocks, stat_layout, tails_blocks
from kentry.show.text import to_text
from kentry.stats.sequential import plan_looks
from kentry.stats.verdict import Effect
from kentry.time.measurements import Ending, Tail
from kentry.time.preflight import Finding
from tests.builders import processes, timed

WORSE = Effect(
    effect=0.0102,
    interval=(0.0096, 0.0108),
    confidence=0.9999,
    floor=0.0012,
    threshold=0.0025,
    detectable=0.0031,
    verdict="worse",
    groups=120,
    p=1e-9,
)
UNDECIDED = replace(
    WORSE,
    interval=(math.nan, math.nan),
    floor=math.nan,
    detectable=math.nan,
    verdict="undecided",
    reason="too few groups: 2 of 6",
    more=3.0,
)


def metric(value: float, half: float | None) -> NoisyMetric:
    interval = None if half is None else (value - half, value + half)
    return NoisyMetric(
        value=value, unit="ns", interval=interval, samples=processes(value, groups=2)
    )


def row_of(estimate: Effect, old: float = 80.0, new: float = 80.8) -> TimedComparison:
    row = TimedComparison(
        name="a -> b", metric="ns", unit="ns", old=old, new=new, verdict="undecided"
    )
    return row.with_estimate(estimate)


def pair_lines(estimate: Effect, old: float = 80.0, new: float = 80.8) -> list[str]:
    """The lines of one pair."""
    row = row_of(estimate, old, new)
    ending = Ending([estimate], plan_looks(0.01)[1], 5, 60, 300, "groups")
    text = to_text(stat_layout(timed({"a": 80.0}, groups=2), pair_blocks([row], ending), []))
    lines = text.splitlines()
    at = next(n for n, line in enumerate(lines) if line.startswith("a -> b"))
    return lines[at : lines.index("", at)]


def table(recording: Recording, *findings: Finding) -> str:
    blocks = stat_blocks(recording.cases, {})
    return to_text(stat_layout(recording, blocks, findings))


# --- numbers -----------------------------------------------------------------------


@pytest.mark.parametrize(
    ("value", "half", "cells"),
    [
        (78.4123, 0.0345, ["78.41", "0.03"]),
        (78.4123, 0.345, ["78.4", "0.3"]),
        (78.4123, 3.45, ["78", "3"]),
        (7841.23, 345.0, ["7841", "345"]),
        (78.0, 0.0, ["78", "0"]),
        (78.4123, None, ["78.41", "?"]),
    ],
)
def test_a_value_has_no_digit_beyond_its_interval(
    value: float, half: float | None, cells: list[str]
) -> None:
    recording = timed({"a": 80.0}, groups=2)
    recording.cases[0].noisy["ns"] = metric(value, half)
    row = re.search(r"^a +.*$", table(recording), re.M)
    assert row and row[0].split()[1:3] == cells


@given(st.floats(1, 1e6), st.floats(-0.5, 2.0), st.floats(1e-6, 0.2))
def test_two_values_are_in_the_ratio_of_the_change(old: float, effect: float, half: float) -> None:
    """Each within what its digits can tell."""
    estimate = replace(WORSE, effect=effect, interval=(effect - half, effect + half))
    line = pair_lines(estimate, old, old * (1 + effect) * 1.01)[1]
    texts = line.partition(" ns")[0].split(" -> ")
    a, b = map(float, texts)
    step = 10.0 ** -max(len(text.strip().partition(".")[2]) for text in texts)
    assert abs(b - a * (1 + effect)) <= step * (1 + abs(1 + effect))


# --- verdicts ------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("estimate", "verdict"),
    [
        (WORSE, "worse"),
        (replace(WORSE, verdict="same"), "same, to 0.25 %"),
        (UNDECIDED, "undecided, too few groups: 2 of 6; 3.0 times as long should decide"),
        (replace(UNDECIDED, more=None), "undecided, too few groups: 2 of 6"),
    ],
)
def test_a_verdict_has_its_reason_and_how_much_longer(estimate: Effect, verdict: str) -> None:
    assert pair_lines(estimate)[0] == f"a -> b: {verdict}"


# --- what stands around a table -----------------------------------------------------------

LOUD = Finding("preflight-governor", "The governor is ondemand", "Set performance")


def test_findings_stand_above_the_numbers_and_notes_below() -> None:
    recording = timed({"a": 80.0}, groups=2)
    recording.caveats = [{"kind": "clock-jumped", "text": "2 groups were dropped"}]
    text = table(recording, LOUD)
    warning = text.index("warning: The governor is ondemand\n      Set performance\n")
    assert warning < text.index("ns a call") < text.index("note: 2 groups were dropped")


def test_a_finding_of_preflight_is_printed_once() -> None:
    recording = timed({"a": 80.0}, groups=2)
    recording.caveats = [{"kind": LOUD.kind, "text": "The governor is ondemand. Set performance"}]
    assert table(recording, LOUD).count("ondemand") == 1


def test_the_machine_is_named_in_plain_text() -> None:
    target = {"place": "ssh:bench", "machine": "Board\x1b[2J", "on_cpu": 3, "hypervisor": "kvm"}
    text = table(timed({"a": 80.0}, groups=2, target=target))
    lines = text.splitlines()
    assert lines[0] == "Linux 6.12.95+deb12-arm64 (arm64) on ssh:bench"
    assert lines[1].startswith("Neoverse-N1 r3p1, Board")
    assert lines[1].endswith("kvm, cpu 3") and "\x1b" not in lines[1]


# --- tables ----------------------------------------------------------------------------


def test_tails_tell_the_time_of_the_clock() -> None:
    recording = timed({"getppid": 80.0, "read": 120.0}, groups=4)
    metrics = {"p50_ns": metric(80.0, 1.0), "p99_ns": metric(93.0, 10.0)}
    metrics["p99.9_ns"] = metric(400.0, None)
    tails = [Tail("getppid", 1000, 17, metrics, 9000), Tail("read", 1000, 20, metrics, 9500)]
    text = to_text(stat_layout(recording, tails_blocks(tails), []))
    assert re.search(r"^getppid +1000 +80 +93 +400 +9000$", text, re.M)
    assert "17 to 20 ns" in text
