# SPDX-License-Identifier: GPL-2.0-or-later
"""Lines of source of a kernel's instructions, from the DWARF debug info of its vmlinux."""

import contextlib
import json
import posixpath
from collections.abc import Sequence
from pathlib import Path

from kentry.errors import KernelError, MissingToolError
from kentry.host import native, sandbox
from kentry.host.process import supervise
from kentry.kernels.kernel import Kernel
from kentry.progress import printable
from kentry.results.recording import SourceLine

# A vmlinux of a distribution has 500 MB of debug info, and a few thousand addresses take seconds.
_TIMEOUT_SECONDS = 300
_OUTPUT_BYTES = 256 << 20
# Where this function is tells where the source was; it has been in this file since Linux 0.95.
_KNOWN_FUNCTION, _KNOWN_FILE = "start_kernel", "/init/main.c"


def debug_info_of(vmlinux: Path) -> Path | None:
    """Return the file itself if it is ELF and has DWARF's table of lines; else None."""
    from elftools.common.exceptions import ELFError
    from elftools.elf.elffile import ELFFile

    try:
        with vmlinux.open("rb") as file:
            return vmlinux if ELFFile(file).get_section_by_name(".debug_line") else None
    except (OSError, ELFError, ValueError, KeyError, AttributeError, TypeError):
        return None


def reader() -> str:
    """Return what can read debug info here: LLVM's version; "" where nothing can."""
    try:
        return native.llvm_version(_symbolizer())
    except MissingToolError:
        return ""


def source_lines(kernel: Kernel, addresses: Sequence[int]) -> list[tuple[SourceLine, ...]]:
    """For each link address its line, then where that was inlined, and so on; () if not known.

    Files are named from the top of the source.  MissingToolError without llvm-symbolizer or a
    sandbox for it, KernelError where it cannot read the file.
    """
    if kernel.debug_info is None:
        return [()] * len(addresses)
    known = kernel.symbols.address_of(_KNOWN_FUNCTION)
    asked = [*addresses, *([known] if known is not None else [])]
    vmlinux = kernel.debug_info.resolve()
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
    return [tuple(one._replace(file=one.file.removeprefix(top)) for one in row) for row in rows]


def _symbolizer() -> Path:
    """LLVM's program; MissingToolError where it is not installed or could not be confined."""
    program = native.newest_llvm("llvm-symbolizer")
    sandbox.check()
    return program


def _chain(line: str) -> tuple[SourceLine, ...]:
    """One line of the symbolizer's output: an address, innermost function first."""
    places = []
    with contextlib.suppress(ValueError, KeyError, IndexError, TypeError):
        rows = json.loads(line)["Symbol"]
        # Where the innermost has no line, its caller's would be taken for it.
        for row in rows if rows[0]["Line"] else ():
            if row["FileName"] and row["Line"] > 0:
                # The file may name them as it likes.
                file, function = posixpath.normpath(row["FileName"]), row["FunctionName"]
                places.append(SourceLine(printable(file), int(row["Line"]), printable(function)))
        return tuple(places)
    return ()
