# SPDX-License-Identifier: GPL-2.0-or-later
"""Debian's kernel source and configs, from its linux-source and linux-config packages."""

import json
import lzma
import re
import shutil
import subprocess

from kentry.arch import Arch, host_arch
from kentry.errors import FetchError, UserError
from kentry.host.apt import AptRoot, Candidate, lists_error
from kentry.host.cache import cache_dir, fresh_folder, read_json, write_atomically
from kentry.host.mirror import RELEASES
from kentry.host.process import need, run
from kentry.kernels.repository import Repository, Revision
from kentry.kernels.spec import Spec
from kentry.kernels.tree import take_files
from kentry.progress import Update

# linux-source-6.12, and since 7.0 of backports linux-source-7.3 likewise.
_SOURCE = r"linux-source-(?P<series>\d+\.\d+)"
_CONFIG = r"linux-config-(\d+)\.(\d+)"
_MANIFEST = "source.json"


def revision(spec: Spec, update: Update) -> Revision:
    """source:6.12: the source of the newest package whose version is, or begins with, the spec's.

    It is fetched and unpacked once: minutes, 2.5 GB.  UserError lists what there is; FetchError
    says why it could not be had.
    """
    from debian.debian_support import Version

    roots = [AptRoot(host_arch().debian, release) for release in RELEASES]
    start = re.compile(re.escape(spec.value) + r"(?![A-Za-z0-9])")
    names: set[str] = set()
    fitting: list[Candidate] = []
    for root in roots:
        candidates = root.candidates(_SOURCE, update)
        names |= {one.package.removeprefix("linux-source-") for one in candidates}
        fitting = [
            one
            for one in candidates
            if one.package == f"linux-source-{spec.value}"
            or start.match(one.version.rpartition(":")[2])
        ]
        if fitting:
            break
    else:
        problems = [line for root in roots for line in root.problems]
        if not names and problems:
            raise lists_error(problems)
        raise UserError(
            f"Debian has no kernel source {spec.value}.",
            f"Versions that exist: {', '.join(sorted(names)) or 'none'};"
            " for others use tree:DIR@REV.",
        )
    candidate = max(fitting, key=lambda one: Version(one.version))
    repository = Repository(f"package {candidate.sha256}")
    with repository.locked(update):
        ids = read_json(repository.folder / _MANIFEST)
        if not ids:
            ids = _fetch(repository, root, candidate, update)
    origin = {
        "kind": "source",
        "package": candidate.package,
        "version": candidate.version,
        "deb_sha256": candidate.sha256,
    }
    return Revision(repository, ids["commit"], ids["tree"], origin)


def _fetch(
    repository: Repository, root: AptRoot, candidate: Candidate, update: Update
) -> dict[str, str]:
    """Downloads, unpacks and reads the source into git."""
    with root.locked(update):
        deb = root.download(candidate, update)
        try:
            update(None, f"unpacking {candidate.package}")
            with fresh_folder(repository.work) as folder:
                inside = folder / ".package"
                run([need("dpkg-deb", "dpkg"), "--extract", str(deb), str(inside)])
                tarball = inside / "usr/src" / f"{candidate.package}.tar.xz"
                words = ["--strip-components=1", "--no-same-owner", "-xJf", str(tarball)]
                run([need("tar", "tar"), "-C", str(folder), *words])
                shutil.rmtree(inside)
        except subprocess.CalledProcessError as err:
            raise FetchError(
                f"{candidate.package} could not be unpacked: {err.stderr.strip()[-200:]}.",
                "Free some space (2.5 GB), or name another folder in KENTRY_CACHE.",
            ) from err
        finally:
            deb.unlink(missing_ok=True)
    git = repository.git
    shutil.rmtree(git.folder, ignore_errors=True)
    git.init()
    tree = take_files(repository, repository.work, update)
    # What was read is what is checked out.
    (git.folder / "import-index").replace(git.folder / "index")
    commit = git.commit_tree(tree, f"{candidate.package} {candidate.version}")
    git("update-ref", "HEAD", commit)
    ids = {"commit": commit, "tree": tree}
    write_atomically(repository.folder / _MANIFEST, json.dumps(ids) + "\n")
    return ids


def distro_config(version: tuple[int, int], arch: Arch, update: Update) -> str:
    """The .config of Debian's kernel of that version, or of the nearest; FetchError if none."""
    roots = [AptRoot(arch.debian, release) for release in RELEASES]
    packages = [(one, root) for root in roots for one in root.candidates(_CONFIG, update)]
    if not packages:
        problems = [line for root in roots for line in root.problems]
        raise lists_error(problems, "Try again, use --config tiny, or name a .config file.")

    def distance(pair: tuple[Candidate, AptRoot]) -> tuple[bool, int, int]:
        """The same version first, then the newest older, then the oldest newer one."""
        major, minor = pair[0].package.removeprefix("linux-config-").split(".")
        own = (int(major), int(minor))
        return (True, *own) if own > version else (False, -own[0], -own[1])

    candidate, root = min(packages, key=distance)
    folder = cache_dir("configs") / f"{candidate.sha256[:16]}-{arch.name}"
    if not (folder / "config").exists():
        with root.locked(update), fresh_folder(folder) as fresh:
            deb = root.download(candidate, update)
            run([need("dpkg-deb", "dpkg"), "--extract", str(deb), str(fresh / "package")])
            deb.unlink(missing_ok=True)
            name = f"config.{arch.debian}_none_{arch.debian}.xz"
            file = fresh / "package/usr/src" / candidate.package / name
            try:
                (fresh / "config").write_bytes(lzma.decompress(file.read_bytes()))
            except (OSError, lzma.LZMAError) as err:
                raise FetchError(
                    f"{candidate.package} has no {name}.",
                    "Use --config tiny, or name a .config file.",
                ) from err
    return (folder / "config").read_text(encoding="utf-8")
