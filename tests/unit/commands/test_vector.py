# SPDX-License-Identifier: GPL-2.0-or-later
"""kentry vector trace and stats as a user meets them, without a guest."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from kentry.boot.guest_tasks import Ending, TracedWorkload
from kentry.boot.task_hooks import Event
from kentry.cli import main
from kentry.commands import userland
from kentry.vector import tracing as trace_workload_module
from tests.unit.vector.traces import SVE_TRAP, save, trace_of

ROWS = [
    (Event.EXIT, 1, 1000, 0),
    (Event.USE, 1, 1100, 2),
    (Event.FAULT, 1, 1100, SVE_TRAP),
    (Event.SEEN_TRAP, 1, 1150, 0),
    (Event.EXIT, 1, 1200, 0),
    (Event.SYSCALL, 1, 1300, 93),
]


class Called(dict[str, Any]):
    """What the steps behind the command were given."""


@pytest.fixture
def called(monkeypatch: pytest.MonkeyPatch) -> Called:
    """A guest whose workload ends well; `ending` may be set to another end."""
    found = Called(ending=Ending(0, "hello"))

    def resolve(spec: str, arch: Any, update: Any, request: Any) -> str:
        found.update(spec=spec, arch=arch.name, request=request)
        return "the kernel"

    def build(arch: Any, workload: Any, release: Any, memory: int, update: Any) -> TracedWorkload:
        found.update(asked=workload, release=release.name, memory=memory)
        about = {"name": workload.name, "release": release.name}
        return TracedWorkload(Path("/rootfs.cpio"), ("a=b",), about)

    def trace(
        kernel: Any, arch: Any, workload: Any, options: Any, policy: Any, path: Path, update: Any
    ) -> Ending:
        found.update(workload=workload, options=options, policy=policy, path=path)
        status = found["ending"].status
        meta = {**workload.description, "command": [], "status": status}
        save(path, trace_of(ROWS, workload=meta, complete=status is not None))
        ending: Ending = found["ending"]
        return ending

    monkeypatch.setattr(userland, "resolve", resolve)
    monkeypatch.setattr(userland, "build_userland", build)
    monkeypatch.setattr(trace_workload_module, "trace_workload", trace)
    return found


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("KENTRY_CACHE", str(tmp_path / "cache"))


def traced(*words: str) -> int:
    return main(["vector", "trace", "debian:6.12", "--arch", "arm64", "-q", *words])


# --- trace ---------------------------------------------------------------


def test_a_workload_by_its_name(called: Called, capsys: pytest.CaptureFixture[str]) -> None:
    assert traced("--", "shell") == 0
    assert "shell-arm64.parquet" in capsys.readouterr().out
    assert called["path"] == Path("shell-arm64.parquet")
    assert called["asked"].name == "shell"
    assert called["release"] == "bookworm"
    workload, options = called["workload"], called["options"]
    assert workload.initramfs == Path("/rootfs.cpio")
    assert workload.words == ("a=b",)
    assert workload.description["release"] == "bookworm"
    assert (options.memory, options.timeout, options.seed) == (2048, 1800.0, 1)
    assert (options.vector_length, options.emulator) == (None, "installed")
    assert traced("--json", "--", "shell") == 0
    assert json.loads(capsys.readouterr().out)["schema"].startswith("kentry/vector-statistics/")


def test_a_command_and_what_it_needs(called: Called, tmp_path: Path) -> None:
    (tmp_path / "prog").write_text("x")
    words = ("--copy", f"{tmp_path}/prog:/opt/prog", "--packages", "bc,gawk", "--memory", "900")
    assert traced(*words, "-o", "x.parquet", "--", "/opt/prog", "-q", "--arch") == 0
    asked = called["asked"]
    assert asked.argv[-3:] == ("/opt/prog", "-q", "--arch")
    assert [copy.guest for copy in asked.copies] == ["/opt/prog"]
    assert set(asked.packages) == {"bc", "gawk"}
    assert called["memory"] == called["options"].memory == 900
    assert (tmp_path / "x.parquet").exists()


@pytest.mark.parametrize(
    ("ending", "datum"),
    [
        (Ending(3, "no such file"), "exit code 3"),
        (Ending(139, "oops"), "SIGSEGV"),
        (Ending(None, "hanging"), "did not end"),
    ],
)
def test_a_workload_that_fails_is_an_error_and_its_trace_is_kept(
    called: Called, capsys: pytest.CaptureFixture[str], ending: Ending, datum: str
) -> None:
    called["ending"] = ending
    assert traced("-o", "x.parquet", "--", "false") == 2
    captured = capsys.readouterr()
    assert datum in captured.err
    assert "x.parquet" in captured.err
    assert ending.output in captured.err
    assert captured.out
    assert Path("x.parquet").exists()
    assert main(["vector", "stats", "x.parquet", "-q"]) == 0


# --- stats ---------------------------------------------------------------


def test_stats_as_text_and_json(capsys: pytest.CaptureFixture[str]) -> None:
    save(Path("x.parquet"), trace_of(ROWS))
    assert main(["vector", "stats", "x.parquet"]) == 0
    assert "debian:6.12" in capsys.readouterr().out
    assert main(["vector", "stats", "x.parquet", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["schema"].startswith("kentry/vector-statistics/")
    assert main(["vector", "stats", "x.parquet", "--unit", "sme"]) == 0
