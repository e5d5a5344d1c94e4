# SPDX-License-Identifier: GPL-2.0-or-later
"""A run of the probe on a kernel -> a Recording."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import Any

from kentry import caveats
from kentry.caveats import Caveat
from kentry.errors import GuestError, KernelError
from kentry.kernels.kernel import Kernel
from kentry.path.symbols import UNNAMED, SymbolMap
from kentry.path.why import why
from kentry.progress import Update
from kentry.recording import (
    INSTRUCTIONS,
    INTERRUPTED,
    MODAL,
    OTHER,
    CaseResult,
    Instruction,
    Metric,
    KernelPath,
    Recording,
)
from kentry.stats import exact
from kentry.targets.console import gnu_build_id
from kentry.targets.target import GuestRun, Options, Target
from kentry.targets.trace import Phase, Trace, Window

# Distinct paths kept of one case; the rest are counted in `samples` all the same.
_PATHS_KEPT = 16
_UNNAMED_TOLERATED = 0.01

_TEXT = "_text"


def measure(kernel: Kernel, target: Target, options: Options, update: Update) -> Recording:
    """Boots `kernel` on `target` and makes its recording.

    GuestError when nothing was measured, KernelError when the symbols are not this
    kernel's.
    """
    run = target.run(kernel, options, update)
    update(None, "reading the trace")
    slide = _slide(kernel, run.trace)
    _check_identity(kernel, run)
    code = _code(run.trace, kernel, slide)
    cases = [case for case in _cases(run.trace, code) if case is not None]
    if not cases:
        raise _nothing_measured(run)
    return Recording(
        kernel=_describe(kernel, run),
        target=run.target,
        options={
            "windows": options.windows,
            "path_windows": options.path_windows,
            "warmup": options.warmup,
        },
        code=code,
        cases=cases,
        caveats=_caveats(run, options, code),
    )


def _nothing_measured(run: GuestRun) -> GuestError:
    reasons = [f"{name}: {reason}" for name, reason in (run.probe.failed | run.probe.absent).items()]
    return GuestError(
        "No case could be measured.",
        "Choose others with --case.",
        "\n".join(f"  {reason}" for reason in reasons),
    )


def _slide(kernel: Kernel, trace: Trace) -> int:
    """How far KASLR moved the kernel: bytes to take off an executed address."""
    linked = next((s.address for s in kernel.symbols if s.name == _TEXT), None)
    if trace.text_address is None or linked is None:
        return 0
    return trace.text_address - linked


def _check_identity(kernel: Kernel, run: GuestRun) -> None:
    """The kernel that ran must be the one whose symbols we have."""
    booted = gnu_build_id(run.probe.notes)
    if kernel.build_id and booted and kernel.build_id != booted:
        raise KernelError(
            "The symbols do not match the image:"
            f" they are of build {kernel.build_id[:12]}, the booted kernel is {booted[:12]}.",
            "Give the vmlinux of the same build with symbols=.",
        )


def _code(trace: Trace, kernel: Kernel, slide: int) -> list[Instruction]:
    symbols = SymbolMap(
        (symbol.address, symbol.name) for symbol in kernel.symbols if symbol.kind in "TtWw"
    )
    code = []
    for insn in trace.insns:
        address = insn.address - slide
        place = symbols.find(address)
        code.append(Instruction(address, insn.code, insn.text, place.function, place.offset))
    return code


def _cases(trace: Trace, code: list[Instruction]) -> Iterable[CaseResult | None]:
    counted = [phase for phase in trace.phases if phase.name == "count"]
    recorded = {phase.case: phase for phase in trace.phases if phase.name == "path"}
    for phase in counted:
        yield _case(phase, recorded.get(phase.case), trace, code)


def _case(
    counted: Phase, recorded: Phase | None, trace: Trace, code: list[Instruction]
) -> CaseResult | None:
    notes: list[Caveat] = []
    windows = _with_right_user_side(counted, notes)
    clean = [window for window in windows if not window.irqs]
    if not clean:
        return None
    metrics = {
        INSTRUCTIONS: Metric.of(exact.histogram((w.kernel, w.times) for w in clean)),
        "user_instructions": Metric.of(exact.histogram((w.user, w.times) for w in clean)),
        "firmware_instructions": Metric.of(exact.histogram((w.firmware, w.times) for w in clean)),
    }
    value = metrics[INSTRUCTIONS].value
    samples = dict(metrics[INSTRUCTIONS].samples)
    if not exact.is_decided(samples):
        notes.append(caveats.no_majority(counted.case, samples[value] / sum(samples.values())))
    paths = _paths(recorded, value, trace, code) if recorded else ()
    modal = next((path for path in paths if path.role == MODAL), None)
    if modal is None and recorded and recorded.windows and value:
        notes.append(caveats.unrecorded_path(counted.case, value))
    return CaseResult(
        name=counted.case,
        metrics=metrics,
        interrupted=tuple(
            exact.histogram((w.kernel, w.times) for w in windows if w.irqs).items()
        ),
        functions=tuple(functions_of(modal, code).items()) if modal else (),
        paths=tuple(paths),
        caveats=tuple(notes),
    )


def _with_right_user_side(phase: Phase, notes: list[Caveat]) -> list[Window]:
    """The windows whose user side is what the probe says it is; the others are noted."""
    if phase.user is None:
        return phase.windows
    wrong = sum(window.times for window in phase.windows if window.user != phase.user)
    if wrong:
        notes.append(caveats.user_side(phase.case, phase.user, wrong))
    return [window for window in phase.windows if window.user == phase.user]


def functions_of(path: KernelPath, code: list[Instruction]) -> dict[str, int]:
    """Instructions a function, most first; they add up to the path's length."""
    counts: Counter[str] = Counter()
    for first, count in path.runs:
        counts.update(insn.function for insn in code[first : first + count])
    return dict(sorted(counts.items(), key=lambda item: (-item[1], item[0])))


def _paths(
    recorded: Phase, value: int, trace: Trace, code: list[Instruction]
) -> list[KernelPath]:
    """The case's distinct paths: the modal one first, then by how often they were taken."""
    times: Counter[tuple[int, bool]] = Counter()
    for window in recorded.windows:
        if window.path is not None and recorded.user in (None, window.user):
            times[window.path, bool(window.irqs)] += window.times
    clean = [path for path, interrupted in times if not interrupted]
    modal = max(
        (path for path in clean if trace.path_length(path) == value),
        key=lambda path: times[path, False],
        default=None,
    )
    base = functions_of(_path(trace, modal, 1, MODAL, ""), code) if modal is not None else {}
    paths = []
    for (path, interrupted), count in sorted(times.items(), key=lambda item: -item[1]):
        if path == modal and not interrupted:
            paths.insert(0, _path(trace, path, count, MODAL, ""))
            continue
        role = INTERRUPTED if interrupted else OTHER
        made = _path(trace, path, count, role, "")
        reason = "interrupt" if interrupted else why(base, functions_of(made, code))
        paths.append(_path(trace, path, count, role, reason))
    return paths[:_PATHS_KEPT]


def _path(trace: Trace, path: int, times: int, role: str, reason: str) -> KernelPath:
    return KernelPath(times, role, tuple(trace.paths[path]), reason)


def _describe(kernel: Kernel, run: GuestRun) -> dict[str, Any]:
    return {
        "spec": kernel.spec,
        "arch": kernel.arch,
        "release": run.probe.release or kernel.release,
        "build_id": gnu_build_id(run.probe.notes) or kernel.build_id,
        "banner": kernel.banner,
        "compiler": kernel.compiler,
        "config_sha256": kernel.config_sha256,
        "config": _config_lines(kernel),
        "image_sha256": kernel.image_sha256,
        "symbols_from": kernel.symbols_from,
        "origin": kernel.origin,
    }


def _caveats(run: GuestRun, options: Options, code: list[Instruction]) -> list[Caveat]:
    found = [caveats.not_time()]
    found.append(caveats.randomised() if options.randomise else caveats.steady())
    found += [caveats.case_failed(*item) for item in run.probe.failed.items()]
    found += [caveats.case_absent(*item) for item in run.probe.absent.items()]
    nameless = sum(insn.function == UNNAMED for insn in code)
    if nameless > _UNNAMED_TOLERATED * len(code):
        found.append(caveats.unnamed(nameless / len(code)))
    return found


def _config_lines(kernel: Kernel) -> dict[str, str] | None:
    """The options built in, CONFIG_ left off; None where the config is not known.

    Modules are left out: none is loaded in the guest, and they are two thirds of a
    distribution's config.
    """
    if kernel.config is None:
        return None
    options = {}
    for line in kernel.config.read_text(encoding="utf-8", errors="replace").splitlines():
        name, found, value = line.partition("=")
        if found and name.startswith("CONFIG_") and value != "m":
            options[name.removeprefix("CONFIG_")] = value
    return options
