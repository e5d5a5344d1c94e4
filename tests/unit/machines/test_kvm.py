# SPDX-License-Identifier: GPL-2.0-or-later
"""The guest's command line, and runs of emulators that only play one."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from kentry.arch import ARCHES, find_arch, host_arch
from kentry.errors import MachineError, MissingToolError, UserError
from kentry.machines import kvm
from kentry.machines.kvm import KvmMachine
from kentry.machines.machine import MachineOptions
from tests.builders import image_kernel
from tests.places import silent
from tests.processes import PATIENCE
from tests.unit.boot.conftest import fake_qemu
from tests.unit.kernels.conftest import cache  # noqa: F401

ICOUNT = MachineOptions(accelerator="icount", arch="arm64")


def place_of(tmp_path: Path, options: MachineOptions, script: str = "") -> KvmMachine:
    """A machine whose QEMU runs `script`."""
    emulator = str(fake_qemu(tmp_path, script))
    place = KvmMachine("kvm", replace(options, emulator=emulator))
    place.probe = tmp_path / "probe"
    place.probe.write_bytes(b"the probe")
    place.kernel = image_kernel(place.arch.name)
    return place


def words_of(place: KvmMachine, *words: str) -> str:
    return " ".join(place.command(words)[0])


def test_each_accelerator_has_its_own_time(tmp_path: Path) -> None:
    options = MachineOptions(arch="x86_64", pin=3)
    place = place_of(tmp_path, options)
    words = words_of(place)
    assert "-cpu host -accel kvm -smp 1" in words
    assert "taskset --cpu-list 3" in words
    assert "-icount" not in words
    assert "nokaslr" not in words
    assert place.describe()["accelerator"] == "kvm"
    place = place_of(tmp_path, replace(options, accelerator="tcg", pin=None))
    words = words_of(place)
    assert "-cpu max,cx16=off -accel tcg,thread=single" in words
    assert "-icount" not in words
    assert "taskset" not in words
    place = place_of(tmp_path, replace(options, accelerator="icount"))
    assert "-icount shift=0,sleep=off -seed 1" in words_of(place)
    assert "nokaslr randomize_kstack_offset=off" in words_of(place)
    assert place.describe()["emulator"] == "QEMU 7.2.22"


def test_a_named_processor_is_emulated_and_no_guest_of_kvm_has_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(kvm, "resolve", lambda spec, arch, update: image_kernel(arch.name))
    place = place_of(tmp_path, MachineOptions(arch="x86_64", accelerator="icount"))
    place.boot("debian:6.12,cpu=cascadelake", silent)
    with pytest.raises(MissingToolError, match="QEMU 7.2.22 has no cascadelake"):
        place.describe()
    place.boot("debian:6.12,cpu=skylake", silent)
    assert "-cpu Skylake-Server-v4," in words_of(place)
    place = place_of(tmp_path, MachineOptions(arch="x86_64"))
    with pytest.raises(UserError, match="this machine's own processor, not skylake"):
        place.boot("debian:6.12,cpu=skylake", silent)


def test_a_list_of_cases_goes_into_a_file(tmp_path: Path) -> None:
    place = place_of(tmp_path, ICOUNT)
    names = ",".join(["getppid"] * 500)
    argv = place.command(("time", f"cases={names}", "groups=2"))[0]
    assert argv[-1].endswith(" -- time cases=/cases groups=2")
    initramfs = Path(argv[argv.index("-initrd") + 1]).read_bytes()
    assert initramfs.count(b"getppid\n") == 500
    assert b"the probe" in initramfs
    looking = place.command(("facts=/proc/version,/proc/cpuinfo",))[0]
    assert looking[-1].endswith(" -- facts=@/cases")
    initramfs = Path(looking[looking.index("-initrd") + 1]).read_bytes()
    assert b"/proc/version\n/proc/cpuinfo\n" in initramfs
    other = place.command(("cases=/elsewhere",))[0]
    assert other[-1].endswith("cases=/elsewhere")


def test_what_a_command_line_does_not_take_is_said(tmp_path: Path) -> None:
    with pytest.raises(MachineError, match="command line"):
        place_of(tmp_path, ICOUNT).command(("odd=" + "/proc/version," * 100,))


def play(tmp_path: Path, script: str, timeout: float = PATIENCE, **options: Any) -> list[str]:
    """Runs `script` in QEMU's place; the lines of the probe, which an error has in `lines`."""
    place = place_of(tmp_path, replace(ICOUNT, **options), script)
    lines: list[str] = []
    try:
        place.run_probe(("n=3",), timeout, lines.append)
    except MachineError as err:
        err.lines = lines  # type: ignore[attr-defined]
        raise
    return lines


def test_lines_come_without_what_stands_before_them(tmp_path: Path) -> None:
    script = (
        "printf 'Linux\\r\\n[ 1.0] kentry-probe start arm64\\r\\nkentry-probe t 0 0 1 2\\r\\n';"
        " echo other; echo kentry-probe end groups=1"
    )
    lines = play(tmp_path, script)
    assert lines == [
        "kentry-probe start arm64",
        "kentry-probe t 0 0 1 2",
        "kentry-probe end groups=1",
    ]


START = "echo kentry-probe start arm64"


@pytest.mark.slow
@pytest.mark.parametrize(
    ("script", "words", "options"),
    [
        ("echo booting; exit 3", "QEMU ended with status 3, before the probe started", {}),
        ("echo booting; sleep 100", "it was stopped after 1 s, before the probe", {}),
        ("sleep 100", "it was stopped after 0.5 s, before", {"boot_timeout": 0.5, "timeout": 60}),
        (f"{START}; sleep 100", "it was stopped after 1 s, while the cases ran", {}),
        (
            f"{START}; echo kentry-probe end cases=1; sleep 100",
            "did not switch itself off after its end mark",
            {},
        ),
        (
            "echo 'KVM internal error. Suberror: 1' >&2; echo 'extra data[0]: 0' >&2;"
            " sleep 0.1; echo emulation failure >&2; sleep 100",
            "KVM of this machine cannot run this kernel: emulation failure, before the probe",
            {"timeout": 60},
        ),
        (
            "echo 'qemu: error: failed to set MSR 0x10a to 0x69' >&2; kill -ABRT $$",
            "KVM of this machine cannot run this kernel: QEMU could not set a register",
            {},
        ),
    ],
)
def test_a_guest_that_misbehaves_is_one_sentence(
    tmp_path: Path, script: str, words: str, options: dict[str, Any]
) -> None:
    timeout = options.pop("timeout", 1) if "sleep" in script else PATIENCE
    with pytest.raises(MachineError, match=words) as caught:
        play(tmp_path, script, timeout, **options)
    assert "extra data" not in caught.value.detail
    assert caught.value.lines == ["kentry-probe start arm64"] * script.count("start") + [  # type: ignore[attr-defined]
        "kentry-probe end cases=1"
    ] * script.count("end cases")


def test_a_guest_that_floods_is_stopped(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kvm, "_CONSOLE_LIMIT_BYTES", 4 << 20)
    with pytest.raises(MachineError, match="more than 4 MiB"):
        play(tmp_path, "yes all work and no play")


def test_a_guest_has_no_other_program_and_needs_a_kernel(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    place = place_of(tmp_path, ICOUNT)
    with pytest.raises(MachineError, match="so 'ls' is"):
        place.run_command(["ls"], 1)
    place.kernel = None
    with pytest.raises(MachineError, match="kvm has no kernel"):
        place.command(())
    monkeypatch.setattr(kvm, "resolve", lambda spec, arch, update: image_kernel(arch.name))
    place.boot("debian:6.12", lambda fraction, now: None)
    assert place.command(())
    place.close()


def test_a_machine_without_kvm_is_told_what_to_do(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    other = next(name for name in ARCHES if name != host_arch().name)
    with pytest.raises(MachineError, match=f"runs {host_arch().name} guests, not {other}"):
        kvm.check_kvm(find_arch(other))
    monkeypatch.setattr(kvm, "DEVICE", tmp_path / "kvm")
    with pytest.raises(MachineError, match="no KVM.*--accel tcg"):
        kvm.check_kvm(host_arch())
    (tmp_path / "kvm").touch()
    kvm.check_kvm(host_arch())
    monkeypatch.setattr(kvm.os, "access", lambda path, mode: False)  # type: ignore[attr-defined]
    with pytest.raises(MachineError, match="not be opened.*adduser"):
        kvm.check_kvm(host_arch())
