# SPDX-License-Identifier: GPL-2.0-or-later
"""Boots a user space under QEMU; the tasks plugin records what its tasks do.

How the workload ended is in the lines that guest/runner.c prints on the console.

See emulator.py for how the guest is confined.
"""

import contextlib
import re
import signal
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from kentry.arch import Arch
from kentry.arch.processors import MAX, Processor, find_processor
from kentry.boot import emulator as qemu
from kentry.boot.console import GuestExit, boot, tail
from kentry.boot.mitigations import flaws_of
from kentry.boot.task_hooks import Hooks
from kentry.errors import GuestError
from kentry.host.cache import kept_file
from kentry.host.native import tasks_plugin_file
from kentry.kernels.kernel import Kernel
from kentry.progress import Update

# The plugin's records of a boot are some 100 MB.
_FILE_LIMIT_MIB = 8192

# In which the plugin writes what it has of a guest that is stopped.
_GRACE_SECONDS = 30.0

_LINE_SHOWN = 60  # characters of the console's last line in the progress

# How many lines of a failed workload's output are shown.
_TAIL_LINES = 40

# ECMA-48's control sequences, which move a terminal's cursor or colour its text.
_CONTROL = re.compile(
    r"\x1b(?:\[[0-?]*[ -/]*[@-~]|[P\]X^_][^\x07\x1b\n]*(?:\x07|\x1b\\)?|[ -/]*[0-~])|\r"
)

# If the workload's output has no newline at its end, the runner's line follows on the same line.
_LINE = re.compile(r"^(.*)kentry-workload (start|end|failed|cut|flaw)\b ?(.*)$")
# Before the workload runs, a flaw of the processor and the kernel's mitigation follow this word.
FLAW = "kentry-workload flaw"


@dataclass(frozen=True)
class TracedWorkload:
    """What to run; `words` end the kernel's command line, the trace has the description."""

    initramfs: Path
    words: tuple[str, ...]
    description: Mapping[str, Any]


@dataclass(frozen=True)
class TraceOptions:
    """`memory` is in MiB, `timeout` in s; `cpu` "": a core with vectors of that length."""

    memory: int = 2048
    seed: int = 1
    timeout: float = 1800.0
    vector_length: int | None = None
    cpu: str = ""
    append: str = ""
    tracing: bool = False
    emulator: str = qemu.INSTALLED
    console_file: Path | None = None


def tracing_emulator(
    arch: Arch, choice: str, update: Update, oldest: tuple[int, ...] = ()
) -> qemu.Emulator:
    """The emulator of `choice`, or a private copy for one too old; MissingToolError for none."""
    # From 9.2 on plugins read memory, and so a task's name (plugin API version 4).
    return qemu.emulator_since(arch, choice, max((9, 2), oldest), "cannot trace tasks", update)


@dataclass(frozen=True)
class Traced:
    """How a guest ended, and its records; `stand_in`: the installed QEMU is too old."""

    ending: GuestExit
    counts: Path
    records: Path
    target: dict[str, Any]
    stand_in: bool = False


def traced_processor(arch: Arch, cpu: str, length: int | None) -> Processor:
    """Finds the processor `cpu`, or for "" a core with vectors of `length` bits; UserError."""
    # User space asks the processor what it has.  With everything that QEMU emulates, glibc's memcpy
    # uses FEAT_MOPS instead of arm64's vector instructions, and no core with SVE of 2022 to 2024
    # has FEAT_MOPS.
    core = arch.cores.get(length or arch.vector.units[0].lengths[0], MAX)
    return find_processor(arch, cpu or core)


def trace_guest(
    kernel: Kernel,
    arch: Arch,
    workload: TracedWorkload,
    hooks: Hooks,
    options: TraceOptions,
    folder: Path,
    update: Update,
) -> Traced:
    """Boots `workload`, however it ends; the plugin's files are in `folder` afterwards."""
    length = options.vector_length
    processor = traced_processor(arch, options.cpu, length)
    emulator = tracing_emulator(arch, options.emulator, update, processor.since)
    guest = qemu.Guest(emulator, arch, processor, options.memory, options.seed, length=length)
    more = options.append.split()
    words = [*qemu.kernel_words(arch, processor, more=more), *workload.words]
    counts, records = folder / "counts", folder / "events"
    hooks_file = kept_file("hooks", "".join(f"{line}\n" for line in hooks.lines))
    addresses = "".join(f"{address:x}\n" for address, _ in hooks.functions)
    plugin_words = [
        f"counts={counts}",
        f"functions={kept_file('functions', addresses)}",
        f"hooks={hooks_file}",
        *([f"out={records}"] if options.tracing else []),
    ]
    argv = [
        *guest.argv(file_limit=_FILE_LIMIT_MIB),
        *qemu.boot_argv(kernel, workload.initramfs, words),
        *qemu.plugin_argv(tasks_plugin_file(), arch, plugin_words),
    ]
    ending = boot(
        argv,
        emulator,
        options.timeout,
        update,
        options.console_file,
        lambda lines: f"running: {lines[-1].strip()[:_LINE_SHOWN]}" if lines else "booting",
        grace=_GRACE_SECONDS,
    )
    lines = (_LINE.match(line) for line in _CONTROL.sub("", ending.console).split("\n"))
    flaws = flaws_of(line[3] for line in lines if line and line[2] == "flaw")
    target = guest.target(words, flaws)
    return Traced(ending, counts, records, target, emulator.stands_in(options.emulator))


# The kernel prints one of these if the root file system does not fit into its memory.
_NO_ROOM = re.compile(r"Initramfs unpacking failed|Out of memory|No space left on device")


def never_began(ending: GuestExit) -> GuestError:
    """The error for a guest that did not get to the workload."""
    if _NO_ROOM.search(ending.console):
        sentence = "The root file system did not fit into the guest's memory."
        return GuestError(sentence, "Give it more with --memory MIB.", tail(ending.console))
    sentence = f"The workload never began: {ending.clause}."
    return GuestError(sentence, "The console's last lines are below.", tail(ending.console))


@dataclass(frozen=True)
class Ending:
    """A workload's exit code or 128 + a signal's number (None: it did not end), and last lines."""

    status: int | None
    output: str

    @property
    def clause(self) -> str:
        """The status in words, to go on with after "it"."""
        if self.status is None:
            return "did not end"
        with contextlib.suppress(ValueError):
            name = signal.Signals(self.status - 128).name
            return f"ended with exit code {self.status} (128 + {name})"
        return f"ended with exit code {self.status}"


def read_ending(console: str) -> Ending:
    """The workload's end on a whole console."""
    status: int | None = None
    output: list[str] = []
    for line in _CONTROL.sub("", console).split("\n"):
        found = _LINE.match(line)
        before, what, rest = found.groups() if found else (line, "", "")
        if before or not found:
            output.append(before)
        if what == "start":
            output.clear()
        elif what == "cut":
            output.append(f"[{rest} bytes of output are left out here]")
        elif what == "end" and re.fullmatch("[0-9]{1,3}", rest):
            status = int(rest)
            break
    text = "\n".join(output).strip("\n").split("\n")
    return Ending(status, "\n".join(text[-_TAIL_LINES:]))
