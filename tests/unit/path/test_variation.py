# SPDX-License-Identifier: GPL-2.0-or-later
"""What a case executed in each context."""

import pytest
from msgspec import structs

from kentry.path.variation import settles
from tests.unit.compare.test_contexts import in_contexts, stat


@pytest.mark.parametrize(("known", "settled"), [(12, True), (11, False)])
def test_three_of_four_contexts_must_have_a_path(known: int, settled: bool) -> None:
    [case] = in_contexts(stat([0] * known + [1] * (16 - known))).cases
    contexts = [
        structs.replace(one, path=0 if at < known else None) for at, one in enumerate(case.contexts)
    ]
    assert settles(case)
    assert settles(structs.replace(case, paths=case.paths[:1], contexts=tuple(contexts))) is settled


@pytest.mark.parametrize(("others", "settled"), [(8, True), (9, False)])
def test_a_case_settles_on_no_more_counts_than_half_of_its_contexts(
    others: int, settled: bool
) -> None:
    [case] = in_contexts(stat([0] * (16 - others) + list(range(1, others + 1)))).cases
    assert settles(case) is settled
