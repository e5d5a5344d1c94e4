# SPDX-License-Identifier: GPL-2.0-or-later
"""An image file -> Kernel; the other kinds of spec end here too.

What is read out of an image is kept in the cache under the image's SHA-256: reading the
symbols of one takes seconds.
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, field
from pathlib import Path

from kentry.arch import Arch
from kentry.errors import KernelError, UserError
from kentry.host.cache import cache_dir, sha256_of, write_atomically
from kentry.kernels import payload, symtab
from kentry.kernels.kernel import Kernel, SymbolTable
from kentry.kernels.spec import Spec
from kentry.kernels.unpack import unpack
from kentry.progress import Update

# Raised whenever what is kept, or how it is found, changes: older entries are made anew.
_CACHE_VERSION = 1


@dataclass(frozen=True)
class Source:
    """An image and what came with it: the spec, files beside the image, where it is from.

    `image_sha256` is given where it has just been computed, `vmlinux_name` where the path
    is a place in the cache, which says nothing.
    """

    spec: str
    image: Path
    image_sha256: str | None = None
    config: Path | None = None
    vmlinux: Path | None = None
    vmlinux_name: str = ""
    system_map: Path | None = None
    origin: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class _Examined:
    """What one image says about itself; `boot` and `config` are file names in its cache."""

    version: int
    format: str
    arch: str
    banner: str
    build_id: str | None
    boot: str | None
    boot_sha256: str
    config: str | None


def resolve(spec: Spec, arch: Arch, update: Update) -> Kernel:
    """image:FILE[,symbols=VMLINUX][,config=FILE]; UserError, KernelError."""
    image = spec.path()
    source = Source(
        spec.text,
        image,
        config=spec.path("config") if "config" in spec.options else None,
        vmlinux=spec.path("symbols") if "symbols" in spec.options else None,
        origin={"kind": "image", "file": str(image.absolute())},
    )
    return load(source, arch, update)


def load(source: Source, arch: Arch, update: Update) -> Kernel:
    """Makes the Kernel of an image for `arch`.

    Raises UserError (no such file, not an image, another architecture, symbols of another
    build) and KernelError (no banner or no symbols in it).
    """
    digest = source.image_sha256 or _digest(source.image)
    folder = cache_dir("images", digest)
    examined = _examine(source.image, digest, folder, update)
    if examined.arch != arch.name:
        raise UserError(
            f"{source.image} is a kernel for {examined.arch}, not for {arch.name}.",
            f"Add --arch {examined.arch}, or name another image.",
        )
    image = folder / examined.boot if examined.boot else source.image
    table, symbols_from = _symbols(source, arch, examined, folder, update)
    config = source.config or (folder / examined.config if examined.config else None)
    return Kernel(
        spec=source.spec,
        arch=arch.name,
        image=image,
        image_sha256=examined.boot_sha256,
        symbols=table,
        symbols_from=symbols_from,
        release=payload.release(examined.banner),
        banner=examined.banner,
        compiler=payload.compiler(examined.banner),
        config=config,
        config_sha256=_digest(config) if config else None,
        build_id=examined.build_id,
        origin={**source.origin, "format": examined.format, "file_sha256": digest},
    )


def _digest(path: Path) -> str:
    try:
        return sha256_of(path)
    except OSError as err:
        raise UserError(
            f"{path} cannot be read: {err.strerror}.", "Name a file that can be."
        ) from err


def _examine(image: Path, digest: str, folder: Path, update: Update) -> _Examined:
    """What the image says about itself, from the cache if that is whole and of this version."""
    facts = folder / "facts.json"
    try:
        known = _Examined(**json.loads(facts.read_text(encoding="utf-8")))
        whole = not known.boot or sha256_of(folder / known.boot) == known.boot_sha256
        if known.version == _CACHE_VERSION and whole:
            return known
    except (OSError, ValueError, TypeError):
        pass
    update(None, f"unpacking {image.name}")
    data = symtab.read_file(image)
    unpacked = unpack(data, str(image))
    wrapped = unpacked.boot is not data
    config = payload.built_in_config(unpacked.payload)
    if wrapped:
        write_atomically(folder / "Image", unpacked.boot)
    if config:
        write_atomically(folder / "config", config)
    examined = _Examined(
        version=_CACHE_VERSION,
        format=unpacked.format,
        arch=unpacked.arch.name,
        banner=payload.banner(unpacked.payload, str(image)),
        build_id=payload.build_id(unpacked.payload),
        boot="Image" if wrapped else None,
        boot_sha256=sha256_of(folder / "Image") if wrapped else digest,
        config="config" if config else None,
    )
    write_atomically(facts, json.dumps(asdict(examined), indent=1) + "\n")
    return examined


def _symbols(
    source: Source, arch: Arch, examined: _Examined, folder: Path, update: Update
) -> tuple[SymbolTable, str]:
    """The symbols, and a word on where they are from."""
    if source.vmlinux:
        update(None, f"reading the symbols of {source.vmlinux.name}")
        found = symtab.of_vmlinux(source.vmlinux, arch, examined.banner, examined.build_id)
        return found, f"vmlinux {source.vmlinux_name or source.vmlinux}"
    table = folder / f"symbols-{_CACHE_VERSION}"
    checksum = table.with_suffix(".sha256")
    try:
        # A table that is not what was written there is read from the image again.
        if checksum.read_text(encoding="utf-8") == sha256_of(table):
            return symtab.read_table(table), "kallsyms"
    except (OSError, ValueError, IndexError):
        pass
    try:
        symtab.of_image(source.image, table, update)
    except KernelError:
        if not source.system_map:
            raise
        return symtab.read_kallsyms(source.system_map), "System.map"
    write_atomically(checksum, sha256_of(table))
    return symtab.read_table(table), "kallsyms"
