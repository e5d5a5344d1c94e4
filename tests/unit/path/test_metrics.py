# SPDX-License-Identifier: GPL-2.0-or-later
"""The metrics of a path, on one that is small enough to count by hand."""

from hypothesis import given
from hypothesis import strategies as st

from kentry.arch import find_arch
from kentry.path import metrics
from kentry.results.recording import Access, Instruction

ARM64 = find_arch("arm64")
TEXT = 0xFFFF800080000000


def path(*rows: tuple[int, str, str, str]) -> list[Instruction]:
    """Rows (offset from TEXT, bytes, text, function)."""
    return [Instruction(TEXT + at, code, text, name, at) for at, code, text, name in rows]


PATH = path(
    (0x00, "fd7bbea9", "stp x29, x30, [sp, #-0x20]!", "outer"),
    (0x04, "1f000094", "bl <inner>", "outer"),
    (0x80, "e10740f9", "ldr x1, [sp, #8]", "inner"),
    (0x84, "200c1ff8", "str x0, [x1, #-0x10]!", "inner"),
    (0x88, "c0035fd6", "ret", "inner"),
    (0x08, "60000054", "b.eq <outer+0x14>", "outer"),
    (0x0C, "df3f03d5", "isb", "outer"),
    (0x10, "fd7bc2a8", "ldp x29, x30, [sp], #0x20", "outer"),
    (0x14, "c0035fd6", "ret", "outer"),
)
STACK = 0xFFFF800080403FE0
ACCESSES = (
    Access(0, STACK, 16, True),
    Access(2, STACK + 8, 8, False),
    # The last bytes of a page and of a line, and the first of the next ones.
    Access(3, 0xFFFF000000001FFC, 8, True),
    Access(7, STACK, 16, False),
)


def test_a_path_counted_by_hand() -> None:
    found = metrics.amounts(PATH, ACCESSES, ARM64)
    assert {name: amounts.total() for name, amounts in found.items()} == {
        "loads": 2,
        "stores": 2,
        "bytes.loaded": 24,
        "bytes.stored": 24,
        "atomics": 0,
        "branches": 4,
        "branches.taken": 3,
        "branches.indirect": 0,
        "calls": 1,
        "returns": 2,
        "serialising": 1,
        "serialising.isb": 1,
        "lines.code": 2,
        "lines.code.32": 2,
        "lines.code.128": 2,
        "pages.code": 1,
        "fetches.16": 4,
        "fetches.32": 3,
        "fetches.64": 3,
        "targets.unaligned": 1,
        "functions.straddling": 0,
        "lines.data": 3,
        "lines.data.32": 3,
        "lines.data.128": 3,
        "pages.data": 3,
    }
    assert metrics.stack_bytes(PATH, ACCESSES, ARM64) == 16


def test_a_function_has_the_lines_that_it_touches_first() -> None:
    found = metrics.amounts(PATH, ACCESSES, ARM64)
    names = [insn.function for insn in PATH]
    assert metrics.shares(found["lines.data"], names) == {"outer": 1, "inner": 2}
    assert metrics.shares(found["lines.code"], names) == {"outer": 1, "inner": 1}
    assert metrics.shares(found["loads"], names) == {"inner": 1, "outer": 1}


def test_the_last_instruction_is_taken_unless_it_is_conditional() -> None:
    for length, taken in ((6, 2), (9, 3), (0, 0)):
        found = metrics.amounts(PATH[:length], [], ARM64)
        assert found["branches.taken"].total() == taken
    assert not any(amounts.total() for amounts in found.values())


def test_what_the_emulator_does_not_report_is_named() -> None:
    zeroing = path((0, "20740bd5", "dc zva, x0", "memset"), (4, "e10740f9", "ldr x1, [sp]", "f"))
    found = metrics.unreported(zeroing, [Access(1, STACK, 8, False)], ARM64)
    assert found == {"dc zva": 1}
    assert not metrics.unreported(PATH, ACCESSES, ARM64)
    # A store-conditional may have failed.
    exclusive = path((0, "207c02c8", "stxr w2, x0, [x1]", "f"))
    assert not metrics.unreported(exclusive, [], ARM64)


@given(
    st.lists(
        st.tuples(
            st.integers(0, len(PATH) - 1),
            st.integers(0, 2**14),
            st.integers(1, 300),
            st.booleans(),
        )
    )
)
def test_lines_are_counted_once(rows: list[tuple[int, int, int, bool]]) -> None:
    accesses = [Access(*row) for row in sorted(rows)]
    found = metrics.amounts_of_accesses(accesses)
    touched = {byte for one in accesses for byte in range(one.address, one.address + one.size)}
    for name, size in (("lines.data.32", 32), ("lines.data", 64), ("pages.data", 4096)):
        assert found[name].total() == len({byte // size for byte in touched})


def test_an_x86_path_counted_by_hand() -> None:
    codes = (
        (0x1000, "e310"),  # jrcxz, not taken
        (0x1002, "7410"),  # je, taken
        (0x1014, "e810101010"),  # call
        (0x2129, "f0ff07"),  # lock incl
        (0x212C, "c3"),  # ret
        (0x1019, "ffd0"),  # call *%rax
        (0x203E, "0f01f8"),  # swapgs, in two lines
        (0x2041, "0f01f8"),
        (0x2044, "480f07"),  # sysretq
    )
    made = [Instruction(address, code, "", "f", 0) for address, code in codes]
    found = metrics.amounts_of_code(made, find_arch("x86_64"))
    assert {name: amounts.total() for name, amounts in found.items()} == {
        "atomics": 1,
        "branches": 5,
        "branches.taken": 4,
        "branches.indirect": 1,
        "calls": 2,
        "returns": 1,
        "serialising": 3,
        "serialising.swapgs": 2,
        "serialising.sysretq": 1,
        "lines.code": 4,
        "lines.code.32": 4,
        "lines.code.128": 3,
        "pages.code": 2,
        "fetches.16": 6,
        "fetches.32": 5,
        "fetches.64": 5,
        "targets.unaligned": 4,
        "functions.straddling": 1,
    }
