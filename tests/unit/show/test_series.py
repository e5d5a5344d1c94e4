# SPDX-License-Identifier: GPL-2.0-or-later
"""The table of a series, read back: every step, total and percentage is derived anew."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kentry.results.studies import Series
from kentry.show.series import series_layout, summary_blocks
from kentry.show.text import to_text, written
from kentry.study.series import tabulate
from tests.builders import built, outcome
from tests.unit.show.samples import (
    DISCARD,
    SHORTER,
    SYSCALL,
    check_form,
    check_table,
    many,
    unwrapped,
)
from tests.unit.vector.builders import with_events


@pytest.mark.slow
@given(many(), st.booleans())
def test_every_number_follows_from_the_counts(series: Series, functions: bool) -> None:
    text = to_text(series_layout(series, functions))
    if not any("--- a/x" in row.subject for row in series.rows):
        check_form(text)
    check_table(text.partition("\n\n")[2], series)


def test_a_caveat_is_noted_once() -> None:
    base, one, two = built(SYSCALL), built(SHORTER), built(SHORTER)
    for recording in (base, one, two):
        recording.caveats.append({"kind": "y", "text": "of every kernel"})
    for recording in (one, two):
        recording.caveats.append({"kind": "x", "text": "something new"})
    outcomes = [outcome(0, "b", base), outcome(1, "one", one), outcome(2, "two", two)]
    series = tabulate(outcomes, {}, notes=[{"kind": "series", "text": "about the series"}])
    lines = to_text(series_layout(series, functions=False)).splitlines()
    assert [line for line in lines if line.startswith("note: ")][1:] == [
        "note: about the series",
        "note: of every kernel",
        "note: patches 1, 2: something new",
    ]


def test_the_patch_that_changed_events_names_the_cases() -> None:
    cases = {f"{case}+vec=once": [("f", 5)] for case in ("x", "y", "z")}
    kernels = [
        with_events(
            built(cases, arch="riscv64"), {f"{case}+vec=once": [DISCARD] for case in having}
        )
        for having in ("xyz", "xyz", "z", "")
    ]
    series = tabulate([outcome(n, "s", kernel) for n, kernel in enumerate(kernels)], {})
    event = "discard (syscall) 1 -> 0 per call, in do_trap_ecall_u"
    assert unwrapped(written(summary_blocks(series))).splitlines()[:2] == [
        f"Patch 2: {event}: x+vec=once, y+vec=once",
        f"Patch 3: {event}: z+vec=once",
    ]
