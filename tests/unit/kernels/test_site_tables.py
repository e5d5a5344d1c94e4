# SPDX-License-Identifier: GPL-2.0-or-later
"""Tables of patched instructions: images made here, and damaged ones."""

import random
import struct
from collections.abc import Mapping
from pathlib import Path

import pytest

from kentry.arch import find_arch
from kentry.kernels.kernel import Kernel, Symbol, SymbolTable
from kentry.kernels.site_tables import read_tables, tables_of

BASE = 0xFFFF800080000000
SIZE = 0x4000
FUNCTION = 0x1000


def kernel(
    folder: Path, arch: str, tables: Mapping[int, bytes], symbols: Mapping[str, int]
) -> Kernel:
    """An Image with bytes at places, and symbols at places in it."""
    data = bytearray(SIZE)
    at, magic = find_arch(arch).image_magic
    data[at : at + len(magic)] = magic
    for place, table in tables.items():
        data[place : place + len(table)] = table
    image = folder / "Image"
    image.write_bytes(data)
    named = {"_text": 0, "_stext": 0x800, "f": FUNCTION, "_end": SIZE, **symbols}
    rows = [Symbol(BASE + place, "T", name) for name, place in named.items()]
    return Kernel("image:Image", arch, image, "", SymbolTable.of(rows), "kallsyms")


def listed(one: Kernel, *places: int) -> list[tuple[str, ...]]:
    return tables_of(read_tables(one), [BASE + place for place in places])


def alternative(at: int, site: int, length: int) -> bytes:
    """An entry of arm64's, at a place."""
    return struct.pack("<iiHBB", site - at, 0, 1, length, length)


BOUNDS = {"__alt_instructions": 0x2000, "__alt_instructions_end": 0x2018}


def test_an_instruction_is_listed_where_a_site_has_it(tmp_path: Path) -> None:
    # The second site is inside the first.
    table = alternative(0x2000, 0x1010, 16) + alternative(0x200C, 0x1014, 4)
    found = listed(
        kernel(tmp_path, "arm64", {0x2000: table}, BOUNDS), 0x100C, 0x1010, 0x1014, 0x101C, 0x1020
    )
    one = (".altinstructions",)
    assert found == [(), one, one, one, ()]


def test_a_static_key_is_one_instruction_and_may_be_in_two_tables(tmp_path: Path) -> None:
    tables = {
        0x2000: alternative(0x2000, 0x1010, 8) + alternative(0x200C, 0x1010, 8),
        0x3000: struct.pack("<iiq", 0x1010 - 0x3000, 0, 0),
    }
    bounds = {**BOUNDS, "__start___jump_table": 0x3000, "__stop___jump_table": 0x3010}
    found = listed(kernel(tmp_path, "arm64", tables, bounds), 0x1010, 0x1014)
    assert found == [(".altinstructions", "__jump_table"), (".altinstructions",)]


MCOUNT = {"__start_mcount_loc": 0x3000, "__stop_mcount_loc": 0x3010}


def test_a_site_of_ftrace_is_in_its_function_and_zero_is_none(tmp_path: Path) -> None:
    for site in (FUNCTION, FUNCTION - 8):
        data = struct.pack("<QQ", 0, BASE + site)
        one = kernel(tmp_path, "riscv64", {0x3000: data}, {"_start": 0, **MCOUNT})
        found = listed(one, 0xFF8, 0x1000, 0x1004, 0x1008)
        assert found == [(), ("__mcount_loc",), ("__mcount_loc",), ()]


def test_an_address_may_be_among_the_relocations(tmp_path: Path) -> None:
    rela = struct.pack("<QQQ", BASE + 0x3008, 1027, BASE + FUNCTION)
    bounds = {**MCOUNT, "__pi_rela_start": 0x2800, "__pi_rela_end": 0x2818}
    one = kernel(tmp_path, "arm64", {0x2800: rela}, bounds)
    assert listed(one, 0x1000, 0x1008) == [("__mcount_loc",), ()]


@pytest.mark.parametrize("size", [16, 36])
def test_the_bytes_say_which_release_laid_them_out(tmp_path: Path, size: int) -> None:
    entry = (
        struct.pack("<iiHHI", 0x1010 - 0x2000, 0, 1, 4, 1)
        if size == 16
        else struct.pack("<QQQQI", BASE + 0x1010, BASE, 1, 4, 1)
    )
    bounds = {"_start": 0, "__alt_start": 0x2000, "__alt_end": 0x2000 + size}
    one = kernel(tmp_path, "riscv64", {0x2000: entry}, bounds)
    assert listed(one, 0x1010, 0x1014) == [(".alternative",), ()]


@pytest.mark.parametrize(
    ("entry", "end"),
    [
        (alternative(0x2000, 0x1010, 4) + alternative(0x200C, SIZE, 4), 0x2018),
        (alternative(0x2000, 0x1010, 4) + alternative(0x200C, 0x7FF, 4), 0x2018),
        (alternative(0x2000, 0x1010, 4), 0x200D),
        (alternative(0x2000, 0x1010, 4), 0x2000),
        (alternative(0x2000, 0x1010, 4), 0x1000),
        (alternative(0x2000, 0x1010, 4), SIZE + 0x1000),
        (alternative(0x2000, 0x1010, 4), 1 << 62),
    ],
)
def test_a_table_that_does_not_read_lists_nothing(tmp_path: Path, entry: bytes, end: int) -> None:
    bounds = {"__alt_instructions": 0x2000, "__alt_instructions_end": end}
    assert listed(kernel(tmp_path, "arm64", {0x2000: entry}, bounds), 0x1010) == [()]


def test_no_image_or_bounds_list_nothing(tmp_path: Path) -> None:
    one = kernel(tmp_path, "arm64", {}, {})
    assert read_tables(one) == []
    one.image.write_bytes(b"no image")
    assert read_tables(one) == []
    one.image.unlink()
    assert read_tables(one) == []


@pytest.mark.parametrize("arch", ["arm64", "riscv64", "x86_64"])
def test_damaged_images_end_in_tables_or_none(tmp_path: Path, arch: str) -> None:
    chance = random.Random(31)
    names = [name for table in find_arch(arch).site_tables for name in table.bounds]
    names += find_arch(arch).relocations
    elf = struct.pack(
        "<16sHHIQQQIHHHHHH", b"\x7fELF\2\1\1", 2, 62, 1, 0, 64, 0, 0, 64, 56, 3, 0, 0, 0
    )
    for _ in range(30):
        noise = chance.randbytes(SIZE - 64)
        places = {name: chance.randrange(1 << chance.randrange(4, 64)) for name in names}
        one = kernel(tmp_path, arch, {64: noise}, places)
        if arch == "x86_64":
            one.image.write_bytes(elf + noise)
        tables_of(read_tables(one), [BASE, BASE + 1, (1 << 64) - 1, 0])
