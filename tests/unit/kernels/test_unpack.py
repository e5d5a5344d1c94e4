# SPDX-License-Identifier: GPL-2.0-or-later
from __future__ import annotations

import bz2
import gzip
import logging
import lzma
from collections.abc import Callable

import pytest
import zstandard

from kentry.arch import Arch
from kentry.errors import UserError
from kentry.kernels.payload import unpack
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
        (gzip.compress(fakes.zboot(gzip.compress(IMAGE))), "compressed Image"),
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
        (VMLINUX[:30], "damaged ELF"),
        (VMLINUX[:100], "damaged ELF"),
        (fakes.elf(fakes.ARM64), "nothing to load"),
    ],
)
def test_what_is_not_a_whole_kernel_is_refused(data: bytes, words: str) -> None:
    with pytest.raises(UserError) as raised:
        unpack(data, "FILE")
    assert raised.value.sentence.startswith("FILE ")
    assert words in raised.value.sentence
    assert "x86_64 bzImage" in raised.value.remedy


def test_logging_is_left_as_it_was() -> None:
    before = list(logging.getLogger().handlers)
    unpack(gzip.compress(IMAGE), "Image.gz")
    assert logging.getLogger().handlers == before
