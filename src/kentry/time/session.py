# SPDX-License-Identifier: GPL-2.0-or-later
"""One measurement of time: its machine, the recordings of it, and where they are kept."""

import contextlib
import logging
import secrets
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from kentry.errors import KentryError, UserError
from kentry.host.cache import cache_dir
from kentry.kernels.kernel import Kernel, gnu_build_id, kernel_to_json
from kentry.kernels.payload import compiler
from kentry.machines.machine import Machine
from kentry.progress import Update, progress
from kentry.results import caveats
from kentry.results.caveats import Caveat
from kentry.results.recording import CaseResult, NoisyMetric, Recording, write_recording
from kentry.time.preflight import Facts, Finding, check, describe, gather
from kentry.time.sampling import Output

log = logging.getLogger("kentry")

RUNNING = "running"
# The step of a processor's own counter, ns, is below this, that of boards' 24 MHz timers above.
_COARSE_NS = 30.0

Cases = Mapping[str, Mapping[str, NoisyMetric]]


@dataclass(frozen=True)
class Session:
    """One measurement, in which all ran interleaved, on `cpu` (-1: any); `file` is the user's."""

    machine: Machine
    facts: Facts = field(default_factory=Facts)
    findings: tuple[Finding, ...] = ()
    file: Path | None = None
    cpu: int = -1
    name: str = field(default_factory=lambda: secrets.token_hex(8))

    def recording(
        self, output: Output, cases: Cases, options: Mapping[str, int], kernel: Kernel | None = None
    ) -> Recording:
        """Records the cases that have metrics; `kernel` is the file that was booted."""
        machine = self.machine
        target: dict[str, Any] = {
            "kind": machine.kind,
            "emulator": "",
            "place": machine.name,
            "session": self.name,
        }
        target |= describe(self.facts) if self.facts.files else {}
        target |= machine.describe()
        if output.machine.get("cpu", "").isdecimal():
            target["on_cpu"] = int(output.machine["cpu"])
        notes = [Caveat(kind=row.kind, text=f"{row.text}. {row.remedy}") for row in self.findings]
        if str(target.get("accelerator", "")).startswith("tcg"):
            notes.append(caveats.emulated_time())
        return Recording(
            kernel=self._kernel(output, kernel or machine.kernel),
            target=target,
            options=dict(options),
            code=[],
            cases=[
                CaseResult(name, {}, (), (), (), noisy=dict(metrics))
                for name, metrics in cases.items()
                if metrics
            ],
            caveats=[*notes, *_caveats(output)],
        )

    def _kernel(self, output: Output, kernel: Kernel | None) -> dict[str, Any]:
        """Describes the file that was booted, or else what the running kernel tells."""
        if kernel is not None:
            return kernel_to_json(kernel, output.release, output.notes)
        banner = (self.facts.files.get("/proc/version") or "").strip()
        return {
            "spec": RUNNING,
            "arch": self.machine.arch.name,
            "release": output.release,
            "build_id": gnu_build_id(output.notes),
            "banner": banner,
            "compiler": compiler(banner),
            "config_sha256": None,
            "config": None,
            "image_sha256": None,
            "symbols_from": "",
            "origin": {"kind": RUNNING},
        }

    @contextlib.contextmanager
    def measuring(
        self, title: str, so_far: Callable[[], Mapping[str, Recording]]
    ) -> Iterator[Update]:
        """If the block ends early, writes what there is so far, by side: "", or "old" and "new"."""
        try:
            with progress(title) as update:
                yield update
        except (Exception, KeyboardInterrupt) as err:
            files = []
            with contextlib.suppress(KentryError, ValueError):
                for side, recording in so_far().items():
                    if recording.cases:
                        with contextlib.suppress(KentryError, OSError, ValueError):
                            files.append(str(self._write(recording, side)))
            kept = " and ".join(files)
            if kept and isinstance(err, KentryError):
                err.remedy = f"{err.remedy} What was measured before it is in {kept}.".strip()
            elif kept:
                log.warning("kentry: what was measured is in %s", kept)
            raise

    def save(self, recording: Recording, side: str = "") -> None:
        """Writes the user's file, if any; UserError names the file in the cache instead."""
        if self.file:
            file, kept = _file_of_side(self.file, side), self._write(recording, side)
            if kept != file:
                raise UserError(
                    f"{file} could not be written.",
                    f"Is its disk full? The recording is in {kept}.",
                )

    def _write(self, recording: Recording, side: str) -> Path:
        """Writes the user's file, or one in the cache if that fails or there is none."""
        if self.file:
            with contextlib.suppress(KentryError, OSError):
                file = _file_of_side(self.file, side)
                write_recording(recording, file)
                return file
        file = _file_of_side(cache_dir("stat") / f"{self.name}.json", side)
        write_recording(recording, file)
        return file


def open_session(machine: Machine, cpu: int | None, file: Path | None) -> Session:
    """Checks the machine, and chooses a cpu where `cpu` is None; a guest has just one."""
    asked = None if machine.kind == "kvm" else cpu
    with progress(f"checking {machine.name}"):
        facts = gather(machine, asked)
    chosen = facts.cpu if asked is None else asked
    return Session(machine, facts, tuple(check(facts)), file, chosen)


def _file_of_side(file: Path, side: str) -> Path:
    """NAME.old.json or NAME.new.json for NAME.json; the file itself for the side ""."""
    return file.with_suffix(f".{side}{file.suffix or '.json'}") if side else file


def _caveats(output: Output) -> list[Caveat]:
    """Returns what the probe printed that a reader must know."""
    notes = []
    counters = output.machine.get("counters", "")
    if counters.startswith("none"):
        notes.append(caveats.no_counters(counters.partition(":")[2]))
    elif counters and "kernel-cycles" not in counters:
        notes.append(caveats.few_counters(counters))
    if output.multiplexed:
        notes.append(caveats.multiplexed(", ".join(sorted(output.multiplexed))))
    if output.jumps:
        notes.append(caveats.clock_jumped(len(output.jumps), output.jumps[0]))
    if output.resolution > _COARSE_NS:
        notes.append(caveats.coarse_clock(output.resolution))
    if output.machine.get("clock") == "syscall":
        notes.append(caveats.slow_clock())
    if output.machine.get("cpus") == "1":
        notes.append(caveats.one_cpu())
    return notes
