# SPDX-License-Identifier: GPL-2.0-or-later
"""A recording's "kernel": what was measured, so that another can be told from it."""

from __future__ import annotations

from typing import Any

from kentry.kernels.kernel import Kernel

# What apt said when it could not see all of the archive; a caveat, not part of an origin.
NOTE = "note"


def kernel_to_json(kernel: Kernel, release: str | None, notes: bytes) -> dict[str, Any]:
    """The kernel of this image, with what it said of itself when it ran: uname -r, ELF notes."""
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
    """The options built in, CONFIG_ left off; None where the config is not known.

    Modules are left out: none is loaded in the guest, and they are two thirds of a
    distribution's config.
    """
    if kernel.config is None:
        return None
    options = {}
    for line in kernel.config.read_text(encoding="utf-8", errors="replace").splitlines():
        name, found, value = line.partition("=")
        if found and name.startswith("CONFIG_") and value != "m":
            options[name.removeprefix("CONFIG_")] = value
    return options


def gnu_build_id(notes: bytes) -> str | None:
    """The GNU build ID among ELF notes, as hexadecimal; None where there is none.

    A note is three little-endian words (name's size, contents' size, type), the name and
    the contents, both padded to 4 bytes; the build ID's name is "GNU", its type is 3.
    """
    at = 0
    while at + 12 <= len(notes):
        name_size, size, kind = (
            int.from_bytes(notes[at + i : at + i + 4], "little") for i in (0, 4, 8)
        )
        name_at = at + 12
        data_at = name_at + (name_size + 3 & ~3)
        if notes[name_at : name_at + name_size] == b"GNU\0" and kind == 3:
            found = notes[data_at : data_at + size]
            return found.hex() if len(found) == size else None
        at = data_at + (size + 3 & ~3)
    return None
