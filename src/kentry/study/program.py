# SPDX-License-Identifier: GPL-2.0-or-later
"""What a study makes of recordings of a program: columns of a series, what a patch gives, metrics.

A metric of a program is KIND.METRIC: read.instructions, entry.share.
"""

from collections.abc import Mapping, Sequence
from itertools import pairwise

from kentry.compare.workload import of_recordings
from kentry.errors import UserError
from kentry.results import caveats
from kentry.results.caveats import Caveat
from kentry.results.recording import INSTRUCTIONS, CaseResult, Command, Recording
from kentry.results.studies import ProgramBase, ProgramChange, ProgramStep
from kentry.results.workload import ALL, AROUND, CALLS, ENTRY, KERNEL, OF_KERNEL, SHARE, TOTAL

# Of a call, the calls of a boot, the instructions of these, and their share of all instructions.
METRICS = (INSTRUCTIONS, CALLS, TOTAL, SHARE)
# Kinds that a note names.
_NAMED = 12


def metric(text: str) -> tuple[str, str]:
    """The kind of entry, and what of it; UserError shows how to write it."""
    kind, _, own = text.rpartition(".")
    if not kind or own not in METRICS:
        raise UserError(
            f"'{text}' is no metric of a program.",
            f"Write KIND.METRIC, such as read.instructions or {ENTRY}.{SHARE}, of"
            f" {', '.join(METRICS)}; {ENTRY} is entry and exit, {KERNEL} all of the kernel.",
        )
    return kind, own


def columns(kernels: Sequence[Recording]) -> tuple[list[str], list[Caveat]]:
    """Entry and exit, and the kinds decided between all neighbours; a note says which are not."""
    names = [case.name for case in kernels[0].cases if INSTRUCTIONS in case.metrics]
    why: dict[str, str] = {}
    for old, new in pairwise(kernels):
        rows = {row.name: row for row in of_recordings(old, new, None)}
        for name in names:
            if name not in rows:
                why.setdefault(name, "not in every kernel")
            elif rows[name].change is None:
                text = rows[name].caveats[0]["text"]
                why.setdefault(name, text.rpartition(": ")[2])
    kept = [name for name in names if name == ENTRY or name not in why]
    unsure = [f"{name} ({reason})" for name, reason in why.items() if name not in kept]
    more = [f"and {len(unsure) - _NAMED} more"] if len(unsure) > _NAMED else []
    note = caveats.kinds_undecided(", ".join([*unsure[:_NAMED], *more]))
    return kept, [note] if unsure else []


def base_of(base: Recording, program: Command) -> ProgramBase:
    """What ran on the baseline."""
    first, entry = base.contexts[0], base.case(ENTRY)
    return ProgramBase(
        program=program,
        seeds=tuple(context["seed"] for context in base.contexts),
        instructions=first[ALL],
        kernel_instructions=first[OF_KERNEL],
        system_calls=_calls(entry) if entry else 0,
    )


def step_of(base: Recording, steps: Mapping[str, int]) -> ProgramStep | None:
    """What steps of kinds give the program; None where entry and exit are not decided.

    A system call of a kind without a step of its own has that of entry and exit.
    """
    entry = base.case(ENTRY)
    if entry is None or ENTRY not in steps:
        return None
    around = steps[ENTRY] * _calls(entry)
    whole = around
    for case in base.cases:
        if case.name in steps and case.name != ENTRY:
            known = steps[ENTRY] if AROUND in case.metrics else 0
            whole += (steps[case.name] - known) * _calls(case)
    kernel, everything = base.contexts[0][OF_KERNEL], base.contexts[0][ALL]
    return ProgramStep(
        *(
            ProgramChange(count, 100 * count / kernel, 100 * count / everything)
            for count in (around, whole)
        )
    )


def _calls(case: CaseResult) -> int:
    """How many calls the first boot has."""
    return case.contexts[0].data[CALLS][0][0]
