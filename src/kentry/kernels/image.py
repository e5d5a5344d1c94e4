# SPDX-License-Identifier: GPL-2.0-or-later
"""An image file, the booted one or a floor -> Kernel; what is read of it is cached by SHA-256."""

import contextlib
import gzip
import hashlib
import json
import os
import platform
from pathlib import Path
from typing import Any

from kentry.arch import Arch, host_arch
from kentry.errors import UserError
from kentry.host import cache
from kentry.host.native import floor_files
from kentry.kernels import payload, symtab
from kentry.kernels.config import MOST_BYTES as MOST_CONFIG_BYTES
from kentry.kernels.kernel import Kernel, SymbolTable
from kentry.kernels.spec import Spec
from kentry.progress import Update
from kentry.results.recording import FLOOR

# Raised whenever what is kept, or how it is found, changes: older entries are made anew.
_CACHE_VERSION = 2

# {} is what uname -r says.  Debian, Fedora, Arch; vmlinux-* on architectures without zImage.
_MODULES = ("usr/lib/modules/{}", "lib/modules/{}")
_IMAGES = ("boot/vmlinuz-{}", "boot/vmlinux-{}", *(f"{folder}/vmlinuz" for folder in _MODULES))
_CONFIGS = ("boot/config-{}", *(f"{folder}/config" for folder in _MODULES))

_FLOORS = {
    "": "the least that hardware and ABI allow",
    "linux": "the least with what Linux promises besides",
}


def resolve(spec: Spec, arch: Arch, update: Update) -> Kernel:
    """Load image:FILE[,symbols=VMLINUX][,config=FILE]; UserError, KernelError."""
    image = spec.path()
    config, vmlinux = (
        spec.path(name) if name in spec.options else None for name in ("config", "symbols")
    )
    origin = {"kind": "image", "file": str(image.absolute())}
    return load(spec.text, image, arch, update, origin, config=config, vmlinux=vmlinux)


def load(
    spec: str,
    image: Path,
    arch: Arch,
    update: Update,
    origin: dict[str, str],
    *,
    digest: str | None = None,
    config: Path | None = None,
    vmlinux: Path | None = None,
) -> Kernel:
    """Make the Kernel of an image, whose SHA-256 may be known; UserError, KernelError."""
    folder, facts = _examine(image, digest, update)
    if facts["arch"] != arch.name:
        raise UserError(
            f"{image} is a kernel for {facts['arch']}, not for {arch.name}.",
            f"Add --arch {facts['arch']}, or name another image.",
        )
    if vmlinux:
        update(None, f"reading the symbols of {vmlinux.name}")
        symbols = symtab.of_vmlinux(vmlinux, arch, facts["banner"], facts["build_id"])
        # A path in the cache says nothing.
        is_ours = vmlinux.is_relative_to(cache.cache_dir())
        symbols_from = f"vmlinux {'of the same build' if is_ours else vmlinux}"
    else:
        symbols_from = "kallsyms"
        symbols = _kallsyms(image, folder / f"symbols-{_CACHE_VERSION}", update)
    if not config and facts["config"]:
        config = folder / facts["config"]
    remedy = "Name a kernel's .config."
    text = cache.read_at_most(config, MOST_CONFIG_BYTES, remedy) if config else None
    return Kernel(
        spec=spec,
        arch=arch.name,
        image=folder / facts["boot"] if facts["boot"] else image,
        image_sha256=facts["sha256"].get("Image", facts["image_sha256"]),
        symbols=symbols,
        symbols_from=symbols_from,
        release=facts["banner"].split()[2],
        banner=facts["banner"],
        compiler=payload.compiler(facts["banner"]),
        config=config,
        config_sha256=None if text is None else hashlib.sha256(text).hexdigest(),
        build_id=facts["build_id"],
        origin={**origin, "format": facts["format"], "file_sha256": facts["image_sha256"]},
        debug_info=symtab.debug_info_of(vmlinux or image),
    )


def _kallsyms(image: Path, table: Path, update: Update) -> SymbolTable:
    """Return the image's own symbols, which the cache has as JSON: it loads in milliseconds."""
    checksum = table.with_suffix(".sha256")
    # A table that is not what was written there is read from the image again.
    with contextlib.suppress(OSError, ValueError):
        if cache.read_json(checksum).get("sha256") == cache.sha256_of(table):
            return SymbolTable(*json.loads(table.read_bytes()))
    symbols = symtab.of_image(image, update)
    cache.write_atomically(table, json.dumps([symbols.addresses, symbols.kinds, symbols.names]))
    cache.write_json(checksum, {"sha256": cache.sha256_of(table)})
    return symbols


def arch_of(image: Path) -> str:
    """Read from an image the name of its architecture; UserError where it is no image."""
    return str(_examine(image, None, lambda fraction, now: None)[1]["arch"])


def _examine(image: Path, digest: str | None, update: Update) -> tuple[Path, dict[str, Any]]:
    """Read what an image says, and keep it, with its files, in a folder under its SHA-256."""
    limits = (payload.MOST_IMAGE_BYTES, "Name the image of a kernel.")
    data = b"" if digest else cache.read_at_most(image, *limits)
    digest = digest or hashlib.sha256(data).hexdigest()
    folder = cache.cache_dir("images", digest)
    facts = cache.read_manifest(folder)
    if facts.get("version") == _CACHE_VERSION and facts["image_sha256"] == digest:
        return folder, facts
    update(None, f"unpacking {image.name}")
    data = data or cache.read_at_most(image, *limits)
    unpacked = payload.unpack(data, str(image))
    wrapped = unpacked.boot is not data
    config = payload.built_in_config(unpacked.payload)
    if wrapped:
        cache.write_atomically(folder / "Image", unpacked.boot)
    if config:
        cache.write_atomically(folder / "config", config)
    facts = {
        "version": _CACHE_VERSION,
        "image_sha256": digest,
        "format": unpacked.format,
        "arch": unpacked.arch.name,
        "banner": payload.banner(unpacked.payload, str(image)),
        "build_id": payload.build_id(unpacked.payload),
        "boot": "Image" if wrapped else None,
        "config": "config" if config else None,
    }
    written = filter(None, (facts["boot"], facts["config"]))
    return folder, cache.write_manifest(folder, written, facts)


def resolve_running(spec: Spec, arch: Arch, update: Update, root: Path = Path("/")) -> Kernel:
    """Load the running kernel of the machine below `root`; check that it runs there; UserError."""
    if arch.name != host_arch().name:
        raise UserError(
            f"This machine runs a kernel for {host_arch().name}, not for {arch.name}.",
            f"Leave --arch out, or name another kernel, such as debian:6.12 --arch {arch.name}.",
        )
    release = platform.release()
    image = _running_image(root, release)
    files = (root / pattern.format(release) for pattern in _CONFIGS)
    config = next((file for file in files if os.access(file, os.R_OK)), None)
    if not config:
        with contextlib.suppress(OSError, EOFError):
            packed = gzip.decompress((root / "proc/config.gz").read_bytes())
            config = cache.cache_dir("running") / f"config-{hashlib.sha256(packed).hexdigest()}"
            cache.write_atomically(config, packed)
    origin = {"kind": "running", "file": str(image)}
    kernel = load(spec.text, image, arch, update, origin, config=config)
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


def _running_image(root: Path, release: str) -> Path:
    paths = [root / pattern.format(release) for pattern in _IMAGES]
    for path in paths:
        try:
            with path.open("rb"):
                return path
        except PermissionError as err:
            raise UserError(
                f"{path}, the image of the running kernel, cannot be read: Permission denied.",
                "Copy it as root to where you may read it, and use image:FILE.",
            ) from err
        except OSError:
            continue
    raise UserError(
        f"The image of the running kernel, {paths[0]}, does not exist.",
        "Name a copy of it with image:FILE; in a container, copy it from the host.",
    )


def resolve_floor(spec: Spec, arch: Arch) -> Kernel:
    """floor: or floor:linux, kentry's own kernel of guest/floor/; MissingToolError if not built."""
    image, program = floor_files(arch, spec.value)
    return Kernel(
        spec=spec.text,
        arch=arch.name,
        image=image,
        image_sha256=cache.sha256_of(image),
        symbols=symtab.of_program(program),
        symbols_from="symbol table",
        build_id=payload.elf_build_id(cache.read_bytes(program)),
        origin={"kind": FLOOR, "what": _FLOORS[spec.value]},
        debug_info=symtab.debug_info_of(program),
    )
