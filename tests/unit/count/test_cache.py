# SPDX-License-Identifier: GPL-2.0-or-later
"""Cached recordings: the key changes with the code that makes them, and with nothing else."""

import os
import shutil
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest

import kentry
from kentry.arch import find_arch
from kentry.boot.exact import ExactOptions
from kentry.count import cache
from kentry.errors import UserError
from kentry.host import native
from kentry.host.cache import check_room
from kentry.kernels import symtab
from kentry.kernels.kernel import Kernel, SymbolTable
from kentry.results.recording import Recording
from tests.builders import image_kernel
from tests.places import silent
from tests.unit.count.saved import save

PACKAGE = Path(kentry.__file__).parent
PARTS = {file.name for file in PACKAGE.iterdir() if file.suffix == ".py" or file.is_dir()}
# What stands between the probe's output and a recording.
FRESH = {
    *("arch", "boot", "count", "errors.py", "host", "kernels", "path", "progress.py", "results"),
    "stats",
}
TRACE = """\
message case getppid count 1
window 10 2 0 1 0 0 0 -
message case getppid path 1
insn 0 ffff800008010800 03000014 b #0xffff800008010804
insn 1 ffff800008010804 00000000 nop
path 0 2 0+2
window 8 2 0 1 0 0 0 0
"""
OPTIONS = ExactOptions(cases=("getppid",), windows=10, path_windows=8)
KERNEL = replace(
    image_kernel(),
    image_sha256="0" * 64,
    banner="Linux version 6.1",
    compiler="gcc",
    symbols=SymbolTable([0xFFFF800008010000, 0xFFFF800008010800], "TT", ["_text", "vectors"]),
)


@pytest.fixture(scope="module")
def copy(tmp_path_factory: pytest.TempPathFactory) -> Path:
    target = tmp_path_factory.mktemp("copy") / "kentry"
    ignored = shutil.ignore_patterns("__pycache__", "native")
    return Path(shutil.copytree(PACKAGE, target, ignore=ignored))


@pytest.mark.parametrize("part", sorted(PARTS - {"__init__.py", "__pycache__", "native"}))
def test_a_changed_byte_between_probe_and_recording_alone_makes_a_fresh_key(
    copy: Path, part: str
) -> None:
    path = copy / part
    files = {file: file.read_bytes() for file in ([path] if path.is_file() else path.rglob("*.py"))}
    for file, content in files.items():
        file.write_bytes(content + b"\n")
    cache.code_digest.cache_clear()
    digest = cache.code_digest(copy)
    for file, content in files.items():
        file.write_bytes(content)
    assert (digest != cache.code_digest(PACKAGE)) is (part in FRESH)


def key(kernel: Kernel = KERNEL, options: ExactOptions = OPTIONS) -> tuple[str, ...]:
    return tuple(cache.made_for(kernel, find_arch("arm64"), options).values())


@pytest.fixture
def saved(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A saved run that kentry uses instead of a boot."""
    save(tmp_path, TRACE)
    monkeypatch.setenv(cache.FAKE, str(tmp_path))
    monkeypatch.setenv("KENTRY_CACHE", str(tmp_path / "cache"))
    return tmp_path


def test_the_key_is_made_of_content(saved: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(symtab, "reader", lambda: "LLVM 19.1.0")
    moved = SymbolTable([0xFFFF800008010000, 0xFFFF800008010900], "TT", ["_text", "vectors"])
    keys = {
        key(),
        key(replace(KERNEL, symbols=moved)),
        key(replace(KERNEL, image_sha256="1" * 64)),
        key(replace(KERNEL, debug_info=saved / "vmlinux")),
        key(options=replace(OPTIONS, seed=2)),
    }
    assert len(keys) == 5
    assert key(options=replace(OPTIONS, timeout=1.0, console_file=saved)) == key()
    save(saved, TRACE, closing="spoilt 1\n")
    assert key() not in keys


def record(
    *, reuse: bool, kernel: Kernel = KERNEL, cases: tuple[str, ...] = ("getppid",)
) -> Recording:
    options = replace(OPTIONS, cases=cases)
    return cache.record(kernel, find_arch("arm64"), options, silent, reuse=reuse)


def kept(saved: Path) -> list[Path]:
    return sorted((saved / "cache" / "recordings").glob("*/*.json"))


def count(recording: Recording) -> int:
    return recording.cases[0].metrics["instructions"].value


def without_boot(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cache, "measure", lambda *_: pytest.fail("booted"))


def test_a_cached_recording_is_read_when_it_may_be_reused(
    saved: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    first = record(reuse=True)
    assert capsys.readouterr().err == ""
    assert record(reuse=False) == first
    assert "boots again" in capsys.readouterr().err
    without_boot(monkeypatch)
    assert record(reuse=True) == first


def test_a_damaged_recording_is_made_again(saved: Path, capsys: pytest.CaptureFixture[str]) -> None:
    first = record(reuse=True)
    (file,) = kept(saved)
    for text in ("{", file.read_text().replace("nop", "nap")):
        file.write_text(text)
        assert record(reuse=True) == first
        assert "made again" in capsys.readouterr().err


def test_a_recording_that_was_made_for_another_image_is_made_again(
    saved: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    other = replace(KERNEL, image_sha256="1" * 64, spec="image:other")
    own = [record(reuse=True), record(reuse=True, kernel=other)]
    first, second = kept(saved)
    content = first.read_bytes()
    first.write_bytes(second.read_bytes())
    second.write_bytes(content)
    assert [record(reuse=True), record(reuse=True, kernel=other)] == own
    assert capsys.readouterr().err.count("(image, spec differs)") == 2


TWO_CASES = f"""\
{TRACE}message case getpid count 1
window 10 3 0 1 0 0 0 -
message case getpid path 1
insn 2 ffff800008010808 00000000 isb
path 1 3 0+3
window 8 3 0 1 0 0 0 1
"""


def test_a_recording_of_more_cases_answers_for_one(
    saved: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    save(saved, TWO_CASES)
    both = record(reuse=True, cases=("getppid", "getpid"))
    assert [case.name for case in both.cases] == ["getppid", "getpid"]
    capsys.readouterr()
    assert [case.name for case in record(reuse=False, cases=("getpid",)).cases] == ["getpid"]
    assert "boots again" in capsys.readouterr().err
    for file in kept(saved):
        if '"cases": "getpid"' in file.read_text():
            file.unlink()
    without_boot(monkeypatch)
    one = record(reuse=True, cases=("getppid",))
    assert [case.name for case in one.cases] == ["getppid"]
    assert (count(one), len(one.code), len(both.code)) == (2, 2, 3)
    assert count(record(reuse=True, cases=("getpid",))) == 3
    with pytest.raises(pytest.fail.Exception):
        record(reuse=True, cases=("getpid", "read"))


def test_a_recording_that_lacks_lines_of_source_is_made_again(
    saved: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Once that is installed which its note names."""
    kernel = replace(KERNEL, debug_info=saved / "vmlinux")
    with monkeypatch.context() as without:
        without.setattr(native, "_LLVM_FOLDERS", saved)
        without.setenv("PATH", "")
        notes = [one["text"] for one in record(reuse=True, kernel=kernel).caveats]
        missing = key(kernel)
    assert any("llvm-symbolizer is not installed. Run: apt-get install" in one for one in notes)
    monkeypatch.setattr(symtab, "reader", lambda: "22.1.8")
    assert key(kernel) != missing


def test_a_full_disk_or_one_without_free_inodes_is_an_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(UserError, match="MiB"):
        check_room(tmp_path, 1 << 60)
    names = ("f_bavail", "f_frsize", "f_files", "f_favail")
    for files, free, full in ((1000, 1000, False), (1000, 3, True), (0, 0, False)):
        disk = SimpleNamespace(**dict(zip(names, (1 << 20, 4096, files, free), strict=True)))
        monkeypatch.setattr(os, "statvfs", lambda _, disk=disk: disk)
        if full:
            with pytest.raises(UserError, match="3 free inodes"):
                check_room(tmp_path, 1)
        else:
            check_room(tmp_path, 1)
