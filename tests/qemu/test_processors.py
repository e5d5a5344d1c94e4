# SPDX-License-Identifier: GPL-2.0-or-later
"""Processors by name: each is one to the QEMUs that the table says, and kernels boot on them."""

import json
import re
import subprocess
from pathlib import Path

import pytest

from kentry.arch import ARCHES
from kentry.arch.processors import MAX, find_processor, table
from kentry.boot.console import boot
from kentry.boot.emulator import CHOICES, boot_argv, kernel_words, machine_argv
from kentry.boot.exact import ExactOptions, emulator_of
from kentry.boot.initramfs import build_initramfs
from kentry.host.cache import kept_file
from kentry.host.process import run
from tests import ROOT
from tests.places import silent
from tests.processes import PATIENCE

from .conftest import GetEmulator, timed
from .test_record import KERNEL, fetched, kentry

pytestmark = pytest.mark.qemu

RECORDED = ROOT / "docs" / "reference" / "processors.json"
ROWS = [(arch, name) for arch in ARCHES for name in table()[arch]]


@pytest.mark.parametrize(("arch", "name"), ROWS)
def test_qemu_has_the_processor_from_the_version_on_that_the_table_says(
    arch: str, name: str, get_emulator: GetEmulator
) -> None:
    row = table()[arch][name]
    for choice in CHOICES:
        emulator = get_emulator(ARCHES[arch], choice)
        argv = [*emulator.argv, "-machine", row.machine or ARCHES[arch].machine]
        argv += ["-cpu", row.qemu(), "-accel", "tcg", "-m", "64M", "-display", "none"]
        argv += ["-nodefaults", "-S", "-monitor", "stdio"]
        done = subprocess.run(
            argv,
            env=emulator.env,
            input="quit\n",
            capture_output=True,
            text=True,
            check=False,
            timeout=PATIENCE,
        )
        said = [line for line in done.stderr.splitlines() if "warning:" not in line]
        assert (done.returncode == 0) == (emulator.numbers >= row.since), (choice, said)


@pytest.mark.parametrize(
    ("arch", "cpu", "words", "getppid", "mitigations"),
    [
        ("arm64", "max", (), 312, set()),
        ("arm64", "rpi5", (), 386, {"bhb=loop-of-24"}),
        ("x86_64", "max", (), 309, set()),
        ("x86_64", "max", ("--append", "pti=on"), 319, set()),
        ("x86_64", "Skylake-Server-v1", (), 324, {"meltdown=PTI"}),
        ("x86_64", "skylake", (), None, {"retbleed=IBRS", "mds=Clear-CPU-buffers"}),
        ("x86_64", "cascadelake", (), None, {"bhi=SW-loop"}),
        ("x86_64", "zen3", (), None, {"spec_rstack_overflow=Safe-RET", "tsa=Clear-CPU-buffers"}),
        ("riscv64", "visionfive2", (), None, set()),
    ],
)
def test_a_kernel_boots_on_it_and_switches_on_what_it_needs(
    arch: str, cpu: str, words: tuple[str, ...], getppid: int | None, mitigations: set[str]
) -> None:
    where = ("record", KERNEL, "--arch", arch, "--cpu", cpu, *words, "--case", "getppid")
    document = json.loads(kentry(*where, "--json", "-q").stdout)
    count = document["cases"][0]["metrics"]["instructions"]["value"]
    assert getppid in (None, count)
    assert document["target"]["processor"] == cpu
    assert mitigations <= set(document["target"]["mitigations"].split())


def test_the_clearing_of_the_branch_history_is_executed_where_the_kernel_uses_it() -> None:
    where = ("record", KERNEL, "--arch", "x86_64", "--cpu", "icelake", "--case", "getppid")
    case = json.loads(kentry(*where, "--json", "-q").stdout)["cases"][0]
    assert any(one["name"] == "clear_bhb_loop" for one in case["functions"])


@pytest.mark.parametrize(
    ("arch", "cpu", "said"),
    [
        ("arm64", "cortexa76", "Did you mean cortex-a76?"),
        ("arm64", "cortex-a76,foo=on", "Property 'cortex-a76-arm-cpu.foo' not found"),
        ("riscv64", "rv64,v=true,vlen=100", "must be power of 2"),
        ("x86_64", "rpi5", "is a processor of arm64"),
    ],
)
def test_a_processor_that_is_none_is_one_sentence(arch: str, cpu: str, said: str) -> None:
    where = ("record", KERNEL, "--arch", arch, "--cpu", cpu, "--case", "getppid", "-q")
    error = kentry(*where, code=2).stderr
    assert said in error and "Traceback" not in error


# Nanoseconds a tick of the clock that a program reads (TSC, CNTVCT_EL0, time), and instructions of
# the loop, of tests/qemu/another_init.c.
_TICK = {"x86_64": (1, 4), "arm64": (16, 3), "riscv64": (100, 3)}
_CALLS = 4000


@pytest.mark.parametrize(
    ("arch", "name"),
    [
        ("arm64", MAX),
        ("arm64", "cortex-a76"),
        ("arm64", "neoverse-v1"),
        ("x86_64", MAX),
        ("x86_64", "skylake"),
        ("x86_64", "icelake"),
        ("x86_64", "zen3"),
        ("riscv64", "sifive-u74"),
    ],
)
def test_another_init_and_the_guests_own_clock_count_the_same(
    arch: str, name: str, tmp_path: Path
) -> None:
    record = ARCHES[arch]
    init, source = tmp_path / "init", Path(__file__).with_name("another_init.c")
    options = ["-O2", "-nostdlib", "-static", "-ffreestanding", "-fno-stack-protector"]
    run([f"{record.cross}gcc", *options, "-o", str(init), str(source)])
    processor, exact = find_processor(record, name), ExactOptions(cases=(), cpu=name)
    emulator, kernel = emulator_of(record, exact), fetched(KERNEL, arch)
    argv = [
        *machine_argv(emulator, record, processor, 512),
        *boot_argv(
            kernel,
            kept_file("initramfs", build_initramfs(init, ())),
            kernel_words(record, processor),
        ),
    ]
    with timed(f"{KERNEL} ({arch}) on {name}, with another init"):
        console = boot(argv, emulator, 120, silent).console
    ticks = re.search(r"^ticks ([0-9a-f]{16})", console, re.MULTILINE)
    assert ticks, console
    nanoseconds, loop = _TICK[arch]
    counted = int(ticks[1], 16) * nanoseconds / _CALLS - loop
    assert abs(counted - recorded_getppid(arch, name, kernel.release)) < 0.2


def recorded_getppid(arch: str, name: str, release: str | None) -> int:
    """The page's count, or one of now where Debian has another kernel since."""
    row = json.loads(RECORDED.read_text())[arch][name]
    if row["kernel"] == release:
        return int(row["getppid"])
    where = ("record", KERNEL, "--arch", arch, "--cpu", name, "--case", "getppid")
    document = json.loads(kentry(*where, "--json", "-q").stdout)
    return int(document["cases"][0]["metrics"]["instructions"]["value"])
