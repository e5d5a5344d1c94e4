# SPDX-License-Identifier: GPL-2.0-or-later
"""The probe as it is built: small, static, and able to run as an ordinary process."""

import os
import re
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from elftools.elf.elffile import ELFFile

from kentry.arch import ARCHES, Arch, host_arch
from kentry.count.catalogue import catalogue
from kentry.host.native import probe_file, runner_file
from tests import ROOT


@pytest.mark.parametrize(
    ("file_of", "most_bytes"),
    [(probe_file, 133 << 10), (runner_file, 32 << 10)],
    ids=["probe", "runner"],
)
@pytest.mark.parametrize("arch", ARCHES.values(), ids=lambda arch: arch.name)
def test_it_is_static(arch: Arch, file_of: Callable[[Arch], Path], most_bytes: int) -> None:
    file = file_of(arch)
    assert file.stat().st_size <= most_bytes
    with file.open("rb") as stream:
        elf = ELFFile(stream)
        assert elf["e_machine"] == arch.elf_machine
        assert elf["e_type"] == "ET_EXEC"
        kinds = {segment["p_type"] for segment in elf.iter_segments()}
    assert not kinds & {"PT_INTERP", "PT_DYNAMIC"}
    # The probe has the timed mode, and not because another file has it.
    assert (b"kentry-probe timing cpu=" in file.read_bytes()) == (file_of is probe_file)


@pytest.mark.parametrize("arch", ARCHES.values(), ids=lambda arch: arch.name)
def test_its_parts_have_fixed_places_and_lengths(arch: Arch) -> None:
    """guest/probe.lds says why; a part that grows beyond its length changes counts."""
    with probe_file(arch).open("rb") as stream:
        loaded = [one for one in ELFFile(stream).iter_segments() if one["p_type"] == "PT_LOAD"]
        assert [(one["p_vaddr"], one["p_filesz"], one["p_memsz"]) for one in loaded] == [
            (0x400000, 0x10000, 0x10000),
            (0x410000, 0x10000, 0x10000),
            (0x420000, 0x1000, 0xE0000),
        ]


@pytest.mark.parametrize("arch", ARCHES.values(), ids=lambda arch: arch.name)
def test_the_catalogue_is_the_files_in_guest_cases(arch: Arch) -> None:
    native = [case for case in catalogue(arch) if case.name.partition("@")[2] in ("", "vdso")]
    native += [case for case in catalogue(arch) if case.name == "time@vsyscall"]
    files = {file.stem for file in (ROOT / "guest" / "cases").glob("*.c")}
    of_one = {"time_vsyscall": "x86_64", "getppid_mte": "arm64"}
    assert len(native) == len(files - {one for one in of_one if of_one[one] != arch.name})
    assert all(case.summary for case in native)
    assert len({case.name for case in catalogue(arch)}) == len(catalogue(arch))


def test_every_case_but_the_vdsos_has_a_second_entry_on_x86() -> None:
    arch = ARCHES["x86_64"]
    names = {case.name for case in catalogue(arch) if not case.group}
    native = {name for name in names if "@" not in name}
    assert names == native | {f"{name}@int80" for name in native} | {"clock_gettime@vdso"}
    grouped = [case.name for case in catalogue(arch) if case.group]
    assert [name for name in grouped if "@" in name] == ["time@vsyscall"]


def run(*words: str) -> list[str]:
    done = subprocess.run(
        [str(probe_file(host_arch())), *words], capture_output=True, text=True, check=True
    )
    return done.stdout.splitlines()


def said(lines: list[str], word: str) -> list[str]:
    return [line.removeprefix(f"kentry-probe {word} ") for line in lines if f" {word} " in line]


def without_group() -> list[str]:
    return [case.name for case in catalogue(host_arch()) if not case.group]


def vector_bits() -> int:
    """This machine's own vector length; a skip where it has no such unit."""
    bits = dict(line.split() for line in said(run("n=1", "cases=getpid"), "vector"))["vec"]
    if bits == "0":
        pytest.skip("this machine's processor has no vector unit")
    return int(bits)


def test_it_runs_every_case_of_no_group_as_an_ordinary_process() -> None:
    lines = run("n=20", "paths=2", "warmup=1")
    assert lines[0] == f"kentry-probe start {host_arch().name}"
    assert not said(lines, "failed")
    absent = len(said(lines, "absent"))
    assert lines[-1] == f"kentry-probe end cases={len(without_group()) - absent}"


@pytest.fixture
def one_cpu() -> Iterator[None]:
    """On one CPU, as in a guest of kentry: two tasks of a case never run at once."""
    cpus = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {min(cpus)})
    yield
    os.sched_setaffinity(0, cpus)


@pytest.mark.slow
def test_it_runs_every_case_that_is_named(one_cpu: None) -> None:
    names = [case.name for case in catalogue(host_arch()) if not case.needs_state]
    lines = run("n=20", "paths=2", "warmup=1", f"cases={','.join(names)}")
    assert not said(lines, "failed")
    absent = dict(line.split(" ", 1) for line in said(lines, "absent"))
    assert absent["getppid-audit"] == "it would change this machine for good"
    assert lines[-1] == f"kentry-probe end cases={len(names) - len(absent)}"


def test_it_runs_only_the_cases_it_is_given() -> None:
    assert run("n=2", "cases=getppid,read")[-1] == "kentry-probe end cases=2"
    # A name that another begins with is not that other one.
    assert run("n=2", "cases=getp")[-1] == "kentry-probe end cases=0"
    assert run("n=2", "cases=")[-1] == "kentry-probe end cases=0"


def test_it_reads_the_names_of_cases_from_a_file(tmp_path: Path) -> None:
    file = tmp_path / "cases"
    for text, count in (
        ("getppid\nread\n", 2),
        ("\n\ngetppid\n\nread", 2),
        ("", 0),
        ("x" * 65528 + "\ngetppid", 1),
    ):
        file.write_text(text)
        assert run("n=2", f"cases={file}")[-1] == f"kentry-probe end cases={count}"


def test_names_that_cannot_be_read_are_a_failure(tmp_path: Path) -> None:
    file = tmp_path / "cases"
    lines = run("n=2", f"cases={file}")
    assert said(lines, "failed") == [f"{file} phase=names call=0 result=-2"]  # ENOENT
    assert lines[-1] == "kentry-probe end cases=0"
    file.write_text("x" * 65529 + "\ngetppid")
    assert said(run("n=2", f"cases={file}"), "failed") == [
        f"{file} phase=names call=0 result=-7"  # E2BIG
    ]


@pytest.mark.slow
def test_it_runs_every_case_in_every_state() -> None:
    vector_bits()
    groups = {case.name: case.group for case in catalogue(host_arch())}
    names = [
        f"{case.name}+vec={use}"
        for case in catalogue(host_arch())
        if "@" not in case.name or case.name.endswith("@vdso")
        for use in case.uses or ("none", "once", "each", "1/3")
        if use != "after"
    ]
    lines = run("n=5", "paths=2", "warmup=1", f"cases={','.join(names)}")
    # A busy host stops realtime threads for a while; then the woken one may answer first.
    raced = re.compile(r"futex(\+vec=\S+)? .* result=-11")
    assert not [line for line in said(lines, "failed") if not raced.fullmatch(line)]
    absent = {line.partition(" ")[0] for line in said(lines, "absent")}
    assert not [name for name in absent if groups[name.partition("+vec=")[0]] in ("", "vector")]
    assert lines[-1] == f"kentry-probe end cases={len(names) - len(absent)}"


@pytest.mark.slow
def test_after_sleeps_and_counts_as_a_case() -> None:
    vector_bits()
    assert run("n=2", "paths=0", "cases=getppid+vec=after")[-1] == "kentry-probe end cases=1"


def test_a_vector_length_is_there_or_the_case_is_absent() -> None:
    bits = vector_bits()
    lines = run("n=2", f"cases=getppid+vec=once+vl={bits},getppid+vec=once+vl=65536")
    absent = said(lines, "absent")
    assert len(absent) == 1
    assert absent[0].startswith("getppid+vec=once+vl=65536 vl=")
    assert lines[-1] == "kentry-probe end cases=1"


@pytest.mark.parametrize(
    "name",
    [
        *("getppid+vec=", "getppid+vec=twice", "getppid+vec=oncemore", "getppid+vec=1/1"),
        *("getppid+vec=1/", "getppid+vec=once+vl=", "getppid+vec=once+vl=128bits"),
        *("getppid+none=once", "getp+vec=once"),
        *("use-after-fork", "use-after-fork+vec=once", "use-after-fork+vec=1/10"),
    ],
)
def test_what_is_no_case_does_not_run(name: str) -> None:
    lines = run("n=2", f"cases={name}")
    assert lines[-1] == "kentry-probe end cases=0"
    assert not said(lines, "failed") + said(lines, "absent")
