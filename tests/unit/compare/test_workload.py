# SPDX-License-Identifier: GPL-2.0-or-later
"""One program on two kernels: what is called a change, and what sums to what."""

import random
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec
import pytest
from msgspec.structs import replace

from kentry.cli import main
from kentry.commands import diff
from kentry.compare.counted import compare
from kentry.compare.workload import compare_workloads, whole_boots
from kentry.count import workload_cache
from kentry.count.program import program_recording
from kentry.errors import EXIT_DONE, EXIT_MISTAKE, EXIT_REGRESSION, RecordingError, UserError
from kentry.results.document import dump, read_document
from kentry.results.recording import CaseResult, Metric
from kentry.results.workload import ENTRY as ENTRY_CASE
from kentry.results.workload import (
    FAULT,
    INTERRUPT,
    SYSCALL,
    USER,
    Row,
    Workload,
    read_workload,
    write_workload,
)
from kentry.results.workload_comparison import KindDelta, WorkloadComparison
from kentry.stats.exact import BETTER, SAME, UNDECIDED, WORSE
from tests import ROOT
from tests.builders import recording, validate

GOLDEN = ROOT / "tests" / "golden"
# By boot and kind [what, entry and exit, values] of a shell and dd on 6.12, eight seeds.
BOOTS = Path(__file__).with_name("workload_boots.json")
ENTRY = 20

Values = Sequence[tuple[int, int]]


REAL = read_workload(GOLDEN / "workload.json")


def row(
    name: str, values: Values, *, what: str = SYSCALL, around: int | None = None, **more: int
) -> Row:
    """A row of one function beside the entry, of which every call ended."""
    calls, count = sum(times for _, times in values), sum(value * times for value, times in values)
    around = ENTRY * calls if around is None else around
    handled = what == SYSCALL
    known = {"entry": around, "handled": True} if handled else {}
    functions = ((0, around), (1, count - around)) if handled else ((1, count),)
    return Row(
        what=what,  # type: ignore[arg-type]
        name=name,
        instructions=count,
        **{"calls": calls, **known, **more},  # type: ignore[arg-type]
        values=tuple(values),
        functions=functions,
    )


def boot(*rows: Row, seed: int = 1) -> Workload:
    return replace(
        REAL,
        target={**REAL.target, "seed": seed},
        instructions=sum(one.instructions for one in rows),
        functions=("entry", "work"),
        rows=rows,
        programs=(),
        slices=None,
    )


def kind(comparison: WorkloadComparison, name: str) -> KindDelta:
    [found] = [one for one in comparison.kinds if one.name == name]
    return found


def grown(one: Row, more: int, function: int, *, at_entry: bool = False) -> Row:
    """As if a function had `more` instructions in each call of a kind."""
    added = more * one.calls
    return replace(
        one,
        instructions=one.instructions + added,
        entry=one.entry + added * at_entry,
        values=tuple((value + more, times) for value, times in one.values),
        functions=tuple((at, count + added * (at == function)) for at, count in one.functions),
    )


def with_rows(workload: Workload, rows: Sequence[Row]) -> Workload:
    whole = sum(one.instructions for one in rows)
    return replace(workload, rows=tuple(rows), instructions=whole, slices=None)


def dearer(workload: Workload, more: int) -> Workload:
    """As if the vector of every system call had `more` instructions."""
    vector = workload.functions.index("el0t_64_sync")
    rows = [
        grown(one, more, vector, at_entry=True) if one.handled else one for one in workload.rows
    ]
    return with_rows(workload, rows)


def test_everything_adds_up() -> None:
    found = compare_workloads([REAL], [read_workload(GOLDEN / "workload-6.1.json")])
    for one in found.kinds:
        before, after = (side.instructions[0] if side else 0 for side in (one.old, one.new))
        assert sum(function.delta for function in one.functions) == after - before
        assert one.by_cost + one.by_calls == after - before
    whole = found.new.instructions[0] - found.old.instructions[0]
    assert sum(one.by_cost + one.by_calls for one in found.kinds) == whole
    kernel = found.new.kernel_instructions[0] - found.old.kernel_instructions[0]
    assert sum(function.delta for function in found.functions) == kernel
    assert compare_workloads([REAL], [REAL]).verdicts == {SAME}


@pytest.mark.parametrize("more", [3, -9])
def test_instructions_at_every_entry_are_seen_in_one_boot(more: int) -> None:
    found = compare_workloads([REAL], [dearer(REAL, more)])
    word = WORSE if more > 0 else BETTER
    assert (found.entry.verdict, found.entry.delta) == (word, more)
    judged = [one for one in found.kinds if one.verdict]
    assert {one.verdict for one in judged if one.delta} == {word}
    # All that has a mode, however few calls it has, and nothing that is no system call.
    assert all(one.delta == more for one in judged if one.what == SYSCALL and one.delta is not None)
    assert sum(one.delta == more for one in judged) > 20
    assert {one.delta for one in judged if one.what == FAULT} == {0}
    assert sum(one.by_calls for one in found.kinds) == 0


@pytest.mark.parametrize(
    ("old", "new", "verdict", "delta"),
    [
        ([(100, 10)], [(103, 10)], WORSE, 3),
        ([(100, 10)], [(97, 10)], BETTER, -3),
        # Too few calls for a path that is taken by chance.
        ([(100, 9)], [(103, 9)], UNDECIDED, None),
        ([(100, 30)], [(103, 9)], UNDECIDED, None),
        # Half of the calls are no majority.
        ([(100, 10), (110, 10)], [(103, 10), (113, 10)], UNDECIDED, None),
        # Calls take either path on both sides, one more often on each.
        ([(100, 60), (103, 40)], [(100, 40), (103, 60)], UNDECIDED, None),
        ([(100, 97), (103, 3)], [(100, 3), (103, 97)], WORSE, 3),
        ([(100, 60), (900, 40)], [(100, 70), (800, 30)], SAME, 0),
    ],
)
def test_the_verdict_on_one_boot(old: Values, new: Values, verdict: str, delta: int | None) -> None:
    sides = ([boot(row("read", old))], [boot(row("read", new))])
    found = kind(compare_workloads(*sides), "read")
    assert (found.verdict, found.delta) == (verdict, delta)


def test_a_change_holds_in_every_boot() -> None:
    old = [boot(row("read", [(100, 20)]), seed=seed) for seed in (1, 2, 3)]
    new = [boot(row("read", [(103, 20)]), seed=seed) for seed in (1, 2, 3)]
    assert kind(compare_workloads(old, new), "read").verdict == WORSE
    new[1] = boot(row("read", [(104, 20)]))
    found = compare_workloads(old, new)
    assert kind(found, "read").verdict == UNDECIDED
    assert found.new.seeds == (1, 1, 3)


def test_few_calls_are_believed_where_all_kinds_agree() -> None:
    names = ("getpid", "getuid", "chdir", "setsid", "clone")
    old = boot(*(row(name, [(100, 1)]) for name in names))
    # More than at the entry of others: in its handler, and at its own entry.
    setsid = row("setsid", [(155, 1)], around=ENTRY + 3)
    clone = row("clone", [(150, 1)], around=ENTRY + 50)
    new = boot(*(row(name, [(103, 1)], around=ENTRY + 3) for name in names[:3]), setsid, clone)
    found = compare_workloads([old], [new])
    assert (found.entry.verdict, found.entry.old, found.entry.new) == (WORSE, ENTRY, ENTRY + 3)
    assert (found.entry.kinds, found.entry.of) == (4, 5)
    assert [kind(found, name).verdict for name in names] == [WORSE] * 3 + [UNDECIDED] * 2
    # Entry and exit of two kinds decide nothing.
    old, new = (boot(*(row(name, [(100, 1)], around=n) for name in names[:2])) for n in (20, 23))
    assert compare_workloads([old], [new]).entry.verdict == UNDECIDED
    # Nor do three of six.
    old, new = (
        boot(*(row(str(n), [(100, 1)], around=around) for n, around in enumerate(side)))
        for side in ([20] * 6, [23, 23, 23, 24, 25, 26])
    )
    assert compare_workloads([old], [new]).entry.verdict == UNDECIDED


def test_what_is_of_the_run_has_no_verdict() -> None:
    code, tick = row("user code", [(5, 7)], what=USER), row("timer", [(50, 30)], what=INTERRUPT)
    late = row("timer", [(60, 40)], what=INTERRUPT)
    slept = row("read", [(100, 30)], blocked=4)
    found = compare_workloads(
        [boot(row("read", [(100, 20)]), code, tick)], [boot(slept, code, late)]
    )
    assert {one.name: one.verdict for one in found.kinds} == {
        **dict.fromkeys(("user code", "timer")),
        "read": SAME,
    }
    read = kind(found, "read")
    assert (read.by_cost, read.by_calls) == (0, 1000)
    assert read.new and read.new.blocked == (4,)


def test_a_kind_of_one_side_is_undecided() -> None:
    old, new = boot(row("read", [(100, 20)])), boot(row("pread64", [(90, 20)]))
    found = compare_workloads([old], [new])
    assert {one.name: (one.verdict, one.old is None) for one in found.kinds} == {
        "read": (UNDECIDED, False),
        "pread64": (UNDECIDED, True),
    }


def test_whole_boots_differ_by_what_any_two_of_them_do() -> None:
    [case] = recording({"boot": [("f", 5)]}).cases

    def boots(**metrics: dict[int, int]) -> CaseResult:
        return replace(case, metrics={name: Metric.of(own) for name, own in metrics.items()})

    old, new = boots(calls={5: 2, 7: 1}, other={5: 1}), boots(calls={6: 1, 11: 2}, other={5: 1})
    assert whole_boots(old, new, "calls") == (6 - 7, 11 - 5)
    # A metric of one side, or of no whole boots.
    assert whole_boots(old, boots(), "calls") is None
    assert whole_boots(old, new, "other") is None


def test_two_programs_and_two_architectures_are_refused() -> None:
    other = replace(REAL, workload=msgspec.structs.replace(REAL.workload, command=("/bin/ls",)))
    riscv = replace(REAL, kernel={**REAL.kernel, "arch": "riscv64"})
    for new in (other, riscv):
        with pytest.raises(UserError):
            compare_workloads([REAL], [new])


def test_a_comparison_is_read_back(tmp_path: Path) -> None:
    found = compare_workloads([REAL], [dearer(REAL, 3)])
    file = tmp_path / "c.json"
    file.write_text(dump(found))
    validate(msgspec.json.decode(file.read_bytes()), "workload-comparison-1")
    assert read_document(file, WorkloadComparison, "") == found
    file.write_text(dump(found).replace("workload-comparison/1", "workload-comparison/2"))
    with pytest.raises(RecordingError):
        read_document(file, WorkloadComparison, "")


def test_the_command_and_its_exit_code(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    files = [str(tmp_path / name) for name in ("old.json", "new.json")]
    write_workload(REAL, Path(files[0]))
    write_workload(dearer(REAL, 3), Path(files[1]))
    assert main(["diff", *files]) == EXIT_DONE
    assert main(["diff", *files, "--fail-on-regression"]) == EXIT_REGRESSION
    assert main(["diff", files[0], files[0], "--fail-on-regression"]) == EXIT_DONE
    old = str(GOLDEN / "workload-6.1.json")
    assert main(["diff", old, files[0], "--fail-on-regression"]) == EXIT_REGRESSION
    capsys.readouterr()
    assert main(["diff", *files, "--json"]) == EXIT_DONE
    page, comparison = tmp_path / "page.html", tmp_path / "comparison.json"
    comparison.write_text(capsys.readouterr().out)
    assert main(["report", str(comparison), "-o", str(page)]) == EXIT_DONE
    assert "exit_group" in page.read_text()


@pytest.mark.parametrize(
    "words",
    [
        ["workload.json", "arm64-6.12.json"],
        ["workload.json", "debian:6.12"],
        ["workload.json", "missing.json"],
        ["workload.json", "workload.json", "--case", "getppid"],
        ["workload.json", "workload.json", "--metric", "loads"],
        ["workload.json", "workload.json", "--run", "true"],
        ["workload.json", "debian:6.12", "--run", "true"],
        ["debian:6.1", "debian:6.12", "--run", "true", "--case", "getppid"],
        ["debian:6.1", "debian:6.12", "--packages", "git"],
    ],
)
def test_what_a_program_is_not_compared_with(
    words: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(GOLDEN)
    assert main(["diff", *words]) == EXIT_MISTAKE


def test_a_program_is_run_on_both_kernels(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    asked: list[Any] = []

    def boots(kernel: Any, arch: Any, program: Any, update: Any, *, reuse: bool) -> Any:
        workload, how = program.workload, program.options
        asked.append((workload.summary, workload.packages, how.memory))
        asked.append((kernel, how.cpu, how.emulator, program.seeds, reuse))
        return [dearer(REAL, 3 * (kernel == "debian:6.12")) for _ in program.seeds]

    monkeypatch.setattr(diff, "resolve", lambda spec, *_: spec)
    monkeypatch.setattr(workload_cache, "run_program", boots)
    words = ["diff", "debian:6.1", "debian:6.12", "--arch", "arm64", "--run", "git status"]
    words += ["--packages", "git", "--memory", "900", "--fresh", "--emulator", "newest", "--json"]
    assert main(words) == EXIT_DONE
    found = msgspec.json.decode(capsys.readouterr().out)
    assert (found["entry"]["delta"], len(found["new"]["seeds"])) == (3, 3)
    assert asked == [
        ("git status", ("git", "git"), 900),
        ("debian:6.1", "max", "newest", (1, 2, 3), False),
        ("git status", ("git", "git"), 900),
        ("debian:6.12", "max", "newest", (1, 2, 3), False),
    ]


Kinds = Mapping[str, tuple[str, int, list[tuple[int, int]]]]


def _boots() -> list[Workload]:
    saved: list[Kinds] = msgspec.json.decode(BOOTS.read_bytes())
    return [
        boot(
            *(
                row(name, [(v, n) for v, n in values], what=what, around=around)
                for name, (what, around, values) in kinds.items()
            ),
            seed=seed,
        )
        for seed, kinds in enumerate(saved, 1)
    ]


@pytest.mark.parametrize("number", [1, 2, 3])
def test_a_kernel_is_never_better_or_worse_than_itself(number: int) -> None:
    """Real boots with other seeds, and boots whose calls are drawn from all of them."""
    boots, chance = _boots(), random.Random(number)

    def drawn() -> Workload:
        """A boot with, of each kind, as many calls as one boot has, from those of all."""
        rows = []
        for one in chance.choice(boots).rows:
            all_calls = [
                value
                for other in boots
                if (found := other.row(one.name))
                for value, times in found.values
                for _ in range(min(times, 50))
            ]
            calls = chance.choices(all_calls, k=min(one.calls, 200))
            values = sorted((value, calls.count(value)) for value in set(calls))
            around = min(one.entry * len(calls) // one.calls, sum(calls))
            rows.append(row(one.name, values, what=one.what, around=around))
        return boot(*rows)

    for _ in range(50):
        chosen = chance.sample(boots, 2 * number)
        assert compare_workloads(chosen[:number], chosen[number:]).verdicts <= {SAME, UNDECIDED}
    for _ in range(100):
        sides = [[drawn() for _ in range(number)] for _ in range(2)]
        assert compare_workloads(*sides).verdicts <= {SAME, UNDECIDED}


@pytest.mark.parametrize("more", [0, 3, -9])
def test_recordings_of_boots_have_the_verdicts_of_the_boots(more: int) -> None:
    boots = _boots()
    for old, new in (
        (boots[:3], boots[3:6]),
        ([REAL], [dearer(REAL, more)]),
        ([REAL, dearer(REAL, 1)], [dearer(REAL, more)]),
        (boots[:3], [replace(own, workload=boots[0].workload) for own in boots[5:]]),
    ):
        expected = compare_workloads(old, new)
        found = compare(program_recording(old, {}), program_recording(new, {}))
        rows = {row.name: row for row in found.cases}
        if ENTRY_CASE in rows:
            around = rows.pop(ENTRY_CASE)
            assert (around.verdict, around.change and around.change[0]) == (
                expected.entry.verdict,
                expected.entry.delta,
            )
        assert rows
        for name, row in rows.items():
            kind_of_boots = kind(expected, name)
            assert (name, row.verdict) == (name, kind_of_boots.verdict)
            assert row.change == (None if row.verdict == UNDECIDED else (row.delta,) * 2)
            assert row.delta == (kind_of_boots.delta or 0) or row.verdict == UNDECIDED
