# SPDX-License-Identifier: GPL-2.0-or-later
"""Recordings of a program: what they have, what a patch gives it, its metrics and budgets."""

from pathlib import Path
from unittest.mock import Mock

import msgspec
import pytest
from msgspec.structs import replace

from kentry.arch import Arch, find_arch
from kentry.boot.exact import ExactOptions
from kentry.boot.guest_tasks import TraceOptions
from kentry.boot.userland.root_image import find_release
from kentry.boot.userland.workloads import find_workload
from kentry.cli import main
from kentry.commands import check as command
from kentry.count.program import program_recording
from kentry.count.workload_cache import Program
from kentry.errors import EXIT_DONE, EXIT_MISTAKE, EXIT_REGRESSION, GuestError, UserError
from kentry.kernels.kernel import Kernel
from kentry.kernels.tree import find_range
from kentry.results.document import to_json
from kentry.results.recording import Recording, read_recording, write_recording
from kentry.results.studies import NO_BOOT, Problem
from kentry.results.workload import Workload, write_workload
from kentry.study import plan
from kentry.study.bisection import Question, bisect
from kentry.study.commits import Commits, Meter, Pair, value
from kentry.study.plan import Unit, outcomes, perform
from kentry.study.program import metric
from tests.builders import validate
from tests.unit.compare.test_workload import REAL, dearer, grown, with_rows
from tests.unit.count.test_cache import KERNEL
from tests.unit.study.test_check import verdict
from tests.unit.study.test_log import committed
from tests.unit.study.test_series import table


def with_user(boot: Workload, more: int, seed: int) -> Workload:
    """Another boot, whose user code executes more."""
    rows = tuple(
        replace(
            row,
            instructions=row.instructions + more,
            functions=((row.functions[0][0], row.functions[0][1] + more), *row.functions[1:]),
        )
        if row.what == "user"
        else row
        for row in boot.rows
    )
    target = {**boot.target, "seed": seed}
    return replace(boot, rows=rows, instructions=boot.instructions + more, target=target)


def ran(more: int = 0, spread: int = 0) -> Recording:
    """Three boots in which each entry executes `more` and user code varies by `spread`."""
    own = dearer(REAL, more)
    return program_recording([with_user(own, spread * n, n + 1) for n in range(3)], {})


def of_others(boot: Workload, name: str, more: int) -> Workload:
    """A boot in which one kind alone executes more, in its handler."""
    row = boot.row(name)
    assert row
    changed = grown(row, more, row.functions[0][0])
    return with_rows(boot, [changed if one is row else one for one in boot.rows])


def test_a_recording_of_a_program_is_read_back(tmp_path: Path) -> None:
    recording, file = ran(spread=7), tmp_path / "r.json"
    write_recording(recording, file)
    validate(msgspec.json.decode(file.read_bytes()), "recording-1")
    assert to_json(read_recording(file)) == to_json(recording)
    assert [context["seed"] for context in recording.contexts] == [1, 2, 3]
    row, [case] = REAL.row("close"), [one for one in recording.cases if one.name == "close"]
    assert row
    assert dict(case.metrics["instructions"].samples) == {v: 3 * n for v, n in row.values}
    assert case.metrics["total"].samples == ((row.instructions, 3),)
    calls = sum(one.calls for one in REAL.rows if one.handled)
    assert value(recording, "entry", "calls") == calls
    assert value(recording, "kernel", "total") == REAL.kernel_instructions
    share = 100 * REAL.kernel_instructions / REAL.instructions
    ends = recording.cases[1].noisy["share"].interval
    least = share * REAL.instructions / (REAL.instructions + 14)
    assert ends and ends == pytest.approx([least, share])


def test_a_program_that_never_ended_an_entry_has_no_recording() -> None:
    rows = tuple(row for row in REAL.rows if row.what == "user")
    silent = replace(
        REAL, slices=None, rows=rows, programs=(), instructions=sum(r.instructions for r in rows)
    )
    with pytest.raises(GuestError):
        program_recording([silent], {})


def test_what_a_patch_gives_a_program_adds_up() -> None:
    found = table(ran(), ran(-9), ("arm64", Problem(NO_BOOT, "no mark")), ran(-4), ran(-4))
    base = found.programs["arm64"]
    assert base.seeds == (1, 2, 3)
    assert base.kernel_instructions == REAL.kernel_instructions
    steps = [row.cases["entry"].step for row in found.rows if row.cases]
    assert steps == [0, -9, 5, 0]
    given = [row.program["arm64"].entry for row in found.rows if row.patch and row.cases]
    calls = base.system_calls
    assert [one.instructions for one in given] == [-9 * calls, 5 * calls, 0]
    assert given[0].of_kernel == 100 * -9 * calls / REAL.kernel_instructions
    assert given[0].of_all == 100 * -9 * calls / REAL.instructions
    # Every kind with a count has the entry's step, and nothing else changed.
    patched = [row.program["arm64"] for row in found.rows if row.program and row.patch]
    assert [one.whole for one in patched] == [one.entry for one in patched]
    assert not found.rows[2].program


def test_a_change_in_a_handler_is_given_beside_the_entry() -> None:
    boots, close = 4 * [of_others(dearer(REAL, 3), "close", -11)], REAL.row("close")
    found = table(program_recording([REAL] * 4, {}), program_recording(boots, {}))
    step = found.rows[1].program["arm64"]
    assert close and found.rows[1].cases["close"].step == 3 - 11
    assert step.entry.instructions == 3 * found.programs["arm64"].system_calls
    assert step.whole.instructions == step.entry.instructions - 11 * close.calls


def test_a_kind_that_varies_has_no_column_and_is_named() -> None:
    found = table(ran(), ran(3))
    names = {column.case for column in found.columns}
    assert "openat" not in names and {"entry", "close", "page fault"} <= names
    [note] = [caveat for caveat in found.caveats if caveat["kind"] == "undecided-kind"]
    assert "openat" in note["text"]


def test_a_metric_is_a_kind_and_what_of_it() -> None:
    assert metric("read.instructions") == ("read", "instructions")
    assert metric("page fault.calls") == ("page fault", "calls")
    for text in ("read", "read.loads", ".share", "instructions"):
        with pytest.raises(UserError):
            metric(text)


@pytest.mark.parametrize(
    ("lines", "sides", "expected"),
    [
        ("entry.instructions = 263", (ran(spread=9),), "within"),
        ("entry.instructions = 262", (ran(spread=9),), "over"),
        ("entry.instructions = '+2'", (ran(2), ran()), "within"),
        ("entry.instructions = '+2'", (ran(3), ran()), "over"),
        ("close.instructions = '+0'", (ran(3), ran()), "over"),
        ("close.instructions = '+0'", (ran(0), ran(3)), "within"),
        # Which calls there are decides what a call costs.
        ("openat.instructions = '+9'", (ran(3), ran()), "undecided"),
        # Some boots have more, some less.
        ("kernel.share = 80.11", (ran(spread=100),), "undecided"),
        ("kernel.share = 80.2", (ran(spread=100),), "within"),
        ("kernel.share = 80.0", (ran(spread=100),), "over"),
        ("kernel.share = '+0.1'", (ran(9), ran()), "within"),
        ("kernel.share = '+0.001'", (ran(9), ran()), "over"),
        ("kernel.share = '+0.005'", (ran(spread=100), ran(spread=100)), "undecided"),
        ("entry.total = '+0.8 %'", (ran(2), ran()), "within"),
        ("entry.total = '+0.8 %'", (ran(3), ran()), "over"),
        ("entry.calls = 55", (ran(),), "within"),
        ("ptrace.share = 1", (ran(),), "undecided"),
    ],
)
def test_a_budget_of_a_program(
    lines: str, sides: tuple[Recording, ...], expected: str, tmp_path: Path
) -> None:
    assert verdict(tmp_path / "budgets.toml", lines, *sides) == expected


def test_a_bisection_is_sure_where_all_boots_differ() -> None:
    def apart(old: Recording, new: Recording, case: str, metric: str) -> tuple[object, bool]:
        found = Pair(old, new, [case], metric).difference(case)
        return found.delta, found.is_sure

    assert apart(ran(), ran(3), "entry", "instructions") == (3, True)
    assert apart(ran(), ran(), "entry", "instructions") == (0, False)
    assert apart(ran(), ran(3), "close", "instructions") == (3, True)
    assert not apart(ran(), ran(3), "openat", "instructions")[1]
    assert apart(ran(), ran(3), "entry", "total") == (3 * 55, True)
    assert apart(ran(), ran(30), "entry", "share")[1]
    assert not apart(ran(spread=20000), ran(3, spread=20000), "entry", "share")[1]


@pytest.mark.parametrize(
    ("asked", "steps"),
    [("entry.instructions", [0, 0, 3, 3, 3]), ("kernel.share", [0, 0, 60, 60, 60])],
)
def test_a_bisection_names_the_commit_that_changed_a_metric(
    asked: str, steps: list[int], tmp_path: Path
) -> None:
    # User code varies from boot to boot by less than the change.
    tree = committed(tmp_path, [ran(more, spread=50) for more in steps])
    case, name = metric(asked)
    span = find_range(tree, "master~4", "master")
    measurer = Meter([str(tmp_path / "measure")], tmp_path)
    state = tmp_path / "state"
    state.mkdir()
    searched = Commits(state, measurer, [case], name, lambda fraction, now: None)
    found = bisect(span, Question(cases=(case,), metric=name), searched, {"tree": str(tree)})
    assert found.culprit and found.culprit.subject == "commit 2"
    assert len(found.culprits) == 1 and found.culprit.delta > 0


@pytest.mark.parametrize(
    "words",
    [
        ["series", "source:6.12", "p", "--run", "true", "--case", "read"],
        ["series", "source:6.12", "p", "--run", "true", "--metric", "loads"],
        ["series", "source:6.12", "p", "--packages", "git"],
        ["check", "debian:6.12", "--budget", "b.toml", "--run", "true", "--case", "read"],
        ["check", "workload.json", "--budget", "b.toml", "--run", "true"],
        ["check", "floor:", "--budget", "b.toml", "--run", "true"],
        ["bisect", "--good", "a", "--bad", "b", "--run", "true", "--meter", "./m"],
        ["bisect", "--good", "HEAD", "--bad", "HEAD", "--run", "true", "--metric", "loads"],
        ["bisect", "--continue", "--run", "true"],
    ],
)
def test_what_has_no_effect_on_a_program_is_a_mistake(
    words: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "b.toml").write_text("[all]\nread.instructions = 1\n")
    write_workload(REAL, tmp_path / "workload.json")
    monkeypatch.chdir(tmp_path)
    assert main(words) == EXIT_MISTAKE


def test_a_file_of_one_run_is_held_against_budgets(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    write_workload(REAL, Path("run.json"))
    Path("b.toml").write_text("[arm64]\nentry.instructions = 262\n")
    assert main(["check", "run.json", "--budget", "b.toml", "--json"]) == EXIT_REGRESSION
    [row] = msgspec.json.decode(capsys.readouterr().out)["rows"]
    assert (row["name"], row["metric"], row["value"]) == ("entry", "instructions", 263)


def test_a_kernel_is_held_against_budgets_by_its_boots(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[Unit] = []

    def measured(units: list[Unit]) -> list[Recording]:
        asked.extend(units)
        return [ran(3)]

    monkeypatch.setattr(command, "measure_all", measured)
    monkeypatch.chdir(tmp_path)
    write_recording(ran(), Path("base.json"))
    Path("b.toml").write_text('baseline.arm64 = "base.json"\n[arm64]\nentry.instructions = "+2"\n')
    words = ["check", "debian:6.12", "--arch", "arm64", "--budget", "b.toml", "--run", "true"]
    assert main(words) == EXIT_REGRESSION
    assert main([*words, "--update"]) == EXIT_DONE
    assert main(words) == EXIT_DONE
    [program, *_] = [unit.program for unit in asked]
    assert program and program.seeds == (1, 2, 3) and program.workload.summary == "true"
    # A kernel that is built has what a user space needs.
    assert asked[0].request.config == "userland"


PROGRAM = Program(
    workload=find_workload(["true"]),
    release=find_release(None, find_arch("arm64")),
    options=TraceOptions(),
    seeds=(1, 2, 3),
)


def test_a_unit_runs_its_program_and_one_that_fails_has_its_reason(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def boots(kernel: Kernel, arch: Arch, asked: Program, *_: object, reuse: bool) -> object:
        assert (kernel, asked, reuse) == (KERNEL, PROGRAM, False)
        return [with_user(REAL, 0, seed) for seed in asked.seeds]

    unit = Unit(
        spec="x",
        arch="arm64",
        measurement=ExactOptions(("getppid",)),
        program=PROGRAM,
        source=KERNEL,
        fresh=True,
    )
    monkeypatch.setattr(plan, "run_program", boots)
    [(_, done)] = outcomes(perform, [unit], lambda fraction, now: None)
    assert done.recording and done.recording.program == REAL.workload
    assert done.recording.kernel["image_sha256"] == KERNEL.image_sha256
    assert done.recording.kernel["release"] == REAL.kernel["release"]
    failed = GuestError("The program ended with exit code 1 on x.", "", "no such file")
    monkeypatch.setattr(plan, "run_program", Mock(side_effect=failed))
    [(_, ended)] = outcomes(perform, [unit], lambda fraction, now: None)
    assert ended.problem and (ended.status, ended.problem.detail) == (NO_BOOT, "no such file")
