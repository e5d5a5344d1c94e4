# SPDX-License-Identifier: GPL-2.0-or-later
"""Each package stays within its budget of lines: bench/size.py has them."""

import pytest
from bench.size import (
    BUDGET,
    PROSE_BUDGET,
    TESTS_BUDGET,
    lines_of_tests,
    prose_assertions,
    sizes_of,
)

from tests import ROOT

SIZES = sizes_of(ROOT)


def test_each_package_has_a_budget() -> None:
    assert SIZES.keys() == BUDGET.keys()


@pytest.mark.parametrize("package", BUDGET)
def test_a_package_stays_within_its_budget(package: str) -> None:
    assert SIZES[package].lines <= BUDGET[package]


def test_the_tests_stay_within_their_budget() -> None:
    assert lines_of_tests(ROOT) <= TESTS_BUDGET


def test_few_tests_pin_prose() -> None:
    assert prose_assertions(ROOT) <= PROSE_BUDGET
