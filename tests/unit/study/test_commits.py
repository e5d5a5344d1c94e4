# SPDX-License-Identifier: GPL-2.0-or-later
"""Which commits are built and booted: builds and boots are pretended, git and made_of are real."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from kentry.boot.exact import ExactOptions
from kentry.count import cache
from kentry.errors import BuildError
from kentry.host.cache import cache_dir, write_manifest
from kentry.kernels import build, made_of
from kentry.kernels.config import Request
from kentry.kernels.made_of import MadeOf
from kentry.kernels.repository import Revision
from kentry.kernels.tree import Commit, find_range
from kentry.results.recording import INSTRUCTIONS, Recording
from kentry.study.commits import Commits, Kernels
from tests.builders import recording
from tests.unit.kernels import fakes, sources

FILES = frozenset({"kernel/fork.c", "arch/arm64/entry.S", "include/linux/kconfig.h"})
COUNT = "count"


class Machine:
    """Builds what kernel/fork.c says (its lines but comments), and boots it: a count a line."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.built: list[str] = []
        self.booted: list[str] = []
        monkeypatch.setattr(build, "plan", self.plan)
        monkeypatch.setattr(build, "built", self.build)
        monkeypatch.setattr(build, "kernel", self.kernel)
        monkeypatch.setattr(cache, "record", self.boot)

    def plan(self, revision: Revision, *_: object) -> Any:
        return SimpleNamespace(key=lambda: revision.tree, revision=revision)

    def build(self, plan: Any, *_: object) -> Path:
        folder = cache_dir("built", plan.key())
        self.built.append(plan.revision.origin["subject"])
        lines = self.lines(plan.revision)
        if "broken" in lines:
            folder.rmdir()
            raise BuildError("does not build: fork.c", "Look.")
        objects = {"kernel/fork.o": " ".join(lines), "kernel/other.o": "x"}
        functions = {COUNT: frozenset({"kernel/fork.o"})}
        file = made_of.write(folder, MadeOf(FILES, objects, functions, {COUNT: (len(lines),)}))
        write_manifest(folder, [file.name])
        return folder

    def kernel(self, spec: str, revision: Revision, *_: object, **__: object) -> Revision:
        self.build(self.plan(revision))
        return revision

    def boot(self, kernel: Revision, *_: object, **__: object) -> Recording:
        self.booted.append(kernel.origin["subject"])
        return recording({"getppid": [(COUNT, len(self.lines(kernel)))]})

    def lines(self, revision: Revision) -> list[str]:
        text = revision.repository.git("show", f"{revision.commit}:kernel/fork.c").stdout
        return [line for line in text.splitlines() if not line.startswith("//")]


@pytest.fixture
def machine(monkeypatch: pytest.MonkeyPatch) -> Machine:
    return Machine(monkeypatch)


def line(tmp_path: Path, *changes: tuple[str, str]) -> tuple[Path, list[Commit]]:
    """A tree with a commit of a file and its text for each change, the first one's number 0."""
    folder = sources.repository(tmp_path / "linux", {"kernel/fork.c": "a\n"})
    for number, (file, text) in enumerate(changes):
        sources.commit(folder, str(number), {file: text})
    span = find_range(folder, f"HEAD~{len(changes)}", "HEAD")
    return folder, span.line()[1:]


def measured(folder: Path, state: Path, commits: Sequence[Commit], boot: bool = False) -> Commits:
    """All commits, one after the other, each beside the one before."""
    state.mkdir(exist_ok=True)
    kernels = Kernels(folder, fakes.ARM64, Request(), ExactOptions(("getppid",)))
    kept = Commits(state, kernels, ("getppid",), INSTRUCTIONS, lambda fraction, now: None)
    for place, commit in enumerate(commits):
        kept.measure([commit], commits[max(0, place - 1) : place], boot=boot)
    return kept


def test_no_more_is_built_and_booted_than_must_be(machine: Machine, tmp_path: Path) -> None:
    folder, commits = line(
        tmp_path,
        ("kernel/fork.c", "a\nb\n"),
        ("Documentation/x.rst", "no kernel has it"),
        ("MAINTAINERS", "nor this"),
        ("kernel/fork.c", "// a comment\na\nb\n"),
        ("kernel/fork.c", "a\nb\nc\n"),
        ("kernel/fork.c", "broken\n"),
        ("kernel/fork.c", "a\nb\n"),
    )
    kept = measured(folder, tmp_path / "state", commits)
    steps = list(kept.steps.values())
    assert [step.status for step in steps] == [
        *("measured", "not-compiled", "not-compiled", "same-code"),
        *("measured", "build-failed", "measured"),
    ]
    assert [step.value for step in steps] == [2, 2, 2, 2, 3, None, 2]
    # A stand-in is the commit that was booted.
    assert {step.like for step in steps} == {"", commits[0].name}
    assert machine.booted == ["0", "4", "6"]
    assert set(machine.built) == {"0", "3", "4", "5", "6"}


def test_a_run_that_goes_on_knows_what_was_measured(machine: Machine, tmp_path: Path) -> None:
    folder, commits = line(tmp_path, ("kernel/fork.c", "a\nb\n"), ("MAINTAINERS", "x"))
    first = measured(folder, tmp_path / "state", commits)
    again = measured(folder, tmp_path / "state", commits)
    assert machine.booted == ["0"]
    assert again.steps == first.steps
    # With `boot` a stand-in is not enough.
    measured(folder, tmp_path / "state", commits, boot=True)
    assert machine.booted == ["0", "1"]
