# SPDX-License-Identifier: GPL-2.0-or-later
"""Plans of units: what names a unit, who may perform it, what becomes of one that fails."""

from __future__ import annotations

import pickle
from concurrent.futures import Executor, ProcessPoolExecutor, ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import pytest

from kentry.boot.exact import ExactOptions
from kentry.count import cache
from kentry.errors import BuildError, GuestError, RecordingError
from kentry.kernels.config import Request
from kentry.kernels.repository import Repository, Revision
from kentry.results.bisection import MEASURED
from kentry.results.recording import write_recording
from kentry.results.series import NO_BOOT, NO_BUILD
from kentry.study.plan import Local, Outcome, Unit, outcomes, perform
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


def counts(units: list[Unit], executor: Executor) -> dict[int, int]:
    found = {}
    with executor:
        for place, outcome in outcomes(perform, units, executor):
            assert outcome.recording
            found[place] = outcome.recording.cases[0].metrics["instructions"].value
    return found


def test_any_executor_of_concurrent_futures_performs_a_plan(units: list[Unit]) -> None:
    for executor in (Local(), Local(at_once=2), ThreadPoolExecutor(2), ProcessPoolExecutor(1)):
        assert counts(units, executor) == {0: 1, 1: 2, 2: 3}


def test_units_of_a_source_or_a_kernel_can_be_sent_to_another_process(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("KENTRY_CACHE", str(tmp_path))
    revision = Revision(Repository("git x"), "1" * 40, "2" * 40, {"kind": "tree"})
    for source in (revision, image_kernel()):
        unit = replace(UNIT, source=source)
        copy = pickle.loads(pickle.dumps(unit))
        assert copy.name == unit.name
        assert copy.measurement == unit.measurement


def test_here_a_unit_is_performed_when_the_one_before_has_been_taken(units: list[Unit]) -> None:
    performed = []

    def note(unit: Unit) -> Outcome:
        performed.append(unit.spec)
        return Outcome(status=MEASURED)

    with Local() as executor:
        for place, _ in outcomes(note, units, executor):
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


def test_a_mistake_ends_the_plan(units: list[Unit], tmp_path: Path) -> None:
    units[1] = replace(UNIT, source=tmp_path / "gone.json")
    for executor in (Local(), Local(at_once=2)):
        with pytest.raises(RecordingError), executor:
            list(outcomes(perform, units, executor))


def test_a_unit_is_named_by_its_content(tmp_path: Path) -> None:
    probe, config = tmp_path / "probe", tmp_path / "config"
    probe.write_text("x")
    config.write_text("CONFIG_X=y")
    base = replace(UNIT, source=image_kernel(), request=Request(config=str(config)))
    others = [
        replace(base, source=replace(image_kernel(), image_sha256="f" * 64)),
        replace(base, arch="riscv64"),
        replace(base, request=Request(compiler="clang")),
        replace(base, request=replace(base.request, sets=("CONFIG_A=y",))),
        replace(base, measurement=replace(base.measurement, windows=7)),
        replace(base, measurement=replace(base.measurement, probe=probe)),
    ]
    names = [base.name, *(unit.name for unit in others)]
    assert len(set(names)) == len(names)
    assert replace(base, label="patch 1", fresh=True).name == base.name
    config.write_text("CONFIG_X=n")
    assert base.name != names[0]
