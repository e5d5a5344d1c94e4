# SPDX-License-Identifier: GPL-2.0-or-later
"""Text as perf script prints it: a sample an instruction, with its stack, the innermost first.

The command of a sample is the case, its process the case's number, its time the instruction's
place in the recording, a microsecond an instruction.
"""

import re
from collections.abc import Iterator, Sequence

from kentry.results.recording import Recording
from kentry.show.export.common import Export, printable
from kentry.show.export.stacks import CaseStacks, stacks
from kentry.show.frame import kernel_name

_OBJECT = "[kernel.kallsyms]"
# Readers look for blanks, and for the object in parentheses at the end.
_NO_CHARACTER = re.compile(r"[\s()]")


def export(recordings: Sequence[Recording]) -> Export:
    """Write the cases of one recording, one after another."""
    of_all = stacks(recordings)
    lines = [f"# kernel: {printable(kernel_name(one.kernel))}" for one in recordings]
    lines.append("")
    before = 0
    for number, case in enumerate(of_all.cases, start=1):
        lines += _samples(case, number, before)
        before += len(case.path)
    return Export("\n".join(lines) + "\n", of_all.notes)


def _samples(case: CaseStacks, process: int, before: int) -> Iterator[str]:
    command = _NO_CHARACTER.sub("_", case.name)
    for position in range(len(case.path)):
        seconds, micro = divmod(before + position, 1_000_000)
        time = f"{seconds}.{micro:06}"
        yield f"{command} {process} [000] {time}: {'1':>10} instructions:k: "
        for at, _ in case.frames(position):
            insn = case.path[at]
            name = _NO_CHARACTER.sub("_", insn.function)
            yield f"\t{insn.address:16x} {name}+{insn.offset:#x} ({_OBJECT})"
        yield ""
