# SPDX-License-Identifier: GPL-2.0-or-later
"""What is in a kernel image: its format, the kernel without its wrapping, and what that says.

Formats, from the kernel's own documentation: Documentation/arch/arm64/booting.rst,
arch/riscv/boot-image-header.rst, arch/x86/boot.rst and drivers/firmware/efi/libstub/zboot*.
"""

from __future__ import annotations

import bz2
import contextlib
import io
import lzma
import re
import struct
import subprocess
import tempfile
import zlib
from bisect import bisect_right
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import chain, islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO

from kentry.arch import ARCHES, Arch
from kentry.errors import KernelError, UserError
from kentry.host import sandbox
from kentry.host.process import need, run
from kentry.host.unpack import MOST_DICTIONARY
from kentry.kernels.kernel import TEXT_END, TEXT_START, Kernel

if TYPE_CHECKING:
    from elftools.elf.elffile import ELFFile

_ELF = b"\x7fELF"
_DOS = b"MZ"


def _unzstd() -> Any:
    from zstandard import ZstdDecompressor  # not above: it takes every command 70 ms

    return ZstdDecompressor().decompressobj()


# What each format begins with, and what decompresses it: Python, or a program of that name.
_STREAMS: dict[bytes, Callable[[], Any]] = {
    b"\x1f\x8b": lambda: zlib.decompressobj(31),
    b"\x28\xb5\x2f\xfd": _unzstd,
    **dict.fromkeys(
        (b"\xfd7zXZ\x00", b"]\x00\x00"),
        lambda: lzma.LZMADecompressor(memlimit=MOST_DICTIONARY),
    ),
    b"BZh": bz2.BZ2Decompressor,
}
_PROGRAMS = {
    b"\x02!L\x18": "lz4",  # as the kernel's build makes it
    b"\x04\x22M\x18": "lz4",
    b"\x89LZO": "lzop",
}
# include/xen/interface/elfnote.h
_XEN_PHYS32_ENTRY = 18
# A kernel with everything built in stays below; a hole between segments may not exceed it.
MOST_IMAGE_BYTES = 1 << 30
# A vmlinux has some ten, in one segment or two.
_MOST_NOTE_SEGMENTS, _MOST_NOTES = 64, 10_000
# A zboot image of a compressed Image, compressed.
_MOST_LAYERS = 3
# A piece of a compressed image that unpacks to 128 MiB at most: zstd's block of 4 bytes to 128 KiB.
_PIECE_BYTES = 4096
# A block of lz4 has 8 MiB at most, a block of lzop 64.
_DECOMPRESSES = sandbox.Limits(1 << 30, processes=64, file=MOST_IMAGE_BYTES + 1, seconds=300)


@dataclass(frozen=True)
class Unpacked:
    """An image taken apart: `boot` is what QEMU can start, `payload` the kernel uncompressed."""

    format: str
    arch: Arch
    boot: bytes
    payload: bytes


class NotAnImageError(Exception):
    """The bytes are no kernel image: a text that completes "FILE ...", and perhaps a remedy."""


def unpack(data: bytes, name: str) -> Unpacked:
    """Take the image `data` apart; `name` is the file's, for UserError."""
    try:
        return _unpack(data)
    except NotAnImageError as problem:
        formats = ", ".join(f"{arch.name} {arch.image_format}" for arch in ARCHES.values())
        usual = f"Kernels that can be used: {formats}, each also compressed, and vmlinux."
        sentence, remedy = (*problem.args, usual)[:2]
        raise UserError(f"{name} {sentence}.", remedy) from problem


def _unpack(data: bytes, layers: int = 0) -> Unpacked:
    if layers > _MOST_LAYERS:
        raise NotAnImageError("is compressed again and again")
    if data.startswith(_ELF):
        return _unpack_elf(data)
    # EFI zboot: "MZ", 2 bytes, "zimg"; payload offset and size at 8 and 12.
    if data.startswith(_DOS) and data[4:].startswith(b"zimg"):
        if len(data) < 16:
            raise NotAnImageError("is cut short")
        offset, size = struct.unpack_from("<II", data, 8)
        return _unwrap(_part(data, offset, size), "zboot", layers)
    for arch in ARCHES.values():
        offset, magic = arch.image_magic
        if data[offset:].startswith(magic):
            # What the file's PE header, where it has one, says of its length.
            end = 0
            with contextlib.suppress(struct.error):
                (header,) = struct.unpack_from("<I", data, 0x3C)
                if data.startswith(_DOS) and data[header:].startswith(b"PE\0\0"):
                    count, optional = struct.unpack_from("<H12xH", data, header + 6)
                    for index in range(1, count + 1):
                        section = header + optional + 40 * index
                        end = max(end, sum(struct.unpack_from("<II", data, section)))
            if end > len(data):
                missing = end - len(data)
                raise NotAnImageError(f"is cut short: {missing} of its {end} bytes are missing")
            if arch.image_format != "bzImage":
                return Unpacked(arch.image_format, arch, data, data)
            if len(data) < 0x250:
                raise NotAnImageError("is cut short")
            # 0 stands for 4 sectors in very old images: boot.rst, setup_sects.
            setup = ((data[0x1F1] or 4) + 1) * 512
            offset, size = struct.unpack_from("<II", data, 0x248)
            kernel = _decompress(_part(data, setup + offset, size))
            if not kernel.startswith(_ELF):
                raise NotAnImageError("holds no kernel that kentry can read")
            with open_elf(io.BytesIO(kernel)) as elf:
                _arch_of_elf(elf)
            return Unpacked(arch.image_format, arch, data, kernel)
    if data.startswith((*_STREAMS, *_PROGRAMS)):
        return _unwrap(data, "compressed", layers)
    raise NotAnImageError("is not a kernel image" if data else "is empty")


def _unwrap(data: bytes, how: str, layers: int) -> Unpacked:
    inner = _unpack(_decompress(data), layers + 1)
    return replace(inner, format=f"{how} {inner.format}")


def _part(data: bytes, start: int, size: int) -> bytes:
    missing = start + size - len(data)
    if missing > 0:
        raise NotAnImageError(f"is cut short: its payload ends {missing} bytes later")
    return data[start : start + size]


def _decompress(data: bytes) -> bytes:
    """Return what is compressed at the beginning; more may follow, such as a bzImage's length."""
    plain = b""
    for magic, make in _STREAMS.items():
        if data.startswith(magic):
            plain = _of_stream(make(), data)
    for magic, name in _PROGRAMS.items():
        if data.startswith(magic):
            argv = sandbox.confined([need(name), "-dc"], env={}, limits=_DECOMPRESSES)
            with tempfile.TemporaryFile() as out:
                subprocess.run(argv, input=data, stdout=out, stderr=subprocess.DEVNULL, check=False)
                out.seek(0)
                plain = out.read()
    if len(plain) > MOST_IMAGE_BYTES:
        raise NotAnImageError(f"unpacks to more than {MOST_IMAGE_BYTES >> 20} MiB")
    if not plain:
        raise NotAnImageError("is cut short or damaged: it cannot be decompressed")
    return plain


def _of_stream(stream: Any, data: bytes) -> bytes:
    """Return what a stream unpacks to, or a little more than can be used; b"" if it has no end."""
    parts: list[bytes] = []
    size = 0
    # Each library has errors of its own.
    with contextlib.suppress(Exception):
        for at in range(0, len(data), _PIECE_BYTES):
            parts.append(stream.decompress(data[at : at + _PIECE_BYTES]))
            size += len(parts[-1])
            if stream.eof or size > MOST_IMAGE_BYTES:
                return b"".join(parts)
    return b""


@contextlib.contextmanager
def open_elf(stream: BinaryIO) -> Iterator[ELFFile]:
    """Open the ELF file; what pyelftools raises on a damaged one becomes NotAnImageError."""
    from elftools.common.exceptions import ELFError
    from elftools.construct.core import ConstructError
    from elftools.elf.elffile import ELFFile

    mistakes = (ValueError, LookupError, AttributeError, TypeError, OverflowError, struct.error)
    try:
        yield ELFFile(stream)
    except (ELFError, ConstructError, *mistakes) as err:
        raise NotAnImageError(f"is not an ELF file that can be read ({err})") from err


def _arch_of_elf(elf: ELFFile) -> Arch:
    machine = str(elf["e_machine"])
    for arch in ARCHES.values():
        if arch.elf_machine == machine and elf.elfclass == 64:
            return arch
    raise NotAnImageError(f"is for {machine} with {elf.elfclass} bits, which kentry does not know")


def _unpack_elf(data: bytes) -> Unpacked:
    """Make an Image of a vmlinux where the architecture boots that, else use it as it is."""
    with open_elf(io.BytesIO(data)) as elf:
        arch = _arch_of_elf(elf)
        if elf["e_type"] not in ("ET_EXEC", "ET_DYN"):
            raise NotAnImageError("is an ELF file but not a kernel")
        # The loaded bytes at their places, as objcopy -O binary makes an Image.
        loads = [part for part in elf.iter_segments("PT_LOAD") if part["p_filesz"]]
        if not loads:
            raise NotAnImageError("is an ELF file with nothing to load")
        base = min(part["p_paddr"] for part in loads)
        size = max(part["p_paddr"] + part["p_filesz"] for part in loads) - base
        # Segments may overlap: 65,535 of them could each be the whole file.
        most = max(size, sum(part["p_filesz"] for part in loads))
        flat = bytearray(size if most <= MOST_IMAGE_BYTES else 0)
        if flat:
            for part in loads:
                start = part["p_paddr"] - base
                flat[start : start + part["p_filesz"]] = part.data()
        offset, magic = arch.image_magic
        if flat[offset:].startswith(magic):
            return Unpacked("vmlinux", arch, bytes(flat), bytes(flat))
        # The ELF note that says where QEMU may enter an uncompressed x86 kernel.
        entries = [note for note in _notes(elf) if note["n_name"] == "Xen"]
        if not any(note["n_type"] == _XEN_PHYS32_ENTRY for note in entries):
            raise NotAnImageError(
                "is a vmlinux that QEMU cannot start",
                f"Name the {arch.image_format} of the same build, and this file with symbols=.",
            )
    return Unpacked("vmlinux", arch, data, data)


def _notes(elf: ELFFile) -> Iterator[Any]:
    from elftools.elf.segments import NoteSegment

    # Segments may overlap: each could be the whole file, and that one note or many.
    parts = (part.iter_notes() for part in elf.iter_segments() if isinstance(part, NoteSegment))
    notes = chain.from_iterable(islice(parts, _MOST_NOTE_SEGMENTS))
    yield from islice(notes, _MOST_NOTES)
    if next(parts, None) or next(notes, None):
        raise NotAnImageError("has more notes, or segments of them, than a vmlinux")


# init/version.c: "Linux version RELEASE (BY@HOST) (COMPILER, LINKER) #BUILD ...".
_BANNER = re.compile(rb"Linux version (?=\d+\.\d+)[\x20-\x7e]{1,1000}")
# Since Linux 6.1 there are two: one has no build number yet, and is not what is booted.
_NUMBERED = re.compile(r" #\d+ ")
_LONGEST_CONFIG = 16 << 20

# Note header: name size 4, descriptor size 20 (SHA-1) or 16 (MD5), type NT_GNU_BUILD_ID.
_BUILD_ID = re.compile(rb"\x04\0\0\0([\x14\x10])\0\0\0\x03\0\0\0GNU\0", re.DOTALL)

# The address that an Image's first byte is linked at: riscv's name for it, then arm64's.
_IMAGE_STARTS = ("_start", "_text")
_HEADER_BYTES = 1 << 16  # arm64's: SEGMENT_ALIGN in arch/arm64/include/asm/memory.h

# BTF (Documentation/bpf/btf.rst), which CONFIG_DEBUG_INFO_BTF puts into a kernel and pahole reads.
# struct btf_header: magic 0xeb9f, version 1, flags 0, its own length 24; little endian.
_BTF_MAGIC = bytes.fromhex("9feb010018000000")
# Offset and length of the types, and of the strings, counted from the header's end.
_BTF_SECTIONS = struct.Struct("<IIII")
_BTF_HEADER_BYTES = 24


def banner(payload: bytes, name: str) -> str:
    """Find the "Linux version" line; KernelError where the file called `name` has none."""
    banners = [match.group().decode("ascii").rstrip() for match in _BANNER.finditer(payload)]
    numbered = [text for text in banners if _NUMBERED.search(text)]
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
    with contextlib.suppress(zlib.error):
        if start >= 0:
            return zlib.decompressobj(31).decompress(payload[start + 8 :], _LONGEST_CONFIG)
    return None


def build_id(payload: bytes) -> str | None:
    """Return the kernel's own GNU build id in hexadecimal; None if there is not exactly one."""
    if payload.startswith(_ELF):
        return elf_build_id(payload)
    # The vDSOs inside a kernel have build ids too, which do not count.  An inner ELF file, whose
    # header has 64 bytes, ends with its section headers.
    inner = list[tuple[int, int]]()
    for match in re.finditer(rb"\x7fELF[\x01\x02]\x01\x01", payload[: 6 - 64]):
        wide = payload[match.start() + 4] == 2
        layout, at = ("<Q10xHH", 0x28) if wide else ("<I10xHH", 0x20)
        offset, size, count = struct.unpack_from(layout, payload, match.start() + at)
        end = match.start() + offset + size * count
        if offset and end <= len(payload):
            # In order and apart, however many there are and whatever they say.
            inner.append((match.start(), max(end, inner[-1][1] if inner else 0)))
    starts = [start for start, _ in inner]
    build_ids = {
        payload[match.end() : match.end() + match.group(1)[0]].hex()
        for match in _BUILD_ID.finditer(payload)
        if not ((at := bisect_right(starts, match.start())) and match.start() < inner[at - 1][1])
    }
    return build_ids.pop() if len(build_ids) == 1 else None


def elf_build_id(data: bytes) -> str | None:
    """Return the GNU build id in the notes of the ELF file `data`, or None."""
    with contextlib.suppress(NotAnImageError), open_elf(io.BytesIO(data)) as elf:
        notes = [note for note in _notes(elf) if note["n_type"] == "NT_GNU_BUILD_ID"]
        build_ids = {str(note["n_desc"]) for note in notes if note["n_name"] == "GNU"}
        return build_ids.pop() if len(build_ids) == 1 else None
    return None


@dataclass(frozen=True)
class KernelText:
    """`image` is the whole uncompressed kernel, `text` its instructions, `start` their address."""

    image: bytes
    text: bytes
    start: int


def text_of(kernel: Kernel) -> KernelText:
    """Unpack a kernel's text, or all from address 0 if no symbols are at its edges; UserError."""
    image = unpack(kernel.image.read_bytes(), str(kernel.image)).payload
    start, end = map(kernel.symbols.address_of, (TEXT_START, TEXT_END))
    if start is None or end is None:
        return KernelText(image, image, 0)
    return KernelText(image, linked_at(image, kernel, start, end), start)


def linked_at(image: bytes, kernel: Kernel, start: int, end: int) -> bytes:
    """Read what is linked from `start` to `end`: as much of it as the uncompressed `image` has."""
    address_of = kernel.symbols.address_of
    if image.startswith(_ELF):
        with contextlib.suppress(NotAnImageError), open_elf(io.BytesIO(image)) as elf:
            for segment in elf.iter_segments("PT_LOAD"):
                offset = start - segment["p_vaddr"]
                if 0 <= offset < segment["p_filesz"]:
                    first = segment["p_offset"] + offset
                    length = min(end - start, segment["p_filesz"] - offset)
                    return image[first : first + max(length, 0)]
        return b""
    # arm64 before 6.2 has no symbol at the image's beginning, a header's length before the text.
    text = (address_of(TEXT_START) or 0) - _HEADER_BYTES
    first = next(filter(None, map(address_of, _IMAGE_STARTS)), text)
    return image[max(start - first, 0) : max(end - first, 0)]


def member_offsets(image: bytes, name: str, members: Sequence[str], spec: str) -> dict[str, int]:
    """Read the members' offsets in `struct name` of the uncompressed `image`; KernelError."""
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
            argv = [need("pahole"), "-C", name, file.name]
            blob_alone = [Path(file.name)]
            argv = sandbox.confined(argv, env={}, readable=blob_alone, limits=sandbox.READS)
            text = run(argv).stdout
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
