# SPDX-License-Identifier: GPL-2.0-or-later
"""A kernel's instructions as they lie in its image, and where they are linked."""

from __future__ import annotations

import io
import re
from collections.abc import Iterator
from dataclasses import dataclass

from kentry.kernels.kernel import TEXT_END, TEXT_START, Kernel
from kentry.kernels.unpack import unpack

# The address that an Image's first byte is linked at: riscv's name for it, then arm64's.
_IMAGE_STARTS = ("_start", "_text")
_HEADER = 1 << 16  # arm64's, bytes: SEGMENT_ALIGN in arch/arm64/include/asm/memory.h
_ELF = b"\x7fELF"


@dataclass(frozen=True)
class KernelText:
    """`image` is the whole uncompressed kernel, `text` its instructions, `start` their address."""

    image: bytes
    text: bytes
    start: int

    def places(self, code: re.Pattern[bytes], alignment: int) -> Iterator[int]:
        """The addresses of what `code` matches, at multiples of `alignment` bytes."""
        match = code.search(self.text)
        while match:
            if match.start() % alignment == 0:
                yield self.start + match.start()
            match = code.search(self.text, match.start() + 1)


def kernel_text(kernel: Kernel) -> KernelText:
    """Unpacks a kernel's image; UserError where it is none.

    Data is left out, because it may have any encoding in it; not of an image whose text has no
    symbols at its edges, which is given whole, from address 0.
    """
    image = unpack(kernel.image.read_bytes(), str(kernel.image)).payload
    symbols = kernel.symbols
    start, end = symbols.address_of(TEXT_START), symbols.address_of(TEXT_END)
    if start is None or end is None:
        return KernelText(image, image, 0)
    if image.startswith(_ELF):
        return KernelText(image, _elf_text(image, start, end), start)
    # arm64 kernels before 6.2 have no symbol at the image's beginning, which is a header's
    # length before their text.
    first = next(filter(None, map(symbols.address_of, _IMAGE_STARTS)), start - _HEADER)
    return KernelText(image, image[start - first : end - first], start)


def _elf_text(image: bytes, start: int, end: int) -> bytes:
    from elftools.elf.elffile import ELFFile

    for segment in ELFFile(io.BytesIO(image)).iter_segments("PT_LOAD"):
        offset = start - segment["p_vaddr"]
        if 0 <= offset < segment["p_filesz"]:
            data: bytes = segment.data()
            return data[offset : offset + end - start]
    return b""
