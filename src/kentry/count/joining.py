# SPDX-License-Identifier: GPL-2.0-or-later
"""What was measured of one kernel -> one: two boots, other vector lengths, counts and times."""

from collections.abc import Container, Sequence
from dataclasses import replace

from msgspec import UNSET, structs

from kentry.boot.plugin_trace import PluginTrace
from kentry.errors import UserError
from kentry.results import caveats
from kentry.results.caveats import Caveat
from kentry.results.recording import (
    TIMED,
    CaseResult,
    Instruction,
    KernelPath,
    Recording,
    renumbered,
)

# Kinds of caveats that begin with the name of the case that they are of.
_OF_ONE_CASE = {
    *(caveats.case_failed.kind, caveats.case_absent.kind),
    *(caveats.windows_lost.kind, caveats.one_boot_of.kind),
}
# Digits of a build ID in an error.
_ABBREVIATED = 12


def joined(recordings: Sequence[Recording]) -> Recording:
    """Boots of one kernel that differ in the cpu model's vector length, as one recording."""
    if len(recordings) == 1:
        return recordings[0]
    target = dict(recordings[0].target)
    if cpus := dict.fromkeys(boot.target["cpu"] for boot in recordings if "cpu" in boot.target):
        target["cpu"] = " / ".join(cpus)
    return structs.replace(_together(recordings), target=target)


def only(recording: Recording, names: Sequence[str]) -> Recording:
    """Returns the cases of these names, without what is of the others alone."""
    measured = [case for case in recording.cases if case.name in names]
    cases, code = only_code_of_paths(measured, recording.code)
    return structs.replace(
        recording,
        cases=cases,
        code=code,
        caveats=[
            caveat
            for caveat in recording.caveats
            if caveat["kind"] not in _OF_ONE_CASE or caveat["text"].partition(" ")[0] in names
        ],
        markers=recording.markers if any(case.parsed.state for case in cases) else UNSET,
    )


def only_code_of_paths(
    cases: Sequence[CaseResult], code: Sequence[Instruction]
) -> tuple[list[CaseResult], list[Instruction]]:
    """Leaves out the instructions that no path of the cases has."""
    used = sorted({index for case in cases for path in case.paths for index in path.indexes})
    moved = {old: new for new, old in enumerate(used)}

    def in_used(path: KernelPath) -> KernelPath:
        return structs.replace(path, runs=tuple((moved[first], n) for first, n in path.runs))

    kept = [structs.replace(case, paths=tuple(map(in_used, case.paths))) for case in cases]
    return kept, [code[index] for index in used]


def with_times(counted: Recording, timed: Recording) -> Recording:
    """Counts and times of one kernel in one; UserError for two kernels, or a metric in both."""
    doubts = _check(counted, timed)
    whole = _together((counted, timed))
    merged: dict[str, CaseResult] = {}
    for case in whole.cases:
        first = merged.setdefault(case.name, case)
        if first is not case:
            # Take the paths of whichever side has them.
            executed = first if first.paths or not case.paths else case
            merged[case.name] = structs.replace(
                executed,
                metrics={**first.metrics, **case.metrics},
                caveats=tuple(caveats.unique([*first.caveats, *case.caveats])),
                noisy={**first.noisy, **case.noisy},
            )
    kernel = {name: value or timed.kernel[name] for name, value in counted.kernel.items()}
    if counted.kernel["config"] is None and timed.kernel["config"] is not None:
        # A config and its hash belong together.
        kernel["config_sha256"] = timed.kernel["config_sha256"]
    options = dict(counted.options)
    for name, value in timed.options.items():
        options[name if options.get(name, value) == value else f"{TIMED}{name}"] = value
    target = {f"{TIMED}{name}": value for name, value in timed.timed_target.items()}
    return structs.replace(
        whole,
        kernel=kernel,
        target=counted.target | target,
        options=options,
        cases=list(merged.values()),
        caveats=caveats.unique([*whole.caveats, *doubts]),
    )


def _together(recordings: Sequence[Recording]) -> Recording:
    """The first one with the cases of all, whose indexes are into one code and one contexts."""
    first, *others = recordings
    code, cases, contexts = list(first.code), list(first.cases), list(first.contexts)
    for other in others:
        numbers = _added(code, other.code)
        for case in other.cases:
            moved = renumbered((path.runs for path in case.paths), numbers)
            pairs = zip(case.paths, moved, strict=True)
            paths = tuple(structs.replace(path, runs=runs) for path, runs in pairs)
            before = len(contexts)
            later = [structs.replace(c, context=c.context + before) for c in case.contexts]
            cases.append(structs.replace(case, paths=paths, contexts=tuple(later)))
        contexts += other.contexts
    return structs.replace(
        first,
        code=code,
        cases=cases,
        contexts=contexts,
        caveats=caveats.unique(caveat for boot in recordings for caveat in boot.caveats),
        markers=next((boot.markers for boot in recordings if boot.markers is not UNSET), UNSET),
        made_for={},
    )


def _added(code: list[Instruction], more: Sequence[Instruction]) -> list[int]:
    """Adds to `code` what it lacks of `more`, both as linked without KASLR; the place of each."""
    known = {(insn.address, insn.code): number for number, insn in enumerate(code)}
    numbers = []
    for insn in more:
        numbers.append(known.setdefault((insn.address, insn.code), len(code)))
        if numbers[-1] == len(code):
            code.append(insn)
    return numbers


def _check(counted: Recording, timed: Recording) -> list[Caveat]:
    """Raises UserError where they cannot be joined; caveats where that is not known."""
    if not any(case.metrics for case in counted.cases):
        raise UserError(
            "The first recording has no counts.", "Make one: kentry record SPEC -o FILE"
        )
    if not any(case.noisy for case in timed.cases):
        raise UserError("The second recording has no times.", "Make one: kentry stat -o FILE")
    for case in timed.cases:
        other = counted.case(case.name)
        both = other and ({*case.metrics, *case.noisy} & {*other.metrics, *other.noisy})
        if both:
            raise UserError(
                f"Both recordings have {min(both)} of {case.name}.",
                "Join one with counts and one with times; kentry diff compares two.",
            )
    a, b = counted.kernel, timed.kernel
    if a["arch"] != b["arch"]:
        raise UserError(
            f"The recordings are of two architectures, {a['arch']} and {b['arch']}.",
            "Join two of one kernel.",
        )
    if a["build_id"] and b["build_id"]:
        if a["build_id"] != b["build_id"]:
            raise UserError(
                "The recordings are of two kernels: their build IDs are"
                f" {a['build_id'][:_ABBREVIATED]} and {b['build_id'][:_ABBREVIATED]}.",
                "Measure both on one image; kentry diff compares two.",
            )
        return []
    if a["image_sha256"] and a["image_sha256"] == b["image_sha256"]:
        return []
    unknown = [what for what, kernel in (("counts", a), ("times", b)) if not kernel["build_id"]]
    doubts = [caveats.kernel_unknown(" and the ".join(unknown))]
    if a["release"] and b["release"] and a["release"] != b["release"]:
        doubts.append(caveats.differs("release (counts / times)", a["release"], b["release"]))
    return doubts


def add_boot(
    trace: PluginTrace,
    code: list[Instruction],
    other: PluginTrace,
    its_code: list[Instruction],
    cases: Container[str],
) -> None:
    """Adds `cases` of a second boot of the same kernel to a trace and its code."""
    numbers = _added(code, its_code)
    known = {tuple(runs): index for index, runs in enumerate(trace.paths)}
    paths = []
    for path in renumbered(map(tuple, other.paths), numbers):
        if path not in known:
            known[path] = len(trace.paths)
            trace.paths.append(list(path))
        paths.append(known[path])
    for (case, its_path), accesses in other.accesses.items():
        if (key := (case, paths[its_path])) not in trace.accesses:
            trace.accesses[key] = accesses
            trace.touched[key] = other.touched[case, its_path]
    for phase in (phase for phase in other.phases if phase.case in cases):
        windows = [w if w.path is None else replace(w, path=paths[w.path]) for w in phase.windows]
        trace.phases.append(
            replace(phase, windows=windows, context=phase.context + len(trace.contexts))
        )
    trace.contexts += other.contexts
