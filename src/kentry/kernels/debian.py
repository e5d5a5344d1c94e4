# SPDX-License-Identifier: GPL-2.0-or-later
"""debian:VERSION: the distribution's own kernel packages, of any architecture."""

from __future__ import annotations

import re
import textwrap
from dataclasses import dataclass
from pathlib import Path

from kentry.arch import Arch
from kentry.errors import FetchError, KentryError, UserError
from kentry.host.apt import AptRoot, Candidate, first_problem, lists_error
from kentry.host.cache import cache_dir, write_atomically
from kentry.host.mirror import RELEASES
from kentry.kernels import deb, image
from kentry.kernels.kernel import Kernel
from kentry.kernels.spec import NEWEST, OLDEST, Spec
from kentry.progress import Update

# The version in a package's name: 6.1.0-47, 6.12.95+deb12, 6.10.11+bpo, 6.1.0-0.deb11.5.
# What follows is the flavour, never of this form: cloud-arm64, rt-arm64, arm64-16k.
# Two numbers only, as in linux-image-6.12-arm64, are a meta-package.
_ABI = r"(?P<abi>\d+\.\d+\.\d+(?:[-+~.](?:\d|deb|bpo|rc)[\w.]*)*)"


@dataclass(frozen=True)
class _Found:
    """The packages of one kernel, the one with the image first, and the root that has them."""

    root: AptRoot
    parts: tuple[Candidate, ...]


def resolve(spec: Spec, arch: Arch, update: Update) -> Kernel:
    """debian:VERSION[,flavour=F], VERSION being all of a package's version or its start.

    The oldest release that has the version is taken, and its newest such package; for
    "oldest" and "newest", the end of what all releases have.  A whole version that the cache
    has needs no network.  Raises UserError where there is no such
    version, FetchError where it cannot be had.
    """
    wanted = name_pattern(arch, spec.options.get("flavour"))
    digest = _indexed(spec.value, wanted, arch)
    stored = deb.find_stored(digest, update) if digest else None
    note = ""
    if not stored:
        stored, note = _from_archive(spec, arch, wanted, update)
    origin = {
        key: str(stored.manifest[key]) for key in ("package", "version", "suite", "deb_sha256")
    }
    origin["kind"] = "debian"
    if note:
        origin["note"] = note
    return image.load(stored.source(spec.text, origin), arch, update)


def name_pattern(arch: Arch, flavour: str | None) -> str:
    """Matches the names of the image packages of one flavour, as a user or Debian says it."""
    if flavour is None or flavour == arch.flavour:
        flavours = [arch.flavour]
    else:
        flavours = [flavour, f"{flavour}-{arch.flavour}", f"{arch.flavour}-{flavour}"]
    any_of_them = "|".join(re.escape(name) for name in flavours)
    return f"linux-(?P<part>image|binary|base)-{_ABI}-(?:{any_of_them})"


def _matches(prefix: str, package: str, version: str, pattern: str) -> bool:
    """Whether the package's version, or that in its name, is `prefix` or begins with it.

    Every version is one of OLDEST and NEWEST's.
    A version begins with another only where a part of it ends: 6.1 does not begin 6.12.
    """
    name = re.fullmatch(pattern, package)
    if not name or name["part"] != "image":
        return False
    if prefix in (OLDEST, NEWEST):
        return True
    start = re.compile(re.escape(prefix) + r"(?![A-Za-z0-9])")
    plain = version.rpartition(":")[2]
    return any(start.match(whole) for whole in (plain, name["abi"]))


def select(candidates: list[Candidate], prefix: str, pattern: str) -> Candidate | None:
    """The newest of `candidates` whose name `pattern` matches and whose version fits.

    The oldest where `prefix` is OLDEST.
    """
    from debian.debian_support import Version

    fitting = [
        candidate
        for candidate in candidates
        if _matches(prefix, candidate.package, candidate.version, pattern)
    ]
    choose = min if prefix == OLDEST else max
    return choose(
        fitting,
        key=lambda candidate: (Version(candidate.version), Version(candidate.package)),
        default=None,
    )


def kernel_parts(candidates: list[Candidate], chosen: Candidate) -> tuple[Candidate, ...]:
    """The packages that the kernel of `chosen`, a linux-image package, is in.

    Since Debian's 6.19 linux-image is empty: linux-binary has the image, linux-base the
    config.
    """
    same = {one.package: one for one in candidates if one.version == chosen.version}
    rest = chosen.package.removeprefix("linux-image-")
    names = [f"linux-{part}-{rest}" for part in ("binary", "base")]
    if names[0] not in same:
        return (chosen,)
    return tuple(same[name] for name in names if name in same)


def _from_archive(spec: Spec, arch: Arch, pattern: str, update: Update) -> tuple[deb.Stored, str]:
    """The package unpacked, and a note where a suite that failed might have changed which.

    A suite that the mirror does not have is one that failed: apt does not tell them apart.
    """
    roots = [AptRoot(arch.debian, release) for release in RELEASES]
    found = _search(roots, spec.value, pattern, update)
    # sum and not any, which would stop at the first that was refreshed.
    if not found and sum(root.refresh(update) for root in roots):
        found = _search(roots, spec.value, pattern, update)
    if not found:
        raise _not_found(roots, spec, arch, pattern, update)
    with found.root.locked(update):
        stored = deb.find_stored(found.parts[0].sha256, update)
        if not stored:
            stored = _fetch(found, spec, arch, pattern, update)
    _index(stored.manifest["package"], stored.manifest["version"], arch, stored.folder.name)
    exact = stored.manifest["version"] == spec.value
    return stored, "" if exact else _missing_suites(roots[: roots.index(found.root) + 1])


def _missing_suites(roots: list[AptRoot]) -> str:
    """apt's words on a suite that might have had a newer version, or had it first."""
    failed = [first_problem(root.problems) for root in roots if root.problems]
    return failed[0] if failed else ""


def _search(roots: list[AptRoot], prefix: str, pattern: str, update: Update) -> _Found | None:
    found: list[_Found] = []
    for root in roots:
        candidates = root.candidates(pattern, update)
        chosen = select(candidates, prefix, pattern)
        if chosen:
            found.append(_Found(root, kernel_parts(candidates, chosen)))
        if found and prefix not in (OLDEST, NEWEST):
            break
    # Releases are in order, so the ends of all are the ends of the first and the last.
    return found[-1 if prefix == NEWEST else 0] if found else None


def _fetch(found: _Found, spec: Spec, arch: Arch, pattern: str, update: Update) -> deb.Stored:
    """Downloads and unpacks; the lists may be older than the mirror, so tries twice."""
    try:
        return _download(found, arch, update)
    except FetchError:
        if not found.root.refresh(update):
            raise
        again = _search([found.root], spec.value, pattern, update)
        if not again:
            raise
        return _download(again, arch, update)


def _download(found: _Found, arch: Arch, update: Update) -> deb.Stored:
    main = found.parts[0]
    paths: list[Path] = []
    try:
        for part in found.parts:
            paths.append(found.root.download(part, update))
        package = deb.identify(paths[0])
        deb.check_arch(package, paths[0], arch)
        more = {"suite": main.suite, "release": found.root.release.name}
        return deb.store(paths, main.sha256, package, more, update)
    finally:
        # 60 to 110 MB, of which the kernel is a third.
        for path in paths:
            path.unlink(missing_ok=True)


def _not_found(
    roots: list[AptRoot], spec: Spec, arch: Arch, pattern: str, update: Update
) -> KentryError:
    """The error that lists what there is; FetchError where the lists could not be had."""
    problems = [line for root in roots for line in root.problems]
    any_flavour = f"linux-image-{_ABI}-(?P<flavour>.*)"
    found = [candidate for root in roots for candidate in root.candidates(any_flavour, update)]
    if not found and problems:
        return lists_error(problems)
    named = [candidate for candidate in found if re.fullmatch(pattern, candidate.package)]
    if found and not named:
        return UserError(
            f"Debian has no kernels of flavour '{spec.options.get('flavour')}' for {arch.debian}.",
            f"Flavours that exist: {', '.join(_flavours(found, any_flavour))}.",
            "\n".join(problems),
        )
    versions = _versions(named)
    return UserError(
        f"Debian has no kernel {spec.value} for {arch.debian}.",
        f"Versions that exist: {', '.join(_newest_of_each_series(versions)) or 'none'}.",
        "\n".join([textwrap.fill(f"All versions: {' '.join(versions)}", 75), *problems]),
    )


def _versions(candidates: list[Candidate]) -> list[str]:
    from debian.debian_support import Version

    return sorted({candidate.version for candidate in candidates}, key=Version)


def _newest_of_each_series(versions: list[str]) -> list[str]:
    """Of 60 sorted versions a few: the last 6.1, the last 6.12."""
    series = {".".join(version.split(".")[:2]): version for version in versions}
    return list(series.values())


def _flavours(candidates: list[Candidate], pattern: str) -> list[str]:
    names = (re.fullmatch(pattern, candidate.package) for candidate in candidates)
    found = {name["flavour"].removesuffix("-unsigned") for name in names if name}
    return sorted(name for name in found if not name.endswith("-dbg"))


def _index_folder() -> Path:
    return cache_dir("kernels", "index")


def _index(package: str, version: str, arch: Arch, digest: str) -> None:
    """Remembers which .deb a whole version is; the file's name is the package's."""
    write_atomically(_index_folder() / f"{package}_{version}_{arch.debian}", digest + "\n")


def _indexed(version: str, pattern: str, arch: Arch) -> str | None:
    """The SHA-256 of the .deb whose whole version is `version`, if it was fetched before."""
    for path in sorted(_index_folder().iterdir()):
        name, _, rest = path.name.partition("_")
        if rest == f"{version}_{arch.debian}" and re.fullmatch(pattern, name):
            return path.read_text(encoding="utf-8").strip()
    return None
