# SPDX-License-Identifier: GPL-2.0-or-later
"""Runs git: in repositories of kentry's own, and, only ever reading, in a user's."""

from __future__ import annotations

import contextlib
import re
import shutil
import subprocess
import tempfile
from pathlib import Path

from kentry.errors import UserError
from kentry.host.process import need, run

# What git itself sets for hooks (git rev-parse --local-env-vars): it names another repository.
_ANOTHER = (
    *("GIT_DIR", "GIT_WORK_TREE", "GIT_INDEX_FILE", "GIT_COMMON_DIR", "GIT_PREFIX"),
    *("GIT_OBJECT_DIRECTORY", "GIT_ALTERNATE_OBJECT_DIRECTORIES", "GIT_SHALLOW_FILE"),
    *("GIT_GRAFT_FILE", "GIT_NAMESPACE"),
)
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
_FULL = re.compile("No space left on device|Disk quota exceeded")

# Of a repository of ours: what a user's or a system's settings might change.  A kernel is
# 1.5 GB: deflating it harder would take minutes and save little.
_SETTINGS = {
    "core.bare": "false",
    "core.autocrlf": "false",
    "core.attributesFile": "/dev/null",
    "core.excludesFile": "/dev/null",
    "core.compression": "1",
    "core.fsync": "none",
    "core.hooksPath": "/dev/null",
    "core.untrackedCache": "true",
    "gc.auto": "0",
    "advice.detachedHead": "false",
}


class Git:
    """git in a repository of kentry's own: `folder` is its GIT_DIR, `work` its work tree."""

    def __init__(self, folder: Path, work: Path) -> None:
        self.folder = folder
        self._env = {
            **_PLAIN,
            **_NOBODY,
            "GIT_CONFIG_GLOBAL": "/dev/null",
            "GIT_DIR": str(folder),
            "GIT_WORK_TREE": str(work),
            "GIT_INDEX_FILE": str(folder / "index"),
        }
        self._work = work

    def __call__(self, *words: str, check: bool = True) -> subprocess.CompletedProcess[str]:
        """git WORDS in the work tree.

        UserError where the disk is full, with `check` subprocess.CalledProcessError for the rest.
        """
        cwd = self._work if self._work.is_dir() else self.folder
        own = [f"{name}={value}" for name, value in self._env.items()]
        unset = [f"--unset={name}" for name in (*_ANOTHER, *_SETTINGS_OF_USER)]
        argv = ["env", *unset, *own, need("git", "git"), *words]
        done = run(argv, cwd=cwd, check=False)
        if done.returncode and _FULL.search(done.stderr):
            raise UserError(
                f"No space is left for {self.folder}.",
                "Free some, or name another folder in KENTRY_CACHE.",
            )
        if check:
            done.check_returncode()
        return done

    def line(self, *words: str) -> str:
        """The one line that git WORDS prints."""
        return self(*words).stdout.strip()

    def init(self) -> None:
        """Makes the repository, or does nothing where there is one.

        It is there at once and whole: another kentry may look for it just now.
        """
        if (self.folder / "HEAD").exists():
            return
        new = Path(tempfile.mkdtemp(dir=self.folder.parent, prefix=".git."))
        words = ["init", "--quiet", "--initial-branch=master", "--template="]
        Git(new, self._work)(*words)
        text = "".join(
            f"[{name.partition('.')[0]}]\n\t{name.partition('.')[2]} = {value}\n"
            for name, value in _SETTINGS.items()
        )
        with (new / "config").open("a", encoding="utf-8") as file:
            file.write(text)
        with contextlib.suppress(OSError):
            new.rename(self.folder)
        shutil.rmtree(new, ignore_errors=True)

    def with_index(self, index: Path, work: Path) -> Git:
        """The same repository looking at another work tree through another index."""
        other = Git(self.folder, work)
        other._env["GIT_INDEX_FILE"] = str(index)
        return other

    def commit_tree(self, tree: str, message: str) -> str:
        """A commit without parents that has `tree`; the same one each time."""
        return self.line("commit-tree", "-m", message, tree)


def in_folder(folder: Path, *words: str) -> subprocess.CompletedProcess[str]:
    """git WORDS in a folder of the user's, which is only read; whatever its status."""
    # A file system monitor would be started, and keep files of its own in the repository.
    own = ["-c", "core.fsmonitor=false", "-C", str(folder)]
    argv = ["env", *(f"--unset={name}" for name in _ANOTHER), need("git", "git"), *own, *words]
    return run(argv, env={"GIT_OPTIONAL_LOCKS": "0", "LC_ALL": "C"}, check=False)
