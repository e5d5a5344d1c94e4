# SPDX-License-Identifier: GPL-2.0-or-later
"""Which executor --on names, and what it is refused for; real ones are in tests/qemu."""

from __future__ import annotations

import os
from concurrent.futures import Future, ProcessPoolExecutor
from dataclasses import replace
from importlib.metadata import EntryPoint
from pathlib import Path

import pytest

from kentry.boot.exact import ExactOptions
from kentry.cli import main
from kentry.errors import GuestError, UserError
from kentry.results.recording import write_recording
from kentry.results.studies import NO_BOOT
from kentry.study import executors
from kentry.study.plan import Outcome, Unit, measure_all, outcomes
from tests.builders import recording

UNIT = Unit(spec="kernel", arch="arm64", measurement=ExactOptions(("getppid",)))


class Pool(ProcessPoolExecutor):
    """The words after its name are how many processes it has."""

    def __init__(self, words: str) -> None:
        super().__init__(int(words))


@pytest.fixture(autouse=True)
def _another_package(monkeypatch: pytest.MonkeyPatch) -> None:
    def entry_points(group: str) -> list[EntryPoint]:
        return [EntryPoint("pool", f"{__name__}:Pool", group)]

    monkeypatch.setattr(executors, "entry_points", entry_points)


def test_an_executor_of_another_package_performs_all_plans_of_the_block(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    write_recording(recording({"getppid": [("a", 7)]}), tmp_path / "one.json")
    units = [replace(UNIT, source=tmp_path / "one.json")] * 3

    def here(unit: Unit, update: object) -> Outcome:
        return Outcome(status=str(os.getpid()))

    with executors.on("pool:2"):
        counts = [one.cases[0].metrics["instructions"].value for one in measure_all(units)]
        assert counts == [7, 7, 7]
        # What is no kernel is not handed on.
        assert {one.status for _, one in outcomes(here, units)} == {str(os.getpid())}
    assert "kernels to measure: 3" in capfd.readouterr().err
    measure_all(units)
    assert "kernels to measure" not in capfd.readouterr().err


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("dsk:10.0.0.1:1", "Unknown executor 'dsk:10.0.0.1:1'. Did you mean dask?"),
        ("dask:", "No scheduler of dask's answers at no address"),
        ("slurm:2", "sbatch, by which Slurm takes jobs, is not here"),
        ("slurm:many", "is not here|'many' is no number of jobs"),
    ],
)
def test_what_is_not_there_is_said(
    name: str, words: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("PATH", "/nonexistent")
    with pytest.raises(UserError, match=words.replace("?", r"\?")), executors.on(name):
        pass
    assert main(["record", "floor:", "--arch", "arm64", "--on", name]) == 2
    assert capsys.readouterr().err.startswith("kentry: ")


def test_only_what_is_built_needs_a_compiler(tmp_path: Path) -> None:
    built = replace(UNIT, spec="source:6.12,compiler=gcc-12")
    # The spec of a recording is its file.
    read = replace(UNIT, spec=str(tmp_path / "one.json"), source=tmp_path / "one.json")
    units = (built, replace(UNIT, spec="debian:6.12"), read)
    assert [executors._compiler(unit) for unit in units] == ["gcc-12", "", ""]


def test_a_worker_that_came_later_is_looked_at_when_it_performs_a_unit() -> None:
    version = executors._version()
    tools = executors._tools(UNIT.arch, "gcc")

    def performed(version: str, compiler: str, tools: str) -> object:
        return executors._perform(lambda unit: unit, version, compiler, tools, UNIT)

    assert performed(version, "", "") == performed(version, "gcc", tools) == UNIT
    with pytest.raises(UserError, match=r"kentry .* 0\.0"):
        performed("0.0", "", "")
    with pytest.raises(UserError, match="compiler .* gcc 3"):
        performed(version, "gcc", "gcc 3")


def test_a_unit_whose_workers_die_is_a_result_and_a_lost_scheduler_an_error() -> None:
    from distributed.client import FutureCancelledError
    from distributed.scheduler import KilledWorker, WorkerState

    def finished(error: Exception) -> Future[Outcome]:
        raw, done = Future[Outcome](), Future[Outcome]()
        raw.set_exception(error)
        executors._finish(done, raw)
        return done

    worker = WorkerState(
        address="tcp://a:1", status="running", pid=1, name="a", nthreads=1, memory_limit=0,
        local_directory="", nanny="", server_id="a", services=None, versions=None, extra={},
        scheduler=pytest,
    )  # fmt: skip
    lost = finished(KilledWorker("unit", worker, 3)).result()
    assert lost.status == NO_BOOT and isinstance(lost.error, GuestError)
    assert "its worker died, and so did 3 more" in lost.error.sentence
    with pytest.raises(UserError, match="scheduler went away.*same command again"):
        finished(FutureCancelledError("unit", "lost")).result()
    with pytest.raises(ZeroDivisionError):
        finished(ZeroDivisionError()).result()
