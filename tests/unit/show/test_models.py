# SPDX-License-Identifier: GPL-2.0-or-later
"""Cycles by models as text: ranges, what is missing, rows not shown; and tables of costs."""

from collections.abc import Callable

import msgspec
from msgspec.structs import replace

from kentry.compare.counted import compare
from kentry.models.costs import CostTable, Figure, load_costs, shipped
from kentry.results import caveats
from kentry.results.document import to_json
from kentry.results.estimate import Estimate, LeftOut, Level, Limit, Misses, Share
from kentry.results.recording import Recording
from kentry.results.studies import Problem
from kentry.show.beside import (
    costs_layout,
    estimate_blocks,
    list_layout,
    miss_blocks,
    series_estimate_blocks,
    without_model_notes,
)
from kentry.show.blocks import Layout
from kentry.show.changelog import series_changelog
from kentry.show.comparison import comparison_layout
from kentry.show.series import series_layout
from kentry.show.table import WIDTH
from kentry.show.text import to_text, written
from kentry.study.series import tabulate
from tests import builders

ISB = LeftOut("isb", 2, "system", 30, 33, "somebody, somewhere")
SVC = LeftOut("svc", 1, "entry")
ATOMIC = LeftOut("casal", 3, "unknown")


def estimate(core: str, model: int, *left: LeftOut) -> Estimate:
    """Two functions, of which the first has what was left out."""
    low = model + sum(one.times * one.low for one in left if one.low is not None)
    high = model + sum(one.times * one.high for one in left if one.high is not None)
    missing = sum(one.times for one in left if one.low is None)
    rows = (
        Share("vectors", 8, low - 10, high - 10, missing),
        Share("el0_svc", 12, 10, 10),
    )
    limit = Limit("front end", model - 0.5, "N1UnitL.0", 20, "N1Unit")
    return Estimate(core, "22.1.8", model, low, high, missing, model, limit, left, rows, rows)


def recording(*estimates: Estimate) -> Recording:
    base = builders.recording({"getppid": [("vectors", 8), ("el0_svc", 12)]})
    return replace(base, cases=[replace(base.cases[0], estimates=estimates)])


def test_estimates_as_text(golden: Callable[[str, str], None]) -> None:
    cores = (
        estimate("neoverse-n1", 150, SVC, ISB),
        estimate("cortex-a72", 180, ISB),
        estimate("cortex-a55", 390, SVC, ATOMIC),
        estimate("cortex-a53", 400, SVC, ATOMIC),
    )
    lines = written(estimate_blocks(recording(*cores).cases)).splitlines()
    golden("estimates.txt", "\n".join([*lines, ""]))
    assert max(map(len, lines)) <= WIDTH


def test_functions_that_are_not_shown_are_added_up() -> None:
    one = estimate("cortex-a55", 390, SVC)
    rows = tuple(Share(f"f{n}", 1, n, n + 1, n % 2) for n in range(20))
    one = msgspec.structs.replace(one, functions=rows)
    lines = written(estimate_blocks(recording(one).cases, 3)).splitlines()
    below = lines[lines.index("getppid, by function") :]
    cells = [line.split() for line in below[2:7]]
    assert [row[0] for row in cells] == ["f17", "f18", "f19", "17", "total"]
    # 0 to 16, and 8 of them lack a figure.
    assert cells[3] == ["17", "other", "17", ">=", "136"]


def test_both_sides_are_compared_core_by_core() -> None:
    old = recording(estimate("neoverse-n1", 150, SVC), estimate("cortex-a55", 390))
    new = recording(estimate("cortex-a55", 380), estimate("neoverse-n1", 155, SVC))
    comparison = compare(old, new)
    (case,) = comparison.cases
    assert [(one.core, one.old.low, one.new.low) for one in case.estimates or ()] == [
        ("neoverse-n1", 150, 155),
        ("cortex-a55", 390, 380),
    ]
    text = to_text(comparison_layout(comparison))
    assert "not measured" in text
    rows = [line.split() for line in text.splitlines() if "neoverse-n1" in line or "a55" in line]
    assert rows == [
        ["getppid", "neoverse-n1", ">=", "150", ">=", "155", "+5", "155", "+5"],
        ["cortex-a55", "390", "380", "-10", "380", "-10"],
    ]
    (row,) = to_json(comparison)["cases"]
    assert row["estimates"][0]["new"] == {"low": 155, "high": 155, "missing": 1, "steady": 155}


def test_both_curves_of_misses_stand_there_without_walks_that_change_nothing() -> None:
    levels = (Level("L1I", 4096, 4, 64), Level("L1D", 4096, 4, 64))
    data = ((4096, (0, 9)), (8192, (0, 9)))
    both = ((4096, (7, 9)), (8192, (8, 9)))
    found = Misses("mine", levels, (0, 0), (8, 9), data, "my desk", both)

    def rows(misses: Misses) -> list[list[str]]:
        (case,) = recording().cases
        lines = written(miss_blocks([replace(case, misses=(misses,))])).splitlines()
        return [line.split() for line in lines if "caches" not in line and line[-1:].isdigit()]

    assert rows(found) == [
        ["getppid", "warm", "0", "0"],
        ["after", "4K", "0", "9"],
        ["after", "4K", "+", "code", "7", "9"],
        ["after", "8K", "+", "code", "8", "9"],
        ["cold", "8", "9"],
    ]
    # A recording from before walks through code has the other curve.
    older = msgspec.structs.replace(found, walked_with_code=())
    assert "walked_with_code" not in to_json(older)
    assert [row[:2] for row in rows(older)] == [
        ["getppid", "warm"],
        ["after", "4K"],
        ["cold", "8"],
    ]


def test_estimates_by_two_versions_of_llvm_are_not_compared() -> None:
    older = estimate("cortex-a55", 390)
    older = msgspec.structs.replace(older, llvm="19.1.7")
    (case,) = compare(recording(older), recording(estimate("cortex-a55", 380))).cases
    assert not case.estimates
    assert "estimates" not in to_json(compare(recording(older), recording()))["cases"][0]


def test_a_series_has_a_row_a_patch_and_its_steps() -> None:
    rows = [
        builders.outcome(0, "baseline", recording(estimate("neoverse-n1", 150, SVC))),
        builders.outcome(1, "faster", recording(estimate("neoverse-n1", 140, SVC))),
        builders.outcome(2, "broken", ("arm64", Problem("build-failed", "It does not build."))),
        builders.outcome(3, "slower", recording(estimate("neoverse-n1", 155, SVC, ISB))),
        builders.outcome(4, "the same", recording(estimate("neoverse-n1", 155, SVC, ISB))),
    ]
    series = tabulate(rows, {})
    lines = written(series_estimate_blocks(series, series.columns)).splitlines()
    cells = [line.split() for line in lines if line[:1].isdigit()]
    assert cells == [
        ["0", "Baseline", ">=", "150"],
        ["1", "faster", ">=", "140", "-10"],
        ["2", "broken"],
        ["3", "slower", ">=", "215", "+75"],
        ["4", "the", "same", ">=", "215", "0"],
    ]
    cell = to_json(series)["rows"][3]["cases"]["getppid"]["estimates"][0]
    assert (cell["core"], cell["low"], cell["high"]) == ("neoverse-n1", 215, 221)
    for text in (to_text(series_layout(series)), to_text(series_changelog(series))):
        assert "cycles (not measured)" in text
    assert series_estimate_blocks(tabulate([builders.outcome(0, "", recording())], {}), ()) == []


def test_notes_on_models_stand_only_where_their_numbers_do() -> None:
    """A recording may have cycles and misses, of which a comparison has one and a check neither."""
    notes = [caveats.modelled("22", "A", "B", 9.0, 20.0), caveats.modelled_caches()]
    notes.append(caveats.not_time())
    kinds = [one["kind"] for one in without_model_notes(notes, cycles=True)]
    assert kinds == ["modelled", "not-time"]
    plain = replace(recording(), caveats=notes)
    comparison = compare(plain, plain)
    assert "modelled" not in {one["kind"] for one in comparison_layout(comparison).caveats}
    both = replace(recording(estimate("neoverse-n1", 150)), caveats=notes)
    kinds = [one["kind"] for one in comparison_layout(compare(both, both)).caveats]
    assert "modelled" in kinds and "modelled-caches" not in kinds


def test_options_of_kernel_entry_are_named_with_v_alone() -> None:
    note = caveats.config_differs("2 options", "2 new", f"{caveats.OF_ENTRY}A=y/n, B=n/y")
    layout = Layout("x", "", "", [], [note])
    assert to_text(layout).splitlines()[1:] == [f"note: {note['text'].partition(';')[0]}"]
    assert "A=y/n, B=n/y" in to_text(layout, verbose=True)


TABLE = CostTable(
    name="mine",
    about="a core of mine",
    arch="arm64",
    unit="ns",
    vl=256,
    figures={
        "trap": Figure(1234.56, 900, 2000, "measured", "my desk", "with a note"),
        "flush": Figure(14.25, 14.25, 14.25, "published", "a mail \u2013 of May"),
        "save": Figure(3, 2, 4.5, "measured", "my desk", "with a note"),
    },
    absent={"ipi": "nobody sent one"},
)


def test_a_row_an_act_and_the_sources_below(golden: Callable[[str, str], None]) -> None:
    golden("cost-table.txt", to_text(costs_layout(TABLE, [("flush", 34, 34.1)])))


def test_what_ships_fits_into_a_mail_and_is_listed() -> None:
    text = to_text(list_layout(map(load_costs, shipped())))
    for one in (text, *(to_text(costs_layout(load_costs(name))) for name in shipped())):
        assert one.isascii() and max(map(len, one.splitlines())) <= WIDTH
    assert {line.split()[0] for line in text.splitlines() if line[0] != " "} >= set(shipped())
