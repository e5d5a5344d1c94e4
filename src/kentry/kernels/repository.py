# SPDX-License-Identifier: GPL-2.0-or-later
"""Runs git in kentry's own repositories of kernel source, and, only ever reading, in a user's.

Each of kentry's own has one work tree that is built from.  One work tree, because make compares
times: git writes only the files that differ between two commits, so only what they touch is
compiled again.
"""

import contextlib
import hashlib
import os
import re
import shutil
import subprocess
import tempfile
import zlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import NoReturn

from kentry.errors import DamagedSourceError, KernelError, UserError
from kentry.host import sandbox
from kentry.host.cache import cache_dir, check_room, held, no_space_is_an_error, write_atomically
from kentry.host.process import need, run
from kentry.progress import Update, say

# What git itself sets for hooks (git rev-parse --local-env-vars): it names another repository.
_ANOTHER = (
    *("GIT_DIR", "GIT_WORK_TREE", "GIT_INDEX_FILE", "GIT_COMMON_DIR", "GIT_PREFIX"),
    *("GIT_OBJECT_DIRECTORY", "GIT_ALTERNATE_OBJECT_DIRECTORIES", "GIT_SHALLOW_FILE"),
    *("GIT_GRAFT_FILE", "GIT_NAMESPACE", "GIT_DEFAULT_HASH", "GIT_DEFAULT_REF_FORMAT"),
    # How the paths of a command line are read.
    *(f"GIT_{how}_PATHSPECS" for how in ("LITERAL", "GLOB", "NOGLOB", "ICASE")),
)
# Filters run when git looks whether a file has changed.
_FILTERS = r"^filter\..*\.(clean|process|required)$"
# The name of an empty variable.
_NOTHING = "KENTRY_NOTHING"
# Where settings of the user's are, not of a repository: git-config(1), --show-scope.
_TRUSTED = ("system", "global", "command")
_SETTINGS_OF_USER = ("GIT_CONFIG_PARAMETERS", "GIT_CONFIG_COUNT")

# kentry's commits are the same on every machine: nobody's name, no time.
_NOBODY = {
    f"GIT_{role}_{what}": value
    for role in ("AUTHOR", "COMMITTER")
    for what, value in (("NAME", "kentry"), ("EMAIL", "kentry@localhost"), ("DATE", "@0 +0000"))
}
_PLAIN = {
    "GIT_CONFIG_NOSYSTEM": "1",
    "GIT_ATTR_NOSYSTEM": "1",
    "GIT_TERMINAL_PROMPT": "0",
    "GIT_OPTIONAL_LOCKS": "0",
    "LC_ALL": "C",
}

# strerror(ENOSPC) and strerror(EDQUOT), as git and the C locale say them.
FULL_DISK = "No space left on device|Disk quota exceeded"

# Of a commit; characters.
_FULL_NAME = 40
# Read at a time; zlib makes a thousand bytes of one; bytes.
_PIECE = 1 << 16
# With less room than that a work tree, of more than 1 GB, could not be written.
_ROOM_BYTES = 16 << 20

# What a user's settings might change.  To deflate 1.5 GB harder would take minutes.
_SETTINGS = """\
[core]
	repositoryformatversion = 0
	filemode = true
	bare = false
	autocrlf = false
	attributesFile = /dev/null
	excludesFile = /dev/null
	compression = 1
	fsync = none
	hooksPath = /dev/null
	untrackedCache = true
[gc]
	auto = 0
[advice]
	detachedHead = false
"""


class Git:
    """git in a repository of kentry's own: GIT_DIR `folder`, work tree `work`, file `index`.

    In the work tree of a stranger it is `confined`: a repository there has settings of its own.
    """

    def __init__(
        self, folder: Path, work: Path, index: str = "index", *, confined: bool = False
    ) -> None:
        self.folder = folder
        self._confined = confined
        self._env = {
            **_PLAIN,
            **_NOBODY,
            "GIT_CONFIG_GLOBAL": "/dev/null",
            "GIT_DIR": str(folder),
            "GIT_WORK_TREE": str(work),
            "GIT_INDEX_FILE": str(folder / index),
        }
        self._work = work

    def __call__(
        self,
        *args: str,
        check: bool = True,
        feed: bytes = b"",
        env: Mapping[str, str] = _PLAIN,
        memory: int = 0,
    ) -> subprocess.CompletedProcess[str]:
        """Run git WORDS in the work tree, in `memory` bytes, if not 0; UserError on a full disk."""
        cwd = self._work if self._work.is_dir() else self.folder
        settings, argv = {**self._env, **env}, [need("git"), *args]
        if memory:
            # Not the address space: git maps packs, whatever their size.
            argv = [need("prlimit"), f"--data={memory}", *argv]
        if self._confined:
            settings["PATH"] = os.environ.get("PATH", os.defpath)
            writable, readable = [self.folder], [self._work]
            argv = sandbox.confined(argv, env=settings, writable=writable, readable=readable)
        else:
            unset = [f"--unset={name}" for name in (*_ANOTHER, *_SETTINGS_OF_USER)]
            set_to = [f"{name}={value}" for name, value in settings.items()]
            argv = ["env", *unset, *set_to, *argv]
        done = run(argv, cwd=cwd, check=False, feed=feed)
        if done.returncode and re.search(FULL_DISK, done.stderr):
            raise UserError(
                f"No space is left for {self.folder}.",
                "Free some, or name another folder in KENTRY_CACHE.",
            )
        if check:
            done.check_returncode()
        return done

    def line(self, *args: str) -> str:
        """Return the one line that git WORDS prints."""
        return self(*args).stdout.strip()

    def has(self, *what: str) -> bool:
        """Return whether it is a repository that has WHAT, as git rev-parse takes it."""
        return self.folder.is_dir() and not self("rev-parse", "-q", *what, check=False).returncode

    def init(self) -> None:
        """Make the repository where git finds none, at once and whole: others may look for it."""
        if self.folder.is_dir():
            # Another version of kentry may have had others.
            file = self.folder / "config"
            if not file.is_file() or file.read_bytes() != _SETTINGS.encode():
                write_atomically(file, _SETTINGS)
            if self.has("--git-dir"):
                return
            say(f"{self.folder} is damaged. It is made again.")
            self.remove()
        new = Path(tempfile.mkdtemp(dir=self.folder.parent, prefix=".git."))
        Git(new, self._work)("init", "--quiet", "--initial-branch=master", "--template=")
        (new / "config").write_text(_SETTINGS, encoding="utf-8")
        with contextlib.suppress(OSError):
            new.rename(self.folder)
        shutil.rmtree(new, ignore_errors=True)

    def remove(self) -> None:
        """Remove the repository at once: another kentry finds all of it, or nothing."""
        aside = Path(tempfile.mkdtemp(dir=self.folder.parent, prefix=".git."))
        with contextlib.suppress(FileNotFoundError):
            self.folder.rename(aside / "git")
        shutil.rmtree(aside, ignore_errors=True)


def in_folder(folder: Path, *args: str) -> subprocess.CompletedProcess[str]:
    """Run git WORDS in a folder of the user's, which is only read; whatever its status.

    Settings of the repository itself, which may be a stranger's, start no program.
    """
    # A monitor would also keep files in the repository.  What is missing there is not fetched, for
    # which a remote may name a program.
    own = ["-c", "core.fsmonitor=false", "-C", str(folder)]
    argv = ["env", *(f"--unset={name}" for name in _ANOTHER), need("git"), *own, *args]
    env = {"GIT_OPTIONAL_LOCKS": "0", "GIT_ALLOW_PROTOCOL": "none", _NOTHING: ""}
    return run(argv, env={**env, "LC_ALL": "C"}, check=False)


def status(folder: Path) -> subprocess.CompletedProcess[str]:
    """Run git status in a folder of the user's; UserError where it could start a filter."""
    listed = in_folder(folder, "config", "-z", "--show-scope", "--get-regexp", _FILTERS)
    scopes, settings = (listed.stdout.split("\0")[at::2] for at in (0, 1))
    of_others = zip(scopes, settings, strict=False)
    names = {text.partition("\n")[0] for scope, text in of_others if scope not in _TRUSTED}
    if "\ufffd" in "".join(names):
        raise UserError(
            f"A filter in {folder}/.git/config has a name that is not UTF-8.",
            "Remove it there.",
        )
    # -c name=value takes a = in a name for that of the value.
    without = [f"--config-env={name}={_NOTHING}" for name in sorted(names)]
    changes = ("status", "--porcelain", "--untracked-files=no", "--ignore-submodules=all")
    return in_folder(folder, *without, *changes)


class Repository:
    """A repository below the cache, by `key`: what it holds the source of; or in a `folder`.

    What it has not itself it borrows from its `lender` or from a user's repository.
    """

    def __init__(
        self, key: str, folder: Path | None = None, lender: "Repository | None" = None
    ) -> None:
        digest = hashlib.sha256(key.encode()).hexdigest()
        self.folder = folder or cache_dir("trees", digest[:16])
        self.work = self.folder / "linux"
        self.git = Git(self.folder / "git", self.work)
        self._lender = lender

    def here(self) -> "Repository":
        """Return where this machine builds: one in KENTRY_WORK that borrows all commits, or itself.

        Machines that share a cache and nothing else so build at once.
        """
        if not (base := os.environ.get("KENTRY_WORK")):
            return self
        folder = Path(os.path.realpath(Path(base, "trees", self.folder.name)))
        with no_space_is_an_error(folder):
            folder.mkdir(parents=True, exist_ok=True)
        own = Repository("", folder, self)
        own.borrow_objects(self.git.folder / "objects", self.git.folder / "shallow")
        return own

    def locked(self, update: Update) -> contextlib.AbstractContextManager[None]:
        """Keep every other kentry out while the block runs; may be nested."""
        return held(self.folder / "lock", update, f"another kentry that uses {self.folder}")

    def borrow_objects(self, objects: Path, shallow: Path) -> None:
        """Make the commits of a user's repository known to this one; nothing is copied."""
        self.git.init()
        (self.git.folder / "objects/info").mkdir(parents=True, exist_ok=True)
        # Another kentry may be reading these files just now.
        write_atomically(self.git.folder / "objects/info/alternates", f"{objects}\n")
        if shallow.is_file():
            write_atomically(self.git.folder / "shallow", shallow.read_bytes())
        else:
            (self.git.folder / "shallow").unlink(missing_ok=True)

    def commit(self, message: str, tree: str) -> str:
        """Make a commit of the tree, and HEAD of that: from there git finds what is lost."""
        commit = self.git.line("commit-tree", "-m", message, tree)
        self.git("update-ref", "HEAD", commit)
        return commit

    def check_out(self, commit: str, update: Update) -> None:
        """Make the work tree that of `commit`, whatever was there; the caller has the lock."""
        update(None, f"checking out {commit[:12]}")
        self.check(commit)
        self.work.mkdir(exist_ok=True)
        # How git is left when it was killed in the middle of something.
        for pattern in ("*.lock", "refs/**/*.lock"):
            for left in self.git.folder.glob(pattern):
                left.unlink()
        reset = ("reset", "--quiet", "--hard", commit)
        if self.git(*reset, check=False).returncode:
            # git says which file it could not write, and not why.
            check_room(self.work, _ROOM_BYTES)
            (self.git.folder / "index").unlink(missing_ok=True)
            done = self.git(*reset, check=False)
            unread = r"^error: unable to read \S+ file of (.*) \("
            files = re.findall(unread, done.stderr, re.MULTILINE)
            more = f" and {len(files) - 1} more files" if len(files) > 1 else ""
            if done.returncode:
                reason = f"{files[0]}{more} is missing" if files else _reason(done.stderr)
                self.failed(commit, reason)
        self.git("clean", "-ffdxq")

    @contextlib.contextmanager
    def reading(self, source: str) -> Iterator[None]:
        """Turns a failure of git in the block into what failed() raises."""
        try:
            yield
        except subprocess.CalledProcessError as err:
            self.failed(source, _reason(err.stderr))

    def failed(self, source: str, reason: str) -> NoReturn:
        """Raise DamagedSourceError as check() does, or KernelError, as of a partial clone."""
        self.check(source, reason)
        raise KernelError(
            f"The source of {_short(source)} is not whole: {reason}.",
            "Fetch what is missing (git fetch --refetch), or name a complete clone.",
        )

    def check(self, source: str, reason: str = "") -> None:
        """Raise DamagedSourceError where kentry's own copy is not whole, once that is removed.

        Objects always have to have their hashes; where git failed for a `reason`, none may be lost.
        """
        damaged = [own for own in (self, self._lender) if own and own._is_damaged(bool(reason))]
        for own in damaged:
            own._remove()
        # Another kentry may have removed it, with the commits of patches.
        lost = reason and len(source) == _FULL_NAME and not self.git.has(f"{source}^{{commit}}")
        if damaged or lost:
            raise DamagedSourceError(
                f"kentry's own copy of the source of {_short(source)} was damaged.",
                f"Run the command again. If that does not help, remove {self.git.folder}.",
            )

    def _is_damaged(self, has_failed: bool) -> bool:
        # git does not look: of two objects that were exchanged it would write one as the other.
        objects = self.git.folder / "objects"
        try:
            loose = all(map(_is_object, objects.glob("[0-9a-f][0-9a-f]/*")))
            whole = loose and all(map(ends_with_its_hash, objects.glob("pack/pack-*")))
        except FileNotFoundError:
            # Another kentry removes it just now.
            return False
        if not whole or not has_failed:
            return not whole
        if (objects / "info/alternates").exists():
            # What is lost there may be the user's, who lends it.
            return not self.git.has("--git-dir")
        connected = ("fsck", "--connectivity-only", "--no-dangling", "--no-progress")
        return self.git(*connected, check=False).returncode > 0

    def _remove(self) -> None:
        seen = self.git.folder.stat().st_ino if self.git.folder.exists() else 0
        with self.locked(lambda _, now: say(now)):
            # Another kentry that found the same may have made a new one.
            if self.git.folder.exists() and self.git.folder.stat().st_ino == seen:
                self.git.remove()


def _short(source: str) -> str:
    return source[:12] if len(source) == _FULL_NAME else source


def _reason(stderr: str) -> str:
    lines = [line for line in stderr.splitlines() if line.strip()]
    return re.sub("^(fatal|error): ", "", (lines or ["git gave no reason"])[-1]).rstrip(".")


def _is_object(file: Path) -> bool:
    """Whether a loose object has the content whose SHA-1 is its name: gitformat-loose(5)."""
    digest, unpacking = hashlib.sha1(usedforsecurity=False), zlib.decompressobj()
    with contextlib.suppress(zlib.error), file.open("rb") as packed:
        while piece := packed.read(_PIECE):
            digest.update(unpacking.decompress(piece))
    # git writes it as tmp_obj_XXXXXX and renames it.
    is_whole = unpacking.eof and digest.hexdigest() == file.parent.name + file.name
    return is_whole or file.name.startswith("tmp_obj_")


def ends_with_its_hash(file: Path) -> bool:
    """Whether the last 20 bytes are the SHA-1 of all others, as in git's packs and indexes."""
    digest, kept = hashlib.sha1(usedforsecurity=False), b""
    with file.open("rb") as packed:
        while piece := packed.read(_PIECE):
            piece = kept + piece
            kept = piece[-20:]
            digest.update(piece[:-20])
    return kept == digest.digest()


@dataclass(frozen=True)
class Revision:
    """The source of one kernel, a commit; `origin` says for people what that is."""

    repository: Repository
    commit: str
    tree: str
    origin: dict[str, str] = field(default_factory=dict)

    def file(self, name: str) -> str | None:
        """Return the text of a file of the source; None where there is none of that name."""
        done = self.repository.git("cat-file", "blob", f"{self.commit}:{name}", check=False)
        if done.returncode:
            self.repository.check(self.commit, "a file was not found")
            return None
        return done.stdout

    def version(self) -> tuple[int, int]:
        """Read VERSION and PATCHLEVEL of its Makefile; KernelError where it has none."""
        text = self.file("Makefile") or ""
        number = r"^VERSION *= *(\d{1,9})\s*^PATCHLEVEL *= *(\d{1,9})\b"
        if not (match := re.search(number, text, re.MULTILINE)):
            raise KernelError(
                "The Makefile of the source does not say which kernel it is.",
                "Name the top folder of a Linux source tree.",
            )
        return int(match[1]), int(match[2])
