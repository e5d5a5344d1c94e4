# SPDX-License-Identifier: GPL-2.0-or-later
"""kentry's own repositories of kernel source, each with one work tree that is built from.

One work tree, because make compares times: git writes only the files that differ between
two commits, so only what they touch is compiled again.
"""

from __future__ import annotations

import contextlib
import hashlib
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from kentry.errors import KernelError
from kentry.host.cache import cache_dir, held, write_atomically
from kentry.kernels.git import Git
from kentry.progress import Update


class Repository:
    """A repository below the cache, by `key`: what it holds the source of."""

    def __init__(self, key: str) -> None:
        from filelock import FileLock

        digest = hashlib.sha256(key.encode()).hexdigest()
        self.folder = cache_dir("trees", digest[:16])
        self.work = self.folder / "linux"
        self.git = Git(self.folder / "git", self.work)
        self._lock = FileLock(self.folder / "lock")

    @contextlib.contextmanager
    def locked(self, update: Update) -> Iterator[None]:
        """Keeps every other kentry out while the block runs; may be nested."""
        with held(self._lock, update, f"another kentry that uses {self.folder}"):
            yield

    def borrow_objects(self, objects: Path, shallow: Path) -> None:
        """Makes the commits of a user's repository known to this one; nothing is copied."""
        self.git.init()
        (self.git.folder / "objects/info").mkdir(parents=True, exist_ok=True)
        texts = {"objects/info/alternates": f"{objects}\n"}
        if shallow.is_file():
            texts["shallow"] = shallow.read_text(encoding="ascii")
        else:
            (self.git.folder / "shallow").unlink(missing_ok=True)
        for name, text in texts.items():
            file = self.git.folder / name
            # Another kentry may be reading the file just now.
            if not file.exists() or file.read_text(encoding="utf-8") != text:
                write_atomically(file, text)

    def check_out(self, commit: str, update: Update) -> None:
        """Makes the work tree that of `commit`, whatever an interrupted run left there.

        The caller has the lock.
        """
        update(None, f"checking out {commit[:12]}")
        self.work.mkdir(exist_ok=True)
        # How git is left when it was killed in the middle of something.
        for pattern in ("*.lock", "refs/**/*.lock"):
            for left in self.git.folder.glob(pattern):
                left.unlink()
        reset = ("reset", "--quiet", "--hard", commit)
        done = self.git(*reset, check=False)
        if done.returncode:
            (self.git.folder / "index").unlink(missing_ok=True)
            done = self.git(*reset, check=False)
        if done.returncode:
            lines = [line for line in done.stderr.splitlines() if line.strip()]
            reason = re.sub("^(fatal|error): ", "", (lines or ["git gave no reason"])[-1])
            raise KernelError(
                f"The source of {commit[:12]} is not whole: {reason}.",
                "Fetch what is missing (git fetch --refetch), or name a complete clone.",
            )
        self.git("clean", "-ffdxq")

    def tree_of(self, commit: str) -> str:
        """The id of a commit's tree: the same source has the same one everywhere."""
        return self.git.line("rev-parse", f"{commit}^{{tree}}")


@dataclass(frozen=True)
class Revision:
    """The source of one kernel: a commit in a repository of kentry's own.

    `origin` says for people and recordings what that is.
    """

    repository: Repository
    commit: str
    tree: str
    origin: dict[str, str] = field(default_factory=dict)

    def version(self) -> tuple[int, int]:
        """VERSION and PATCHLEVEL of its Makefile; KernelError where it has none."""
        text = self.repository.git("show", f"{self.commit}:Makefile", check=False).stdout
        values = {}
        for line in text.splitlines()[:10]:
            name, found, value = line.partition("=")
            if found:
                values[name.strip()] = value.strip()
        try:
            return int(values["VERSION"]), int(values["PATCHLEVEL"])
        except (KeyError, ValueError) as err:
            raise KernelError(
                "The Makefile of the source does not say which kernel it is.",
                "Name the top folder of a Linux source tree.",
            ) from err
