# SPDX-License-Identifier: GPL-2.0-or-later
"""The exact target: the kernel under QEMU's software emulation, with the plugin.

The guest is untrusted: no network device, QEMU's seccomp sandbox on, no default devices,
its memory, file size and time limited, and it dies with kentry.
"""

from __future__ import annotations

import hashlib
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from kentry.arch import Arch
from kentry.errors import GuestError, TraceError
from kentry.host.cache import cache_dir, write_atomically
from kentry.host.native import plugin_file, probe_file
from kentry.kernels.kernel import TEXT_START, Kernel
from kentry.progress import Update
from kentry.runners.console import explain, read_probe, tail
from kentry.runners.emulator import Emulator, find_emulator
from kentry.runners.exact import ExactOptions, GuestRun
from kentry.runners.initramfs import CASES_FILE, build_initramfs
from kentry.runners.plugin_trace import parse_trace
from kentry.runners.qemu_argv import ACCELERATOR, machine_argv, plugin_argument
from kentry.runners.supervise import Ending, supervise

_STEADY = ("nokaslr", "randomize_kstack_offset=off")
_RANDOM = ("randomize_kstack_offset=on",)


@dataclass(frozen=True)
class QemuRunner:
    """Boots kernels of one architecture."""

    arch: Arch

    def run(self, kernel: Kernel, options: ExactOptions, update: Update) -> GuestRun:
        """One boot; GuestError when the guest did not reach its end mark."""
        emulator = find_emulator(self.arch, options.emulator)
        inputs = self._inputs(kernel, options)
        with tempfile.NamedTemporaryFile(prefix="kentry-", suffix=".trace") as file:
            trace = Path(file.name)
            argv = self._argv(emulator, kernel, options, inputs, trace)
            ending = supervise(argv, emulator.env, options.timeout, update)
            if options.console_file:
                write_atomically(options.console_file, ending.console)
            return self._result(ending, trace, emulator, kernel, options)

    def _inputs(self, kernel: Kernel, options: ExactOptions) -> Path:
        """The folder with what QEMU reads; kept, so that a command line can be repeated."""
        initramfs = build_initramfs(probe_file(self.arch), options.cases)
        traps = self._traps(kernel)
        folder = cache_dir("boot", hashlib.sha256(initramfs + traps.encode()).hexdigest())
        write_atomically(folder / "initramfs", initramfs)
        write_atomically(folder / "traps", traps)
        return folder

    def _result(
        self,
        ending: Ending,
        trace_file: Path,
        emulator: Emulator,
        kernel: Kernel,
        options: ExactOptions,
    ) -> GuestRun:
        report = read_probe(ending.console)
        if ending.trouble and not report.started and not ending.console.strip():
            raise GuestError(
                f"QEMU ended before the guest said anything: {ending.clause}.",
                "kentry doctor shows what is missing; -v shows the command line.",
                ending.trouble,
            )
        if report.ended_cases is None:
            raise explain(ending.console, report, ending.clause)
        try:
            trace = parse_trace(trace_file)
        except TraceError as err:
            raise TraceError(
                err.sentence,
                f"Is {trace_file.parent} full? TMPDIR names another folder.",
                ending.trouble,
            ) from err
        if trace.cases_ended != report.ended_cases:
            raise GuestError(
                "The plugin and the console disagree about how many cases ended.",
                "Run again with -v.",
                tail(ending.console),
            )
        return GuestRun(
            ending.console, report, trace, self._describe(emulator, kernel, options, trace.api)
        )

    def _describe(
        self, emulator: Emulator, kernel: Kernel, options: ExactOptions, api: int
    ) -> dict[str, Any]:
        return {
            "kind": "qemu",
            "emulator": f"QEMU {emulator.version}",
            "machine": self.arch.machine,
            "cpu": self.arch.cpu_with(options.vector_length),
            "accelerator": ACCELERATOR,
            "memory_mib": options.memory,
            "seed": options.seed,
            "cmdline": " ".join(self._kernel_words(options)),
            "randomise": options.randomise,
            "plugin_api": api,
        }

    def _traps(self, kernel: Kernel) -> str:
        """Where the kernel takes interrupts and exceptions, for the plugin to watch."""
        lines = []
        for symbol in kernel.symbols:
            if symbol.name == TEXT_START:
                lines.append(f"text {symbol.address:x}")
            for trap in self.arch.traps:
                if trap.symbol.fullmatch(symbol.name):
                    lines.append(f"{trap.kind} {symbol.address + trap.offset:x}")
        return "".join(f"{line}\n" for line in lines)

    def _kernel_words(self, options: ExactOptions) -> list[str]:
        # panic=-1: reboot at once, which -no-reboot turns into QEMU's end.
        steadiness = _RANDOM if options.randomise else _STEADY
        words = ["panic=-1", "quiet", f"console={self.arch.console}"]
        return [*words, *self.arch.boot_words, *steadiness]

    def _cmdline(self, options: ExactOptions) -> str:
        """The kernel's words, then the probe's."""
        probe = [f"n={options.windows}", f"paths={options.path_windows}"]
        probe += [f"warmup={options.warmup}", f"cases={CASES_FILE}"]
        return " ".join([*self._kernel_words(options), "--", *probe])

    def _plugin(self, options: ExactOptions, inputs: Path, trace: Path) -> str:
        words = [f"out={trace}", f"traps={inputs}/traps"]
        if options.check:
            words.append("check=on")
        return plugin_argument(plugin_file(), self.arch, words)

    def _argv(
        self, emulator: Emulator, kernel: Kernel, options: ExactOptions, inputs: Path, trace: Path
    ) -> list[str]:
        machine = machine_argv(
            emulator,
            self.arch,
            self.arch.cpu_with(options.vector_length),
            options.memory,
            options.seed,
        )
        return [
            *machine,
            *("-kernel", str(kernel.image), "-initrd", f"{inputs}/initramfs"),
            *("-append", self._cmdline(options)),
            *("-plugin", self._plugin(options, inputs, trace)),
        ]
