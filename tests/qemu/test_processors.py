# SPDX-License-Identifier: GPL-2.0-or-later
"""Processors by name: each is one to the QEMUs that the table says, and kernels boot on them.

What a processor makes a kernel execute more, on Debian's kernels: figures of a kernel change with
the kernel, so those are differences, and functions.
"""

import json
import re
import subprocess
from functools import cache
from pathlib import Path

import pytest

from kentry.arch import ARCHES
from kentry.arch.processors import MAX, find_processor, table
from kentry.boot.console import boot
from kentry.boot.emulator import CHOICES, Guest, boot_argv, kernel_words
from kentry.boot.exact import ExactOptions, emulator_of
from kentry.boot.initramfs import build_initramfs
from kentry.host.cache import kept_file
from kentry.host.process import run
from kentry.results.recording import Recording
from tests import ROOT
from tests.places import silent
from tests.processes import PATIENCE

from .conftest import GetEmulator, timed
from .test_record import KERNEL, fetched, kentry
from .test_record import recorded as measured

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


# The 24 rounds of the loop with what is around them; two switches of CR3.
LOOP, PTI = 80, 10


@cache
def recorded(arch: str, cpu: str = MAX, append: str = "") -> Recording:
    """One boot: what it counts is in all contexts."""
    options = ExactOptions(("getppid",), 100, 16, rounds=1, cpu=cpu, append=append)
    return measured(fetched(KERNEL, arch), options)


def count(found: Recording) -> int:
    return int(found.cases[0].metrics["instructions"].value)


def words_of(found: Recording) -> list[str]:
    return str(found.target["mitigations"]).split()


def test_a_cortex_a76_executes_the_loop_over_its_branch_history() -> None:
    of_max, of_core = recorded("arm64", MAX), recorded("arm64", "cortex-a76")
    assert of_max.target["processor"] == "max"
    assert of_core.target["processor"] == "cortex-a76"
    vectors = "__bp_harden_el1_vectors"
    assert vectors not in dict(of_max.cases[0].functions)
    assert dict(of_core.cases[0].functions)[vectors] == LOOP
    # max has pointer authentication, which a Cortex-A76 has not: that is less.
    assert 0 < count(of_core) - count(of_max) < LOOP
    assert "bhb=loop-of-24" in words_of(of_core)
    assert not [word for word in words_of(of_max) if word.startswith("bhb")]
    # The kernel can be told not to.
    without = recorded("arm64", "cortex-a76", "nospectre_bhb")
    assert vectors not in dict(without.cases[0].functions)
    assert count(without) < count(of_core) - LOOP
    # The same by the spec.  The text names two processors before any function.
    spec = f"{KERNEL},cpu=cortex-a76"
    done = kentry("diff", KERNEL, spec, "--arch", "arm64", "--case", "getppid", "-q")
    said, _, table = done.stdout.partition("getppid ")
    assert "two processors" in said and vectors not in said and vectors in table
    assert re.search(rf"\b{count(of_max)}\b.*\b{count(of_core)}\b", table)


def test_page_table_isolation_is_a_word_or_a_skylake() -> None:
    of_max = recorded("x86_64", MAX)
    isolated = recorded("x86_64", MAX, "pti=on")
    of_core = recorded("x86_64", "Skylake-Server-v1")
    assert count(isolated) - count(of_max) == PTI
    assert count(of_core) > count(isolated)
    assert "meltdown=PTI" in words_of(of_core)
    assert "meltdown=PTI" not in words_of(of_max)
    assert "pti=on" in isolated.target["cmdline"].split()
    switches = [
        sum("cr3" in instruction.text for instruction in found.code)
        for found in (of_max, isolated, of_core)
    ]
    assert switches[0] == 0 and switches[1] == switches[2] > 0


def test_a_core_is_priced_on_the_path_that_it_executes() -> None:
    words = ("record", KERNEL, "--arch", "arm64", "--case", "getppid", "--json", "-q")
    own, kept = (
        json.loads(kentry(*words, "--core", "cortex-a76,apple-m1", *more).stdout)
        for more in ((), ("--cpu", MAX))
    )
    for document, processor, elsewhere in (
        (own, "cortex-a76", "apple-m1"),
        (kept, "max", "cortex-a76 or apple-m1"),
    ):
        assert document["target"]["processor"] == processor
        (said,) = (one for one in document["caveats"] if one["kind"] == "other-processor")
        assert f"recorded on {processor}, and on {elsewhere} the kernel" in said["text"]
    on_own, on_max = (document["cases"][0]["estimates"][0]["model"] for document in (own, kept))
    # 167 and 142 on 6.12.117: the loop's 80 instructions less what max has of pointer
    # authentication.
    assert on_max * 1.1 < on_own < on_max * 1.3


@pytest.mark.parametrize(
    ("arch", "cpu", "append", "getppid", "mitigations"),
    [
        ("arm64", "max", "", 312, set()),
        ("arm64", "rpi5", "", 386, {"bhb=loop-of-24"}),
        ("x86_64", "max", "", 309, set()),
        ("x86_64", "max", "pti=on", 319, set()),
        ("x86_64", "Skylake-Server-v1", "", 324, {"meltdown=PTI"}),
        ("x86_64", "skylake", "", None, {"retbleed=IBRS", "mds=Clear-CPU-buffers"}),
        ("x86_64", "cascadelake", "", None, {"bhi=SW-loop"}),
        ("x86_64", "zen3", "", None, {"spec_rstack_overflow=Safe-RET", "tsa=Clear-CPU-buffers"}),
        ("riscv64", "visionfive2", "", None, set()),
    ],
)
def test_a_kernel_boots_on_it_and_switches_on_what_it_needs(
    arch: str, cpu: str, append: str, getppid: int | None, mitigations: set[str]
) -> None:
    found = recorded(arch, cpu, append)
    assert getppid in (None, count(found))
    assert found.target["processor"] == cpu
    assert mitigations <= set(words_of(found))


def test_the_clearing_of_the_branch_history_is_executed_where_the_kernel_uses_it() -> None:
    assert "clear_bhb_loop" in dict(recorded("x86_64", "icelake").cases[0].functions)


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
        *Guest(emulator, record, processor, 512).argv(),
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
    return count(recorded(arch, name))
