# SPDX-License-Identifier: GPL-2.0-or-later
"""A run of the probe on a kernel -> a Recording."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace

from kentry.errors import GuestError, KernelError, TraceError
from kentry.kernels.kernel import NOTE, TEXT_END, TEXT_START, Kernel, gnu_build_id, kernel_to_json
from kentry.measure.vector_units import check_units, with_events
from kentry.model import caveats
from kentry.model.case_name import CaseName
from kentry.model.caveats import Caveat
from kentry.model.recording import (
    INSTRUCTIONS,
    MODAL,
    OTHER,
    CaseResult,
    Instruction,
    KernelPath,
    Metric,
    Recording,
)
from kentry.path.symbols import UNNAMED, SymbolMap
from kentry.path.why import why
from kentry.progress import Update
from kentry.runners.exact import ExactOptions, GuestRun, Runner
from kentry.runners.plugin_trace import Phase, PluginTrace, Window
from kentry.stats import exact

# Distinct paths kept of one case; the rest are counted in `samples` all the same.
_PATHS_KEPT = 16
_UNNAMED_TOLERATED = 0.01

_TEXT_KINDS = "TtWw"

# KASLR moves a kernel by whole pages; bytes.
_PAGE = 4096


# A kernel-half address as a branch's target; riscv's disassembler repeats it in a comment.
_TARGET = re.compile(r"(?:-?\w+ # )?#?0x(ffff[0-9a-f]{12})\b")


def measure(kernel: Kernel, target: Runner, options: ExactOptions, update: Update) -> Recording:
    """Boots `kernel` on `target` and makes its recording.

    GuestError when nothing was measured, KernelError when the symbols are not this
    kernel's.
    """
    run = target.run(kernel, options, update)
    update(None, "reading the trace")
    slide = _slide(kernel, run.trace)
    _check_identity(kernel, run, options, slide)
    _check_counts(run, options)
    check_units(kernel, run, options)
    executed = _code(run.trace, kernel, slide)
    lost: list[Caveat] = []
    cases = list(_cases(run, options, executed, lost))
    if not cases:
        raise _nothing_measured(lost)
    cases, code = _only_code_of_paths(cases, executed)
    markers = None
    if any(CaseName.parse(name).state for name in options.cases):
        update(None, "looking for vector events")
        cases, markers = with_events(cases, code, kernel)
    return Recording(
        kernel=kernel_to_json(kernel, run.probe.release, run.probe.notes),
        target=run.target,
        options={
            "windows": options.windows,
            "path_windows": options.path_windows,
            "warmup": options.warmup,
        },
        code=code,
        cases=cases,
        caveats=[*_caveats(kernel, run, options, code), *lost],
        markers=markers,
    )


def _nothing_measured(lost: list[Caveat]) -> GuestError:
    return GuestError(
        "No case could be measured.",
        "Choose others with --case.",
        "\n".join(f"  {caveat['text']}" for caveat in lost),
    )


def _check_counts(run: GuestRun, options: ExactOptions) -> None:
    """The self-check, where it was asked for: both ways of counting must have agreed."""
    if options.check and (run.trace.checked != run.trace.windows or run.trace.mismatches):
        raise TraceError(
            f"Two ways of counting differ: {run.trace.mismatches} times"
            f" in {run.trace.windows} windows.",
            "Please report it, with the output of kentry doctor; other numbers of this emulator"
            " should not be believed.",
        )


def _slide(kernel: Kernel, trace: PluginTrace) -> int:
    """How far KASLR moved the kernel: bytes to take off an executed address.

    The guest says 0 where it hides addresses (kptr_restrict).
    """
    linked = kernel.symbols.address_of(TEXT_START)
    if not trace.text_address or linked is None:
        return 0
    return trace.text_address - linked


def _check_identity(kernel: Kernel, run: GuestRun, options: ExactOptions, slide: int) -> None:
    """The kernel that ran must be the one whose symbols we have: build, release and place."""
    booted = gnu_build_id(run.probe.notes)
    said = [
        (f"build {(kernel.build_id or '')[:12]}", f"{(booted or '')[:12]}"),
        (f"release {kernel.release}", run.probe.release or ""),
        ("a kernel at its link address", f"{slide:#x} bytes away"),
    ]
    differs = [
        kernel.build_id is not None and booted is not None and kernel.build_id != booted,
        bool(kernel.release and run.probe.release) and kernel.release != run.probe.release,
        slide % _PAGE != 0 or (slide != 0 and not options.randomise),
    ]
    for (symbols, guest), wrong in zip(said, differs, strict=True):
        if wrong:
            raise KernelError(
                "The symbols do not match the image:"
                f" they are of {symbols}, the booted kernel is {guest}.",
                "Give the vmlinux of the same build with symbols=.",
            )


def _code(trace: PluginTrace, kernel: Kernel, slide: int) -> list[Instruction]:
    symbols = SymbolMap(
        ((symbol.address, symbol.name) for symbol in kernel.symbols if symbol.kind in _TEXT_KINDS),
        kernel.symbols.address_of(TEXT_END),
    )
    code = []
    for insn in trace.insns:
        address = insn.address - slide
        place = symbols.find(address)
        text = _TARGET.sub(lambda match: _named(match, slide, symbols), insn.text)
        code.append(Instruction(address, insn.code, text, place.function, place.offset))
    return code


def _named(match: re.Match[str], slide: int, symbols: SymbolMap) -> str:
    """A kernel address in an instruction's text as objdump shows it: <function+0x4>."""
    place = symbols.find(int(match[1], 16) - slide)
    if place.function == UNNAMED:
        return match[0]
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


def _cases(
    run: GuestRun, options: ExactOptions, code: list[Instruction], lost: list[Caveat]
) -> Iterator[CaseResult]:
    """The cases asked for; why one is not there is added to `lost`."""
    counted = {phase.case: phase for phase in run.trace.phases if phase.name == "count"}
    recorded = {phase.case: phase for phase in run.trace.phases if phase.name == "path"}
    for name in options.cases:
        if name in run.probe.failed:
            lost.append(caveats.case_failed(name, run.probe.failed[name]))
        elif name in run.probe.absent:
            lost.append(caveats.case_absent(name, run.probe.absent[name]))
        elif name not in counted:
            lost.append(caveats.not_run(name))
        else:
            case = _case(counted[name], recorded.get(name), run.trace, options, code, lost)
            if case:
                yield case


def _case(
    counted: Phase,
    recorded: Phase | None,
    trace: PluginTrace,
    options: ExactOptions,
    code: list[Instruction],
    lost: list[Caveat],
) -> CaseResult | None:
    notes: list[Caveat] = []
    seen = sum(window.times for window in counted.windows)
    if seen != options.windows:
        notes.append(caveats.windows_lost(counted.case, seen, options.windows))
    windows = _with_right_user_side(counted, notes)
    clean = [window for window in windows if not window.irqs]
    if not clean:
        lost += notes or [caveats.interrupted_always(counted.case)]
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
    paths = _paths(recorded, value, trace, code) if recorded else []
    modal = next((path for path in paths if path.role == MODAL), None)
    if modal is None and value:
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


def _paths(
    recorded: Phase, value: int, trace: PluginTrace, code: list[Instruction]
) -> list[KernelPath]:
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


def _caveats(
    kernel: Kernel, run: GuestRun, options: ExactOptions, code: list[Instruction]
) -> list[Caveat]:
    found = [caveats.not_time()]
    found.append(caveats.randomised() if options.randomise else caveats.steady())
    if options.check:
        found.append(caveats.self_checked(run.trace.checked or 0))
    if NOTE in kernel.origin:
        found.append(caveats.archive_incomplete(kernel.spec))
    nameless = sum(insn.function == UNNAMED for insn in code)
    if nameless > _UNNAMED_TOLERATED * len(code):
        found.append(caveats.unnamed(nameless / len(code)))
    return found
