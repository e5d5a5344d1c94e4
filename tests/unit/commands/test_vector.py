# SPDX-License-Identifier: GPL-2.0-or-later
"""kentry vector trace and stats as a user meets them, without a guest."""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any

import pytest

from kentry.arch import ARCHES
from kentry.cli import build_parser, main
from kentry.commands import vector_trace
from kentry.errors import KernelError, UserError
from kentry.kernels import resolve as resolve_module
from kentry.measure import workload as trace_workload_module
from kentry.measure.workload import Outcome
from kentry.runners.userland import root_image
from kentry.runners.userland.ending import Ending
from kentry.runners.userland.root_image import Userland
from kentry.vector.trace import Event, write_trace
from tests.unit.vector.traces import SVE_TRAP, trace_of

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

    def build(arch: Any, workload: Any, release: Any, memory: int, update: Any) -> Userland:
        found.update(asked=workload, release=release.name, memory=memory)
        return Userland(workload, release, Path("/rootfs.cpio"), ("a=b",), 1, 2, (), "0" * 64)

    def trace(
        kernel: Any, arch: Any, workload: Any, options: Any, policy: Any, path: Path, update: Any
    ) -> Outcome:
        found.update(workload=workload, options=options, policy=policy, path=path)
        status = found["ending"].status
        meta = {"name": workload.name, "command": [], "release": "bookworm", "status": status}
        write_trace(path, trace_of(ROWS, workload=meta, complete=status is not None))
        return Outcome(found["ending"], len(ROWS), 4, "QEMU 10.0.2")

    monkeypatch.setattr(resolve_module, "resolve", resolve)
    monkeypatch.setattr(root_image, "build_userland", build)
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
    out = capsys.readouterr().out
    assert out.startswith("shell on debian:6.12 (arm64)")
    assert "The trace is in shell-arm64.parquet" in out
    assert called["path"] == Path("shell-arm64.parquet")
    assert called["asked"].name == "shell"
    assert called["release"] == "bookworm"
    workload, options = called["workload"], called["options"]
    assert workload.guest.initramfs == Path("/rootfs.cpio")
    assert workload.guest.words == ("a=b",)
    assert workload.description["release"] == "bookworm"
    assert (options.memory, options.timeout, options.seed) == (2048, 1800.0, 1)
    assert (options.cpu, options.vector_length, options.emulator) == (None, None, "installed")


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
    ("words", "length"),
    [
        (("--cpu", "neoverse-v1,sve128=on"), 256),
        (("--cpu", "neoverse-n2"), 128),
        (("--cpu", "max,sve-max-vq=4", "--vl", "512"), 512),
        (("--vl", "256"), 256),
        ((), None),
    ],
)
def test_a_cpus_vector_length_is_known_or_said(
    called: Called, words: tuple[str, ...], length: int | None
) -> None:
    assert traced(*words, "--", "true") == 0
    assert called["options"].vector_length == length


def test_as_json(called: Called, capsys: pytest.CaptureFixture[str]) -> None:
    assert traced("--json", "--", "shell") == 0
    assert json.loads(capsys.readouterr().out)["schema"].startswith("kentry/vector-statistics/")


@pytest.mark.parametrize(
    ("ending", "sentence"),
    [
        (Ending(3, "no such file"), "The workload ended with exit code 3; what was recorded"),
        (Ending(139, "oops"), "The workload was ended by SIGSEGV; what was recorded of it is in"),
        (Ending(None, "hanging"), "The workload did not end; what was recorded of it is in x"),
    ],
)
def test_a_workload_that_fails_is_an_error_and_its_trace_is_kept(
    called: Called, capsys: pytest.CaptureFixture[str], ending: Ending, sentence: str
) -> None:
    called["ending"] = ending
    assert traced("-o", "x.parquet", "--", "false") == 2
    captured = capsys.readouterr()
    assert captured.err.startswith(f"kentry: {sentence}")
    assert ending.output in captured.err
    assert "command on debian:6.12 (arm64)" in captured.out
    assert Path("x.parquet").exists()
    assert main(["vector", "stats", "x.parquet", "-q"]) == 0


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (("--vl", "300", "--", "true"), "No emulated arm64 cpu has vectors of 300 bits."),
        (("--cpu", "max", "--", "true"), "How long the vectors of --cpu max are is not known."),
        (("--timeout", "0", "--", "true"), "--timeout 0 is not a time in seconds."),
        (("--timeout", "nan", "--", "true"), "--timeout nan is not a time in seconds."),
        (("--kernel-policy", "nonsense", "--", "true"), "nonsense"),
        (("--release", "potato", "--", "true"), "potato"),
        (("--copy", "/nonexistent/file", "--", "true"), "/nonexistent/file"),
        (("--copy", "/etc/hosts:etc", "--", "true"), "etc is no whole path in the guest"),
        (("-o", "/nonexistent/x.parquet", "--", "true"), "does not exist"),
        (("-o", "/", "--", "true"), "is a folder"),
        (("--set", "nonsense", "--", "true"), "nonsense"),
        (("--", ""), "There is no workload."),
    ],
)
def test_a_mistake_is_found_before_anything_is_fetched(
    called: Called, capsys: pytest.CaptureFixture[str], words: tuple[str, ...], sentence: str
) -> None:
    assert traced(*words) == 2
    assert sentence in capsys.readouterr().err
    assert "spec" not in called


@pytest.mark.parametrize(
    "words", [("--seed", "-1", "--", "true"), ("--seed", "x", "--", "true"), ()]
)
def test_a_word_that_is_none_is_the_parsers(words: tuple[str, ...]) -> None:
    assert traced(*words) == 2


def test_an_architecture_that_is_none(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["vector", "trace", "debian:6.12", "--arch", "vax", "--", "true"]) == 2
    assert "Unknown architecture 'vax'" in capsys.readouterr().err


def test_what_goes_wrong_behind_it_is_said(
    called: Called, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def trace(*words: object) -> Outcome:
        raise KernelError("debian:6.12 has no type information.", "Use another.")

    monkeypatch.setattr(trace_workload_module, "trace_workload", trace)
    assert traced("--", "true") == 2
    assert capsys.readouterr().err == (
        "kentry: debian:6.12 has no type information.\nkentry: Use another.\n"
    )


def test_the_length_of_a_core_is_from_the_architectures_record() -> None:
    assert vector_trace._length_of("neoverse-v1", ARCHES["arm64"]) == 256
    with pytest.raises(UserError, match="is not known") as caught:
        vector_trace._length_of("rv64,vlen=256", ARCHES["riscv64"])
    assert caught.value.remedy == "Add --vl BITS."


# --- stats ---------------------------------------------------------------


def test_stats_as_text_and_json(capsys: pytest.CaptureFixture[str]) -> None:
    write_trace(Path("x.parquet"), trace_of(ROWS))
    assert main(["vector", "stats", "x.parquet"]) == 0
    assert "boot on debian:6.12 (arm64)" in capsys.readouterr().out
    assert main(["vector", "stats", "x.parquet", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["schema"].startswith("kentry/vector-statistics/")
    assert main(["vector", "stats", "x.parquet", "--unit", "sme"]) == 0


@pytest.mark.parametrize("name", ["shares", "gaps"])
def test_stats_draw_where_they_are_told_to(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    write_trace(Path("x.parquet"), trace_of(ROWS))
    assert main(["vector", "stats", "x.parquet", f"--{name}", "x.svg"]) == 0
    assert Path("x.svg").read_text().startswith("<?xml")
    assert main(["vector", "stats", "x.parquet", f"--{name}", "/nonexistent/x.svg"]) == 2
    assert "does not exist" in capsys.readouterr().err


def test_stats_of_what_is_no_trace(capsys: pytest.CaptureFixture[str]) -> None:
    Path("x").write_text("x" * 200)
    for name, sentence in (("x", "x is not a vector trace"), ("none", "none cannot be read")):
        assert main(["vector", "stats", name]) == 2
        assert sentence in capsys.readouterr().err


# --- vector --------------------------------------------------------------


@pytest.mark.parametrize(
    ("words", "verbose", "quiet"),
    [
        (["vector", "stats", "x"], False, False),
        (["vector", "-v", "stats", "x"], True, False),
        (["vector", "stats", "-v", "x"], True, False),
        (["vector", "-q", "stats", "x"], False, True),
        (["vector", "-v", "stats", "x", "-q"], True, True),
    ],
)
def test_common_words_may_stand_on_either_side(
    words: list[str], verbose: bool, quiet: bool
) -> None:
    args: argparse.Namespace = build_parser().parse_args(words)
    assert (args.verbose, args.quiet) == (verbose, quiet)
