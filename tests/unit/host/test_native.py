# SPDX-License-Identifier: GPL-2.0-or-later
"""The compiled parts and LLVM's programs, and the error where one is missing."""

import os
import re
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from kentry.arch import find_arch, host_arch
from kentry.count.catalogue import cases_of_file
from kentry.errors import MissingToolError, UserError
from kentry.host import native
from tests import builders
from tests.processes import script

ARM64 = find_arch("arm64")


@pytest.mark.parametrize(
    ("find", "name", "words"),
    [
        (native.plugin_file, "kentry.so", "plugin is not .*install gcc .*make"),
        (native.tasks_plugin_file, "tasks.so", "plugin for tasks .*install gcc .*make"),
        (lambda: native.probe_file(ARM64), "probe-arm64", "arm64 .*gcc-aarch64-linux-gnu make"),
        (lambda: native.runner_file(ARM64), "runner-arm64", "runner for arm64 is not built"),
    ],
)
def test_a_part_is_there_or_its_package_is_named(
    find: Callable[[], Path], name: str, words: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(native, "_FOLDER", tmp_path)
    with pytest.raises(MissingToolError, match=words):
        find()
    (tmp_path / name).touch()
    assert find() == tmp_path / name


CASE = '#include "case.h"\nCASE(mine, "mine", "one of mine", .first = CALL(getppid));\n'
HOSTILE = [
    ("char endless[1UL << 40] = { 1 };\n", "does not compile: .*[Ff]ile (size|too)"),
    ('#include "/dev/zero"\n', "does not compile: .*out of memory"),
    ('#include "FOLDER/fifo"\n', "does not compile: .*No such file"),
    ('__asm__(".incbin \\"FOLDER/secret\\"");\n', "does not compile: .*"),
    ('CASE(other, "o|her", "s", .first = CALL(getppid));\n', "with a '|'"),
    ('CASE(other, "My case,+x", "s", .first = CALL(getppid));\n', "'My case,[+]x'"),
]


def with_case(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, text: str) -> list[str]:
    """The cases of a probe with a file of this text."""
    builders.needs_bubblewrap()
    monkeypatch.setenv("KENTRY_CACHE", str(tmp_path / "cache"))
    file = tmp_path / "mine.c"
    file.write_text(CASE + text.replace("FOLDER", str(tmp_path)))
    return cases_of_file(host_arch(), file, native.probe_with_case(host_arch(), file))


@pytest.mark.slow
def test_a_users_case_is_compiled(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert with_case(tmp_path, monkeypatch, "")[0] == "mine"
    # What is kept is looked at when it is used.
    [probe] = (tmp_path / "cache").rglob("probe-*")
    content = probe.read_bytes()
    probe.write_bytes(content[:-1] + b"\1")
    assert with_case(tmp_path, monkeypatch, "")[0] == "mine"
    assert probe.read_bytes() == content


@pytest.mark.slow
@pytest.mark.parametrize(("text", "sentence"), HOSTILE)
def test_a_hostile_case_ends_in_one_sentence(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, text: str, sentence: str
) -> None:
    os.mkfifo(tmp_path / "fifo")
    (tmp_path / "secret").write_text("secret")
    begun = time.monotonic()
    with pytest.raises(UserError) as caught:
        with_case(tmp_path, monkeypatch, text)
    assert re.search(sentence, caught.value.sentence)
    assert "\n" not in caught.value.sentence
    assert time.monotonic() - begun < 290
    written = [file.stat().st_size for file in tmp_path.rglob("*") if file.is_file()]
    assert max(written) < 64 << 20


@pytest.mark.slow
def test_without_a_sandbox_a_case_reads_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "secret").write_text("secret")
    monkeypatch.setattr(native, "confined", lambda argv, **_: argv)
    text = HOSTILE[3][0]
    assert with_case(tmp_path, monkeypatch, text)[0] == "mine"


@pytest.mark.parametrize("kind", ["fifo", "device", "large"])
def test_what_is_no_c_file_is_not_read(tmp_path: Path, kind: str) -> None:
    file = tmp_path / "case"
    if kind == "device":
        file = Path("/dev/zero")
    elif kind == "fifo":
        os.mkfifo(file)
    else:
        file.touch()
        os.truncate(file, 1 << 40)
    with pytest.raises(UserError):
        native.probe_with_case(host_arch(), file)


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The only one in PATH that is one."""
    monkeypatch.setattr(native, "_LLVM_FOLDERS", tmp_path / "none")
    monkeypatch.setenv("PATH", f"{tmp_path / 'none'}:{tmp_path / 'file'}:{tmp_path}")
    (tmp_path / "file").write_text("no folder")
    return tmp_path


def program(file: Path, version: str, status: int = 0) -> None:
    script(file, f"echo 'Debian LLVM version {version}'\nexit {status}")


def test_the_newest_is_taken_and_a_broken_one_only_where_there_is_no_other(folder: Path) -> None:
    with pytest.raises(MissingToolError, match="llvm-x"):
        native.newest_llvm("llvm-x")
    program(folder / "llvm-x-99", "99.1.0", status=1)
    assert native.newest_llvm("llvm-x") == folder / "llvm-x-99"
    program(folder / "llvm-x-9", "9.0.1")
    program(folder / "llvm-x", "14.0.6")
    assert native.newest_llvm("llvm-x") == folder / "llvm-x"


def test_another_program_beside_it_may_be_asked_for(folder: Path) -> None:
    program(folder / "llvm-x-15", "15.0.0")
    program(folder / "llvm-x-14", "14.0.0")
    program(folder / "llvm-y-14", "14.0.0")
    assert native.newest_llvm("llvm-x", beside="llvm-y") == folder / "llvm-x-14"
