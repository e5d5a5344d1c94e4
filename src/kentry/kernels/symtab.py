# SPDX-License-Identifier: GPL-2.0-or-later
"""Symbols of a kernel, from its own kallsyms or a vmlinux, and lines of its source."""

from __future__ import annotations

import contextlib
import io
import json
import os
import posixpath
import struct
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from kentry.arch import ARCHES, Arch
from kentry.errors import KernelError, MissingToolError, UserError
from kentry.host import native, sandbox
from kentry.host.cache import read_at_most, read_bytes
from kentry.host.process import supervise
from kentry.kernels import kallsyms, payload
from kentry.kernels.kernel import Kernel, Symbol, SymbolTable
from kentry.kernels.made_of import MOST_BYTES
from kentry.progress import Update, printable
from kentry.results.recording import SourceLine

if TYPE_CHECKING:
    from elftools.elf.elffile import ELFFile

# Letters of nm(1) for text; all else is data, which is never executed.
_TEXT = frozenset("TtWw")
# Where text begins and ends; some of these are typed as data.
_EDGES = frozenset(
    ("_text", "_stext", "_etext", "_sinittext", "_einittext", "__init_begin", "__init_end", "_end")
)
_TABLES = frozenset(
    name
    for arch in ARCHES.values()
    for bounds in (arch.relocations, *(table.bounds for table in arch.site_tables))
    for name in bounds
)
# x86 lists per-CPU offsets as symbols too; a kernel's address has the top bit set.
_KERNEL_HALF = 1 << 63

# The smallest kernels have thousands, the largest vmlinux, with all options, a million and a half.
_FEWEST_SYMBOLS, _MOST_SYMBOLS = 500, 1 << 22
# Linux's names have 512 bytes at most (KSYM_NAME_LEN); 100 symbols may share one of megabytes.
_LONGEST_NAME = 1 << 12

_STB_LOCAL, _STB_WEAK = 0, 2
_STT_NOTYPE, _STT_FUNC = 0, 2
_ELF64_SYM = struct.Struct("<IBBHQQ")

# A vmlinux of a distribution has 500 MB of debug info, and a few thousand addresses take seconds.
_TIMEOUT_SECONDS = 300
_OUTPUT_BYTES = 256 << 20
# Where this function is tells where the source was; it has been in this file since Linux 0.95.
_KNOWN_FUNCTION, _KNOWN_FILE = "start_kernel", "/init/main.c"


def of_image(image: Path, update: Update) -> SymbolTable:
    """Read the symbols in the image's own kallsyms, in some seconds; KernelError."""
    update(None, "reading the kernel's symbols")
    try:
        rows = kallsyms.read(payload.unpack(read_bytes(image), str(image)).payload)
        all_symbols = (Symbol(address, name[:1], name[1:]) for address, name in rows)
        symbols = SymbolTable.of(filter(is_text, all_symbols))
    except ValueError as err:
        raise _unreadable(f"{image} has no symbol table in it", str(err)) from err
    if len(symbols) < _FEWEST_SYMBOLS or not {"_text", "_stext"} & set(symbols.names):
        raise _unreadable(f"The symbol table in {image} is not a kernel's")
    return symbols


def is_text(symbol: Symbol) -> bool:
    """Return whether a symbol is of text, or an edge of it or a table."""
    is_kept = symbol.kind in _TEXT or symbol.name in _EDGES or symbol.name in _TABLES
    return is_kept and symbol.address >= _KERNEL_HALF


def _unreadable(what: str, detail: str = "") -> KernelError:
    remedy = "Give the vmlinux of the same build: image:FILE,symbols=vmlinux."
    return KernelError(f"{what}.", remedy, detail)


def of_vmlinux(vmlinux: Path, arch: Arch, banner: str, build_id: str | None) -> SymbolTable:
    """Return the text symbols of an ELF file, of the same build as the image; UserError."""
    remedy = "Give the vmlinux that the build left beside the image."
    data = read_at_most(vmlinux, MOST_BYTES, remedy)
    try:
        with payload.open_elf(io.BytesIO(data)) as elf:
            problem = ""
            theirs = payload.elf_build_id(data)
            if elf["e_machine"] != arch.elf_machine:
                problem = f"{vmlinux} is for {elf['e_machine']}, the image for {arch.name}"
            elif build_id and theirs:
                if build_id != theirs:
                    builds = f"build {theirs[:12]}, the image of build {build_id[:12]}"
                    problem = f"{vmlinux} is of {builds}"
            elif banner.encode() not in data:
                problem = f"{vmlinux} does not have the image's 'Linux version' line in it"
            if problem:
                raise UserError(
                    f"The symbols do not match the image: {problem}.",
                    "Give the vmlinux of the same build.",
                )
            rows = list(_symtab(elf))
    except payload.NotAnImageError as err:
        raise UserError(f"{vmlinux} {err}.", remedy) from err
    # As scripts/kallsyms.c sorts: by address, weak ones last, fewer underscores first.
    rows.sort(key=lambda row: (row.kind in "Ww", len(row.name) - len(row.name.lstrip("_"))))
    symbols = SymbolTable.of(rows)
    if not symbols:
        raise UserError(f"{vmlinux} has no symbols: it was stripped.", remedy)
    return symbols


def of_program(program: Path) -> SymbolTable:
    """Return the text symbols of an ELF file of kentry's own, linked in the kernel's half."""
    from elftools.elf.elffile import ELFFile

    return SymbolTable.of(_symtab(ELFFile(io.BytesIO(read_bytes(program)))))


def _symtab(elf: ELFFile) -> Iterator[Symbol]:
    executable = {index for index, part in enumerate(elf.iter_sections()) if part["sh_flags"] & 0x4}
    table: Any = elf.get_section_by_name(".symtab")
    if table is None:
        return
    if table["sh_size"] > _MOST_SYMBOLS * _ELF64_SYM.size:
        raise payload.NotAnImageError(f"has more than {_MOST_SYMBOLS:,} symbols")
    names = elf.get_section(table["sh_link"]).data()
    # struct, not pyelftools' iter_symbols(): a vmlinux has 300,000, which take it 8 s.
    for name_at, info, _, section, address, _ in _ELF64_SYM.iter_unpack(table.data()):
        end = names.find(b"\0", name_at, name_at + _LONGEST_NAME)
        name = names[name_at : max(end, name_at)].decode("utf-8", "replace")
        code = section in executable and info & 0xF in (_STT_NOTYPE, _STT_FUNC)
        letter = "D" if not code else "W" if info >> 4 == _STB_WEAK else "T"
        symbol = Symbol(address, letter.lower() if info >> 4 == _STB_LOCAL else letter, name)
        # $x and .L are marks of the assembler, not functions.
        if name and not name.startswith(("$", ".L")) and is_text(symbol):
            yield symbol


def debug_info_of(vmlinux: Path) -> Path | None:
    """Return the file itself if it is ELF and has DWARF's table of lines; else None."""
    unreadable = contextlib.suppress(OSError, payload.NotAnImageError)
    with unreadable, vmlinux.open("rb") as file, payload.open_elf(file) as elf:
        return vmlinux if elf.get_section_by_name(".debug_line") else None
    return None


def reader() -> str:
    """Return what can read debug info here: LLVM's version; "" where nothing can."""
    try:
        return native.llvm_version(_symbolizer())
    except MissingToolError:
        return ""


def source_lines(kernel: Kernel, addresses: Sequence[int]) -> list[tuple[SourceLine, ...]]:
    """For each address its line, then where that was inlined; MissingToolError, KernelError."""
    # Files are named from the top of the source; () where nothing is known.
    if kernel.debug_info is None:
        return [()] * len(addresses)
    known = kernel.symbols.address_of(_KNOWN_FUNCTION)
    asked = [*addresses, *([known] if known is not None else [])]
    vmlinux = Path(os.path.realpath(kernel.debug_info))
    argv = [str(_symbolizer()), f"--obj={vmlinux}", "--output-style=JSON", "--inlines"]
    rows: list[tuple[SourceLine, ...]] = []
    ended = supervise(
        sandbox.confined(argv, env={}, readable=[vmlinux]),
        _TIMEOUT_SECONDS,
        lambda line: rows.append(_chain(line)),
        feed="".join(f"{address:#x}\n" for address in asked).encode(),
        limit=_OUTPUT_BYTES,
    )
    if ended.status or ended.stopped or len(rows) != len(asked) or not any(rows):
        raise KernelError(
            "llvm-symbolizer could not read the kernel's debug info.",
            "Look whether addr2line can; if not, build the kernel again.",
            f"It was stopped {ended.stopped}." if ended.stopped else ended.stderr,
        )
    top = ""
    if known is not None and (last := rows.pop()) and f"/{last[-1].file}".endswith(_KNOWN_FILE):
        top = last[-1].file.removesuffix(_KNOWN_FILE.removeprefix("/"))
    return [tuple(line._replace(file=line.file.removeprefix(top)) for line in row) for row in rows]


def _symbolizer() -> Path:
    """LLVM's program; MissingToolError where it is not installed or could not be confined."""
    program = native.newest_llvm("llvm-symbolizer")
    sandbox.check()
    return program


def _chain(line: str) -> tuple[SourceLine, ...]:
    """Return one line of the symbolizer's output: an address, innermost function first."""
    lines = []
    with contextlib.suppress(ValueError, KeyError, IndexError, TypeError):
        rows = json.loads(line)["Symbol"]
        # Where the innermost has no line, its caller's would be taken for it.
        for row in rows if rows[0]["Line"] else ():
            if row["FileName"] and row["Line"] > 0:
                # The file may name them as it likes.
                file, function = posixpath.normpath(row["FileName"]), row["FunctionName"]
                lines.append(SourceLine(printable(file), int(row["Line"]), printable(function)))
        return tuple(lines)
    return ()
