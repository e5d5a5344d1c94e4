# SPDX-License-Identifier: GPL-2.0-or-later
"""tree:DIR[@REV], a git checkout or an unpacked tree, and commits between two; all is only read.

A line of commits follows first parents, as git log --first-parent does: one commit of it is one
step, and a merge is a step with commits of its own.
"""

import hashlib
import itertools
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from kentry.errors import UserError
from kentry.kernels.repository import (
    Git,
    Repository,
    Revision,
    ends_with_its_hash,
    in_folder,
    status,
)
from kentry.kernels.spec import Spec
from kentry.progress import Update, printable, say

# What the top folder of the kernel's source has.
_TOP_FILES = ("Makefile", "Kconfig", "Kbuild")
_CHANGED_NAMED = 3
_ABBREVIATED = 12


def revision(spec: Spec, update: Update) -> Revision:
    """Return the source that the spec names; UserError says what is wrong with it."""
    folder, commit_name = split(spec.value)
    if not folder.is_dir():
        raise UserError(
            f"There is no folder {folder}.",
            "Name a kernel's source tree: tree:DIR or tree:DIR@REV.",
        )
    # git reads a lone @ as HEAD, but DIR@@ is a slip of the keyboard.
    if commit_name in ("", "@"):
        raise UserError(
            f"'{spec.text}' names no commit after the @.",
            f"Write tree:{folder}@HEAD, or leave the @ out to measure the tree as it is.",
        )
    if is_repository(folder, commit_name):
        if commit_name is None and (changed := local_changes(folder)):
            raise UserError(
                f"{folder} has local changes: {changed}.",
                f"Commit or stash them, or name the commit to measure: tree:{folder}@HEAD.",
            )
        return of_commit(folder, commit_name or "HEAD")
    if commit_name is not None:
        raise UserError(
            f"{folder} is not a git repository, so it has no {commit_name}.",
            f"Leave @{commit_name} out to measure the tree as it is.",
        )
    # git keeps the times of what it has read, so that only changed files are read again.
    if not all((folder / name).is_file() for name in _TOP_FILES):
        raise _not_a_kernel(str(folder))
    top = folder.resolve()
    repository = Repository(f"unpacked {top}")
    with repository.locked(update), repository.reading(top.name):
        repository.git.init()
        tree = take_files(repository, top, update)
        commit = repository.commit(f"unpacked tree {folder.name}", tree)
    digest = hashlib.sha256(str(top).encode()).hexdigest()[:_ABBREVIATED]
    origin = {"kind": "tree", "unpacked": f"{folder.name} ({digest})"}
    return Revision(repository, commit, tree, origin)


def local_changes(folder: Path) -> str:
    """Return the first files of a checkout that differ from its commit; "" where none does."""
    # A clone without a checkout has no index, and so no files that could differ.
    in_work_tree = in_folder(folder, "rev-parse", "--is-inside-work-tree").stdout.strip()
    if in_work_tree != "true" or not _git_path(folder, "index").exists():
        return ""
    done = status(folder)
    changed = [line[3:] for line in done.stdout.splitlines()]
    if done.returncode:
        raise UserError(
            f"git cannot tell whether {folder} has local changes: {done.stderr.strip()}",
            f"Look at git -C {folder} status.",
        )
    return ", ".join([*changed[:_CHANGED_NAMED], *["..."] * (len(changed) > _CHANGED_NAMED)])


def split(value: str) -> tuple[Path, str | None]:
    """Split DIR@REV; a folder may itself have an @ in its name, and so may a REV."""
    whole = Path(os.path.expanduser(value))
    if whole.is_dir():
        return whole, None
    signs = [at for at in range(len(value) - 1, 0, -1) if value[at] == "@"]
    splits = [(Path(os.path.expanduser(value[:at])), value[at + 1 :]) for at in signs]
    known = [pair for pair in splits if pair[0].is_dir()]
    return next(iter(known or splits), (whole, None))


def is_repository(folder: Path, commit_name: str | None = None) -> bool:
    """Return whether `folder` is the top of a git checkout, or a repository without one."""
    top = in_folder(folder, "rev-parse", "--show-toplevel")
    if not top.returncode:
        return Path(top.stdout.strip()) == folder.resolve()
    has_repository = (folder / ".git").exists() or (folder / "HEAD").exists()
    if "dubious ownership" in top.stderr and has_repository:
        raise UserError(
            f"git does not read {folder}: it belongs to another user.",
            f"Run: git config --global --add safe.directory {folder.resolve()}",
        )
    bare = in_folder(folder, "rev-parse", "--is-bare-repository").stdout.strip() == "true"
    if bare and commit_name is None and has_repository:
        raise UserError(
            f"{folder} is a repository without a checkout.",
            f"Name the commit to measure: tree:{folder}@HEAD.",
        )
    return bare and commit_name is not None


def of_commit(folder: Path, name: str) -> Revision:
    """Return a commit of the user's repository, by any name git knows it by."""
    commit = full_name(folder, name)
    names = in_folder(folder, "ls-tree", "--name-only", commit).stdout.splitlines()
    if not set(_TOP_FILES) <= set(names):
        raise _not_a_kernel(f"{folder} at {commit[:_ABBREVIATED]}")
    objects = _git_path(folder, "objects").resolve()
    repository = Repository(f"git {objects}")
    repository.borrow_objects(objects, _git_path(folder, "shallow"))
    tree = in_folder(folder, "rev-parse", f"{commit}^{{tree}}").stdout.strip()
    arguments = ("log", "-1", "--no-show-signature", "--format=%cI %s", commit)
    date, _, subject = in_folder(folder, *arguments).stdout.strip().partition(" ")
    origin = {"kind": "tree", "commit": commit, "subject": printable(subject), "date": date}
    return Revision(repository, commit, tree, origin)


def _git_path(folder: Path, name: str) -> Path:
    arguments = ("rev-parse", "--path-format=absolute", "--git-path", name)
    return Path(in_folder(folder, *arguments).stdout[:-1])


def full_name(folder: Path, name: str) -> str:
    """Return the 40 digits of the commit called `name`; UserError where there is none."""
    done = in_folder(folder, "rev-parse", "--verify", "--quiet", f"{name}^{{commit}}")
    if name.startswith("-") or done.returncode:
        what = f"{folder} has no commit called '{name}'"
        if in_folder(folder, "rev-parse", "--is-shallow-repository").stdout.strip() == "true":
            remedy = f"Run: git -C {folder} fetch --unshallow"
            raise UserError(f"{what}: it is a shallow clone.", remedy)
        raise UserError(f"{what}.", "Name one that git log shows.")
    return done.stdout.strip()


def _not_a_kernel(what: str) -> UserError:
    return UserError(
        f"{what} is not the source of a Linux kernel.", "Name the top folder of its source tree."
    )


def take_files(repository: Repository, top: Path, update: Update) -> str:
    """Read every file but a build's products into the repository; return the id of their tree."""
    git = Git(repository.git.folder, top, "import-index", confined=True)
    (git.folder / "import-index.lock").unlink(missing_ok=True)
    update(None, f"reading the source in {top.name}")
    # Debian's packages have the .gitignore of its packaging, which ignores everything.
    ignored = ("check-ignore", "--quiet", "--no-index", "Makefile")
    everything = not git(*ignored, check=False).returncode
    if everything and (top / "include/config").exists():
        raise UserError(
            f"{top} has been built in, and its .gitignore does not tell source from products.",
            "Run make mrproper in it, or unpack it anew.",
        )
    index = git.folder / "import-index"
    if index.exists() and not ends_with_its_hash(index):
        index.unlink()
    # A git that was killed leaves what it had packed.
    for left in (git.folder / "objects/pack").glob("tmp_*"):
        left.unlink()
    # Into a pack, which is one file and ends with its hash, and not 80,000.
    packed = ("-c", "core.bigFileThreshold=1")
    force = ("--force",) if everything else ()
    done = git(*packed, "add", "--all", *force, ".", check=False)
    if done.returncode:
        raise UserError(
            f"The source in {top} could not be read: {done.stderr.strip().partition(chr(10))[0]}",
            "Make every file readable, free some space, or unpack the tree anew.",
            done.stderr,
        )
    return git.line("write-tree")


_FIELDS = ("%H", "%P", "%an", "%aI", "%s")


@dataclass(frozen=True)
class Commit:
    """A commit: its full name, its parents' names, and what git log shows of it."""

    name: str
    parents: tuple[str, ...]
    author: str
    date: str
    subject: str

    @property
    def short(self) -> str:
        """The start of its name, as in "Fixes: 0123456789ab"."""
        return self.name[:_ABBREVIATED]


@dataclass(frozen=True)
class Range:
    """All commits that `bad` has and `start` has not: `good`, or where the two histories part."""

    folder: Path
    good: Commit
    start: Commit
    bad: Commit
    commits: Mapping[str, Commit]

    def line(self) -> list[Commit]:
        """From `start` to `bad`, each the parent of the next: the first parent where it can be."""
        later = {self.start.name}
        # The older ones first.
        for commit in reversed(list(self.commits.values())):
            if later.intersection(commit.parents):
                later.add(commit.name)
        line = [self.bad]
        while line[-1].name != self.start.name:
            name = next(parent for parent in line[-1].parents if parent in later)
            line.append(self.commits.get(name, self.start))
        return line[::-1]

    def branches(self, merge: Commit, before: Commit, known: set[str]) -> list[list[Commit]]:
        """Return what a merge brought to its parent `before`: a line for each other parent."""
        # It begins where it branched off; commits in `known` or older than the range are left out.
        branches = []
        for tip in merge.parents:
            line: list[Commit] = []
            name = tip
            while name in self.commits and name not in known:
                line.append(self.commits[name])
                if not line[-1].parents:
                    break
                name = line[-1].parents[0]
            if line and tip != before.name and line[-1].parents:
                branches.append([commit(self.folder, name), *reversed(line)])
        return branches

    def reachable(self, *names: str) -> set[str]:
        """Return those commits and all of the range that they have."""
        reached: set[str] = set()
        left = list(names)
        while left:
            name = left.pop()
            if name in self.commits and name not in reached:
                reached.add(name)
                left += self.commits[name].parents
        return reached


def find_range(folder: Path, good: str, bad: str) -> Range:
    """Find the range between two commits by any names that git knows; UserError if none."""
    if not folder.is_dir() or not is_repository(folder, bad):
        raise UserError(f"{folder} is not a git repository.", "Name one: --tree DIR.")
    old, new = (commit(folder, full_name(folder, name)) for name in (good, bad))
    if old.name == new.name:
        raise UserError(f"{good} and {bad} are one commit.", "Name two.")
    base = in_folder(folder, "merge-base", old.name, new.name).stdout.strip()
    if not base:
        raise UserError(
            f"{good} and {bad} have no commit in common that this repository knows.",
            f"In a shallow clone run: git -C {folder} fetch --unshallow",
        )
    if base == new.name:
        raise UserError(
            f"{bad} is older than {good}.",
            "Swap the two: the count may grow or shrink from the older one on.",
        )
    if changed := local_changes(folder):
        say(f"{folder} has local changes ({changed}); only what is committed is measured.")
    commits = {c.name: c for c in _log(folder, "--topo-order", f"{base}..{new.name}")}
    return Range(folder, old, commit(folder, base), new, commits)


def touching(folder: Path, line: Sequence[Commit], paths: Sequence[str]) -> list[int]:
    """Return the indexes of a line's commits that touch the paths, and of both ends; UserError."""
    if not paths:
        return list(range(len(line)))
    indexes = []
    for index, (old, new) in enumerate(itertools.pairwise(line), start=1):
        arguments = ("diff", "--quiet", "--no-ext-diff", old.name, new.name, "--", *paths)
        done = in_folder(folder, *arguments)
        if done.returncode > 1:
            reason = done.stderr.strip().partition("\n")[0].removeprefix("fatal: ")
            raise UserError(f"git cannot search the paths: {reason}.", "Name paths in the tree.")
        if done.returncode:
            indexes.append(index)
    if not indexes:
        raise UserError(
            f"No commit between the two touches {' '.join(paths)}.", "Name other paths, or none."
        )
    return sorted({0, *indexes, len(line) - 1})


def commit(folder: Path, name: str) -> Commit:
    """Return what git knows of a commit, by its full name."""
    return _log(folder, "-1", name)[0]


def changed_files(folder: Path, old: str, new: str) -> list[tuple[str, str]]:
    """Return the files that differ between two commits: (A, M, D or T, path)."""
    arguments = ("diff-tree", "-r", "-z", "--no-renames", "--name-status", old, new)
    done = in_folder(folder, *arguments)
    done.check_returncode()
    fields = done.stdout.split("\0")
    return list(zip(fields[::2], fields[1::2], strict=False))


def diff(folder: Path, old: str, new: str) -> str:
    """Return the text of the difference between two commits, without context."""
    arguments = ("diff", "--no-ext-diff", "--no-textconv", "--no-color", "-U0", old, new, "--")
    return in_folder(folder, *arguments).stdout


def _log(folder: Path, *arguments: str) -> list[Commit]:
    form = "%x00".join(_FIELDS)
    plain = ("-z", "--no-show-signature", "--no-color", "--no-follow")
    done = in_folder(folder, "log", *plain, f"--format={form}", *arguments, "--")
    done.check_returncode()
    fields = iter(done.stdout.split("\0"))
    return [
        Commit(name, tuple(parents.split()), printable(author), date, printable(subject))
        for name, parents, author, date, subject in zip(*[fields] * len(_FIELDS), strict=False)
    ]
