# SPDX-License-Identifier: GPL-2.0-or-later
"""The emulator's command line, and runs of emulators that only play one."""

import os
from pathlib import Path

import pytest

from kentry.arch import ARCHES, Arch, find_arch
from kentry.errors import GuestError, TraceError
from kentry.kernels.kernel import Kernel, Symbol, SymbolTable
from kentry.runners import qemu
from kentry.runners.emulator import Emulator
from kentry.runners.exact import ExactOptions, GuestRun
from kentry.runners.qemu import QemuRunner

OPTIONS = ExactOptions(cases=("getppid", "read"))
TRACE = """\
kentry-trace 1
qemu aarch64 api=1
message case getppid count 1
window 1000 312 0 1 0 0 0 -
message end 1
spoilt 0
end 1000
"""


def kernel(arch: str = "arm64") -> Kernel:
    return Kernel(
        spec="image:Image",
        arch=arch,
        image=Path("/boot/Image"),
        image_sha256="1" * 64,
        symbols=SymbolTable.of(
            [
                Symbol(0xFFFF800008010000, "T", "_stext"),
                Symbol(0xFFFF800008010800, "T", "vectors"),
                Symbol(0xFFFF800008020000, "T", "asm_common_interrupt"),
                Symbol(0xFFFF800008030000, "t", "do_irq"),
                Symbol(0xFFFF800008040000, "t", "do_irq_something_else"),
            ]
        ),
        symbols_from="kallsyms",
        release="6.1",
        banner="",
        compiler="",
        config=None,
        config_sha256=None,
        build_id=None,
    )


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KENTRY_CACHE", str(tmp_path / "cache"))


def argv(arch: Arch, options: ExactOptions = OPTIONS, trace: str = "/tmp/x.trace") -> list[str]:
    emulator = Emulator((arch.qemu,), "7.2.22", (7, 2, 22))
    target = QemuRunner(arch)
    return target._argv(emulator, kernel(arch.name), options, Path("/c"), Path(trace))


@pytest.mark.parametrize("arch", ARCHES.values(), ids=lambda arch: arch.name)
def test_the_guest_is_shut_in_and_every_run_is_alike(arch: Arch) -> None:
    words = " ".join(argv(arch))
    for needed in (
        "-nic none",
        "-sandbox on,obsolete=deny,elevateprivileges=deny,spawn=deny,resourcecontrol=deny",
        "-nodefaults -no-user-config -no-reboot",
        "-monitor none",
        "-icount shift=0,sleep=off -seed 1 -rtc base=2020-01-01T00:00:00,clock=vm",
        "-accel tcg,thread=single -smp 1",
        "setpriv --pdeathsig KILL --",
        "--core=0",
    ):
        assert needed in words
    assert "--as=" in words
    assert "--fsize=" in words


def test_randomising_changes_the_kernels_words_and_nothing_else() -> None:
    arch = find_arch("arm64")
    steady, random = argv(arch), argv(arch, ExactOptions(cases=("getppid", "read"), randomise=True))
    differing = [(a, b) for a, b in zip(steady, random, strict=True) if a != b]
    assert len(differing) == 1
    assert "nokaslr randomize_kstack_offset=off" in differing[0][0]
    assert "nokaslr" not in differing[0][1]


def test_a_comma_in_a_path_is_not_an_option() -> None:
    word = argv(find_arch("riscv64"), trace="/tmp/a,b.trace")[-1]
    assert "out=/tmp/a,,b.trace," in word
    assert word.endswith("firmware=80000000-80200000")


@pytest.mark.parametrize(
    ("arch", "lines"),
    [
        ("riscv64", ["text ffff800008010000", "irq ffff800008030000"]),
        ("x86_64", ["text ffff800008010000", "irq ffff800008020000"]),
    ],
)
def test_traps_are_found_by_whole_names(arch: str, lines: list[str]) -> None:
    assert QemuRunner(find_arch(arch))._traps(kernel(arch)).splitlines() == lines


def test_arm64s_traps_are_offsets_into_its_vectors() -> None:
    traps = QemuRunner(find_arch("arm64"))._traps(kernel()).splitlines()
    assert "irq ffff800008010a80" in traps
    assert "exception ffff800008010a00" in traps


def play(
    monkeypatch: pytest.MonkeyPatch, folder: Path, script: str, timeout: float = 20
) -> GuestRun:
    """Runs `script` in the emulator's place; $trace is where the plugin's output goes."""
    file = folder / "qemu"
    find = "for w; do case $w in *out=*) trace=${w#*out=}; trace=${trace%%,*};; esac; done\n"
    file.write_text(f"#!/bin/sh\n{find}{script}\n")
    file.chmod(0o755)
    emulator = Emulator((str(file),), "7.2.22", (7, 2, 22))
    monkeypatch.setattr(qemu, "find_emulator", lambda arch, choice: emulator)
    options = ExactOptions(cases=("getppid",), timeout=timeout)
    return QemuRunner(find_arch("arm64")).run(kernel(), options, lambda fraction, now: None)


GOOD = "echo kentry-probe start arm64; echo kentry-probe end cases=1"


def test_a_whole_run(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "good").write_text(TRACE)
    run = play(monkeypatch, tmp_path, f"{GOOD}; cp {tmp_path}/good $trace")
    assert run.trace.cases_ended == 1
    assert run.target["emulator"] == "QEMU 7.2.22"


@pytest.mark.parametrize(
    ("script", "words"),
    [
        ("exit 1", "QEMU ended before the guest said anything: QEMU ended with status 1"),
        ("echo booting; exit 0", "the machine rebooted or was switched off, before the probe"),
        ("echo booting; sleep 100", "it was stopped after 1 s, before the probe started"),
        ("echo kentry-probe start arm64; sleep 100", "stopped after 1 s, while the cases ran"),
        ("yes all work and no play", "it printed more than 4 MiB and was stopped"),
        (
            "echo 'Kernel panic - not syncing: Oops'",
            "The kernel panicked before the probe started: Oops",
        ),
        ("while :; do printf '\\033[2J'; done", "it printed more than 4 MiB"),
    ],
)
def test_a_guest_that_misbehaves_is_one_sentence(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, script: str, words: str
) -> None:
    if script == "exit 1":
        script = "echo 'qemu: could not load kernel' >&2; exit 1"
    with pytest.raises(GuestError, match=words) as caught:
        play(monkeypatch, tmp_path, script, timeout=1 if "sleep" in script else 20)
    assert "\x1b" not in str(caught.value) + caught.value.detail


def test_an_end_on_the_console_without_a_trace_is_an_error(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    with pytest.raises(TraceError):
        play(monkeypatch, tmp_path, GOOD)


def test_a_console_and_a_trace_that_disagree_are_an_error(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / "other").write_text(TRACE.replace("message end 1", "message end 2"))
    with pytest.raises(GuestError, match="disagree about how many cases"):
        play(monkeypatch, tmp_path, f"{GOOD}; cp {tmp_path}/other $trace")


def test_no_trace_is_left_behind(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "t"))
    os.mkdir(tmp_path / "t")
    with pytest.raises(GuestError):
        play(monkeypatch, tmp_path, "echo x")
    assert list((tmp_path / "t").iterdir()) == []
