# SPDX-License-Identifier: GPL-2.0-or-later
"""Measures several kernels: a plan is a list of units, each one kernel to build, boot and measure.

A unit is plain data, so an executor may perform it in another process or on another machine.
A plan that was killed finds built kernels and recordings in the cache (kentry.count.cache).
"""

import contextlib
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Executor, as_completed
from contextvars import ContextVar
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from kentry.arch import Arch, find_arch
from kentry.boot.exact import ExactOptions
from kentry.count import cache
from kentry.count.catalogue import on_floor
from kentry.count.program import program_recording
from kentry.count.workload_cache import Program, run_program
from kentry.errors import BuildError, GuestError, KentryError, KernelError
from kentry.host.cache import cache_dir, sha256_of, write_atomically
from kentry.kernels import build, image, made_of
from kentry.kernels.config import Request
from kentry.kernels.kernel import Kernel, kernel_to_json
from kentry.kernels.repository import Revision
from kentry.kernels.resolve import resolve
from kentry.kernels.spec import parse
from kentry.progress import Update, progress
from kentry.results.recording import FLOOR, Recording, read_recording
from kentry.results.studies import MEASURED, NO_BOOT, NO_BUILD, NOT_COMPILED, SAME_CODE, Problem


@dataclass(frozen=True, kw_only=True)
class StandIn:
    """A measured kernel whose recording is a unit's own if both provably take the same path.

    `built` is the key of its build, `changed` has the files that differ between the two sources
    (a letter and a path), and `executed` the functions of its paths.
    """

    name: str
    built: str
    changed: tuple[tuple[str, str], ...]
    executed: frozenset[str]


@dataclass(frozen=True, kw_only=True)
class Unit:
    """One kernel to measure; `label` names it in the progress.

    `source` is what the kernel is built from, the kernel itself, or the file of a recording; None:
    what `spec` resolves to.  A `program` is run instead of the cases.  With `fresh` the cache's
    recording is not taken; with `anew`, a folder for ccache, the kernel is built from nothing
    unless it once was and came out the same.
    """

    spec: str
    arch: str
    measurement: ExactOptions
    program: Program | None = None
    source: Revision | Kernel | Path | None = None
    request: Request = field(default_factory=Request)
    fresh: bool = False
    stand_ins: tuple[StandIn, ...] = ()
    anew: Path | None = None
    label: str = ""


@dataclass(frozen=True, kw_only=True)
class Outcome:
    """What became of a unit: a recording, a stand-in's name, or an error; and the seconds."""

    status: str
    recording: Recording | None = None
    like: str = ""
    error: KentryError | None = None
    seconds: float = 0.0

    @property
    def problem(self) -> Problem | None:
        """The error as a result says it, with what the tools printed last."""
        if self.error is None:
            return None
        # A build's remedy names its log.
        remedy = self.error.remedy if self.status == NO_BUILD else ""
        return Problem(self.status, self.error.sentence, f"{self.error.detail}\n{remedy}".strip())

    def measured(self, unit: Unit) -> Recording:
        """Returns the unit's recording; raises the error, which names it, where there is none."""
        if error := self.error:
            name = (unit.label or unit.spec).rstrip(":")
            if name not in error.sentence:
                sentence = f"{name}: {error.sentence}"
                error = type(error)(sentence, error.remedy, error.detail)
            raise error
        assert self.recording
        return self.recording


# Who performs units elsewhere, while performed_by() lasts; None: this process.
_elsewhere: ContextVar[Executor | None] = ContextVar("_elsewhere", default=None)


@contextlib.contextmanager
def performed_by(executor: Executor) -> Iterator[None]:
    """Kernels of all plans in the block are measured by `executor`, in another process."""
    token = _elsewhere.set(executor)
    try:
        yield
    finally:
        _elsewhere.reset(token)


def outcomes(
    function: Callable[..., Outcome],
    units: Sequence[Any],
    update: Update | None = None,
    executor: Executor | None = None,
) -> Iterator[tuple[int, Outcome]]:
    """Yields what `function` makes of each unit, as they finish; what it raises ends the plan.

    `executor` has the interface of concurrent.futures; None: that of performed_by(), or one after
    another, here.  `update` shows the progress of all; None: each unit shows its own.
    """
    elsewhere = _elsewhere.get() if function is perform else None
    if not (executor := elsewhere or executor):
        for index, unit in enumerate(units):
            yield index, function(unit, update)
        return
    with (
        contextlib.nullcontext(update)
        if update
        else progress(f"kernels to measure: {len(units)}") as shown
    ):
        # What shows progress stays in this process.
        own = None if elsewhere else update
        indexes = {executor.submit(function, unit, own): at for at, unit in enumerate(units)}
        try:
            for done, future in enumerate(as_completed(indexes), start=1):
                yield indexes[future], future.result()
                if elsewhere:
                    shown(done / len(units), f"measured: {done} of {len(units)}")
        finally:
            for future in indexes:
                future.cancel()


def measure_all(units: Sequence[Unit]) -> list[Recording]:
    """Returns the recordings of the units, in their order; raises the first error."""
    recordings = {
        index: outcome.measured(units[index]) for index, outcome in outcomes(perform, units)
    }
    return [recordings[index] for index in range(len(units))]


def perform(unit: Unit, update: Update | None = None) -> Outcome:
    """Builds, boots and measures; what does not build or boot is an outcome with its reason."""
    began = time.monotonic()
    label = unit.label or f"{unit.spec} ({unit.arch})"
    status, recording, like = MEASURED, None, ""
    error: KentryError | None = None
    with contextlib.nullcontext(update) if update else progress(label) as shown:
        try:
            status, like = _stand_in(unit, shown)
            recording = None if like else measure(unit, shown)
        except BuildError as err:
            status, error = NO_BUILD, err
        except (GuestError, KernelError) as err:
            status, error = NO_BOOT, err
    seconds = round(time.monotonic() - began, 1)
    return Outcome(status=status, recording=recording, like=like, error=error, seconds=seconds)


def measure(unit: Unit, update: Update) -> Recording:
    """The unit's recording, from the cache or measured now; KentryError where there is none."""
    if isinstance(unit.source, Path):
        return read_recording(unit.source)
    arch, measurement, reuse = find_arch(unit.arch), unit.measurement, not (unit.fresh or unit.anew)
    if isinstance(unit.source, Kernel):
        kernel = unit.source
    elif unit.source:
        kernel = _built(unit, unit.source, arch, update)
    elif (parsed := parse(unit.spec)).kind == FLOOR:
        kernel, measurement = image.resolve_floor(parsed, arch), on_floor(measurement, arch)
    else:
        kernel = resolve(unit.spec, arch, update, unit.request)
    if unit.program:
        boots = run_program(kernel, arch, unit.program, update, reuse=reuse)
        known = kernel_to_json(kernel, boots[0].kernel["release"], b"")
        return program_recording(boots, known)
    return cache.record(kernel, arch, measurement, update, reuse=reuse)


def _built(unit: Unit, revision: Revision, arch: Arch, update: Update) -> Kernel:
    if not unit.anew:
        return build.kernel(unit.spec, revision, arch, unit.request, update)
    planned = build.plan(revision, arch, unit.request, update)
    image = sha256_of(build.built(planned, update) / "image")
    proof = proof_of(planned)
    with contextlib.suppress(OSError):
        if proof.read_bytes() == f"{image}\n".encode():
            return build.kernel(unit.spec, revision, arch, unit.request, update)
    update(None, f"building {unit.spec} from nothing")
    kernel = build.kernel(unit.spec, revision, arch, unit.request, update, anew=unit.anew)
    if kernel.image_sha256 == image:
        write_atomically(proof, image + "\n")
    return kernel


def proof_of(planned: build.Build) -> Path:
    """The file that has the image's hash, once a build from nothing gave that image, too."""
    return cache_dir("clean") / planned.key()


def _stand_in(unit: Unit, update: Update) -> tuple[str, str]:
    """Returns the status and the name of a stand-in that the unit's kernel needs no boot beside."""
    if not unit.stand_ins:
        return MEASURED, ""
    known = {other.name: made_of.read(cache_dir("built") / other.built) for other in unit.stand_ins}
    for other in unit.stand_ins:
        if (made := known[other.name]) and made_of.compiles_none_of(made, other.changed):
            return NOT_COMPILED, other.name
    assert isinstance(unit.source, Revision)
    planned = build.plan(unit.source, find_arch(unit.arch), unit.request, update)
    own = made_of.read(build.built(planned, update))
    for other in unit.stand_ins:
        made = known[other.name]
        if own and made and made_of.same_code(own, made, other.executed):
            return SAME_CODE, other.name
    return MEASURED, ""
