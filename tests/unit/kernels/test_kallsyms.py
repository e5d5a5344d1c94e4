# SPDX-License-Identifier: GPL-2.0-or-later
"""The table of symbols in an image, in each form that kernels since 4.19 have given it."""

import struct

import pytest

from kentry.kernels import kallsyms
from tests.unit.kernels import fakes

BASE, COUNT = fakes.BASE, fakes.SYMBOL_COUNT
POINTERS = b"".join(struct.pack("<Q", BASE + 8 * index) for index in range(1500))
WANTED = [(BASE, "T_text")] + [
    (BASE + 16 * index, f"t{fakes.function_name(index)}") for index in range(1, COUNT)
]


def image(table: bytes, release: str = "6.1") -> bytes:
    banner = f"Linux version {release}.0 ".encode()
    return banner + bytes(-len(banner) % 8) + POINTERS + table + bytes(64)


@pytest.mark.parametrize(
    ("release", "marker"), [((6, 1), "I"), ((4, 19), "Q"), ((6, 4), "I"), ((6, 12), "I")]
)
def test_addresses_stand_before_the_names_or_behind_them(
    release: tuple[int, int], marker: str
) -> None:
    table = fakes.kallsyms(BASE, release, marker=marker)
    assert list(kallsyms.read(image(table, "{}.{}".format(*release)))) == WANTED


def test_an_order_of_names_may_stand_before_the_tokens() -> None:
    table = fakes.kallsyms(BASE)
    tokens = table.index(b"xx\0xx\0")
    order = b"\x7f\x01\x02" * COUNT  # three bytes a name
    assert len(order) % 8 == 0
    assert list(kallsyms.read(image(table[:tokens] + order + table[tokens:]))) == WANTED


def with_offsets(offsets: list[int], base: int) -> bytes:
    packed = struct.pack(f"<{COUNT}iQ", *offsets, base)
    return packed + fakes.kallsyms(BASE)[len(packed) :]


def test_offsets_of_x86_are_relative_where_they_are_negative() -> None:
    table = with_offsets([0x40] + [-1 - 16 * index for index in range(1, COUNT)], BASE)
    assert list(kallsyms.read(image(table))) == [(0x40, "T_text"), *WANTED[1:]]


def test_a_base_that_only_a_relocation_has() -> None:
    offsets = [16 * index for index in range(COUNT)]
    whole = image(with_offsets(offsets, 0))
    place = BASE + whole.index(struct.pack(f"<{COUNT}i", *offsets)) + 4 * COUNT
    with pytest.raises(ValueError):
        list(kallsyms.read(whole))
    relocation = struct.pack("<QQQ", place, 0x403, BASE)
    assert list(kallsyms.read(whole + relocation)) == WANTED


def test_whole_addresses() -> None:
    # CONFIG_KALLSYMS_BASE_RELATIVE=n
    addresses = struct.pack(f"<{COUNT}Q", *(address for address, _ in WANTED))
    table = fakes.kallsyms(BASE)[4 * COUNT + 8 :]
    assert list(kallsyms.read(image(addresses + table))) == WANTED


def test_distances_of_linux_7() -> None:
    behind = 4 * COUNT + 8
    table = fakes.kallsyms(BASE, (7, 0))[:-behind]
    at = len(image(table, "7.0")) - 64
    distances = [16 * index - at - 4 * index for index in range(COUNT)]
    whole = image(table + struct.pack(f"<{COUNT}i", *distances), "7.0")
    assert list(kallsyms.read(whole)) == WANTED


def test_a_damaged_table_is_refused() -> None:
    whole = bytearray(image(fakes.kallsyms(BASE)))
    first = whole.index(b"T_text") - 1
    for bad in (whole[: first + 500], whole[:first] + b"\x09" + whole[first + 1 :], b""):
        with pytest.raises(ValueError):
            list(kallsyms.read(bytes(bad)))


def test_the_link_address_is_where_the_pointers_point() -> None:
    minus_ones = b"\xff" * 8 * 3000
    assert kallsyms.link_address(POINTERS + minus_ones) == BASE
    with pytest.raises(ValueError):
        kallsyms.link_address(minus_ones)
