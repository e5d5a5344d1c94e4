# SPDX-License-Identifier: GPL-2.0-or-later
"""Where a kernel's instructions lie in images of each format."""

from __future__ import annotations

import random
import re
from dataclasses import replace
from pathlib import Path

from kentry.kernels.kernel import Kernel, Symbol, SymbolTable
from kentry.kernels.payload import KernelText, text_of
from tests.builders import image_kernel as kernel

from . import fakes

BASE = fakes.BASE
CODE = bytes(range(256))


def kernel_of(file: Path, data: bytes, **symbols: int) -> Kernel:
    file.write_bytes(data)
    rows = [Symbol(address, "T", name) for name, address in symbols.items()]
    return replace(kernel("arm64"), image=file, symbols=SymbolTable.of(rows))


def test_an_image_begins_at_the_symbol_of_its_beginning(tmp_path: Path) -> None:
    data = fakes.image(content=CODE)
    for start in ("_start", "_text"):
        symbols = {start: BASE, "_stext": BASE + 64, "_etext": BASE + 64 + 100}
        found = text_of(kernel_of(tmp_path / "Image", data, **symbols))
        assert (found.start, found.text) == (BASE + 64, CODE[:100])
        assert found.image == data


def test_riscvs_name_for_the_beginning_comes_first(tmp_path: Path) -> None:
    """There, _text is behind the code that starts the kernel."""
    data = fakes.image(fakes.RISCV64, CODE)
    symbols = {"_start": BASE, "_text": BASE + 128, "_stext": BASE + 128, "_etext": BASE + 130}
    found = text_of(kernel_of(tmp_path / "Image", data, **symbols))
    assert found.text == CODE[64:66]


def test_an_old_arm64_image_has_64_kib_before_its_text(tmp_path: Path) -> None:
    data = fakes.image(content=bytes((1 << 16) - 64) + CODE)
    found = text_of(kernel_of(tmp_path / "Image", data, _stext=BASE, _etext=BASE + 256))
    assert (found.start, found.text) == (BASE, CODE)


def bzimage_of(folder: Path, **symbols: int) -> Kernel:
    """CODE at BASE, behind other segments."""
    other = random.Random(1).randbytes(50_000)
    segments = [(1, BASE - 0x10000, other), (4, BASE, b"a note"), (1, BASE, CODE)]
    data = fakes.bzimage(fakes.elf(fakes.X86_64, segments))
    return kernel_of(folder / "bzImage", data, **symbols)


def test_an_elf_file_says_where_its_segments_are(tmp_path: Path) -> None:
    found = text_of(bzimage_of(tmp_path, _stext=BASE + 16, _etext=BASE + 32))
    assert (found.start, found.text) == (BASE + 16, CODE[16:32])
    assert found.image.startswith(b"\x7fELF")


def test_text_outside_of_an_elf_files_segments_is_none(tmp_path: Path) -> None:
    found = text_of(bzimage_of(tmp_path, _stext=BASE + 4096, _etext=BASE + 8192))
    assert found.text == b""


def test_without_the_edges_it_is_the_whole_image(tmp_path: Path) -> None:
    data = fakes.image(content=CODE)
    found = text_of(kernel_of(tmp_path / "Image", data, _stext=BASE))
    assert (found.image, found.text, found.start) == (data, data, 0)


def test_places_are_addresses_at_multiples_of_the_alignment() -> None:
    text = KernelText(b"", b"abababab.ab", 0x1000)
    pattern = re.compile(b"ab")
    assert list(text.places(pattern, 1)) == [0x1000, 0x1002, 0x1004, 0x1006, 0x1009]
    assert list(text.places(pattern, 4)) == [0x1000, 0x1004]
    # One that begins inside of another that is not at a multiple.
    assert list(KernelText(b"", b".aaaa", 0).places(re.compile(b"aa"), 2)) == [2]
