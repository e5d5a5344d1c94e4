# SPDX-License-Identifier: GPL-2.0-or-later
"""Which lines --plan writes; what a line performs and ends with; real ones are in tests/qemu."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace
from pathlib import Path

import pytest

from kentry.boot.exact import ExactOptions
from kentry.cli import main
from kentry.errors import BuildError, GuestError, KentryError, UserError
from kentry.results.recording import write_recording
from kentry.results.studies import MEASURED, NO_BOOT, NO_BUILD
from kentry.study import executors, plan, plan_file
from kentry.study.plan import Outcome, StandIn, Unit, outcomes
from tests.builders import recording

UNIT = Unit(spec="a", arch="arm64", measurement=ExactOptions(("getppid",)))
UNITS = [replace(UNIT, spec=name) for name in "abc"]
ARGV = ["log", "a kernel", "--plan", "FILE", "--arch", "arm64"]
ERRORS: dict[str, KentryError] = {
    "b": BuildError("It does not compile.", "Read the log.", "an error\n"),
    "c": GuestError("It does not boot."),
}


@pytest.fixture
def performed(monkeypatch: pytest.MonkeyPatch) -> list[Unit]:
    """The units that were performed; b does not build, and c does not boot."""
    units: list[Unit] = []

    def perform(unit: Unit, update: object = None) -> Outcome:
        units.append(unit)
        error = ERRORS.get(unit.spec)
        status = {"b": NO_BUILD, "c": NO_BOOT}.get(unit.spec, MEASURED)
        return Outcome(status=status, error=error, seconds=2.5)

    monkeypatch.setattr(plan, "perform", perform)
    monkeypatch.setattr(plan_file, "perform", perform)
    return units


def lines_of(
    tmp_path: Path, command: Callable[[], object], argv: Sequence[str] = ARGV
) -> list[str]:
    file = tmp_path / "plan"
    with plan_file.written(file, argv):
        command()
    return file.read_text().splitlines()


def all_at_once() -> dict[int, Outcome]:
    return dict(outcomes(plan.perform, UNITS))


def unit_of(line: str) -> str:
    """What --on is in a line."""
    words = shlex.split(line, comments=True)
    return words[words.index("--on") + 1]


def test_a_plan_has_a_line_for_each_unit_that_nobody_performed(
    performed: list[Unit], tmp_path: Path
) -> None:
    lines = lines_of(tmp_path, all_at_once)
    assert [line.partition("  # ")[2] for line in lines] == ["a", "b", "c"]
    words = [shlex.split(line, comments=True) for line in lines]
    assert {(*one[:4], *one[5:]) for one in words} == {
        ("kentry", "log", "a kernel", "--on", "--arch", "arm64")
    }
    assert len({unit_of(line) for line in lines}) == 3 and not performed
    with executors.on(unit_of(lines[0])):
        all_at_once()
    assert [unit.spec for unit in performed] == ["a"]
    assert lines_of(tmp_path, all_at_once) == lines[1:]
    # A line that is run twice performs its unit twice.
    with executors.on(unit_of(lines[0])):
        all_at_once()
    assert [unit.spec for unit in performed] == ["a", "a"]


def test_what_has_no_recording_is_a_row_once_its_line_has_said_so(
    performed: list[Unit], tmp_path: Path
) -> None:
    made: dict[int, Outcome] = {}
    raised: list[AbstractContextManager[object]] = [
        pytest.raises(type(error), match=error.sentence) for error in ERRORS.values()
    ]
    raised.insert(0, nullcontext())
    for line, ends in zip(lines_of(tmp_path, all_at_once), raised, strict=True):
        with ends, executors.on(unit_of(line)):
            all_at_once()
    assert [unit.spec for unit in performed] == ["a", "b", "c"]
    assert not lines_of(tmp_path, lambda: made.update(all_at_once()))
    # Only what has a recording is asked for it again; the others' reasons are kept.
    assert [unit.spec for unit in performed] == ["a", "b", "c", "a"]
    assert [made[index].status for index in range(3)] == [MEASURED, NO_BUILD, NO_BOOT]
    for number, expected in ((1, ERRORS["b"]), (2, ERRORS["c"])):
        kept = made[number].error
        assert type(kept) is type(expected) and vars(kept) == vars(expected)
    assert made[1].seconds == 2.5


def test_a_search_is_planned_round_by_round(performed: list[Unit], tmp_path: Path) -> None:
    ended = []

    def search() -> None:
        for unit in UNITS[:2]:
            dict(outcomes(plan.perform, [unit]))
        ended.append(True)

    names = []
    while lines := lines_of(tmp_path, search):
        names += [line.partition("  # ")[2] for line in lines]
        try:
            with executors.on(unit_of(lines[0])):
                search()
        except BuildError as err:
            names.append(err.sentence)
    assert names == ["a", "b", ERRORS["b"].sentence] and ended == [True]


def test_a_line_whose_unit_the_command_no_longer_has_is_refused(
    performed: list[Unit], tmp_path: Path
) -> None:
    for command in (all_at_once, lambda: None):
        with (
            pytest.raises(UserError, match="0123456789abcdef"),
            executors.on("unit:0123456789abcdef"),
        ):
            command()
    assert not performed


def test_what_fails_for_another_reason_stays_in_the_plan(
    performed: list[Unit], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def perform(unit: Unit, update: object = None) -> Outcome:
        raise UserError("The disk is full.")

    lines = lines_of(tmp_path, all_at_once)
    monkeypatch.setattr(plan_file, "perform", perform)
    with pytest.raises(UserError, match="full"), executors.on(unit_of(lines[0])):
        all_at_once()
    assert lines_of(tmp_path, all_at_once) == lines


def test_a_units_name_is_of_what_it_measures_alone() -> None:
    same = [
        replace(UNIT, label="1 of 2", fresh=True),
        replace(UNIT, stand_ins=(StandIn(name="b", built="c", changed=(), executed=frozenset()),)),
    ]
    assert {plan_file._key(unit) for unit in same} == {plan_file._key(UNIT)}
    others = [
        replace(UNIT, spec="b"),
        replace(UNIT, arch="riscv64"),
        replace(UNIT, measurement=ExactOptions(("getppid",), cpu="cortex-a53")),
        replace(UNIT, anew=Path("folder")),
    ]
    assert len({plan_file._key(unit) for unit in (UNIT, *others)}) == 5


def test_a_recordings_file_needs_no_line(tmp_path: Path) -> None:
    write_recording(recording({"getppid": [("a", 7)]}), tmp_path / "one.json")
    counts = []

    def command() -> None:
        [made] = plan.measure_all([replace(UNIT, source=tmp_path / "one.json")])
        counts.append(made.cases[0].metrics["instructions"].value)

    assert not lines_of(tmp_path, command) and counts == [7]


def test_a_plan_of_what_is_measured_in_any_case_is_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ["log", "debian:6.1", "debian:6.12", "--arch", "arm64", "--fresh"]
    assert main([*words, "--plan", str(tmp_path / "plan")]) == 2
    assert "--plan" in capsys.readouterr().err and not (tmp_path / "plan").exists()


def test_a_line_ends_with_the_codes_of_a_bisection(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["record", "floor:", "--arch", "arm64", "--on", "unit:0"]) == 128
    assert "unit 0" in capsys.readouterr().err
