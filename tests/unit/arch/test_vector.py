# SPDX-License-Identifier: GPL-2.0-or-later
"""Encodings of markers against instructions as GNU as 2.40 assembles and objdump names them."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kentry.arch import ARCHES, Arch
from kentry.arch.processors import MAX, vector_bits
from kentry.arch.record import VectorSide, word

ARM64, RISCV64, X86_64 = (ARCHES[name].vector for name in ("arm64", "riscv64", "x86_64"))

WORDS = st.integers(0, 0xFFFFFFFF)


@given(WORDS, WORDS, WORDS)
def test_a_word_is_matched_by_value_under_a_mask(mask: int, value: int, other: int) -> None:
    pattern = word(mask, value & mask)
    for number in (value, other, value & mask | other & ~mask):
        found = pattern.fullmatch(number.to_bytes(4, "little"))
        assert bool(found) == (number & mask == value & mask)


def events(side: VectorSide, number: int) -> set[str]:
    """The markers whose encoding a 32-bit instruction has."""
    raw = number.to_bytes(4, "little")
    return {one.event for one in side.markers if one.code and one.code.fullmatch(raw)}


@pytest.mark.parametrize(
    ("number", "text", "wanted"),
    [
        (0x5E0FB057, "vmv.v.i v0,-1", {"discard"}),
        (0x5E0FB457, "vmv.v.i v8,-1", set()),
        (0x5E003057, "vmv.v.i v0,0", set()),
        (0x02028C27, "vse8.v v24,(t0)", {"save"}),
        (0x02050C27, "vse8.v v24,(a0)", {"save"}),
        (0x02050827, "vse8.v v16,(a0)", set()),
        (0x02055C27, "vse16.v v24,(a0)", set()),
        (0x00050C27, "vse8.v v24,(a0),v0.t", set()),
        (0xE2828C27, "vs8r.v v24,(t0)", set()),
        (0x02028C07, "vle8.v v24,(t0)", {"restore"}),
        (0x020D8C07, "vle8.v v24,(s11)", {"restore"}),
        (0x02028007, "vle8.v v0,(t0)", set()),
        (0x0202EC07, "vle32.v v24,(t0)", set()),
        (0x03028C07, "vle8ff.v v24,(t0)", set()),
        (0xE2828C07, "vl8r.v v24,(t0)", set()),
    ],
)
def test_instructions_of_riscv64(number: int, text: str, wanted: set[str]) -> None:
    assert events(RISCV64, number) == wanted, text


@pytest.mark.parametrize(
    ("number", "text", "wanted"),
    [
        (0x25289000, "wrffr p0.b", {"flush"}),
        (0x25289020, "wrffr p1.b", set()),
        (0x2519F000, "rdffr p0.b", {"save"}),
        (0x2519F001, "rdffr p1.b", set()),
        (0x2518F020, "rdffr p0.b, p1/z", set()),
        (0xD5181040, "msr cpacr_el1, x0", {"drop"}),
        (0xD5181047, "msr cpacr_el1, x7", {"drop"}),
        (0xD51D1040, "msr cpacr_el12, x0", set()),
        (0xD5381040, "mrs x0, cpacr_el1", set()),
        (0xD503427F, "smstop sm", {"smstop"}),
        (0xD503447F, "smstop za", set()),
        (0xD503437F, "smstart sm", set()),
        (0x8580401F, "ldr z31, [x0]", {"restore"}),
        (0x85BF553F, "ldr z31, [x9, #-3, mul vl]", {"restore"}),
        (0x8580401E, "ldr z30, [x0]", set()),
        (0x8580000F, "ldr p15, [x0]", set()),
        (0xE580401F, "str z31, [x0]", set()),
        (0xAD0F7C1E, "stp q30, q31, [x0, #480]", {"fpsimd-save"}),
        (0xAD8F7D1E, "stp q30, q31, [x8, #480]!", {"fpsimd-save"}),
        (0xAC8F7C1E, "stp q30, q31, [x0], #480", set()),
        (0xAD0E7C1E, "stp q30, q31, [x0, #448]", set()),
        (0xAD0F741C, "stp q28, q29, [x0, #480]", set()),
        (0xAD4F7C1E, "ldp q30, q31, [x0, #480]", {"fpsimd-restore"}),
        (0xADCF7C7E, "ldp q30, q31, [x3, #480]!", {"fpsimd-restore"}),
        (0xE1200000, "str za[w12, 0], [x0]", {"za-save"}),
        (0xE1206125, "str za[w15, 5], [x9, #5, mul vl]", {"za-save"}),
        (0xE03F0000, "st1b {za0h.b[w12, 0]}, p0, [x0, xzr]", set()),
        (0xE1000000, "ldr za[w12, 0], [x0]", {"za-restore"}),
        (0xE100204F, "ldr za[w13, 15], [x2, #15, mul vl]", {"za-restore"}),
        (0xE01F0000, "ld1b {za0h.b[w12, 0]}, p0/z, [x0, xzr]", set()),
    ],
)
def test_instructions_of_arm64(number: int, text: str, wanted: set[str]) -> None:
    assert events(ARM64, number) == wanted, text


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


@pytest.mark.parametrize(
    ("code", "text", "wanted"),
    [
        ("480fae27", "xsave64 (%rdi)", {"save"}),
        ("480fc72f", "xsaves64 (%rdi)", {"save"}),
        ("480fc727", "xsavec64 (%rdi)", {"save"}),
        ("480fae37", "xsaveopt64 (%rdi)", {"save"}),
        ("480fae07", "fxsave64 (%rdi)", {"save"}),
        ("480fae2f", "xrstor64 (%rdi)", {"restore"}),
        ("490fae28", "xrstor64 (%r8)", {"restore"}),
        ("480fc71f", "xrstors64 (%rdi)", {"restore"}),
        ("480fae0f", "fxrstor64 (%rdi)", {"restore"}),
        ("0faee8", "lfence", set()),
        ("0faef0", "mfence", set()),
        ("0faef8", "sfence", set()),
        ("0fae3f", "clflush (%rdi)", set()),
        ("660fae37", "clwb (%rdi)", set()),
        ("0fae17", "ldmxcsr (%rdi)", set()),
        ("480fc70f", "cmpxchg16b (%rdi)", set()),
        ("480fc7f0", "rdrand %rax", set()),
        ("f3480faec0", "rdfsbase %rax", set()),
    ],
)
def test_instructions_of_x86_64(code: str, text: str, wanted: set[str]) -> None:
    raw = bytes.fromhex(code)
    found = {one.event for one in X86_64.markers if one.code and one.code.fullmatch(raw)}
    assert found == wanted, text


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
