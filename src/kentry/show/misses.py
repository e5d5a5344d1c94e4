# SPDX-License-Identifier: GPL-2.0-or-later
"""Misses in caches and TLBs by a model: a table a core."""

from collections.abc import Iterable, Iterator, Sequence

from kentry.results.annotation import AnnotatedCase
from kentry.results.case_name import size_name
from kentry.results.estimate import Level, Misses
from kentry.results.recording import CaseResult
from kentry.show.blocks import Block, Column, Prose, Table, text_column

# With more cases than these, walks are not printed.
_FEW_CASES = 2


def miss_blocks(cases: Sequence[CaseResult | AnnotatedCase]) -> list[Block]:
    """What the cases that were modelled miss, with a blank line above; or []."""
    found: dict[str, list[tuple[str, Misses]]] = {}
    for case in cases:
        for one in case.misses:
            found.setdefault(one.core, []).append((case.name, one))
    blocks: list[Block] = []
    for core, rows in found.items():
        levels = [Column(level_size(level), group=level.name) for level in rows[0][1].levels]
        table = Table([text_column("case"), text_column("caches"), *levels], keys=2)
        for label, one in rows:
            name = label
            for state, counts in miss_rows(one, with_walks=len(rows) <= _FEW_CASES):
                table.row(name, state, *counts)
                name = ""
        blocks += ["", f"Misses on {core} by a model (not measured):", "", table, ""]
        blocks += [Prose(f"Sizes and ways: {rows[0][1].source}")]
    return blocks


def miss_rows(one: Misses, *, with_walks: bool) -> Iterator[tuple[str, Iterable[int]]]:
    """The states and their misses; a walk that changes nothing is left out."""
    yield "warm", one.warm
    before = one.warm
    for size, counts in one.walked if with_walks else ():
        if counts != before:
            yield f"after {size_name(size)}", counts
            before = counts
    yield "cold", one.cold


def level_size(level: Level) -> str:
    """How much memory it holds; of a TLB, how many pages."""
    is_tlb = level.name.endswith("TLB")
    return str(level.bytes // level.line) if is_tlb else size_name(level.bytes)
