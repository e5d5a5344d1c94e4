# SPDX-License-Identifier: GPL-2.0-or-later
"""Cost tables of what costs.c printed, and of recorded paths."""

import dataclasses
import re
from collections.abc import Callable, Sequence
from typing import Any
from unittest.mock import Mock

import pytest
from msgspec.structs import replace

from kentry.arch import ARCHES
from kentry.count import cache
from kentry.count.catalogue import choose
from kentry.errors import UserError
from kentry.models.costs import CostTable, Figure
from kentry.results.recording import Instruction, Recording, VectorEvent
from kentry.vector import cost_tables
from kentry.vector.cost_counts import NEVER, call_lengths, cases_needed, count
from kentry.vector.cost_tables import (
    Sheet,
    Span,
    Timing,
    checks,
    completed,
    count_costs,
    parse,
    time_here,
)
from tests.builders import Functions, image_kernel, recording
from tests.unit.vector.builders import ARM, printed, with_events

RISCV = {
    "syscall-never": 180,
    "syscall-once": 230,
    "syscall-each": 232,
    "use": 2,
    "trip-never": 9000,
    # Four discards of 50, two saves and restores of 150 together.
    "trip-once": 9000 + 200 + 300,
    "trip-each": 9000 + 200 + 300 + 4,
    "first-use": 2000,
    "gap-never": 5000,
    "gap-each": 5002,
    "copy-nothing": 1,
    "copy-save": 31,
    "copy-restore": 41,
}
X86 = {
    "syscall-never": 78,
    "syscall-once": 78,
    "syscall-each": 79,
    "use": 1,
    "first-use": 0,
    "copy-nothing": 1,
    "copy-save": 31,
    "copy-restore": 48,
}


def table(arch: str, values: dict[str, int], *, virtual: bool = False) -> Sheet:
    return Sheet(parse(printed(arch, values), virtual=virtual), "kentry vector costs --here")


def values(timed: Sheet) -> dict[str, float]:
    return {act: figure.value for act, figure in timed.table("x", "").figures.items()}


def test_a_kernel_that_drops_at_a_switch() -> None:
    timed = table("arm64", ARM)
    assert values(timed) == {
        "syscall": 200,
        "trap": 800,
        "flush": 14,
        "drop": 0,
        # The small copy, and half of the 60 that the whole state adds to a switch and back.
        "save": 50,
        "restore": 51,
        "small_save": 20,
        "small_restore": 21,
        "kept_load": 8,
    }
    assert timed.table("x", "").unit == "ns"
    assert {one.assume for act, one in timed.figures.items() if act != "drop"} == {"measured"}
    assert timed.figures["drop"].assume == "assumed"
    assert "1100" in timed.figures["trap"].note
    # One that drops at every system call.
    timed = table("arm64", {**ARM, "syscall-once": 200, "syscall-each": 1002, "trip-each": 5604})
    assert values(timed)["trap"] == 800
    assert values(timed)["flush"] == 0


def test_a_kernel_that_never_drops() -> None:
    timed = table("riscv64", RISCV)
    assert values(timed) == {"syscall": 180, "trap": 2000, "flush": 50, "save": 75, "restore": 75}
    assert set(timed.table("x", "").absent) == {"drop"}
    # Where switches tell nothing, the copies are what is known.
    timed = table("riscv64", {**RISCV, "trip-once": 9200})
    assert (values(timed)["save"], values(timed)["restore"]) == (30, 40)
    assert timed.switch is None
    # One that does nothing at a system call.
    timed = table("x86_64", X86)
    assert values(timed) == {"syscall": 78, "save": 30, "restore": 47}
    assert set(timed.table("x", "").absent) == {"trap", "flush"}


def test_in_a_guest_the_unit_is_instructions() -> None:
    timed = table("arm64", ARM, virtual=True)
    assert timed.table("x", "").unit == "instructions"
    assert timed.figures["flush"].assume == "derived"
    # Other lines may be between.
    text = f"[ 1.0] boot\r\n{printed('arm64', ARM)}\r\nreboot: Power down\r\n"
    assert parse(text.replace("\n", "\r\n")).bits == 128


def estimate(*values: float, virtual: bool = False, of: str = "trip-once") -> Span | None:
    return Timing("arm64", 128, "", virtual, {of: list(values)}).value(of)


def test_a_measures_value_and_what_it_is_between() -> None:
    assert estimate(*range(1, 31)) == Span(15.5, 10, 22)
    assert estimate(*[5.0] * 6) == Span(5, 5, 5)
    assert estimate(*[5.0] * 5) is None
    # Fewer than a half are outliers: it is not moved.
    assert getattr(estimate(*[10.0] * 20, *[1e6] * 9), "value", 0) == 10
    # A guest's is not moved by what is in most blocks.
    assert estimate(*[10.0] * 6, *[500.0] * 10, virtual=True) == Span(10, 10, 500)
    # As a tick is in nearly each block of syscall-once on neoverse-v1.
    ticks = (506.1, 517.6, *[530.6] * 14)
    assert estimate(*ticks, virtual=True) == Span(530.6, 506.1, 530.6)
    assert estimate(*ticks, virtual=True, of="syscall-once") == Span(506.1, 506.1, 530.6)


def test_intervals_are_the_least_favourable() -> None:
    one, two = Span(10, 8, 13), Span(4, 3, 6)
    assert one - two == Span(6, 2, 10)
    assert one + two == Span(14, 11, 19)
    assert one * 0.5 == Span(5, 4, 6.5)
    assert (two - two).low < 0
    # The spread is in the figure's interval.
    text = printed("arm64", ARM).replace(" syscall-once 100 21400", " syscall-once 100 21900", 3)
    flush = Sheet(parse(text), "c").figures["flush"]
    assert (flush.value, flush.low, flush.high) == (14, 14, 19)


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        (lambda text: "", "no 'kentry-costs start' line"),
        (lambda text: text.rpartition("\n")[0], "blocks are missing"),
        (lambda text: text.replace("kentry-costs block use 100 200\n", "", 1), "are missing"),
        (lambda text: text.replace("use 100 ", "use 0 ", 1), "is no line of costs.c's"),
        (lambda text: text.replace("use 100 200", "use 100 x", 1), "is no line of costs.c's"),
        (lambda text: text.replace("use 100 ", f"use 1 {'9' * 400}", 1), "is no line of costs.c's"),
        (lambda text: text.replace("bits=128", "bits"), "is no line of costs.c's"),
        (lambda text: text.replace("kentry-costs start", "x"), "is no line of costs.c's"),
        (lambda text: text.replace("costs block", "costs brick"), "is no line of costs.c's"),
    ],
)
def test_what_is_not_whole_is_refused(change, sentence: str) -> None:  # type: ignore[no-untyped-def]
    with pytest.raises(UserError) as caught:
        parse(change(printed("arm64", ARM)))
    assert sentence in caught.value.sentence
    assert caught.value.remedy


def test_a_machine_without_the_unit_or_with_too_few_blocks_has_no_table() -> None:
    with pytest.raises(UserError, match="vector unit"):
        Sheet(parse(printed("arm64", {"syscall-never": 5}, bits=0)), "c")
    with pytest.raises(UserError, match="6 blocks"):
        Sheet(parse(printed("arm64", ARM, rounds=5)), "c")


def test_a_measure_that_failed_has_no_figure() -> None:
    text = printed("arm64", {k: v for k, v in ARM.items() if k != "copy-save"})
    absent = "kentry-costs absent copy-save it failed\nkentry-costs end"
    timing = parse(text.replace("kentry-costs end", absent))
    assert timing.value("copy-save") is None
    # The switch still tells of a save.
    assert values(Sheet(timing, "c"))["save"] == 50
    without = table("x86_64", {k: v for k, v in X86.items() if k != "copy-save"})
    assert set(without.table("x", "").absent) == {"save", "trap", "flush"}


def counted(**values: float) -> CostTable:
    figures = {act: Figure(value, value, value, "counted", "c") for act, value in values.items()}
    return CostTable("x", "", "arm64", "instructions", 0, figures)


def test_a_counted_table_is_completed_by_what_only_the_clock_saw() -> None:
    timed = table("arm64", ARM, virtual=True)
    whole = completed(counted(trap=418, small_save=53, small_restore=146), timed).figures
    assert list(whole) == ["trap", "save", "restore", "small_save", "small_restore", "kept_load"]
    assert (whole["save"].value, whole["restore"].value) == (83, 176)
    assert whole["save"].assume == "derived"
    assert whole["trap"].value == 418
    # Nothing that was counted is replaced.
    assert completed(counted(save=1, small_save=2), timed).figures["save"].value == 1


def test_the_two_ways_are_put_beside_each_other() -> None:
    timed = table("arm64", ARM, virtual=True)
    assert checks(counted(flush=14, trap=790, drop=10, save=1), timed) == [
        ("flush", 14, 14),
        ("trap + drop", 800, 800),
    ]
    other = table("riscv64", RISCV, virtual=True)
    assert checks(counted(flush=50, save=80, restore=68), other) == [
        ("flush", 50, 50),
        ("save + restore", 148, 150),
    ]


COMMAND = "kentry record K --arch A"
RULES = ARCHES["arm64"].vector.counting


def entry(*functions: tuple[str, int]) -> list[tuple[str, int]]:
    return [("vectors", 2), *functions, ("out", 1)]


SVC: Functions = entry(("el0_svc", 97))
FLUSHED: Functions = entry(("el0_svc", 97), ("sve_flush_live", 34))
TRAP: Functions = entry(("do_sve_acc", 397))
ALLOCATING: Functions = entry(("do_sve_acc", 597))


def events(**times: int) -> list[VectorEvent]:
    causes = {"trap": ("first use", "do_sve_acc")}
    return [
        VectorEvent(name.replace("_", "-"), *causes.get(name, ("syscall", name)), number)
        for name, number in times.items()
    ]


def arm(**changed: tuple[Functions, Sequence[VectorEvent]]) -> Recording:
    """A kernel of 6.12's policy: flushes at system calls, drops at a switch."""
    trip = [*SVC, *FLUSHED]
    cases: dict[str, tuple[Functions, Sequence[VectorEvent]]] = {
        "getppid+vec=none": (SVC, ()),
        "getppid+vec=once": (FLUSHED, events(flush=1)),
        "getppid+vec=each": (FLUSHED, events(flush=1)),
        "pingpong+vec=none": (trip, ()),
        "pingpong+vec=once": (trip, ()),
        "pingpong+vec=each": (
            [*TRAP, *FLUSHED, *TRAP, *FLUSHED, ("x", 10)],
            events(trap=2, flush=1, drop=2),
        ),
        "first-use+vec=each": (ALLOCATING, events(trap=1)),
        **{name.replace("_vec_", "+vec="): case for name, case in changed.items()},
    }
    made = recording({name: functions for name, (functions, _) in cases.items()})
    # An "out" leaves the kernel.
    code = [insn._replace(text="eret") if insn.function == "out" else insn for insn in made.code]
    by_case = {name: found for name, (_, found) in cases.items()}
    return with_events(replace(made, code=code), by_case)


def test_traps_flushes_and_drops() -> None:
    figures = count(arm(), RULES, None, COMMAND).figures
    # 2 traps of 400 and a flush of 34 more than in "once", and 10 instructions for 2 drops.
    counts = {act: figure.value for act, figure in figures.items()}
    assert counts == {"syscall": 100, "trap": 400, "flush": 34, "drop": 5}
    assert figures["flush"].source == (
        f"{COMMAND} --case getppid+vec=once,getppid+vec=none: the first less the second"
    )
    assert figures["drop"].source.endswith("less 2 x trap less 1 x flush, by 2")
    assert figures["trap"].note.endswith(": 600")
    assert {figure.assume for figure in figures.values()} == {"counted"}


def test_a_drop_at_every_system_call_is_counted() -> None:
    dropping = arm(
        getppid_vec_once=(SVC, ()),
        getppid_vec_each=([*TRAP, *SVC, ("y", 3)], events(trap=1, drop=1)),
    )
    found = count(dropping, RULES, None, COMMAND)
    assert found.figures["drop"].value == 3
    assert found.figures["trap"].source.startswith(f"{COMMAND} --case getppid+vec=each")
    assert found.absent["flush"] == NEVER


@pytest.mark.parametrize("arch", ARCHES)
@pytest.mark.parametrize("call", ["read", "getppid", "pingpong"])
def test_cases_that_a_kernel_lacks_give_no_figure(arch: str, call: str) -> None:
    rules = ARCHES[arch].vector.counting
    lacking = with_events(recording({f"{call}+vec=none": SVC}), {f"{call}+vec=none": ()})
    table = count(lacking, rules, None, COMMAND)
    assert set(table.figures) <= {"syscall"} and set(rules.calls) <= set(table.absent)


def test_what_does_not_add_up_is_no_figure() -> None:
    functions = [*TRAP, *FLUSHED, *TRAP, *FLUSHED, ("x", 11)]
    odd = arm(pingpong_vec_each=(functions, events(trap=2, flush=1, drop=2)))
    found = count(odd, RULES, None, COMMAND)
    assert "drop" not in found.figures
    assert found.absent["drop"] != NEVER
    # Only a first use traps where nothing is dropped.
    trip: Functions = [*SVC, *SVC]
    kept = count(arm(pingpong_vec_each=(trip, ())), RULES, None, COMMAND).figures
    assert kept["trap"].value == 600
    assert "allocation" in kept["trap"].note


def code(*rows: tuple[int, str, int]) -> list[Instruction]:
    return [Instruction(address, "1f2003d5", "nop", name, offset) for address, name, offset in rows]


def test_a_call_is_as_long_as_what_it_calls() -> None:
    path = code(
        *((0x100, "a", 0), (0x200, "f", 0), (0x300, "g", 0), (0x304, "g", 4)),
        *((0x204, "f", 4), (0x104, "a", 4), (0x200, "f", 0), (0x108, "a", 8)),
    )
    assert call_lengths(path, re.compile("f")) == [4, 1]
    assert call_lengths(path, re.compile("g")) == [2]
    assert call_lengths(path, re.compile("h")) == []
    # One that never comes back, because another task was switched to.
    assert call_lengths(path[:4], re.compile("f|g")) == []


@pytest.mark.parametrize("arch", ARCHES.values(), ids=lambda arch: arch.name)
def test_the_cases_needed_are_in_the_catalogue(arch) -> None:  # type: ignore[no-untyped-def]
    for length in (None, arch.vector.units[0].lengths[-1]):
        names = cases_needed(arch.vector.counting, length)
        assert set(choose(arch, names)) == set(
            names if length != arch.vector.units[0].lengths[0] else choose(arch, names)
        )


def test_the_sme_cases_are_asked_for_where_there_is_sme() -> None:
    assert "pingpong+za=once+vl=512" in cases_needed(RULES, 512, sme=True)
    assert "pingpong+za=once+vl=512" not in cases_needed(RULES, 512)


def test_a_machine_without_the_length_is_not_timed(monkeypatch: pytest.MonkeyPatch) -> None:
    def timed(argv: object, seconds: object, on_line: Callable[[str], None]) -> Any:
        for line in printed("arm64", ARM, bits=256).splitlines():
            on_line(line)
        return Mock(stopped="")

    monkeypatch.setattr(cost_tables, "supervise", timed)
    monkeypatch.setattr(cost_tables, "timing_program", lambda arch: "costs")
    assert time_here(None).vl == time_here(256).vl == 256
    with pytest.raises(UserError, match="256 bits"):
        time_here(100)


@pytest.mark.parametrize(
    ("spec", "cpu", "bits", "name", "where"),
    [
        ("debian:6.12", "max", 128, "arm64-6", "debian:6.12 --arch arm64"),
        (
            *("debian:6.12", "neoverse-v1", 256, "arm64-neoverse-v1-"),
            "debian:6.12 --arch arm64 --cpu neoverse-v1",
        ),
        (
            *("debian:6.12,cpu=fugaku", "fugaku", 512, "arm64-fugaku-"),
            "debian:6.12,cpu=fugaku --arch arm64",
        ),
    ],
)
def test_a_kernels_table_is_of_its_processor(
    monkeypatch: pytest.MonkeyPatch, spec: str, cpu: str, bits: int, name: str, where: str
) -> None:
    measured = arm()
    measured = replace(measured, target=measured.target | {"processor": cpu})
    monkeypatch.setattr(cache, "record", lambda *words, **options: measured)
    for needed in ("timing_program", "emulator_of", "build_initramfs", "kept_file", "boot_argv"):
        monkeypatch.setattr(cost_tables, needed, lambda *words: "")
    monkeypatch.setattr(cost_tables, "Guest", lambda *words, **options: Mock(argv=list))
    console = printed("arm64", ARM, bits=bits)
    monkeypatch.setattr(cost_tables, "boot", lambda *words: Mock(console=console))
    kernel = dataclasses.replace(image_kernel(), spec=spec)
    table, _ = count_costs(
        kernel, ARCHES["arm64"], None, cpu, "installed", lambda fraction, now: None
    )
    assert table.vl == bits and table.name.startswith(name)
    # Linux gives a task no more than 512 bits if it does not ask.
    longer, _ = count_costs(
        kernel, ARCHES["arm64"], 1024, cpu, "installed", lambda fraction, now: None
    )
    assert longer.vl == 1024
    assert table.figures["flush"].source.startswith(f"kentry record {where} --case ")
    assert table.figures["kept_load"].source.startswith(f"kentry vector costs {where}:")
