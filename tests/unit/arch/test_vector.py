# SPDX-License-Identifier: GPL-2.0-or-later
"""Encodings of markers against instructions as GNU as 2.40 assembles and objdump names them."""

import re
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kentry.arch import ARCHES, Arch
from kentry.arch.processors import MAX, vector_bits
from kentry.arch.record import Marker, VectorSide, word

ARM64, RISCV64, X86_64 = (ARCHES[name].vector for name in ("arm64", "riscv64", "x86_64"))

WORDS = st.integers(0, 0xFFFFFFFF)


@given(WORDS, WORDS, WORDS)
def test_a_word_is_matched_by_value_under_a_mask(mask: int, value: int, other: int) -> None:
    pattern = word(mask, value & mask)
    for number in (value, other, value & mask | other & ~mask):
        found = pattern.fullmatch(number.to_bytes(4, "little"))
        assert bool(found) == (number & mask == value & mask)


# Instructions, arm64's and riscv64's as words and x86-64's in memory order; whose marker each is,
# or none's; its text.
TABLES = {
    "arm64": """
25289000  flush           wrffr p0.b
25289020  -               wrffr p1.b
2519f000  save            rdffr p0.b
2519f001  -               rdffr p1.b
2518f020  -               rdffr p0.b, p1/z
d5181040  drop            msr cpacr_el1, x0
d5181047  drop            msr cpacr_el1, x7
d51d1040  -               msr cpacr_el12, x0
d5381040  -               mrs x0, cpacr_el1
d503427f  smstop          smstop sm
d503447f  -               smstop za
d503437f  -               smstart sm
8580401f  restore         ldr z31, [x0]
85bf553f  restore         ldr z31, [x9, #-3, mul vl]
8580401e  -               ldr z30, [x0]
8580000f  -               ldr p15, [x0]
e580401f  -               str z31, [x0]
ad0f7c1e  fpsimd-save     stp q30, q31, [x0, #480]
ad8f7d1e  fpsimd-save     stp q30, q31, [x8, #480]!
ac8f7c1e  -               stp q30, q31, [x0], #480
ad0e7c1e  -               stp q30, q31, [x0, #448]
ad0f741c  -               stp q28, q29, [x0, #480]
ad4f7c1e  fpsimd-restore  ldp q30, q31, [x0, #480]
adcf7c7e  fpsimd-restore  ldp q30, q31, [x3, #480]!
e1200000  za-save         str za[w12, 0], [x0]
e1206125  za-save         str za[w15, 5], [x9, #5, mul vl]
e03f0000  -               st1b {za0h.b[w12, 0]}, p0, [x0, xzr]
e1000000  za-restore      ldr za[w12, 0], [x0]
e100204f  za-restore      ldr za[w13, 15], [x2, #15, mul vl]
e01f0000  -               ld1b {za0h.b[w12, 0]}, p0/z, [x0, xzr]
""",
    "riscv64": """
5e0fb057  discard  vmv.v.i v0,-1
5e0fb457  -        vmv.v.i v8,-1
5e003057  -        vmv.v.i v0,0
02028c27  save     vse8.v v24,(t0)
02050c27  save     vse8.v v24,(a0)
02050827  -        vse8.v v16,(a0)
02055c27  -        vse16.v v24,(a0)
00050c27  -        vse8.v v24,(a0),v0.t
e2828c27  -        vs8r.v v24,(t0)
02028c07  restore  vle8.v v24,(t0)
020d8c07  restore  vle8.v v24,(s11)
02028007  -        vle8.v v0,(t0)
0202ec07  -        vle32.v v24,(t0)
03028c07  -        vle8ff.v v24,(t0)
e2828c07  -        vl8r.v v24,(t0)
""",
    "x86_64": """
480fae27    save     xsave64 (%rdi)
480fc72f    save     xsaves64 (%rdi)
480fc727    save     xsavec64 (%rdi)
480fae37    save     xsaveopt64 (%rdi)
480fae07    save     fxsave64 (%rdi)
480fae2f    restore  xrstor64 (%rdi)
490fae28    restore  xrstor64 (%r8)
480fc71f    restore  xrstors64 (%rdi)
480fae0f    restore  fxrstor64 (%rdi)
0faee8      -        lfence
0faef0      -        mfence
0faef8      -        sfence
0fae3f      -        clflush (%rdi)
660fae37    -        clwb (%rdi)
0fae17      -        ldmxcsr (%rdi)
480fc70f    -        cmpxchg16b (%rdi)
480fc7f0    -        rdrand %rax
f3480faec0  -        rdfsbase %rax
""",
}
ROWS = [
    (arch, *re.split(r" {2,}", line))
    for arch, table in TABLES.items()
    for line in table.strip().splitlines()
]


@pytest.mark.parametrize(("arch", "code", "event", "text"), ROWS)
def test_an_instruction_is_the_marker_of_its_event(
    arch: str, code: str, event: str, text: str
) -> None:
    raw = bytes.fromhex(code)[:: 1 if arch == "x86_64" else -1]
    markers = ARCHES[arch].vector.markers
    found = [one.event for one in markers if one.code and one.code.fullmatch(raw)]
    assert found == [event] * (event != "-"), text


@pytest.mark.parametrize(
    ("number", "text", "is_drop"),
    [
        (0x926EF800, "and x0, x0, #0xfffffffffffdffff", True),
        (0x926EF8A3, "and x3, x5, #0xfffffffffffdffff", True),
        (0x926FF800, "and x0, x0, #0xfffffffffffeffff", False),
        (0x120E7800, "and w0, w0, #0xfffdffff", False),
    ],
)
def test_access_is_taken_away_behind_bit_17(number: int, text: str, is_drop: bool) -> None:
    behind = next(one.behind for one in ARM64.markers if one.event == "drop")
    assert behind
    assert bool(behind.fullmatch(number.to_bytes(4, "little"))) == is_drop, text


SIDES = pytest.mark.parametrize("arch", ARCHES.values(), ids=lambda arch: arch.name)


@SIDES
def test_markers_and_lengths_are_what_they_may_be(arch: Arch) -> None:
    markers = arch.vector.markers
    assert all(bool(one.symbol) != bool(one.code) for one in markers)
    labels = {one.event: one.label for one in markers}
    assert len(labels) == len(markers)
    assert re.fullmatch(r"[ -~]+", "".join(labels.values()))
    assert not re.search(r"[\\|]", "".join(labels.values()))
    for unit in arch.vector.units:
        assert all(bits % 128 == 0 for bits in unit.lengths)
        assert arch.vector.unit(unit.name) is unit
        assert vector_bits(arch, MAX, unit.name) == unit.lengths[0]
        assert vector_bits(arch, MAX, unit.name, 384) == 384
    assert arch.vector.unit("mmx") is None


def test_places_are_at_multiples_of_the_alignment() -> None:
    marker = Marker("x", "ab", code=re.compile(b"ab"))
    assert list(marker.places(b"abababab.ab", 1)) == [0, 2, 4, 6, 9]
    assert list(marker.places(b"abababab.ab", 4)) == [0, 4]
    # One that begins inside of another that is not at a multiple.
    assert list(replace(marker, code=re.compile(b"aa")).places(b".aaaa", 2)) == [2]


def test_labels_say_where() -> None:
    labels = {one.event: one.label for one in ARM64.markers}
    assert labels["trap"] == "entry of do_sve_acc"
    assert labels["allocation"].endswith("in sve_alloc or sme_alloc")


@pytest.mark.parametrize(
    ("side", "release", "policy"),
    [
        (ARM64, (4, 15), "drop-each-syscall"),
        (ARM64, (6, 1), "drop-each-syscall"),
        (ARM64, (6, 2), "drop-on-load"),
        (ARM64, (7, 3), "drop-on-load"),
        (RISCV64, (6, 12), "discard"),
        (X86_64, (6, 12), "eager"),
    ],
)
def test_the_policy_is_that_of_the_release(
    side: VectorSide, release: tuple[int, int], policy: str
) -> None:
    assert side.policy_of(release) == policy
