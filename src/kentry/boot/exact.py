# SPDX-License-Identifier: GPL-2.0-or-later
"""Counts instructions exactly: a Runner boots a kernel once and returns what it counted.

See emulator.py for how the guest is confined.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from kentry.arch import Arch
from kentry.arch.processors import MAX, find_processor, words_for
from kentry.boot import emulator as qemu
from kentry.boot.console import GuestExit, boot, explain, tail
from kentry.boot.initramfs import CASES_FILE, FACTS_FILE, build_initramfs
from kentry.boot.mitigations import CPUINFO, VULNERABILITIES, features
from kentry.boot.plugin_trace import PluginTrace, parse_trace
from kentry.boot.probe_protocol import ProbeReport, read_report
from kentry.errors import GuestError, TraceError, UserError
from kentry.host.cache import kept_file, scratch_folder, sha256_of
from kentry.host.native import plugin_file, probe_file
from kentry.kernels.kernel import TEXT_START, Kernel
from kentry.progress import Update

# Of each case, where the machine's own counter is read.
_BLOCKS = 32


@dataclass(frozen=True)
class ExactOptions:
    """How a kernel is measured.

    `windows` of each case are counted and the paths of `path_windows` recorded, spread over
    `rounds` of all cases, each in another context and with `warmup` windows that are thrown away.
    Each eighth round adds `links` names to the dentry cache, whose hash table has `dentry_hash`
    buckets: by default 2^20, in which two names hardly ever meet.  `randomise` leaves on what
    makes paths vary from boot to boot and window to window (KASLR, stack-offset randomisation).
    `timeout` is supervise()'s with progress, `memory` the guest's in MiB.  `vector_length` is that
    of the processor's vectors in bits, None for its own.  `cpu` is the processor as a user names
    it, `append` more words for the kernel's command line.  `check` has the plugin count a
    second way, and the machine's own counter a third.  `probe` is another one than kentry's.
    """

    cases: tuple[str, ...]
    windows: int = 1000
    path_windows: int = 128
    warmup: int = 16
    rounds: int = 8
    links: int = 0
    dentry_hash: int = 1 << 20
    randomise: bool = False
    seed: int = 1
    timeout: float = 120.0
    memory: int = 512
    vector_length: int | None = None
    cpu: str = MAX
    append: str = ""
    emulator: str = "installed"
    check: bool = False
    probe: Path | None = None
    console_file: Path | None = None


@dataclass(frozen=True)
class GuestRun:
    """One boot: the probe's report, the plugin's trace, and the recording's "target".

    `stand_in`: a private copy of QEMU ran it, because the installed one has no such processor.
    """

    probe: ProbeReport
    trace: PluginTrace
    target: dict[str, Any]
    stand_in: bool = False


@dataclass(frozen=True)
class FakeRunner:
    """Boots nothing, and replays a saved run, for tests and bug reports.

    In `folder`, `console` is what a guest printed, `trace` what the plugin wrote, and `blocks` what
    a second guest without the plugin printed for a self-check.
    """

    folder: Path

    def run(self, kernel: Kernel, options: ExactOptions, update: Update) -> GuestRun:
        """The saved run; GuestError where its console has no end mark."""
        try:
            console = (self.folder / "console").read_text(encoding="utf-8", errors="replace")
        except OSError as err:
            raise UserError(
                f"{self.folder} holds no saved run: {err.strerror}.",
                "It needs two files, console and trace.",
            ) from err
        report = read_report(console.splitlines())
        if report.ended_cases is None:
            raise explain(console, report.started, "the saved console ends")
        trace = parse_trace(self.folder / "trace")
        return GuestRun(report, trace, {"kind": "fake", "emulator": "none"})

    def count_blocks(
        self, kernel: Kernel, options: ExactOptions, update: Update
    ) -> ProbeReport | None:
        """What the probe said in `blocks`, if that was saved."""
        saved = self.folder / "blocks"
        return read_report(saved.read_text().splitlines()) if saved.exists() else None


def emulator_of(arch: Arch, options: ExactOptions) -> qemu.Emulator:
    """The QEMU that `options` ask for, or a private copy where the installed one is too old."""
    return qemu.emulator_with(arch, options.emulator, find_processor(arch, options.cpu))


class _Come:
    """How much of a boot's trace has come: its bytes, and the fraction of the cases' turns."""

    def __init__(self, file: Path, options: ExactOptions) -> None:
        self._file, self._read, self._turns = file, 0, 0
        # A round has each case in two phases, each behind one that warms up (guest/run.c).
        phases = 2 * bool(options.windows) + 2 * bool(options.path_windows)
        self._planned = options.rounds * len(options.cases) * phases

    def __call__(self) -> int:
        return self._file.stat().st_size if self._file.exists() else 0

    def fraction(self) -> float | None:
        """Returns the fraction, None where nothing is planned; the last turns may be absent."""
        if self._file.exists():
            with self._file.open("rb") as trace:
                trace.seek(self._read)
                whole = trace.read().rpartition(b"\n")[0]
            self._read += len(whole)
            self._turns += whole.count(b"\nmessage case ")
        return min(self._turns / self._planned, 0.99) if self._planned else None


@dataclass(frozen=True)
class QemuRunner:
    """Boots kernels of one architecture under QEMU's software emulation, with the plugin."""

    arch: Arch

    def run(self, kernel: Kernel, options: ExactOptions, update: Update) -> GuestRun:
        """One boot; GuestError if the guest did not reach its end mark."""
        with scratch_folder() as folder:
            trace_file = folder / "trace"
            arguments = [f"out={trace_file}", f"traps={kept_file('traps', self.traps(kernel))}"]
            arguments += ["check=on"] if options.check else []
            plugin = qemu.plugin_argv(plugin_file(), self.arch, arguments)

            come = _Come(trace_file, options)
            guest = self._guest(options)
            ending, report = self._boot(kernel, options, guest, plugin, update, come)
            try:
                trace = parse_trace(trace_file)
            except TraceError as err:
                raise TraceError(err.sentence, err.remedy, ending.stderr) from err
        if trace.cases_ended != report.ended_cases:
            raise GuestError(
                "The plugin and the console disagree about how many cases ended.",
                "Run again with -v.",
                tail(ending.console),
            )
        words = self.kernel_words(options)
        target = {
            **guest.target(words, report.files, features=features(report.files)),
            "randomise": options.randomise,
            "plugin_api": trace.api,
            "probe": sha256_of(options.probe or probe_file(self.arch)),
            "plugin": sha256_of(plugin_file()),
        }
        return GuestRun(report, trace, target, guest.emulator.stands_in(options.emulator))

    def count_blocks(
        self, kernel: Kernel, options: ExactOptions, update: Update
    ) -> ProbeReport | None:
        """What the machine's own counter counts in a second, equal boot, without the plugin."""
        options = replace(options, console_file=None)
        return self._boot(kernel, options, self._guest(options), [], update)[1]

    def _guest(self, options: ExactOptions) -> qemu.Guest:
        return qemu.Guest(
            emulator_of(self.arch, options),
            self.arch,
            find_processor(self.arch, options.cpu),
            options.memory,
            options.seed,
            length=options.vector_length,
            cases=options.cases,
        )

    def _boot(
        self,
        kernel: Kernel,
        options: ExactOptions,
        guest: qemu.Guest,
        plugin: Sequence[str],
        update: Update,
        come: "_Come | None" = None,
    ) -> tuple[GuestExit, ProbeReport]:
        """Boots to the end mark; `plugin` are QEMU words for it, `come` says how far it is."""
        probe = options.probe or probe_file(self.arch)
        initramfs = build_initramfs(probe, options.cases, (CPUINFO, *VULNERABILITIES))
        parameters = [*self.kernel_words(options), "--", f"n={options.windows}"]
        parameters += [f"paths={options.path_windows}", f"warmup={options.warmup}"]
        parameters += [f"cases={CASES_FILE}", f"rounds={options.rounds}", f"links={options.links}"]
        parameters += [
            f"seed={options.seed}",
            f"facts=@{FACTS_FILE}",
            *([f"check={_BLOCKS}"] if options.check else []),
        ]
        booted = qemu.boot_argv(kernel, kept_file("initramfs", initramfs), parameters)
        argv = [*guest.argv(), *booted, *plugin]
        ending = boot(
            *(argv, guest.emulator, options.timeout, update, options.console_file),
            progress=come,
            fraction=come.fraction if come else None,
        )
        report = read_report(ending.console.splitlines())
        if report.ended_cases is None:
            error = explain(ending.console, report.started, ending.clause)
            if not report.started and options.cpu != MAX:
                error.remedy = f"The kernel may need what {options.cpu} lacks: try --cpu {MAX}."
            raise error
        return ending, report

    def kernel_words(self, options: ExactOptions) -> list[str]:
        """Returns the kernel's command line."""
        processor = find_processor(self.arch, options.cpu)
        steadiness = qemu.RANDOM if options.randomise else qemu.STEADY
        more = [*words_for(options.cases), *options.append.split()]
        parameters = qemu.kernel_words(self.arch, processor, steadiness, more)
        return [*parameters, f"dhash_entries={options.dentry_hash}"]

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


# What boots, or replays, a kernel with the probe and counts.
Runner = FakeRunner | QemuRunner
