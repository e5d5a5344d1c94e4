# SPDX-License-Identifier: GPL-2.0-or-later
"""How the floor is measured, and what is refused there."""

import pytest

from kentry.arch import find_arch
from kentry.boot.exact import ExactOptions
from kentry.count.catalogue import choose, on_floor
from kentry.errors import UserError
from kentry.kernels.resolve import resolve

ARM64 = find_arch("arm64")


def test_all_cases_are_those_it_has_in_one_context() -> None:
    options = on_floor(ExactOptions(cases=tuple(choose(ARM64, ()))), ARM64)
    assert set(options.cases) == {"getpid", "getppid"}
    assert options.rounds == 1


def test_one_that_was_named_is_measured_alone() -> None:
    assert on_floor(ExactOptions(cases=("getppid",)), ARM64).cases == ("getppid",)


@pytest.mark.parametrize("cases", [("read",), ("getppid", "read"), ("getppid+vec=once",)])
def test_a_case_that_it_lacks_is_refused_by_name(cases: tuple[str, ...]) -> None:
    with pytest.raises(UserError) as raised:
        on_floor(ExactOptions(cases=cases), ARM64)
    assert cases[-1] in raised.value.sentence
    assert "getppid" in raised.value.remedy


def test_there_is_nothing_to_randomise() -> None:
    with pytest.raises(UserError, match="randomise"):
        on_floor(ExactOptions(cases=("getppid",), randomise=True), ARM64)


def test_where_nothing_is_counted_it_is_refused() -> None:
    with pytest.raises(UserError, match="getppid"):
        resolve("floor:", ARM64, lambda fraction, now: None)
