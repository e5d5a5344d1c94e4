# SPDX-License-Identifier: GPL-2.0-or-later
"""Lines of source from debug info that a compiler wrote, and files without or with broken ones."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from dataclasses import replace
from pathlib import Path

import pytest
from elftools.elf.elffile import ELFFile

from kentry.arch import ARCHES, Arch
from kentry.errors import KernelError, MissingToolError
from kentry.host import native, sandbox
from kentry.host.process import run
from kentry.kernels.kernel import Kernel, Symbol, SymbolTable
from kentry.kernels.symtab import _chain, debug_info_of, source_lines
from kentry.results.recording import SourceLine
from tests import builders
from tests.unit.kernels.sources import write

# Each line that is code has a mark of its own in the machine code: nothing moves it.
FILES = {
    "init/main.c": """#include "../include/linux/entry.h"
void start_kernel(void) { __asm__ volatile("nop"); }
int handler(int a)
{
	__asm__ volatile(".globl at_5; at_5: nop");
	return outer(a);
}
""",
    "include/linux/entry.h": """static inline __attribute__((always_inline)) int inner(int a)
{
	__asm__ volatile(".globl at_inner; at_inner: nop");
	return a + 1;
}
static inline __attribute__((always_inline)) int outer(int a)
{
	return inner(a);
}
void start_kernel(void);
int handler(int a);
""",
}


@pytest.fixture(scope="module", params=sorted(ARCHES))
def compiled(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Kernel:
    """A program that has the layout of Linux's source, built in another folder than it lies in."""
    builders.skip_without(lambda: native.newest_llvm("llvm-symbolizer"), MissingToolError)
    builders.skip_without(sandbox.check, MissingToolError)
    arch: Arch = ARCHES[request.param]
    if not shutil.which(f"{arch.cross}gcc"):
        pytest.skip(f"no compiler for {arch.name}: {arch.cross}gcc")
    tmp_path = tmp_path_factory.mktemp("program")
    write(tmp_path / "linux", FILES)
    objects = tmp_path / "objects"
    objects.mkdir()
    words = "-g -O2 -ffreestanding -nostdlib -static -no-pie -Wl,-e,start_kernel -o vmlinux"
    argv = [f"{arch.cross}gcc", *words.split(), "../linux/init/main.c"]
    subprocess.run(argv, cwd=objects, check=True)
    vmlinux = objects / "vmlinux"
    listed = run([f"{arch.cross}nm", str(vmlinux)]).stdout
    rows = [line.split() for line in listed.splitlines() if re.match(r"[0-9a-f]+ \w \w+$", line)]
    symbols = [Symbol(int(address, 16), kind, name) for address, kind, name in rows]
    # The marks are no functions.
    marks = [f"--strip-symbol={name}" for *_, name in rows if name.startswith("at_")]
    subprocess.run([f"{arch.cross}objcopy", *marks, str(vmlinux)], check=True)
    own = builders.image_kernel(arch.name)
    return replace(own, symbols=SymbolTable.of(symbols), debug_info=vmlinux)


@pytest.fixture
def kernel(compiled: Kernel, tmp_path: Path) -> Kernel:
    """A copy, for a test to damage."""
    assert compiled.debug_info
    shutil.copytree(compiled.debug_info.parents[1], tmp_path, dirs_exist_ok=True)
    return replace(compiled, debug_info=tmp_path / "objects" / "vmlinux")


def places(kernel: Kernel, *names: str) -> list[tuple[SourceLine, ...]]:
    addresses = [kernel.symbols.address_of(name) for name in names]
    return source_lines(kernel, [address for address in addresses if address is not None])


def test_an_inlined_line_has_the_lines_that_it_was_inlined_at(kernel: Kernel) -> None:
    header = "include/linux/entry.h"
    assert places(kernel, "at_5", "at_inner") == [
        (SourceLine("init/main.c", 5, "handler"),),
        (
            SourceLine(header, 3, "inner"),
            SourceLine(header, 8, "outer"),
            SourceLine("init/main.c", 6, "handler"),
        ),
    ]


def test_an_address_without_a_line_has_none(kernel: Kernel) -> None:
    assert source_lines(kernel, [1, 2]) == [(), ()]


def test_a_stripped_program_has_no_debug_info(kernel: Kernel) -> None:
    assert kernel.debug_info
    assert debug_info_of(kernel.debug_info) == kernel.debug_info
    arch = ARCHES[kernel.arch]
    subprocess.run([f"{arch.cross}strip", "--strip-debug", kernel.debug_info], check=True)
    assert debug_info_of(kernel.debug_info) is None
    assert source_lines(replace(kernel, debug_info=None), [1]) == [()]


def test_what_a_file_says_is_printable(kernel: Kernel) -> None:
    """A recording with control characters could not be read again."""
    assert kernel.debug_info
    data = kernel.debug_info.read_bytes()
    for name in (b"entry.h\0", b"inner\0"):
        assert name in data
        data = data.replace(name, b"\x1b[2J" + name[4:])
    kernel.debug_info.write_bytes(data)
    (*_, found) = places(kernel, "at_inner")
    assert any("?[2J" in one.file + one.function for one in found)
    assert all((one.file + one.function).isprintable() for one in found)


def test_damaged_debug_info_is_a_sentence(kernel: Kernel) -> None:
    assert kernel.debug_info
    with kernel.debug_info.open("r+b") as file:
        elf = ELFFile(file)
        for name in (".debug_info", ".debug_line", ".debug_abbrev"):
            section = elf.get_section_by_name(name)
            assert section
            file.seek(section["sh_offset"])
            file.write(b"\xff" * section["sh_size"])
    with pytest.raises(KernelError, match="could not read") as caught:
        places(kernel, "at_5")
    assert caught.value.remedy


def _symbol(*places: tuple[str, int]) -> str:
    rows = [{"FileName": name, "Line": line, "FunctionName": "f"} for name, line in places]
    return json.dumps({"Symbol": rows})


@pytest.mark.parametrize(
    ("row", "found"),
    [
        # The line of its caller is not its own.
        (_symbol(("a.h", 0), ("b.c", 3)), ()),
        (_symbol(("x/../b.c", 3)), (SourceLine("b.c", 3, "f"),)),
        (_symbol(("a.h", -5)), ()),
        *((text, ()) for text in (_symbol(), '{"Error": {"Message": "no such file"}}', "[]", "x")),
    ],
)
def test_a_line_of_the_symbolizer(row: str, found: tuple[SourceLine, ...]) -> None:
    assert _chain(row) == found


def test_the_file_alone_is_seen_of_its_folder(kernel: Kernel) -> None:
    assert kernel.debug_info
    argv = ["ls", str(kernel.debug_info.parent.parent)]
    if not sandbox.works():
        pytest.skip("bubblewrap does not work here, and the user trusts the file")
    listed = run(sandbox.confined(argv, env={}, readable=[kernel.debug_info])).stdout
    assert listed.split() == ["objects"]


def test_a_file_that_is_no_program_has_no_debug_info(tmp_path: Path) -> None:
    for content in (b"", b"\x7fELF", b"\x7fELF\x02\x01\x01" + 200 * b"\xff", 999 * b"x"):
        (tmp_path / "vmlinux").write_bytes(content)
        assert debug_info_of(tmp_path / "vmlinux") is None


def test_without_a_sandbox_nothing_is_read(kernel: Kernel, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sandbox, "works", lambda: False)
    monkeypatch.delenv(sandbox.ALLOW_VARIABLE, raising=False)
    with pytest.raises(MissingToolError, match="bubblewrap"):
        places(kernel, "at_5")
