# SPDX-License-Identifier: GPL-2.0-or-later
"""What the cases of a comparison have in common, and their largest changes."""

from collections.abc import Mapping

from msgspec import UNSET

from kentry.compare.counted import compare
from kentry.results.comparison import CaseChange, Comparison, FunctionChange, Overview
from kentry.results.document import to_json
from tests.builders import recording, validate

CASES = ("getpid", "getppid", "getuid", "read", "write")


def compared(old: Mapping[str, int], new: Mapping[str, int], twice: str = "") -> Comparison:
    """Each case has the functions, and one of its own; `twice` executes all of them twice."""
    before, after = (
        recording(
            {
                name: [(f, n * (1 + (name == twice))) for f, n in side.items() if n]
                + [(name, 10 + at * grown)]
                for at, name in enumerate(CASES)
            }
        )
        for side, grown in ((old, 0), (new, 10))
    )
    return compare(before, after)


def overview(old: Mapping[str, int], new: Mapping[str, int], twice: str = "") -> Overview:
    found = compared(old, new, twice).overview
    assert isinstance(found, Overview)
    return found


def test_what_every_case_has_in_common_stands_apart_from_the_rest() -> None:
    found = overview({"entry": 40, "exit": 20}, {"entry": 56, "exit": 12, "audit": 1})
    assert found.common == (
        FunctionChange("entry", 16),
        FunctionChange("exit", -8),
        FunctionChange("audit", 1),
    )
    assert (found.delta, found.cases, found.without) == (9, 5, ())
    # Beside it a case's own function grows by 0 to 40, of 70 instructions.
    assert found.rest == (CaseChange("getpid", 0, 0), CaseChange("write", 40, 100 * 40 / 70))
    assert [(own.name, own.delta) for own in found.largest] == [
        ("write", 49),
        ("read", 39),
        ("getuid", 29),
    ]


def test_a_case_of_two_calls_has_the_common_change_twice() -> None:
    found = overview({"entry": 40}, {"entry": 43}, twice="getpid")
    assert found.common == (FunctionChange("entry", 3),)
    assert found.delta == 3
    # All its 6 more instructions are the entry's.
    assert found.rest[0] == CaseChange("getpid", 0, 0)


def test_one_case_of_eight_may_lack_the_common_change_and_is_named() -> None:
    names = [f"case{n}" for n in range(8)]
    for lacking, common in ((1, 1), (2, 0)):
        old, new = (
            recording(
                {
                    name: [("entry", 40 + 3 * (side and at >= lacking)), (name, 10 + side)]
                    for at, name in enumerate(names)
                }
            )
            for side in (0, 1)
        )
        found = compare(old, new).overview
        assert isinstance(found, Overview)
        assert len(found.common) == common
        assert found.without == (("case0",) if common else ())


def test_a_few_changes_are_their_own_overview_and_the_json_is_the_schemas() -> None:
    same = compared({"entry": 40}, {"entry": 40})
    # getpid does not change, so four do.
    assert same.overview is UNSET
    assert "overview" not in to_json(same)
    document = to_json(compared({"entry": 40}, {"entry": 41}))
    assert document["overview"]["common"] == [{"name": "entry", "delta": 1}]
    validate(document, "comparison-1")
