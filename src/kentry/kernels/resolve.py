# SPDX-License-Identifier: GPL-2.0-or-later
"""What a user names -> a Kernel, the source of one, or the commits of a series to build."""

import os
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from kentry.arch import ARCHES, Arch, host_arch
from kentry.errors import PatchError, UserError
from kentry.kernels import build, debian, image, tree
from kentry.kernels.config import Request
from kentry.kernels.kernel import Kernel
from kentry.kernels.patches import Step, apply_patches, read_patches
from kentry.kernels.repository import Revision
from kentry.kernels.spec import FLOOR_CASES, Spec, parse
from kentry.kernels.tree import find_range
from kentry.progress import Update, progress
from kentry.results.recording import FLOOR

_READY: dict[str, Callable[[Spec, Arch, Update], Kernel]] = {
    "debian": debian.resolve,
    "deb": debian.resolve_file,
    "rpm": debian.resolve_file,
    "image": image.resolve,
    "running": image.resolve_running,
}
_SOURCES: dict[str, Callable[[Spec, Update], Revision]] = {
    "source": debian.revision,
    "tree": tree.revision,
}
_DEFAULTS = Request()


def arch_of(text: str) -> Arch | None:
    """Read the architecture from an image's or package's file; None for other specs; UserError.

    The running kernel has this machine's.
    """
    if text.partition(",")[0] == "running":
        return host_arch()
    if not text.startswith(("image:", "deb:", "rpm:")):
        return None
    spec = parse(text)
    if spec.kind == "image":
        return ARCHES[image.arch_of(spec.path())]
    with progress(f"reading {spec.value}") as update:
        return debian.arch_of(spec, update)


def resolve(spec: str, arch: Arch, update: Update, request: Request = _DEFAULTS) -> Kernel:
    """Fetch, or build as `request` says, the kernel that `spec` names; any KentryError."""
    parsed = parse(spec)
    if parsed.kind == FLOOR:
        raise UserError(
            f"'{spec}' runs no program: it has only {' and '.join(FLOOR_CASES)}, to be counted.",
            "Use it with kentry record, diff, annotate or check.",
        )
    if parsed.kind in _READY:
        return _READY[parsed.kind](parsed, arch, update)
    revision = resolve_source(spec, update)
    return build.kernel(spec, revision, arch, request.chosen(parsed.options), update)


def resolve_source(spec: str, update: Update) -> Revision:
    """Find the source of a tree: or source: spec, with its patches; UserError, PatchError."""
    parsed = parse(spec)
    if parsed.kind not in _SOURCES:
        raise UserError(
            f"'{spec}' is not a kernel's source, so it cannot be built with something changed.",
            "Name a source, like source:6.12 or tree:~/linux@HEAD.",
        )
    revision = _SOURCES[parsed.kind](parsed, update)
    if "patches" in parsed.options:
        patches = read_patches([parsed.path("patches")]).patches
        for step in apply_patches(revision, patches):
            if step.revision is None:
                raise PatchError(
                    f"Patch {step.number}, '{step.subject}', {step.problem}",
                    "kentry series shows what becomes of each patch.",
                )
            revision = step.revision
    return revision


@dataclass(frozen=True)
class Lineup:
    """The base, what to call it, its options of the build; the patches in order; notes on them."""

    base_spec: str
    options: Mapping[str, str]
    base: Revision
    steps: tuple[Step, ...]
    base_commit: str | None = None
    change_id: str | None = None
    notes: tuple[str, ...] = ()


def line_up(base: str, patches: Sequence[str], update: Update) -> Lineup:
    """Apply `patches` (files, folders, or one A..B) to `base`, but those that fail; UserError."""
    commits = _range(base, patches)
    if commits:
        return _of_range(*commits)
    if not patches:
        raise UserError(
            "There are no patches.", "Name files after the base, or commits: tree:DIR A..B."
        )
    series = read_patches([Path(os.path.expanduser(name)) for name in patches])
    revision = resolve_source(base, update)
    steps = tuple(apply_patches(revision, series.patches))
    trailers = (series.base_commit, series.change_id)
    return Lineup(base, parse(base).options, revision, steps, *trailers, series.notes)


def is_range(base: str, patches: Sequence[str]) -> bool:
    """Return whether `base` alone names commits of the tree here, A..B."""
    return not patches and ".." in base and ":" not in base and not Path(base).exists()


def _range(base: str, patches: Sequence[str]) -> tuple[str, Path, str, str] | None:
    """Return the spec of the folder, the folder, and A and B, where commits are named as A..B."""
    if is_range(base, patches):
        base, patches = "tree:.", [base]
    # No name of a commit begins with a slash: ../a.patch is a file that is not there.
    if len(patches) != 1 or not re.search(r"\.\.(?!/)", patches[0]):
        return None
    commits = patches[0]
    if Path(os.path.expanduser(commits)).exists():
        return None
    spec = parse(base)
    first, _, last = commits.partition("..")
    if spec.kind != "tree":
        if "/" in first:
            return None
        raise UserError(
            f"{commits} names commits, but {base} is not a git tree.",
            "Name the tree they are in: kentry series tree:DIR A..B.",
        )
    folder, name = tree.split(spec.value)
    start = first or name
    if last.startswith(".") or (name and first and last) or not start:
        raise UserError(f"{base} {commits} does not name two commits.", "Write tree:DIR A..B.")
    if not folder.is_dir() or not tree.is_repository(folder, start):
        raise UserError(f"{folder} is not a git repository.", "Name one: tree:DIR.")
    return base, folder, start, last or (name if first and name else "HEAD")


def _of_range(spec: str, folder: Path, first: str, last: str) -> Lineup:
    commits = find_range(folder, first, last)
    if any(len(commit.parents) > 1 for commit in commits.commits.values()):
        raise UserError(
            f"There are merges between {first} and {last}, so the commits are no series.",
            "Make them one line of commits: git rebase.",
        )
    steps = []
    for number, name in enumerate(reversed(list(commits.commits)), start=1):
        revision = tree.of_commit(folder, name)
        steps.append(Step(number, revision.origin["subject"], revision))
    base, is_first = commits.start, commits.start.name == commits.good.name
    parsed = parse(spec)
    base_spec = f"tree:{tree.split(parsed.value)[0]}@{first if is_first else base.short}"
    notes = [] if is_first else [f"the baseline is where {last} left {first}: {base.short}"]
    revision = tree.of_commit(folder, base.name)
    return Lineup(base_spec, parsed.options, revision, tuple(steps), notes=tuple(notes))
