# SPDX-License-Identifier: GPL-2.0-or-later
"""Images taken apart, and what is read from the kernel in them."""

from __future__ import annotations

import bz2
import gzip
import lzma
import random
import shutil
import subprocess
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
import zstandard

from kentry.arch import Arch
from kentry.errors import KernelError, UserError
from kentry.host.process import need
from kentry.kernels import payload
from kentry.kernels.kernel import Kernel, Symbol, SymbolTable
from kentry.kernels.payload import text_of, unpack
from tests.builders import image_kernel as kernel
from tests.unit.kernels import fakes

IMAGE = fakes.image()
VMLINUX = fakes.elf(fakes.ARM64, [(1, fakes.BASE, IMAGE)])
PVH_NOTE = b"\x04\0\0\0\x04\0\0\0\x12\0\0\0Xen\0\0\0\0\x01"


@pytest.mark.parametrize("arch", [fakes.ARM64, fakes.RISCV64])
@pytest.mark.parametrize("make", [fakes.image, fakes.efi_image])
def test_an_image_is_its_own_payload(arch: Arch, make: Callable[[Arch], bytes]) -> None:
    data = make(arch)
    unpacked = unpack(data, "Image")
    assert (unpacked.format, unpacked.arch.name) == ("Image", arch.name)
    assert unpacked.boot is data
    assert unpacked.payload is data


def test_a_bzimage_holds_a_vmlinux_and_is_booted_as_it_is() -> None:
    vmlinux = fakes.x86_vmlinux()
    data = fakes.bzimage(vmlinux)
    unpacked = unpack(data, "bzImage")
    assert (unpacked.format, unpacked.arch.name) == ("bzImage", "x86_64")
    assert unpacked.boot is data
    assert unpacked.payload == vmlinux


@pytest.mark.parametrize(
    ("packed", "how"),
    [
        (gzip.compress(IMAGE), "compressed Image"),
        (zstandard.compress(IMAGE), "compressed Image"),
        (lzma.compress(IMAGE), "compressed Image"),
        (bz2.compress(IMAGE), "compressed Image"),
        (fakes.zboot(gzip.compress(IMAGE)), "zboot Image"),
        (fakes.zboot(zstandard.compress(IMAGE)), "zboot Image"),
        (gzip.compress(fakes.zboot(gzip.compress(IMAGE))), "compressed zboot Image"),
        (VMLINUX, "vmlinux"),
        (gzip.compress(VMLINUX), "compressed vmlinux"),
    ],
)
def test_what_qemu_cannot_boot_is_unwrapped(packed: bytes, how: str) -> None:
    unpacked = unpack(packed, "file")
    assert unpacked.format == how
    assert unpacked.boot == IMAGE
    assert unpacked.payload == IMAGE


def test_an_x86_vmlinux_is_booted_where_it_has_the_entry_for_that() -> None:
    loaded = (1, 0xFFFFFFFF81000000, fakes.body())
    data = fakes.elf(fakes.X86_64, [loaded, (4, 0, PVH_NOTE)])
    assert unpack(data, "vmlinux").boot is data
    with pytest.raises(UserError, match="bzImage"):
        unpack(fakes.elf(fakes.X86_64, [loaded]), "vmlinux")


@pytest.mark.parametrize(
    ("data", "words"),
    [
        (b"", "is empty"),
        (b"\0" * 5000, "is not a kernel image"),
        (b"#!/bin/sh\n" * 500, "is not a kernel image"),
        (fakes.efi_image()[:-1000], "1000 of its"),
        (fakes.efi_image(fakes.RISCV64)[:600], "is cut short"),
        (fakes.bzimage(fakes.x86_vmlinux())[:3000], "is cut short"),
        (fakes.bzimage(fakes.x86_vmlinux())[:0x210], "is cut short"),
        (fakes.zboot(gzip.compress(IMAGE))[:1000], "is cut short"),
        (gzip.compress(IMAGE)[:1000], "cut short or damaged"),
        (fakes.zboot(b"short"), "cut short or damaged"),
        (gzip.compress(b"\0" * 50000, mtime=0), "is not a kernel image"),
        (fakes.bzimage(b"\0" * 50000), "no kernel that kentry can read"),
        (fakes.bzimage(fakes.x86_vmlinux("EM_386")), "EM_386"),
        (fakes.elf(fakes.X86_64, machine="EM_386"), "EM_386"),
        (VMLINUX[:30], "not an ELF file"),
        (VMLINUX[:100], "not an ELF file"),
        (fakes.elf(fakes.ARM64), "nothing to load"),
    ],
)
def test_what_is_not_a_whole_kernel_is_refused(data: bytes, words: str) -> None:
    with pytest.raises(UserError) as raised:
        unpack(data, "FILE")
    assert raised.value.sentence.startswith("FILE ")
    assert words in raised.value.sentence
    assert "x86_64 bzImage" in raised.value.remedy


def test_the_banner_is_the_one_with_the_build_number() -> None:
    assert payload.banner(fakes.image(), "Image") == fakes.BANNER
    only_first = fakes.FIRST_BANNER.encode() + b"\n\0"
    assert payload.banner(only_first, "Image") == fakes.FIRST_BANNER
    with pytest.raises(KernelError):
        payload.banner(b"Linux version %s" + bytes(5000), "Image")


@pytest.mark.parametrize(
    ("line", "compiler"),
    [
        (fakes.BANNER, fakes.COMPILER),
        (
            "Linux version 5.4.0 (a@b) (gcc version 8.3.0 (Debian 8.3.0-6)) #1 SMP Fri",
            "gcc version 8.3.0 (Debian 8.3.0-6)",
        ),
        (
            "Linux version 6.1.0 (a@b) (Debian clang version 14.0.6, Debian LLD 14.0.6) #1",
            "Debian clang version 14.0.6",
        ),
        ("Linux version 6.1.0 (a@b) #1", ""),
        ("Linux version 6.1.0", ""),
        ("Linux version 6.1.0 ) (a@b) (x", ""),
    ],
)
def test_the_compiler_is_in_its_own_words(line: str, compiler: str) -> None:
    assert payload.compiler(line) == compiler


def test_the_build_id_is_the_kernels_not_its_vdsos() -> None:
    assert payload.build_id(fakes.image()) == fakes.BUILD_ID
    assert payload.build_id(fakes.x86_vmlinux()) == fakes.BUILD_ID
    # None where it cannot be told.
    assert payload.build_id(bytes(5000)) is None
    assert payload.build_id(fakes.note("11" * 20) + bytes(64) + fakes.note("22" * 20)) is None
    assert payload.build_id(fakes.elf(fakes.X86_64)) is None
    assert payload.build_id(b"\x7fELF damaged") is None


def test_the_built_in_config() -> None:
    assert payload.built_in_config(fakes.body(config=True)) == fakes.CONFIG
    assert payload.built_in_config(fakes.body()) is None
    assert payload.built_in_config(b"IKCFG_ST\x1f\x8bdamaged") is None


BASE = fakes.BASE
CODE = bytes(range(256))


def kernel_of(file: Path, data: bytes, **symbols: int) -> Kernel:
    file.write_bytes(data)
    rows = [Symbol(address, "T", name) for name, address in symbols.items()]
    return replace(kernel("arm64"), image=file, symbols=SymbolTable.of(rows))


@pytest.mark.parametrize(
    ("before", "symbols", "text"),
    [
        (0, {"_start": BASE, "_stext": BASE + 64, "_etext": BASE + 164}, CODE[:100]),
        (0, {"_text": BASE, "_stext": BASE + 64, "_etext": BASE + 164}, CODE[:100]),
        # RISC-V's name for the beginning comes first: _text is behind the code that starts it.
        (
            0,
            {"_start": BASE, "_text": BASE + 128, "_stext": BASE + 128, "_etext": BASE + 130},
            CODE[64:66],
        ),
        # An old arm64 image has 64 KiB before its text.
        ((1 << 16) - 64, {"_stext": BASE, "_etext": BASE + 256}, CODE),
    ],
)
def test_an_image_begins_at_the_symbol_of_its_beginning(
    before: int, symbols: dict[str, int], text: bytes, tmp_path: Path
) -> None:
    data = fakes.image(content=bytes(before) + CODE)
    found = text_of(kernel_of(tmp_path / "Image", data, **symbols))
    assert (found.image, found.start, found.text) == (data, symbols["_stext"], text)


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
    # Outside of its segments there is none.
    found = text_of(bzimage_of(tmp_path, _stext=BASE + 4096, _etext=BASE + 8192))
    assert found.text == b""


def test_without_the_edges_it_is_the_whole_image(tmp_path: Path) -> None:
    data = fakes.image(content=CODE)
    found = text_of(kernel_of(tmp_path / "Image", data, _stext=BASE))
    assert (found.image, found.text, found.start) == (data, data, 0)


SOURCE = """\
struct other { int pid; long flags; };
struct task_struct {
    union { unsigned char thread_info[24]; long first; };
    unsigned int __state;
    void *stack;
    unsigned int flags : 8, bits : 24;
    struct { int inner_pid; } nested;
    int (*called)(struct other *pid);
    struct other others[3];
    int pid;
    char comm[16];
    unsigned long long last;
} one;
"""
OFFSETS = {"__state": 24, "stack": 32, "pid": 104, "comm": 108, "last": 128}
MEMBERS = ("__state", "pid", "comm")


@pytest.fixture(scope="module")
def blob(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    """The type information of SOURCE."""
    missing = [program for program in ("gcc", "pahole") if not shutil.which(program)]
    if missing:
        pytest.skip(f"no {missing[0]}: apt-get install gcc dwarves")
    folder = tmp_path_factory.mktemp("btf")
    (folder / "a.c").write_text(SOURCE)
    for words in (["gcc", "-g", "-c", "a.c"], ["pahole", "--btf_encode_detached=a.btf", "a.o"]):
        subprocess.run(words, cwd=folder, check=True)
    return (folder / "a.btf").read_bytes()


def test_members_are_where_the_compiler_put_them(blob: bytes) -> None:
    assert payload.member_offsets(blob, "task_struct", tuple(OFFSETS), "a kernel") == OFFSETS


def test_it_is_found_anywhere_in_an_image(blob: bytes) -> None:
    image = bytes(1001) + blob + b"\x9f\xeb" * 50
    assert payload.member_offsets(image, "task_struct", ("pid",), "a kernel") == {"pid": 104}
    # The longest is the kernel's own.  A header and one string: as a module's, and whole.
    small = payload._BTF_MAGIC + payload._BTF_SECTIONS.pack(0, 0, 0, 1) + b"\0"
    for image in (small + blob + small, blob + small, small + bytes(3) + blob):
        assert payload.member_offsets(image, "task_struct", ("pid",), "a kernel") == {"pid": 104}


@pytest.mark.parametrize("member", ["inner_pid", "inner", "id", "first", "nothing"])
def test_only_a_member_of_the_structure_itself(blob: bytes, member: str) -> None:
    with pytest.raises(KernelError, match=member):
        payload.member_offsets(blob, "task_struct", ("pid", member), "a kernel")
    with pytest.raises(KernelError, match="nobody"):
        payload.member_offsets(blob, "nobody", ("pid",), "a kernel")


@pytest.mark.parametrize(
    "image",
    [
        b"",
        bytes(100),
        payload._BTF_MAGIC,  # at the very end
        bytes(9) + payload._BTF_MAGIC + bytes(15),
        # Longer than what there is of it, and types that reach into the strings.
        payload._BTF_MAGIC + payload._BTF_SECTIONS.pack(0, 8, 8, 1 << 30) + bytes(64),
        payload._BTF_MAGIC + payload._BTF_SECTIONS.pack(0, 9, 8, 8) + bytes(64),
    ],
)
def test_an_image_without_any_says_which_option_it_lacks(image: bytes) -> None:
    with pytest.raises(KernelError, match="a kernel") as caught:
        payload.member_offsets(image, "task_struct", MEMBERS, "a kernel")
    assert "CONFIG_DEBUG_INFO_BTF=y" in caught.value.remedy


def test_what_is_cut_in_half_cannot_be_used(blob: bytes) -> None:
    types, strings = payload._BTF_SECTIONS.unpack_from(blob, len(payload._BTF_MAGIC))[1::2]
    nonsense = payload._BTF_MAGIC + payload._BTF_SECTIONS.pack(0, types, types, strings)
    with pytest.raises(KernelError):
        payload.member_offsets(nonsense + b"\xff" * (types + strings), "task_struct", MEMBERS, "it")


@pytest.mark.parametrize("program", ["lz4", "lzop"])
def test_a_program_unpacks_what_python_cannot(program: str) -> None:
    options = ["-l"] if program == "lz4" else []  # the kernel's build makes lz4's older format
    packed = subprocess.run(
        [need(program), *options, "-c"], input=IMAGE, capture_output=True, check=True
    )
    assert unpack(packed.stdout, "Image").payload == IMAGE
