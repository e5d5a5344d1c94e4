# SPDX-License-Identifier: GPL-2.0-or-later
"""A run of the probe on a kernel -> a Recording."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable
from dataclasses import replace
from typing import Any

from kentry import caveats
from kentry.caveats import Caveat
from kentry.errors import GuestError, KernelError
from kentry.kernels.kernel import TEXT_END, TEXT_START, Kernel
from kentry.path.symbols import UNNAMED, SymbolMap
from kentry.path.why import why
from kentry.progress import Update
from kentry.recording import (
    INSTRUCTIONS,
    MODAL,
    OTHER,
    CaseResult,
    Instruction,
    KernelPath,
    Metric,
    Recording,
)
from kentry.stats import exact
from kentry.targets.console import gnu_build_id
from kentry.targets.target import GuestRun, Options, Target
from kentry.targets.trace import Phase, Trace, Window

# Distinct paths kept of one case; the rest are counted in `samples` all the same.
_PATHS_KEPT = 16
_UNNAMED_TOLERATED = 0.01

_TEXT_KINDS = "TtWw"

# What apt said when it could not see all of the archive; a caveat, not part of an origin.
_NOTE = "note"

# A kernel-half address as a branch's target; riscv's disassembler repeats it in a comment.
_TARGET = re.compile(r"(?:-?\w+ # )?#?0x(ffff[0-9a-f]{12})\b")


def measure(kernel: Kernel, target: Target, options: Options, update: Update) -> Recording:
    """Boots `kernel` on `target` and makes its recording.

    GuestError when nothing was measured, KernelError when the symbols are not this
    kernel's.
    """
    run = target.run(kernel, options, update)
    update(None, "reading the trace")
    slide = _slide(kernel, run.trace)
    _check_identity(kernel, run)
    executed = _code(run.trace, kernel, slide)
    cases = [case for case in _cases(run.trace, executed) if case is not None]
    if not cases:
        raise _nothing_measured(run)
    cases, code = _only_code_of_paths(cases, executed)
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
        caveats=_caveats(kernel, run, options, code),
    )


def _nothing_measured(run: GuestRun) -> GuestError:
    reasons = [
        f"{name}: {reason}" for name, reason in (run.probe.failed | run.probe.absent).items()
    ]
    return GuestError(
        "No case could be measured.",
        "Choose others with --case.",
        "\n".join(f"  {reason}" for reason in reasons),
    )


def _slide(kernel: Kernel, trace: Trace) -> int:
    """How far KASLR moved the kernel: bytes to take off an executed address."""
    linked = kernel.symbols.address_of(TEXT_START)
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
        ((symbol.address, symbol.name) for symbol in kernel.symbols if symbol.kind in _TEXT_KINDS),
        kernel.symbols.address_of(TEXT_END),
    )
    code = []
    for insn in trace.insns:
        address = insn.address - slide
        place = symbols.find(address)
        text = _TARGET.sub(lambda match: _named(int(match[1], 16) - slide, symbols), insn.text)
        code.append(Instruction(address, insn.code, text, place.function, place.offset))
    return code


def _named(address: int, symbols: SymbolMap) -> str:
    """A kernel address in an instruction's text as objdump shows it: <function+0x4>."""
    place = symbols.find(address)
    if place.function == UNNAMED:
        return f"{address:#x}"
    return f"<{place.function}+{place.offset:#x}>" if place.offset else f"<{place.function}>"


def _only_code_of_paths(
    cases: list[CaseResult], code: list[Instruction]
) -> tuple[list[CaseResult], list[Instruction]]:
    """Leaves out the instructions that only warm-up windows and paths not kept went through."""
    runs = [run for case in cases for path in case.paths for run in path.runs]
    used = sorted({index for first, count in runs for index in range(first, first + count)})
    moved = {old: new for new, old in enumerate(used)}
    kept = [
        replace(
            case,
            paths=tuple(
                replace(path, runs=tuple((moved[first], count) for first, count in path.runs))
                for path in case.paths
            ),
        )
        for case in cases
    ]
    return kept, [code[index] for index in used]


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
        interrupted=tuple(exact.histogram((w.kernel, w.times) for w in windows if w.irqs).items()),
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


def _paths(recorded: Phase, value: int, trace: Trace, code: list[Instruction]) -> list[KernelPath]:
    """The case's distinct paths: the modal one first, then by how often they were taken.

    Windows an interrupt fell into are not among them: they are set apart as counts.
    """
    times: Counter[int] = Counter()
    for window in recorded.windows:
        if window.path is not None and not window.irqs and recorded.user in (None, window.user):
            times[window.path] += window.times
    modal = max(
        (path for path in times if trace.path_length(path) == value),
        key=lambda path: times[path],
        default=None,
    )
    base = Counter[str]()
    if modal is not None:
        base.update(functions_of(KernelPath(1, MODAL, tuple(trace.paths[modal])), code))
    paths: list[KernelPath] = []
    for path, count in times.most_common():
        taken = KernelPath(count, MODAL if path == modal else OTHER, tuple(trace.paths[path]))
        if path == modal:
            paths.insert(0, taken)
        else:
            paths.append(replace(taken, why=why(base, functions_of(taken, code))))
    return paths[:_PATHS_KEPT]


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
        "origin": {name: text for name, text in kernel.origin.items() if name != _NOTE},
    }


def _caveats(
    kernel: Kernel, run: GuestRun, options: Options, code: list[Instruction]
) -> list[Caveat]:
    found = [caveats.not_time()]
    found.append(caveats.randomised() if options.randomise else caveats.steady())
    found += [caveats.case_failed(*item) for item in run.probe.failed.items()]
    found += [caveats.case_absent(*item) for item in run.probe.absent.items()]
    if _NOTE in kernel.origin:
        found.append(caveats.archive_incomplete(kernel.spec))
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
