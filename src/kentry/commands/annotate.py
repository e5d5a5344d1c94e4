# SPDX-License-Identifier: GPL-2.0-or-later
"""kentry annotate: the path, instruction by instruction."""

from __future__ import annotations

import argparse
import sys
from typing import TYPE_CHECKING, Any

from kentry.commands import measuring
from kentry.errors import EXIT_DONE

if TYPE_CHECKING:
    from kentry.arch import Arch
    from kentry.model.recording import CaseResult, Recording

NAME = "annotate"
HELP = "print the path of a case, instruction by instruction"

DEFAULT_CASE = "getppid"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The command's arguments."""
    parser.add_argument(
        "what", metavar="SPEC|FILE", help=f"a recording, or a kernel: {measuring.SPEC_HELP}"
    )
    parser.add_argument("--json", action="store_true", help="print kentry/annotation/1")
    parser.add_argument(
        "--fresh", action="store_true", help="measure again even what is in the cache"
    )
    measuring.add_arguments(parser)


def run(args: argparse.Namespace) -> int:
    """Obtains the recording and prints the modal path of each case asked for."""
    from kentry.arch import find_arch
    from kentry.model.recording import dump
    from kentry.report.text import annotation

    if not (args.case or args.matrix or args.preset):
        args.case = [DEFAULT_CASE]
    recording = measuring.obtain(args.what, args)
    arch = find_arch(recording.kernel["arch"])
    names = measuring.asked_for([args.what], [recording], args) or []
    cases = [_case(recording, name) for name in names]
    if args.json:
        document = {
            "schema": "kentry/annotation/1",
            "kernel": {k: v for k, v in recording.kernel.items() if k != "config"},
            "target": recording.target,
            "cases": [_to_json(recording, case, arch) for case in cases],
        }
        sys.stdout.write(dump(document))
    else:
        sys.stdout.write("\n".join(annotation(recording, case, arch) for case in cases))
    return EXIT_DONE


def _case(recording: Recording, name: str) -> CaseResult:
    from kentry.errors import UserError

    case = recording.case(name)
    assert case is not None
    if case.modal_path is None or not case.modal_path.length:
        raise UserError(
            f"No kernel path of {name} was recorded.", "Record it again with --paths 128 or more."
        )
    return case


def _to_json(recording: Recording, case: CaseResult, arch: Arch) -> dict[str, Any]:
    from kentry.path.phases import parts, split_calls

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
                            "text": insn.text,
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
