# SPDX-License-Identifier: GPL-2.0-or-later
"""TOML files of the user's, or that others wrote."""

import tomllib
from typing import Any

MOST_BYTES = 1 << 20
# tomllib takes time and memory by the square of them: 20,000 take 1.5 GiB.
_MOST_DOTS = 100


def parse_toml(data: bytes) -> dict[str, Any]:
    """Return the document in `data`; ValueError or RecursionError where there is none in bounds."""
    if len(data) > MOST_BYTES:
        raise ValueError(f"it is larger than {MOST_BYTES >> 20} MiB")
    for number, line in enumerate(data.split(b"\n"), 1):
        if line.count(b".") > _MOST_DOTS:
            raise ValueError(f"line {number} has more than {_MOST_DOTS} dots")
    return tomllib.loads(data.decode())
