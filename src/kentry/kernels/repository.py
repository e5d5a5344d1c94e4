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
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from kentry.errors import DamagedSourceError, KernelError, UserError
from kentry.host import sandbox
from kentry.host.cache import (
    cache_dir,
    check_room,
    held,
    no_space_is_an_error,
    write_atomically,
)
from kentry.host.process import need, run
from kentry.progress import Update, say

# What git itself sets for hooks (git rev-parse --local-env-vars): it names another repository.
_ANOTHER = (
    *("GIT_DIR", "GIT_WORK_TREE", "GIT_INDEX_FILE", "GIT_COMMON_DIR", "GIT_PREFIX"),
    *("GIT_OBJECT_DIRECTORY", "GIT_ALTERNATE_OBJECT_DIRECTORIES", "GIT_SHALLOW_FILE"),
    *("GIT_GRAFT_FILE", "GIT_NAMESPACE"),
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

# With less room than that a work tree, of more than 1 GB, could not be written.
_ROOM_BYTES = 16 << 20

# What a user's settings might change.  To deflate 1.5 GB harder would take minutes.
_SETTINGS = """\
[core]
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
        return self.folder.exists() and not self("rev-parse", "-q", *what, check=False).returncode

    def init(self) -> None:
        """Make the repository where there is none, at once and whole: others may look for it."""
        if self.folder.exists():
            with contextlib.suppress(OSError, ValueError):
                settings = (self.folder / "config").read_text(encoding="utf-8")
                if settings.endswith(_SETTINGS) and self.has("--git-dir"):
                    return
            say(f"{self.folder} is damaged. It is made again.")
            shutil.rmtree(self.folder, ignore_errors=True)
        new = Path(tempfile.mkdtemp(dir=self.folder.parent, prefix=".git."))
        Git(new, self._work)("init", "--quiet", "--initial-branch=master", "--template=")
        with (new / "config").open("a", encoding="utf-8") as file:
            file.write(_SETTINGS)
        with contextlib.suppress(OSError):
            new.rename(self.folder)
        shutil.rmtree(new, ignore_errors=True)


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
            f"The settings of {folder} name a filter that is no text.",
            f"Remove it from {folder}/.git/config.",
        )
    # -c name=value takes a = in a name for that of the value.
    without = [f"--config-env={name}={_NOTHING}" for name in sorted(names)]
    changes = ("status", "--porcelain", "--untracked-files=no", "--ignore-submodules=all")
    return in_folder(folder, *without, *changes)


class Repository:
    """A repository below the cache, by `key`: what it holds the source of; or in a `folder`."""

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
        texts = {"objects/info/alternates": f"{objects}\n"}
        if shallow.is_file():
            texts["shallow"] = shallow.read_text(encoding="ascii")
        else:
            (self.git.folder / "shallow").unlink(missing_ok=True)
        for name, text in texts.items():
            # Another kentry may be reading the file just now.
            write_atomically(self.git.folder / name, text)

    def check_out(self, commit: str, update: Update) -> None:
        """Make the work tree that of `commit`, whatever was there; the caller has the lock."""
        short = commit[:12]
        update(None, f"checking out {short}")
        self.work.mkdir(exist_ok=True)
        # How git is left when it was killed in the middle of something.
        for pattern in ("*.lock", "refs/**/*.lock"):
            for left in self.git.folder.glob(pattern):
                left.unlink()
        reset = ("reset", "--quiet", "--hard", commit)
        done = self.git(*reset, check=False)
        if done.returncode:
            # git says which file it could not write, and not why.
            check_room(self.work, _ROOM_BYTES)
            (self.git.folder / "index").unlink(missing_ok=True)
            done = self.git(*reset, check=False)
        if done.returncode:
            reason = _reason(done.stderr)
            unread = r"^error: unable to read \S+ file of (.*) \("
            if files := re.findall(unread, done.stderr, re.MULTILINE):
                more = f" and {len(files) - 1} more files" if len(files) > 1 else ""
                reason = f"{files[0]}{more} is missing"
            self.check_objects(short, reason)
            raise not_whole(short, reason)
        if wrong := self._wrong_file(commit):
            self.check_objects(short, f"{wrong} is not what its name in git says")
        self.git("clean", "-ffdxq")

    def _wrong_file(self, commit: str) -> str:
        """Return a file of the work tree that is not that of the commit; "" where all are."""
        # git writes an object into a file and does not look whether the object has its hash.  This
        # index has the times of files whose content was compared: only others are read again.
        git = Git(self.git.folder, self.work, "compared-index")
        if git("read-tree", "--reset", commit, check=False).returncode:
            (git.folder / "compared-index").unlink(missing_ok=True)
            git("read-tree", "--reset", commit)
        compared = git("update-index", "--ignore-submodules", "--refresh", check=False)
        return compared.stdout.partition(": needs update")[0] if compared.returncode else ""

    @contextlib.contextmanager
    def reading(self, source: str) -> Iterator[None]:
        """Turns a failure of git in the block into what it says of the source; KernelError."""
        try:
            yield
        except subprocess.CalledProcessError as err:
            reason = _reason(err.stderr)
            self.check_objects(source, reason)
            raise not_whole(source, reason) from err

    def check_objects(self, source: str, reason: str) -> None:
        """Look at kentry's own objects; removes damaged ones and raises DamagedSourceError."""
        damaged = [own for own in (self, self._lender) if own and own._is_damaged()]
        for own in damaged:
            shutil.rmtree(own.git.folder, ignore_errors=True)
        if damaged:
            raise DamagedSourceError(
                f"kentry's own copy of the source of {source} was damaged: {reason}.",
                "It is removed. Run the command again, which makes a new one.",
            )

    def _is_damaged(self) -> bool:
        fsck = Git(self.git.folder, self.work, "no-index")
        own_objects = ("fsck", "--no-full", "--no-dangling", "--no-progress")
        status = fsck(*own_objects, check=False).returncode
        # 1 is an object that is not whole.  Another repository lends what is missing (2).
        lent = (self.git.folder / "objects/info/alternates").exists()
        return status & 1 == 1 if lent else status != 0


def _reason(stderr: str) -> str:
    lines = [line for line in stderr.splitlines() if line.strip()]
    return re.sub("^(fatal|error): ", "", (lines or ["git gave no reason"])[-1])


def not_whole(source: str, reason: str) -> KernelError:
    """Return the error where files of a source are missing, as in a partial clone."""
    return KernelError(
        f"The source of {source} is not whole: {reason}.",
        "Fetch what is missing (git fetch --refetch), or name a complete clone.",
    )


@dataclass(frozen=True)
class Revision:
    """The source of one kernel, a commit; `origin` says for people what that is."""

    repository: Repository
    commit: str
    tree: str
    origin: dict[str, str] = field(default_factory=dict)

    def file(self, name: str) -> str | None:
        """Return the text of a file of the source; None where there is none of that name."""
        done = self.repository.git("show", f"{self.commit}:{name}", check=False)
        return None if done.returncode else done.stdout

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
