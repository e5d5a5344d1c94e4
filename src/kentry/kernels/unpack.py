# SPDX-License-Identifier: GPL-2.0-or-later
"""What is in a kernel image: its format, its architecture, the kernel without its wrapping.

Formats, from the kernel's own documentation: Documentation/arch/arm64/booting.rst,
arch/riscv/boot-image-header.rst, arch/x86/boot.rst and drivers/firmware/efi/libstub/zboot*.
"""

from __future__ import annotations

import contextlib
import io
import logging
import struct
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from kentry.arch import ARCHES, Arch
from kentry.errors import UserError

if TYPE_CHECKING:
    from elftools.elf.elffile import ELFFile

_ELF = b"\x7fELF"
_DOS = b"MZ"
# EFI zboot: "MZ", 2 bytes, "zimg"; payload offset and size at 8 and 12; codec's name at 24.
_ZBOOT = (4, b"zimg")
_COMPRESSED = (
    b"\x1f\x8b",  # gzip
    b"\x28\xb5\x2f\xfd",  # zstd
    b"\xfd7zXZ\x00",
    b"BZh",
    b"\x02!L\x18",  # lz4, as the kernel's build makes it
    b"\x04\x22M\x18",  # lz4
    b"]\x00\x00",  # lzma
    b"\x89LZO",
)
# include/xen/interface/elfnote.h
_XEN_PHYS32_ENTRY = 18
# A kernel with everything built in stays below; a hole between segments may not exceed it.
_MOST_IMAGE_BYTES = 1 << 30


@dataclass(frozen=True)
class Unpacked:
    """An image taken apart.

    `boot` is what QEMU can start: the image itself, or what was wrapped in it.  `payload`
    is the kernel uncompressed: text, read-only data, notes.
    """

    format: str
    arch: Arch
    boot: bytes
    payload: bytes


class NotAnImageError(Exception):
    """The bytes are no kernel image; the text completes "FILE ..."."""


def unpack(data: bytes, name: str) -> Unpacked:
    """Take the image `data` apart; `name` is the file's, for UserError."""
    try:
        return _unpack(data)
    except NotAnImageError as problem:
        formats = ", ".join(f"{arch.name} {arch.image_format}" for arch in ARCHES.values())
        raise UserError(
            f"{name} {problem}.",
            f"Kernels that can be used: {formats}, each also compressed, and vmlinux.",
        ) from problem


def _unpack(data: bytes) -> Unpacked:
    if data.startswith(_ELF):
        return _unpack_elf(data)
    if data.startswith(_DOS) and data[4:].startswith(_ZBOOT[1]):
        if len(data) < 16:
            raise NotAnImageError("is cut short")
        offset, size = struct.unpack_from("<II", data, 8)
        return _unwrap(_part(data, offset, size), "zboot")
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
            with _elf(kernel) as elf:
                _arch_of_elf(elf)
            return Unpacked(arch.image_format, arch, data, kernel)
    if data.startswith(_COMPRESSED):
        return _unwrap(data, "compressed")
    raise NotAnImageError("is not a kernel image" if data else "is empty")


def _unwrap(data: bytes, how: str) -> Unpacked:
    inner = _unpack(_decompress(data))
    return replace(inner, format=f"{how} {inner.format}")


def _part(data: bytes, start: int, size: int) -> bytes:
    missing = start + size - len(data)
    if missing > 0:
        raise NotAnImageError(f"is cut short: its payload ends {missing} bytes later")
    return data[start : start + size]


def _decompress(data: bytes) -> bytes:
    from vmlinux_to_elf.core.auto_unpack import VmlinuzDecompressor

    # logging.info(), which vmlinux-to-elf uses, installs a handler where there is none.
    handler = logging.NullHandler()
    root = logging.getLogger()
    root.addHandler(handler)
    try:
        plain = bytes(VmlinuzDecompressor(data).decompressed or b"")
    except (struct.error, ValueError, LookupError):
        plain = b""
    finally:
        root.removeHandler(handler)
    if not plain or plain == data:
        raise NotAnImageError("is cut short or damaged: it cannot be decompressed")
    return plain


@contextlib.contextmanager
def _elf(data: bytes) -> Iterator[ELFFile]:
    """Open the ELF file; what pyelftools raises on a damaged one becomes NotAnImageError."""
    from elftools.common.exceptions import ELFError
    from elftools.elf.elffile import ELFFile

    try:
        yield ELFFile(io.BytesIO(data))
    except (ELFError, struct.error, ValueError, KeyError, AttributeError) as err:
        raise NotAnImageError(f"is a damaged ELF file ({err})") from err


def _arch_of_elf(elf: ELFFile) -> Arch:
    machine = str(elf["e_machine"])
    for arch in ARCHES.values():
        if arch.elf_machine == machine and elf.elfclass == 64:
            return arch
    raise NotAnImageError(f"is for {machine} with {elf.elfclass} bits, which kentry does not know")


def _unpack_elf(data: bytes) -> Unpacked:
    """Make an Image of a vmlinux where the architecture boots that, else use it as it is."""
    with _elf(data) as elf:
        arch = _arch_of_elf(elf)
        if elf["e_type"] not in ("ET_EXEC", "ET_DYN"):
            raise NotAnImageError("is an ELF file but not a kernel")
        # The loaded bytes at their places, as objcopy -O binary makes an Image.
        loads = [part for part in elf.iter_segments("PT_LOAD") if part["p_filesz"]]
        if not loads:
            raise NotAnImageError("is an ELF file with nothing to load")
        base = min(part["p_paddr"] for part in loads)
        size = max(part["p_paddr"] + part["p_filesz"] for part in loads) - base
        flat = bytearray(size if size <= _MOST_IMAGE_BYTES else 0)
        if flat:
            for part in loads:
                start = part["p_paddr"] - base
                flat[start : start + part["p_filesz"]] = part.data()
        offset, magic = arch.image_magic
        if flat[offset:].startswith(magic):
            return Unpacked("vmlinux", arch, bytes(flat), bytes(flat))
        # The ELF note that says where QEMU may enter an uncompressed x86 kernel.
        entries = [note for note in elf_notes(elf) if note["n_name"] == "Xen"]
        if not any(note["n_type"] == _XEN_PHYS32_ENTRY for note in entries):
            raise NotAnImageError(
                f"is a vmlinux that QEMU cannot start: give the {arch.image_format} of the same"
                " build and name this file with symbols="
            )
    return Unpacked("vmlinux", arch, data, data)


def elf_notes(elf: ELFFile) -> Iterator[Any]:
    """Yield every note in the segments of an ELF file, as pyelftools has them."""
    from elftools.elf.segments import NoteSegment

    for part in elf.iter_segments():
        if isinstance(part, NoteSegment):
            yield from part.iter_notes()
