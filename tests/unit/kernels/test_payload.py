# SPDX-License-Identifier: GPL-2.0-or-later
from __future__ import annotations

import pytest

from kentry.errors import KernelError
from kentry.kernels import payload
from tests.unit.kernels import fakes


def test_the_banner_is_the_one_with_the_build_number() -> None:
    assert payload.banner(fakes.image(), "Image") == fakes.BANNER
    only_first = fakes.FIRST_BANNER.encode() + b"\n\0"
    assert payload.banner(only_first, "Image") == fakes.FIRST_BANNER


def test_no_banner_is_an_error() -> None:
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


def test_no_build_id_where_it_cannot_be_told() -> None:
    assert payload.build_id(bytes(5000)) is None
    assert payload.build_id(fakes.note("11" * 20) + bytes(64) + fakes.note("22" * 20)) is None
    assert payload.build_id(fakes.elf(fakes.X86_64)) is None
    assert payload.build_id(b"\x7fELF damaged") is None


def test_the_built_in_config() -> None:
    assert payload.built_in_config(fakes.body(config=True)) == fakes.CONFIG
    assert payload.built_in_config(fakes.body()) is None
    assert payload.built_in_config(b"IKCFG_ST\x1f\x8bdamaged") is None
