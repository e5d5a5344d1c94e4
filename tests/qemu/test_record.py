# SPDX-License-Identifier: GPL-2.0-or-later
"""The whole way, on Debian's own kernels: what `kentry record` and `kentry diff` promise."""

import json
import os
import re
import subprocess
import sys
import tempfile
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from kentry.arch import ARCHES, find_arch
from kentry.boot.exact import ExactOptions, GuestRun, QemuRunner
from kentry.count.recorder import measure
from kentry.errors import GuestError, TraceError, UserError
from kentry.kernels.kernel import Kernel
from kentry.kernels.resolve import resolve
from kentry.kernels.site_tables import read_tables
from kentry.path.symbols import UNNAMED
from kentry.progress import Update
from kentry.results.recording import Recording
from tests.builders import validate
from tests.places import silent

from .conftest import or_skip, timed

pytestmark = pytest.mark.qemu

KERNEL = "debian:6.12"
# What Linux writes there, by table.
LISTED = {"__jump_table": r"nop|jmp|j |b ", "__mcount_loc": r"nop|mov x9, x30"}
NULL_CALLS = ("getpid", "getppid", "gettid", "getuid", "invalid")


@dataclass(frozen=True)
class WithWords(QemuRunner):
    """Boots with more words on the kernel's command line."""

    words: tuple[str, ...]

    def kernel_words(self, options: ExactOptions) -> list[str]:
        return [*super().kernel_words(options), *self.words]


def fetched(spec: str, arch: str) -> Kernel:
    return or_skip(f"no {spec} for {arch}", resolve, spec, find_arch(arch), silent)


def recorded(kernel: Kernel, options: ExactOptions) -> Recording:
    with timed(f"{kernel.spec} ({kernel.arch}), {len(options.cases)} cases"):
        return measure(kernel, QemuRunner(find_arch(kernel.arch)), options, silent)


def kentry(*words: str, code: int = 0) -> subprocess.CompletedProcess[str]:
    with timed(f"kentry {' '.join(words)}"):
        done = subprocess.run(
            [sys.executable, "-m", "kentry", *words], capture_output=True, text=True, check=False
        )
    assert done.returncode == code, done.stderr
    return done


@pytest.mark.parametrize("arch", ARCHES)
def test_two_runs_give_the_same_bytes_as_the_schema_says(arch: str) -> None:
    words = ("record", KERNEL, "--arch", arch, "--json", "-q")
    first, second = (kentry(*words).stdout for _ in range(2))
    document = json.loads(first)
    validate(document, "recording-1")
    assert json.dumps(document["cases"]) == json.dumps(json.loads(second)["cases"])
    names = {case["name"] for case in document["cases"]}
    assert {*NULL_CALLS, "clock_gettime", "clock_gettime@vdso", "openat+close", "pipe"} <= names
    assert not [caveat for caveat in document["caveats"] if caveat["kind"] == "case-failed"]
    _check_sums(document)


def _check_sums(document: dict[str, Any]) -> None:
    """Every case: samples are all windows, functions add up to the path, the path to the value."""
    for case in document["cases"]:
        metric = case["metrics"]["instructions"]
        clean = sum(times for _, times in metric["samples"])
        assert clean + sum(times for _, times in case["interrupted"]) == 1000, case["name"]
        assert sum(row["instructions"] for row in case["functions"]) == metric["value"]
        assert case["paths"][0]["role"] == "modal", case["name"]
        assert sum(count for _, count in case["paths"][0]["runs"]) == metric["value"]


@cache
def plain(arch: str) -> tuple[Recording, str]:
    """One boot of calls that do nothing, and what its console said."""
    cases = (*NULL_CALLS, *(f"getpid@{name}" for name in find_arch(arch).entries[1:]))
    with tempfile.TemporaryDirectory() as folder, timed(f"{KERNEL} ({arch}), {len(cases)} cases"):
        console = Path(folder, "console")
        options = ExactOptions(cases, 100, 16, rounds=1, console_file=console)
        # Else it prints errors alone.
        target = WithWords(find_arch(arch), ("ignore_loglevel",))
        found = measure(fetched(KERNEL, arch), target, options, silent)
        return found, console.read_text(errors="replace")


@pytest.mark.parametrize("arch", ARCHES)
def test_a_hundred_repeats_have_no_spread(arch: str) -> None:
    for case in plain(arch)[0].cases:
        assert len(case.metrics["instructions"].samples) == 1, case.name
        assert len(case.paths) == 1, case.name


@pytest.mark.parametrize("arch", ARCHES)
def test_the_tables_of_patched_code_are_those_that_the_kernel_reads(arch: str) -> None:
    kernel, (found, console) = fetched(KERNEL, arch), plain(arch)
    said = re.search(r"ftrace: allocating (\d+) entries", console)
    assert said
    assert {one.section: one.starts.size for one in read_tables(kernel)}["__mcount_loc"] == int(
        said[1]
    )
    texts = {table: [i.text for i in found.code if table in i.tables] for table in LISTED}
    assert all(texts.values())
    for table, expected in LISTED.items():
        assert [text for text in texts[table] if not re.match(expected, text)] == []


def test_diff_of_two_kernels_adds_up_and_names_what_it_counts() -> None:
    words = ("diff", "debian:6.1", "debian:6.12", "--arch", "arm64", "--json", "-q")
    document = json.loads(kentry(*words).stdout)
    validate(document, "comparison-1")
    assert len(document["cases"]) == 14
    total = named = 0
    for case in document["cases"]:
        assert case["delta"] == case["new"] - case["old"]
        assert sum(row["delta"] for row in case["functions"]) == case["delta"]
        assert sum(row["old"] for row in case["functions"]) == case["old"]
        assert sum(row["new"] for row in case["functions"]) == case["new"]
        total += case["old"] + case["new"]
        named += sum(r["old"] + r["new"] for r in case["functions"] if r["name"] != UNNAMED)
    assert named >= 0.99 * total
    kinds = {caveat["kind"] for caveat in document["caveats"]}
    assert {"config-differs", "not-time"} <= kinds


def test_both_entry_instructions_of_x86() -> None:
    by_syscall, by_int80 = (plain("x86_64")[0].case(name) for name in ("getpid", "getpid@int80"))
    assert by_syscall and by_int80
    assert by_syscall.metrics["instructions"].value != by_int80.metrics["instructions"].value
    assert any("int80" in name for name, _ in by_int80.functions)
    assert not any("int80" in name for name, _ in by_syscall.functions)


def test_a_kernel_without_an_entry_instruction_says_so_and_measures_the_rest() -> None:
    kernel = fetched(KERNEL, "x86_64")

    with timed(f"{KERNEL} (x86_64) with ia32_emulation=0"):
        result = measure(
            kernel,
            WithWords(find_arch("x86_64"), ("ia32_emulation=0",)),
            ExactOptions(("getpid", "getpid@int80"), 10, rounds=1),
            silent,
        )
    assert [case.name for case in result.cases] == ["getpid"]
    assert any(caveat["kind"] == "case-absent" for caveat in result.caveats)


@cache
def randomised(arch: str) -> Recording:
    options = ExactOptions(("getppid",), rounds=1, randomise=True)
    return recorded(fetched(KERNEL, arch), options)


@pytest.mark.parametrize("arch", ARCHES)
def test_randomising_costs_more_and_shows_its_refill(arch: str) -> None:
    random = randomised(arch)
    before, after = plain(arch)[0].case("getppid"), random.cases[0]
    assert before
    assert after.metrics["instructions"].value > before.metrics["instructions"].value
    assert {c["kind"] for c in random.caveats} >= {"randomised"}
    # KASLR moved the kernel, and the names are found all the same.
    assert not any(name == UNNAMED for name, _ in after.functions)
    assert {name for name, _ in before.functions} <= {name for name, _ in after.functions}


def test_a_randomised_run_shows_the_pools_refill_as_another_path() -> None:
    (case,) = randomised("riscv64").cases
    assert "random pool refill" in {path.why for path in case.paths}


@pytest.mark.parametrize("arch", ARCHES)
def test_the_machines_own_counter_counts_what_the_plugin_counts(arch: str) -> None:
    """In a boot without the plugin: one call, two, a chain, and on x86-64 REP and int80."""
    compat = [f"getppid@{name}" for name in find_arch(arch).entries[1:]]
    cases = ("getppid", "pipe", "openat+close", "read-4k", *compat)
    recording = recorded(fetched(KERNEL, arch), ExactOptions(cases, rounds=1, check=True))
    for case in recording.cases:
        assert case.checked == find_arch(arch).counter.name
        # The blocks have a context of their own.
        counted, by_machine = case.checked_counts or (0, 1)
        assert counted == by_machine
        assert counted in case.values


def test_the_machines_own_counter_finds_one_instruction_too_many() -> None:
    kernel = fetched(KERNEL, "arm64")
    options = ExactOptions(cases=("getppid",), rounds=1, check=True)

    class OneTooMany(QemuRunner):
        def run(self, kernel: Kernel, options: ExactOptions, update: Update) -> GuestRun:
            run = super().run(kernel, options, update)
            (phase,) = run.trace.checks
            phase.windows[:] = [replace(one, kernel=one.kernel + 1) for one in phase.windows]
            return run

    with pytest.raises(TraceError, match="disagrees in 1 of 1 cases"):
        measure(kernel, OneTooMany(find_arch("arm64")), options, silent)


def test_a_panic_is_one_sentence_with_the_consoles_last_lines() -> None:
    kernel = fetched(KERNEL, "arm64")
    runner = WithWords(find_arch("arm64"), ("rdinit=/nonexistent", "root=/dev/none"))
    with (
        timed(f"{KERNEL} (arm64) without an init"),
        pytest.raises(GuestError, match="The kernel panicked before the probe started") as caught,
    ):
        runner.run(kernel, ExactOptions(cases=("getpid",)), silent)
    assert caught.value.detail.splitlines()[0].endswith("on unknown-block(0,0)")


def test_a_hang_is_ended() -> None:
    with timed(f"{KERNEL} (arm64) stopped after 1 s"):
        done = kentry(
            *("record", KERNEL, "--arch", "arm64", "--case", "getpid", "--timeout", "1", "-q"),
            code=2,
        )
    assert "stopped after 1 s" in done.stderr


def test_an_image_of_another_architecture_is_refused_before_it_is_booted() -> None:
    kernel = fetched(KERNEL, "arm64")
    with pytest.raises(UserError, match="is a kernel for arm64, not for riscv64"):
        resolve(f"image:{kernel.image}", find_arch("riscv64"), silent)


def test_a_full_disk_is_one_sentence(tmp_path: Path) -> None:
    kernel = fetched(KERNEL, "riscv64")
    script = (
        f"mount -t tmpfs -o size=256k tmpfs {tmp_path} && KENTRY_CACHE={tmp_path} exec"
        f" {sys.executable} -m kentry record image:{kernel.image} --arch riscv64 -q"
    )
    # A mount namespace of its own: nobody else sees the small file system.
    unshare = ["unshare", "--mount"] if os.geteuid() == 0 else ["unshare", "-Urm"]
    if subprocess.run([*unshare, "true"], check=False).returncode:
        pytest.skip("a small file system cannot be mounted in this chroot or container")
    done = subprocess.run(
        [*unshare, "sh", "-c", script], capture_output=True, text=True, check=False
    )
    assert done.returncode == 2, done.stderr
    assert "No space is left" in done.stderr
    assert "KENTRY_CACHE" in done.stderr
    assert "Traceback" not in done.stderr


def test_a_cache_that_cannot_be_is_one_sentence() -> None:
    nowhere = {**os.environ, "KENTRY_CACHE": "/dev/null/kentry"}
    words = [sys.executable, "-m", "kentry", "record", KERNEL, "--arch", "riscv64", "-q"]
    done = subprocess.run(words, env=nowhere, capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert "KENTRY_CACHE" in done.stderr
    assert "Traceback" not in done.stderr
