# SPDX-License-Identifier: GPL-2.0-or-later
"""Each package stays within its budget of lines: bench/size.py has them."""

from bench.size import (
    BUDGET,
    PROSE_BUDGET,
    TESTS_BUDGET,
    lines_of_tests,
    prose_assertions,
    sizes_of,
)

from tests import ROOT


def test_each_package_stays_within_its_budget() -> None:
    lines = {name: size.lines for name, size in sizes_of(ROOT).items()}
    assert lines.keys() == BUDGET.keys()
    assert [name for name in lines if lines[name] > BUDGET[name]] == []


def test_the_tests_stay_within_their_budget() -> None:
    assert lines_of_tests(ROOT) <= TESTS_BUDGET


def test_few_tests_pin_prose() -> None:
    assert prose_assertions(ROOT) <= PROSE_BUDGET
