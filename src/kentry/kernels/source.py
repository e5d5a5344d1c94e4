# SPDX-License-Identifier: GPL-2.0-or-later
"""source:6.12: Debian's linux-source package, fetched and unpacked once."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from pathlib import Path

from kentry.arch import host_arch
from kentry.errors import FetchError, KentryError, UserError
from kentry.host.apt import AptRoot, Candidate, first_problem
from kentry.host.cache import fresh_folder, write_atomically
from kentry.host.mirror import RELEASES
from kentry.host.process import need, run
from kentry.kernels.repository import Repository, Revision
from kentry.kernels.spec import Spec
from kentry.kernels.tree import take_files
from kentry.progress import Update

# linux-source-6.12, and since 7.0 of backports linux-source-7.3 likewise.
_PACKAGE = r"linux-source-(?P<series>\d+\.\d+)"
_MANIFEST = "source.json"


def revision(spec: Spec, update: Update) -> Revision:
    """The source of the newest package whose version is, or begins with, the spec's.

    UserError lists what there is; FetchError says why it could not be had.
    """
    root, candidate = _find(spec.value, update)
    repository = Repository(f"package {candidate.sha256}")
    with repository.locked(update):
        known = _stored(repository) or _fetch(repository, root, candidate, update)
    origin = {
        "kind": "source",
        "package": candidate.package,
        "version": candidate.version,
        "deb_sha256": candidate.sha256,
    }
    return Revision(repository, known["commit"], known["tree"], origin)


def _find(wanted: str, update: Update) -> tuple[AptRoot, Candidate]:
    from debian.debian_support import Version

    roots = [AptRoot(host_arch().debian, release) for release in RELEASES]
    everything: list[Candidate] = []
    for root in roots:
        found = root.candidates(_PACKAGE, update)
        everything += found
        fitting = [one for one in found if _fits(one, wanted)]
        if fitting:
            return root, max(fitting, key=lambda one: Version(one.version))
    raise _not_found(wanted, everything, [line for root in roots for line in root.problems])


def _fits(candidate: Candidate, wanted: str) -> bool:
    series = re.fullmatch(_PACKAGE, candidate.package)
    version = candidate.version.rpartition(":")[2]
    start = re.match(re.escape(wanted) + r"(?![A-Za-z0-9])", version)
    return bool(series and (series["series"] == wanted or start))


def _not_found(wanted: str, found: list[Candidate], problems: list[str]) -> KentryError:
    if not found and problems:
        return FetchError(
            f"The package lists could not be fetched: {first_problem(problems)}",
            "Try again, or name another mirror in KENTRY_MIRROR.",
            "\n".join(problems),
        )
    names = sorted({one.package.removeprefix("linux-source-") for one in found})
    return UserError(
        f"Debian has no kernel source {wanted}.",
        f"Versions that exist: {', '.join(names) or 'none'}; for others use tree:DIR@REV.",
    )


def _stored(repository: Repository) -> dict[str, str] | None:
    try:
        known = json.loads((repository.folder / _MANIFEST).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None
    return known if isinstance(known, dict) else None


def _fetch(
    repository: Repository, root: AptRoot, candidate: Candidate, update: Update
) -> dict[str, str]:
    """Downloads, unpacks and reads the source into git: minutes, once, 2.5 GB."""
    with root.locked(update):
        deb = root.download(candidate, update)
        try:
            update(None, f"unpacking {candidate.package}")
            with fresh_folder(repository.work) as folder:
                _unpack(deb, candidate, folder)
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
    known = {"commit": commit, "tree": tree}
    write_atomically(repository.folder / _MANIFEST, json.dumps(known) + "\n")
    return known


def _unpack(deb: Path, candidate: Candidate, folder: Path) -> None:
    """Unpacks the tarball that is in the package."""
    inside = folder / ".package"
    run([need("dpkg-deb", "dpkg"), "--extract", str(deb), str(inside)])
    tarball = inside / "usr/src" / f"{candidate.package}.tar.xz"
    words = ["--strip-components=1", "--no-same-owner", "-xJf", str(tarball)]
    run([need("tar", "tar"), "-C", str(folder), *words])
    shutil.rmtree(inside)
