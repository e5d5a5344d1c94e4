# SPDX-License-Identifier: GPL-2.0-or-later
"""Counts exactly: boots the kernel under QEMU's software emulation, with the plugin.

See qemu_argv.py for how the guest is confined.
"""

from __future__ import annotations

from dataclasses import dataclass

from kentry.arch import Arch
from kentry.errors import GuestError, TraceError
from kentry.host.cache import kept_file
from kentry.host.native import plugin_file, probe_file
from kentry.host.scratch import scratch_folder
from kentry.kernels.kernel import TEXT_START, Kernel
from kentry.progress import Update
from kentry.runners.console import boot, explain, tail
from kentry.runners.emulator import find_emulator
from kentry.runners.exact import ExactOptions, GuestRun
from kentry.runners.initramfs import CASES_FILE, build_initramfs
from kentry.runners.plugin_trace import parse_trace
from kentry.runners.probe_protocol import read_report
from kentry.runners.qemu_argv import (
    ACCELERATORS,
    ICOUNT,
    RANDOM,
    STEADY,
    boot_argv,
    kernel_words,
    machine_argv,
    plugin_argv,
)


@dataclass(frozen=True)
class QemuRunner:
    """Boots kernels of one architecture."""

    arch: Arch

    def run(self, kernel: Kernel, options: ExactOptions, update: Update) -> GuestRun:
        """One boot; GuestError if the guest did not reach its end mark."""
        emulator = find_emulator(self.arch, options.emulator)
        cpu = self.arch.cpu_with(options.vector_length)
        initramfs = build_initramfs(probe_file(self.arch), options.cases)
        words = self.kernel_words(options)
        probe_words = [f"n={options.windows}", f"paths={options.path_windows}"]
        probe_words += [f"warmup={options.warmup}", f"cases={CASES_FILE}"]
        with scratch_folder() as folder:
            trace_file = folder / "trace"
            plugin_words = [f"out={trace_file}", f"traps={kept_file('traps', self.traps(kernel))}"]
            argv = [
                *machine_argv(emulator, self.arch, cpu, options.memory, options.seed),
                *boot_argv(kernel, kept_file("initramfs", initramfs), [*words, "--", *probe_words]),
                *plugin_argv(
                    plugin_file(),
                    self.arch,
                    [*plugin_words, *(["check=on"] if options.check else [])],
                ),
            ]
            guest = boot(argv, emulator, options.timeout, update, options.console_file)
            report = read_report(guest.console.splitlines())
            if report.ended_cases is None:
                raise explain(guest.console, report.started, guest.clause)
            try:
                trace = parse_trace(trace_file)
            except TraceError as err:
                raise TraceError(
                    err.sentence,
                    f"Is {folder} full? KENTRY_CACHE names another folder.",
                    guest.stderr,
                ) from err
        if trace.cases_ended != report.ended_cases:
            raise GuestError(
                "The plugin and the console disagree about how many cases ended.",
                "Run again with -v.",
                tail(guest.console),
            )
        target = {
            "kind": "qemu",
            "emulator": f"QEMU {emulator.version}",
            "machine": self.arch.machine,
            "cpu": cpu,
            "accelerator": ACCELERATORS[ICOUNT],
            "memory_mib": options.memory,
            "seed": options.seed,
            "cmdline": " ".join(words),
            "randomise": options.randomise,
            "plugin_api": trace.api,
        }
        return GuestRun(guest.console, report, trace, target)

    def kernel_words(self, options: ExactOptions) -> list[str]:
        """The kernel's command line."""
        return kernel_words(self.arch, RANDOM if options.randomise else STEADY)

    def traps(self, kernel: Kernel) -> str:
        """Where the kernel takes interrupts and exceptions, for the plugin to watch."""
        lines = []
        for symbol in kernel.symbols:
            if symbol.name == TEXT_START:
                lines.append(f"text {symbol.address:x}")
            for trap in self.arch.traps:
                if trap.symbol.fullmatch(symbol.name):
                    lines.append(f"{trap.kind} {symbol.address + trap.offset:x}")
        return "".join(f"{line}\n" for line in lines)
