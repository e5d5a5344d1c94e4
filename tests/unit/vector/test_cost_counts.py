# SPDX-License-Identifier: GPL-2.0-or-later
"""A cost table out of recorded paths, spelled as the functions that they go through."""

import re
from collections.abc import Sequence

import pytest
from msgspec.structs import replace

from kentry.arch import ARCHES
from kentry.count.catalogue import choose
from kentry.results.recording import Instruction, Recording, VectorEvent
from kentry.vector.cost_counts import NEVER, call_lengths, cases_needed, count
from tests.builders import Functions, recording
from tests.unit.vector.builders import with_events

COMMAND = "kentry record K --arch A"
RULES = ARCHES["arm64"].vector.counting


def with_returns(made: Recording) -> Recording:
    """The recording, in which the last instruction of every "out" leaves the kernel."""
    code = [replace_text(insn, "eret") if insn.function == "out" else insn for insn in made.code]
    return replace(made, code=code)


def replace_text(insn: Instruction, text: str) -> Instruction:
    return Instruction(insn.address, insn.code, text, insn.function, insn.offset)


def entry(*functions: tuple[str, int]) -> list[tuple[str, int]]:
    return [("vectors", 2), *functions, ("out", 1)]


SVC: Functions = entry(("el0_svc", 97))
FLUSHED: Functions = entry(("el0_svc", 97), ("sve_flush_live", 34))
TRAP: Functions = entry(("do_sve_acc", 397))
ALLOCATING: Functions = entry(("do_sve_acc", 597))
SAVE, LOAD = ("fpsimd_save_user_state", 40), ("fpsimd_restore_current_state", 50)


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
    return with_returns(with_events(made, {name: found for name, (_, found) in cases.items()}))


def values(made: Recording) -> dict[str, float]:
    return {act: one.value for act, one in count(made, RULES, None, COMMAND).figures.items()}


def test_traps_flushes_and_drops() -> None:
    # 2 traps of 400 and a flush of 34 more than in "once", and 10 instructions for 2 drops.
    assert values(arm()) == {"syscall": 100, "trap": 400, "flush": 34, "drop": 5}


def test_each_figure_says_how_it_was_counted() -> None:
    figures = count(arm(), RULES, None, COMMAND).figures
    assert figures["flush"].source == (
        f"{COMMAND} --case getppid+vec=once,getppid+vec=none: the first less the second"
    )
    assert figures["drop"].source.endswith("less 2 x trap less 1 x flush, by 2")
    assert figures["trap"].note.endswith(": 600")
    assert {figure.assume for figure in figures.values()} == {"counted"}


def test_a_kernel_that_drops_at_every_system_call() -> None:
    dropping = arm(
        getppid_vec_once=(SVC, ()),
        getppid_vec_each=([*TRAP, *SVC, ("y", 3)], events(trap=1, drop=1)),
    )
    found = count(dropping, RULES, None, COMMAND)
    assert found.figures["drop"].value == 3
    assert found.figures["trap"].source.startswith(f"{COMMAND} --case getppid+vec=each")
    assert found.absent["flush"] == NEVER


def test_what_does_not_add_up_is_no_figure() -> None:
    odd = arm(
        pingpong_vec_each=(
            [*TRAP, *FLUSHED, *TRAP, *FLUSHED, ("x", 11)],
            events(trap=2, flush=1, drop=2),
        )
    )
    found = count(odd, RULES, None, COMMAND)
    assert "drop" not in found.figures
    assert found.absent["drop"] != NEVER


def test_only_a_first_use_traps_where_nothing_is_dropped() -> None:
    trip: Functions = [*SVC, *SVC]
    kept = arm(pingpong_vec_each=(trip, ()))
    found = count(kept, RULES, None, COMMAND).figures
    assert found["trap"].value == 600
    assert "allocation" in found["trap"].note


def code(*rows: tuple[int, str, int]) -> list[Instruction]:
    return [Instruction(address, "1f2003d5", "nop", name, offset) for address, name, offset in rows]


def test_a_call_is_as_long_as_what_it_calls() -> None:
    path = code(
        (0x100, "a", 0),
        (0x200, "f", 0),
        (0x300, "g", 0),
        (0x304, "g", 4),
        (0x204, "f", 4),
        (0x104, "a", 4),
        (0x200, "f", 0),
        (0x108, "a", 8),
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
