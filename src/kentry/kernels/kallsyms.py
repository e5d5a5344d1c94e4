# SPDX-License-Identifier: GPL-2.0-or-later
"""Reads the symbol table inside a kernel image: python -m kentry.kernels.kallsyms IMAGE.

A process of its own, because vmlinux-to-elf searches the image by trial: on a damaged one
it may take for ever or fill the memory, and it prints and logs what no user asked for.
"""

import contextlib
import json
import re
import resource
import sys
from array import array
from collections import Counter
from pathlib import Path

from vmlinux_to_elf.core.kallsyms import KallsymsFinder

from kentry.kernels.payload import unpack
from kentry.kernels.symtab import is_text

# Ten times what Debian's largest kernel takes.
_CPU_SECONDS = 120
_MEMORY_BYTES = 8 << 30
_FEWEST_POINTERS = 1000
_OFFSET = (1 << 31) - 1


class _Finder(KallsymsFinder):  # type: ignore[misc]  # the library has no annotations
    """KallsymsFinder without what it only logs, which takes a third of its time."""

    kernel_addresses: list[int]

    def find_linux_kernel_version(self) -> None:
        match = re.search(rb"Linux version (\d+\.[\d.]*\d)[ -~]+", self.kernel_img)
        if not match:
            raise ValueError("there is no 'Linux version' line")
        self.version_string = match.group(0).decode("ascii")
        self.version_number = match.group(1).decode("ascii")

    def extract_db_information(self, extra_info: bool = True) -> None:
        """Nothing: it would look the version up in a list of releases, and log it."""

    def find_kallsyms_addresses_or_symbols(self) -> None:
        super().find_kallsyms_addresses_or_symbols()
        # Since commit a081b5789255 (in v7.0) the table has no address in it, only distances;
        # the library then takes the ELF header's, which an Image does not have.
        relative = int(self.version_number.split(".")[0]) >= 7
        if relative and not self.kernel_img.startswith(b"\x7fELF"):
            shift = link_address(self.kernel_img) - min(self.kernel_addresses)
            self.kernel_addresses = [distance + shift for distance in self.kernel_addresses]


def link_address(payload: bytes) -> int:
    """Return where the kernel in an Image was linked to be: most of its pointers point there.

    Every architecture that has Images links it at a multiple of 2 GiB, in the top 2**48 bytes:
    arm64's KIMAGE_VADDR, riscv's KERNEL_LINK_ADDR.  ValueError if there is no such address.
    """
    words = array("Q", payload[: len(payload) // 8 * 8])
    if sys.byteorder == "big":
        words.byteswap()
    places = Counter(word >> 31 for word in words if word >> 48 == 0xFFFF)
    # The last 2 GiB are also where small negative numbers lie: arm64 has nothing else there.
    for place, count in places.most_common():
        if count < _FEWEST_POINTERS:
            break
        inside = sum(word >> 31 == place and word & _OFFSET < len(payload) for word in words)
        if inside >= _FEWEST_POINTERS:
            return place << 31
    raise ValueError("the address at which the kernel was linked cannot be told")


def main(image: str) -> None:
    """Print the rows of the table as JSON."""
    resource.setrlimit(resource.RLIMIT_CPU, (_CPU_SECONDS, _CPU_SECONDS))
    resource.setrlimit(resource.RLIMIT_AS, (_MEMORY_BYTES, _MEMORY_BYTES))
    payload = unpack(Path(image).read_bytes(), image).payload
    with contextlib.redirect_stdout(sys.stderr):
        # Its own guess of the word's size fails on Debian's riscv64 images.
        finder = _Finder(payload, bit_size=64)
    rows = zip(finder.kernel_addresses, finder.symbol_names, strict=True)
    table = [(address, name[0], name[1:]) for address, name in rows]
    sys.stdout.write(json.dumps([row for row in table if is_text(row[1], row[2], row[0])]))


if __name__ == "__main__":
    main(*sys.argv[1:])
