# SPDX-License-Identifier: GPL-2.0-or-later
"""The probe as it is built: small, static, and able to run as an ordinary process."""

import subprocess
from pathlib import Path

import pytest
from elftools.elf.elffile import ELFFile

from kentry.arch import ARCHES, Arch, host_arch
from kentry.cases import catalogue, choose
from kentry.errors import UserError
from kentry.native import probe_file

ROOT = Path(__file__).parents[2]
MOST_BYTES = 64 << 10


@pytest.mark.parametrize("arch", ARCHES.values(), ids=lambda arch: arch.name)
def test_it_is_one_small_static_program(arch: Arch) -> None:
    file = probe_file(arch)
    assert file.stat().st_size <= MOST_BYTES
    with file.open("rb") as stream:
        elf = ELFFile(stream)
        assert elf["e_machine"] == arch.elf_machine
        assert elf["e_type"] == "ET_EXEC"
        kinds = {segment["p_type"] for segment in elf.iter_segments()}
    assert not kinds & {"PT_INTERP", "PT_DYNAMIC"}


@pytest.mark.parametrize("arch", ARCHES.values(), ids=lambda arch: arch.name)
def test_the_catalogue_is_the_files_in_guest_cases(arch: Arch) -> None:
    native = [case for case in catalogue(arch) if case.name.partition("@")[2] in ("", "vdso")]
    assert len(native) == len(list((ROOT / "guest" / "cases").glob("*.c")))
    assert all(case.summary for case in native)
    assert len({case.name for case in catalogue(arch)}) == len(catalogue(arch))


def test_every_case_but_the_vdsos_has_a_second_entry_on_x86() -> None:
    arch = ARCHES["x86_64"]
    names = {case.name for case in catalogue(arch)}
    native = {name for name in names if "@" not in name}
    assert names == native | {f"{name}@int80" for name in native} | {"clock_gettime@vdso"}


@pytest.mark.parametrize(
    ("arch", "wanted", "chosen"),
    [
        ("arm64", ["getppid"], ["getppid"]),
        ("arm64", ["getppid@svc"], ["getppid"]),
        ("riscv64", ["getppid@ecall", "getpid"], ["getpid", "getppid"]),
        ("x86_64", ["get?id@int80"], ["getpid@int80", "gettid@int80", "getuid@int80"]),
    ],
)
def test_cases_are_chosen_by_name_and_pattern(
    arch: str, wanted: list[str], chosen: list[str]
) -> None:
    assert sorted(choose(ARCHES[arch], wanted)) == sorted(chosen)


@pytest.mark.parametrize("word", ["getpid@int80", "getpid@ecall", "", "nothing*"])
def test_what_an_architecture_does_not_have_is_unknown(word: str) -> None:
    with pytest.raises(UserError, match="Unknown case"):
        choose(ARCHES["arm64"], [word])


def run(*words: str) -> list[str]:
    done = subprocess.run(
        [str(probe_file(host_arch())), *words], capture_output=True, text=True, check=True
    )
    return done.stdout.splitlines()


def test_it_runs_every_case_as_an_ordinary_process() -> None:
    lines = run("n=20", "paths=2", "warmup=1")
    assert lines[0] == f"kentry-probe start {host_arch().name}"
    absent = [line for line in lines if line.startswith("kentry-probe absent ")]
    assert not [line for line in lines if line.startswith("kentry-probe failed ")]
    assert lines[-1] == f"kentry-probe end cases={len(catalogue(host_arch())) - len(absent)}"


def test_it_runs_only_the_cases_it_is_given() -> None:
    assert run("n=2", "cases=getppid,read")[-1] == "kentry-probe end cases=2"
    # A name that another begins with is not that other one.
    assert run("n=2", "cases=getp")[-1] == "kentry-probe end cases=0"
