# SPDX-License-Identifier: GPL-2.0-or-later
"""Text for commit messages: read back, derived anew, and nothing a tool takes for a diff."""

import re
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import structs

from kentry.compare.counted import Comparison, compare
from kentry.compare.series import tabulate
from kentry.model.caveats import Caveat
from kentry.model.recording import Event
from kentry.model.series import NO_APPLY, NO_BUILD, Problem, Series
from kentry.report.changelog import comparison_changelog, recording_changelog, series_changelog
from tests.builders import built, outcome
from tests.unit.report.test_series import (
    SHORTER,
    SYSCALL,
    changed,
    check_percent,
    check_table,
    many,
    table,
    unwrapped,
)
from tests.unit.vector.builders import with_events

# What git, patch and checkpatch.pl would take for something else in a commit message.
BREAKS = re.compile(
    r"^\s*(--- |\+\+\+ |@@|change-id:)|^(diff |---$|Index: |>?From |#)"
    r"|\bcommit [0-9a-f]{5}(?![0-9a-f]{7} \(\")",
    re.IGNORECASE | re.MULTILINE,
)
NOT_TIME = "\n- exact instruction counts under emulation; not time\n"


def check_form(text: str) -> None:
    assert text.isascii()
    assert "\t" not in text
    assert text.endswith("\n")
    assert not text.endswith("\n\n")
    for line in text.splitlines():
        assert line == line.rstrip()
        assert len(line) <= 75
        assert not BREAKS.search(line), line
    assert NOT_TIME in text


def check_functions(text: str, counts: dict[str, tuple[int, int]]) -> None:
    """Every table of functions adds up to the counts of its case."""
    blocks = re.findall(
        r"^(\S+?)(?:, from .*|; the same .*|:)\nadd/remove: \d+/\d+ grow/shrink: \d+/\d+"
        r" up/down: (\d+)/(-?\d+) \((-?\d+)\)\n"
        r"Function .*\n((?:.*\n)*?)Total: Before=(\d+), After=(\d+)(?:, chg (\S+)%)?$",
        text,
        re.MULTILINE,
    )
    assert len(blocks) == text.count("add/remove")
    for name, up, down, net, rows, before, after, share in blocks:
        assert counts[name] == (int(before), int(after))
        assert int(up) + int(down) == int(net) == int(after) - int(before)
        deltas = []
        for row in rows.splitlines():
            old, new, delta = (0 if word == "-" else int(word) for word in row.split()[-3:])
            assert delta == new - old
            deltas.append(delta)
        assert sum(deltas) == int(net)
        if int(before):
            check_percent(share, int(net), int(before))


@given(many())
def test_every_number_of_a_series_follows_from_the_counts(series: Series) -> None:
    text = series_changelog(series)
    check_form(text)
    check_table(text.partition("\n\n")[2], series)
    counts = {}
    for column in series.columns:
        cells = [row.cells[column] for row in series.rows if column in row.cells]
        counts[series.name(column)] = (cells[0].instructions, cells[-1].instructions)
    check_functions(unwrapped(text), counts)


@given(many())
def test_every_number_of_a_comparison_follows_from_the_counts(series: Series) -> None:
    arch = next(iter(series.first))
    comparison = compare(series.first[arch], series.last[arch])
    text = comparison_changelog(comparison)
    check_form(text)
    counts = {case.name: (case.old, case.new) for case in comparison.cases}
    check_functions(unwrapped(text), counts)
    named = []
    for name, old, new, delta, share in re.findall(
        r"^  (\S+): +(\d+) -> +(\d+) \(([+-]?\d+)(?:, (\S+) % of old)?\) (?:better|worse)$",
        text,
        re.MULTILINE,
    ):
        named.append(name)
        assert counts[name] == (int(old), int(new))
        assert int(delta) == int(new) - int(old) != 0
        check_percent(share, int(delta), int(old))
    for listed in re.findall(r"^(?:The same|As many).*?: (.*)$", unwrapped(text), re.MULTILINE):
        for item in listed.split(", "):
            name, count = item.rsplit(" ", 1)
            named.append(name)
            assert counts[name] == (int(count), int(count))
    assert sorted(named) == sorted(counts)


@given(st.text(max_size=200), st.text(max_size=200))
def test_no_subject_and_no_sentence_makes_it_another_thing(subject: str, sentence: str) -> None:
    series = table(Problem(NO_APPLY, sentence), SHORTER, subjects=[subject, subject])
    check_form(series_changelog(series))


@pytest.mark.parametrize(
    "subject",
    [
        "--- a/kernel/fork.c",
        "@@ -1,3 +1,4 @@",
        "diff --git a/x b/x",
        "commit 0123456789 broke it",
        "revert 0123456789abcdef0123456789abcdef01234567",
        "# no comment",
        "change-id: I0123",
    ],
)
def test_words_of_a_patch_stay_words(subject: str) -> None:
    sentence = f"{'word ' * 12}{subject} " * 3
    text = series_changelog(table(Problem(NO_APPLY, sentence), SHORTER, subjects=[subject] * 2))
    check_form(text)
    for line in text.splitlines():
        assert not re.search(r"(?:\s|^)[0-9a-f]{12,40}(?:[\s\"'(\[]|$)", line), line


def test_the_functions_are_of_the_whole_series() -> None:
    series = table(SHORTER, changed(getppid=[("entry", 30)], getpid=[("entry", 5)]))
    text = series_changelog(series)
    assert "\ngetppid, from the baseline to patch 2:\nadd/remove: 0/1 grow/shrink: 0/1" in text
    assert "\nTotal: Before=55, After=30, chg -45.45%\n" in text


def test_functions_beyond_ten_are_added_up() -> None:
    series = table(changed(getppid=[(f"f{i}", i + 1) for i in range(14)]))
    text = series_changelog(series)
    assert re.search(r"^6 other functions +- +21 +\+21$", text, re.MULTILINE)
    check_functions(text, {"getppid": (55, 105)})


def test_patches_that_failed_are_said() -> None:
    series = table(SHORTER, Problem(NO_BUILD, "fork.c:1: error: no", "cc1: the log"))
    text = series_changelog(series)
    assert "does not build: fork.c:1: error: no" in text
    assert "\nTotal up to patch 1: getppid 55 -> 53 (-2, -3.6 % of the baseline)\n" in text
    assert "the log" not in text


def test_nothing_measured_but_the_baseline() -> None:
    text = series_changelog(table(Problem(NO_APPLY, "hunk 1")))
    check_form(text)
    assert "Total" not in text


def test_it_says_how_it_was_measured() -> None:
    base = {"base": "source:6.12", "base-commit": "ab" * 20, "change-id": "20260101-x-0123456789ab"}
    outcomes = [outcome(0, "baseline", built(SYSCALL)), outcome(1, "one", built(SHORTER))]
    text = series_changelog(tabulate(outcomes, base))
    check_form(text)
    plain = unwrapped(text)
    for line in (
        "- base: linux-source-6.12 6.12.95-1, Linux 6.12.95, arm64",
        "- config: tiny with CONFIG_AUDIT=y CONFIG_SECCOMP=n on top, sha256 000000000000...",
        "- compiler: gcc-12 (Debian 12.2.0-14+deb12u1) 12.2.0;"
        " linker GNU ld (GNU Binutils for Debian) 2.40",
        "- emulator: QEMU 7.2.22, machine virt, cpu max, seed 1",
        "- the patches' change-id is 20260101-x-0123456789ab",
        f"- the patches are made for base-commit: {'ab' * 20}",
        "- measured: clock_gettime@vdso, getpid, getppid, getuid",
        "- 1000 windows a case, zero spread",
        "- not measured: time, cache misses, other architectures: riscv64, x86_64",
    ):
        assert f"\n{line}\n" in f"{plain}\n"


def test_the_base_is_named_as_git_names_it() -> None:
    subject = "arm64: entry: don't call a function that (nearly) does nothing at all, ever"
    origin = {"kind": "tree", "commit": "0123456789abcdef" + "0" * 24, "subject": subject}
    series = tabulate(
        [
            outcome(0, "baseline", built(SYSCALL, origin=origin)),
            outcome(1, "one", built(SHORTER)),
        ],
        {},
    )
    text = series_changelog(series)
    check_form(text)
    assert f'- base: commit 0123456789ab ("{subject}"), Linux 6.12.95' in unwrapped(text)


def test_what_no_single_patch_changed_is_a_difference_of_the_whole() -> None:
    one = built(SHORTER, config={"PREEMPT": "n", "HZ": "250"})
    two = built(SHORTER, config={"PREEMPT": "n", "HZ": "1000"})
    outcomes = [outcome(0, "b", built(SYSCALL)), outcome(1, "one", one), outcome(2, "two", two)]
    text = unwrapped(series_changelog(tabulate(outcomes, {})))
    assert "- note: patch 1: config differs in 1 built-in options" in text
    assert "- note: patch 2: config differs in 1 built-in options" in text
    assert "- note: first to last: config differs in 2 built-in options" in text


def test_a_spread_is_not_called_zero() -> None:
    spread = built(SHORTER, samples={"getppid": {53: 990, 60: 2}})
    outcomes = [outcome(0, "b", built(SYSCALL)), outcome(1, "one", spread)]
    text = series_changelog(tabulate(outcomes, {}))
    assert "zero spread" not in text
    assert "\n- 992 to 1000 windows a case, a spread in 1 of 8 counts\n" in text
    assert "patch 1 getppid 53 (990 of 992 windows)" in text


def comparison(**functions: list[tuple[str, int]]) -> Comparison:
    return compare(built(SYSCALL), built(changed(**functions)))


def test_cases_whose_functions_changed_alike_share_a_table() -> None:
    text = comparison_changelog(compare(built(SYSCALL), built(SHORTER)))
    check_form(text)
    assert "\n  getppid: 55 -> 53 (-2, -3.6 % of old) better\n" in text
    assert "\ngetppid; the same functions in getpid, getuid:\nadd/remove: 0/0" in text
    assert text.count("add/remove") == 1
    assert "\nThe same instructions in both: clock_gettime@vdso 0\n" in text


def test_as_many_instructions_need_not_be_the_same_ones() -> None:
    text = comparison_changelog(comparison(getuid=[("entry", 40), ("other", 20)]))
    assert "\nAs many, but other instructions: getuid 60\n" in text
    assert "\ngetuid:\nadd/remove: 1/1 grow/shrink: 0/0 up/down: 20/-20 (0)\n" in text
    assert "\nTotal: Before=60, After=60, chg +0.00%\n" in text


def test_both_sides_are_named_where_they_differ() -> None:
    new = built(SHORTER, compiler="clang 19", release="6.13.1")
    text = comparison_changelog(compare(built(SYSCALL), new))
    check_form(text)
    assert "\n- kernel (old): linux-source-6.12 6.12.95-1, Linux 6.12.95, arm64\n" in text
    assert "\n- kernel (new): linux-source-6.12 6.12.95-1, Linux 6.13.1, arm64\n" in text
    assert "\n- compiler (new): clang 19; linker GNU ld" in text
    assert "\n- emulator: QEMU 7.2.22, machine virt, cpu max, seed 1\n" in text


def test_undecided_is_a_verdict() -> None:
    spread = built(SYSCALL, samples={"getppid": {55: 400, 56: 300, 57: 300}})
    text = comparison_changelog(compare(spread, built(SYSCALL)))
    assert "\n  getppid: 55 -> 55 (0) undecided\n" in text
    assert "zero spread" not in text


def test_a_base_of_zero_has_no_percentage() -> None:
    new = changed(**{"clock_gettime@vdso": [("entry", 9)]})
    text = comparison_changelog(compare(built(SYSCALL), built(new)))
    assert "\n  clock_gettime@vdso: 0 -> 9 (+9) worse\n" in text
    assert "\nTotal: Before=0, After=9\n" in text


def test_a_small_change_is_not_printed_as_none() -> None:
    old, new = built({"getppid": [("entry", 4000)]}), built({"getppid": [("entry", 3999)]})
    text = comparison_changelog(compare(old, new))
    assert "(-1, -0.03 % of old) better" in text


# --- vector states -------------------------------------------------------

RISCV = "riscv64"
DISCARD = Event("discard", "syscall", "do_trap_ecall_u", 1)
USES = ("none", "once", "each", "after", "1/10")
NOT_DECIDED = Caveat(kind="no-majority", text="getppid+vec=once: only 40 % agree")


def test_a_matrix_of_one_kernel() -> None:
    matrix = {
        f"{case}+vec={use}": [("do_trap_ecall_u", 2370 if use == "1/10" else 223)]
        for case in ("getppid", "use-after-fork", "sched_yield")
        for use in USES
    }
    recording = with_events(
        built({"read": [("f", 300)], **matrix}, arch=RISCV),
        {name: [DISCARD] for name in matrix if name.endswith(("=once", "=each"))},
    )
    recording.caveats.append({"kind": "not-time", "text": "exact instruction counts under x"})
    text = recording_changelog(recording)
    check_form(text)
    plain = unwrapped(text)
    assert "Kernel instructions of each case: read 300\n" in text
    assert "vec= is V, 128 bits" in text
    assert re.search(r"^  case +none +once +each +after +1/10$", text, re.MULTILINE)
    for case in ("getppid", "use-after-fork", "sched_yield"):
        assert re.search(rf"^  {case} +223 +223 +223 +223 +237$", text, re.MULTILINE)
    assert "once, each: discard 1 (syscall): getppid, use-after-fork, sched_yield" in plain
    assert "discard: vmv.v.i v0,-1" in plain
    assert "not in this kernel, so not counted: kernel-use, allocation" in plain
    assert "- kernel: linux-source-6.12 6.12.95-1, Linux 6.12.95, riscv64" in plain
    assert "- 1000 windows a case, zero spread" in plain
    assert "other architectures: arm64, x86_64" in plain


def test_cases_of_one_kernel_without_states() -> None:
    text = recording_changelog(built(SYSCALL))
    check_form(text)
    assert "Kernel instructions of each case: " in text
    assert "getppid 55," in unwrapped(text)
    assert "vector" not in text
    assert "markers" not in text


def test_a_spread_of_one_kernel_is_said() -> None:
    name = "getppid+vec=once"
    recording = with_events(
        built({name: [("f", 55)]}, samples={name: {55: 400, 56: 300, 57: 300}}, arch=RISCV), {}
    )
    recording.cases[0] = replace(recording.cases[0], caveats=(NOT_DECIDED,))
    text = recording_changelog(recording)
    check_form(text)
    assert "a spread in 1 of 1 counts" in text
    assert re.search(r"^  getppid +~55$", text, re.MULTILINE)
    assert "~ under half of the windows have this count" in text


def test_the_events_of_a_comparison_come_before_its_counts() -> None:
    cases = {"getppid+vec=once": [("f", 5)], "getppid+vec=1/10": [("f", 50)]}
    old = with_events(built(cases, arch=RISCV), {name: [DISCARD] for name in cases})
    new = with_events(
        built(cases, arch=RISCV), {"getppid+vec=1/10": [structs.replace(DISCARD, times=10)]}
    )
    text = comparison_changelog(compare(old, new))
    check_form(text)
    assert text.startswith("Vector events:\n")
    plain = unwrapped(text)
    for line in (
        "getppid+vec=once: discard (syscall) 1 -> 0 per call, in do_trap_ecall_u",
        "getppid+vec=1/10: discard (syscall) 1 -> 10 per 10 calls, in do_trap_ecall_u",
    ):
        assert " ".join(plain.split()).find(line) < plain.find("Kernel instructions of each case")
        assert line in " ".join(plain.split())


def test_a_comparison_without_changes_of_events_says_nothing_of_them() -> None:
    cases = {"getppid+vec=once": [("f", 5)]}
    old = with_events(built(cases, arch=RISCV), {"getppid+vec=once": [DISCARD]})
    assert "Vector events" not in comparison_changelog(compare(old, old))


def test_the_events_of_a_series_are_said_patch_by_patch() -> None:
    cases = {f"{case}+vec=once": [("f", 5)] for case in ("getppid", "getpid", "read")}
    with_all = with_events(built(cases, arch=RISCV), {name: [DISCARD] for name in cases})
    with_one = with_events(built(cases, arch=RISCV), {"read+vec=once": [DISCARD]})
    series = tabulate(
        [outcome(0, "baseline", with_all), outcome(1, "one", with_all), outcome(2, "2", with_one)],
        {},
    )
    text = series_changelog(series)
    check_form(text)
    assert (
        "\nPatch 2: discard (syscall) 1 -> 0 per call, in do_trap_ecall_u:"
        " getppid+vec=once, getpid+vec=once\n"
    ) in unwrapped(text)
    assert "Patch 1: discard" not in text
