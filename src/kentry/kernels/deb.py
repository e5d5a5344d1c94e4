# SPDX-License-Identifier: GPL-2.0-or-later
"""Kernel packages: takes the kernel out of a .deb, keeps it under the .deb's SHA-256."""

from __future__ import annotations

import json
import logging
import re
import shutil
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from kentry.arch import Arch
from kentry.errors import UserError
from kentry.host.apt import file_tree
from kentry.host.cache import cache_dir, fresh_folder, sha256_of, write_atomically
from kentry.host.process import need, run
from kentry.kernels import image
from kentry.kernels.kernel import Kernel
from kentry.kernels.spec import Spec
from kentry.progress import Update

log = logging.getLogger("kentry")

_MANIFEST = "manifest.json"
# Where a package keeps its kernel: in /boot, or since Debian's 6.19 beside its modules.  The
# names are plain; nothing else is taken out of a package.
_KERNEL_FILE = re.compile(
    r"(?:\./)?(?:boot/|(?:usr/)?lib/modules/[^/]+/)"
    r"((vmlinu[xz]|config|System\.map)(?:-[\w.+~-]+)?)",
    re.ASCII,
)
_ROLES = {"vmlinuz": "image", "vmlinux": "image", "config": "config", "System.map": "system_map"}
# Debian's kernels have this instead of a System.map.
_MAP_PLACEHOLDER = b"The real System.map"


@dataclass(frozen=True)
class Package:
    """What a .deb says it is: package, version, Debian's name of its architecture."""

    name: str
    version: str
    arch: str


@dataclass(frozen=True)
class Stored:
    """An unpacked kernel package in the cache; `manifest` is what its manifest.json says."""

    folder: Path
    manifest: dict[str, Any]

    def source(self, spec: str, origin: dict[str, str]) -> image.Source:
        """The kernel as image.load() takes it."""
        names = [self.manifest.get(role) for role in ("config", "system_map")]
        config, system_map = (self.folder / name if name else None for name in names)
        return image.Source(
            spec,
            image=self.folder / self.manifest["image"],
            image_sha256=self.manifest["sha256"][self.manifest["image"]],
            config=config,
            system_map=system_map,
            origin=origin,
        )


def resolve(spec: Spec, arch: Arch, update: Update) -> Kernel:
    """deb:FILE; UserError where it is not a kernel package for `arch`."""
    from filelock import FileLock

    path = spec.path()
    package = identify(path, arch)
    digest = sha256_of(path)
    # Two kentry runs that unpack the same package at once would take it from each other.
    with FileLock(cache_dir("locks") / "kernels"):
        stored = find_stored(digest, update) or store([path], digest, package, {}, update)
    origin = {
        "kind": "deb",
        "file": str(path.absolute()),
        "package": package.name,
        "version": package.version,
        "deb_sha256": digest,
    }
    return image.load(stored.source(spec.text, origin), arch, update)


def identify(path: Path, arch: Arch) -> Package:
    """Reads the control fields of a .deb; UserError where it is none, or not one for `arch`."""
    # Opened first: dpkg-deb's own words on a missing file do not help a user.
    try:
        with path.open("rb"):
            pass
    except OSError as err:
        raise UserError(
            f"{path} cannot be read: {err.strerror}.", "Name a kernel package that can be."
        ) from err
    argv = [need("dpkg-deb", "dpkg"), "--show", "--showformat"]
    argv += ["${Package}\\n${Version}\\n${Architecture}\\n", str(path)]
    try:
        name, version, debian_arch = run(argv).stdout.splitlines()
    except (subprocess.CalledProcessError, ValueError) as err:
        raise UserError(
            f"{path} is not a Debian package.",
            "Give a linux-image-VERSION-FLAVOUR package as deb:FILE.",
            str(getattr(err, "stderr", "")).strip(),
        ) from err
    if debian_arch != arch.debian:
        raise UserError(
            f"{path} is a package for {debian_arch}, not for {arch.debian}.",
            "Choose that architecture with --arch, or name another package.",
        )
    return Package(name, version, debian_arch)


def find_stored(digest: str, update: Update) -> Stored | None:
    """The kernel of the .deb with SHA-256 `digest`, if the cache has it and it is undamaged.

    Damage is said in one sentence; the caller unpacks the package again.
    """
    folder = cache_dir("kernels") / digest
    if not folder.is_dir():
        return None
    try:
        manifest = json.loads((folder / _MANIFEST).read_text(encoding="utf-8"))
        for name, expected in manifest["sha256"].items():
            if sha256_of(folder / name) != expected:
                raise ValueError(f"{name} has another SHA-256")
    except (OSError, ValueError, KeyError, AttributeError) as err:
        sentence = f"The kernel in {folder} is damaged ({err}); it is unpacked again."
        log.warning(sentence)
        update(None, sentence)
        return None
    return Stored(folder, manifest)


def store(
    paths: Sequence[Path], digest: str, package: Package, more: dict[str, str], update: Update
) -> Stored:
    """Unpacks the kernel in `paths`, its .debs, into the cache under the first one's SHA-256.

    `more` goes into its manifest.  UserError where there is no kernel in them.
    """
    update(None, f"unpacking {package.name}")
    final = cache_dir("kernels") / digest
    with fresh_folder(final) as folder:
        roles: dict[str, str] = {}
        for path in paths:
            roles = _extract_kernel(path, folder) | roles
        if "image" not in roles:
            raise UserError(
                f"{paths[0]} is not a kernel package: there is no vmlinuz in it.",
                "Give a linux-image-VERSION-FLAVOUR package (linux-binary-VERSION-FLAVOUR since"
                " Debian's 6.19), not -dbg or a meta-package.",
            )
        manifest = {
            "package": package.name,
            "version": package.version,
            "arch": package.arch,
            "deb_sha256": digest,
            **more,
            **roles,
            "sha256": {name: sha256_of(folder / name) for name in sorted(roles.values())},
        }
        write_atomically(folder / _MANIFEST, json.dumps(manifest, indent=1) + "\n")
    return Stored(final, manifest)


def _extract_kernel(path: Path, folder: Path) -> dict[str, str]:
    """Copies the kernel's files out of a package; role -> file name.

    Names are taken only if they are plain, and files are made by us: no path, link or
    mode in the package has any effect.
    """
    roles: dict[str, str] = {}
    with file_tree(path, "Download it again.") as tar:
        for member in tar:
            found = _KERNEL_FILE.fullmatch(member.name)
            if not found and {"image", "config"} <= roles.keys():
                # Members of one folder come together, and 100 MB of modules follow.
                break
            source = tar.extractfile(member) if found and member.isreg() else None
            if not found or source is None:
                continue
            file = folder / found[1]
            with file.open("wb") as out:
                shutil.copyfileobj(source, out)
            with file.open("rb") as copy:
                is_placeholder = _MAP_PLACEHOLDER in copy.read(200)
            if is_placeholder:
                file.unlink()
            else:
                roles[_ROLES[found[2]]] = found[1]
    return roles
