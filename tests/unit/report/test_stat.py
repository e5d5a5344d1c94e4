# SPDX-License-Identifier: GPL-2.0-or-later
"""What kentry stat prints: no digit beyond an interval, every word of the machine's made plain."""

import math
import re
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kentry.compare.timed import measured
from kentry.measure.preflight import NOTE, WARNING, Finding
from kentry.measure.timed.tails import Tail
from kentry.model.caveats import Caveat
from kentry.model.comparison import row_to_json
from kentry.model.recording import NoisyMetric
from kentry.report.stat import (
    comparison_lines,
    confidence_text,
    decimals,
    effect_text,
    head_lines,
    note_lines,
    share_text,
    stat_text,
    sweep_text,
    tails_text,
    value_text,
    values_text,
    verdict_text,
)
from kentry.stats.noisy import Estimate
from tests.builders import noisy, processes, timed

FOUND = Estimate(
    effect=0.0102,
    interval=(0.0096, 0.0108),
    confidence=0.9999,
    floor=0.0012,
    threshold=0.0025,
    detectable=0.0031,
    verdict="worse",
    groups=120,
    more=None,
    p=1e-9,
)
UNKNOWN = replace(
    FOUND,
    interval=(math.nan, math.nan),
    floor=math.nan,
    detectable=math.nan,
    verdict="undecided",
    reason="2 groups, at least 6 are needed",
    more=3.0,
)


def of(value: float, half: float | None) -> NoisyMetric:
    interval = None if half is None else (value - half, value + half)
    return NoisyMetric(value, "ns", processes(value, groups=2), interval)


# --- numbers -----------------------------------------------------------------------


@pytest.mark.parametrize(
    ("value", "half", "texts"),
    [
        (78.4123, 0.0345, ("78.41", "0.03")),
        (78.4123, 0.345, ("78.4", "0.3")),
        (78.4123, 3.45, ("78", "3")),
        (7841.23, 345.0, ("7841", "345")),
        (78.4123, 0.000001, ("78.412", "0.000")),
        (78.0, 0.0, ("78", "0")),
        (78.4123, None, ("78.41", "?")),
        (123456.0, None, ("1.235e+05", "?")),
    ],
)
def test_a_number_has_no_digit_beyond_its_interval(
    value: float, half: float | None, texts: tuple[str, str]
) -> None:
    assert value_text(of(value, half)) == texts


@given(st.floats(allow_nan=True, allow_infinity=True))
def test_there_are_0_to_3_decimals_whatever_the_interval(half: float) -> None:
    assert decimals(half) in (0, 1, 2, 3)


@pytest.mark.parametrize(
    ("share", "text"),
    [
        (None, "-"),
        (math.nan, "-"),
        (math.inf, "-"),
        (0.0, "0.0"),
        (0.00123, "0.12"),
        (0.0123, "1.2"),
        (0.123, "12"),
        (1.5, "150"),
        (0.0000123, "0.001"),
    ],
)
def test_a_share_has_two_digits(share: float | None, text: str) -> None:
    assert share_text(share) == text


def test_a_change_and_its_interval_have_the_same_digits() -> None:
    assert effect_text(FOUND) == "+1.02 % [+0.96, +1.08]"
    wide = replace(FOUND, interval=(-0.02, 0.04))
    assert effect_text(wide) == "+1 % [-2, +4]"
    assert effect_text(UNKNOWN) == "+1 %, no interval"


@pytest.mark.parametrize(
    ("confidence", "text"), [(0.99, "99 %"), (0.9999, "99.99 %"), (0.995, "99.5 %")]
)
def test_a_confidence_has_as_many_nines_as_it_takes(confidence: float, text: str) -> None:
    assert confidence_text(confidence) == text


@given(st.floats(1, 1e6), st.floats(-0.5, 2.0), st.floats(1e-6, 0.2))
def test_two_values_are_in_the_ratio_that_was_found(old: float, effect: float, half: float) -> None:
    """Each within what its digits can say."""
    found = replace(FOUND, effect=effect, interval=(effect - half, effect + half))
    texts = values_text(found, old, old * (1 + effect) * 1.01)
    a, b = (float(text) for text in texts)
    step = 10.0 ** -max(len(text.partition(".")[2]) for text in texts)
    assert abs(b - a * (1 + effect)) <= step * (1 + abs(1 + effect))


def test_without_an_interval_values_are_as_they_are() -> None:
    assert values_text(UNKNOWN, 80.1234, 80.98) == ("80.12", "80.98")
    assert values_text(FOUND, 0.0, 80.98) == ("0", "80.98")


# --- verdicts ------------------------------------------------------------------------


def test_a_verdict_says_why_and_how_much_longer() -> None:
    assert verdict_text(FOUND) == "worse"
    assert verdict_text(replace(FOUND, verdict="same")) == "same, to 0.25 %"
    assert verdict_text(UNKNOWN) == (
        "undecided, 2 groups, at least 6 are needed; 3.0 times as long should decide"
    )
    assert verdict_text(replace(UNKNOWN, more=None)) == "undecided, 2 groups, at least 6 are needed"


def test_a_row_says_what_it_is_held_against() -> None:
    assert comparison_lines("a -> b", FOUND, ("80.1", "80.9"), "ns", 0.99) == [
        "a -> b: worse",
        "    80.1 -> 80.9 ns, +1.02 % [+0.96, +1.08] of the first, 99 %",
        "    floor 0.12 %, threshold 0.25 %, would see 0.31 %; 120 groups",
    ]
    assert "floor - %" in comparison_lines("a", UNKNOWN, ("1", "2"), "ns", 0.99)[2]


def test_a_row_as_json_has_shares_in_per_cent_and_null_for_what_is_not_known() -> None:
    row = row_to_json(measured("a -> b", "ns", "ns", (80.0, 80.8), FOUND))
    assert (row["old"], row["new"], row["delta"]) == (80.0, 80.8, pytest.approx(0.8))
    assert row["percent_of_old"] == pytest.approx(1.02)
    assert row["interval"] == [pytest.approx(0.96), pytest.approx(1.08)]
    shares = [row[key] for key in ("floor", "threshold", "detectable")]
    assert shares == [pytest.approx(0.12), pytest.approx(0.25), pytest.approx(0.31)]
    unknown = row_to_json(measured("a", "ns", "ns", (80.0, 80.8), UNKNOWN))
    assert unknown["interval"] is unknown["floor"] is unknown["detectable"] is None
    assert unknown["reason"] == UNKNOWN.reason


# --- what stands around ------------------------------------------------------------------


LOUD = Finding("preflight-governor", "The governor is ondemand.", "Set performance.", WARNING)
QUIET = Finding("preflight-smt", "SMT is on.", "", NOTE)


def test_warnings_are_shown_and_of_notes_only_that_there_are_some() -> None:
    caveats = [Caveat(kind="clock-jumped", text="2 groups were dropped")]
    text = "\n".join(note_lines([LOUD, QUIET], caveats, every=False))
    assert "warning: The governor is ondemand.\n      Set performance." in text
    assert "SMT is on" not in text
    assert "(-v prints it): smt" in text
    assert "note: 2 groups were dropped" in text
    every = "\n".join(note_lines([LOUD, QUIET], caveats, every=True))
    assert "note: SMT is on." in every and "-v prints" not in every


def test_nothing_to_say_is_nothing() -> None:
    assert note_lines([], [], every=True) == []


def test_what_preflight_found_is_not_said_twice() -> None:
    recording = timed({"a": 80.0}, groups=2)
    recording.caveats = [{"kind": LOUD.kind, "text": "The governor is ondemand. Set performance."}]
    text = stat_text(recording, [LOUD], {}, every=False)
    assert text.count("ondemand") == 1


def test_whose_numbers_they_are() -> None:
    target = {"place": "ssh:bench", "machine": "Board\x1b[2J", "on_cpu": 3, "hypervisor": "kvm"}
    lines = head_lines(timed({"a": 80.0}, groups=2, target=target))
    assert lines[0] == "Linux 6.12.95+deb12-arm64 (arm64) on ssh:bench"
    assert lines[1].startswith("Neoverse-N1 r3p1, Board")
    assert lines[1].endswith("kvm, cpu 3") and "\x1b" not in lines[1]


# --- tables ----------------------------------------------------------------------------


def with_counters(**values: float) -> Any:
    recording = timed({"getppid": 80.0, "read": 120.0}, groups=4)
    for name, value in values.items():
        recording.cases[1].noisy[name.replace("_", "-")] = noisy(
            processes(value, groups=4), name.partition("_")[2]
        )
    return recording


def test_a_table_has_a_column_for_each_counter_that_some_case_has() -> None:
    text = stat_text(with_counters(kernel_cycles=300.0, user_branches=20.0), [], {}, every=False)
    assert re.search(r"^case .* k-cycle +u-branc$", text, re.M)
    assert re.search(r"^getppid .* - +-$", text, re.M)
    assert re.search(r"^read .* 3\d\d\S* +2\d\S*$", text, re.M)
    assert "k-instr" not in text


def test_a_table_says_what_its_columns_are_and_what_is_absent() -> None:
    text = stat_text(timed({"getppid": 80.0}, groups=4), [], {"x+vec=each": "no-unit"}, every=False)
    assert "half of the 99 % interval" in " ".join(text.split())
    assert "(8 processes of each case)" in " ".join(text.split())
    assert "absent: x+vec=each: no-unit" in text
    assert "The loop around a call" not in text
    assert text.isascii() and all(len(line) <= 79 for line in text.splitlines())


def test_the_loop_is_said_in_words() -> None:
    recording = timed({"getppid": 80.0}, groups=4)
    recording.cases[0].noisy["loop_ns"] = noisy(processes(1.5, groups=4))
    assert "The loop around a call is in it: 1.5 ns" in stat_text(recording, [], {}, every=False)


def test_a_sweeps_title_is_the_case_with_its_state() -> None:
    names = ("getppid+vec=each+cache=warm", "getppid+vec=each+cache=64K")
    text = sweep_text(
        timed(dict(zip(names, (80.0, 160.0), strict=True)), groups=4), [], every=False
    )
    assert "getppid+vec=each among working sets" in text
    assert re.search(r"^ +none .*[^#]#{12,13}$", text, re.M)
    assert re.search(r"^ +64K .*[^#]#{24}$", text, re.M)


def test_tails_say_what_was_taken_off() -> None:
    recording = timed({"getppid": 80.0, "read": 120.0}, groups=4)
    metrics = {"p50_ns": of(80.0, 1.0), "p99_ns": of(93.0, 10.0), "p99.9_ns": of(400.0, None)}
    tails = [Tail("getppid", 1000, 17, metrics, 9000), Tail("read", 1000, 20, metrics, 9500)]
    text = tails_text(recording, tails, [], every=False)
    assert re.search(r"^getppid +1000 +80 +93 +400 +9000$", text, re.M)
    assert "17 to 20 ns that reading the clock takes are off" in " ".join(text.split())
