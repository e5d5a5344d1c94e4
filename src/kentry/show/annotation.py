# SPDX-License-Identifier: GPL-2.0-or-later
"""What `kentry annotate` prints: the modal path, instruction by instruction."""

from kentry.results.annotation import AnnotatedCase, Annotation, PathPart
from kentry.show.blocks import Block, Layout, Notes
from kentry.show.estimate import estimate_blocks
from kentry.show.frame import kernel_lines
from kentry.show.metrics import part_blocks
from kentry.show.misses import miss_blocks
from kentry.show.source_lines import changed_places


def annotation_layout(annotation: Annotation) -> Layout:
    """Lays out each path's calls, each in its parts, a line an instruction."""
    blocks: list[Block] = []
    for case in annotation.cases:
        blocks += [*([""] if blocks else []), *kernel_lines(annotation.kernel), ""]
        blocks += [*_case_blocks(case), Notes(case.caveats)]
    return Layout("annotation", "", "", blocks)


def _case_blocks(case: AnnotatedCase) -> list[Block]:
    blocks: list[Block] = [
        f"{case.name}: {case.instructions} kernel instructions,"
        f" the path of {case.windows} of {case.recorded} recorded windows"
    ]
    for number, call in enumerate(case.calls, start=1):
        counts = [len(part.instructions) for part in call]
        sums = " + ".join(f"{part.part} {count}" for part, count in zip(call, counts, strict=True))
        label = f"call {number}: " if len(case.calls) > 1 else ""
        blocks += ["", f"{label}{sums} = {sum(counts)}"]
        for part in call:
            blocks += ["", *_part_lines(part)]
    for other in case.other_paths:
        of = f"{other.contexts} of {case.contexts} contexts"
        blocks += ["", f"{other.instructions} kernel instructions in {of}; against the path above:"]
        blocks += other.difference
    blocks += [*estimate_blocks([case], None), *miss_blocks([case])]
    return [*blocks, "", *part_blocks(case.metrics)]


def _part_lines(part: PathPart) -> list[str]:
    """Returns a line for each instruction, indented by call depth, its source line beside it."""
    places = [f"{insn.function}+{insn.offset:#x}" for insn in part.instructions]
    width = max(map(len, places))
    texts = [
        f"  {place:<{width}}  {'  ' * insn.depth}{insn.text}"
        for place, insn in zip(places, part.instructions, strict=True)
    ]
    sources = changed_places([insn.source_lines or () for insn in part.instructions])
    column = max(map(len, texts))
    return [
        f"{part.part} ({len(part.instructions)})",
        *(
            f"{text:<{column}}  {source}" if source else text
            for text, source in zip(texts, sources, strict=True)
        ),
    ]
