# SPDX-License-Identifier: GPL-2.0-or-later
"""Counts that depend on the context, in words: how often each, by which functions, and why."""

from collections.abc import Iterable, Sequence

from kentry.path.symbols import why_in_context
from kentry.path.variation import functions_by_context, settles, varying
from kentry.results.comparison import CaseComparison
from kentry.results.recording import CaseResult, Recording
from kentry.show.blocks import Block, Prose

# More counts of one case are a range.
_NAMED = 6


def counts_text(counts: Sequence[tuple[int, int]]) -> str:
    """Counts, the commonest first: '3869 in 11 of 16 contexts, 3877 in 5'."""
    total = sum(times for _, times in counts)
    if len(counts) > _NAMED:
        values = [count for count, _ in counts]
        return f"{min(values)} to {max(values)}: {len(counts)} counts in {total} contexts"
    ordered = sorted(counts, key=lambda pair: (-pair[1], pair[0]))
    first, *others = (f"{count} in {times}" for count, times in ordered)
    return ", ".join([f"{first} of {total} contexts", *others])


def recording_context_blocks(recording: Recording, cases: Iterable[CaseResult]) -> list[Block]:
    """For each case with several counts: the counts, and a line for each function that varies."""
    blocks: list[Block] = []
    for case in cases:
        if len(case.values) < 2:
            continue
        counts = counts_text(list(case.values.items()))
        if not settles(case):
            counts = f"{min(case.values)} to {max(case.values)}, and it never settles"
        blocks += [Prose(f"{case.name}: {counts}", "  ")]
        for function, shares in varying(functions_by_context(case, recording)).items():
            least = min(shares)
            more = ", ".join(f"{count - least:+d} in {n}" for count, n in shares.items())
            reason = why_in_context(function)
            blocks += [
                Prose(f"{function} {more}{f': {reason}' if reason else ''}", "    ", "      ")
            ]
    return ["", "Depends on the context, which is not the kernel:", *blocks] if blocks else []


def comparison_context_blocks(cases: Iterable[CaseComparison]) -> list[Block]:
    """For each case with several counts: those of the old kernel and those of the new one."""
    blocks: list[Block] = []
    for case in cases:
        if case.contexts:
            old, new = counts_text(case.contexts.old), counts_text(case.contexts.new)
            blocks += [Prose(f"{case.name}: old {old}; new {new}", "  ", "    ")]
            blocks += [Prose(unseen_text(case), "    ", "    ")] if unseen_text(case) else []
    return ["", "Depends on the context, which is not the kernel:", *blocks] if blocks else []


def unseen_text(case: CaseComparison) -> str:
    """Why the new count is one that no context of the new kernel has; "" where one has it."""
    if not case.contexts or case.new in dict(case.contexts.new):
        return ""
    return (
        f"new {case.new} is old {case.old} with the change that all contexts have,"
        f" {case.delta:+d}; no context of the new kernel has that count itself"
    )
