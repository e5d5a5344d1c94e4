# SPDX-License-Identifier: GPL-2.0-or-later
"""Kernel images, vmlinux files and packages made in Python: small, and in the real formats."""

from __future__ import annotations

import bz2
import gzip
import io
import lzma
import struct
import tarfile
import zlib
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

import zstandard

from kentry.arch import Arch, find_arch
from kentry.boot.initramfs import Entry, archive

RELEASE = "6.1.0-99-test"
COMPILER = "gcc-12 (Debian 12.2.0-14, a test) 12.2.0"
BANNER = (
    f"Linux version {RELEASE} (builder@host) ({COMPILER}, GNU ld (GNU Binutils) 2.40)"
    " #1 SMP Debian 6.1.99-1 (2026-01-01)"
)
# Debian's kernels have it twice, once without the build's number.
FIRST_BANNER = BANNER.replace(" #1 ", " # ")
BUILD_ID = "11" * 20
VDSO_BUILD_ID = "22" * 20
CONFIG = b"CONFIG_TEST=y\n"
BASE = 0xFFFF800080000000
# Several markers: one for each 256.
SYMBOL_COUNT = 1200

_ELF_MACHINES = {"EM_X86_64": 62, "EM_AARCH64": 183, "EM_RISCV": 243, "EM_386": 3}
ARM64 = find_arch("arm64")
RISCV64 = find_arch("riscv64")
X86_64 = find_arch("x86_64")


def note(build_id: str) -> bytes:
    """A GNU build id as it is in a file."""
    descriptor = bytes.fromhex(build_id)
    return struct.pack("<III4s", 4, len(descriptor), 3, b"GNU\0") + descriptor


def function_name(index: int) -> str:
    return f"test_function_{index:04}"


def kallsyms(base: int, release: tuple[int, int] = (6, 1), *, marker: str = "I") -> bytes:
    """A symbol table as scripts/kallsyms.c of that Linux lays it out, without compression.

    Symbol I is `function_name(I)` at base + 16 * I; the first is _text.
    """
    names = ["T_text", *(f"t{function_name(index)}" for index in range(1, SYMBOL_COUNT))]
    table, markers = bytearray(), []
    for index, name in enumerate(names):
        if index % 256 == 0:
            markers.append(len(table))
        table += bytes([len(name)]) + name.encode()
    # A token of one letter stands for itself.
    letters = b"0123456789abcdefghijklmnopqrstuvwxyz_Tt"
    tokens = [bytes([code]) if code in letters else b"xx" for code in range(256)]
    starts = [sum(len(token) + 1 for token in tokens[:index]) for index in range(256)]
    offsets = [16 * index for index in range(SYMBOL_COUNT)]
    addresses = [struct.pack(f"<{SYMBOL_COUNT}i", *offsets), struct.pack("<Q", base)]
    parts = [
        struct.pack("<I", SYMBOL_COUNT),
        bytes(table),
        struct.pack(f"<{len(markers)}{marker}", *markers),
        b"".join(token + b"\0" for token in tokens),
        struct.pack("<256H", *starts),
    ]
    parts = [*addresses, *parts] if release < (6, 4) else [*parts, *addresses]
    return b"".join(part + bytes(-len(part) % 8) for part in parts)


def body(*, symbols: bool = True, config: bool = False, base: int = BASE) -> bytes:
    """What every kernel has in it, whatever its format."""
    vdso = elf(ARM64, segments=[(4, 0, note(VDSO_BUILD_ID))], sections=True)
    parts = [
        f"{FIRST_BANNER}\n\0{BANNER}\n\0".encode(),
        vdso,
        note(BUILD_ID),
        b"IKCFG_ST" + gzip.compress(CONFIG) + b"IKCFG_ED" if config else b"",
        kallsyms(base) if symbols else b"",
        bytes(4096),
    ]
    return b"".join(part + bytes(-len(part) % 8) for part in parts)


def image(arch: Arch = ARM64, content: bytes | None = None) -> bytes:
    """An Image with `arch`'s magic and no EFI header."""
    offset, magic = arch.image_magic
    header = bytearray(64)
    header[offset : offset + len(magic)] = magic
    return bytes(header) + (body() if content is None else content)


def efi_image(arch: Arch = ARM64) -> bytes:
    """An Image whose EFI header says how long the file is."""
    data = bytearray(image(arch))
    data[:2] = b"MZ"
    pe = 0x40
    data[0x3C:0x40] = struct.pack("<I", pe)
    section = struct.pack("<8sIIII16x", b".text", 0, 0, len(data) - 512, 512)
    headers = b"PE\0\0" + struct.pack("<HH12xHH", 0, 1, 0, 0) + section
    data[pe : pe + len(headers)] = headers
    return bytes(data)


def zboot(inner: bytes) -> bytes:
    """An EFI zboot image around the compressed `inner`."""
    header = struct.pack("<4s4sII8x16s", b"MZ\0\0", b"zimg", 64, len(inner), b"gzip")
    return header + bytes(64 - len(header)) + inner + bytes(128)


def bzimage(payload: bytes) -> bytes:
    """A bzImage with one sector of set-up code around `payload`, compressed here."""
    packed = gzip.compress(payload)
    setup = bytearray(1024)
    setup[0x1F1] = 1
    setup[0x202:0x206] = b"HdrS"
    setup[0x248:0x250] = struct.pack("<II", 0, len(packed))
    return bytes(setup) + packed + bytes(64)


def x86_vmlinux(machine: str = "EM_X86_64") -> bytes:
    """The ELF file in a bzImage."""
    base = 0xFFFFFFFF81000000
    loaded = (1, base, body(base=base))
    return elf(X86_64, segments=[loaded, (4, 0, note(BUILD_ID))], machine=machine)


def elf(
    arch: Arch,
    segments: Sequence[tuple[int, int, bytes]] = (),
    symbols: Iterable[tuple[str, int, int]] = (),
    machine: str = "",
    sections: bool = False,
) -> bytes:
    """An ELF file: segments as (type, address, bytes), symbols as (name, address, info).

    Symbols are in section 1, which is executable.
    """
    data = bytearray(64 + 56 * len(segments))
    headers = b""
    for kind, address, content in segments:
        data += bytes(-len(data) % 8)
        size = len(content)
        headers += struct.pack("<IIQQQQQQ", kind, 5, len(data), address, address, size, size, 8)
        data += content
    data[64 : 64 + len(headers)] = headers
    rows, strings = bytearray(24), bytearray(b"\0")
    for name, address, info in symbols:
        rows += struct.pack("<IBBHQQ", len(strings), info, 0, 1, address, 0)
        strings += name.encode() + b"\0"
    names = b"\0.text\0.symtab\0.strtab\0.shstrtab\0"
    table = [(0, 0, 0, b"", 0, 0)]
    if sections or len(rows) > 24:
        table += [
            (1, 1, 6, b"\0" * 8, 0, 0),
            (7, 2, 0, bytes(rows), 3, 24),
            (15, 3, 0, bytes(strings), 0, 0),
            (23, 3, 0, names, 0, 0),
        ]
    placed = b""
    for name_at, type_, flags, content, link, entry in table:
        size = len(content)
        row = (name_at, type_, flags, 0, len(data), size, link, 0, 8, entry)
        placed += struct.pack("<IIQQQQIIQQ", *row)
        data += content
    has_sections = len(table) > 1
    ident = (2, _ELF_MACHINES[machine or arch.elf_machine], 1)
    tables = (0, 64 if segments else 0, len(data) if has_sections else 0, 0)
    sizes = (64, 56, len(segments), 64, *((len(table), 4) if has_sections else (0, 0)))
    data[:64] = struct.pack("<16sHHIQQQIHHHHHH", b"\x7fELF\x02\x01\x01", *ident, *tables, *sizes)
    return bytes(data + placed) if has_sections else bytes(data)


def vmlinux(build_id: str = BUILD_ID, arch: Arch = ARM64) -> bytes:
    """The unstripped ELF file of the same build."""
    symbols = [
        ("$x", BASE, 0x00),
        ("_text", BASE, 0x10),
        ("local_function", BASE + 0x40, 0x02),
        ("__weak_alias", BASE + 0x40, 0x22),
        ("data_object", BASE + 0x80, 0x11),
        ("percpu_offset", 0x40, 0x10),
    ]
    segments = [(4, 0, note(build_id))] if build_id else []
    return elf(arch, [*segments, (1, BASE, BANNER.encode() + b"\n\0")], symbols)


def deb(
    path: Path, files: dict[str, bytes], arch: str = "arm64", form: str = "gz", **fields: str
) -> Path:
    """A .deb written by hand, so that its members may be what no other program would pack."""
    control = {
        "Package": f"linux-image-{RELEASE}-{arch}",
        "Version": "6.1.99-1",
        "Architecture": arch,
        "Maintainer": "A Test <test@example.org>",
        "Description": "a test",
        **fields,
    }
    text = "".join(f"{name}: {value}\n" for name, value in control.items()).encode()
    ending = form.partition(" ")[0]
    members = {
        "debian-binary": b"2.0\n",
        f"control.tar.{ending}": _PACKERS[form](_tar({"./control": text})),
        f"data.tar.{ending}": _PACKERS[form](_tar(files)),
    }
    return ar(path, members)


def ar(path: Path, members: dict[str, bytes]) -> Path:
    """An archive of ar(1)."""
    with path.open("wb") as file:
        file.write(b"!<arch>\n")
        for name, content in members.items():
            file.write(f"{name:<16}{0:<12}{0:<6}{0:<6}{100644:<8}{len(content):<10}`\n".encode())
            file.write(content + b"\n" * (len(content) % 2))
    return path


def _xz_of_4_gib(content: bytes) -> bytes:
    """A file of xz that asks for the largest dictionary, by its block's header: a checksum ends it.

    xz-file-format.txt, 3.1 and 5.3.1: LZMA2 is filter 0x21 with one byte of properties, at most 40.
    """
    packed = bytearray(lzma.compress(content, check=lzma.CHECK_CRC32))
    end = 12 + (packed[12] + 1) * 4
    packed[packed.index(b"\x21\x01", 12, end) + 2] = 40
    packed[end - 4 : end] = zlib.crc32(packed[12 : end - 4]).to_bytes(4, "little")
    return bytes(packed)


_PACKERS: dict[str, Callable[[bytes], bytes]] = {
    "bz2": bz2.compress,
    "xz of 4 GiB": _xz_of_4_gib,
    "gz": gzip.compress,
    "gzip": gzip.compress,
    "xz": lzma.compress,
    "zst": zstandard.compress,
    "zstd": zstandard.compress,
}


def rpm(path: Path, files: dict[str, bytes], form: str, before: bytes = b"") -> Path:
    """A .rpm as rpmbuild lays it out: a lead, two headers, and a cpio archive.

    `before` is compressed, and stands before the files.
    """
    tags = {
        1000: "kernel",
        1001: "6.1.99",
        1002: "1",
        1022: "aarch64",
        1125: form.partition(" ")[0],
    }
    signed = _rpm_header({1000: "x"})
    links = {name: content.removeprefix(b"-> ") for name, content in files.items()}
    entries = (
        (
            Entry(name, number, 0o120777 if content != files[name] else 0o100644, len(content)),
            [content],
        )
        for number, (name, content) in enumerate(links.items(), 1)
    )
    lead = b"\xed\xab\xee\xdb\x03".ljust(96, b"\0")
    packed = _PACKERS[form](b"".join(archive(entries)))
    path.write_bytes(lead + signed + bytes(-len(signed) % 8) + _rpm_header(tags) + before + packed)
    return path


def _rpm_header(tags: dict[int, str]) -> bytes:
    """A header of an RPM package with these strings."""
    index, store = b"", b""
    for tag, text in tags.items():
        index += struct.pack(">IIII", tag, 6, len(store), 1)
        store += text.encode() + b"\0"
    return b"\x8e\xad\xe8\x01" + struct.pack(">4xII", len(tags), len(store)) + index + store


def boot_files() -> dict[str, bytes]:
    """What a kernel package of Debian's has in ./boot."""
    return {
        f"./boot/System.map-{RELEASE}": b"The real System.map is in the -dbg package\n",
        f"./boot/config-{RELEASE}": CONFIG,
        f"./boot/vmlinuz-{RELEASE}": image(),
        "./lib/modules/a.ko": b"a module",
    }


def _tar(files: dict[str, bytes]) -> bytes:
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w") as tar:
        for name, content in files.items():
            info = tarfile.TarInfo(name)
            info.size, info.mode = len(content), 0o755
            if content.startswith(b"-> "):
                info.size, info.type = 0, tarfile.SYMTYPE
                info.linkname = content[3:].decode()
            tar.addfile(info, io.BytesIO(content))
    return out.getvalue()
