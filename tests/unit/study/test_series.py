# SPDX-License-Identifier: GPL-2.0-or-later
"""The table of a series: steps against the last count there is, sums, what else differs."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from dataclasses import replace as replace_unit
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from msgspec.structs import replace

from kentry.boot.exact import ExactOptions
from kentry.compare.counted import compare
from kentry.errors import BuildError, UserError
from kentry.kernels import build, made_of, tree
from kentry.kernels.patches import Step
from kentry.kernels.resolve import Lineup
from kentry.progress import Update
from kentry.results.comparison import Comparison
from kentry.results.document import to_json
from kentry.results.recording import Metric, Recording, VectorEvent
from kentry.results.studies import MEASURED, NO_APPLY, NO_BUILD, Problem, Series
from kentry.show.series import series_layout
from kentry.show.text import to_text
from kentry.study import series as study_series
from kentry.study.plan import Outcome, Unit
from kentry.study.series import measure_series, tabulate
from tests.builders import built, outcome, validate
from tests.unit.kernels import sources
from tests.unit.vector.builders import with_events

ORIGIN = {"base": "source:6.12", "base-commit": "a" * 40}

BASE = built({"getppid": [("el0_svc", 40), ("invoke_syscall", 20)], "vdso": []})
SHORTER = built({"getppid": [("el0_svc", 40), ("invoke_syscall", 15)], "vdso": []})
INLINED = built({"getppid": [("el0_svc", 52)], "vdso": []})


def table(*kernels: Recording | tuple[str, Problem], **more: Any) -> Series:
    """The series of the baseline and of a patch for each further kernel, as its schema says."""
    rows = [outcome(number, f"patch {number}", one) for number, one in enumerate(kernels)]
    series = tabulate(rows, ORIGIN, **more)
    validate(to_json(series), "series-1")
    return series


def test_a_count_without_a_path_does_not_say_which_instructions() -> None:
    lost = built({"getppid": [], "vdso": []}, samples={"getppid": {60: 1000}})
    cell = table(BASE, lost).rows[1].cases["getppid"]
    assert (cell.step, cell.identical_path, cell.path_known) == (0, False, False)


def test_what_a_patch_changes_besides_the_source_is_its_caveat() -> None:
    other = built({"getppid": [("el0_svc", 52)], "vdso": []}, config={"PREEMPT": "n", "HZ": "250"})
    other.caveats.append({"kind": "windows-lost", "text": "getppid has 3 windows of 1000"})
    series = table(BASE, other, other)
    kinds = [[one["kind"] for one in row.caveats] for row in series.rows]
    # What stays as the patch before made it, stays said; the difference is that patch's own.
    assert kinds == [[], ["windows-lost", "config-differs"], ["windows-lost"]]


# --- vector events -------------------------------------------------------

STATE = "getppid+vec=once"
DISCARD = VectorEvent("discard", "syscall", "do_trap_ecall_u", 1)
SAVE = VectorEvent("save", "syscall", "do_trap_ecall_u", 2)


def with_state(*events: VectorEvent, markers: dict[str, str] | None = None) -> Recording:
    found = built({STATE: [("do_trap_ecall_u", 9)]}, arch="riscv64")
    return with_events(found, {STATE: events}, markers)


def test_a_step_has_the_events_that_changed_in_it() -> None:
    series = table(
        with_state(DISCARD),
        with_state(DISCARD, SAVE),
        ("riscv64", Problem(NO_BUILD, "no")),
        with_state(SAVE),
        with_state(SAVE),
    )
    events = [
        [(one.name, one.old, one.new) for one in row.cases[STATE].events]
        for row in series.rows
        if STATE in row.cases
    ]
    assert events == [[], [("save", 0, 2)], [("discard", 1, 0)], []]
    cells = [row["cases"].get(STATE, {}) for row in to_json(series)["rows"]]
    assert ["events" in cell for cell in cells] == [False, True, False, True, False]
    assert cells[1]["events"] == [
        {"name": "save", "cause": "syscall", "old": 0, "new": 2, "functions": ["do_trap_ecall_u"]}
    ]


def test_an_event_without_a_marker_on_a_side_is_no_change_in_a_step() -> None:
    unknown = with_state(markers={"save": "vse8.v v24,(rs)"})
    series = table(with_state(DISCARD), unknown)
    assert series.rows[1].cases[STATE].events == ()


def with_loads(recording: Recording, samples: dict[int, int]) -> Recording:
    cases = [
        replace(case, metrics=case.metrics | {"loads": Metric.of(samples)})
        for case in recording.cases
    ]
    return replace(recording, cases=cases)


def test_a_metric_has_steps_that_add_up_and_none_where_windows_do_not_agree() -> None:
    samples = ({20: 128}, {17: 128}, {17: 64, 18: 64}, {19: 128})
    kernels = (BASE, SHORTER, SHORTER, INLINED)
    sides = [with_loads(*pair) for pair in zip(kernels, samples, strict=True)]
    series = table(*sides, metrics=["instructions", "loads"])
    found = [row.cases["getppid"].metrics for row in series.rows]
    steps = [one["loads"] and (one["loads"].value, one["loads"].step) for one in found]
    assert steps[:3] == [(20, 0), (17, -3), None]
    assert all(set(one) == {"loads"} for one in found)
    last = found[3]["loads"]
    assert last and (last.value, last.total) == (19, -1)


def test_a_metric_that_the_baseline_lacks_is_a_mistake() -> None:
    with pytest.raises(UserError, match="loads"):
        table(BASE, metrics=["loads"])


# --- measuring -----------------------------------------------------------


def test_each_row_is_compared_once_with_the_one_before(monkeypatch: pytest.MonkeyPatch) -> None:
    calls: Counter[tuple[int, int]] = Counter()

    def counted(
        old: Recording, new: Recording, cases: list[str], metrics: Sequence[str] = ()
    ) -> Comparison:
        calls[id(old), id(new)] += 1
        return compare(old, new, cases, metrics)

    monkeypatch.setattr(study_series, "compare", counted)
    kernels = [
        built({case: [("el0_svc", 40 + place)] for case in ("getppid", "read", "pipe")})
        for place in range(11)
    ]
    table(*kernels)
    # Ten patches of three cases, and the first kernel with the last.
    assert calls.total() == 11
    assert max(calls.values()) == 1


@pytest.fixture
def lineup(tmp_path: Path) -> Lineup:
    """A base and three patches: of a file that is compiled, of another, of no kernel at all."""
    folder = sources.repository(tmp_path / "linux")
    base = tree.of_commit(folder, "HEAD")
    steps = []
    for number, file in enumerate(("kernel/fork.c", "arch/riscv/a.c"), start=1):
        revision = tree.of_commit(folder, sources.commit(folder, file, {file: "int x;\n"}))
        steps.append(Step(number, file, revision))
    return Lineup("source:6.12", {}, base, (*steps, Step(3, "stale", None, "does not apply.")))


@dataclass
class Performed:
    """What the units of a plan come to: by spec the instructions, or none."""

    counts: dict[str, int | None]
    units: list[Unit] = field(default_factory=list)

    def __call__(self, unit: Unit, update: Update | None = None) -> Outcome:
        self.units.append(unit)
        count = self.counts[unit.spec]
        if count is None:
            return Outcome(status=NO_BUILD, error=BuildError("does not build: x", "Look."))
        return Outcome(status=MEASURED, recording=built({"getppid": [("a", count)]}))


UNIT = Unit(spec="source:6.12", arch="arm64", measurement=ExactOptions(("getppid",)))


def test_a_row_is_kept_and_said_as_soon_as_it_is_measured(
    lineup: Lineup, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    performed = Performed(
        {"source:6.12": 60, "source:6.12 + patch 1": 57, "source:6.12 + patch 2": None}
    )
    monkeypatch.setattr(study_series, "perform", performed)
    kept: list[int] = []

    def keep(number: int, recording: Recording) -> Recording:
        assert len(kept) == len(performed.units) - 1
        kept.append(number)
        return recording

    rows = measure_series(lineup, [UNIT], keep)
    assert kept == [0, 1]
    assert [sorted(row.recordings) for row in rows] == [["arm64"], ["arm64"], [], []]
    statuses = [row.problems["arm64"].status for row in rows if row.problems]
    assert statuses == [NO_BUILD, NO_APPLY]
    said = capsys.readouterr().err
    assert "patch 1 of 3 (arm64): getppid 57" in said
    assert "(arm64): does not build" in said


def test_architectures_are_in_their_order_whoever_is_done_first(
    lineup: Lineup, monkeypatch: pytest.MonkeyPatch
) -> None:
    specs = ("source:6.12", "source:6.12 + patch 1")
    performed = Performed({**dict.fromkeys(specs, 60), "source:6.12 + patch 2": None})

    def last_first(function: object, units: list[Unit]) -> list[tuple[int, Outcome]]:
        return [(index, performed(unit)) for index, unit in reversed([*enumerate(units)])]

    monkeypatch.setattr(study_series, "outcomes", last_first)
    arches = ["arm64", "riscv64"]
    units = [replace_unit(UNIT, arch=arch) for arch in arches]
    rows = measure_series(lineup, units, lambda number, one: one)
    assert [[*row.recordings, *row.problems] for row in rows] == [arches] * 4


def test_a_patch_of_which_nothing_is_compiled_says_so(
    lineup: Lineup, monkeypatch: pytest.MonkeyPatch
) -> None:
    specs = ("source:6.12", "source:6.12 + patch 1", "source:6.12 + patch 2")
    monkeypatch.setattr(study_series, "perform", Performed(dict.fromkeys(specs, 60)))
    files = frozenset({"kernel/fork.c", "arch/arm64/a.c", "include/linux/kconfig.h"})
    monkeypatch.setattr(made_of, "read", lambda folder: made_of.MadeOf(files, {}, {}))
    monkeypatch.setattr(build, "plan", lambda *_: SimpleNamespace(key=lambda: "x"))
    series = tabulate(measure_series(lineup, [UNIT], lambda number, one: one), ORIGIN)
    document = to_json(series)
    validate(document, "series-1")
    assert [row.get("not_compiled") for row in document["rows"]] == [None, None, ["arm64"], None]
    text = to_text(series_layout(series, functions=False))
    [line] = [one for one in text.splitlines() if "compiled" in one]
    assert line.startswith("Patch 2:")


def test_a_baseline_that_cannot_be_measured_ends_the_series(
    lineup: Lineup, monkeypatch: pytest.MonkeyPatch
) -> None:
    performed = Performed({"source:6.12": None})
    monkeypatch.setattr(study_series, "perform", performed)
    with pytest.raises(BuildError):
        measure_series(lineup, [UNIT], lambda number, one: one)
    assert len(performed.units) == 1
