# SPDX-License-Identifier: GPL-2.0-or-later
"""What `kentry annotate` prints: the modal path, instruction by instruction."""

from collections.abc import Iterable

from kentry.arch import Arch
from kentry.path.disassembly import readable_text
from kentry.path.metrics import part_amounts
from kentry.path.phases import parts, split_calls
from kentry.results.recording import CaseResult, Recording
from kentry.show.blocks import Block, Layout, Notes
from kentry.show.contexts import other_paths, path_difference
from kentry.show.estimate import estimate_blocks
from kentry.show.frame import kernel_lines
from kentry.show.metrics import part_blocks
from kentry.show.misses import miss_blocks
from kentry.show.source_lines import changed_places


def annotation_layout(recording: Recording, cases: Iterable[CaseResult], arch: Arch) -> Layout:
    """Lays out each path's calls, each in its parts, a line an instruction."""
    blocks: list[Block] = []
    for case in cases:
        notes = Notes([*recording.caveats, *case.caveats])
        blocks += [*([""] if blocks else []), *_case_blocks(recording, case, arch), notes]
    return Layout("annotation", "", "", blocks)


def _case_blocks(recording: Recording, case: CaseResult, arch: Arch) -> list[Block]:
    """Returns the path of one case, its instructions indented by call depth."""
    path = case.modal_path
    assert path is not None
    recorded = sum(one.times for one in case.paths)
    blocks: list[Block] = [
        *kernel_lines(recording.kernel),
        "",
        f"{case.name}: {path.length} kernel instructions,"
        f" the path of {path.times} of {recorded} recorded windows",
    ]
    code = recording.instructions(path)
    calls = list(split_calls(code))
    for number, call in enumerate(calls, start=1):
        found = parts(call, arch)
        sums = " + ".join(f"{part.name} {len(part.instructions)}" for part in found)
        label = f"call {number}: " if len(calls) > 1 else ""
        blocks += ["", f"{label}{sums} = {len(call)}"]
        for part in found:
            blocks += ["", f"{part.name} ({len(part.instructions)})"]
            places = [f"{insn.function}+{insn.offset:#x}" for insn in part.instructions]
            width = max(map(len, places))
            texts = [
                f"  {place:<{width}}  {'  ' * depth}{readable_text(insn, arch)}"
                for place, depth, insn in zip(places, part.depths, part.instructions, strict=True)
            ]
            sources = changed_places([insn.source_lines for insn in part.instructions])
            column = max(map(len, texts))
            blocks += [
                f"{text:<{column}}  {source}" if source else text
                for text, source in zip(texts, sources, strict=True)
            ]
    for other, contexts in other_paths(case):
        of = f"{contexts} of {len(case.contexts)} contexts"
        blocks += ["", f"{other.length} kernel instructions in {of}; against the path above:"]
        blocks += path_difference(recording, path, other)
    blocks += [*estimate_blocks([case], None), *miss_blocks([case])]
    blocks += ["", *part_blocks(part_amounts(code, path.accesses, arch))]
    return blocks
