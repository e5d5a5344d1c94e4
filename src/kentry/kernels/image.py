# SPDX-License-Identifier: GPL-2.0-or-later
"""An image file, or the one this machine was booted from -> Kernel.

The other kinds of spec end here too.  What is read out of an image is kept in the cache under its
SHA-256: reading the symbols of one takes seconds.
"""

import contextlib
import gzip
import hashlib
import os
import platform
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from kentry.arch import Arch, host_arch
from kentry.errors import UserError
from kentry.host.cache import (
    cache_dir,
    read_bytes,
    read_checked,
    sha256_of,
    write_atomically,
    write_checked,
)
from kentry.host.native import floor_files
from kentry.kernels import payload, symtab
from kentry.kernels.kernel import Kernel, SymbolTable
from kentry.kernels.source_lines import debug_info_of
from kentry.kernels.spec import Spec
from kentry.progress import Update
from kentry.results.recording import FLOOR

# Raised whenever what is kept, or how it is found, changes: older entries are made anew.
_CACHE_VERSION = 1


# {} is what uname -r says.  Debian, Fedora, Arch; vmlinux-* on architectures without zImage.
_IMAGES = (
    "boot/vmlinuz-{}",
    "boot/vmlinux-{}",
    "usr/lib/modules/{}/vmlinuz",
    "lib/modules/{}/vmlinuz",
)
_CONFIGS = ("boot/config-{}", "usr/lib/modules/{}/config", "lib/modules/{}/config")
_FLOORS = {
    "": "the least that hardware and ABI allow",
    "linux": "the least with what Linux promises besides",
}


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
    origin: dict[str, str] = field(default_factory=dict)


def resolve(spec: Spec, arch: Arch, update: Update) -> Kernel:
    """Load image:FILE[,symbols=VMLINUX][,config=FILE]; UserError, KernelError."""
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
    """Make the Kernel of an image for `arch`.

    Raises UserError (no such file, not an image, another architecture, symbols of another
    build) and KernelError (no banner or no symbols in it).
    """
    folder, facts = _examine(source.image, source.image_sha256, update)
    if facts["arch"] != arch.name:
        raise UserError(
            f"{source.image} is a kernel for {facts['arch']}, not for {arch.name}.",
            f"Add --arch {facts['arch']}, or name another image.",
        )
    image = folder / facts["boot"] if facts["boot"] else source.image
    table, symbols_from = _symbols(source, arch, facts, folder, update)
    config = source.config or (folder / facts["config"] if facts["config"] else None)
    return Kernel(
        spec=source.spec,
        arch=arch.name,
        image=image,
        image_sha256=facts["boot_sha256"],
        symbols=table,
        symbols_from=symbols_from,
        release=facts["banner"].split()[2],
        banner=facts["banner"],
        compiler=payload.compiler(facts["banner"]),
        config=config,
        config_sha256=hashlib.sha256(read_bytes(config)).hexdigest() if config else None,
        build_id=facts["build_id"],
        origin={**source.origin, "format": facts["format"], "file_sha256": facts["image_sha256"]},
        debug_info=debug_info_of(source.vmlinux or source.image),
    )


def arch_of(image: Path) -> str:
    """Read from an image the name of its architecture; UserError where it is no image."""
    return str(_examine(image, None, lambda fraction, now: None)[1]["arch"])


def _examine(image: Path, digest: str | None, update: Update) -> tuple[Path, dict[str, Any]]:
    """Read what the image says about itself, and keep it in a folder under its SHA-256.

    `boot` and `config` are files in that folder, or None.
    """
    digest = digest or hashlib.sha256(read_bytes(image)).hexdigest()
    folder = cache_dir("images", digest)
    facts = read_checked(folder / "facts.json")
    if facts.get("version") == _CACHE_VERSION and facts.get("image_sha256", digest) == digest:
        with contextlib.suppress(OSError):
            if not facts["boot"] or sha256_of(folder / facts["boot"]) == facts["boot_sha256"]:
                return folder, {**facts, "image_sha256": digest}
    update(None, f"unpacking {image.name}")
    data = read_bytes(image)
    unpacked = payload.unpack(data, str(image))
    wrapped = unpacked.boot is not data
    config = payload.built_in_config(unpacked.payload)
    if wrapped:
        write_atomically(folder / "Image", unpacked.boot)
    if config:
        write_atomically(folder / "config", config)
    facts = {
        "version": _CACHE_VERSION,
        "image_sha256": digest,
        "format": unpacked.format,
        "arch": unpacked.arch.name,
        "banner": payload.banner(unpacked.payload, str(image)),
        "build_id": payload.build_id(unpacked.payload),
        "boot": "Image" if wrapped else None,
        "boot_sha256": sha256_of(folder / "Image") if wrapped else digest,
        "config": "config" if config else None,
    }
    write_checked(folder / "facts.json", facts)
    return folder, facts


def _symbols(
    source: Source, arch: Arch, facts: dict[str, Any], folder: Path, update: Update
) -> tuple[SymbolTable, str]:
    """Read the symbols; return with them a word on where they are from."""
    if source.vmlinux:
        update(None, f"reading the symbols of {source.vmlinux.name}")
        symbols = symtab.of_vmlinux(source.vmlinux, arch, facts["banner"], facts["build_id"])
        return symbols, f"vmlinux {source.vmlinux_name or source.vmlinux}"
    table = folder / f"symbols-{_CACHE_VERSION}"
    checksum = table.with_suffix(".sha256")
    try:
        # A table that is not what was written there is read from the image again.
        if checksum.read_text(encoding="utf-8") == sha256_of(table):
            return symtab.read_table(table), "kallsyms"
    except (OSError, ValueError, IndexError):
        pass
    symtab.of_image(source.image, table, update)
    write_atomically(checksum, sha256_of(table))
    return symtab.read_table(table), "kallsyms"


def resolve_running(spec: Spec, arch: Arch, update: Update) -> Kernel:
    """Load the running kernel; UserError where its image does not exist or cannot be read."""
    return find_running(spec.text, arch, update, Path("/"), platform.release())


def find_running(spec: str, arch: Arch, update: Update, root: Path, release: str) -> Kernel:
    """Load the kernel called `release` below the folder `root`; check that it runs there."""
    if arch.name != host_arch().name:
        raise UserError(
            f"This machine runs a kernel for {host_arch().name}, not for {arch.name}.",
            f"Leave --arch out, or name another kernel, such as debian:6.12 --arch {arch.name}.",
        )
    path = _image(root, release)
    origin = {"kind": "running", "file": str(path)}
    places = (root / pattern.format(release) for pattern in _CONFIGS)
    config = next((place for place in places if os.access(place, os.R_OK)), None)
    if not config:
        with contextlib.suppress(OSError, EOFError):
            packed = gzip.decompress((root / "proc/config.gz").read_bytes())
            config = cache_dir("running") / f"config-{hashlib.sha256(packed).hexdigest()}"
            write_atomically(config, packed)
    source = Source(spec, path, config=config, origin=origin)
    kernel = load(source, arch, update)
    # An upgrade replaces the image under the same name.
    try:
        running = (root / "proc/version").read_text(encoding="utf-8").strip()
    except OSError:
        return kernel
    if running.split() != kernel.banner.split():
        raise UserError(
            f"{kernel.image} is not the kernel that is running: it was upgraded since the boot.",
            f"Boot it, or measure the file with image:{kernel.image}.",
            f"running: {running}\nfile:    {kernel.banner}",
        )
    return kernel


def _image(root: Path, release: str) -> Path:
    paths = [root / pattern.format(release) for pattern in _IMAGES]
    for path in paths:
        # Not is_file(): where /boot may not be looked into, that is False too.
        try:
            path.stat()
            if path.is_file() and os.access(path, os.R_OK):
                return path
        except PermissionError:
            pass
        except OSError:
            continue
        raise UserError(
            f"{path}, the image of the running kernel, cannot be read: Permission denied.",
            "Copy it as root to where you may read it, and use image:FILE.",
        )
    raise UserError(
        f"The image of the running kernel, {paths[0]}, does not exist.",
        "Name a copy of it with image:FILE.  Inside a container, the host has it.",
    )


def resolve_floor(spec: Spec, arch: Arch) -> Kernel:
    """floor: or floor:linux, kentry's own kernel of guest/floor/; MissingToolError if not built."""
    image, program = floor_files(arch, spec.value)
    return Kernel(
        spec=spec.text,
        arch=arch.name,
        image=image,
        image_sha256=hashlib.sha256(read_bytes(image)).hexdigest(),
        symbols=symtab.of_program(program),
        symbols_from="symbol table",
        release="",
        banner="",
        compiler="",
        config=None,
        config_sha256=None,
        build_id=payload.elf_build_id(read_bytes(program)),
        origin={"kind": FLOOR, "what": _FLOORS[spec.value]},
        debug_info=debug_info_of(program),
    )
