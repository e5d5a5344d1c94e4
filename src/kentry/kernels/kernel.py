# SPDX-License-Identifier: GPL-2.0-or-later
"""What a spec resolves to."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple


class Symbol(NamedTuple):
    """One row of a kernel's symbol table, as in /proc/kallsyms: address, type letter, name."""

    address: int
    kind: str
    name: str


@dataclass(frozen=True)
class Kernel:
    """A kernel that can be booted and named.

    `image` is what QEMU's -kernel takes.  `symbols` are the text symbols, and the edges of
    text, sorted by address; names for one address come in the kernel's own order.  Their
    addresses are those of a boot without KASLR.  `config` is None where it is not known
    (image: without one), `build_id` where the image has no GNU build id of its own or more
    than one that might be.  `origin` says where the image came from, for provenance: a
    package's name, version and SHA-256, a file's path.
    """

    spec: str
    arch: str
    image: Path
    image_sha256: str
    symbols: tuple[Symbol, ...]
    symbols_from: str
    release: str
    banner: str
    compiler: str
    config: Path | None
    config_sha256: str | None
    build_id: str | None
    origin: dict[str, str] = field(default_factory=dict)
