# SPDX-License-Identifier: GPL-2.0-or-later
"""Which instructions a kernel patches, by the tables in its image that tell it so."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

from kentry.arch import find_arch
from kentry.arch.record import Entry
from kentry.errors import UserError
from kentry.kernels import payload
from kentry.kernels.kernel import TEXT_START, Kernel

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    # Addresses, signed so that distances can be added.
    _Addresses = NDArray[np.int64]

_END = "_end"
_WORD = (1 << 64) - 1
_RELA_BYTES = 24  # of struct elf64_rela: the place, the type, the value


class Sites(NamedTuple):
    """Of a table's sites, sorted by where they start; `ends` has the last end up to each."""

    section: str
    starts: _Addresses
    ends: _Addresses


def read_tables(kernel: Kernel) -> list[Sites]:
    """Return the tables of a kernel's image.

    There is none of a table where the kernel's symbols do not have its bounds, the image not its
    bytes, or one of its sites is outside of the kernel.
    """
    import numpy as np  # not above: it takes a command that reads no image 70 ms

    address_of = kernel.symbols.address_of
    try:
        image = payload.unpack(kernel.image.read_bytes(), str(kernel.image)).payload
    except (OSError, UserError):
        return []

    def read(bounds: tuple[str, str]) -> tuple[int, bytes]:
        start, end = (address_of(name) or 0 for name in bounds)
        data = payload.linked_at(image, kernel, start, end) if start < end else b""
        return start, data if len(data) == end - start else b""

    arch = find_arch(kernel.arch)
    first, last = _signed([address_of(TEXT_START) or 0, address_of(_END) or 0])
    functions = _signed(kernel.symbols.addresses)
    relocations = read(arch.relocations)[1]
    tables = []
    for table in arch.site_tables:
        for entry in table.entries:
            starts, ends = _sites(*read(table.bounds), entry, relocations)
            if not starts.size or starts.min() < first or ends.max() > last:
                continue
            skipped = entry.before * np.isin(starts + entry.before, functions)
            order = np.argsort(starts + skipped)
            # A site may be inside of another.
            ends = np.maximum.accumulate((ends + skipped)[order])
            tables.append(Sites(table.section, (starts + skipped)[order], ends))
            break
    return tables


def _sites(
    start: int, data: bytes, entry: Entry, relocations: bytes
) -> tuple[_Addresses, _Addresses]:
    """Return where a table's sites start and end; none if it is not a number of such entries."""
    import numpy as np

    whole = len(data) // entry.size if len(data) % entry.size == 0 else 0
    table = np.frombuffer(data, np.uint8, whole * entry.size).reshape(whole, entry.size)

    def field(at: int, kind: str) -> _Addresses:
        size = np.dtype(kind).itemsize
        return table[:, at : at + size].copy().view(kind)[:, 0].astype(np.int64)

    starts = field(0, entry.site)
    own = _signed([start])[0] + np.arange(whole) * entry.size
    if entry.site.startswith("<i"):
        starts += own
    else:
        # A kernel that can be moved may have the addresses among its relocations only.
        count = len(relocations) // _RELA_BYTES
        where, _, values = np.frombuffer(relocations, "<i8", 3 * count).reshape(count, 3).T
        _, row, relocation = np.intersect1d(own, where, return_indices=True)
        starts[row] = values[relocation]
    ends = starts + (field(*entry.length_at) if entry.length_at else entry.length)
    return starts[starts != 0], ends[starts != 0]


def tables_of(tables: Sequence[Sites], addresses: Sequence[int]) -> list[tuple[str, ...]]:
    """Return for each address, as linked, the sections of the tables that have it in a site."""
    import numpy as np

    sections: list[tuple[str, ...]] = [()] * len(addresses)
    executed = _signed(addresses)
    for section, starts, ends in tables:
        before = np.searchsorted(starts, executed, "right")
        for index in np.flatnonzero((before > 0) & (executed < ends[before - 1])):
            sections[index] += (section,)
    return sections


def _signed(addresses: Sequence[int]) -> _Addresses:
    import numpy as np

    # Damaged symbols may be larger.
    return np.array([address & _WORD for address in addresses], np.uint64).view(np.int64)
