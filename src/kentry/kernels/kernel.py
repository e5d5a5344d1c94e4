# SPDX-License-Identifier: GPL-2.0-or-later
"""What a spec resolves to, and how a recording tells it from another kernel."""

from __future__ import annotations

import bisect
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

from kentry.kernels import config

# Why not all of the archive could be seen; a caveat, not part of an origin.
NOTE = "note"

# Where the probe says the kernel is, and where its text ends; arm64 before 6.2 has no _text.
TEXT_START, TEXT_END = "_stext", "_etext"


class Symbol(NamedTuple):
    """One row of a kernel's symbol table, as in /proc/kallsyms: address, type letter, name."""

    address: int
    kind: str
    name: str


@dataclass(frozen=True)
class SymbolTable:
    """A kernel's text symbols and edges of text, by address, then in the kernel's order."""

    # Three columns, because 100,000 objects take longer to make than all that is done with them.

    addresses: list[int]
    kinds: str
    names: list[str]

    @classmethod
    def of(cls, symbols: Iterable[Symbol]) -> SymbolTable:
        """Return the table of `symbols`, which need not be sorted."""
        rows = sorted(symbols, key=lambda symbol: symbol.address)
        kinds = "".join(row.kind for row in rows)
        return cls([row.address for row in rows], kinds, [row.name for row in rows])

    def __len__(self) -> int:
        return len(self.addresses)

    def __iter__(self) -> Iterator[Symbol]:
        return map(Symbol, self.addresses, self.kinds, self.names)

    def address_of(self, name: str) -> int | None:
        """Return the address of the first symbol called `name`, or None."""
        try:
            return self.addresses[self.names.index(name)]
        except ValueError:
            return None

    def at(self, address: int) -> Symbol | None:
        """Return the symbol that `address` lies in; None before the first."""
        after = bisect.bisect_right(self.addresses, address)
        if not after:
            return None
        first = bisect.bisect_left(self.addresses, self.addresses[after - 1])
        return Symbol(self.addresses[first], self.kinds[first], self.names[first])


@dataclass(frozen=True)
class Kernel:
    """A kernel that can be booted and named.

    `image` is what QEMU's -kernel takes; the addresses of `symbols` are those of a boot without
    KASLR.  `config` is None where it is not known, `build_id` where the image has no GNU build id
    or more than one that might be.  `origin` says where the image came from, and `debug_info` is
    the vmlinux if it has DWARF.
    """

    spec: str
    arch: str
    image: Path
    image_sha256: str
    symbols: SymbolTable
    symbols_from: str
    release: str = ""
    banner: str = ""
    compiler: str = ""
    config: Path | None = None
    config_sha256: str | None = None
    build_id: str | None = None
    origin: dict[str, str] = field(default_factory=dict)
    debug_info: Path | None = None


def kernel_to_json(kernel: Kernel, release: str | None, notes: bytes) -> dict[str, Any]:
    """Describe the kernel, with what it said when it ran: its uname -r, its ELF notes."""
    return {
        "spec": kernel.spec,
        "arch": kernel.arch,
        "release": release or kernel.release,
        "build_id": gnu_build_id(notes) or kernel.build_id,
        "banner": kernel.banner,
        "compiler": kernel.compiler,
        "config_sha256": kernel.config_sha256,
        "config": config_lines(kernel),
        "image_sha256": kernel.image_sha256,
        "symbols_from": kernel.symbols_from,
        "origin": {name: text for name, text in kernel.origin.items() if name != NOTE},
    }


def config_lines(kernel: Kernel) -> dict[str, str] | None:
    """Return the options built in, CONFIG_ left off; None where the config is not known."""
    if kernel.config is None:
        return None
    options = config.read(kernel.config.read_text(encoding="utf-8", errors="replace"))
    # No module is loaded in the guest, and they are two thirds of a distribution's config.
    chosen = {name: value for name, value in options.items() if value not in ("m", "n")}
    return {name.removeprefix("CONFIG_"): value for name, value in chosen.items()}


def gnu_build_id(notes: bytes) -> str | None:
    """Return the GNU build ID among ELF notes, as hexadecimal; None where there is none."""
    # Sizes of name and contents, type 3, name; the contents follow.
    note = re.search(rb"\x04\0\0\0(.)\0\0\0\x03\0\0\0GNU\0", notes, re.DOTALL)
    if not note:
        return None
    content = notes[note.end() : note.end() + note[1][0]]
    return content.hex() if len(content) == note[1][0] else None
