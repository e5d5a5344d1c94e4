# SPDX-License-Identifier: GPL-2.0-or-later
"""This machine's own kernel, from the image it was booted from."""

from __future__ import annotations

import gzip
import hashlib
import os
import platform
from pathlib import Path

from kentry.arch import Arch, host_arch
from kentry.errors import UserError
from kentry.host.cache import cache_dir, write_atomically
from kentry.kernels import image
from kentry.kernels.kernel import Kernel
from kentry.kernels.spec import Spec
from kentry.progress import Update

# {} is what uname -r says.  Debian, Fedora, Arch; vmlinux-* on architectures without zImage.
_IMAGES = (
    "boot/vmlinuz-{}",
    "boot/vmlinux-{}",
    "usr/lib/modules/{}/vmlinuz",
    "lib/modules/{}/vmlinuz",
)
_CONFIGS = ("boot/config-{}", "usr/lib/modules/{}/config", "lib/modules/{}/config")


def resolve(spec: Spec, arch: Arch, update: Update) -> Kernel:
    """running; UserError where this machine's image is not there or cannot be read."""
    return find(spec.text, arch, update, Path("/"), platform.release())


def find(spec: str, arch: Arch, update: Update, root: Path, release: str) -> Kernel:
    """The kernel called `release` below the folder `root`, checked to be what runs there."""
    if arch.name != host_arch().name:
        raise UserError(
            f"This machine runs a kernel for {host_arch().name}, not for {arch.name}.",
            f"Leave --arch out, or name another kernel, such as debian:6.12 --arch {arch.name}.",
        )
    path = _image(root, release)
    origin = {"kind": "running", "file": str(path)}
    source = image.Source(spec, path, config=_config(root, release), origin=origin)
    kernel = image.load(source, arch, update)
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
        f"The image of the running kernel, {paths[0]}, is not there (in a container it is"
        " the host that has it).",
        f"Name the image with image:FILE, or run: apt-get install linux-image-{release}.",
    )


def _config(root: Path, release: str) -> Path | None:
    for pattern in _CONFIGS:
        path = root / pattern.format(release)
        if os.access(path, os.R_OK):
            return path
    try:
        packed = gzip.decompress((root / "proc/config.gz").read_bytes())
    except (OSError, EOFError):
        return None
    kept = cache_dir("running") / f"config-{hashlib.sha256(packed).hexdigest()}"
    write_atomically(kept, packed)
    return kept
