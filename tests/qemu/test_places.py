# SPDX-License-Identifier: GPL-2.0-or-later
"""Places that are guests: one that labgrid boots and has a shell on, and those of kvm.py."""

from __future__ import annotations

import gc
import importlib.util
import json
import re
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from time import monotonic
from types import ModuleType

import pytest
from jsonschema import Draft202012Validator

from kentry.arch import ARCHES, find_arch, host_arch
from kentry.cli import main
from kentry.errors import MachineError
from kentry.kernels.resolve import resolve
from kentry.machines.machine import Machine, MachineOptions
from kentry.machines.open import open_machine
from tests import ROOT
from tests.places import silent
from tests.processes import PATIENCE

from . import kexec_root
from .conftest import or_skip, tell, timed

pytestmark = [
    pytest.mark.qemu,
    # labgrid's QEMUDriver leaves the pipes to QEMU open; see closed_pipes.
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
]

KERNEL, OLDER = "debian:6.12", "debian:6.1"
RECORDING = ROOT / "schema" / "recording-1.schema.json"
EXAMPLE = ROOT / "examples" / "labgrid-qemu"
FEW = ("n=3", "paths=0", "cases=getppid")
# Slots A, B, B, A.
TIMED = (
    *("time", "cases=getppid,read,read,getppid"),
    *("groups=2", "turns=2", "blocks=4", "block_ns=20000", "seed=1"),
)


@pytest.fixture(autouse=True)
def closed_pipes() -> Iterator[None]:
    yield
    gc.collect()


def write_environment(folder: Path, *, memory: str) -> Path:
    """The example's environment, which a busy machine may take its time to boot."""
    text = (EXAMPLE / "env.yaml").read_text().replace("memory: 512M", f"memory: {memory}")
    (folder / "env.yaml").write_text(
        text.replace("login_timeout: 180", f"login_timeout: {PATIENCE}")
    )
    return folder / "env.yaml"


def preparing() -> ModuleType:
    """examples/labgrid-qemu/prepare.py."""
    spec = importlib.util.spec_from_file_location("prepare", EXAMPLE / "prepare.py")
    assert spec and spec.loader
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def prepared(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The example's environment with what it boots."""
    folder = tmp_path_factory.mktemp("labgrid")
    prepare = preparing()
    for arch in ARCHES.values():
        or_skip(f"no board of {arch.name}", prepare.prepare, arch, KERNEL, folder)
    return write_environment(folder, memory="512M")


@pytest.fixture
def environment(prepared: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The prepared environment, which LG_ENV names."""
    monkeypatch.setenv("LG_ENV", str(prepared))
    return prepared


def ran(place: Machine, words: Sequence[str]) -> list[str]:
    lines: list[str] = []
    place.run_probe(words, PATIENCE, lines.append)
    return lines


def check_few(lines: list[str], arch: str) -> None:
    assert lines[0] == f"kentry-probe start {arch}"
    assert re.fullmatch(r"kentry-probe release 6\.\d+\..*", lines[1])
    assert lines[-1] == "kentry-probe end cases=1"


def check_timed(lines: list[str]) -> dict[tuple[int, int], list[int]]:
    """What was timed, by group and slot, in the order of turns."""
    assert lines[-1] == "kentry-probe end groups=2"
    times: dict[tuple[int, int], list[int]] = {}
    for line in lines:
        _, word, *rest = line.split()
        if word == "t":
            group, slot, _turn, *values = map(int, rest)
            assert len(values) == 4
            times.setdefault((group, slot), []).extend(values)
    assert sorted(times) == [(group, slot) for group in range(2) for slot in range(4)]
    assert all(len(values) == 8 for values in times.values())
    return times


@pytest.mark.parametrize("arch", ARCHES)
def test_a_board_of_labgrids_runs_the_probe(arch: str, environment: Path) -> None:
    with (
        timed(f"labgrid's QEMUDriver, {KERNEL} ({arch}), the probe over its console"),
        open_machine(f"board:{arch}", MachineOptions()) as place,
    ):
        assert place.arch is find_arch(arch)
        few = ran(place, FEW)
        times = ran(place, TIMED)
        said = place.run_command(["sh", "-c", "echo out; echo err >&2; exit 3"], 30)
    check_few(few, arch)
    check_timed(times)
    assert (said.status, said.stdout, said.stderr) == (3, "out\n", "err\n")


def test_kentry_stat_of_a_board_is_a_recording(
    environment: Path,
    native: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """The whole way: labgrid boots it, preflight looks, the probe times, all of it is removed."""
    words = ["--case", "getppid,read", "--for", "6"]
    with timed(f"kentry stat board:arm64, {KERNEL} by labgrid's QEMUDriver"):
        assert main(["stat", "board:arm64", *words, "--json", "-q"]) == 0
        document = json.loads(capsys.readouterr().out)
    Draft202012Validator(json.loads(RECORDING.read_text())).validate(document)
    assert document["target"]["kind"] == "board"
    assert document["kernel"]["release"].startswith("6.12.")
    for case in document["cases"]:
        ns = case["metrics"]["ns"]
        low, high = ns["interval"]
        # Under load the interval of 6 groups may reach below 0.
        assert ns["value"] > 0
        assert low <= ns["value"] <= high


def test_a_guests_own_counters_count_what_kentry_record_counts(
    native: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Two ways to count: perf_event_open on the emulated PMU, and the plugin; to the instruction.

    And time: under -icount an instruction takes a nanosecond, so two cases differ by as many.
    """
    words = ["--arch", "arm64", "--case", "getppid,read", "--json", "-q"]
    with timed(f"{KERNEL} (arm64) counted by its own counters and by the plugin"):
        assert main(["record", KERNEL, *words]) == 0
        counted = json.loads(capsys.readouterr().out)
        guest = [f"kvm:{KERNEL}", "--accel", "icount", "--for", "3"]
        assert main(["stat", *guest, *words]) == 0
        timed_there = json.loads(capsys.readouterr().out)
    exact = {one["name"]: one["metrics"]["instructions"]["value"] for one in counted["cases"]}
    found = {one["name"]: one["metrics"] for one in timed_there["cases"]}
    for name, instructions in exact.items():
        assert found[name]["kernel-instructions"]["value"] == instructions
    ns = {name: metrics["ns"]["value"] for name, metrics in found.items()}
    assert ns["read"] - ns["getppid"] == pytest.approx(exact["read"] - exact["getppid"], abs=2)


@pytest.fixture
def with_kexec(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The example's environment with an x86_64 board that has kexec and two kernels in /boot."""
    prepare, arch = preparing(), find_arch("x86_64")
    kernels = [
        or_skip("no board with kexec", resolve, kernel, arch, silent).image
        for kernel in (OLDER, KERNEL)
    ]
    prepare.prepare(arch, KERNEL, tmp_path)
    or_skip("no board with kexec", kexec_root.unpack, arch, tmp_path / "debian")
    with (tmp_path / "x86_64-root.cpio").open("ab") as root:
        root.write(kexec_root.root_of(tmp_path / "debian", prepare.INIT, kernels))
    environment = write_environment(tmp_path, memory="1G")
    monkeypatch.setenv("LG_ENV", str(environment))
    return environment


def test_a_board_boots_other_kernels_by_kexec_and_by_a_command(
    with_kexec: Path, native: Path
) -> None:
    releases = [
        resolve(kernel, find_arch("x86_64"), silent).image.name.removeprefix("vmlinuz-")
        for kernel in (OLDER, KERNEL)
    ]
    own = "kexec -l /boot/vmlinuz-{} --initrd=/initrd --reuse-cmdline && kexec -e"
    options = MachineOptions(boot_timeout=PATIENCE)
    with (
        timed(f"labgrid's QEMUDriver, {KERNEL} (x86_64), {OLDER} and back by kexec"),
        open_machine("board:x86_64", options) as place,
    ):
        begun = monotonic()
        place.boot(releases[0], silent)
        # The console is looked at when the shell is back, not when the time is over.
        assert monotonic() - begun < options.boot_timeout
        lines = ran(place, FEW)
        place.boot(releases[1], silent)
        said = place.run_command(["uname", "-r"], 60).stdout
    check_few(lines, "x86_64")
    assert [lines[1].split()[-1], said.strip()] == releases
    with (
        timed(f"labgrid's QEMUDriver, {KERNEL} (x86_64), {OLDER} by a command"),
        open_machine("board:x86_64", replace(options, switch=own)) as place,
    ):
        place.boot(releases[0], silent)
        assert place.run_command(["uname", "-r"], 60).stdout == f"{releases[0]}\n"


@pytest.mark.parametrize(
    ("image", "words"), [("nothing", "QEMU did not start"), ("env.yaml", "did not answer in time")]
)
def test_a_board_that_does_not_boot_is_one_sentence(
    environment: Path, monkeypatch: pytest.MonkeyPatch, image: str, words: str
) -> None:
    text = environment.read_text().replace(f"login_timeout: {PATIENCE}", "login_timeout: 3")
    broken = environment.parent / "broken.yaml"
    monkeypatch.setenv("LG_ENV", str(broken))
    broken.write_text(text.replace("arm64-kernel: arm64-kernel", f"arm64-kernel: {image}"))
    with (
        pytest.raises(MachineError, match=f"labgrid could not boot board:arm64: .*{words}"),
        open_machine("board:arm64", MachineOptions()),
    ):
        pass


@pytest.mark.parametrize("accelerator", ["tcg", "icount"])
@pytest.mark.parametrize("arch", ARCHES)
def test_a_guest_boots_for_each_run_of_the_probe(arch: str, accelerator: str) -> None:
    options = MachineOptions(accelerator=accelerator, arch=arch)
    with (
        timed(f"{KERNEL} ({arch}, {accelerator}), two boots"),
        open_machine(f"kvm:{KERNEL}", options) as place,
    ):
        or_skip(f"no {KERNEL} for {arch}", place.boot, KERNEL, silent)
        few = ran(place, FEW)
        times = ran(place, TIMED)
    check_few(few, arch)
    check_timed(times)


def test_time_of_instructions_is_the_same_in_every_boot() -> None:
    options = MachineOptions(accelerator="icount", arch="arm64")
    seen = []
    with (
        timed(f"{KERNEL} (arm64, icount), the same twice"),
        open_machine(f"kvm:{KERNEL}", options) as place,
    ):
        for _ in range(2):
            lines = ran(place, TIMED)
            seen.append(check_timed(lines))
    assert seen[0] == seen[1]


def test_a_guest_on_the_processor_runs_or_is_refused_at_once() -> None:
    """Few machines that are guests themselves have a KVM that runs a kernel."""
    arch = host_arch()
    options = MachineOptions()
    refused = None
    try:
        with timed(f"{KERNEL} ({arch.name}, kvm)"), open_machine(f"kvm:{KERNEL}", options) as place:
            lines = ran(place, FEW)
    except MachineError as err:
        refused = err
    if refused:
        assert re.search("cannot run this kernel|has no KVM|may not be opened", refused.sentence)
        assert "--accel tcg" in refused.remedy
        tell(f"no guest under KVM: {refused.sentence}")
    else:
        check_few(lines, arch.name)
