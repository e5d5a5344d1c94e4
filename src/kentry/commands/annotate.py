# SPDX-License-Identifier: GPL-2.0-or-later
"""kentry annotate: the path, instruction by instruction."""

from __future__ import annotations

import sys
from dataclasses import dataclass, replace
from typing import Any

from kentry.arch import Arch, find_arch
from kentry.commands import measuring
from kentry.commands.options import operand
from kentry.errors import EXIT_DONE, UserError
from kentry.model.document import dump
from kentry.model.recording import CaseResult, Recording
from kentry.path.disassembly import readable_text
from kentry.path.phases import parts, split_calls
from kentry.report.annotation import annotation_text

EXAMPLES = (
    "kentry annotate 6.12.json",
    "kentry annotate 6.12.json --case read,openat+close",
    "kentry annotate debian:6.12 --arch riscv64 --case getppid",
)


@dataclass(frozen=True, kw_only=True)
class Options(measuring.CachedOptions):
    """What `kentry annotate` takes."""

    what: str = operand(
        metavar="SPEC|FILE", help=f"a recording, or a kernel: {measuring.SPEC_HELP}"
    )

    @property
    def inputs(self) -> tuple[str, ...]:
        """The spec or file."""
        return (self.what,)


def run(options: Options) -> int:
    """Obtains the recording and prints the modal path of each case."""
    options = replace(options, case=options.case or ("getppid",))
    recording = measuring.obtain(options.what, options)
    arch = find_arch(recording.kernel["arch"])
    # A spec is measured for the chosen cases alone.
    patterns = () if measuring.is_spec(options.what) else options.case
    names = measuring.match_cases([recording], patterns)
    cases = [case for case in recording.cases if case.name in names]
    for case in cases:
        if case.modal_path is None or not case.modal_path.length:
            raise UserError(
                f"No kernel path of {case.name} was recorded.",
                "Record it again with --paths 128 or more.",
            )
    if options.json:
        document = {
            "schema": "kentry/annotation/1",
            "kernel": {k: v for k, v in recording.kernel.items() if k != "config"},
            "target": recording.target,
            "cases": [_to_json(recording, case, arch) for case in cases],
        }
        sys.stdout.write(dump(document))
    else:
        sys.stdout.write("\n".join(annotation_text(recording, case, arch) for case in cases))
    return EXIT_DONE


def _to_json(recording: Recording, case: CaseResult, arch: Arch) -> dict[str, Any]:

    path = case.modal_path
    assert path is not None
    return {
        "name": case.name,
        "instructions": path.length,
        "calls": [
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
                        }
                        for insn, depth in zip(part.instructions, part.depths, strict=True)
                    ],
                }
                for part in parts(call, arch)
            ]
            for call in split_calls(recording.instructions(path))
        ],
    }
