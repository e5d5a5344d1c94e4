# SPDX-License-Identifier: GPL-2.0-or-later
"""Whole reports, compared with the files beside this one."""

import argparse
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from kentry.boot.exact import FakeRunner
from kentry.cli import build_parser, main
from kentry.commands.options import Parser
from kentry.compare.counted import added_by_states, compare
from kentry.compare.workload import compare_workloads
from kentry.count.program import program_recording
from kentry.count.recorder import measure
from kentry.results import recording as recording_result
from kentry.results.comparison import Comparison
from kentry.results.document import dump, read_document, to_json
from kentry.results.recording import Recording, read_recording
from kentry.results.studies import (
    NO_APPLY,
    NO_BOOT,
    NO_BUILD,
    Ablation,
    Bisection,
    Log,
    Problem,
    Series,
)
from kentry.results.workload import read_workload
from kentry.results.workload import to_file as to_workload_file
from kentry.show.blocks import Layout
from kentry.show.changelog import comparison_changelog, recording_changelog, series_changelog
from kentry.show.comparison import comparison_layout
from kentry.show.recording import recording_layout
from kentry.show.series import series_layout
from kentry.show.studies import ablation_layout, bisection_layout, log_layout, steps_layout
from kentry.show.text import to_text
from kentry.show.workload import workload_layout
from kentry.show.workload_comparison import workload_comparison_layout
from kentry.study import ablation
from kentry.study.series import tabulate
from tests.builders import built, outcome
from tests.unit.compare.test_workload import dearer
from tests.unit.count.saved import save
from tests.unit.count.test_cache import KERNEL, OPTIONS, TRACE
from tests.unit.show.samples import DISCARD, SAVE, SHORTER, SYSCALL, changed, measured
from tests.unit.vector.builders import with_events

Golden = Callable[[str, str], None]

HERE = Path(__file__).parent
OLD, NEW = "arm64-6.1.json", "arm64-6.12.json"
CHECK = ["check", NEW, "--budget", "check.toml"]
# A check's budgets are not all kept; of one case they are undecided.
CODES = dict.fromkeys(
    (
        "check.txt",
        "check.ktap",
        "check.xml",
        "check-github.txt",
        "check-b4.json",
        "check-comment.txt",
    ),
    1,
) | {"check.json": 3}

COMMANDS = {
    "diff-workload.txt": ["diff", "workload-6.1.json", "workload.json"],
    "diff.txt": ["diff", OLD, NEW],
    "diff-all.txt": ["diff", OLD, NEW, "-v", "--case", "getppid"],
    "diff-back.txt": ["diff", NEW, OLD, "--case", "invalid"],
    "diff-same.txt": ["diff", OLD, OLD],
    "diff.json": ["diff", OLD, NEW, "--json", "--case", "invalid"],
    "diff-floor.txt": ["diff", "floor-arm64.json", NEW, "--case", "getppid"],
    "diff-floor-changelog.txt": [
        *("diff", "floor-arm64.json", NEW, "--case", "getppid", "--changelog"),
    ],
    "annotate.txt": ["annotate", NEW],
    "log-changelog.txt": ["log", OLD, NEW, "--changelog"],
    "annotate-invalid.txt": ["annotate", OLD, "--case", "invalid"],
    "path-diff.txt": ["annotate", "riscv64-6.1.json", "riscv64-6.12.json"],
    "path-diff-context.txt": ["annotate", OLD, NEW, "--context", "0", "--case", "invalid"],
    "path-diff-same.txt": ["annotate", OLD, OLD],
    "import.txt": ["import", "../../docs/cases/ia64-syscall-series.csv"],
    "diff-metrics.json": [
        *("diff", "riscv64-6.1.json", "riscv64-6.12.json", "--json", "--case", "getppid"),
        *("--metric", "all"),
    ],
    "annotate.json": ["annotate", "riscv64-6.1.json", "--json"],
    "path-diff.json": ["annotate", OLD, NEW, "--json", "--case", "invalid"],
    "import.json": ["import", "../../docs/cases/ia64-syscall-series.csv", "--json"],
    "cost-table.json": ["vector", "costs", "sve128", "--json"],
    "check.txt": CHECK,
    "check.ktap": [*CHECK, "--format", "ktap"],
    "check.xml": [*CHECK, "--format", "junit"],
    "check-github.txt": [*CHECK, "--format", "github"],
    "check-b4.json": [*CHECK, "--format", "b4"],
    "check-comment.txt": [*CHECK, "--format", "comment"],
    "check.json": [*CHECK, "--json", "--case", "invalid"],
    "report-comment.txt": ["report", OLD, NEW, "diff-metrics.json", "series.json", "--comment"],
}


def a_bisection() -> Bisection:
    """One commit for most of the change, and one of two that could not be told apart."""
    return read_document(HERE / "bisect.json", Bisection, "", printable=False)


def a_log() -> Log:
    """Seven commits of which five were tried and one has no value; two changes, one of a pair."""
    return read_document(HERE / "log.json", Log, "", printable=False)


def read(name: str) -> Recording:
    return read_recording(HERE / name)


def a_series() -> Series:
    """Real recordings as rows: a change, a cosmetic patch, one that fails, a way back."""
    old, new = read(OLD), read(NEW)
    failed = Problem(
        NO_BUILD,
        "does not build: arch/arm64/kernel/syscall.c:52:9: error: implicit declaration of"
        " function 'el0_svc_uncommon' [-Werror=implicit-function-declaration]",
        "arch/arm64/kernel/syscall.c: In function 'do_el0_svc':\n"
        "arch/arm64/kernel/syscall.c:52:9: error: implicit declaration",
    )
    rows = [
        outcome(0, "baseline", old),
        outcome(1, "arm64: entry: convert to generic entry", new),
        outcome(2, "arm64: entry: rename what nobody will ever call by its old name again", new),
        outcome(3, "arm64: syscall: call el0_svc_uncommon()", ("arm64", failed)),
        outcome(4, 'Revert "arm64: entry: convert to generic entry"', old),
        outcome(5, "arm64: entry: convert to generic entry, again", new),
    ]
    return tabulate(
        rows, {"base": "debian:6.1", "change-id": "20260101-generic-entry-0a1b2c3d4e5f"}
    )


def an_uneven_series() -> Series:
    """Two architectures, spreads, an unknown path, different code of one length, a failed patch."""
    riscv = built({"getppid": [("do_trap_ecall_u", 70)]}, arch="riscv64")
    spread = built(SHORTER, samples={"getppid": {53: 998, 60: 2}, "getpid": {48: 4, 49: 3, 50: 3}})
    swapped = built(changed(getuid=[("entry", 40), ("other", 20)]))
    unknown = built(changed(getppid=[]), samples={"getppid": {55: 1000}})
    rows = [
        outcome(0, "baseline", built(SYSCALL), riscv),
        outcome(1, "arm64: entry: a faster way", built(SHORTER), riscv),
        outcome(2, "for one architecture", spread, ("riscv64", Problem(NO_APPLY, "hunk 1"))),
        outcome(3, "caf\u00e9: \u201cback\u201d commit 0123456789", built(SYSCALL), riscv),
        outcome(4, "other code", swapped, riscv),
        outcome(5, "the same other code", swapped, riscv),
        outcome(6, "no path", unknown, ("riscv64", Problem(NO_BUILD, "x.c: no", "cc1:\tno\x1b"))),
    ]
    origin = {"base": "source:6.12", "base-commit": "ab" * 20}
    return tabulate(rows, origin, notes=[{"kind": "x", "text": "about the series"}])


def a_program_series() -> Series:
    """Patches of the entry, of nothing, of everything that varies, and one that does not boot."""
    real = read_workload(HERE / "workload.json")

    def boots(more: int) -> Recording:
        own = dearer(real, more)
        runs = [replace(own, target={**own.target, "seed": seed}) for seed in (1, 2, 3)]
        return program_recording(runs, {})

    rows = [
        outcome(0, "baseline", boots(0)),
        outcome(1, "arm64: entry: Save what the handler changes alone", boots(-9)),
        outcome(2, "arm64: entry: Name the branch targets", boots(-9)),
        outcome(3, "arm64: entry: Save nothing", ("arm64", Problem(NO_BOOT, "no mark", "oops"))),
        outcome(4, "arm64: entry: Check the flags once more", boots(-7)),
    ]
    return tabulate(rows, {"base": "source:6.12"})


def a_matrix() -> Recording:
    """Plain cases with other windows, and states with every kind of count."""
    found = measured(
        {
            "read": {300: 8, 310: 2},
            "getppid+vec=none": 223,
            "getppid+vec=once": 237,
            "getppid+vec=each": {446: 9, 450: 1},
            "getppid+vec=1/10": 2375,
            "use-after-fork+vec=once+vl=256": {1461: 4, 1500: 3, 1510: 3},
        },
        {"getppid+vec=once": [DISCARD], "getppid+vec=each": [DISCARD, SAVE]},
    )
    plain = found.cases[0]
    firmware = replace(plain.metrics["firmware_instructions"], value=7, samples=((7, 10),))
    found.cases[0] = replace(
        plain, metrics={**plain.metrics, "firmware_instructions": firmware}, interrupted=((900, 3),)
    )
    return found


def a_comparison() -> Comparison:
    """Every verdict on counts, the same functions in two cases, and events."""
    states = {"getppid+vec=once": [("f", 5)], "getppid+vec=1/10": [("f", 50)], "pipe": [("f", 7)]}
    old = {**SYSCALL, "stat": [("entry", 90)], **states}
    new = {**SHORTER, "stat": [("other", 90)], **states, "getppid+vec=once": [("f", 4)]}
    sides = (
        built(old, samples={"pipe": {7: 4, 8: 3, 9: 3}}),
        built(new, compiler="clang 19", release="6.13.1"),
    )
    return compare(
        with_events(sides[0], {name: [DISCARD] for name in states}),
        with_events(sides[1], {"getppid+vec=1/10": [replace(DISCARD, times=10)]}),
    )


def an_ablation() -> Ablation:
    """An option of each kind: dearer, without effect, lost, not of this source."""
    base = built(SYSCALL)
    trials = [
        ablation.Trial("CONFIG_SAME", False, off=base, on=base),
        ablation.Trial("CONFIG_AUDIT", True, ("CONFIG_NET=y",), built(SHORTER), base),
        ablation.Trial("CONFIG_LOST", False, problem="Kconfig dropped CONFIG_LOST=y (needs NET)."),
    ]
    return ablation.tabulate(base, trials, ["CONFIG_RISCV_ISA_V"])


REPORTS: dict[str, Callable[[], Layout]] = {
    "record.txt": lambda: recording_layout(read(NEW)),
    "record-floor.txt": lambda: recording_layout(read(NEW), {"getppid": 10}),
    "record-matrix.txt": lambda: recording_layout(a_matrix(), added=added_by_states(a_matrix())),
    "record-matrix-changelog.txt": lambda: recording_changelog(a_matrix()),
    "series.txt": lambda: series_layout(a_series(), functions=True),
    "series-changelog.txt": lambda: series_changelog(a_series()),
    "series-uneven.txt": lambda: series_layout(an_uneven_series(), functions=True),
    "series-uneven-changelog.txt": lambda: series_changelog(an_uneven_series()),
    "series-program.txt": lambda: series_layout(a_program_series()),
    "series-program-changelog.txt": lambda: series_changelog(a_program_series()),
    "diff-changelog.txt": lambda: comparison_changelog(compare(read(OLD), read(NEW))),
    "diff-verdicts.txt": lambda: comparison_layout(a_comparison()),
    "diff-verdicts-changelog.txt": lambda: comparison_changelog(a_comparison()),
    "bisect.txt": lambda: bisection_layout(a_bisection()),
    "bisect-log.txt": lambda: steps_layout(a_bisection().steps),
    "log.txt": lambda: log_layout(a_log()),
    "log-ascii.txt": lambda: log_layout(a_log(), blocks=False),
    "ablate.txt": lambda: ablation_layout(an_ablation(), functions=True),
}


@pytest.mark.parametrize("name", COMMANDS)
def test_what_a_command_prints(
    name: str, golden: Golden, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(HERE)
    assert main(COMMANDS[name]) == CODES.get(name, 0)
    got = capsys.readouterr().out
    assert got.isascii()
    golden(name, got)


DOCUMENTS: dict[str, Callable[[], dict[str, Any]]] = {
    "series.json": lambda: to_json(a_series()),
    "series-uneven.json": lambda: to_json(an_uneven_series()),
    "series-program.json": lambda: to_json(a_program_series()),
    "ablate.json": lambda: to_json(an_ablation()),
    "diff-verdicts.json": lambda: to_json(a_comparison()),
    "bisect.json": lambda: to_json(a_bisection()),
    "log.json": lambda: to_json(a_log()),
}


@pytest.mark.parametrize("name", DOCUMENTS)
def test_a_results_document(name: str, golden: Golden) -> None:
    golden(name, dump(DOCUMENTS[name]()))


def test_nine_instructions_fewer_at_each_entry_of_a_program(golden: Golden) -> None:
    old = read_workload(HERE / "workload.json")
    layout = workload_comparison_layout(compare_workloads([old], [dearer(old, -9)]))
    golden("diff-workload-entry.txt", to_text(layout))


def test_a_workload(golden: Golden) -> None:
    workload = read_workload(HERE / "workload.json")
    golden("workload.txt", to_text(workload_layout(workload)))
    golden("workload.json", dump(to_workload_file(workload)))


def test_the_help_of_every_command(golden: Golden) -> None:
    def texts(parser: Parser) -> Iterator[str]:
        yield parser.format_help()
        for action in parser._actions:
            if isinstance(action, argparse._SubParsersAction):
                for below in action.choices.values():
                    yield from texts(below)

    golden("help.txt", f"\n{'-' * 80}\n".join(texts(build_parser())))


def test_a_recording_of_a_saved_run(tmp_path: Path, golden: Golden) -> None:
    saved = FakeRunner(save(tmp_path, TRACE))
    recording = measure(KERNEL, saved, OPTIONS, lambda fraction, now: None)
    golden("record.json", dump(recording_result.to_json(recording)))


@pytest.mark.parametrize("name", REPORTS)
def test_report(name: str, golden: Golden) -> None:
    golden(name, to_text(REPORTS[name]()))


def test_what_an_update_prints(
    tmp_path: Path,
    golden: Golden,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for name in (OLD, NEW, "check.toml"):
        (tmp_path / name).write_bytes((HERE / name).read_bytes())
    monkeypatch.chdir(tmp_path)
    assert main(["check", NEW, "--budget", "check.toml", "--update"]) == 3
    golden("check-update.txt", capsys.readouterr().out)
    golden("check-update.toml", (tmp_path / "check.toml").read_text())
