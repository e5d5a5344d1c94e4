# SPDX-License-Identifier: GPL-2.0-or-later
"""Which functions' code differs, and that a loop of changed code is seen wherever it lies."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from kentry.compare.code import changed_functions
from kentry.results.recording import Instruction, Recording
from tests.builders import recording
from tests.unit.compare.test_contexts import compared, of_runs

ARM = 4  # bytes an instruction


class Image:
    """A kernel's text: functions of lines, each behind the last one."""

    def __init__(self, functions: dict[str, list[str]], base: int = 0xFFFF800080000000) -> None:
        self.code: list[Instruction] = []
        self.places: dict[tuple[str, int], int] = {}
        for name, lines in functions.items():
            for n, line in enumerate(lines):
                self.places[name, n] = len(self.code)
                self.code.append(Instruction(base, "1f2003d5", line, name, ARM * n))
                base += ARM
            base += 64

    def recording(self, paths: Sequence[Sequence[tuple[str, int]]], seed: int) -> Recording:
        """A recording in whose contexts these places were executed, and no other is known."""
        kept: dict[int, int] = {}
        for path in paths:
            for one in path:
                kept.setdefault(self.places[one], len(kept))
        runs = [tuple((kept[self.places[one]], 1) for one in path) for path in paths]
        return of_runs([self.code[place] for place in kept], runs, seed, "stat")


ENTRY = [
    "stp x29, x30, [sp, #-16]!",
    "mov x29, sp",
    "bl <lookup>",
    "ldp x29, x30, [sp], #16",
    "ret",
]
HEAD = ["ldr x1, [x0]", "cbz x1, <lookup+0x30>"]
BODY = ["ldr x2, [x1, #8]", "cmp x2, x3", "b.eq <lookup+0x30>", "ldr x1, [x1]"]
BACK, TAIL = "cbnz x1, <lookup+0x8>", "ret"


def kernel(
    rounds: Sequence[int], more: Sequence[str] = (), *, out_of_line: bool = False, seed: int = 1
) -> Recording:
    """One context for each number of rounds of a hash chain; `more` is in the loop or its helper.

    The helper is a function that only such a kernel has; "" is in line and makes no difference.
    """
    inside = ["bl <helper>"] if out_of_line else list(more)
    functions = {
        "el0_svc": ENTRY,
        "lookup": [*HEAD, *BODY, *inside, BACK, TAIL],
        "helper": [*more, "ret"],
    }
    loop = [("lookup", len(HEAD) + n) for n in range(len(BODY) + len(inside))]
    if out_of_line:
        loop += [("helper", n) for n in range(len(more) + 1)]
    loop.append(("lookup", len(HEAD) + len(BODY) + len(inside)))
    entered = [("el0_svc", n) for n in range(3)]
    left = [("lookup", len(functions["lookup"]) - 1), ("el0_svc", 3), ("el0_svc", 4)]
    head = [("lookup", 0), ("lookup", 1)]
    # The linker puts everything elsewhere.
    image = Image(functions, 0xFFFF800080000000 + 0x1000 * len(more))
    return image.recording([entered + head + loop * n + left for n in rounds], seed)


HALF, QUARTER, MOST = [0] * 4 + [3] * 4, [0] * 6 + [3] * 2, [0] + [3] * 7
SEVERAL = [0] * 4 + [3] * 2 + [5] * 2


@pytest.mark.parametrize("rounds", [HALF, QUARTER, MOST, SEVERAL], ids=str)
@pytest.mark.parametrize("out_of_line", [False, True], ids=["in line", "out of line"])
@pytest.mark.parametrize("paired", [False, True], ids=["other contexts", "the same contexts"])
def test_a_slower_step_in_some_contexts_is_never_the_same(
    rounds: list[int], out_of_line: bool, paired: bool
) -> None:
    # The new kernel met no chain of five.
    met = [min(n, 3) for n in rounds]
    old = kernel(rounds)
    new = kernel(met, ["add x4, x4, #1"], out_of_line=out_of_line, seed=1 if paired else 2)
    for before, after in ((old, new), (new, old)):
        case = compared(before, after)
        assert case.verdict == "undecided"
        assert not case.identical_path
        assert "change-by-context" in [one["kind"] for one in case.caveats]
    assert changed_functions(old, new) == ({"lookup", "helper"} if out_of_line else {"lookup"})


@pytest.mark.parametrize("met", [HALF, QUARTER, MOST, SEVERAL, [0, 1, 0, 0, 2, 0]], ids=str)
def test_one_kernel_linked_elsewhere_is_the_same_in_other_contexts(met: list[int]) -> None:
    old, new = kernel(SEVERAL), kernel(met, seed=2)
    new.code = [one._replace(address=one.address + 0x40) for one in new.code]
    case = compared(old, new)
    assert (case.verdict, case.identical_path) == ("same", True)
    assert not changed_functions(old, new)


def test_a_function_that_one_recording_executed_is_no_change_where_its_caller_is_not() -> None:
    """Only one of the two came to the branch that leads to it."""
    slow = {"f": ["ldr x0, [x1]", "cbz x0, <f+0x10>", "bl <refill>", "ret"], "refill": ["nop"] * 9}
    seldom = [("f", 0), ("f", 1), ("f", 3)]
    refills = [*seldom[:2], ("f", 2), *[("refill", n) for n in range(9)], ("f", 3)]
    old = Image(slow).recording([seldom] * 8, 1)
    new = Image(slow).recording([seldom] * 7 + [refills], 2)
    assert not changed_functions(old, new)
    assert compared(old, new).verdict == "same"


def test_an_instruction_that_begins_within_another_is_of_other_code() -> None:
    def image(lines: list[tuple[str, int, str]]) -> Recording:
        found = recording({"x": [("f", len(lines))]})
        found.code = [
            Instruction(0xFFFFFFFF81000000 + offset, code, text, "f", offset)
            for text, offset, code in lines
        ]
        return found

    one = image([("pushq %rbp", 0, "55"), ("movq 8(%rdi), %rax", 1, "488b4708")])
    other = image([("pushq %rbp", 0, "55"), ("retq", 3, "c3")])
    assert changed_functions(one, other) == {"f"}
    assert not changed_functions(one, one)
