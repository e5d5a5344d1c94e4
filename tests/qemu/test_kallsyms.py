# SPDX-License-Identifier: GPL-2.0-or-later
"""The symbols of Debian's kernels are those that vmlinux-to-elf reads, every one of text."""

import pytest
from vmlinux_to_elf.core.kallsyms import KallsymsFinder

from kentry.arch import ARCHES, find_arch
from kentry.kernels import symtab
from kentry.kernels.kernel import Symbol
from kentry.kernels.payload import unpack
from kentry.kernels.resolve import resolve
from tests.places import silent

pytestmark = pytest.mark.qemu


class Finder(KallsymsFinder):  # type: ignore[misc]  # the library has no annotations
    def extract_db_information(self, extra_info: bool = True) -> None:
        """Nothing: it only logs what it would look up."""


@pytest.mark.parametrize("arch", ARCHES)
def test_symbols_are_those_of_another_reader(arch: str) -> None:
    kernel = resolve("debian:6.12", find_arch(arch), silent)
    finder = Finder(unpack(kernel.image.read_bytes(), "Image").payload, bit_size=64)
    rows = zip(finder.kernel_addresses, finder.symbol_names, strict=True)
    theirs = (Symbol(address, name[0], name[1:]) for address, name in rows)
    ours = symtab.of_image(kernel.image, silent)
    assert set(ours) == set(filter(symtab.is_text, theirs))
    assert len(ours) > 40_000
