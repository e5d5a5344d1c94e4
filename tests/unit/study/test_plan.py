# SPDX-License-Identifier: GPL-2.0-or-later
"""Plans of units: how they are performed, what becomes of one that fails."""

from __future__ import annotations

import time
from concurrent.futures import Executor, ProcessPoolExecutor, ThreadPoolExecutor
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path
from threading import Barrier

import pytest

from kentry.boot.exact import ExactOptions
from kentry.count import cache
from kentry.errors import BuildError, GuestError, RecordingError
from kentry.progress import Update
from kentry.results.recording import write_recording
from kentry.results.studies import MEASURED, NO_BOOT, NO_BUILD
from kentry.study import plan
from kentry.study.plan import Outcome, Unit, measure_all, outcomes, perform, performed_by
from tests.builders import image_kernel, recording

UNIT = Unit(spec="kernel", arch="arm64", measurement=ExactOptions(("getppid",)))


@pytest.fixture
def units(tmp_path: Path) -> list[Unit]:
    """Recordings of 1, 2 and 3 instructions."""
    made = []
    for count in (1, 2, 3):
        file = tmp_path / f"{count}.json"
        write_recording(recording({"getppid": [("a", count)]}), file)
        made.append(replace(UNIT, spec=str(file), source=file))
    return made


@pytest.mark.parametrize("pool", [None, ThreadPoolExecutor, ProcessPoolExecutor])
def test_each_unit_is_performed(units: list[Unit], pool: type[Executor] | None) -> None:
    with pool() if pool else nullcontext() as executor:
        performed = dict(outcomes(perform, units, executor=executor))
        values = [
            performed[place].measured(UNIT).cases[0].metrics["instructions"].value
            for place in range(3)
        ]
        assert values == [1, 2, 3]
        units[1] = replace(UNIT, source=Path("/gone.json"))
        with pytest.raises(RecordingError):
            list(outcomes(perform, units, executor=executor))


def test_recordings_are_in_the_order_of_their_units_whoever_is_done_first(
    units: list[Unit], monkeypatch: pytest.MonkeyPatch
) -> None:
    others = Barrier(3)

    def first_last(unit: Unit, update: Update | None = None) -> Outcome:
        if unit is not units[0]:
            done = perform(unit)
            others.wait()
            return done
        others.wait()
        time.sleep(0.2)
        return perform(unit)

    monkeypatch.setattr(plan, "perform", first_last)
    with ThreadPoolExecutor(3) as executor, performed_by(executor):
        made = measure_all(units)
    assert [one.cases[0].metrics["instructions"].value for one in made] == [1, 2, 3]


def test_here_a_unit_is_performed_when_the_one_before_has_been_taken(units: list[Unit]) -> None:
    performed = []

    def note(unit: Unit, update: Update) -> Outcome:
        performed.append(unit.spec)
        return Outcome(status=MEASURED)

    for place, _ in outcomes(note, units):
        assert len(performed) == place + 1


@pytest.mark.parametrize(
    ("error", "status", "detail"),
    [
        (BuildError("No.", "Look.", "cc1: no"), NO_BUILD, "cc1: no\nLook."),
        (GuestError("Stuck.", "Wait.", "panic"), NO_BOOT, "panic"),
    ],
)
def test_what_does_not_build_or_boot_is_an_outcome(
    monkeypatch: pytest.MonkeyPatch, error: BuildError | GuestError, status: str, detail: str
) -> None:
    def fail(*_: object, **__: object) -> None:
        raise error

    monkeypatch.setattr(cache, "record", fail)
    outcome = perform(replace(UNIT, source=image_kernel()))
    assert (outcome.status, outcome.recording) == (status, None)
    assert outcome.problem
    assert (outcome.problem.sentence, outcome.problem.detail) == (error.sentence, detail)
    with pytest.raises(type(error), match=r"^second: (No|Stuck)\."):
        measure_all([replace(UNIT, source=image_kernel(), label="second")])
