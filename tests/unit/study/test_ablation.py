# SPDX-License-Identifier: GPL-2.0-or-later
"""What each option adds: the order of the rows, and what is built for them."""

from __future__ import annotations

import re

import pytest

from kentry.boot.exact import ExactOptions
from kentry.errors import BuildError, UserError
from kentry.kernels.config import Option, Request
from kentry.kernels.repository import Repository, Revision
from kentry.progress import Update
from kentry.results.document import to_json
from kentry.results.recording import Recording
from kentry.results.studies import MEASURED, NO_BUILD
from kentry.show.studies import ablation_layout
from kentry.study import ablation as study_ablation
from kentry.study.ablation import Trial, ablate, tabulate
from kentry.study.plan import Outcome, Unit
from tests.builders import built, recording, validate

BASE = recording({"read": [("a", 20)], "getppid": [("a", 10)]})


def measured(getppid: int, read: int = 20, name: str = "b") -> Recording:
    return recording({"read": [("a", read)], "getppid": [("a", 10), (name, getppid - 10)]})


def trial(name: str, off: int, on: int) -> Trial:
    return Trial(f"CONFIG_{name}", False, (), measured(off), measured(on))


def test_rows_are_sorted_by_cost_and_those_without_numbers_come_last() -> None:
    trials = [
        Trial("CONFIG_REFUSED", False, problem="Kconfig dropped it."),
        trial("CHEAPER", 14, 10),
        trial("NOTHING", 10, 10),
        trial("B_DEAR", 10, 15),
        trial("A_DEAR", 11, 16),
        trial("DEAREST", 10, 30),
        Trial("CONFIG_ABSENT", False, problem="It does not boot."),
    ]
    found = tabulate(BASE, trials, ["CONFIG_ELSEWHERE"])
    assert [row.option.removeprefix("CONFIG_") for row in found.rows] == [
        *("DEAREST", "A_DEAR", "B_DEAR", "NOTHING", "CHEAPER", "ABSENT", "REFUSED")
    ]
    assert found.cases == ("getppid", "read")
    assert found.passed_over == ("CONFIG_ELSEWHERE",)
    assert found.rows[-1].problem == "Kconfig dropped it."
    assert not found.rows[-1].cases
    validate(to_json(found), "ablation-1")


def test_without_getppid_the_first_case_decides() -> None:
    base, more, less = (
        recording({"read": [("a", read)], "pipe": [("a", pipe)]})
        for read, pipe in ((20, 5), (21, 50), (22, 5))
    )
    trials = [Trial("CONFIG_A", True, (), base, more), Trial("CONFIG_B", True, (), base, less)]
    # A trial without one recording has no numbers.
    trials += [Trial("CONFIG_C", False, on=base), Trial("CONFIG_D", False, off=base)]
    found = tabulate(base, trials)
    assert found.cases == ("read", "pipe")
    assert [row.option[-1] for row in found.rows] == ["B", "A", "C", "D"]
    assert [bool(row.cases) for row in found.rows] == [True, True, False, False]


def test_all_mitigations_together_are_no_further_one() -> None:
    switches = {"bhb": "nospectre_bhb", "all": "mitigations=off"}
    trials = [
        Trial(flaw, True, (), measured(12), measured(15), mitigation=flaw, parameters=words)
        for flaw, words in switches.items()
    ]
    summary = ablation_layout(tabulate(measured(15), trials)).summary
    assert re.findall(r"\d+", summary) == ["1", "1", "2"]


class Built:
    """A source in which an option costs five instructions; performs units of it."""

    def __init__(self) -> None:
        self.asked: list[tuple[str, ...]] = []

    def __call__(self, unit: Unit, update: Update | None = None) -> Outcome:
        sets = unit.request.sets
        self.asked.append(sets)
        if "CONFIG_CHOICE=n" in sets or "CONFIG_BROKEN=y" in sets:
            return Outcome(status=NO_BUILD, error=BuildError("does not build", "Look."))
        on = [text.removeprefix("CONFIG_") for text in sets if text.endswith("=y")]
        config = {text.partition("=")[0]: "y" for text in on}
        cases = {"getppid": [("a", 10 + 5 * ("A" in config or "CHOICE" in config))]}
        return Outcome(status=MEASURED, recording=built(cases, config=config))


def test_each_option_is_measured_on_and_off(monkeypatch: pytest.MonkeyPatch) -> None:
    source = Built()
    monkeypatch.setattr(study_ablation, "perform", source)
    monkeypatch.setattr(
        study_ablation, "knows_option", lambda revision, name, arch: name[-1] != "Z"
    )
    unit = Unit(
        spec="source:6.12",
        arch="arm64",
        measurement=ExactOptions(("getppid",)),
        source=Revision(Repository("git x"), "1" * 40, "2" * 40),
        request=Request(sets=("CONFIG_A=n", "CONFIG_B=y")),
    )
    broken = [Option("CONFIG_BROKEN")]
    assert not ablate(unit, broken, named=False).rows[0].cases
    with pytest.raises(UserError, match="does not build"):
        ablate(unit, broken, named=True)
    source.asked.clear()
    names = ("CONFIG_A", "CONFIG_CHOICE", "CONFIG_BROKEN", "CONFIG_Z")
    table = ablate(unit, [Option(name) for name in names], named=False)
    rows = {row.option: row for row in table.rows}
    assert rows["CONFIG_A"].cases["getppid"].delta == 5
    # An option of a choice cannot be set to n, and is off where it is not asked for.
    assert rows["CONFIG_CHOICE"].cases["getppid"].delta == 5
    assert rows["CONFIG_BROKEN"].problem == "does not build"
    assert table.passed_over == ("CONFIG_Z",)
    # What the user set stays, but for the option itself.
    assert all("CONFIG_B=y" in sets for sets in source.asked)
    assert ("CONFIG_A=y", "CONFIG_B=y") in source.asked
    # An option that does not build on is not built off.
    assert not any("CONFIG_BROKEN=n" in sets for sets in source.asked)
