# SPDX-License-Identifier: GPL-2.0-or-later
"""QEMU's command line up to what is booted."""

from pathlib import Path

import pytest

from kentry.arch import ARCHES, Arch, find_arch
from kentry.boot.emulator import ACCELERATORS, ICOUNT, Emulator, machine_argv, plugin_argv
from kentry.errors import MachineError

EMULATOR = Emulator(("/usr/bin/qemu", "-L", "/firmware"), "10.0.2", (10, 0, 2))


@pytest.mark.parametrize("arch", ARCHES.values(), ids=lambda arch: arch.name)
def test_the_guest_is_shut_in_and_every_run_is_alike(arch: Arch) -> None:
    argv = machine_argv(EMULATOR, arch, "a-cpu", 2048, 7, file_limit=3)
    words = " ".join(argv)
    for needed in (
        f"--as={(2048 + 4096) << 20}",
        f"--fsize={3 << 20} --core=0 -- /usr/bin/qemu -L /firmware",
        f"-machine {arch.machine} -cpu a-cpu",
        "-accel tcg,thread=single -smp 1 -m 2048M -nodefaults",
        "-icount shift=0,sleep=off -seed 7 -rtc base=2020-01-01T00:00:00,clock=vm",
        "-nic none -monitor none",
        "-sandbox on,obsolete=deny,elevateprivileges=deny,spawn=deny,resourcecontrol=deny",
    ):
        assert needed in words
    # What a recording says of it.
    assert ACCELERATORS[ICOUNT] == "tcg, one thread, -icount shift=0,sleep=off"
    assert not {"-kernel", "-initrd", "-append", "-plugin"} & set(argv)


def test_a_comma_in_a_path_is_not_an_option() -> None:
    argv = plugin_argv(Path("/a,b/x.so"), find_arch("arm64"), ["out=/c,d", "check=on"])
    assert argv == ["-plugin", "/a,,b/x.so,out=/c,,d,check=on"]
    # Firmware is named where there is some.
    argv = plugin_argv(Path("/x.so"), find_arch("riscv64"), [])
    assert argv == ["-plugin", "/x.so,firmware=80000000-80200000"]


def test_a_limit_of_memory_is_named_before_qemu_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("os.geteuid", lambda: 1000)
    monkeypatch.setattr("resource.getrlimit", lambda which: (2 << 30, 2 << 30))
    with pytest.raises(MachineError, match="4608 MiB.*2048 MiB"):
        machine_argv(EMULATOR, find_arch("arm64"), "max", 512)
    monkeypatch.setattr("resource.getrlimit", lambda which: (-1, -1))
    assert machine_argv(EMULATOR, find_arch("arm64"), "max", 512)
