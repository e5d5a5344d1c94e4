# SPDX-License-Identifier: GPL-2.0-or-later
"""A guest of this machine as a place: every run of the probe is a boot, with it as /init.

As untrusted as any guest: see machine.py.  Under KVM the processor runs the guest, so its time is
the processor's; "tcg" and "icount" try the whole way where there is no KVM.
"""

from __future__ import annotations

import hashlib
import os
import time
from collections.abc import Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from kentry.arch import Arch, find_arch, host_arch
from kentry.errors import MachineError, UserError
from kentry.host.cache import cache_dir, write_atomically
from kentry.host.process import need
from kentry.kernels.kernel import Kernel
from kentry.kernels.resolve import resolve
from kentry.progress import Update
from kentry.runners.console import ProbeReport, explain, tail
from kentry.runners.emulator import Emulator, find_emulator
from kentry.runners.initramfs import CASES_FILE, build_initramfs
from kentry.runners.machine import (
    CommandResult,
    Machine,
    MachineOptions,
    OnLine,
    choose_probe,
    closing,
)
from kentry.runners.qemu_argv import ACCELERATOR, ALONE, exact, limits
from kentry.runners.streaming import Streamed, stream

KVM, TCG, ICOUNT = "kvm", "tcg", "icount"

# In a recording's "target".
ACCELERATORS = {KVM: "kvm", TCG: "tcg, one thread", ICOUNT: ACCELERATOR}

DEVICE = Path("/dev/kvm")

_PREFIX = "kentry-probe "
# The probe's arguments that are lists, which it also takes from a file: how that one's name begins.
_LISTS = {"cases": "/", "facts": "@"}

# COMMAND_LINE_SIZE (riscv64's is the smallest, with the byte that ends it), and MAX_INIT_ARGS of
# init/main.c without its own two.
_MOST_CMDLINE_BYTES = 1023
_MOST_WORDS = 30

# A run prints some MiB; what comes after this many is a flood.
_CONSOLE_LIMIT_BYTES = 256 << 20

# qemu/accel/kvm/kvm-all.c, when the hypervisor gives up; the guest stands still from then on.
_GAVE_UP = "KVM internal error"
# It says why in the lines that follow.
_LAST_WORDS_SECONDS = 0.5

_WITHOUT_KVM = (
    "--accel tcg tries the whole way under emulation, where time means nothing; for times, use"
    " a machine with KVM, or local, ssh:HOST or board:PLACE."
)


@dataclass
class _Console:
    """What a guest printed, and which lines of it are the probe's."""

    on_line: OnLine
    lines: list[str] = field(default_factory=list)
    size: int = 0
    started: bool = False
    ended: bool = False

    def __call__(self, line: str) -> None:
        """One line of the console: a message of the kernel may stand before the probe's words."""
        self.lines.append(line)
        self.size += len(line) + 1
        if self.size > _CONSOLE_LIMIT_BYTES:
            raise MachineError(
                f"The guest printed more than {_CONSOLE_LIMIT_BYTES >> 20} MiB and was stopped.",
                "Nothing that the probe does prints so much.",
                tail("\n".join(self.lines[-50:])),
            )
        _, found, rest = line.partition(_PREFIX)
        if not found:
            return
        self.started = self.started or rest.startswith("start ")
        self.ended = self.ended or rest.startswith("end ")
        self.on_line(_PREFIX + rest.rstrip("\r"))

    @property
    def text(self) -> str:
        return "".join(f"{line}\n" for line in self.lines)


class KvmMachine:
    """Guests of one architecture, one after the other."""

    kind = "kvm"

    def __init__(self, name: str, arch: Arch, probe: Path, options: MachineOptions) -> None:
        self.name = name
        self.arch = arch
        self.kernel: Kernel | None = None
        self._probe = probe
        self._options = options
        self._emulator: Emulator | None = None

    def run_probe(self, words: Sequence[str], timeout: float, on_line: OnLine) -> None:
        """Boots the kernel with the probe as its only program; see Machine."""
        console = _Console(on_line)
        argv, env = self.command(words)
        check = _Check(console, self._options.boot_timeout)
        try:
            ran = stream(argv, timeout, console, env=env, check=check)
        finally:
            if self._options.console_file:
                write_atomically(self._options.console_file, console.text)
        if not console.ended or ran.stopped:
            raise _trouble(console, ran)

    def run_command(self, argv: Sequence[str], timeout: float) -> CommandResult:
        """Refuses: the probe is the guest's only program."""
        raise MachineError(
            f"A guest of {self.name} has no program but the probe, so '{argv[0]}' is not there.",
            "Run commands on local, ssh:HOST or board:PLACE.",
        )

    def boot(self, kernel: str, update: Update) -> None:
        """The kernel of this spec is what the next run boots."""
        self.kernel = resolve(kernel, self.arch, update)

    def close(self) -> None:
        """No guest outlives its run."""

    def describe(self) -> dict[str, Any]:
        """What a recording's "target" says of the machine."""
        options = self._options
        return {
            "emulator": f"QEMU {self._the_emulator().version}",
            "machine": self.arch.machine,
            "cpu": self._cpu(),
            "accelerator": ACCELERATORS[options.accelerator],
            "memory_mib": options.memory,
            "cmdline": " ".join(self._kernel_words()),
        }

    def command(self, words: Sequence[str]) -> tuple[list[str], dict[str, str]]:
        """QEMU's command line for a boot with these words, and what its environment needs."""
        kernel = self.kernel
        if kernel is None:
            if not self._options.kernel:
                raise MachineError(
                    f"{self.name} has no kernel to boot.",
                    "Name one: --kernel debian:6.12, or source:6.12.",
                )
            self.boot(self._options.kernel, lambda fraction, now: None)
            kernel = self.kernel
            assert kernel is not None
        words, listed = _lists_apart(words)
        emulator = self._the_emulator()
        argv = [
            *self._pinned(),
            *limits(self._options.memory),
            *emulator.argv,
            *self._machine(),
            *("-kernel", str(kernel.image), "-initrd", str(self._initramfs(listed))),
            *("-append", self._cmdline(words)),
        ]
        return argv, emulator.env

    def _the_emulator(self) -> Emulator:
        if self._emulator is None:
            self._emulator = find_emulator(self.arch, self._options.emulator)
        return self._emulator

    def _pinned(self) -> list[str]:
        pin = self._options.pin
        if pin is None:
            return []
        return [need("taskset", "util-linux"), "--cpu-list", str(pin)]

    def _cpu(self) -> str:
        return "host" if self._options.accelerator == KVM else self.arch.cpu_with()

    def _machine(self) -> list[str]:
        options = self._options
        accelerator = {KVM: "kvm"}.get(options.accelerator, "tcg,thread=single")
        return [
            *("-machine", self.arch.machine, "-cpu", self._cpu(), "-accel", accelerator),
            *("-smp", str(options.smp), "-m", f"{options.memory}M"),
            *(exact(seed=1) if options.accelerator == ICOUNT else ()),
            *ALONE,
        ]

    def _initramfs(self, listed: Sequence[str]) -> Path:
        """The file with the probe and its list; kept, so that a command line can be repeated."""
        initramfs = build_initramfs(self._probe, listed)
        file = cache_dir("boot", hashlib.sha256(initramfs).hexdigest()) / "initramfs"
        write_atomically(file, initramfs)
        return file

    def _kernel_words(self) -> list[str]:
        # panic=-1: reboot at once, which -no-reboot turns into QEMU's end.
        words = ["panic=-1", "quiet", f"console={self.arch.console}"]
        if self._options.accelerator != KVM:
            # They shorten an emulated boot; on a processor they would be another timer.
            words += self.arch.boot_words
        if self._options.accelerator == ICOUNT:
            words += ["nokaslr", "randomize_kstack_offset=off"]
        return words

    def _cmdline(self, words: Sequence[str]) -> str:
        """The kernel's words, then the probe's."""
        line = " ".join([*self._kernel_words(), "--", *words])
        odd = next((word for word in words if not word or set(word) & set(' \t\n"')), None)
        if odd is not None:
            raise MachineError(
                f"The probe's argument '{odd}' cannot go through a kernel's command line.",
                "Leave out its spaces and quotes.",
            )
        if len(line.encode()) > _MOST_CMDLINE_BYTES or len(words) > _MOST_WORDS:
            raise MachineError(
                f"The probe's {len(words)} arguments do not fit on a kernel's command line, which"
                f" has room for {_MOST_WORDS} words and {_MOST_CMDLINE_BYTES} bytes.",
                "Ask for less at a time.",
            )
        return line


def open_kvm(text: str, options: MachineOptions) -> AbstractContextManager[Machine]:
    """Guests of this machine, for a `with`; "kvm:SPEC" names the first kernel."""
    if options.accelerator not in ACCELERATORS:
        raise UserError(
            f"Unknown accelerator '{options.accelerator}'.",
            f"Use one of: {', '.join(ACCELERATORS)}.",
        )
    arch = find_arch(options.arch) if options.arch else host_arch()
    if options.accelerator == KVM:
        check_kvm(arch)
    place = KvmMachine(text, arch, choose_probe(text, arch, options), options)
    spec = text.partition(":")[2]
    if spec:
        place.boot(spec, lambda fraction, now: None)
    return closing(place)


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
            f" firmware or the hypervisor; or {_WITHOUT_KVM}",
        )
    if not os.access(DEVICE, os.R_OK | os.W_OK):
        raise MachineError(
            f"{DEVICE} may not be opened by this user.",
            f"Join its group and log in again (adduser $USER kvm); or {_WITHOUT_KVM}",
        )


@dataclass
class _Check:
    """Ends a guest that cannot come to anything: the probe's first word has `seconds` to come."""

    console: _Console
    seconds: float
    begun: float = field(default_factory=time.monotonic)
    gave_up: float = 0.0

    def __call__(self, words: str) -> None:
        """`words` is what QEMU itself said."""
        now = time.monotonic()
        if _GAVE_UP in words:
            self.gave_up = self.gave_up or now
        if self.gave_up and now > self.gave_up + _LAST_WORDS_SECONDS:
            # KVM_INTERNAL_ERROR_EMULATION: an instruction that the processor did not run itself.
            why = "emulation failure" if "emulation failure" in words else "internal error"
            when = "while the probe ran" if self.console.started else "before the probe started"
            raise MachineError(
                f"KVM of this machine cannot run this kernel: {why}, {when}.",
                "It is a virtual machine whose hypervisor does not pass virtualisation on"
                f" whole; {_WITHOUT_KVM}",
                "\n".join(_gave_up_lines(words)),
            )
        if not self.console.started and now > self.begun + self.seconds:
            raise _explained(self.console, f"it was stopped after {self.seconds:g} s")


def _gave_up_lines(words: str) -> list[str]:
    lines = words[words.index(_GAVE_UP) :].splitlines()
    telling = [line for line in lines if not line.startswith("extra data")]
    return [f"  | {line[:100]}" for line in telling[:4]]


def _lists_apart(words: Sequence[str]) -> tuple[list[str], list[str]]:
    """The words with a file's name in place of a list of cases or paths, and that list."""
    listed: list[str] = []
    rest = []
    for word in words:
        name, _, value = word.partition("=")
        if name in _LISTS and value and not value.startswith(_LISTS[name]):
            listed = value.split(",")
            word = f"{name}={_LISTS[name].rstrip('/')}{CASES_FILE}"
        rest.append(word)
    return rest, listed


def _trouble(console: _Console, ran: Streamed) -> MachineError:
    if ran.stopped:
        clause = f"it was stopped {ran.stopped}"
    elif ran.status:
        clause = f"QEMU ended with status {ran.status}"
    else:
        clause = "the machine rebooted or was switched off"
    if console.ended:
        return MachineError(
            f"The guest did not switch itself off after its end mark: {clause}.",
            "Is ACPI, or PSCI or SBI, in this kernel?",
            tail(console.text),
        )
    if ran.stderr and not console.text.strip():
        return MachineError(
            f"QEMU ended before the guest said anything: {clause}.",
            "kentry doctor shows what is missing; -v shows the command line.",
            ran.stderr,
        )
    return _explained(console, clause)


def _explained(console: _Console, clause: str) -> MachineError:
    why = explain(console.text, ProbeReport(started=console.started), clause)
    return MachineError(why.sentence, why.remedy, why.detail)
