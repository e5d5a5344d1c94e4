# SPDX-License-Identifier: GPL-2.0-or-later
"""Times: interleaved ones get a verdict; ones measured apart are shown; counts may disagree."""

import math

import pytest
from msgspec.structs import replace

from kentry.compare.counted import compare
from kentry.count.joining import with_times
from kentry.errors import UserError
from kentry.results.comparison import Comparison, TimedComparison
from kentry.results.document import to_json
from kentry.results.recording import NoisyMetric, Recording
from tests.builders import imported, noisy, processes, recording, timed, validate

OLD, NEW = (0, 3), (1, 2)


def both(instructions: int, ns: float, slots: tuple[int, ...]) -> Recording:
    """Counts and times of getppid."""
    counts = recording({"getppid": [("el0_svc", instructions)]})
    return with_times(counts, timed({"getppid": ns}, slots))


def only(comparison: Comparison) -> TimedComparison:
    [row] = comparison.timed
    return row


def kinds(row: TimedComparison) -> list[str]:
    return [caveat["kind"] for caveat in row.caveats]


def test_an_interleaved_change_has_an_interval() -> None:
    old, new = timed({"x": 78.4}, OLD), timed({"x": 77.1}, NEW)
    for side, half in ((old, 0.5), (new, 0.25)):
        [case] = side.cases
        metric = replace(case.noisy["ns"], interval=(77.0 - half, 77.0 + half))
        side.cases[0] = replace(case, noisy={"ns": metric})
    row = only(compare(old, new))
    assert (row.verdict, row.paired, row.reason) == ("better", True, "")
    assert row.interval and row.percent and row.floor is not None
    assert row.interval[0] < row.percent < row.interval[1] < 0
    assert row.interval[0] < 100 * (77.1 / 78.4 - 1) < row.interval[1]
    assert row.interval[1] - row.interval[0] < 1
    assert row.halves == (0.5, 0.25)
    assert not row.caveats
    document = to_json(row)
    assert document["delta"] == document["new"] - document["old"]
    share = 100 * document["delta"] / document["old"]
    assert math.isclose(share, document["percent_of_old"], rel_tol=1e-9)


def test_groups_are_counted_where_both_kernels_were_measured_in_one_boot() -> None:
    other = timed({"x": 77.1}, NEW)
    [case] = other.cases
    moved = tuple(replace(one, boot=one.boot + 100) for one in case.noisy["ns"].samples)
    apart = replace(case, noisy={"ns": replace(case.noisy["ns"], samples=moved)})
    rows = [
        only(compare(timed({"x": 78.4}, OLD), new))
        for new in (other, replace(other, cases=[apart]))
    ]
    assert [(row.boots, row.groups) for row in rows] == [(1, 40), (1, 0)]


def test_a_machine_is_compared_where_times_are() -> None:
    machine = {"microcode": "0x7"}
    timed_on = compare(timed({"x": 78.4}), timed({"x": 78.4}, target=machine))
    counted = recording({"x": [("f", 5)]})
    counted_on = compare(counted, recording({"x": [("f", 5)]}, target=machine))
    assert [
        [one["text"].partition(" ")[0] for one in found.caveats] for found in (timed_on, counted_on)
    ] == [["microcode"], []]


def test_no_change_is_the_same_and_says_what_it_would_have_seen() -> None:
    row = only(compare(timed({"x": 78.4}, OLD), timed({"x": 78.4}, NEW)))
    assert row.verdict == "same"
    assert row.detectable and row.threshold and row.detectable > row.threshold


def test_too_few_groups_decide_nothing_and_have_no_interval() -> None:
    row = only(compare(timed({"x": 78.4}, OLD, groups=3), timed({"x": 70}, NEW, groups=3)))
    assert (row.verdict, row.interval, row.paired) == ("undecided", None, True)
    assert row.reason
    validate(to_json(compare(timed({"x": 1.0}, groups=1), timed({"x": 2.0}))), "comparison-1")


@pytest.mark.parametrize("sessions", [("0a", "0b"), ("0a", ""), ("", "")])
def test_measured_apart_decides_nothing_whatever_the_interval(sessions: tuple[str, str]) -> None:
    a, b = (
        timed({"x": ns}, target={"session": session})
        for ns, session in zip((100, 50), sessions, strict=True)
    )
    comparison = compare(a, b)
    row = only(comparison)
    assert (row.verdict, row.paired, kinds(row)) == ("undecided", False, ["measured-apart"])
    assert row.interval and row.interval[1] < 0
    assert row.percent and row.percent < -40
    assert "kentry stat --compare" in row.caveats[0]["text"]
    validate(to_json(comparison), "comparison-1")


def rates(rate: float, slots: tuple[int, ...]) -> Recording:
    return timed({"x": noisy(processes(rate, slots), "ops/s")}, slots, metric="ops_per_s")


def booted(ns: float, slots: tuple[int, ...]) -> Recording:
    return timed({"x": noisy(processes(ns, slots, boots=10))}, slots)


def of_rounds(ns: float, places: tuple[int, int], rounds: int = 12) -> Recording:
    """Two boots a round of four, which the kernels share."""
    found = []
    for boot in range(rounds):
        for place in places:
            number = 4 * boot + place
            found += [
                replace(one, boot=number, group=number * 100 + one.group)
                for one in processes(ns * (1 + boot / 100), (0, 1), groups=5, seed=number)
            ]
    return timed({"x": noisy(found)})


LATE = [replace(one, group=one.group + 100) for one in processes(77.1, NEW)]
WITHOUT_SAMPLES = NoisyMetric(value=5.0, unit="ns", absent=("samples",), samples=())


@pytest.mark.parametrize(
    ("old", "new", "verdict", "paired", "caveats"),
    [
        (rates(1000.0, OLD), rates(1030.0, NEW), "better", True, []),
        # Groups of one side alone are left out.
        (
            timed({"x": 78.4}, OLD, groups=40),
            timed({"x": 77.1}, NEW, groups=20),
            "better",
            True,
            [],
        ),
        # With several boots they are the sample; two kernels with boots of their own are paired by
        # rounds.
        (booted(78.4, OLD), booted(77.1, NEW), "better", True, []),
        (of_rounds(78.4, OLD), of_rounds(76.0, NEW), "better", True, []),
        (timed({"x": 78.4}), timed({"x": noisy(LATE)}), "undecided", False, ["measured-apart"]),
        (timed({"x": WITHOUT_SAMPLES}), timed({"x": 5.0}), "undecided", False, ["unsupported"]),
    ],
)
def test_groups_and_boots_that_both_sides_have_decide(
    old: Recording, new: Recording, verdict: str, paired: bool, caveats: list[str]
) -> None:
    row = only(compare(old, new))
    assert (row.verdict, bool(row.paired), kinds(row)) == (verdict, paired, caveats)


def test_a_recording_is_the_same_as_itself() -> None:
    one = timed({"x": 78.4})
    row = only(compare(one, one))
    assert (row.verdict, row.delta, row.percent, row.paired) == ("same", 0, 0, True)


# --- imported numbers ----------------------------------------------------


def test_an_imported_number_is_shown_and_decides_nothing() -> None:
    comparison = compare(imported({"getppid": 80.0}), timed({"getppid": 77.1}))
    row = only(comparison)
    assert (row.verdict, row.interval, kinds(row)) == ("undecided", None, ["unsupported"])
    assert "interval, repetitions, kernel" in row.caveats[0]["text"]
    assert "differs" in {caveat["kind"] for caveat in comparison.caveats}
    validate(to_json(comparison), "comparison-1")


def test_values_without_a_ratio_are_undecided() -> None:
    none = replace(noisy(processes(78.4)), value=0.0)
    without = tuple(replace(one, values=(0,)) for one in none.samples)
    zeros = replace(none, samples=without)
    for session in ("0a", "0b"):
        a = timed({"x": zeros}, target={"session": "0a"})
        comparison = compare(a, timed({"x": 78.4}, target={"session": session}))
        assert (only(comparison).verdict, kinds(only(comparison))) == ("undecided", ["unsupported"])
        validate(to_json(comparison), "comparison-1")


# --- both axes -----------------------------------------------------------


def test_a_sign_conflict_is_a_caveat_by_name() -> None:
    comparison = compare(both(250, 78.4, OLD), both(241, 79.3, NEW))
    row = only(comparison)
    assert (row.verdict, kinds(row)) == ("worse", ["sign-conflict"])
    text = row.caveats[0]["text"]
    assert text.startswith("getppid: instructions -9 (-3.6 %), time +1.")
    back = only(compare(both(241, 79.3, OLD), both(250, 78.4, NEW)))
    assert (back.verdict, kinds(back)) == ("better", ["sign-conflict"])


def test_imported_numbers_have_a_sign_conflict_though_they_are_undecided() -> None:
    # 1e3ad78334a6: 5.1 % more instructions, 1.4 % more calls a second.
    def told(instructions: int, rate: float) -> Recording:
        counts = recording({"getppid": [("f", instructions)]}, kernel={"build_id": None})
        return with_times(counts, imported({"getppid": rate}, "ops/s"))

    row = only(compare(told(1000, 5_000_000.0), told(1051, 5_070_000.0)))
    assert (row.verdict, kinds(row)[-1]) == ("undecided", "sign-conflict")
    assert row.percent == pytest.approx(1.4)
    assert "instructions +51 (+5.1 %), ops_per_s +1.4 % (imported)" in row.caveats[-1]["text"]
    row = only(compare(told(1051, 5_000_000.0), told(1000, 4_975_000.0)))
    assert row.percent == pytest.approx(-0.5)
    assert kinds(row)[-1] == "sign-conflict"


def test_a_change_on_an_identical_path_is_layout() -> None:
    sides = both(250, 78.4, OLD), both(250, 80.0, NEW)
    comparison = compare(*sides)
    row = only(comparison)
    assert (row.identical_path, row.verdict, kinds(row)) == (True, "worse", ["layout"])
    assert row.is_layout
    assert "--config CONFIG_DEBUG_FORCE_FUNCTION_ALIGN_64B=y" in row.caveats[0]["text"]
    validate(to_json(comparison), "comparison-1")
    # One below the threshold is none.
    assert kinds(only(compare(*sides, threshold=0.01))) == ["layout"]
    assert kinds(only(compare(*sides, threshold=0.05))) == []


def test_unknown_paths_are_neither_identical_nor_different() -> None:
    a, b = both(250, 78.4, OLD), both(250, 80.0, NEW)
    lost = replace(b, cases=[replace(b.cases[0], paths=(), functions=())])
    row = only(compare(a, lost))
    assert (row.identical_path, kinds(row)) == (None, [])


# --- one side only -------------------------------------------------------


def test_a_metric_of_one_side_is_a_caveat_and_counts_that_are_gone_are_lost() -> None:
    counted, whole = recording({"getppid": [("el0_svc", 250)]}), both(239, 77.1, NEW)
    found = compare(counted, whole)
    assert (len(found.cases), found.timed, found.lost) == (1, [], ())
    assert "only-in" in {caveat["kind"] for caveat in found.caveats}
    found = compare(whole, timed({"getppid": 78.4}))
    assert (found.cases, len(found.timed), found.lost) == ([], 1, ("getppid",))


def test_no_metric_in_common_is_one_sentence() -> None:
    with pytest.raises(UserError, match="no metric of x") as caught:
        compare(recording({"x": [("f", 5)]}), timed({"x": 5.0}))
    assert "ns" in caught.value.remedy


def test_metrics_of_two_units_are_not_compared() -> None:
    a = timed({"x": noisy(processes(5.0)), "y": 5.0})
    b = timed({"x": noisy(processes(5.0), "us"), "y": 5.0})
    found = compare(a, b)
    assert [row.name for row in found.timed] == ["y"]
    assert "differs" in {caveat["kind"] for caveat in found.caveats}


# --- many rows, looks ----------------------------------------------------


def test_a_measurement_that_ended_early_has_the_interval_of_its_look() -> None:
    def ended(ns: float, slots: tuple[int, ...], look: int) -> Recording:
        found = timed({"x": ns}, slots)
        return replace(found, options={"looks": 5, "look": look})

    early = only(compare(ended(78.4, OLD, 1), ended(77.1, NEW, 1)))
    last = only(compare(ended(78.4, OLD, 5), ended(77.1, NEW, 5)))
    assert early.confidence and last.confidence and early.confidence > last.confidence > 0.989
