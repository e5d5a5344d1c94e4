# SPDX-License-Identifier: GPL-2.0-or-later
"""Takes the kernel out of a .deb and keeps it in the cache under the .deb's SHA-256."""

import hashlib
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
from kentry.host.cache import (
    cache_dir,
    fresh_folder,
    held,
    read_bytes,
    read_manifest,
    sha256_of,
    write_checked,
)
from kentry.host.process import need, run
from kentry.kernels import image
from kentry.kernels.kernel import Kernel
from kentry.kernels.spec import Spec
from kentry.progress import Update

log = logging.getLogger("kentry")

# Where a package keeps its kernel: in /boot, or since Debian's 6.19 beside its modules.  The
# names are plain; nothing else is taken out of a package.
_KERNEL_FILE = re.compile(
    r"(?:\./)?(?:boot/|(?:usr/)?lib/modules/[^/]+/)"
    r"((vmlinu[xz]|config)(?:-[\w.+~-]+)?)",
    re.ASCII,
)
_ROLES = {"vmlinuz": "image", "vmlinux": "image", "config": "config"}


@dataclass(frozen=True)
class Stored:
    """An unpacked kernel package in the cache; `manifest` is what its manifest.json says."""

    folder: Path
    manifest: dict[str, Any]

    def source(self, spec: str, origin: dict[str, str]) -> image.Source:
        """Return the kernel as image.load() takes it."""
        config = self.manifest.get("config")
        return image.Source(
            spec,
            image=self.folder / self.manifest["image"],
            image_sha256=self.manifest["sha256"][self.manifest["image"]],
            config=self.folder / config if config else None,
            origin=origin,
        )


def resolve(spec: Spec, arch: Arch, update: Update) -> Kernel:
    """Load the kernel of deb:FILE; UserError where that is no kernel package for `arch`."""
    from filelock import FileLock

    path = spec.path()
    digest = hashlib.sha256(read_bytes(path)).hexdigest()
    facts = identify(path)
    if facts["arch"] != arch.debian:
        raise UserError(
            f"{path} is a package for {facts['arch']}, not for {arch.debian}.",
            "Choose that architecture with --arch, or name another package.",
        )
    # Two kentry runs that unpack the same package at once would take it from each other.
    with held(FileLock(cache_dir("locks") / "kernels"), update, "another kentry that unpacks"):
        stored = find_stored(digest, update) or store([path], digest, facts, update)
    origin = {
        "kind": "deb",
        "file": str(path.absolute()),
        "package": facts["package"],
        "version": facts["version"],
        "deb_sha256": digest,
    }
    return image.load(stored.source(spec.text, origin), arch, update)


def identify(path: Path) -> dict[str, str]:
    """Read the package, version and arch of a .deb; UserError where it is none."""
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
    return {"package": name, "version": version, "arch": debian_arch}


def find_stored(digest: str, update: Update) -> Stored | None:
    """Look in the cache for the kernel of the .deb with SHA-256 `digest`, undamaged."""
    folder = cache_dir("kernels") / digest
    manifest = read_manifest(folder)
    if manifest and manifest.get("image") in manifest["sha256"]:
        return Stored(folder, manifest)
    if folder.is_dir():
        sentence = f"The kernel in {folder} is damaged; it is unpacked again."
        log.warning(sentence)
        update(None, sentence)
    return None


def store(paths: Sequence[Path], digest: str, facts: dict[str, str], update: Update) -> Stored:
    """Unpack the kernel in `paths`, its .debs, into the cache under the first one's SHA-256.

    `facts` go into its manifest.  UserError where there is no kernel in them.  Names are taken
    only if they are plain, and files are made by us: no path, link or mode in a package has any
    effect.
    """
    update(None, f"unpacking {facts['package']}")
    final = cache_dir("kernels") / digest
    with fresh_folder(final) as folder:
        roles: dict[str, str] = {}
        for path in paths:
            with file_tree(path, "Download it again.") as tar:
                for member in tar:
                    name = _KERNEL_FILE.fullmatch(member.name)
                    if not name and {"image", "config"} <= roles.keys():
                        # Members of one folder come together, and 100 MB of modules follow.
                        break
                    source = tar.extractfile(member) if name and member.isreg() else None
                    if not name or source is None:
                        continue
                    with (folder / name[1]).open("wb") as out:
                        shutil.copyfileobj(source, out)
                    roles[_ROLES[name[2]]] = name[1]
        if "image" not in roles:
            raise UserError(
                f"{paths[0]} is not a kernel package: there is no vmlinuz in it.",
                "Give a linux-image-VERSION-FLAVOUR package (linux-binary-VERSION-FLAVOUR since"
                " Debian's 6.19), not -dbg or a meta-package.",
            )
        hashes = {name: sha256_of(folder / name) for name in sorted(roles.values())}
        manifest = {**facts, "deb_sha256": digest, **roles, "sha256": hashes}
        write_checked(folder / "manifest.json", manifest)
    return Stored(final, manifest)
