# SPDX-License-Identifier: GPL-2.0-or-later
"""Debian packages of any architecture and release, fetched by apt into folders of our own.

apt runs with an APT_CONFIG for a root in kentry's cache, one for each architecture and release: the
user's set-up is read, never changed.  apt itself verifies Release -> Packages -> .deb.
KENTRY_MIRROR names the mirror, and after a space the security mirror; KENTRY_KEYRING the keyring.
"""

import os
import re
import shutil
import subprocess
import tarfile
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from kentry.errors import FetchError, MissingToolError, UserError
from kentry.host.cache import (
    cache_dir,
    check_room,
    held,
    read_json,
    sha256_of,
    write_atomically,
    write_json,
)
from kentry.host.process import child, command_line, kill_group, need, run
from kentry.progress import Update

MIRROR_VARIABLE = "KENTRY_MIRROR"
KEYRING_VARIABLE = "KENTRY_KEYRING"

# A URI of sources.list(5); apt cannot read its sources with anything else in them.
_URI = re.compile(r"[a-z][a-z0-9+-]*:[!-~]+")

_KEYRING = Path("/usr/share/keyrings/debian-archive-keyring.gpg")


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


@dataclass(frozen=True)
class Mirror:
    """Where packages come from and whose signature they carry."""

    base: str
    security: str | None
    keyring: Path


def find_mirror() -> Mirror:
    """Return KENTRY_MIRROR, or this machine's Debian mirror; UserError, MissingToolError."""
    named = os.environ.get(MIRROR_VARIABLE, "").split()
    if len(named) > 2 or not all(map(_URI.fullmatch, named)):
        raise UserError(
            f"{MIRROR_VARIABLE} does not name a mirror.",
            f"Write it like {MIRROR_VARIABLE}=http://HOST/debian, and after a space the"
            " security mirror.",
        )
    if named:
        return Mirror(named[0], named[1] if len(named) > 1 else None, _keyring())
    fields = ("REPO_URI", "ORIGIN", "LABEL", "RELEASE")
    layout = "|".join(f"$({field})" for field in fields)
    argv = [need("apt-get"), "indextargets", "--format", layout, "Created-By: Packages"]
    ours = {suite for release in USERLAND_RELEASES for suite in release.suites}
    base: list[str] = []
    security: list[str] = []
    for line in run(argv, check=False).stdout.splitlines():
        uri, origin, label, suite = line.split("|")
        # apt leaves $(ORIGIN) as it is until it has fetched the Release file once.
        if origin == "Debian" or (
            origin.startswith("$(") and suite.removesuffix("-security") in ours
        ):
            is_security = label == "Debian-Security" or "-security" in suite
            (security if is_security else base).append(uri)
    if not base:
        raise UserError(
            "This machine's apt uses no Debian mirror.",
            f"Name one in {MIRROR_VARIABLE}, as after 'deb' in a sources.list of Debian.",
        )
    return Mirror(base[0], security[0] if security else None, _keyring())


def _keyring() -> Path:
    if named := os.environ.get(KEYRING_VARIABLE):
        path = Path(os.path.expanduser(named))
        # apt takes a list of keyrings, separated by blanks.
        if not path.is_file() or not str(path).isprintable() or " " in str(path):
            raise UserError(
                f"{KEYRING_VARIABLE} does not name a keyring: {path!s:.200}.",
                "Name a file whose path has no blank in it.",
            )
        return path.absolute()
    if not _KEYRING.is_file():
        raise MissingToolError(
            f"{_KEYRING}, which verifies Debian's packages, is not there.",
            f"Run: apt-get install debian-archive-keyring, or name one in {KEYRING_VARIABLE}.",
        )
    return _KEYRING


_HOST_STATUS = Path("/var/lib/dpkg/status")
_LISTS_LAST_SECONDS = 24 * 3600
# Package lists of a release with their index have up to 65 MB.
_LISTS_BYTES = 80 << 20
# Lists as young as this are not fetched again because something is not in them.
_LISTS_NEW_SECONDS = 600
_POLL_SECONDS = 0.5
# When the lists were fetched, for which mirror, and what failed.
_STAMP = "refreshed.json"

# apt's words for a list that is not what the signed Release file says of it.
_NOT_AS_SIGNED = re.compile(r"Hash Sum mismatch|unexpected size")
# The name of a suite as a folder below dists/, such as stable-backports.
_SUITE = re.compile(r"[a-z][a-z0-9-]*")

# How the user's apt reaches the network and judges dates also holds for ours.
_INHERITED = (
    *("Acquire::http", "Acquire::https", "Acquire::ForceIPv4", "Acquire::ForceIPv6"),
    *("Acquire::Retries", "Acquire::Check-Date", "Acquire::Check-Valid-Until"),
)


@dataclass(frozen=True)
class Candidate:
    """One version of a package that the lists have; `size` in bytes, `arch` may be "all"."""

    package: str
    version: str
    sha256: str
    size: int
    suite: str
    arch: str


class AptRoot:
    """A private apt for a Debian architecture and release; `status` is a dpkg status file."""

    def __init__(self, arch: str, release: Release, status: Path | None = None) -> None:
        self.arch = arch
        self.release = release
        self._status = status
        kind = "host-" if status else ""
        self.folder = cache_dir("apt", f"{kind}{release.name}-{arch}")
        self._is_writable = os.access(self.folder, os.W_OK)

    @property
    def problems(self) -> list[str]:
        """apt's own lines about suites it could not refresh, from the last time it tried."""
        return list(self._stamp().get("problems", ()))

    def candidates(self, pattern: str, update: Update) -> list[Candidate]:
        """Return all versions of packages that `pattern` matches; lists are a day old at most."""
        with self._ready(update):
            listed = self._apt("apt-cache", "pkgnames", check=False)
            if listed.returncode and self._is_writable:
                # Lists that are damaged are fetched whole.
                shutil.rmtree(self.folder / "lists", ignore_errors=True)
                self._update_lists(update)
                listed = self._apt("apt-cache", "pkgnames", check=False)
            if listed.returncode:
                raise self._fetch_error("The package lists", listed)
            names = sorted(name for name in listed.stdout.split() if re.fullmatch(pattern, name))
            return self._show(names) if names else []

    def download(self, candidate: Candidate, update: Update) -> Path:
        """Fetch a package; its file is the caller's while the root is `locked()`; FetchError."""
        name = candidate.package
        file = self.folder / "archives" / _deb_name(name, candidate.version, candidate.arch)
        with self._ready(update):
            file.unlink(missing_ok=True)
            wanted = f"{name}={candidate.version}"
            self._fetch(["download", wanted], name, candidate.size, update)
        if not file.is_file() or sha256_of(file) != candidate.sha256:
            file.unlink(missing_ok=True)
            raise FetchError(
                f"The package {name} is not what the archive's signed list says.",
                f"Try again; if it stays so, name another mirror in {MIRROR_VARIABLE}.",
            )
        return file

    def download_closure(self, names: Sequence[str], update: Update, suite: str = "") -> list[Path]:
        """Fetch packages and what they need and is not installed, best from `suite`; FetchError."""
        target = ["-t", suite] if suite else []
        command = [*target, "--no-install-recommends", "--yes", "install", *names]
        with self._ready(update):
            planned = self._apt("apt-get", "--simulate", *command, check=False)
            if planned.returncode:
                raise self._fetch_error(" ".join(names), planned)
            # Inst NAME [OLD VERSION] (VERSION SUITE... [ARCH])
            row = re.compile(r"^Inst (\S+) (?:\[\S+\] )?\((\S+) .*\[(\w+)\]\)", re.MULTILINE)
            archives = self.folder / "archives"
            files = [archives / _deb_name(*match) for match in row.findall(planned.stdout)]
            self._fetch(["--download-only", *command], names[0] if names else "packages", 0, update)
        missing = [file.name for file in files if not file.is_file()]
        if missing:
            raise FetchError(
                f"apt did not fetch {missing[0]}.",
                "Try again; a mirror that is a folder is copy:FOLDER here, not file:.",
            )
        return files

    def refresh(self, update: Update) -> bool:
        """Fetch the lists again unless that was minutes ago; return whether it did."""
        with self.locked(update):
            if self._age() < _LISTS_NEW_SECONDS:
                return False
            self._update_lists(update)
            return True

    def _show(self, names: list[str]) -> list[Candidate]:
        from debian.deb822 import Packages

        suites, aliases = {}, self._aliases()
        # " NAME | VERSION | URI SUITE/COMPONENT ARCH Packages"
        for line in self._apt("apt-cache", "madison", *names).stdout.splitlines():
            name, version, where = (part.strip() for part in line.split("|"))
            suite = where.split()[1].rpartition("/")[0]
            suites[name, version] = aliases.get(suite, suite)
        text = self._apt("apt-cache", "show", *names).stdout
        stanzas = Packages.iter_paragraphs(text.splitlines(keepends=True), use_apt_pkg=False)
        candidates = [
            Candidate(
                package=stanza["Package"],
                version=stanza["Version"],
                sha256=stanza["SHA256"],
                size=int(stanza["Size"]),
                suite=suites.get((stanza["Package"], stanza["Version"]), self.release.name),
                arch=stanza["Architecture"],
            )
            for stanza in stanzas
        ]
        return list(dict.fromkeys(candidates))

    def locked(self, update: Update) -> AbstractContextManager[None]:
        """Keep every other kentry out of this root while the block runs; may be nested."""
        return held(self.folder / "lock", update, f"another kentry that uses {self.folder}")

    @contextmanager
    def _ready(self, update: Update) -> Iterator[None]:
        """Lock and configure the root; its lists are a day old at most if it may be written."""
        with self.locked(update):
            stamp = self._stamp()
            if self._is_writable:
                if stamp.get("named") != _named_by_user() or self._age() > _LISTS_LAST_SECONDS:
                    self._update_lists(update)
                else:
                    # apt.conf has this folder's path in it, and the cache may have been moved.
                    self._configure(stamp.get("problems", ()))
            yield

    def _configure(self, problems: Sequence[str] = ()) -> None:
        """Write the folders, the sources (deb822 form: sources.list(5)) and the settings."""
        # A mirror amid an update has other lists than its signed Release file says.  Where
        # `problems` say so, suites are also asked for by other names, which may have yesterday's.
        aliases = self._aliases() if any(map(_NOT_AS_SIGNED.search, problems)) else ()
        for name in (
            *("sources", "lists/partial", "archives/partial"),
            *("root/var/cache/apt", "root/var/lib/apt"),
            *(f"root/etc/apt/{name}.d" for name in ("apt.conf", "preferences", "trusted.gpg")),
        ):
            (self.folder / name).mkdir(parents=True, exist_ok=True)
        (self.folder / "status").touch()
        mirror = find_mirror()
        suites = [(mirror.base, suite) for suite in (*self.release.suites, *aliases)]
        if mirror.security:
            suites.append((mirror.security, f"{self.release.name}-security"))
        sources = "\n".join(
            f"Types: deb\nURIs: {uri}\nSuites: {suite}\nComponents: main\n"
            f"Signed-By: {mirror.keyring}\n"
            for uri, suite in suites
        )
        write_atomically(self.folder / "sources/kentry.sources", sources)
        inherited = run([need("apt-config"), "dump", *_INHERITED], check=False).stdout
        # What points apt at this folder and away from the user's own set-up.
        settings = {
            "APT::Architecture": self.arch,
            # The same user as ourselves: _apt may not look into a cache below a home folder.
            "APT::Sandbox::User": "root",
            "Dir": f"{self.folder}/root",
            "Dir::State::lists": f"{self.folder}/lists",
            "Dir::State::status": str(self._status or self.folder / "status"),
            "Dir::Cache::archives": f"{self.folder}/archives",
            "Dir::Etc::sourceparts": f"{self.folder}/sources",
            # Half of the space for a tenth of a second.
            "Dir::Cache::srcpkgcache": "",
            "Acquire::GzipIndexes": "true",
            "Acquire::Languages": "none",
            # dpkg's lock is not ours to take; a lock of our own guards the folder.
            "Debug::NoLocking": "true",
            "Acquire::AllowInsecureRepositories": "false",
            "Acquire::AllowDowngradeToInsecureRepositories": "false",
            "APT::Get::AllowUnauthenticated": "false",
        }
        lines = [f'{name} "{value}";\n' for name, value in settings.items()]
        lines.append(f'APT::Architectures {{ "{self.arch}"; }};\n')
        write_atomically(self.folder / "apt.conf", "".join([*lines, inherited]))

    def _update_lists(self, update: Update) -> None:
        """Run apt-get update and keep in `problems` what failed: the package may be elsewhere."""
        update(None, f"fetching the package lists of {self.release.name} for {self.arch}")
        check_room(self.folder, _LISTS_BYTES)
        self._configure()
        result = self._apt("apt-get", "update", check=False)
        problems = _problem_lines(result)
        if any(map(_NOT_AS_SIGNED.search, problems)) and self._aliases():
            self._configure(problems)
            self._apt("apt-get", "update", check=False)
        # Where nothing at all came the next run tries again.
        came = not result.returncode or any(self.folder.glob("lists/*_InRelease"))
        facts = {"problems": problems, "time": time.time() if came else 0.0}
        write_json(self.folder / _STAMP, {**facts, "named": _named_by_user()})

    def _aliases(self) -> dict[str, str]:
        """Read other names of the release's suites: "Suite: stable" with "Codename: trixie"."""
        from debian.deb822 import Release as ReleaseFile

        aliases = {}
        # apt leaves the Release file of a suite whose lists it refused in a folder below.
        for path in self.folder.glob("lists/**/*_InRelease"):
            with path.open("rb") as file:
                names = ReleaseFile(file)
            alias, suite = names.get("Suite", ""), names.get("Codename")
            if suite in self.release.suites and alias != suite and _SUITE.fullmatch(alias):
                aliases[alias] = suite
        return aliases

    def _stamp(self) -> dict[str, Any]:
        return read_json(self.folder / _STAMP)

    def _age(self) -> float:
        when = self._stamp().get("time")
        return abs(time.time() - when) if isinstance(when, float) else float("inf")

    def _apt(
        self, program: str, *arguments: str, check: bool = True, cwd: Path | None = None
    ) -> subprocess.CompletedProcess[str]:
        env = {"APT_CONFIG": str(self.folder / "apt.conf"), "LC_ALL": "C"}
        return run([need(program), "-q", *arguments], env=env, check=check, cwd=cwd)

    def _fetch(self, arguments: list[str], what: str, size: int, update: Update) -> None:
        archives = self.folder / "archives"
        update(0.0 if size else None, f"fetching {what}")
        check_room(archives, size)
        done = threading.Event()
        began = time.time()

        def watch() -> None:
            while not done.wait(_POLL_SECONDS):
                come = 0
                for path in (*archives.glob("*.deb"), *archives.glob("partial/*")):
                    with suppress(OSError):
                        status = path.stat()
                        come += status.st_size if status.st_mtime >= began - 1 else 0
                text = f"fetching {what}: {come / 1e6:.0f} MB"
                update(min(come / size, 1.0) if size else None, text)

        thread = threading.Thread(target=watch)
        thread.start()
        try:
            result = self._apt("apt-get", *arguments, check=False, cwd=archives)
        finally:
            done.set()
            thread.join()
        if result.returncode:
            raise self._fetch_error(what, result)

    def _fetch_error(self, what: str, result: subprocess.CompletedProcess[str]) -> FetchError:
        lines = _problem_lines(result) + self.problems
        reason = first_problem(lines) or result.stderr.strip() or "apt gave no reason"
        return FetchError(
            f"{what} could not be fetched: {reason}",
            f"Try again, or name another mirror in {MIRROR_VARIABLE}.",
            "\n".join(lines[1:]),
        )


def host_root(arch: str, release: Release) -> AptRoot:
    """Return a root in which what is installed on this machine counts as installed."""
    if not _HOST_STATUS.is_file():
        raise UserError(
            f"This machine is not a Debian one: {_HOST_STATUS} is not there.",
            "Install what is wanted with this machine's own package manager.",
        )
    return AptRoot(arch, release, _HOST_STATUS)


def _deb_name(package: str, version: str, arch: str) -> str:
    return f"{package}_{version.replace(':', '%3a')}_{arch}.deb"


@contextmanager
def file_tree(deb: Path, remedy: str) -> Iterator[tarfile.TarFile]:
    """Stream the package's file tree; UserError, with `remedy`, where it is damaged."""
    argv = [need("dpkg-deb"), "--fsys-tarfile", str(deb)]
    with child(argv, shown=f"{command_line(argv)} | tar -x") as process:
        assert process.stdout and process.stderr
        try:
            with tarfile.open(fileobj=process.stdout, mode="r|") as tar:
                yield tar
        except (tarfile.TarError, EOFError) as err:
            kill_group(process)
            message = process.stderr.read().decode("utf-8", "replace").strip()
            sentence = f"{deb} is cut short or damaged: it cannot be unpacked."
            raise UserError(sentence, remedy, message or str(err)) from err


def first_problem(problems: Sequence[str]) -> str:
    """Choose the line of apt's that says most, without its "E: "; "" where there is none."""
    # A suite that a mirror does not have, and the sum of it all, say less than the rest.
    general = re.compile(r"[EW]: Some index files failed|.* does not have a Release|.* Release: ")
    telling = [line for line in problems if not general.match(line)] or list(problems)
    # apt says why as a warning, and only then that it failed: GPG error, E: ... not signed.
    return telling[0][3:] if telling else ""


def lists_error(
    problems: Sequence[str], remedy: str = "Try again, or name another mirror in KENTRY_MIRROR."
) -> FetchError:
    """Make the error where no list of packages was fetched; `problems` are apt's lines on it."""
    sentence = f"The package lists could not be fetched: {first_problem(problems)}"
    return FetchError(sentence, remedy, "\n".join(problems))


def _problem_lines(result: subprocess.CompletedProcess[str]) -> list[str]:
    # A list with a wrong hash is on stdout only if anything else failed too.
    lines = [line for line in result.stderr.splitlines() if line.startswith(("E: ", "W: "))]
    # "Err:6 WHAT", and below it, indented, why.
    for what, why in re.findall(r"^Err:\d+ (.*)\n +(.*)", result.stdout, re.MULTILINE):
        if not any(why in line for line in lines):
            lines.append(f"E: {what}: {why}")
    return lines


def _named_by_user() -> list[str]:
    return [os.environ.get(name, "") for name in (MIRROR_VARIABLE, KEYRING_VARIABLE)]
