# SPDX-License-Identifier: GPL-2.0-or-later
"""Offsets from type information that a compiler and pahole made, and images without any."""

from __future__ import annotations

import shutil
import subprocess

import pytest

from kentry.errors import KernelError
from kentry.kernels import payload

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


def test_the_longest_is_the_kernels_own(blob: bytes) -> None:
    # A header and one string: as a module's or a test's, and whole.
    small = payload._BTF_MAGIC + payload._BTF_SECTIONS.pack(0, 0, 0, 1) + b"\0"
    for image in (small + blob + small, blob + small, small + bytes(3) + blob):
        assert payload.member_offsets(image, "task_struct", ("pid",), "a kernel") == {"pid": 104}


@pytest.mark.parametrize("member", ["inner_pid", "inner", "id", "first", "nothing"])
def test_only_a_member_of_the_structure_itself(blob: bytes, member: str) -> None:
    with pytest.raises(KernelError, match=member):
        payload.member_offsets(blob, "task_struct", ("pid", member), "a kernel")


def test_a_structure_that_is_not_there(blob: bytes) -> None:
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
