# SPDX-License-Identifier: GPL-2.0-or-later
"""Series and recordings for the tests of reports, and what holds for every text of a series."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from hypothesis import strategies as st

from kentry.results.recording import Recording, VectorEvent
from kentry.results.studies import NO_APPLY, NO_BOOT, NO_BUILD, Problem, Series
from kentry.show.series import series_table
from kentry.study.series import PatchKernels, tabulate
from tests.builders import Functions, built, outcome, recording
from tests.unit.vector.builders import with_events

NAMES = ["clock_gettime@vdso", "getpid", "getppid", "getppid+vec=each", "openat+close", "invalid"]
SUBJECTS = [
    "arm64: entry: inline invoke_syscall() ",
    "caf\u00e9 \u2013 \u201cquoted\u201d\u2026 \u043f\t\n\x1b[2J",
    "--- a/x @@ commit 0123456789abcdef ",
    "12 34",
    "",
]
WORDS = {NO_APPLY: "does not apply", NO_BUILD: "does not build", NO_BOOT: "does not boot"}


DISCARD = VectorEvent("discard", "syscall", "do_trap_ecall_u", 1)
SAVE = VectorEvent("save", "user copy", "kernel_vector_begin", 1)

# What git, patch and checkpatch.pl would take for something else in a commit message.
BREAKS = re.compile(
    r"^\s*(--- |\+\+\+ |@@|change-id:)|^(diff |---$|Index: |>?From |#)"
    r"|\bcommit [0-9a-f]{5}(?![0-9a-f]{7} \(\")",
    re.IGNORECASE | re.MULTILINE,
)


def check_form(text: str) -> None:
    """A text is fit for a commit message."""
    assert text.isascii()
    assert "\t" not in text
    assert text.endswith("\n")
    assert not text.endswith("\n\n")
    for line in text.splitlines():
        assert line == line.rstrip()
        assert len(line) <= 75
        assert not BREAKS.search(line), line


SYSCALL: dict[str, Functions] = {
    "clock_gettime@vdso": [],
    "getpid": [("entry", 40), ("sys_getpid", 10)],
    "getppid": [("entry", 40), ("sys_getppid", 15)],
    "getuid": [("entry", 40), ("from_kuid", 20)],
}


def changed(**functions: Functions) -> dict[str, Functions]:
    return {**SYSCALL, **functions}


def table(*rows: Mapping[str, Functions] | Problem, subjects: Sequence[str] = ()) -> Series:
    outcomes = [outcome(0, "baseline", built(SYSCALL))]
    for patch, row in enumerate(rows, start=1):
        found = ("arm64", row) if isinstance(row, Problem) else built(row)
        subject = subjects[patch - 1] if subjects else f"subject {patch}"
        outcomes.append(outcome(patch, subject, found))
    return tabulate(outcomes, {})


SHORTER = changed(
    getpid=[("entry", 38), ("sys_getpid", 10)],
    getppid=[("entry", 38), ("sys_getppid", 15)],
    getuid=[("entry", 38), ("from_kuid", 20)],
)


def measured(
    counts: Mapping[str, int | Mapping[int, int]],
    events: Mapping[str, Sequence[VectorEvent]] | None = None,
    markers: Mapping[str, str] | None = None,
    arch: str = "riscv64",
) -> Recording:
    """Cases with these counts of instructions, or histograms of them, and these events."""
    samples = {name: {one: 10} if isinstance(one, int) else one for name, one in counts.items()}
    paths = {name: [("f", max(one, key=lambda n: one[n]))] for name, one in samples.items()}
    found = recording(paths, samples=samples, kernel={"arch": arch})
    found.options["windows"] = 10
    return with_events(found, events or {}, markers)


@st.composite
def kernels(draw: st.DrawFn) -> list[PatchKernels]:
    """A baseline and 1 to 12 patches on 1 or 2 architectures, some rows failing."""
    arches = draw(st.sampled_from([["arm64"], ["riscv64"], ["arm64", "x86_64"]]))
    names = draw(st.lists(st.sampled_from(NAMES), min_size=1, unique=True))
    size = st.integers(1, draw(st.sampled_from([9, 150])))
    state: dict[str, dict[str, list[tuple[str, int]]]] = {
        arch: {
            name: []
            if name.endswith("vdso")
            else [("entry", draw(size)), ("exit", 7), (f"sys_{name}", draw(size))]
            for name in names
        }
        for arch in arches
    }

    def recordings() -> list[Recording]:
        return [built(cases, arch=arch) for arch, cases in state.items()]

    found = [outcome(0, "baseline", *recordings())]
    for patch in range(1, draw(st.integers(1, 12)) + 1):
        subject = draw(st.sampled_from(SUBJECTS)) * draw(st.integers(1, 3))
        failing = draw(st.sampled_from([*[()] * 5, arches[:1], arches]))
        change = draw(st.sampled_from(["none", "all", "one", "swap"]))
        where = draw(st.sampled_from(names))
        by = draw(size)
        for cases in state.values():
            _change(cases, change, where, by)
        status = draw(st.sampled_from(sorted(WORDS)))
        sentence = draw(st.sampled_from(["the guest ", "at hunk 2 of a/long/path \u2026 "]))
        problem = Problem(status, f"{WORDS[status]}: {sentence * (by % 9)}", "cc1:\tno")
        failed = [(arch, problem) for arch in failing]
        fine = [one for one in recordings() if one.kernel["arch"] not in failing]
        found.append(outcome(patch, subject, *fine, *failed))
    return found


def many() -> st.SearchStrategy[Series]:
    """The series of such kernels."""
    return kernels().map(lambda found: tabulate(found, {"base": "source:6.12"}))


def _change(cases: dict[str, list[tuple[str, int]]], change: str, where: str, by: int) -> None:
    for name, functions in cases.items():
        if not functions or change == "none" or (change != "all" and name != where):
            continue
        first, count = functions[0]
        if change == "swap":
            functions[0] = (f"{first}_", count)
        else:
            functions[0] = (first, count // 2 if by % 2 else count + by)


# --- a table, read back --------------------------------------------------


@dataclass(frozen=True)
class Printed:
    """One cell as it is printed; None where nothing is."""

    count: int
    step: int | None
    total: int | None


def read_table(series: Series) -> dict[str, dict[int, Printed]]:
    """Every column of the table: title, patch, cell."""
    table = series_table(series)
    found: dict[str, dict[int, Printed]] = {}
    for place, column in list(enumerate(table.columns))[2::3]:
        cells = found[column.group] = {}
        for row in table.rows:
            count, *changes = row[place : place + 3]
            if isinstance(count, int):
                texts = [str(one).replace("identical", "0") for one in changes]
                step, total = (int(text) if text else None for text in texts)
                cells[int(str(row[0]))] = Printed(count, step, total)
    return found


def unwrapped(text: str) -> str:
    """The text with each sentence on one line again."""
    return re.sub(r"\n  +(?=\S)", " ", text)


def check_percent(printed: str, delta: int, old: int) -> None:
    """A percentage is that of the integers beside it, to its last digit."""
    digits = len(printed.partition(".")[2])
    assert abs(float(printed) - 100 * delta / old) <= 0.500001 * 10**-digits
    assert float(printed) or not delta


def check_table(text: str, series: Series) -> None:
    """What is printed is what was measured, and everything else follows from it."""
    table = read_table(series)
    for title, cells in table.items():
        rows = [row for row in series.rows if title in row.cases]
        assert list(cells) == [row.patch for row in rows]
        previous = first = cells[0].count
        assert cells[0] == Printed(first, None, None)
        for row in rows[1:]:
            cell = cells[row.patch]
            assert cell.count == row.cases[title].instructions
            assert cell.step == cell.count - previous
            assert cell.total == cell.count - first
            previous = cell.count
    _check_sentences(unwrapped(text), series, table)


def _check_sentences(text: str, series: Series, table: Mapping[str, Mapping[int, Printed]]) -> None:
    named = list(table)
    for which, listed in re.findall(
        r"^The same steps(?: as (\S+))?, from another baseline: (.*)$", text, re.MULTILINE
    ):
        shown = table[which or next(iter(table))]
        for item in listed.split(", "):
            name, baseline = item.rsplit(" ", 1)
            named.append(name)
            for row in series.rows:
                cell = row.cases.get(name)
                if cell:
                    drift = (shown[row.patch].count - shown[0].count) if row.patch else 0
                    assert cell.instructions == int(baseline) + drift
    for listed in re.findall(
        r"^(?:No change in any row|Measured on the baseline only): (.*)$", text, re.MULTILINE
    ):
        for item in listed.split(", "):
            name, count = item.rsplit(" ", 1)
            named.append(name)
            cells = [row.cases[name] for row in series.rows if name in row.cases]
            assert {cell.instructions for cell in cells} == {int(count)}
    assert sorted(named) == sorted(column.name for column in series.columns)
    totals = re.findall(
        r"^Total(?: up to patch (\d+))?: (\S+) (\d+) -> (\d+)"
        r" \(([+-]?\d+)(?:, (\S+) % of the baseline)?\)$",
        text,
        re.MULTILINE,
    )
    measured = any(row.patch and row.cases for row in series.rows)
    assert [total[1] for total in totals] == (list(table) if measured else [])
    for up_to, name, old, new, delta, share in totals:
        printed = table[name]
        assert list(printed)[-1] == int(up_to or series.rows[-1].patch)
        assert (int(old), int(new)) == (printed[0].count, list(printed.values())[-1].count)
        assert int(delta) == int(new) - int(old)
        if share:
            check_percent(share, int(delta), int(old))
