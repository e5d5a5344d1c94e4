# SPDX-License-Identifier: GPL-2.0-or-later
"""Packages of Debian's archive, of any architecture and release, in a folder of the cache.

The signed file of a suite has the hashes of its lists, and these have those of the packages.
"""

import contextlib
import os
import re
import time
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import quote

from kentry.errors import FetchError, UserError
from kentry.host.cache import cache_dir, held, read_json, write_json
from kentry.host.depends import Lists, Stanza, stanza_at
from kentry.host.fetch import REMEDY, Meter, MissingError, UnreachableError, fetch
from kentry.host.lists import Suite, read_list
from kentry.host.mirror import KEYRING_VARIABLE, MIRROR_VARIABLE, find_mirror
from kentry.progress import Update


@dataclass(frozen=True)
class Release:
    """A Debian release by its code name; `without` are Debian's names of architectures."""

    name: str
    without: tuple[str, ...] = ()

    @property
    def suites(self) -> tuple[str, ...]:
        """Its suites on the ordinary mirror."""
        return (self.name, f"{self.name}-updates", f"{self.name}-backports")


# Oldest first: the first that has a kernel is where it is taken from.
RELEASES = (Release("bookworm", ("riscv64",)), Release("trixie"))

# Of guests' root file systems.  The first has no kernel that is wanted, the last new ones all days.
USERLAND_RELEASES = (Release("bullseye", ("riscv64",)), *RELEASES, Release("forky"))

_LISTS_LAST_SECONDS = 24 * 3600
# Lists as young as this are not fetched again because something is not in them.
_LISTS_NEW_SECONDS = 600
# When the lists were fetched, for which mirror, what they are, and what failed.
_STAMP = "lists.json"


@dataclass(frozen=True)
class Candidate:
    """One version of a package that the lists have; `size` in bytes, `arch` may be "all"."""

    package: str
    version: str
    sha256: str
    size: int
    suite: str
    arch: str
    path: str = ""


class Archive:
    """What there is for an architecture and a release."""

    def __init__(self, arch: str, release: Release) -> None:
        self.arch = arch
        self.release = release
        self.folder = cache_dir("archive", f"{release.name}-{arch}")
        self._is_writable = os.access(self.folder, os.W_OK)
        self._is_in_vain = False  # to fetch lists: none came when that was tried

    @property
    def problems(self) -> list[str]:
        """Why suites could not be refreshed, from the last time; what says most comes first."""
        return list(self._stamp().get("problems", ()))

    def candidates(self, pattern: str, update: Update) -> list[Candidate]:
        """Return all versions of packages that `pattern` matches, newest first."""
        from debian.debian_support import Version

        names = re.compile(b"^Package: (?:%b)$" % pattern.encode(), re.MULTILINE)
        with self._ready(update) as lists:
            found = [
                _candidate(stanza_at(text, suite, match.start()))
                for suite, text in lists.items()
                for match in names.finditer(text)
            ]
        one_of_each = {(it.package, it.version): it for it in found}.values()
        return sorted(one_of_each, key=lambda it: Version(it.version), reverse=True)

    def download(self, candidate: Candidate, update: Update) -> Path:
        """Fetch a package; its file is the caller's while the archive is `locked()`; FetchError."""
        with self.locked(update):
            return next(iter(self._fetch([candidate], update)))

    def download_closure(
        self, names: Sequence[str], update: Update, suite: str = ""
    ) -> dict[Path, Candidate]:
        """Fetch packages and all that they need, best from `suite`; UserError, FetchError."""
        with self.locked(update):
            return self._fetch(self.closure(names, update, suite), update)

    def closure(self, names: Sequence[str], update: Update, suite: str = "") -> list[Candidate]:
        """Return packages and all that they need, best from `suite`; UserError, FetchError."""
        with self._ready(update) as lists:
            if not lists:
                raise lists_error(self.problems)
            try:
                return list(map(_candidate, Lists(lists, suite).closure(names)))
            except KeyError as err:
                raise UserError(
                    f"Debian {self.release.name} has no package '{err.args[0]}' for {self.arch}.",
                    "Name another package, or another release with --release.",
                    "\n".join(self.problems),
                ) from err

    def refresh(self, update: Update) -> bool:
        """Fetch the lists again unless that was minutes ago; return whether it did."""
        with self.locked(update):
            if self._age() < _LISTS_NEW_SECONDS or self._is_in_vain:
                return False
            self._update_lists(update)
            return True

    def locked(self, update: Update) -> AbstractContextManager[None]:
        """Keep every other kentry out of this folder while the block runs; may be nested."""
        return held(self.folder / "lock", update, f"another kentry that uses {self.folder}")

    @contextlib.contextmanager
    def _ready(self, update: Update) -> Iterator[dict[str, bytes]]:
        """Lock the folder and read its lists, a day old at most if it may be written."""
        with self.locked(update):
            is_old = self._stamp().get("named") != _named_by_user()
            is_old |= self._age() > _LISTS_LAST_SECONDS
            if is_old and self._is_writable and not self._is_in_vain:
                self._update_lists(update)
            try:
                lists = self._read_lists()
            except FetchError:
                # Lists that are damaged are fetched whole.
                if not self._is_writable:
                    raise
                write_json(self.folder / _STAMP, {})
                self._update_lists(update)
                lists = self._read_lists()
            yield lists

    def _read_lists(self) -> dict[str, bytes]:
        suites = self._stamp().get("suites", {})
        return {suite: read_list(self.folder / suite, facts) for suite, facts in suites.items()}

    def _update_lists(self, update: Update) -> None:
        """Fetch what changed, and keep in `problems` what failed: the package may be elsewhere."""
        mirror = find_mirror()
        stamp = self._stamp()
        suites = stamp.get("suites", {}) if stamp.get("named") == _named_by_user() else {}
        bases = dict.fromkeys(self.release.suites, mirror.base)
        if mirror.security:
            bases[f"{self.release.name}-security"] = mirror.security
        problems: list[tuple[bool, str]] = []
        dead: set[str] = set()
        self._is_in_vain = True
        for name, base in bases.items():
            known = suites.get(name, {})
            suite = Suite(mirror, base, name, self.arch, self.folder / name, known, update)
            try:
                if base not in dead:
                    suites[name] = suite.fetch()
                    self._is_in_vain = False
                    problems += [(False, it) for it in [suites[name].pop("problem", "")] if it]
            except FetchError as err:
                # That a mirror has no such suite says less than the rest.
                problems.append((isinstance(err, MissingError), err.sentence))
                dead |= {base} if isinstance(err, UnreachableError) else set()
        sentences = [sentence for _, sentence in sorted(problems, key=lambda it: it[0])]
        facts = {"problems": sentences, "named": _named_by_user(), "suites": suites}
        # Where nothing at all came the next run tries again.
        when = 0.0 if self._is_in_vain else time.time()
        write_json(self.folder / _STAMP, {**facts, "time": when})

    def _fetch(self, candidates: Sequence[Candidate], update: Update) -> dict[Path, Candidate]:
        mirror = find_mirror()
        folder = cache_dir("archive", self.folder.name, "packages")
        what = candidates[0].package if len(candidates) == 1 else f"{len(candidates)} packages"
        meter = Meter(update, what, sum(it.size for it in candidates))
        files = {}
        for it in candidates:
            base = mirror.security if it.suite.endswith("-security") else mirror.base
            file = folder / quote(f"{it.package}_{it.version}_{it.arch}.deb", safe="+~")
            url = f"{base}/{quote(it.path, safe='/+~:')}"
            fetch(url, file, it.size, it.sha256, meter, mirror.proxies)
            files[file] = it
        return files

    def _stamp(self) -> dict[str, Any]:
        return read_json(self.folder / _STAMP)

    def _age(self) -> float:
        when = self._stamp().get("time")
        return abs(time.time() - when) if isinstance(when, float) else float("inf")


def _candidate(stanza: Stanza) -> Candidate:
    names = ("Package", "Version", "SHA256", "Size", "Suite", "Architecture", "Filename")
    package, version, sha256, size, suite, arch, path = map(stanza.__getitem__, names)
    return Candidate(package, version, sha256, int(size), suite, arch, path)


def lists_error(problems: Sequence[str], remedy: str = REMEDY) -> FetchError:
    """Make the error where no list of packages was fetched; `problems` are an Archive's."""
    return FetchError(f"There are no lists of packages: {problems[0]}", remedy, "\n".join(problems))


def _named_by_user() -> list[str]:
    return [os.environ.get(name, "") for name in (MIRROR_VARIABLE, KEYRING_VARIABLE)]
