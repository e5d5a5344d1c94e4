# SPDX-License-Identifier: GPL-2.0-or-later
"""Addresses to functions."""

import bisect
import re
from collections.abc import Iterable

UNNAMED = "[unnamed]"

# Of several names for one address, the one a developer would use: not a position-
# independent alias, not a section's mark, not a compiler's local label.
_POOR = re.compile(r"__pi_|__cfi_|\.L|_stext$|_etext$|_text$|__\w+_(start|end)$|\w+_(start|end)$")

# Marks between code and data that assemblers leave: $x, $d, and clones of them.
_LABEL = re.compile(r"\$[xd]")

# What compilers append to a function they cloned or split.
_CLONE = re.compile(r"(\.(constprop|isra|part|cold|llvm|lto_priv)(\.\d+)*)+$")


class SymbolMap:
    """The function at an address; `end` is the first address after the kernel's text."""

    def __init__(self, symbols: Iterable[tuple[int, str]], end: int | None = None) -> None:
        best: dict[int, str] = {}
        for address, name in symbols:
            if _LABEL.search(name):
                continue
            if address not in best or _quality(name) < _quality(best[address]):
                best[address] = name
        self._addresses = sorted(best)
        self._names = [best[address] for address in self._addresses]
        self._end = end

    def find(self, address: int) -> tuple[str, int]:
        """The function that has `address`, and the bytes before it there; else UNNAMED, 0."""
        at = bisect.bisect_right(self._addresses, address) - 1
        if at < 0 or (self._end is not None and address >= self._end):
            return UNNAMED, 0
        return self._names[at], address - self._addresses[at]


def _quality(name: str) -> tuple[bool, int, str]:
    return (bool(_POOR.match(name)), len(name) - len(name.lstrip("_")), name)


def base_name(function: str) -> str:
    """A function's name without what compilers append: foo for foo.constprop.0."""
    return _CLONE.sub("", function)
