# SPDX-License-Identifier: GPL-2.0-or-later
"""What holds for a policy on any workload."""

import pytest

from kentry.errors import UserError
from kentry.vector.policies import parse_policy
from kentry.vector.ranking import bounds, competitive_bound

COSTS = {"trap": 20.0, "drop": 0.0, "flush": 1.0, "small_save": 0.0, "small_restore": 0.0}


@pytest.mark.parametrize(
    ("policy", "ratio"),
    [
        ("count:20", 2.0),
        ("count", 2.0),
        ("count:0", 20.0),
        ("drop-each-syscall", 20.0),
        ("count:9", 2.9),
        ("count:60", 4.0),
        ("count-from-use:20", 2.0),
    ],
)
def test_a_policy_that_drops_at_calls_has_a_ratio(policy: str, ratio: float) -> None:
    bound = competitive_bound(parse_policy(policy), COSTS)
    assert bound.ratio == pytest.approx(ratio, abs=1e-4)
    assert f"{ratio:.2f} times optimal" in bound.text


@pytest.mark.parametrize("policy", ["timeout:1s", "timeout-entry:10ms", "keep", "drop-on-load"])
def test_a_time_has_a_regret_but_no_ratio(policy: str) -> None:
    bound = competitive_bound(parse_policy(policy), COSTS)
    assert bound.ratio is None
    assert "no ratio" in bound.text and "1 a system call" in bound.text
    if policy == "timeout-entry:10ms":
        assert "2000 a second for traps" in bound.text


def test_a_bound_needs_costs() -> None:
    with pytest.raises(UserError, match="costs"):
        competitive_bound(parse_policy("count:3"), {"trap": 3.0})


def test_only_policies_with_a_bound_of_their_own_are_listed() -> None:
    texts = ("eager", "keep", "drop-on-load", "drop-each-syscall", "timeout:1s", "count")
    assert list(bounds(map(parse_policy, texts), COSTS)) == [
        *("drop-each-syscall", "timeout:1s", "count:20")
    ]
