# SPDX-License-Identifier: GPL-2.0-or-later
"""A comparison with the floor: parts and reasons, which add up."""

from msgspec.structs import replace

from kentry.compare.counted import compare
from kentry.path.calls import NOT_KNOWN
from kentry.results.caveats import Caveat
from kentry.results.comparison import CaseComparison
from kentry.results.recording import Recording, read_recording
from tests import ROOT

GOLDEN = ROOT / "tests" / "golden"


def read(name: str) -> Recording:
    return read_recording(GOLDEN / name)


def on_floor(old: Recording, new: Recording) -> tuple[CaseComparison, tuple[Caveat, ...]]:
    comparison = compare(old, new, ["getppid"])
    return comparison.cases[0], comparison.caveats


def test_reasons_are_in_order_of_their_change_and_the_unknown_one_is_the_last() -> None:
    linux = read("arm64-6.12.json")
    # Functions that no rule names: most instructions have no reason then.
    odd = [insn._replace(function="odd") if insn.offset % 8 else insn for insn in linux.code]
    case, _ = on_floor(read("floor-arm64.json"), replace(linux, code=odd))
    assert isinstance(case.reasons, tuple)
    *known, unknown = case.reasons
    assert unknown.name == NOT_KNOWN
    assert unknown.delta > known[-1].delta
    assert [abs(row.delta) for row in known] == sorted((abs(r.delta) for r in known), reverse=True)


def test_either_side_may_be_the_floor() -> None:
    floor, linux = read("floor-arm64.json"), read("arm64-6.12.json")
    there, _ = on_floor(floor, linux)
    back, _ = on_floor(linux, floor)
    assert {row.name: -row.delta for row in there.reasons} == {
        row.name: row.delta for row in back.reasons
    }


def test_two_kernels_of_linux_have_neither_nor_has_a_side_without_a_path() -> None:
    floor, linux = read("floor-arm64.json"), read("arm64-6.12.json")
    lost = replace(linux, cases=[replace(one, paths=()) for one in linux.cases])
    for case, _ in (on_floor(read("arm64-6.1.json"), linux), on_floor(floor, lost)):
        assert not case.parts
        assert not case.reasons


def test_config_compiler_and_absent_cases_are_no_caveats() -> None:
    floor, linux = read("floor-arm64.json"), read("arm64-6.12.json")
    for old, new in ((floor, linux), (linux, floor)):
        kinds = {caveat["kind"] for caveat in compare(old, new).caveats}
        assert not {kind for kind in kinds if "config" in kind or "only" in kind}
        assert not any("compiler" in caveat["text"] for caveat in compare(old, new).caveats)
