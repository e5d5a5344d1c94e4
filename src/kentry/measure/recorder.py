# SPDX-License-Identifier: GPL-2.0-or-later
"""Boots a kernel, runs the probe and makes a Recording of what was counted."""

import re
from collections import Counter
from dataclasses import replace

from kentry.arch import find_arch
from kentry.errors import GuestError, KernelError, TraceError
from kentry.kernels.kernel import NOTE, TEXT_END, TEXT_START, Kernel, gnu_build_id, kernel_to_json
from kentry.measure.cross_check import REPORT_IT, cross_check
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
from kentry.path.symbols import UNNAMED, SymbolMap, why
from kentry.progress import Update
from kentry.runners.exact import ExactOptions, GuestRun, Runner
from kentry.runners.plugin_trace import Phase, PluginTrace
from kentry.stats import exact

# Distinct paths kept of one case; `samples` count the others too.
_PATHS_KEPT = 16
# The share of instructions outside every symbol that needs no caveat.
_UNNAMED_TOLERATED = 0.01
# Kinds of symbols that are code, as in /proc/kallsyms.
_TEXT_KINDS = "TtWw"
# KASLR moves a kernel by whole pages; bytes.
_PAGE = 4096
# A kernel-half address as a branch's target; riscv's disassembler repeats it in a comment.
_TARGET = re.compile(r"(?:-?\w+ # )?#?0x(ffff[0-9a-f]{12})\b")


def measure(kernel: Kernel, target: Runner, options: ExactOptions, update: Update) -> Recording:
    """Boots `kernel` on `target` and makes its recording.

    GuestError when nothing was measured, KernelError when the symbols are not this
    kernel's, TraceError when two ways of counting differ.
    """
    run = target.run(kernel, options, update)
    update(None, "reading the trace")
    # How far KASLR moved the kernel.  The guest says 0 where it hides addresses (kptr_restrict).
    linked = kernel.symbols.address_of(TEXT_START)
    slide = 0
    if run.trace.text_address and linked is not None:
        slide = run.trace.text_address - linked
    _check_run(kernel, run, options, slide)
    check_units(kernel, run, options)
    executed = _code(run.trace, kernel, slide)
    lost: list[Caveat] = []
    cases = _cases(run, options, executed, lost)
    if not cases:
        reasons = "\n".join(f"  {caveat['text']}" for caveat in lost)
        raise GuestError("No case could be measured.", "Choose others with --case.", reasons)
    cases, code = _only_code_of_paths(cases, executed)
    markers = None
    if any(CaseName.parse(name).state for name in options.cases):
        update(None, "looking for vector events")
        cases, markers = with_events(cases, code, kernel)
    plain = not all(CaseName.parse(name).state for name in options.cases)
    if options.check and plain and (blocks := target.count_blocks(kernel, options, update)):
        cases, unchecked = cross_check(
            cases, run.trace.checks, blocks, find_arch(kernel.arch).counter
        )
        lost += unchecked
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


def _check_run(kernel: Kernel, run: GuestRun, options: ExactOptions, slide: int) -> None:
    """KernelError unless the booted kernel is the one whose symbols we have; the self-check."""
    booted = gnu_build_id(run.probe.notes)
    release = run.probe.release
    problem = None
    if kernel.build_id is not None and booted is not None and kernel.build_id != booted:
        problem = f"build {kernel.build_id[:12]}, the booted kernel is {booted[:12]}"
    elif kernel.release and release and kernel.release != release:
        problem = f"release {kernel.release}, the booted kernel is {release}"
    elif slide % _PAGE != 0 or (slide != 0 and not options.randomise):
        problem = f"a kernel at its link address, the booted kernel is {slide:#x} bytes away"
    if problem:
        raise KernelError(
            f"The symbols do not match the image: they are of {problem}.",
            "Give the vmlinux of the same build with symbols=.",
        )
    if options.check and (run.trace.checked != run.trace.windows or run.trace.mismatches):
        raise TraceError(
            f"Two ways of counting differ: {run.trace.mismatches} times"
            f" in {run.trace.windows} windows.",
            REPORT_IT,
        )


def _code(trace: PluginTrace, kernel: Kernel, slide: int) -> list[Instruction]:
    """The executed instructions at their link addresses, with addresses named as objdump does."""
    symbols = SymbolMap(
        ((symbol.address, symbol.name) for symbol in kernel.symbols if symbol.kind in _TEXT_KINDS),
        kernel.symbols.address_of(TEXT_END),
    )

    def named(match: re.Match[str]) -> str:
        function, offset = symbols.find(int(match[1], 16) - slide)
        if function == UNNAMED:
            return match[0]
        return f"<{function}+{offset:#x}>" if offset else f"<{function}>"

    code = []
    for insn in trace.insns:
        function, offset = symbols.find(insn.address - slide)
        text = _TARGET.sub(named, insn.text)
        address = insn.address - slide
        code.append(Instruction(address, insn.code, text, function, offset))
    return code


def _only_code_of_paths(
    cases: list[CaseResult], code: list[Instruction]
) -> tuple[list[CaseResult], list[Instruction]]:
    """Leaves out the instructions that only warm-up windows and paths not kept went through."""
    used = sorted({index for case in cases for path in case.paths for index in path.indexes})
    moved = {old: new for new, old in enumerate(used)}
    kept = []
    for case in cases:
        paths = [
            replace(path, runs=tuple((moved[first], count) for first, count in path.runs))
            for path in case.paths
        ]
        kept.append(replace(case, paths=tuple(paths)))
    return kept, [code[index] for index in used]


def _cases(
    run: GuestRun, options: ExactOptions, code: list[Instruction], lost: list[Caveat]
) -> list[CaseResult]:
    """The cases asked for; why one is missing is added to `lost`."""
    counted = {phase.case: phase for phase in run.trace.phases if phase.name == "count"}
    recorded = {phase.case: phase for phase in run.trace.phases if phase.name == "path"}
    cases = []
    for name in options.cases:
        if name in run.probe.failed:
            lost.append(caveats.case_failed(name, run.probe.failed[name]))
        elif name in run.probe.absent:
            lost.append(caveats.case_absent(name, run.probe.absent[name]))
        elif name not in counted:
            lost.append(caveats.case_failed(name, "the guest did not run it"))
        else:
            paths = recorded.get(name)
            case = _case(counted[name], paths, run.trace, options.windows, code, lost)
            cases += [case] if case else []
    return cases


def _case(
    counted: Phase,
    recorded: Phase | None,
    trace: PluginTrace,
    wanted: int,
    code: list[Instruction],
    lost: list[Caveat],
) -> CaseResult | None:
    """The case's metrics and paths; None, and a reason in `lost`, where no window was clean."""
    name = counted.case
    notes: list[Caveat] = []
    seen = sum(window.times for window in counted.windows)
    if seen != wanted:
        notes.append(caveats.windows_lost(name, seen, wanted))
    windows = [one for one in counted.windows if counted.user in (None, one.user)]
    kept = sum(window.times for window in windows)
    if counted.user is not None and kept != seen:
        notes.append(caveats.user_side(name, counted.user, seen - kept))
    clean = [window for window in windows if not window.irqs]
    if not clean:
        lost += notes or [caveats.case_failed(name, "every window was interrupted")]
        return None
    instructions = Metric.of(exact.histogram((w.kernel, w.times) for w in clean))
    if not instructions.is_decided:
        share = instructions.agreeing / instructions.windows
        notes.append(caveats.no_majority(name, share))
    paths = _paths(recorded, instructions.value, trace, code) if recorded else []
    modal = next((path for path in paths if path.role == MODAL), None)
    if modal is None and instructions.value:
        notes.append(caveats.unrecorded_path(name, instructions.value))
    return CaseResult(
        name=name,
        metrics={
            INSTRUCTIONS: instructions,
            "user_instructions": Metric.of(exact.histogram((w.user, w.times) for w in clean)),
            "firmware_instructions": Metric.of(
                exact.histogram((w.firmware, w.times) for w in clean)
            ),
        },
        interrupted=tuple(exact.histogram((w.kernel, w.times) for w in windows if w.irqs).items()),
        functions=tuple(_functions(modal, code).items()) if modal else (),
        paths=tuple(paths),
        caveats=tuple(notes),
    )


def _functions(path: KernelPath, code: list[Instruction]) -> dict[str, int]:
    """Instructions per function, most first; they add up to the path's length."""
    counts: Counter[str] = Counter()
    counts.update(code[index].function for index in path.indexes)
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
        base.update(_functions(KernelPath(1, MODAL, tuple(trace.paths[modal])), code))
    paths: list[KernelPath] = []
    for path, count in times.most_common():
        taken = KernelPath(count, MODAL if path == modal else OTHER, tuple(trace.paths[path]))
        if path == modal:
            paths.insert(0, taken)
        else:
            paths.append(replace(taken, why=why(base, _functions(taken, code))))
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
