# SPDX-License-Identifier: GPL-2.0-or-later
"""Boots a kernel, runs the probe and makes a Recording of what was counted."""

import re
import threading
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import CancelledError, Future, ThreadPoolExecutor, wait
from dataclasses import dataclass, replace
from typing import Literal

from msgspec import UNSET, UnsetType, structs

from kentry.arch import Arch, find_arch
from kentry.arch.processors import find_processor
from kentry.boot.exact import ExactOptions, GuestRun, QemuRunner, Runner
from kentry.boot.plugin_trace import Phase, PluginTrace, Window
from kentry.count.cross_check import REPORT_IT, check_paths, cross_check
from kentry.count.joining import add_boot, only_code_of_paths
from kentry.count.vector_units import check_units, with_events
from kentry.errors import GuestError, KernelError, MissingToolError, TraceError
from kentry.host import interrupt
from kentry.kernels.kernel import NOTE, TEXT_END, TEXT_START, Kernel, gnu_build_id, kernel_to_json
from kentry.kernels.site_tables import read_tables, tables_of
from kentry.kernels.symtab import source_lines
from kentry.path import metrics as of_paths
from kentry.path.symbols import UNNAMED, SymbolMap, depends_on_context, why
from kentry.path.variation import by_call
from kentry.progress import Update
from kentry.results import caveats
from kentry.results.case_name import CaseName
from kentry.results.caveats import Caveat
from kentry.results.recording import (
    FLOOR,
    INSTRUCTIONS,
    MODAL,
    OTHER,
    CaseContext,
    CaseResult,
    Instruction,
    KernelPath,
    Metric,
    Recording,
)
from kentry.stats import exact

# Those of ExactOptions that a recording has.
_OPTIONS = ("windows", "path_windows", "warmup", "rounds")
_POLL_SECONDS = 0.2  # how often a wait for the second boot looks for Ctrl-C
_PATHS_KEPT = 16  # distinct ones of one case; `samples` count the others too
_ACCESSES_KEPT = 20_000  # of a path; a longer list would be too large: some 40 bytes each
_UNNAMED_TOLERATED = 0.01  # the share of instructions outside every symbol that needs no caveat
_TEXT_KINDS = "TtWw"  # kinds of symbols that are code, as in /proc/kallsyms
_PAGE = 4096  # KASLR moves a kernel by whole pages; bytes
# A kernel-half address as a branch's target; riscv's disassembler repeats it in a comment.
_TARGET = re.compile(r"(?:-?\w+ # )?#?0x(ffff[0-9a-f]{12})\b")


@dataclass(frozen=True)
class _Boot:
    """A boot, how it was made, and the code that it executed."""

    options: ExactOptions
    arch: Arch
    run: GuestRun
    code: list[Instruction]


def measure(kernel: Kernel, target: Runner, options: ExactOptions, update: Update) -> Recording:
    """Makes a recording; GuestError if there is none, KernelError, TraceError if counts differ."""
    lost: list[Caveat] = []
    unwanted = threading.Event()
    come: list[float | None] = [None]  # how far the second boot is

    def stop_if_unwanted(fraction: float | None, now: str) -> None:
        come[0] = fraction
        if unwanted.is_set():
            raise CancelledError

    with ThreadPoolExecutor(2) as pool:
        second = None
        # Read while the kernel boots: to decompress an image may take a second.
        tables = pool.submit(read_tables, kernel)
        # A saved run is of one boot.
        if options.rounds > 1 and isinstance(target, QemuRunner):
            second = pool.submit(_boot, kernel, target, second_boot(options), stop_if_unwanted)
        try:
            boot = _boot(kernel, target, options, update)
            run = boot.run
            check_units(kernel, run, options)
            # For cases that depend on no context the second boot is not waited for.
            if second and (dependent := _dependent(boot)):
                lost += _add_second(boot, second, dependent, lambda _, now: update(come[0], now))
        finally:
            unwanted.set()
    cases = [case for name in dict.fromkeys(options.cases) if (case := _case(name, boot, lost))]
    if not cases:
        reasons = "\n".join(f"  {caveat['text']}" for caveat in lost)
        remedy = "Mend the file of --case-file." if options.probe else "Choose others with --case."
        raise GuestError("No case could be measured.", remedy, reasons)
    cases, code = only_code_of_paths(cases, boot.code)
    sites = tables_of(tables.result(), [insn.address for insn in code])
    code = [insn._replace(tables=site) for insn, site in zip(code, sites, strict=True)]
    code = _with_source_lines(code, kernel, update, lost)
    markers: dict[str, str] | UnsetType = UNSET
    states = [CaseName.parse(name).state for name in options.cases]
    if any(states):
        update(None, "looking for vector events")
        cases, markers = with_events(cases, code, kernel)
    plain = options.check and not all(states)
    if plain and (blocks := target.count_blocks(kernel, options, update)):
        cases, unchecked = cross_check(cases, run.trace.checks, blocks, boot.arch.counter)
        lost += unchecked
    # The floor knows of no flaw.
    is_floor = kernel.origin.get("kind") == FLOOR
    said = "none" if is_floor else run.target.get("mitigations", "")
    mitigations = _with_loop(said, boot)
    return Recording(
        kernel=kernel_to_json(kernel, run.probe.release, run.probe.notes),
        target=run.target | ({"mitigations": mitigations} if mitigations else {}),
        options={name: getattr(options, name) for name in _OPTIONS},
        code=code,
        cases=cases,
        caveats=[*_caveats(kernel, boot, code), *lost],
        markers=markers,
        contexts=run.trace.contexts,
    )


def second_boot(options: ExactOptions) -> ExactOptions:
    """Returns how the same cases are measured in other contexts than those of the first boot.

    docs/methods.md says what a context is and why two boots suffice.  The dentry hash table is so
    small that names of each eighth round meet in chains (fs/dcache.c, dhash_entries=), and memory
    is on the other side of 512 MiB, below which there are no transparent huge pages
    (mm/huge_memory.c, hugepage_init()).  Only paths are recorded, so each round is quick.
    """
    return replace(
        options,
        check=False,
        console_file=None,
        windows=0,
        warmup=4,
        path_windows=8 * 24,
        rounds=24,
        links=5120,
        dentry_hash=4096,
        seed=options.seed + 1,
        memory=1024 if options.memory <= 576 else 256,
    )


def _add_second(
    boot: _Boot, second: Future[_Boot], cases: Sequence[str], update: Update
) -> list[Caveat]:
    """Waits for the second boot and adds `cases` of it to the first's; why some are missing."""
    while not second.done():
        update(None, "cases are running in other contexts")
        interrupt.check()
        wait([second], _POLL_SECONDS)
    try:
        other = second.result()
    except (GuestError, TraceError) as err:
        return [caveats.one_boot(err.sentence)]
    add_boot(boot.run.trace, boot.code, other.run.trace, other.code, cases)
    failed = other.run.probe.failed
    return [caveats.one_boot_of(name, failed[name]) for name in cases if name in failed]


def _boot(kernel: Kernel, target: Runner, options: ExactOptions, update: Update) -> _Boot:
    """One boot; KernelError for another kernel's symbols, TraceError where the self-check fails."""
    run = target.run(kernel, options, update)
    update(None, "reading the trace")
    trace, booted, release = run.trace, gnu_build_id(run.probe.notes), run.probe.release
    # How far KASLR moved the kernel.  The guest says 0 where it hides addresses (kptr_restrict).
    linked = kernel.symbols.address_of(TEXT_START)
    slide = trace.text_address - linked if trace.text_address and linked is not None else 0
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
    if options.check and (trace.checked != trace.windows or trace.mismatches):
        raise TraceError(
            f"Two ways of counting differ: {trace.mismatches} times in {trace.windows} windows.",
            REPORT_IT,
        )
    own = {"memory_mib": options.memory, "seed": options.seed, "dentry_hash": options.dentry_hash}
    trace.contexts = [own | context for context in trace.contexts]
    return _Boot(options, find_arch(kernel.arch), run, _code(trace, kernel, slide))


def _dependent(boot: _Boot) -> tuple[str, ...]:
    """Returns the cases with a path that may be another one in another context."""
    stateful = {n for n, insn in enumerate(boot.code) if depends_on_context([insn.function])}
    paths = {
        index
        for index, runs in enumerate(boot.run.trace.paths)
        if any(not stateful.isdisjoint(range(first, first + count)) for first, count in runs)
    }
    clean = _clean(boot.run.trace.phases)
    return tuple(dict.fromkeys(phase.case for phase, window in clean if window.path in paths))


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
        address = insn.address - slide
        text = _TARGET.sub(named, insn.text)
        code.append(Instruction(address, insn.code, text, *symbols.find(address)))
    return code


def _with_loop(states: str, boot: _Boot) -> str:
    """The `states` of mitigations() with how the executed code clears the branch history."""
    function, ways = boot.arch.branch_history
    for insn in boot.code:
        for pattern, word in ways:
            if insn.function == function and (match := pattern.fullmatch(insn.text)):
                way = word.format(*(int(group, 16) for group in match.groups()))
                return states.replace("bhb=mitigated", f"bhb={way}")
    return states


def _with_source_lines(
    code: list[Instruction], kernel: Kernel, update: Update, lost: list[Caveat]
) -> list[Instruction]:
    """The code with its lines of source where the kernel has debug info, or why in `lost`."""
    if kernel.debug_info is None:
        return code
    update(None, f"reading the debug info of {kernel.debug_info.name}")
    try:
        lines = source_lines(kernel, [insn.address for insn in code])
    except (MissingToolError, KernelError) as err:
        lost.append(caveats.no_source_lines(err))
        return code
    return [insn._replace(source_lines=own) for insn, own in zip(code, lines, strict=True)]


def _case(name: str, boot: _Boot, lost: list[Caveat]) -> CaseResult | None:
    """The case's metrics and paths; None, and a reason in `lost`, where no window was clean."""
    run, options, code = boot.run, boot.options, boot.code
    failed, absent = run.probe.failed, run.probe.absent
    phases = [phase for phase in run.trace.phases if phase.case == name and phase.name != "warm"]
    counted = [p for p in phases if p.name == "count" and p.context < options.rounds]
    if name in absent and name not in failed:
        lost.append(caveats.case_absent(name, absent[name]))
        return None
    if name in failed or not counted:
        lost.append(caveats.case_failed(name, failed.get(name, "the guest did not run it")))
        return None
    notes: list[Caveat] = []
    user, irqs = counted[0].user, counted[0].irqs
    if wrong := run.probe.registers.get(name):
        register, (byte, actual, filled, promised) = next(iter(wrong.items()))
        whose = caveats.WRITTEN if actual == filled else ""
        first = (byte, register, actual, whose, promised)
        notes.append(caveats.wrong_registers(name, len(wrong), *first))
    seen = sum(window.times for phase in counted for window in phase.windows)
    if seen != options.windows:
        notes.append(caveats.windows_lost(name, seen, options.windows))
    windows = [w for phase in counted for w in phase.windows if user in (None, w.user)]
    kept = sum(window.times for window in windows)
    if user is not None and kept != seen:
        notes.append(caveats.user_side(name, user, seen - kept))
    clean = [window for window in windows if window.irqs == irqs]
    if not clean:
        lost += notes or [caveats.case_failed(name, "every window was interrupted")]
        return None
    instructions = Metric.of(exact.histogram((w.kernel, w.times) for w in clean))
    stacks = {
        path: of_paths.stack_bytes(
            [code[n] for n in run.trace.path_insns(path)],
            run.trace.accesses[name, path],
            boot.arch,
        )
        for path in {window.path for _, window in _clean(phases)}
        if path is not None and (name, path) in run.trace.accesses
    }
    paths, contexts = _paths(boot, phases, instructions.value, stacks)
    if 2 * sum(exact.is_decided(dict(context.samples)) for context in contexts) < len(contexts):
        notes.append(caveats.no_majority(name, instructions.agreeing / instructions.windows))
    modal = next((path for path in paths if path.role == MODAL), None)
    if modal is None and instructions.value:
        notes.append(caveats.unrecorded_path(name, instructions.value))
    others = {
        f"{side}_instructions": Metric.of(
            exact.histogram((getattr(w, side), w.times) for w in clean)
        )
        for side in ("user", "firmware")
    }
    interrupted = exact.histogram((w.kernel, w.times) for w in windows if w.irqs != irqs)
    return CaseResult(
        name=name,
        metrics={
            INSTRUCTIONS: instructions,
            **others,
            **_metrics_of_paths(boot, phases, stacks),
        },
        interrupted=tuple(interrupted.items()),
        functions=tuple(_functions(modal, code).items()) if modal else (),
        paths=tuple(paths),
        caveats=tuple(notes),
        contexts=tuple(contexts if run.trace.contexts else ()),
    )


def _metrics_of_paths(
    boot: _Boot, phases: Sequence[Phase], stacks: Mapping[int, int]
) -> dict[str, Metric]:
    """The metrics of the first boot's recorded windows; of memory only if every access was kept."""
    windows = [
        (window.path, window)
        for phase, window in _clean(phases)
        if phase.name == "path" and phase.context < boot.options.rounds and window.path is not None
    ]
    samples: dict[str, Counter[int]] = {}
    known: dict[int, dict[str, int]] = {}
    for path, window in windows:
        if path not in known:
            own = [boot.code[n] for n in boot.run.trace.path_insns(path)]
            amounts = of_paths.amounts_of_code(own, boot.arch)
            known[path] = {name: each.total() for name, each in amounts.items()}
            if path in stacks:
                known[path][of_paths.STACK] = stacks[path]
        for name, total in {**known[path], **window.touched}.items():
            samples.setdefault(name, Counter())[total] += window.times
    recorded = sum(window.times for _, window in windows)
    for name, counts in samples.items():
        # What only some paths have is none in the others.
        if name.startswith(of_paths.SERIALISING) and counts.total() < recorded:
            counts[0] += recorded - counts.total()
    return {
        name: Metric.of(dict(sorted(counts.items())))
        for name, counts in sorted(samples.items())
        if counts.total() == recorded
    }


def _clean(phases: Iterable[Phase]) -> Iterator[tuple[Phase, Window]]:
    """Windows that no interrupt hit and whose user side is as it must be."""
    for phase in phases:
        for window in phase.windows:
            if window.irqs == phase.irqs and phase.user in (None, window.user):
                yield phase, window


def _functions(path: KernelPath, code: list[Instruction]) -> dict[str, int]:
    """Returns instructions per function, most first; they add up to the path's length."""
    counts = Counter(code[index].function for index in path.indexes)
    return dict(sorted(counts.items(), key=lambda item: (-item[1], item[0])))


def _paths(
    boot: _Boot, phases: Sequence[Phase], value: int, stacks: Mapping[int, int]
) -> tuple[list[KernelPath], list[CaseContext]]:
    """Returns the modal path, then each context's commonest and the most frequent of the others."""
    trace, code = boot.run.trace, boot.code
    # By context, how many windows had each count, took each path, and had each value of the metrics
    # that depend on where data lies.
    by_context: dict[int, tuple[Counter[int], Counter[int], dict[str, Counter[int]]]] = {}
    for phase, window in _clean(phases):
        counts, paths, data = by_context.setdefault(phase.context, (Counter(), Counter(), {}))
        counts[window.kernel] += window.times
        if window.path is not None:
            paths[window.path] += window.times
            touched = {**window.touched, of_paths.STACK: stacks.get(window.path)}
            for name in of_paths.OF_PLACES:
                if (amount := touched.get(name)) is not None:
                    data.setdefault(name, Counter())[amount] += window.times
    times: Counter[int] = Counter()
    # By context, the path that most windows with the commonest count took.
    commonest: dict[int, int] = {}
    for context, (counts, paths, _) in by_context.items():
        times.update(paths)
        length = exact.mode(counts)
        fitting = [path for path in paths if trace.path_length(path) == length]
        if fitting:
            commonest[context] = max(fitting, key=paths.__getitem__)
    # Sort by the number of contexts, then of windows.
    often = Counter(commonest.values())
    order = sorted(times, key=lambda path: (-often[path], -times[path]))
    modal = next((path for path in order if trace.path_length(path) == value), None)
    check_paths(phases, trace, modal)
    order.sort(key=lambda path: path != modal)
    del order[max(_PATHS_KEPT, len(often) + 1) :]
    base: dict[str, int] = {}
    kept: list[KernelPath] = []
    for path in order:
        role: Literal["modal", "other"] = MODAL if path == modal else OTHER
        taken = KernelPath(role=role, times=times[path], runs=tuple(trace.paths[path]))
        accesses = trace.accesses.get((phases[0].case, path))
        if path != modal:
            taken = structs.replace(taken, why=why(base, _functions(taken, code)))
        else:
            base = _functions(taken, code)
            if accesses is not None and len(accesses) <= _ACCESSES_KEPT:
                taken = structs.replace(taken, rows=tuple(access.row for access in accesses))
        if accesses is not None:
            _, positions = by_call(taken.indexes, code)
            taken = structs.replace(taken, accessed=of_paths.accessed_by_call(accesses, positions))
        kept.append(taken)
    indexes: dict[int | None, int] = {path: index for index, path in enumerate(order)}
    return kept, [
        CaseContext(
            context,
            tuple(sorted(counts.items())),
            indexes.get(commonest.get(context)),
            {name: tuple(sorted(own.items())) for name, own in data.items()},
        )
        for context, (counts, _, data) in by_context.items()
    ]


def _caveats(kernel: Kernel, boot: _Boot, code: Sequence[Instruction]) -> list[Caveat]:
    run, options = boot.run, boot.options
    notes = [caveats.not_time()]
    if kernel.origin.get("kind") != FLOOR:
        notes.append(caveats.randomised() if options.randomise else caveats.steady())
    processor = find_processor(boot.arch, options.cpu)
    notes += [caveats.lacking(options.cpu, lack) for lack in processor.lacks]
    if run.stand_in:
        notes.append(caveats.newer_emulator(run.target["emulator"], options.cpu))
    if options.check:
        notes.append(caveats.self_checked(run.trace.checked or 0))
    if NOTE in kernel.origin:
        notes.append(caveats.archive_incomplete(kernel.spec))
    nameless = sum(insn.function == UNNAMED for insn in code)
    if nameless > _UNNAMED_TOLERATED * len(code):
        notes.append(caveats.unnamed(nameless / len(code)))
    return notes
