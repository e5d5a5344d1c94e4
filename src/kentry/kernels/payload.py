# SPDX-License-Identifier: GPL-2.0-or-later
"""Reads an uncompressed kernel: its banner, build id, config, instructions and types."""

import io
import re
import struct
import subprocess
import tempfile
import zlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from kentry.errors import KernelError
from kentry.host.process import need, run
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

# BTF (Documentation/bpf/btf.rst), which CONFIG_DEBUG_INFO_BTF puts into a kernel and pahole reads.
# struct btf_header: magic 0xeb9f, version 1, flags 0, its own length 24; little endian.
_BTF_MAGIC = bytes.fromhex("9feb010018000000")
# Offset and length of the types, and of the strings, counted from the header's end.
_BTF_SECTIONS = struct.Struct("<IIII")
_BTF_HEADER_BYTES = 24


def banner(payload: bytes, name: str) -> str:
    """Find the "Linux version" line; KernelError where the file called `name` has none."""
    banners = [match.group().decode("ascii").rstrip() for match in _BANNER.finditer(payload)]
    numbered = [text for text in banners if _NUMBERED.search(text.encode())]
    if not banners:
        raise KernelError(
            f"{name} has no 'Linux version' line in it: it is not a Linux kernel or is cut short.",
            "Give a whole kernel image.",
        )
    return (numbered or banners)[0]


def compiler(banner_line: str) -> str:
    """Find the compiler's own words: "gcc-12 (Debian 12.2.0-14) 12.2.0"; "" if not there."""
    # The second group; before Linux 5.8 there is no linker and so no comma.
    nested = r"\((?:[^()]|\((?:[^()]|\([^()]*\))*\))*\)"
    match = re.search(rf"{nested}[^()]*\(((?:[^(),]|{nested})*)[,)]", banner_line)
    return match[1] if match else ""


def built_in_config(payload: bytes) -> bytes | None:
    """Return the config that CONFIG_IKCONFIG put into the kernel, or None."""
    start = payload.find(b"IKCFG_ST\x1f\x8b")
    if start < 0:
        return None
    try:
        return zlib.decompressobj(31).decompress(payload[start + 8 :], _LONGEST_CONFIG)
    except zlib.error:
        return None


def build_id(payload: bytes) -> str | None:
    """Return the kernel's own GNU build id in hexadecimal; None if there is not exactly one.

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
    build_ids = {
        payload[match.end() : match.end() + match.group(1)[0]].hex()
        for match in _BUILD_ID.finditer(payload)
        if not any(start <= match.start() < end for start, end in inner)
    }
    return build_ids.pop() if len(build_ids) == 1 else None


def elf_build_id(data: bytes) -> str | None:
    """Return the GNU build id in the notes of the ELF file `data`, or None."""
    from elftools.common.exceptions import ELFError
    from elftools.elf.elffile import ELFFile

    try:
        build_ids = {
            str(note["n_desc"])
            for note in elf_notes(ELFFile(io.BytesIO(data)))
            if note["n_name"] == "GNU" and note["n_type"] == "NT_GNU_BUILD_ID"
        }
    except (ELFError, struct.error, ValueError, KeyError, AttributeError):
        return None
    return build_ids.pop() if len(build_ids) == 1 else None


@dataclass(frozen=True)
class KernelText:
    """`image` is the whole uncompressed kernel, `text` its instructions, `start` their address."""

    image: bytes
    text: bytes
    start: int

    def places(self, code: re.Pattern[bytes], alignment: int) -> Iterator[int]:
        """Yield the addresses of what `code` matches, at multiples of `alignment` bytes."""
        match = code.search(self.text)
        while match:
            if match.start() % alignment == 0:
                yield self.start + match.start()
            match = code.search(self.text, match.start() + 1)


def text_of(kernel: Kernel) -> KernelText:
    """Unpack a kernel's image; UserError where it is none.

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


def member_offsets(image: bytes, name: str, members: Sequence[str], spec: str) -> dict[str, int]:
    """Read how many bytes each of `members` lies from the beginning of `struct name`.

    `image` is the uncompressed kernel, `spec` what the user calls it.  KernelError where it has
    no type information or the structure no such member.
    """
    # The longest blob: a module's or a test's are short.
    blob = b""
    for match in re.finditer(re.escape(_BTF_MAGIC), image[: -_BTF_SECTIONS.size]):
        _, types, strings_at, strings = _BTF_SECTIONS.unpack_from(image, match.end())
        end = match.start() + _BTF_HEADER_BYTES + strings_at + strings
        if types <= strings_at and match.start() + len(blob) < end <= len(image):
            blob = image[match.start() : end]
    if not blob:
        raise KernelError(
            f"{spec} has no type information, so its tasks cannot be told apart.",
            "Use a kernel with CONFIG_DEBUG_INFO_BTF=y: Debian's, or one built with --config"
            " userland.",
        )
    with tempfile.NamedTemporaryFile(prefix="kentry-", suffix=".btf") as file:
        file.write(blob)
        file.flush()
        try:
            text = run([need("pahole", "dwarves"), "-C", name, file.name]).stdout
        except subprocess.CalledProcessError as err:
            raise KernelError(
                f"The type information of {spec} cannot be read.", "", err.stderr.strip()
            ) from err
    offsets = {}
    for member in members:
        # One tab: a member of the structure itself, "TYPE NAME[N]; /* OFFSET SIZE */".
        row = rf"^\t\S[^\t]*?\b{re.escape(member)}(?:\[\d+\])*;\s+/\*\s+(\d+)\s"
        offset = re.search(row, text, re.MULTILINE)
        if not offset:
            raise KernelError(f"struct {name} of {spec} has no {member}.")
        offsets[member] = int(offset[1])
    return offsets
