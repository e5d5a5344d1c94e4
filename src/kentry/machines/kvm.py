# SPDX-License-Identifier: GPL-2.0-or-later
"""A guest of this machine: every run of the probe is a boot with the probe as /init.

The guest is untrusted (boot/emulator.py).  Without KVM "tcg" and "icount" try the whole way.
"""

import os
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from kentry.arch import Arch, find_arch, host_arch
from kentry.arch.processors import MAX, Processor, find_processor, machine_for
from kentry.boot.console import Console, exit_clause, explain, tail
from kentry.boot.emulator import (
    ACCELERATORS,
    ICOUNT,
    KVM,
    STEADY,
    Emulator,
    Guest,
    boot_argv,
    check_append,
    emulator_with,
    kernel_words,
)
from kentry.boot.initramfs import CASES_FILE, build_initramfs
from kentry.boot.probe_protocol import PREFIX, OnLine, ProbeLines, parse_line
from kentry.errors import GuestError, MachineError, UserError
from kentry.host.cache import kept_file
from kentry.host.native import probe_file
from kentry.host.process import Exit, need, supervise
from kentry.kernels.resolve import resolve
from kentry.kernels.spec import parse
from kentry.machines.machine import CommandResult, Machine, MachineOptions
from kentry.progress import Update

DEVICE = Path("/dev/kvm")

# The probe's arguments that are lists, and what begins the name of a file that holds one instead.
_LISTS = {"cases": "/", "facts": "@"}

# COMMAND_LINE_SIZE (riscv64's is the smallest, with the byte that ends it), and MAX_INIT_ARGS of
# init/main.c without its own two.
_MOST_CMDLINE_BYTES, _MOST_WORDS = 1023, 30
_MEMORY_MIB = 512
_CONSOLE_LIMIT_BYTES = 256 << 20  # a run prints some MiB
# qemu/accel/kvm/kvm-all.c prints this when the hypervisor gives up; the guest then stands still.
_GAVE_UP = "KVM internal error"
_LAST_WORDS_SECONDS = 0.5  # for the lines that follow it and say why
# qemu/target/i386/kvm/kvm.c prints this, then aborts, when KVM takes no value for a register.
_REGISTER_REFUSED = "failed to set MSR"
_WITHOUT_KVM = (
    "Use local, ssh:HOST or board:PLACE (--accel tcg tries the command by emulation, whose times"
    " mean nothing)."
)


class _Run(Console):
    """One boot: the guest's console, of which the probe's lines are handed on."""

    def __init__(self, on_line: OnLine, boot_timeout: float) -> None:
        super().__init__()
        self.probe = ProbeLines(on_line)
        self._boot_timeout = boot_timeout
        self._begun = time.monotonic()
        self._gave_up = 0.0

    def take(self, line: str) -> None:
        """Takes a line of the console, perhaps with a message of the kernel before the probe's."""
        super().take(line)
        if parsed := parse_line(line):
            self.probe(f"{PREFIX}{' '.join(parsed)}")

    def check_started(self, stderr: str) -> None:
        """Ends a guest that will never start the probe; `stderr` is QEMU's."""
        self.check()
        now = time.monotonic()
        if _GAVE_UP in stderr:
            self._gave_up = self._gave_up or now
        if self._gave_up and now > self._gave_up + _LAST_WORDS_SECONDS:
            # KVM_INTERNAL_ERROR_EMULATION: an instruction that the processor did not run itself.
            why = "emulation failure" if "emulation failure" in stderr else "internal error"
            raise self._refused(why, stderr[stderr.index(_GAVE_UP) :])
        if not self.probe.started and now > self._begun + self._boot_timeout:
            clause = f"it was stopped after {self._boot_timeout:g} s"
            raise explain(str(self), False, clause)

    def check_ended(self, end: Exit) -> None:
        """MachineError unless the probe came to its end and the guest switched itself off."""
        if self.probe.ended and not end.stopped:
            return
        if _REGISTER_REFUSED in end.stderr:
            raise self._refused("QEMU could not set a register of the processor", end.stderr)
        clause = exit_clause(end)
        if self.probe.ended:
            raise MachineError(
                f"The guest did not switch itself off after its end mark: {clause}.",
                "Use a kernel with ACPI (x86_64), PSCI (arm64) or SBI (riscv64).",
                tail(str(self)),
            )
        raise explain(str(self), self.probe.started, clause, end.stderr)

    def _refused(self, why: str, stderr: str) -> MachineError:
        """The error for a KVM that does not run the guest; `stderr` is what QEMU says of it."""
        when = "while the probe ran" if self.probe.started else "before the probe started"
        lines = [line for line in stderr.splitlines() if not line.startswith("extra data")]
        return MachineError(
            f"KVM of this machine cannot run this kernel: {why}, {when}.",
            "It is a virtual machine whose hypervisor does not pass virtualisation on whole."
            f" {_WITHOUT_KVM}",
            "\n".join(f"  | {line[:100]}" for line in lines[:4]),
        )


class KvmMachine(Machine):
    """Guests of one architecture, one after the other."""

    kind = "kvm"

    def __init__(self, name: str, options: MachineOptions) -> None:
        self.name = name
        self.arch = find_arch(options.arch) if options.arch else host_arch()
        # Before the probe, which is in vain where KVM does not run the architecture.
        if options.accelerator == KVM:
            check_kvm(self.arch)
        self.probe = probe_file(self.arch)
        self._options = options
        self._take({})

    def connect(self) -> None:
        """Looks for the kernel that "kvm:SPEC" names."""
        if spec := self.name.partition(":")[2]:
            self.boot(spec, lambda fraction, now: None)

    def run_probe(self, arguments: Sequence[str], timeout: float, on_line: OnLine) -> None:
        """Boots the kernel with the probe as its only program; see Machine."""
        argv, env = self.command(arguments)
        run, limit = _Run(on_line, self._options.boot_timeout), _CONSOLE_LIMIT_BYTES
        check = run.check_started
        try:
            run.check_ended(supervise(argv, timeout, run.take, env=env, check=check, limit=limit))
        except GuestError as err:
            remedy = "Run again with -v for the command line."
            raise MachineError(err.sentence, remedy, err.detail) from err

    def run_command(self, argv: Sequence[str], timeout: float) -> CommandResult:
        """Refuses: the probe is the guest's only program."""
        raise MachineError(
            f"A guest of {self.name} has no program but the probe, so '{argv[0]}' is not there.",
            "Run commands on local, ssh:HOST or board:PLACE.",
        )

    def boot(self, kernel: str, update: Update) -> None:
        """The kernel of this spec is what the next run boots, as the spec says."""
        self._take(parse(kernel).booted)
        self.kernel = resolve(kernel, self.arch, update)

    def _take(self, booted: Mapping[str, str]) -> None:
        """How kernels are booted from now on; UserError for a word or a processor that is none."""
        accelerator, append = self._options.accelerator, booted.get("append", "")
        check_append(append)
        if accelerator == KVM and "cpu" in booted:
            raise UserError(
                f"A KVM guest has this machine's own processor, not {booted['cpu']}.",
                "Leave cpu= out of the spec.",
            )
        own = Processor(model="host")
        cpu = booted.get("cpu", MAX)
        self._processor = own if accelerator == KVM else find_processor(self.arch, cpu)
        steadiness = STEADY if accelerator == ICOUNT else ()
        self._kernel_words = kernel_words(self.arch, self._processor, steadiness, append.split())

    def describe(self) -> dict[str, Any]:
        """Returns what a recording's "target" says of the machine."""
        return {
            "emulator": f"QEMU {self._emulator.version}",
            "machine": machine_for(self.arch, self._processor),
            "cpu": self._processor.qemu(),
            "accelerator": ACCELERATORS[self._options.accelerator],
            "memory_mib": _MEMORY_MIB,
            "cmdline": " ".join(self._kernel_words),
        }

    def command(self, arguments: Sequence[str]) -> tuple[list[str], dict[str, str]]:
        """QEMU's command line for a boot with these arguments, and what its environment needs."""
        options = self._options
        if self.kernel is None:
            raise MachineError(
                f"{self.name} has no kernel to boot.",
                "Name one: kvm:debian:6.12, or kvm:source:6.12.",
            )
        listed: list[str] = []
        short = []
        for word in arguments:
            name, _, value = word.partition("=")
            if name in _LISTS and value and not value.startswith(_LISTS[name]):
                listed = value.split(",")
                word = f"{name}={_LISTS[name].rstrip('/')}{CASES_FILE}"
            short.append(word)
        accelerator, emulator = options.accelerator, self._emulator
        initrd = kept_file("initramfs", build_initramfs(self.probe, listed))
        argv = [
            *Guest(
                emulator, self.arch, self._processor, _MEMORY_MIB, accelerator=accelerator
            ).argv(),
            *boot_argv(self.kernel, initrd, [*self._kernel_words, "--", *short]),
        ]
        if options.pin is not None:
            argv[:0] = [need("taskset"), "--cpu-list", str(options.pin)]
        if len(argv[-1].encode()) > _MOST_CMDLINE_BYTES or len(short) > _MOST_WORDS:
            raise MachineError(
                f"The probe's {len(short)} arguments do not fit on a kernel's command line, which"
                f" has room for {_MOST_WORDS} words and {_MOST_CMDLINE_BYTES} bytes.",
                "Ask for less at a time.",
            )
        return argv, emulator.env

    @property
    def _emulator(self) -> Emulator:
        return emulator_with(self.arch, self._options.emulator, self._processor)


def check_kvm(arch: Arch) -> None:
    """MachineError unless this machine, and this user, can run guests of `arch` under KVM."""
    if arch is not host_arch():
        raise MachineError(
            f"KVM on this machine runs {host_arch().name} guests, not {arch.name} ones.",
            _WITHOUT_KVM,
        )
    if not DEVICE.exists():
        raise MachineError(
            f"This machine has no KVM: {DEVICE} is not there.",
            "Load the module (modprobe kvm_intel, or kvm_amd) and switch virtualisation on in the"
            f" firmware or the hypervisor. {_WITHOUT_KVM}",
        )
    if not os.access(DEVICE, os.R_OK | os.W_OK):
        raise MachineError(
            f"{DEVICE} may not be opened by this user.",
            f"Join its group and log in again (adduser $USER kvm). {_WITHOUT_KVM}",
        )
