# SPDX-License-Identifier: GPL-2.0-or-later
"""Kernel packages: deb:, rpm:, debian:, source and configs; kept in the cache by SHA-256."""

import hashlib
import lzma
import re
import shutil
import subprocess
import textwrap
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from kentry.arch import ARCHES, Arch, host_arch
from kentry.errors import FetchError, KentryError, UserError
from kentry.host import cache
from kentry.host.archive import RELEASES, Archive, Candidate, lists_error
from kentry.host.fetch import Meter, fetch
from kentry.host.mirror import find_mirror
from kentry.host.process import need, run
from kentry.host.unpack import files_of, identify
from kentry.kernels import image
from kentry.kernels.kernel import Kernel
from kentry.kernels.repository import Repository, Revision
from kentry.kernels.spec import NEWEST, OLDEST, Spec
from kentry.kernels.tree import take_files
from kentry.progress import Update

# A package's kernel, in /boot or since Debian's 6.19 beside its modules; only it is taken out.
_KERNEL_FILE = re.compile(
    r"(?:\./)?(?:boot/|(?:usr/)?lib/modules/[^/]+/)"
    r"((vmlinu[xz]|config)(?:-[\w.+~-]+)?)",
    re.ASCII,
)
_ROLES = {"vmlinuz": "image", "vmlinux": "image", "config": "config"}

# The version in a package's name: 6.1.0-47, 6.12.95+deb12, 6.10.11+bpo, 6.1.0-0.deb11.5.
# What follows is the flavour, never of this form: cloud-arm64, rt-arm64, arm64-16k.
# Two numbers only, as in linux-image-6.12-arm64, are a meta-package.
_ABI = r"(?P<abi>\d+\.\d+\.\d+(?:[-+~.](?:\d|deb|bpo|rc)[\w.]*)*)"

# linux-source-6.12, and since 7.0 of backports linux-source-7.3 likewise.
_SOURCE = r"linux-source-(?P<abi>\d+\.\d+)"
_CONFIG = r"linux-config-(\d+)\.(\d+)"
_MANIFEST = "source.json"

_REMEDY = "Give a linux-image-VERSION-FLAVOUR package, or what make bindeb-pkg or binrpm-pkg made."
_CHECK_URL = "Check the URL and sha256=, or name a proxy in http_proxy and https_proxy."
# The largest of Debian's with an image has 110 MB.
_MOST_PACKAGE_BYTES = 1 << 30
# Image, config, System.map, vmlinux, for each of three flavours.
_MOST_KERNEL_FILES = 12

# What the manifest.json of an unpacked kernel package says.
_Manifest = dict[str, Any]
# The packages of one kernel, the one with the image first, and the root that has them.
_Packages = tuple[Archive, tuple[Candidate, ...]]


def resolve_file(spec: Spec, arch: Arch, update: Update) -> Kernel:
    """Load the kernel of a deb: or rpm: spec; UserError where that is no package for `arch`."""
    path = package_file(spec, update)
    content = cache.read_at_most(path, _MOST_PACKAGE_BYTES, _REMEDY)
    digest = hashlib.sha256(content).hexdigest()
    if digest != spec.options.get("sha256", digest).lower():
        raise UserError(
            f"The SHA-256 of {path} is {digest}, not that of the spec.", "Correct sha256=."
        )
    facts = identify(path, _REMEDY)
    if facts["arch"] not in _names(arch):
        raise UserError(
            f"{path} is a package for {facts['arch']}, not for {arch.debian}.",
            "Choose that architecture with --arch, or name another package.",
        )
    # Two kentry runs that unpack the same package at once would take it from each other.
    with cache.held(cache.cache_dir("locks") / "kernels", update, "another kentry that unpacks"):
        stored = _find_stored(digest, update) or _store([path], digest, facts, update)
    package = {name: facts[name] for name in ("package", "version")}
    file = spec.value if "://" in spec.value else str(path.absolute())
    origin = {"kind": spec.kind, "file": file, **package, f"{spec.kind}_sha256": digest}
    return _load(spec.text, stored, arch, update, origin)


def package_file(spec: Spec, update: Update) -> Path:
    """Return the file of a deb: or rpm: spec, which is fetched if it is a URL; UserError."""
    digest = spec.options.get("sha256", "").lower()
    if digest and not re.fullmatch(r"[0-9a-f]{64}", digest):
        raise UserError(f"sha256={digest:.80} is no SHA-256.", "It has 64 hexadecimal digits.")
    if "://" not in spec.value:
        return spec.path()
    if not spec.value.startswith("https://") or not digest:
        raise UserError(
            f"'{spec.text}' is not a package that can be checked.",
            f"Write it like {spec.kind}:https://HOST/FILE.{spec.kind},sha256=...",
        )
    file = cache.cache_dir("downloads") / f"{digest}.{spec.kind}"
    with cache.held(file.with_suffix(".lock"), update, "another kentry that fetches it"):
        meter = Meter(update, spec.value.rpartition("/")[2], 0)
        try:
            fetch(spec.value, file, _MOST_PACKAGE_BYTES, digest, meter, find_mirror().proxies)
        except FetchError as err:
            # Another mirror would not help.
            raise type(err)(err.sentence, _CHECK_URL, err.detail) from err
    return file


def arch_of(spec: Spec, update: Update) -> Arch | None:
    """Read the architecture from the file of a deb: or rpm: spec; None for an unknown one."""
    named = identify(package_file(spec, update), _REMEDY)["arch"]
    return next((it for it in ARCHES.values() if named in _names(it)), None)


def _names(arch: Arch) -> tuple[str, ...]:
    """Return what an architecture is called in packages."""
    return (arch.name, arch.debian, *arch.aliases)


def _load(spec: str, kept: _Manifest, arch: Arch, update: Update, origin: dict[str, str]) -> Kernel:
    folder = cache.cache_dir("kernels") / kept["deb_sha256"]
    file, config = folder / kept["image"], kept.get("config")
    facts = {"digest": kept["sha256"][file.name], "config": folder / config if config else None}
    return image.load(spec, file, arch, update, origin, **facts)


def _find_stored(digest: str, update: Update) -> _Manifest:
    """Return the manifest of the kernel of the .deb with SHA-256 `digest`; {} if not whole."""
    folder = cache.cache_dir("kernels") / digest
    manifest = cache.read_manifest(folder)
    if manifest and manifest.get("image") in manifest["sha256"]:
        return {**manifest, "deb_sha256": digest}
    if folder.is_dir():
        update(None, f"The kernel in {folder} is damaged; it is unpacked again.")
    return {}


def _store(paths: Sequence[Path], digest: str, facts: dict[str, str], update: Update) -> _Manifest:
    """Unpack the kernel in `paths`, its .debs, under the first one's SHA-256; UserError."""
    # Only plain names are taken, and files are made by us: no path, link or mode has any effect.
    update(None, f"unpacking {facts['package']}")
    with cache.fresh_folder(cache.cache_dir("kernels") / digest) as folder:
        roles: dict[str, str] = {}
        for path in paths:
            for member, content in files_of(path, _KERNEL_FILE, "Download it again."):
                name = _KERNEL_FILE.fullmatch(member)
                assert name
                if sum(1 for _ in folder.iterdir()) == _MOST_KERNEL_FILES:
                    raise UserError(f"{path} has too many kernels.", "Name a package of one.")
                (folder / name[1]).write_bytes(content)
                roles[_ROLES[name[2]]] = name[1]
                if len(roles) == len(set(_ROLES.values())):
                    # 100 MB of modules follow.
                    break
        if "image" not in roles:
            raise UserError(
                f"{paths[0]} is not a kernel package: there is no vmlinuz in it.",
                "Give a linux-image-VERSION-FLAVOUR package (linux-binary-VERSION-FLAVOUR since"
                " Debian's 6.19), not -dbg or a meta-package.",
            )
        facts = {**facts, "deb_sha256": digest, **roles}
        return cache.write_manifest(folder, sorted(roles.values()), facts)


def resolve(spec: Spec, arch: Arch, update: Update) -> Kernel:
    """Load debian:VERSION[,flavour=F] of the oldest release that has it; UserError, FetchError."""
    # A whole version that the cache has needs no network.
    pattern = name_pattern(arch, spec.options.get("flavour"))
    stored: _Manifest = {}
    note = ""
    for file in sorted(cache.cache_dir("kernels").glob("*/manifest.json")):
        kept = cache.read_json(file)
        is_it = (kept.get("version"), kept.get("arch")) == (spec.value, arch.debian)
        # What deb: unpacked has no suite.
        if is_it and "suite" in kept and re.fullmatch(pattern, kept["package"]):
            stored = _find_stored(file.parent.name, update)
            break
    if not stored:
        stored, note = _from_archive(spec, arch, pattern, update)
    origin = {key: str(stored[key]) for key in ("package", "version", "suite", "deb_sha256")}
    origin |= {"kind": "debian", **({"note": note} if note else {})}
    return _load(spec.text, stored, arch, update, origin)


def name_pattern(arch: Arch, flavour: str | None) -> str:
    """Match the names of the image packages of one flavour, as a user or Debian writes it."""
    if flavour is None or flavour == arch.debian:
        flavours = [arch.debian]
    else:
        flavours = [flavour, f"{flavour}-{arch.debian}", f"{arch.debian}-{flavour}"]
    return f"linux-(?P<part>image|binary|base)-{_ABI}-(?:{'|'.join(map(re.escape, flavours))})"


def fitting(candidates: Sequence[Candidate], prefix: str, pattern: str) -> list[Candidate]:
    """Return those whose name `pattern` matches and whose version fits `prefix`, oldest first."""
    # `prefix` begins the version or that in the name; a part of it ends there: 6.1 is not 6.12.
    from debian.debian_support import Version

    start = re.compile(re.escape(prefix) + r"(?![A-Za-z0-9])")
    chosen = []
    for candidate in candidates:
        name = re.fullmatch(pattern, candidate.package)
        if name and name.groupdict().get("part", "image") == "image":
            plain = candidate.version.rpartition(":")[2]
            if prefix in (OLDEST, NEWEST) or start.match(plain) or start.match(name["abi"]):
                chosen.append(candidate)
    return sorted(chosen, key=lambda package: (Version(package.version), Version(package.package)))


def _roots(arch: Arch) -> list[Archive]:
    return [Archive(arch.debian, release) for release in RELEASES]


def _listed(roots: Sequence[Archive], pattern: str, update: Update) -> list[Candidate]:
    return [candidate for root in roots for candidate in root.candidates(pattern, update)]


def _problems(roots: Sequence[Archive]) -> list[str]:
    return [line for root in roots for line in root.problems]


def every_version(spec: Spec, arch: Arch, update: Update) -> list[str]:
    """List all versions of debian:VERSION or source:VERSION in the archive, oldest first."""
    # UserError where there is none.  All releases with a source have it for this machine.
    of_source = spec.kind == "source"
    pattern = _SOURCE if of_source else name_pattern(arch, spec.options.get("flavour"))
    roots = _roots(host_arch() if of_source else arch)
    packages = fitting(_listed(roots, pattern, update), spec.value, pattern)
    if not packages:
        raise _not_found(roots, spec, arch, update)
    more = "".join(f",{name}={value}" for name, value in spec.options.items())
    versions = dict.fromkeys(package.version for package in packages)
    return [f"{spec.kind}:{version}{more}" for version in versions]


def flavours(arch: Arch, update: Update, roots: Sequence[Archive] = ()) -> list[str]:
    """List the flavours that the archive's kernels for `arch` have."""
    pattern = f"linux-image-{_ABI}-(?P<flavour>.*)"
    listed = _listed(roots or _roots(arch), pattern, update)
    names = [re.fullmatch(pattern, own.package) for own in listed]
    known = {name["flavour"].removesuffix("-unsigned") for name in names if name}
    return sorted(name for name in known if not name.endswith("-dbg"))


def kernel_parts(candidates: list[Candidate], chosen: Candidate) -> tuple[Candidate, ...]:
    """Return the packages that the kernel of `chosen`, a linux-image package, is in."""
    # Since Debian's 6.19 linux-image is empty: linux-binary has the image, linux-base the config.
    same = {package.package: package for package in candidates if package.version == chosen.version}
    rest = chosen.package.removeprefix("linux-image-")
    names = [f"linux-{part}-{rest}" for part in ("binary", "base")]
    parts = tuple(same[name] for name in names if name in same)
    return parts if names[0] in same else (chosen,)


def _from_archive(spec: Spec, arch: Arch, pattern: str, update: Update) -> tuple[_Manifest, str]:
    """Return the package unpacked, and a note where a failed suite might have changed which."""
    # A suite that the mirror does not have is one that failed.
    roots = _roots(arch)
    packages = _search(roots, spec.value, pattern, update)
    # sum and not any, which would stop at the first that was refreshed.
    if not packages and sum(root.refresh(update) for root in roots):
        packages = _search(roots, spec.value, pattern, update)
    if not packages:
        raise _not_found(roots, spec, arch, update)
    root, parts = packages
    with root.locked(update):
        # What deb: unpacked has no suite.
        if stored := _find_stored(parts[0].sha256, update):
            stored = {"suite": parts[0].suite, **stored}
        else:
            # The lists may be older than the mirror, so there are two tries.
            try:
                stored = _download(packages, update)
            except FetchError:
                again = root.refresh(update) and _search([root], spec.value, pattern, update)
                if not again:
                    raise
                stored = _download(again, update)
    note = ""
    if stored["version"] != spec.value:
        # A suite that failed might have had a newer version, or had it first.
        failed = [tried.problems for tried in roots[: roots.index(root) + 1] if tried.problems]
        note = failed[0][0] if failed else ""
    return stored, note


def _search(roots: list[Archive], prefix: str, pattern: str, update: Update) -> _Packages | None:
    matches: list[_Packages] = []
    for root in roots:
        candidates = root.candidates(pattern, update)
        if chosen := fitting(candidates, prefix, pattern):
            newest_or_oldest = chosen[0 if prefix == OLDEST else -1]
            matches.append((root, kernel_parts(candidates, newest_or_oldest)))
            if prefix not in (OLDEST, NEWEST):
                break
    # Releases are in order, so the ends of all are the ends of the first and the last.
    return matches[-1 if prefix == NEWEST else 0] if matches else None


def _download(packages: _Packages, update: Update) -> _Manifest:
    root, parts = packages
    paths: list[Path] = []
    try:
        for part in parts:
            paths.append(root.download(part, update))
        facts = identify(paths[0], _REMEDY)
        facts |= {"suite": parts[0].suite, "release": root.release.name}
        return _store(paths, parts[0].sha256, facts, update)
    finally:
        # 60 to 110 MB, of which the kernel is a third.
        for path in paths:
            path.unlink(missing_ok=True)


def _not_found(roots: list[Archive], spec: Spec, arch: Arch, update: Update) -> KentryError:
    """Return the error that lists what there is; FetchError where the lists could not be had."""
    from debian.debian_support import Version

    if spec.kind == "source":
        listed = _listed(roots, _SOURCE, update)
        if not listed and (problems := _problems(roots)):
            return lists_error(problems)
        names = sorted({package.package.removeprefix("linux-source-") for package in listed})
        return UserError(
            f"Debian has no kernel source {spec.value}.",
            f"Versions that exist: {', '.join(names) or 'none'}; for others use tree:DIR@REV.",
        )
    problems = _problems(roots)
    named = _listed(roots, name_pattern(arch, spec.options.get("flavour")), update)
    known = flavours(arch, update, roots)
    if not known and problems:
        return lists_error(problems)
    if known and not named:
        return UserError(
            f"Debian has no kernels of flavour '{spec.options.get('flavour')}' for {arch.debian}.",
            f"Flavours that exist: {', '.join(known)}.",
            "\n".join(problems),
        )
    versions = sorted({package.version for package in named}, key=Version)
    # Of 60 versions a few: the last 6.1, the last 6.12.
    series = {".".join(version.split(".")[:2]): version for version in versions}
    return UserError(
        f"Debian has no kernel {spec.value} for {arch.debian}.",
        f"Versions that exist: {', '.join(series.values()) or 'none'}.",
        "\n".join([textwrap.fill(f"All versions: {' '.join(versions)}", 75), *problems]),
    )


def revision(spec: Spec, update: Update) -> Revision:
    """Find source:6.12's newest package, which is unpacked once: 2.5 GB; UserError, FetchError."""
    roots = _roots(host_arch())
    ends = (OLDEST, NEWEST)  # of kernels only
    packages = None if spec.value in ends else _search(roots, spec.value, _SOURCE, update)
    if not packages:
        raise _not_found(roots, spec, host_arch(), update)
    root, (candidate,) = packages
    repository = Repository(f"package {candidate.sha256}")
    if not (ids := _ids(repository)):
        with repository.locked(update):
            ids = _ids(repository) or _fetch(repository, root, candidate, update)
    package = {"package": candidate.package, "version": candidate.version}
    origin = {"kind": "source", **package, "deb_sha256": candidate.sha256}
    return Revision(repository, ids["commit"], ids["tree"], origin)


def _ids(repository: Repository) -> dict[str, str]:
    """Return the names of an unpacked package's commit and tree; empty where git has none."""
    ids = cache.read_json(repository.folder / _MANIFEST)
    # An older kentry left 90,000 files, of which each would be read for each build.
    if not ids or not any((repository.git.folder / "objects/pack").glob("*.pack")):
        return {}
    repository.git.init()
    return ids if repository.git.has(f"{ids['commit']}^{{tree}}") else {}


def _fetch(
    repository: Repository, root: Archive, candidate: Candidate, update: Update
) -> dict[str, str]:
    with root.locked(update):
        file = root.download(candidate, update)
        try:
            update(None, f"unpacking {candidate.package}")
            with cache.fresh_folder(repository.work) as folder:
                tarball = folder / ".tar.xz"
                tarball.write_bytes(_content(file, f"usr/src/{candidate.package}.tar.xz"))
                options = ["--strip-components=1", "--no-same-owner", "-xJf", str(tarball)]
                run([need("tar"), "-C", str(folder), *options])
                tarball.unlink()
        except subprocess.CalledProcessError as err:
            raise FetchError(
                f"{candidate.package} could not be unpacked: {err.stderr.strip()[-200:]}.",
                "Free some space (2.5 GB), or name another folder in KENTRY_CACHE.",
            ) from err
        finally:
            file.unlink(missing_ok=True)
    git = repository.git
    shutil.rmtree(git.folder, ignore_errors=True)
    git.init()
    tree = take_files(repository, repository.work, update)
    # What was read is what is checked out.
    (git.folder / "import-index").replace(git.folder / "index")
    commit = repository.commit(f"{candidate.package} {candidate.version}", tree)
    cache.write_json(repository.folder / _MANIFEST, ids := {"commit": commit, "tree": tree})
    return ids


def distro_config(version: tuple[int, int], arch: Arch, update: Update) -> str:
    """Fetch the .config of Debian's kernel of that version or the nearest; FetchError if none."""
    roots = _roots(arch)
    packages = [(package, root) for root in roots for package in root.candidates(_CONFIG, update)]
    if not packages:
        remedy = "Try again, use --config tiny, or name a .config file."
        raise lists_error(_problems(roots), remedy)

    def distance(pair: tuple[Candidate, Archive]) -> tuple[bool, int, int]:
        """Order the same version first, then the newest older, then the oldest newer one."""
        major, minor = map(int, pair[0].package.removeprefix("linux-config-").split("."))
        newer = (major, minor) > version
        return (True, major, minor) if newer else (False, -major, -minor)

    candidate, root = min(packages, key=distance)
    folder = cache.cache_dir("configs") / f"{candidate.sha256[:16]}-{arch.name}"
    if not cache.read_manifest(folder):
        with root.locked(update), cache.fresh_folder(folder) as fresh:
            package = root.download(candidate, update)
            name = f"usr/src/{candidate.package}/config.{arch.debian}_none_{arch.debian}.xz"
            (fresh / "config").write_bytes(lzma.decompress(_content(package, name)))
            package.unlink()
            cache.write_manifest(fresh, ["config"])
    return (folder / "config").read_text(encoding="utf-8")


def _content(package: Path, name: str) -> bytes:
    """Return the file of a package with that name; FetchError where it has none."""
    path = re.compile(r"(?:\./)?" + re.escape(name))
    for _, content in files_of(package, path, "Try again."):
        return content
    raise FetchError(f"{package.name} has no {name}.", "Use another version, or --config tiny.")
