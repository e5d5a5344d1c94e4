# SPDX-License-Identifier: GPL-2.0-or-later
"""Two paths beside each other: what is no difference, what is one, and sums that are exact."""

import re
from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import UNSET
from msgspec.structs import replace

from kentry.arch import find_arch
from kentry.compare.counted import compare, with_paths_and_samples
from kentry.compare.path_diff import compare_paths, diff_paths, modal_paths
from kentry.errors import UserError
from kentry.results.annotation import PathComparison, PathDiff
from kentry.results.comparison import CallsDelta, Renamed
from kentry.results.recording import Instruction, Measured, Recording, SourceLine, read_recording
from kentry.show.comparison import comparison_layout
from kentry.show.page import page
from kentry.show.paths import path_layout
from kentry.show.text import to_text
from tests import ROOT
from tests.builders import recording

GOLDEN = ROOT / "tests" / "golden"
RISCV = find_arch("riscv64")
NOP = "13000000"


def path(*functions: tuple[str, str], base: int = 0xFFFFFFFF80000000) -> list[Instruction]:
    """Functions in a row, each with its lines; a jump back to a function's line is spelled out."""
    code = []
    for name, text in functions:
        for n, line in enumerate(text.split("; ")):
            code.append(Instruction(base + 4 * n, NOP, line, name, 4 * n))
        base += 0x1000
    return code


def diffed(old: list[Instruction], new: list[Instruction]) -> PathDiff:
    found = diff_paths("getppid", old, new, RISCV)
    assert (found.old, found.new) == (len(old), len(new))
    assert found.delta == len(new) - len(old) == found.added - found.removed
    return found


SAVE = "sd a0,80(sp); sd a1,88(sp); csrrs s2,sepc,zero; sd s2,0(sp); csrrs s4,scause,zero"
WORK = "ld t0,0(tp); andi t0,t0,449; bnez t0,<f+0x80>; mul t1,t2,t3"
# Five instructions that have nothing in common with those.
OTHER = "xor t1,t2,t3; fence rw,rw; mulw a0,a1,a2; divu a0,a1,a2; sltu a0,a1,a2"
FOUR = "csrrs s4,scause,zero; xor t1,t2,t3; sltu a0,a1,a2; fence rw,rw"
FORTY = "; ".join(f"addi a{n % 8},a{n // 8},{n}" for n in range(40))


@pytest.mark.parametrize(
    ("old", "new", "counts"),
    [
        # Another mnemonic, register that has a purpose, special register, or function called.
        ([("f", WORK)], [("f", WORK.replace("mul t1,t2,t3", "sub t1,t2,t3"))], (1, 1, 0)),
        ([("f", WORK)], [("f", WORK.replace("mul t1,t2,t3", "mul t1,t2,sp"))], (1, 1, 0)),
        ([("f", WORK)], [("f", WORK.replace("mul t1,t2,t3", "csrrs t1,sepc,zero"))], (1, 1, 0)),
        (
            [("f", f"{WORK}; jal ra,<g>"), ("g", SAVE), ("h", WORK)],
            [("f", f"{WORK}; jal ra,<h>"), ("g", SAVE), ("h", WORK)],
            (1, 1, 0),
        ),
        # Another function with another body; nops are no evidence that it is the same.
        ([("f", WORK), ("a", SAVE)], [("f", WORK), ("b", OTHER)], (5, 5, 0)),
        ([("a", "; ".join(["nop"] * 20))], [("b", "; ".join(["nop"] * 20))], (0, 0, 20)),
        # What a compiler moved has the same registers; a block moves to another function.
        ([("f", f"mul t1,t2,t3; {FOUR}")], [("f", f"{FOUR}; mul t1,t2,t3")], (0, 0, 1)),
        ([("f", f"mul t1,t2,t3; {FOUR}")], [("f", f"{FOUR}; mul a0,a1,a2")], (1, 1, 0)),
        (
            [("f", f"xor t1,t2,t3; {SAVE}; mul t1,t2,t3"), ("g", FORTY)],
            [("f", "xor t1,t2,t3"), ("g", f"{FORTY}; {SAVE}; mul t1,t2,t3")],
            (0, 0, 6),
        ),
    ],
)
def test_what_is_added_removed_and_moved(
    old: list[tuple[str, str]], new: list[tuple[str, str]], counts: tuple[int, int, int]
) -> None:
    found = diffed(path(*old), path(*new))
    assert (found.added, found.removed, found.moved) == counts
    assert found.renamed == ()


def test_registers_addresses_and_constants_are_no_difference() -> None:
    old = path(("f", "auipc a5,716800 # 0xffffffff8022acda; lw a5,30(a5); ld t0,8(tp)"))
    new = path(
        ("f", "auipc s3,4096 # 0xffffffff80230000; lw s4,-8(s3); ld s5,16(tp)"), base=1 << 40
    )
    found = diffed(old, new)
    assert found.same == 3
    assert [row.constants_differ for row in found.rows] == [False, False, True]


def test_a_renamed_function_is_the_same_and_named_by_both() -> None:
    found = diffed(path(("f", WORK), ("old_save", SAVE)), path(("f", WORK), ("new_save", SAVE)))
    assert (found.added, found.removed) == (0, 0)
    assert found.renamed == (Renamed((("old_save", 5),), (("new_save", 5),)),)
    assert found.renamed[0].name == "new_save <- old_save"
    assert {row.function for row in found.rows} == {"f", "new_save <- old_save"}


def test_an_inlined_function_is_recognised_and_its_call_is_removed() -> None:
    callee = "addi sp,sp,-16; sd ra,8(sp); csrrsi zero,sstatus,2; ld a1,40(tp); andi a2,a1,63"
    old = path(("f", f"{WORK}; jal ra,<g>"), ("g", callee))
    new = path(("f", f"{WORK}; csrrsi zero,sstatus,2; ld a1,40(tp); andi a2,a1,63"))
    found = diffed(old, new)
    assert [one.name for one in found.renamed] == ["f <- g"]
    assert (found.added, found.removed) == (0, 3)


@pytest.mark.parametrize(
    ("before", "after", "known"),
    [("__g", "g", 1), ("g", "__g", 1), ("g", "g_noprof", 1), ("g", "h", 0), ("g", "g_slow", 0)],
)
def test_a_function_that_only_another_was_put_before_is_recognised_by_its_name(
    before: str, after: str, known: int
) -> None:
    old = path(("f", WORK), (before, "xor t1,t2,t3; fence rw,rw; mulw a0,a1,a2; divu a0,a1,a2"))
    new = path(("f", WORK), (after, "sltu a0,a1,a2; sub a0,a1,a2; rem a0,a1,a2; sll a0,a1,a2"))
    assert len(diffed(old, new).renamed) == known


def test_both_rows_of_what_moved_have_both_places() -> None:
    found = diffed(path(("f", f"mul t1,t2,t3; {FOUR}")), path(("f", f"{FOUR}; mul t1,t2,t3")))
    there, back = (row for row in found.rows if row.change in ("moved-from", "moved-to"))
    assert there.old == back.old and there.new == back.new
    assert (there.change, back.change) == ("moved-from", "moved-to")


@pytest.mark.parametrize(("others", "moved"), [(23, 1), (24, 0)])
def test_a_compiler_moves_an_instruction_24_places_at_most(others: int, moved: int) -> None:
    first, *rest = "mul t1,t2,t3", *(f"csrrs a0,mhpmcounter{n},zero" for n in range(3, 3 + others))
    old, new = ([first, *rest, "sltu a0,a1,a2"], [*rest, first, "sltu a0,a1,a2"])
    found = diffed(path(("f", "; ".join(old))), path(("f", "; ".join(new))))
    assert (found.moved, found.removed) == (moved, 1 - moved)


def test_where_interrupts_are_turned_on_is_found_in_another_function() -> None:
    one = path(("f", f"{SAVE}; csrrsi zero,sstatus,2"), ("g", WORK))
    other = path(("f", SAVE), ("g", f"{WORK}; csrrsi zero,sstatus,2"))
    # Its bytes say that it serialises.
    old, new = (
        [
            insn._replace(code="73600110") if insn.text.startswith("csrrsi") else insn
            for insn in side
        ]
        for side in (one, other)
    )
    found = diffed(old, new)
    assert (found.added, found.removed, found.moved) == (0, 0, 1)
    twice = diffed(old, [*new, *path(("h", "csrrsi zero,sstatus,2"))])
    assert twice.added >= 1


@pytest.mark.parametrize(("before", "after"), [(31, 31), (31, 33), (33, 31), (1, 5)])
def test_a_loop_is_folded_and_its_rounds_are_counted(before: int, after: int) -> None:
    loop = path(("f", "ld a0,0(a1); addi a1,a1,8; bnez a0,<f>"))
    end = path(("g", "mul t1,t2,t3"))
    found = diffed([*loop * before, *end], [*loop * after, *end])
    assert found.same == 3 * min(before, after) + 1
    assert len(found.rows) == (4 if before == after else 7)
    rounds = [(row.change, row.times) for row in found.rows[:3]]
    assert rounds == [("same", min(before, after))] * 3


LINES = st.sampled_from(
    [
        *("sd a0,80(sp)", "sd s2,0(sp)", "mv a0,s1", "ld t0,0(tp)", "andi t0,t0,449", "ret", "nop"),
        *("jal ra,<f>", "jal ra,<g>", "bnez t0,<f+0x8>", "auipc a5,4096", "addi a5,a5,16"),
        *("csrrsi zero,sstatus,2", "illegal", ".byte 0x00"),
    ]
)
PATHS = st.lists(st.tuples(st.sampled_from("fghk"), LINES, st.integers(0, 12)), max_size=60).map(
    lambda lines: [
        Instruction(0x1000 * ord(name) + 4 * place, NOP, text, name, 4 * place)
        for name, text, place in lines
    ]
)


@given(PATHS, PATHS)
def test_the_change_is_exact_for_any_two_paths(
    old: list[Instruction], new: list[Instruction]
) -> None:
    found = diffed(old, new)
    # Each instruction of each side stands in exactly one row of that side.
    for side, whole, left_out in (("old", old, "moved-to"), ("new", new, "moved-from")):
        counts: Counter[str] = Counter()
        for row in found.rows:
            own = getattr(row, side)
            if own and row.change != left_out:
                counts[own.text] += row.times
        assert counts == Counter(insn.text for insn in whole)
    heads: Counter[str] = Counter()
    for row in found.rows:
        heads[row.change] += row.times
    assert heads["moved-from"] == heads["moved-to"] == found.moved


@given(PATHS)
def test_any_path_is_the_same_as_itself(one: list[Instruction]) -> None:
    found = diffed(one, one)
    assert (found.same, found.added, found.removed, found.moved) == (len(one), 0, 0, 0)


@given(PATHS, st.permutations([f"t{n}" for n in range(7)]))
def test_renamed_registers_are_no_difference(one: list[Instruction], names: list[str]) -> None:
    other = [
        insn._replace(text=insn.text.replace("t0", names[0]).replace("a5", "a4")) for insn in one
    ]
    found = diffed(one, other)
    assert (found.added, found.removed, found.moved) == (0, 0, 0)


def golden(name: str) -> Recording:
    return read_recording(GOLDEN / name)


# What 6.1 keeps in functions of their own and 6.12 keeps in others, as entry.S of both says.
RENAMED = {
    "handle_exception": {"_save_context", "handle_exception"},
    "ret_from_exception": {"restore_all", "resume_userspace", "ret_from_exception"},
    "__riscv_sys_getppid": {"sys_getppid"},
}
# The generic entry of kernel/entry/ and of arch/riscv/kernel/traps.c; 6.1 has neither.
GENERIC_ENTRY = {"do_trap_ecall_u", "syscall_exit_to_user_mode"}
# struct pt_regs keeps xN at byte 8 * N; x2 and x4 are the stack and the task, kept otherwise.
SAVED = {8 * number for number in range(1, 32) if number not in (2, 4)}


def test_the_paths_are_aligned_across_the_renamed_functions() -> None:
    """docs/cases/riscv-syscall-regression.md is about the same two kernels."""
    sides = golden("riscv64-6.1.json"), golden("riscv64-6.12.json")
    (found,) = compare_paths(*sides, ["getppid"]).cases
    assert found.added - found.removed == found.delta == found.new - found.old == 58
    pairs = ((pair.old, pair.new) for pair in found.renamed)
    assert {name: {one for one, _ in old} for old, new in pairs for name, _ in new} == RENAMED
    same = [row for row in found.rows if row.change == "same"]
    sides_of = [(row.old, row.new) for row in same if row.old and row.new]
    for mnemonic, names in (
        ("sd", ("_save_context", "handle_exception")),
        ("ld", ("restore_all", "ret_from_exception")),
    ):
        texts = [new.text for old, new in sides_of if (old.function, new.function) == names]
        matches = [re.fullmatch(rf"{mnemonic} \w+,(\d+)\(sp\)", text) for text in texts]
        assert {int(match[1]) for match in matches if match} >= SAVED
    assert {row.function for row in found.rows if row.change == "added"} >= GENERIC_ENTRY
    assert not {row.function for row in same} & GENERIC_ENTRY


def recorded(*functions: tuple[str, str]) -> Recording:
    """A recording of getppid that took these functions."""
    lengths = [(name, len(text.split("; "))) for name, text in functions]
    found = recording({"getppid": lengths}, kernel={"arch": "riscv64"})
    found.code = path(*functions)
    return found


def test_a_call_that_went_has_all_that_it_called() -> None:
    rest = ("g", "xor t1,t2,t3; jal ra,<h>"), ("h", "fence rw,rw; divu a0,a1,a2")
    old = recorded(("f", f"{WORK}; jal ra,<g>"), *rest)
    new = recorded(("f", f"{WORK}; sub a0,a1,a2"))
    for before, after, calls in (
        (old, new, CallsDelta("g", 1, 0, 4, 0)),
        (new, old, CallsDelta("g", 0, 1, 0, 4)),
    ):
        compared = compare(before, after)
        assert compared.cases[0].calls == (calls,)
        # A page names it in the row of the case, with all that it called.
        assert f"g\u00a0{calls.delta:+d}" in page([comparison_layout(compared)])
    assert compare(old, old).cases[0].calls == ()
    # One that is called as before, and calls another, is in no row.
    other = recorded(("f", f"{WORK}; jal ra,<g>"), ("g", "xor t1,t2,t3; sub a0,a1,a2"))
    assert compare(old, other).cases[0].calls == (CallsDelta("h", 1, 0, 2, 0),)


def test_a_function_that_was_split_is_one_row_with_both_names() -> None:
    comparison = compare(
        recorded(("f", WORK), ("a", f"{SAVE}; {OTHER}")),
        recorded(("f", WORK), ("b", SAVE), ("c", f"{OTHER}; ld ra,8(sp)")),
    )
    (case,) = comparison.cases
    rows = {row.name: (row.old, row.new) for row in case.functions}
    assert rows == {"f": (4, 4), "c + b <- a": (10, 11)}


def test_an_inlined_function_is_recognised_by_debug_info_alone() -> None:
    """Its instructions are others: the compiler made other code of it where it is inlined."""
    other = "xor t1,t2,t3; fence rw,rw; mulw a0,a1,a2"
    old = path(("f", f"{WORK}; jal ra,<helper>"), ("helper", SAVE))
    new = path(("f", f"{WORK}; {other}"))
    assert diffed(old, new).renamed == ()
    outer = SourceLine("f.c", 3, "f")
    inlined = (SourceLine("f.c", 1, "helper"), outer)
    told = [insn._replace(source_lines=inlined if insn.text in other else (outer,)) for insn in new]
    for one, renamed in (
        (diffed(old, told), Renamed((("f", 5), ("helper", 5)), (("f", 7),))),
        (diffed(told, old), Renamed((("f", 7),), (("f", 5), ("helper", 5)))),
    ):
        assert one.renamed == (renamed,)
    row = next(row for row in diffed(old, told).rows if row.new and row.new.text.startswith("xor"))
    assert row.new and row.new.source_lines == inlined
    side = Measured.of(recorded(("f", WORK)))
    paths = PathComparison(side.tool, side, side, (diffed(old, told),), ())
    text = to_text(path_layout(paths, context=3))
    assert re.search(r"^\+ +0x10  xor t1,t2,t3 +f\.c:1 < f\.c:3$", text, re.MULTILINE)
    assert text.count("f.c:1") == 1
    # Also where an instruction before it, which is the same, has that line.
    more = [*new, new[-1]._replace(address=0x1234, text="fence rw,rw")]
    told = [insn._replace(source_lines=(outer,)) for insn in more]
    paths = replace(paths, cases=(diffed(told[:-1], told),))
    assert re.search(
        r"^\+ .*fence rw,rw +f\.c:3$", to_text(path_layout(paths, context=3)), re.MULTILINE
    )


def test_a_helper_that_many_functions_have_inlined_makes_no_row_of_them() -> None:
    """Nor does one that was inlined before, or that another function called."""
    call, inlined = "jal ra,<helper>", "csrrsi zero,sstatus,2"
    helper = ("helper", "fence rw,rw; ld ra,8(sp)")

    def told(name: str, text: str) -> list[Instruction]:
        outer = SourceLine("f.c", 3, name)
        lines = (SourceLine("f.c", 1, "helper"), outer)
        return [
            insn._replace(source_lines=lines if insn.text == inlined else (outer,))
            for insn in path((name, text))
        ]

    many = [*path(("f", f"{WORK}; {call}"), helper, ("g", f"{SAVE}; {call}"), helper)]
    new = [*told("f", f"{WORK}; {inlined}"), *told("g", f"{SAVE}; {inlined}")]
    assert diffed(many, new).renamed == diffed(new, many).renamed == ()
    both = [*told("f", f"{WORK}; {inlined}"), *path(("g", f"{SAVE}; {call}"), helper)]
    alone = [*told("f", f"{WORK}; {inlined}"), *path(("g", SAVE))]
    assert diffed(both, alone).renamed == diffed(alone, both).renamed == ()


def test_a_case_that_one_side_lacks_is_refused_with_what_it_has() -> None:
    with pytest.raises(UserError, match="new recording, .* no case read") as caught:
        compare_paths(recording({"read": [("f", 3)]}), recording({"getppid": [("f", 3)]}), ["read"])
    assert caught.value.remedy == "It has: getppid."


def test_a_recording_without_the_path_is_refused() -> None:
    whole = recording({"getppid": [("f", 3)]})
    lacking = recording({"getppid": []}, {"getppid": {3: 1000}})
    lacking.cases[0] = type(whole.cases[0])("getppid", lacking.cases[0].metrics, (), (), ())
    with pytest.raises(UserError, match="path of getppid"):
        compare_paths(lacking, whole, ["getppid"])


def test_a_pair_needs_the_path_of_both_sides_and_paths_that_are_the_same_are_not_kept() -> None:
    old = recording({"read": [("a", 5)], "write": [("a", 5)], "stat": [("a", 5)], "none": []})
    new = recording({"read": [("a", 7)], "write": [("a", 5)], "none": []})
    lost = replace(new.cases[0], paths=(), functions=())
    assert [modal_paths(name, old, new) is None for name in ("read", "stat", "none")] == [
        *(False, True, True)
    ]
    assert modal_paths("read", old, replace(new, cases=[lost])) is None
    kept = with_paths_and_samples(compare(old, new), old, new).modal_paths
    assert kept is not UNSET and kept.cases.keys() == {"read"}


def test_a_case_that_never_enters_the_kernel_has_an_empty_diff() -> None:
    one = recording({"getppid": []}, {"getppid": {0: 1000}})
    (found,) = compare_paths(one, one, ["getppid"]).cases
    assert (found.old, found.new, found.rows) == (0, 0, ())


def test_a_reason_is_what_the_kernels_tables_say() -> None:
    """A commit wrote three nops into entry code; the kernel itself patches one further."""
    before, after = (
        ("ret_from_exception", "nop; sret"),
        ("ret_from_exception", "nop; " * 4 + "sret"),
    )
    old, new = recorded(before), recorded(after)
    key = ("__jump_table",)
    old.code[0] = old.code[0]._replace(tables=key)
    new.code[2] = new.code[2]._replace(tables=key)
    comparison = compare_paths(old, new, ["getppid"])
    found = {
        (row.new.offset, row.reason, row.source) for row in comparison.cases[0].rows if row.new
    }
    assert found == {
        *((offset, "", "") for offset in (0, 4, 12, 16)),
        (8, "static key (__jump_table)", "__jump_table"),
    }
    assert "no-tables" not in {one["kind"] for one in comparison.caveats}


def test_recordings_without_tables_give_no_reason_and_say_so() -> None:
    old, new = golden("arm64-6.1.json"), golden("arm64-6.12.json")
    comparison = compare_paths(old, new, ["getppid"])
    assert {row.reason for row in comparison.cases[0].rows} == {""}
    assert "no-tables" in {one["kind"] for one in comparison.caveats}
    # It is enough that something was added.
    more = replace(old, code=[*old.code, *old.code[:1]])
    [case] = [case for case in old.cases if case.name == "getppid"]
    longer = replace(case.paths[0], runs=(*case.paths[0].runs, (len(old.code), 1)))
    more.cases = [replace(case, paths=(longer,))]
    added = compare_paths(old, more, ["getppid"])
    assert (added.cases[0].added, added.cases[0].removed) == (1, 0)
    assert "no-tables" in {one["kind"] for one in added.caveats}
    # Where nothing changed nobody looks for one.
    same = compare_paths(old, old, ["getppid"])
    assert "no-tables" not in {one["kind"] for one in same.caveats}
