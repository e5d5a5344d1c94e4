# SPDX-License-Identifier: GPL-2.0-or-later
"""A recording -> its paths, instruction by instruction, in the parts of each entry."""

import difflib
from collections.abc import Collection, Iterator

from msgspec import UNSET

from kentry.arch import Arch, find_arch
from kentry.errors import ContradictionError, UserError
from kentry.path.calls import parts, split_calls
from kentry.path.metrics import part_amounts, readable_text
from kentry.path.variation import distinct_paths
from kentry.results import annotation
from kentry.results.recording import CaseResult, Instruction, KernelPath, Measured, Recording


def annotate(recording: Recording, names: Collection[str]) -> annotation.Annotation:
    """Returns the modal path of each case in `names`; UserError where none was recorded."""
    arch = find_arch(recording.kernel["arch"])
    cases = [_annotated(recording, case, arch) for case in recording.cases if case.name in names]
    of = Measured.of(recording)
    return annotation.Annotation(
        tool=of.tool, kernel=of.kernel, target=of.target, cases=tuple(cases)
    )


def _annotated(recording: Recording, case: CaseResult, arch: Arch) -> annotation.AnnotatedCase:
    path = case.modal_path
    if path is None:
        raise UserError(f"No kernel path of {case.name} was recorded.", recording.path_remedy)
    if not path.length:
        raise UserError(f"{case.name} executes no kernel instruction.", "Choose another case.")
    code = recording.instructions(path)

    def shown(insn: Instruction, depth: int) -> annotation.AnnotatedInstruction:
        where = f"{insn.address:016x}", insn.code, readable_text(insn, arch)
        lines = insn.source_lines or UNSET
        return annotation.AnnotatedInstruction(
            *where, insn.function, insn.offset, lines, depth=depth
        )

    calls = tuple(
        tuple(
            annotation.PathPart(part.name, tuple(map(shown, part.instructions, part.depths)))
            for part in parts(call, arch)
        )
        for call in split_calls(code)
    )
    total = sum(len(part.instructions) for call in calls for part in call)
    if total != path.length:
        raise ContradictionError(f"{case.name} has parts of {total}, a path of {path.length}")
    return annotation.AnnotatedCase(
        name=case.name,
        instructions=path.length,
        calls=calls,
        metrics=part_amounts(code, path.accesses, arch),
        other_paths=tuple(
            annotation.OtherPath(other.length, len(own), tuple(_difference(recording, path, other)))
            for other, own in distinct_paths(case)
            if other is not path
        ),
        estimates=tuple(case.estimates),
        misses=tuple(case.misses),
        windows=path.times,
        recorded=sum(path.times for path in case.paths),
        contexts=len(case.contexts),
        caveats=(*recording.caveats, *case.caveats),
    )


def _difference(recording: Recording, old: KernelPath, new: KernelPath) -> Iterator[str]:
    """Yields the instructions that only one of two paths of one kernel has, with their places."""
    before, after = (
        [f"{insn.function}+{insn.offset:#x}  {insn.text}" for insn in recording.instructions(path)]
        for path in (old, new)
    )
    matcher = difflib.SequenceMatcher(None, before, after, autojunk=False)
    for kind, a, b, c, d in matcher.get_opcodes():
        if kind != "equal":
            yield "  ..."
            yield from (f"  - {line}" for line in before[a:b])
            yield from (f"  + {line}" for line in after[c:d])
