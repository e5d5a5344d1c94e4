# SPDX-License-Identifier: GPL-2.0-or-later
"""A path instruction by instruction, and two paths beside each other."""

from collections.abc import Iterator, Sequence
from itertools import groupby, pairwise
from typing import NamedTuple

from kentry.results import annotation
from kentry.results.caveats import unique
from kentry.results.recording import SourceLine
from kentry.show import provenance
from kentry.show.beside import estimate_blocks, layout_blocks, miss_blocks, part_table
from kentry.show.blocks import Block, Layout, Prose
from kentry.show.sections import InText, Paths, Section
from kentry.show.table import plain


def source_text(lines: Sequence[SourceLine]) -> str:
    """The line, without its file's folder; after "<" the outermost one that it was inlined into."""
    names = [f"{line.file.rpartition('/')[2]}:{line.line}" for line in lines]
    return plain(" < ".join([names[0], "...", names[-1]] if len(names) > 2 else names))


def annotation_layout(result: annotation.Annotation) -> Layout:
    """Lays out each path's calls, each in its parts, a line an instruction."""
    blocks: list[Block] = []
    for case in result.cases:
        blocks += [""] if blocks else []
        blocks += provenance.kernel_lines(result.kernel)
        blocks += [*provenance.processor_lines(result.target), ""]
        blocks += _case_blocks(case)
    counts = ", ".join(f"{case.name}: {case.instructions}" for case in result.cases)
    return Layout(
        "annotation",
        f"Path on {provenance.kernel_name(result.kernel)}",
        f"kernel instructions of {counts}",
        blocks,
        unique(note for case in result.cases for note in case.caveats),
        **provenance.how_measured(result.tool, result),
    )


def _case_blocks(case: annotation.AnnotatedCase) -> list[Block]:
    blocks: list[Block] = [
        f"{case.name}: {case.instructions} kernel instructions,"
        f" the path of {case.windows} of {case.recorded} recorded windows"
    ]
    for number, call in enumerate(case.calls, start=1):
        sums = " + ".join(f"{part.part} {len(part.instructions)}" for part in call)
        label = f"call {number}: " if len(case.calls) > 1 else ""
        blocks += ["", f"{label}{sums} = {sum(len(part.instructions) for part in call)}"]
        for part in call:
            blocks += ["", *_part_lines(part)]
    for other in case.other_paths:
        of = f"{other.contexts} of {case.contexts} contexts"
        blocks += ["", f"{other.instructions} kernel instructions in {of}; against the path above:"]
        blocks += other.difference
    models = [*estimate_blocks([case], None), *miss_blocks([case])]
    return [*blocks, *models, "", part_table(case.metrics)]


def _part_lines(part: annotation.PathPart) -> Iterator[str]:
    yield f"{part.part} ({len(part.instructions)})"
    addresses = [f"{insn.function}+{insn.offset:#x}" for insn in part.instructions]
    width = max(map(len, addresses))
    texts = [
        f"  {address:<{width}}  {'  ' * insn.depth}{insn.text}"
        for address, insn in zip(addresses, part.instructions, strict=True)
    ]
    column = max(map(len, texts))
    sources = ["", *(source_text(insn.source_lines or ()) for insn in part.instructions)]
    for text, (before, source) in zip(texts, pairwise(sources), strict=True):
        yield f"{text:<{column}}  {source}" if source and source != before else text


def path_layout(comparison: annotation.PathComparison, context: int = 3) -> Layout:
    """Lays out two paths of each case, with `context` unchanged instructions around a change."""
    old, new = comparison.old, comparison.new
    changes = [
        f"{case.name}: {case.old} \u2192 {case.new} ({case.delta:+d})" for case in comparison.cases
    ]
    blocks: list[Block] = [InText(provenance.side_lines(old, new))]
    for case, change in zip(comparison.cases, changes, strict=True):
        blocks += ["", Section(change, [*path_summary(case), Paths(case, context)])]
    blocks += layout_blocks(comparison.cases)
    notes = [*comparison.caveats, *(note for case in comparison.cases for note in case.caveats)]
    return Layout(
        "path-diff",
        f"Paths of {' and '.join(provenance.kernel_name(side.kernel) for side in (old, new))}",
        ", ".join(changes),
        blocks,
        unique(notes),
        **provenance.how_measured(comparison.tool, old, new),
        versions=provenance.versions(old, new),
    )


def path_summary(case: annotation.PathDiff) -> Iterator[Block]:
    """Yields the counts, which add up, and the functions that have other names."""
    if not (case.added or case.removed or case.moved):
        other = sum(row.times for row in case.rows if row.constants_differ)
        constants = f", {other} with other constants" if other else ""
        yield Prose(f"{case.name}: {case.new} kernel instructions, all the same{constants}")
        return
    moved = f"{case.moved} moved, " if case.moved else ""
    yield Prose(
        f"{case.name}: {case.old} -> {case.new} kernel instructions ({case.delta:+d}):"
        f" {case.added} added, {case.removed} removed, {moved}{case.same} the same"
    )
    for both in case.renamed:
        old, new = (
            " + ".join(f"{name} ({share})" for name, share in side) for side in (both.old, both.new)
        )
        yield Prose(f"{new} <- {old}", "  ", "    ")


class Head(NamedTuple):
    """Where a stretch of one function begins, and how much of the stretch changed."""

    function: str
    part: str
    added: int
    removed: int


class LeftOut(NamedTuple):
    """Instructions that are the same: how many, how many with other constants, of what."""

    times: int
    other_constants: int
    functions: Sequence[str]


class Line(NamedTuple):
    """An instruction; `source` is "" where it is that of the line before."""

    row: annotation.Row
    own: annotation.PlacedInstruction
    source: str


class Again(NamedTuple):
    """A stretch that another path has too: its head, that path's case, and where it is shown."""

    head: Head
    case: str
    link: str


Hunk = Head | LeftOut | Line | Again
# By what changes in a stretch, the case that shows it and where.
Stretches = dict[tuple[object, ...], tuple[str, str]]


def hunks_once(
    diff: annotation.PathDiff, context: int, shown: Stretches, link: str
) -> Iterator[Hunk]:
    """Yields those of hunks() that `shown` does not have yet, and where it has the others."""
    stretches: list[list[Head | LeftOut | Line]] = [[]]
    for hunk in hunks(diff.rows, context):
        if isinstance(hunk, Head):
            stretches.append([])
        stretches[-1].append(hunk)
    for stretch in stretches:
        if stretch and isinstance(head := stretch[0], Head):
            lines = [(line.row, line.own) for line in stretch if isinstance(line, Line)]
            changes = ((r.change, r.old and r.old.text, own.text, r.reason) for r, own in lines)
            case, where = shown.setdefault((head, *changes), (diff.name, link))
            if where != link:
                yield Again(head, case, where)
                continue
        yield from stretch


def hunks(rows: Sequence[annotation.Row], context: int) -> Iterator[Head | LeftOut | Line]:
    """Yields the changes with `context` instructions around each, and what stands between them."""
    changed = [at for at, row in enumerate(rows) if row.change != annotation.SAME]
    if not changed:
        return
    # For each row its stretch's head: one object a stretch, which others may equal.
    heads: list[Head] = []
    for (function, part), same in groupby(rows, lambda row: (row.function, row.part)):
        stretch = list(same)
        added, removed = (
            sum(row.times for row in stretch if row.change == change)
            for change in (annotation.ADDED, annotation.REMOVED)
        )
        heads += [Head(function, part, added, removed)] * len(stretch)
    # What is the same in another function explains no change.
    shown = {
        near
        for at in changed
        for near in range(max(0, at - context), min(len(rows), at + context + 1))
        if heads[near] is heads[at]
    }
    # A line about one instruction would say less than the instruction.
    inside = range(1, len(rows) - 1)
    shown |= {at for at in inside if {at - 1, at + 1} <= shown and heads[at - 1] is heads[at + 1]}
    head, last_source = None, (False, "")
    for is_shown, indexes in groupby(range(len(rows)), lambda at: at in shown):
        if not is_shown:
            last_source = (False, "")
            left = [rows[at] for at in indexes]
            constants = sum(row.times for row in left if row.constants_differ)
            names = dict.fromkeys(row.new.function for row in left if row.new)
            yield LeftOut(sum(row.times for row in left), constants, list(names))
            continue
        for at in indexes:
            row = rows[at]
            if heads[at] is not head:
                yield (head := heads[at])
                last_source = (False, "")
            # Each side has lines of its own.
            is_old = row.change in (annotation.REMOVED, annotation.MOVED_FROM)
            own = row.old if is_old else row.new
            assert own
            own_source = is_old, source_text(own.source_lines or ())
            yield Line(row, own, "" if own_source == last_source else own_source[1])
            last_source = (False, "") if row.change == annotation.SAME else own_source
