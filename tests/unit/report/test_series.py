# SPDX-License-Identifier: GPL-2.0-or-later
"""The printed table of a series: read back, and every step, total and percentage derived anew."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kentry.compare.series import tabulate
from kentry.model.caveats import not_time as not_time_caveat
from kentry.model.recording import Recording
from kentry.model.series import NO_APPLY, NO_BOOT, NO_BUILD, Problem, Series
from kentry.report.plain import plain, shortened
from kentry.report.series import series_text
from tests.builders import Functions, built, outcome

NAMES = ["clock_gettime@vdso", "getpid", "getppid", "getppid+vec=each", "openat+close", "invalid"]
SUBJECTS = [
    "arm64: entry: inline invoke_syscall() ",
    "caf\u00e9 \u2013 \u201cquoted\u201d\u2026 \u043f\t\n\x1b[2J",
    "--- a/x @@ commit 0123456789abcdef ",
    "12 34",
    "",
]
WORDS = {NO_APPLY: "does not apply", NO_BUILD: "does not build", NO_BOOT: "does not boot"}


@dataclass(frozen=True)
class Printed:
    """One cell as it is printed; None where nothing is."""

    count: int
    step: int | None
    total: int | None


def read_table(text: str) -> dict[str, dict[int, Printed]]:
    """Every column of the printed table: title, patch, cell."""
    found: dict[str, dict[int, Printed]] = {}
    lines = text.splitlines()
    for number, line in enumerate(lines):
        edges = [
            (match.end(1), match.end(2), match.end())
            for match in re.finditer(r"(count) +(step) +total", line)
        ]
        starts = [0, *(end for _, _, end in edges)]
        for start, (count, step, end) in zip(starts, edges, strict=False):
            title = lines[number - 1][start:end].strip()
            assert title not in found
            found[title] = dict(_cells(lines[number + 1 :], count, step, end))
    return found


def _cells(lines: Sequence[str], count: int, step: int, end: int) -> list[tuple[int, Printed]]:
    width = len(re.match(r" *\d+", lines[0])[0])  # type: ignore[index]
    cells = []
    for line in lines[: lines.index("")]:
        value = re.search(r"(?<!\S)\d+$", line[:count].ljust(count))
        # In place of numbers, not behind them, where it is another architecture's.
        failed = re.search(r"does not (apply|b)", line[:end])
        if not line[:width].strip() or not value or failed:
            continue
        texts = [line[count:step].strip(), line[step:end].strip()]
        if line[count:end].strip() == "identical path":
            texts = ["0", ""]
        change, total = (int(text) if text else None for text in texts)
        cells.append((int(line[:width]), Printed(int(value[0]), change, total)))
    return cells


def unwrapped(text: str) -> str:
    """The text below the table with each sentence on one line again."""
    return text.replace("\n  ", " ")


def check_percent(printed: str, delta: int, old: int) -> None:
    """A percentage is that of the integers beside it, to its last digit."""
    digits = len(printed.partition(".")[2])
    assert abs(float(printed) - 100 * delta / old) <= 0.500001 * 10**-digits
    assert float(printed) or not delta


def check_table(text: str, series: Series) -> None:
    """What is printed is what was measured, and everything else follows from it."""
    table = read_table(text)
    counts = {series.name(one): one for one in series.columns}
    for title, cells in table.items():
        rows = [row for row in series.rows if counts[title] in row.cells]
        assert list(cells) == [row.patch for row in rows]
        previous = first = cells[0].count
        assert cells[0] == Printed(first, None, None)
        for row in rows[1:]:
            cell = cells[row.patch]
            assert cell.count == row.cells[counts[title]].instructions
            assert cell.step == cell.count - previous
            assert cell.total == (None if row.identical_path else cell.count - first)
            previous = cell.count
    _check_sentences(unwrapped(text), series, table)


def _check_sentences(text: str, series: Series, table: Mapping[str, Mapping[int, Printed]]) -> None:
    columns = {series.name(one): one for one in series.columns}
    named = list(table)
    for which, listed in re.findall(
        r"^The same steps(?: as (\S+))?, from another baseline: (.*)$", text, re.MULTILINE
    ):
        shown = table[which or next(iter(table))]
        for item in listed.split(", "):
            name, baseline = item.rsplit(" ", 1)
            named.append(name)
            for row in series.rows:
                cell = row.cells.get(columns[name])
                if cell:
                    drift = (shown[row.patch].count - shown[0].count) if row.patch else 0
                    assert cell.instructions == int(baseline) + drift
    for listed in re.findall(
        r"^(?:No change in any row|Of the baseline only): (.*)$", text, re.MULTILINE
    ):
        for item in listed.split(", "):
            name, count = item.rsplit(" ", 1)
            named.append(name)
            cells = [row.cells[columns[name]] for row in series.rows if columns[name] in row.cells]
            assert {cell.instructions for cell in cells} == {int(count)}
    assert sorted(named) == sorted(columns)
    totals = re.findall(
        r"^Total(?: up to patch (\d+))?: (\S+) (\d+) -> (\d+)"
        r" \(([+-]?\d+)(?:, (\S+) % of the baseline)?\)$",
        text,
        re.MULTILINE,
    )
    measured = any(row.patch and row.cells for row in series.rows)
    assert [total[1] for total in totals] == (list(table) if measured else [])
    for up_to, name, old, new, delta, share in totals:
        printed = table[name]
        assert list(printed)[-1] == int(up_to or series.rows[-1].patch)
        assert (int(old), int(new)) == (printed[0].count, list(printed.values())[-1].count)
        assert int(delta) == int(new) - int(old)
        if share:
            check_percent(share, int(delta), int(old))


@st.composite
def many(draw: st.DrawFn) -> Series:
    """Series of 1 to 12 patches on 1 or 2 architectures, some rows failing."""
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

    outcomes = [outcome(0, "baseline", *recordings())]
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
        outcomes.append(outcome(patch, subject, *fine, *failed))
    return tabulate(outcomes, {"base": "source:6.12"})


def _change(cases: dict[str, list[tuple[str, int]]], change: str, where: str, by: int) -> None:
    for name, functions in cases.items():
        if not functions or change == "none" or (change != "all" and name != where):
            continue
        first, count = functions[0]
        if change == "swap":
            functions[0] = (f"{first}_", count)
        else:
            functions[0] = (first, count // 2 if by % 2 else count + by)


@given(many(), st.booleans())
def test_every_number_follows_from_the_counts(series: Series, functions: bool) -> None:
    text = series_text(series, functions)
    assert text.isascii()
    assert "\t" not in text
    lines = text.splitlines()
    assert all(line == line.rstrip() for line in lines)
    assert all(len(line) <= 79 for line in lines)
    check_table(text.partition("\n\n")[2], series)


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


def test_columns_of_the_same_steps_are_one() -> None:
    text = series_text(table(SHORTER), functions=False)
    assert list(read_table(text)) == ["getppid"]
    assert "\nThe same steps, from another baseline: getpid 50, getuid 60\n" in text
    assert "\nNo change in any row: clock_gettime@vdso 0\n" in text
    assert "\nTotal: getppid 55 -> 53 (-2, -3.6 % of the baseline)\n" in text


def test_several_groups_say_whose_steps_they_are() -> None:
    series = table({**SHORTER, "getuid": [("entry", 38), ("from_kuid", 25)]})
    text = series_text(series, functions=False)
    assert list(read_table(text)) == ["getppid", "getuid"]
    assert "\nThe same steps as getppid, from another baseline: getpid 50\n" in text


def test_what_does_not_fit_beside_goes_below() -> None:
    rows = changed(getpid=[("entry", 1)], getppid=[("entry", 2)], getuid=[("entry", 3)])
    series = table(rows, subjects=["a subject that is as long as subjects of patches often are"])
    text = series_text(series, functions=False)
    assert list(read_table(text)) == ["getppid", "getpid", "getuid"]
    assert text.count("count  step total") == 3
    assert "\n0     60\n1      3   -57   -57\n" in text


def test_long_counts_have_room() -> None:
    shorter = changed(getppid=[("entry", 12345)])
    series = tabulate(
        [
            outcome(0, "baseline", built(SYSCALL)),
            outcome(1, "one", built(shorter)),
            outcome(2, "two", built(SYSCALL)),
        ],
        {},
    )
    check_table(series_text(series, functions=False).partition("\n\n")[2], series)


def test_a_cosmetic_patch_is_called_so() -> None:
    text = series_text(table(SHORTER, SHORTER), functions=False)
    assert re.search(r"^2  subject 2 +53 identical path$", text, re.MULTILINE)
    assert "1 of the 2 patches (2) is cosmetic: the executed instructions are the same" in text


def test_the_only_patch_is_cosmetic() -> None:
    text = series_text(table(SYSCALL), functions=False)
    assert list(read_table(text)) == ["getppid"]
    assert (
        "\nThe patch is cosmetic: the executed instructions are the same in every case.\n" in text
    )
    assert "\nNo change in any row: clock_gettime@vdso 0, getpid 50, getuid 60\n" in text
    assert "\nTotal: getppid 55 -> 55 (0)\n" in text


def test_as_many_instructions_need_not_be_the_same_ones() -> None:
    swapped = changed(getuid=[("entry", 40), ("other", 20)])
    text = series_text(table(SHORTER, SYSCALL, swapped), functions=True)
    assert "\nPatch 3 runs other instructions, but as many.\n" in text
    assert "identical path" not in text


def test_a_count_without_a_path_is_not_called_anything() -> None:
    lost = built(changed(getppid=[]), samples={"getppid": {55: 1000}})
    series = tabulate([outcome(0, "baseline", built(SYSCALL)), outcome(1, "one", lost)], {})
    text = unwrapped(series_text(series, functions=False))
    assert "Patch 1 runs as many instructions; which ones is not known" in text


@pytest.mark.parametrize("status", sorted(WORDS))
def test_a_row_without_counts_says_why(status: str) -> None:
    problem = Problem(status, "the reason", "its last\n\twords\x1b[2J")
    text = series_text(table(SHORTER, problem, SYSCALL), functions=False)
    assert re.search(rf"^2  subject 2 +{WORDS[status]}: the reason$", text, re.MULTILINE)
    assert f"\nPatch 2 {WORDS[status]}:\n    its last\n            words?[2J\n" in text
    assert "\nThe step of patch 3 is against patch 1, the last measured before it.\n" in text


def test_words_that_the_reason_begins_with_are_not_said_twice() -> None:
    text = series_text(table(Problem(NO_APPLY, "does not apply: hunk 2")), functions=False)
    assert text.count("does not apply") == 1
    assert "\nOf the baseline only: clock_gettime@vdso 0, getpid 50, getuid 60\n" in text
    assert "Total" not in text


def test_a_long_reason_is_below_its_row() -> None:
    text = series_text(table(Problem(NO_BUILD, "word " * 30), SHORTER), functions=False)
    assert re.search(r"^1  subject 1\n   does not build: word .*\n     word ", text, re.MULTILINE)


def test_one_architecture_may_fail() -> None:
    riscv = built({"getppid": [("do_trap_ecall_u", 70)]}, arch="riscv64")
    series = tabulate(
        [
            outcome(0, "baseline", built(SYSCALL), riscv),
            outcome(1, "one", built(SHORTER), ("riscv64", Problem(NO_BUILD, "error: no"))),
            outcome(2, "two", built(SHORTER), riscv),
        ],
        {},
    )
    text = series_text(series, functions=False)
    assert "\n   riscv64: does not build: error: no\n" in text
    assert "\nriscv64: The step of patch 2 is against the baseline, the last measured" in text
    assert "base: source:6.12 (riscv64): Linux 6.12.95\n" in text
    check_table(text.partition("\n\n")[2], series)


def test_windows_that_do_not_agree_are_told() -> None:
    spread = built(SHORTER, samples={"getppid": {53: 998, 60: 2}, "getpid": {48: 4, 49: 3, 50: 3}})
    series = tabulate([outcome(0, "baseline", built(SYSCALL)), outcome(1, "one", spread)], {})
    text = series_text(series, functions=False)
    assert "\nNot in all windows: patch 1 getppid 53 (998 of 1000 windows).\n" in text
    assert "\nUndecided: patch 1 getpid 48 (4 of 10 windows).\n" in text


def test_functions_of_each_step_add_up() -> None:
    text = series_text(table(SHORTER, SHORTER, changed()), functions=True)
    assert "\nPatch 1, getppid (-2)\nadd/remove: 0/0 grow/shrink: 0/1 up/down: 0/-2 (-2)\n" in text
    assert re.search(r"^unchanged +15 +15 +-\nTotal +55 +53 +-2$", text, re.MULTILINE)
    assert "Patch 2, " not in text
    assert "Patch 3, getppid (+2)" in text


def test_functions_beyond_ten_are_added_up() -> None:
    many_more = changed(getppid=[(f"f{i}", i + 1) for i in range(14)])
    text = series_text(table(many_more), functions=True)
    assert re.search(r"^6 other functions +- +21 +\+21$", text, re.MULTILINE)
    assert re.search(r"^Total +55 +105 +\+50$", text, re.MULTILINE)


def test_a_caveat_is_noted_once() -> None:
    not_time = not_time_caveat()
    base, one, two = built(SYSCALL), built(SHORTER), built(SHORTER)
    for recording in (base, one, two):
        recording.caveats.append(not_time)
    for recording in (one, two):
        recording.caveats.append({"kind": "x", "text": "something new"})
    outcomes = [outcome(0, "b", base), outcome(1, "one", one), outcome(2, "two", two)]
    series = tabulate(outcomes, {}, caveats=[{"kind": "series", "text": "about the series"}])
    text = series_text(series, functions=False)
    assert text.count("not time") == 1
    assert text.count("note: about the series") == 1
    assert text.count("note: patches 1, 2: something new") == 1


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("\u201cfoo\u201d \u2013 b\u00e9b\u00e9\u2026", '"foo" - bebe...'),
        ("a\tb\n c\x1b", "a b c"),
        ("\u043f\u4e2d", "??"),
    ],
)
def test_text_becomes_ascii_on_one_line(text: str, expected: str) -> None:
    assert plain(text) == expected


def test_what_is_cut_ends_in_dots() -> None:
    assert (shortened("abcdef", 6), shortened("abc defgh", 7)) == ("abcdef", "abc...")
