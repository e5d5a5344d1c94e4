# SPDX-License-Identifier: GPL-2.0-or-later
"""kentry annotate: the path, instruction by instruction; or two paths beside each other."""

from dataclasses import dataclass, replace
from typing import Any

from kentry.arch import Arch, find_arch
from kentry.commands import measuring, values
from kentry.commands.emit import emit
from kentry.commands.options import Need, operand, option
from kentry.errors import EXIT_DONE, UserError
from kentry.path.disassembly import readable_text
from kentry.path.metrics import part_amounts
from kentry.path.phases import parts, split_calls
from kentry.results.document import to_json
from kentry.results.recording import CaseResult, Recording
from kentry.show.annotation import annotation_layout
from kentry.show.contexts import other_paths, path_difference
from kentry.show.path_diff import path_layout

EXAMPLES = (
    "kentry annotate 6.12.json",
    "kentry annotate debian:6.12 --arch riscv64 --case getppid",
    "kentry annotate 6.1.json 6.12.json --case read",
)
RETIRED = measuring.RETIRED


@dataclass(frozen=True, kw_only=True)
class Options(measuring.CoreOptions):
    """What `kentry annotate` takes."""

    what: str = operand(
        metavar="SPEC|FILE", help=f"a recording, or a kernel: {measuring.SPEC_HELP}"
    )
    new: str | None = operand(
        default=None,
        metavar="NEW",
        nargs="?",
        help="another recording or kernel: print the difference of the two paths",
    )
    context: int = option(
        "--context",
        type=values.whole(0, values.MAX_COUNT),
        default=3,
        metavar="N",
        needs=[Need(lambda options: options.new is not None, "without two paths to compare")],
        help="show N instructions that are the same around each change of a path",
    )


def run(options: Options) -> int:
    """Obtains the recording and prints the modal path of each case, or two and their difference."""
    options = replace(options, case=options.case or ("getppid",))
    if options.new is not None:
        return _run_two(options, options.new)
    options.check_cores()
    recording = measuring.obtain(options.what, options)
    arch = find_arch(recording.kernel["arch"])
    # A spec is measured for the chosen cases alone.
    patterns = () if measuring.is_spec(options.what) else options.case
    names = measuring.match_cases([recording], patterns)
    recording = options.with_misses(options.with_estimates(recording, names), names)
    cases = [case for case in recording.cases if case.name in names]
    for case in cases:
        if case.modal_path is None or not case.modal_path.length:
            raise UserError(
                f"No kernel path of {case.name} was recorded.",
                "Record it again with --paths 128 or more.",
            )
    emit(
        options,
        lambda: annotation_layout(recording, cases, arch),
        lambda: _document(recording, cases, arch),
    )
    return EXIT_DONE


def _document(recording: Recording, cases: list[CaseResult], arch: Arch) -> dict[str, Any]:
    """Returns kentry/annotation/1."""
    documents = []
    for case in cases:
        assert case.modal_path
        calls = [
            [
                {
                    "part": part.name,
                    "instructions": [
                        {
                            "address": f"{insn.address:016x}",
                            "code": insn.code,
                            "text": readable_text(insn, arch),
                            "function": insn.function,
                            "offset": insn.offset,
                            "depth": depth,
                            **(
                                {"source_lines": list(map(list, insn.source_lines))}
                                if insn.source_lines
                                else {}
                            ),
                        }
                        for insn, depth in zip(part.instructions, part.depths, strict=True)
                    ],
                }
                for part in parts(call, arch)
            ]
            for call in split_calls(recording.instructions(case.modal_path))
        ]
        others = [
            {
                "instructions": path.length,
                "contexts": contexts,
                "difference": list(path_difference(recording, case.modal_path, path)),
            }
            for path, contexts in other_paths(case)
        ]
        length = case.modal_path.length
        found = {"name": case.name, "instructions": length, "calls": calls}
        code = recording.instructions(case.modal_path)
        found["metrics"] = part_amounts(code, case.modal_path.accesses, arch)
        found |= {"other_paths": others} if others else {}
        found |= {"estimates": to_json(case.estimates)} if case.estimates else {}
        found |= {"misses": to_json(case.misses)} if case.misses else {}
        documents.append(found)
    kernel = {name: value for name, value in recording.kernel.items() if name != "config"}
    head = {"schema": "kentry/annotation/1", "kernel": kernel, "target": recording.target}
    return {**head, "cases": documents}


def _run_two(options: Options, new: str) -> int:
    # It loads numpy, which one path does not need.
    from kentry.compare.path_diff import compare_paths

    if options.core:
        raise UserError("--core has no effect on two paths.", "Leave --core out.")
    old, other, names = measuring.obtain_both((options.what, new), options)
    comparison = compare_paths(old, other, names or [case.name for case in old.cases])
    emit(options, lambda: path_layout(comparison, options.context), lambda: comparison)
    return EXIT_DONE
