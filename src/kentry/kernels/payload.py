# SPDX-License-Identifier: GPL-2.0-or-later
"""Reads an uncompressed kernel: its banner, build id, built-in config and instructions."""

import io
import re
import struct
import zlib
from collections.abc import Iterator
from dataclasses import dataclass

from kentry.errors import KernelError
from kentry.kernels.kernel import TEXT_END, TEXT_START, Kernel
from kentry.kernels.unpack import elf_notes, unpack

# init/version.c: "Linux version RELEASE (BY@HOST) (COMPILER, LINKER) #BUILD ...".
_BANNER = re.compile(rb"Linux version (?=\d+\.\d+)[\x20-\x7e]+")
# Since Linux 6.1 there are two: one has no build number yet, and is not what is booted.
_NUMBERED = re.compile(rb" #\d+ ")
_LONGEST_CONFIG = 16 << 20

# Note header: name size 4, descriptor size 20 (SHA-1) or 16 (MD5), type NT_GNU_BUILD_ID.
_BUILD_ID = re.compile(rb"\x04\0\0\0([\x14\x10])\0\0\0\x03\0\0\0GNU\0", re.DOTALL)

# The address that an Image's first byte is linked at: riscv's name for it, then arm64's.
_IMAGE_STARTS = ("_start", "_text")
_HEADER_BYTES = 1 << 16  # arm64's: SEGMENT_ALIGN in arch/arm64/include/asm/memory.h
_ELF = b"\x7fELF"


def banner(payload: bytes, name: str) -> str:
    """The kernel's "Linux version" line; KernelError where the file called `name` has none."""
    found = [match.group().decode("ascii").rstrip() for match in _BANNER.finditer(payload)]
    numbered = [text for text in found if _NUMBERED.search(text.encode())]
    if not found:
        raise KernelError(
            f"{name} has no 'Linux version' line in it: it is not a Linux kernel or is cut short.",
            "Give a whole kernel image.",
        )
    return (numbered or found)[0]


def compiler(banner_line: str) -> str:
    """The compiler, in its own words: "gcc-12 (Debian 12.2.0-14) 12.2.0"; "" if not there."""
    # The second group; before Linux 5.8 there is no linker and so no comma.
    nested = r"\((?:[^()]|\((?:[^()]|\([^()]*\))*\))*\)"
    found = re.search(rf"{nested}[^()]*\(((?:[^(),]|{nested})*)[,)]", banner_line)
    return found[1] if found else ""


def built_in_config(payload: bytes) -> bytes | None:
    """The config that CONFIG_IKCONFIG put into the kernel, or None."""
    start = payload.find(b"IKCFG_ST\x1f\x8b")
    if start < 0:
        return None
    try:
        return zlib.decompressobj(31).decompress(payload[start + 8 :], _LONGEST_CONFIG)
    except zlib.error:
        return None


def build_id(payload: bytes) -> str | None:
    """The kernel's own GNU build id in hexadecimal; None if there is not exactly one.

    The vDSOs inside a kernel have build ids too: notes within an ELF file inside the image
    are left out.
    """
    if payload.startswith(_ELF):
        return elf_build_id(payload)
    # An inner ELF file, whose header has 64 bytes, ends with its section headers.
    inner = []
    for match in re.finditer(rb"\x7fELF[\x01\x02]\x01\x01", payload[: 6 - 64]):
        wide = payload[match.start() + 4] == 2
        layout, at = ("<Q10xHH", 0x28) if wide else ("<I10xHH", 0x20)
        offset, size, count = struct.unpack_from(layout, payload, match.start() + at)
        end = match.start() + offset + size * count
        if offset and end <= len(payload):
            inner.append((match.start(), end))
    found = {
        payload[match.end() : match.end() + match.group(1)[0]].hex()
        for match in _BUILD_ID.finditer(payload)
        if not any(start <= match.start() < end for start, end in inner)
    }
    return found.pop() if len(found) == 1 else None


def elf_build_id(data: bytes) -> str | None:
    """The GNU build id in the notes of the ELF file `data`, or None."""
    from elftools.common.exceptions import ELFError
    from elftools.elf.elffile import ELFFile

    try:
        found = {
            str(note["n_desc"])
            for note in elf_notes(ELFFile(io.BytesIO(data)))
            if note["n_name"] == "GNU" and note["n_type"] == "NT_GNU_BUILD_ID"
        }
    except (ELFError, struct.error, ValueError, KeyError, AttributeError):
        return None
    return found.pop() if len(found) == 1 else None


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


def text_of(kernel: Kernel) -> KernelText:
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
        from elftools.elf.elffile import ELFFile

        for segment in ELFFile(io.BytesIO(image)).iter_segments("PT_LOAD"):
            offset = start - segment["p_vaddr"]
            if 0 <= offset < segment["p_filesz"]:
                return KernelText(image, segment.data()[offset : offset + end - start], start)
        return KernelText(image, b"", start)
    # arm64 kernels before 6.2 have no symbol at the image's beginning, which is a header's
    # length before their text.
    first = next(filter(None, map(symbols.address_of, _IMAGE_STARTS)), start - _HEADER_BYTES)
    return KernelText(image, image[start - first : end - first], start)
