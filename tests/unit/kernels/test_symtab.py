# SPDX-License-Identifier: GPL-2.0-or-later
"""Tables of symbols: from kallsyms, from a vmlinux, and looked up."""

from __future__ import annotations

from contextlib import nullcontext
from pathlib import Path

import pytest

from kentry.arch import Arch
from kentry.errors import KernelError, UserError
from kentry.kernels import symtab
from kentry.kernels.kernel import Symbol, SymbolTable
from tests.unit.kernels import fakes
from tests.unit.kernels.conftest import Said
from tests.unit.kernels.sources import put

BASE = fakes.BASE


@pytest.mark.parametrize("arch", [fakes.ARM64, fakes.RISCV64])
def test_the_images_own_table(tmp_path: Path, said: Said, arch: Arch) -> None:
    image = put(tmp_path / "Image", fakes.image(arch))
    found = symtab.of_image(image, said)
    assert len(found) == fakes.SYMBOL_COUNT
    assert next(iter(found)) == Symbol(BASE, "T", "_text")
    assert found.address_of(fakes.function_name(7)) == BASE + 7 * 16
    assert len(said) == 1


@pytest.mark.parametrize(
    ("kind", "name", "address", "wanted"),
    [
        *(("A", "cpu_offset", 0x40, False), ("T", "cpu_code", 0x40, False)),
        *(("T", "_stext", BASE, True), ("W", "weak", BASE, True), ("D", "_etext", BASE, True)),
        ("d", "data", BASE, False),
    ],
)
def test_text_is_told_from_data(kind: str, name: str, address: int, wanted: bool) -> None:
    assert symtab.is_text(Symbol(address, kind, name)) is wanted


def test_an_image_without_a_table_says_what_helps(tmp_path: Path, said: Said) -> None:
    image = put(tmp_path / "Image", fakes.image(content=fakes.body(symbols=False)))
    with pytest.raises(KernelError) as raised:
        symtab.of_image(image, said)
    assert "symbols=vmlinux" in raised.value.remedy


def test_a_table_that_is_no_kernels_is_refused(tmp_path: Path, said: Said) -> None:
    image = tmp_path / "Image"
    # Addresses in the user half: what a wrong guess of the base looks like.
    image.write_bytes(fakes.image(content=fakes.body(base=0x3240000)))
    with pytest.raises(KernelError):
        symtab.of_image(image, said)


def test_symbols_of_a_vmlinux(tmp_path: Path) -> None:
    path = put(tmp_path / "vmlinux", fakes.vmlinux())
    found = symtab.of_vmlinux(path, fakes.ARM64, fakes.BANNER, fakes.BUILD_ID)
    assert list(found) == [
        Symbol(BASE, "T", "_text"),
        Symbol(BASE + 0x40, "t", "local_function"),
        Symbol(BASE + 0x40, "W", "__weak_alias"),
    ]


def test_a_vmlinux_has_more_symbols_than_any_kernel(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = put(tmp_path / "vmlinux", fakes.vmlinux())
    # The first, of number 0, has no name.
    for most, refused in ((7, False), (6, True)):
        monkeypatch.setattr(symtab, "_MOST_SYMBOLS", most)
        expected = pytest.raises(UserError, match="6 symbols") if refused else nullcontext()
        with expected:
            symtab.of_vmlinux(path, fakes.ARM64, fakes.BANNER, fakes.BUILD_ID)


@pytest.mark.parametrize(("image_id", "vmlinux_id"), [(None, fakes.BUILD_ID), (fakes.BUILD_ID, "")])
def test_the_banner_decides_else(tmp_path: Path, image_id: str | None, vmlinux_id: str) -> None:
    path = put(tmp_path / "vmlinux", fakes.vmlinux(vmlinux_id))
    assert len(symtab.of_vmlinux(path, fakes.ARM64, fakes.BANNER, image_id)) == 3
    with pytest.raises(UserError, match="vmlinux"):
        symtab.of_vmlinux(path, fakes.ARM64, fakes.BANNER.replace("#1", "#2"), image_id)


@pytest.mark.parametrize(
    ("data", "words"),
    [
        (fakes.vmlinux("33" * 20), "do not match the image: .* build 333333333333"),
        (fakes.vmlinux(arch=fakes.RISCV64), "do not match the image: .* for EM_RISCV"),
        (fakes.elf(fakes.ARM64, [(4, 0, fakes.note(fakes.BUILD_ID))]), "has no symbols"),
        (b"text", "not an ELF file"),
        (fakes.vmlinux()[:200], "not an ELF file|do not match|has no symbols"),
    ],
)
def test_a_vmlinux_of_another_build_is_refused(tmp_path: Path, data: bytes, words: str) -> None:
    path = put(tmp_path / "vmlinux", data)
    with pytest.raises(UserError, match=words):
        symtab.of_vmlinux(path, fakes.ARM64, fakes.BANNER, fakes.BUILD_ID)


FIRST = Symbol(0x1000, "T", "first")
ALIAS = Symbol(0x1000, "W", "alias")
LAST = Symbol(0x1040, "t", "last")


def test_a_table_is_sorted_and_keeps_the_order_of_aliases() -> None:
    table = SymbolTable.of([LAST, FIRST, ALIAS])
    assert list(table) == [FIRST, ALIAS, LAST]
    assert len(table) == 3
    # An address lies in the symbol before it.
    assert table.at(0xFFF) is None
    assert table.at(0x1000) == FIRST
    assert table.at(0x103F) == FIRST
    assert table.at(0x1040) == LAST
    assert table.at(1 << 64) == LAST
    assert SymbolTable.of([]).at(0) is None
    assert table.address_of("alias") == 0x1000
    assert table.address_of("absent") is None
