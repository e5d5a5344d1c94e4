# SPDX-License-Identifier: GPL-2.0-or-later
"""Reads the table of symbols in a kernel's image, as scripts/kallsyms.c lays it out for 64 bits.

Names are bytes, each for one of 256 tokens, and a marker says where each 256th name begins.  Up to
Linux 6.3 the addresses stand before the names, since 6.4 (commit 404bad70fcf7) behind the tokens,
and since 7.0 (commit a081b5789255) they are distances from where they stand.
"""

from __future__ import annotations

import io
import re
import struct
import sys
from array import array
from collections import Counter
from collections.abc import Iterator
from itertools import accumulate

_TOKENS = 256
# Each character of a name is a token of its own, so the digits follow each other.
_DIGITS = b"".join(b"%d\0" % digit for digit in range(10))
_LONGEST_TOKEN = 50
_GROUP = 256  # names between two markers
_MOST_NAMES = 1 << 20
_LONGEST_NAME = 514  # bytes with its length: KSYM_NAME_LEN is 512 since Linux 6.1
# What is looked at to find the table; a kernel of 300,000 symbols takes fewer than a million steps.
_MOST_STEPS = 1 << 24
_VERSION = re.compile(rb"Linux version (\d+)\.(\d+)")
_ELF = b"\x7fELF"
_RELATIVE = re.compile(rb"\x03\x04\0{6}")  # R_AARCH64_RELATIVE, of ELF's 24 bytes the second 8
_PAGE, _MOST_HEADER = 4096, 1 << 16

# The top bits of all addresses of kernels.
_KERNEL = 0xFFFF
_FEWEST_POINTERS = 1000
_OFFSET = (1 << 31) - 1
# Each base that is tried is a walk through the image; a kernel's is among the first two.
_MOST_BASES = 8


def read(image: bytes) -> Iterator[tuple[int, str]]:
    """Yield each symbol's address and name, behind its letter of nm(1); ValueError."""
    version = _VERSION.search(image)
    if not version:
        raise ValueError("there is no 'Linux version' line")
    steps = _Steps()
    try:
        tokens_at, index_end, tokens = _tokens(image, steps)
        count_at, names = next(_names(image, tokens_at, steps))
        release = int(version[1]), int(version[2])
        addresses = _addresses(image, release, len(names), count_at, index_end)
    except (struct.error, StopIteration, IndexError) as err:
        raise ValueError("there is no whole table of symbols") from err
    for address, name in zip(addresses, names, strict=True):
        yield address, b"".join(tokens[byte] for byte in name).decode("utf-8", "replace")


class _Steps:
    """How often the search may still look at something: an image can be made to have it look."""

    left = _MOST_STEPS

    def take(self, count: int) -> None:
        """Takes that many; ValueError where there are no more."""
        self.left -= count
        if self.left < 0:
            raise ValueError("the search for its table of symbols takes too long")


def _tokens(image: bytes, steps: _Steps) -> tuple[int, int, list[bytes]]:
    """Return where the tokens begin, where the index behind them ends, and the tokens."""
    zero = _DIGITS[0]
    at = image.find(_DIGITS)
    while at >= 0:
        rest = image[at : at + (_TOKENS - zero) * _LONGEST_TOKEN].split(b"\0")[: _TOKENS - zero]
        steps.take(8 * _TOKENS)
        *starts, end = accumulate((len(token) + 1 for token in rest), initial=0)
        for index_at in range(at + end, min(at + end + 8, len(image) - 2 * _TOKENS)):
            index = struct.unpack_from(f"<{_TOKENS}H", image, index_at)
            if [start - index[zero] for start in index[zero:]] == starts:
                first = at - index[zero]
                tokens = [image[first + n : image.index(b"\0", first + n)] for n in index]
                return first, index_at + 2 * _TOKENS, tokens
        at = image.find(_DIGITS, at + 1)
    raise ValueError("there is no table of tokens")


def _markers(image: bytes, end: int, steps: _Steps) -> Iterator[tuple[int, list[int]]]:
    """Yield where the markers before `end` may begin, and these."""
    # From 6.2 to 6.3, and in stable releases of 6.1, three bytes a name stand behind the markers.
    forms = [("<I", 0), ("<Q", 0), *(("<I", gap) for gap in range(8, 3 * _MOST_NAMES, 8))]
    for form, gap in forms:  # <Q before Linux 4.20
        size = struct.calcsize(form)
        for padding in (0, 4):
            at, markers = end - gap - padding, [sys.maxsize]
            while at >= size and markers[-1]:
                at -= size
                (marker,) = struct.unpack_from(form, image, at)
                if marker >= markers[-1]:
                    break
                markers.append(marker)
            steps.take(len(markers))
            if not markers[-1] and (
                not gap or gap // 3 // _GROUP in (len(markers) - 2, len(markers) - 1)
            ):
                yield at, markers[:0:-1]


def _names(image: bytes, end: int, steps: _Steps) -> Iterator[tuple[int, list[bytes]]]:
    """Yield where the number of names stands, and the names, which fit the markers before `end`."""
    for markers_at, markers in _markers(image, end, steps):
        last = (markers_at - markers[-1]) & ~3
        starts = range(last, max(last - _GROUP * _LONGEST_NAME, 8), -4)
        steps.take(len(starts))
        for start in starts:
            wide, count = struct.unpack_from("<II", image, start - 8)
            # Aligned to 8 bytes before Linux 7.0: the number, then zeros.
            count_at, count = (start - 4, count) if count else (start - 8, wide)
            if -(-count // _GROUP) == len(markers):
                names, at = [], start
                for number in range(count):
                    wanted = markers[number // _GROUP]
                    if at >= markers_at or (number % _GROUP == 0 and at - start != wanted):
                        break
                    length = image[at]
                    at += 1
                    if length & 0x80:  # since Linux 6.1
                        length = length & 0x7F | image[at] << 7
                        at += 1
                    names.append(image[at : at + length])
                    at += length
                steps.take(len(names))
                if len(names) == count and 0 <= markers_at - at < 8:
                    yield count_at, names


def _addresses(
    image: bytes, release: tuple[int, int], count: int, count_at: int, index_end: int
) -> list[int]:
    if release >= (7, 0):
        at = index_end + -index_end % 4
        first = _address_at(image, at)
        distances = struct.unpack_from(f"<{count}i", image, at)
        return [first + 4 * n + distance for n, distance in enumerate(distances)]
    size = 4 * count + -4 * count % 8
    if release >= (6, 4):
        at = addresses_at = index_end + -index_end % 8
    else:
        at, addresses_at = count_at - 8 - size, count_at - 8 * count
    base, (before,) = _relocated(image, at + size), struct.unpack_from("<Q", image, at + size - 8)
    if base >> 48 != _KERNEL or 0 <= base - before <= _OFFSET:  # CONFIG_KALLSYMS_BASE_RELATIVE=n
        return list(struct.unpack_from(f"<{count}Q", image, addresses_at))
    offsets = struct.unpack_from(f"<{count}i", image, at)
    if 2 * sum(offset < 0 for offset in offsets) < count:
        return [base + offset for offset in offsets]
    # CONFIG_KALLSYMS_ABSOLUTE_PERCPU=y: only what is negative is relative.
    return [base - 1 - offset if offset < 0 else offset for offset in offsets]


def _relocated(image: bytes, at: int) -> int:
    """Return the word there; what a relocation puts there where it is 0, as arm64's linker does."""
    (word,) = struct.unpack_from("<Q", image, at)
    if word:
        return int(word)
    # The kernel begins where the word's address less `at` is, and the table's base is near it.  All
    # else that kernels point to lies behind: the lowest that fits is the right relocation.
    bases: list[int] = []
    for match in _RELATIVE.finditer(image, 8, len(image) - 8):
        place, _, value = struct.unpack_from("<QQQ", image, match.start() - 8)
        start = place - at
        if start % _PAGE == 0 and 0 <= value - start <= _MOST_HEADER:
            bases.append(value)
    if not bases:
        raise ValueError("the table's addresses have to be relocated first")
    return min(bases)


def _address_at(image: bytes, at: int) -> int:
    """Return the address at which the byte `at` of the image was linked; ValueError."""
    if not image.startswith(_ELF):
        return link_address(image) + at
    from elftools.elf.elffile import ELFFile

    for segment in ELFFile(io.BytesIO(image)).iter_segments("PT_LOAD"):
        if 0 <= at - segment["p_offset"] < segment["p_filesz"]:
            return int(segment["p_vaddr"]) + at - int(segment["p_offset"])
    raise ValueError("the table is not in what is loaded")


def link_address(image: bytes) -> int:
    """Return where an Image's kernel was linked, as most of its pointers say; ValueError."""
    # All link it at a multiple of 2 GiB in the top 2**48 bytes: KIMAGE_VADDR, KERNEL_LINK_ADDR.
    pointers = array("Q", image[: len(image) // 8 * 8])
    if sys.byteorder == "big":
        pointers.byteswap()
    tops = Counter(word >> 31 for word in pointers if word >> 48 == _KERNEL)
    # The last 2 GiB are also where small negative numbers lie: arm64 has nothing else there.
    for top, count in tops.most_common(_MOST_BASES):
        if count < _FEWEST_POINTERS:
            break
        inside = sum(word >> 31 == top and word & _OFFSET < len(image) for word in pointers)
        if inside >= _FEWEST_POINTERS:
            return top << 31
    raise ValueError("the address at which the kernel was linked cannot be told")
