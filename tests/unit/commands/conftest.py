# SPDX-License-Identifier: GPL-2.0-or-later
"""What tests of commands share: a folder and a cache of their own, and a guest that is played."""

from pathlib import Path
from typing import Any

import pytest

from kentry.boot.guest_tasks import Ending, TracedWorkload
from kentry.boot.task_hooks import Event
from kentry.commands import userland
from kentry.count import workload
from kentry.results.workload import read_workload
from kentry.vector import tracing
from tests import ROOT
from tests.unit.vector.traces import SVE_TRAP, save, trace_of

# What `kentry run` counts in the guest, and `kentry vector trace` records.
COUNTED = ROOT / "tests/golden/workload.json"
ROWS = [
    (Event.EXIT, 1, 1000, 0),
    (Event.USE, 1, 1100, 2),
    (Event.FAULT, 1, 1100, SVE_TRAP),
    (Event.SEEN_TRAP, 1, 1150, 0),
    (Event.EXIT, 1, 1200, 0),
    (Event.SYSCALL, 1, 1300, 93),
]


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The working folder, with an empty cache in it."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("KENTRY_CACHE", str(tmp_path / "cache"))
    return tmp_path


@pytest.fixture
def called(here: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """What a guest was given whose program ends well; `ending` may be set to another end."""
    given: dict[str, Any] = {"ending": Ending(0, "hello")}

    def build(arch: Any, asked: Any, release: Any, memory: int, update: Any) -> TracedWorkload:
        given.update(arch=arch.name, asked=asked, release=release.name, memory=memory)
        about = {"name": asked.name, "release": release.name}
        return TracedWorkload(Path("/rootfs.cpio"), ("a=b",), about)

    def run(kernel: Any, arch: Any, guest: Any, options: Any, update: Any, keep: Any) -> Any:
        given.update(workload=guest, options=options)
        if keep:
            keep("the run")
        return read_workload(COUNTED), given["ending"]

    def trace(
        kernel: Any, arch: Any, guest: Any, options: Any, policy: Any, path: Path, update: Any
    ) -> Any:
        given.update(workload=guest, options=options, path=path)
        ending = given["ending"]
        about = {**guest.description, "command": [], "status": ending.status}
        save(path, trace_of(ROWS, workload=about, complete=ending.status is not None))
        return ending

    monkeypatch.setattr(userland, "resolve", lambda *words: "the kernel")
    monkeypatch.setattr(userland, "build_userland", build)
    monkeypatch.setattr(workload, "run_workload", run)
    monkeypatch.setattr(tracing, "policy_of", lambda *words: "eager")
    monkeypatch.setattr(tracing, "write_records", lambda *words: given.update(written=words))
    monkeypatch.setattr(tracing, "trace_workload", trace)
    return given
