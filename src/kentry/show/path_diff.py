# SPDX-License-Identifier: GPL-2.0-or-later
"""The layout of two paths beside each other."""

from collections.abc import Iterator

from kentry.results.annotation import PathComparison, PathDiff
from kentry.results.caveats import unique
from kentry.show.blocks import Block, InText, Layout, Paths, Prose, Section
from kentry.show.frame import kernel_facts, kernel_lines, kernel_name, side_facts


def path_layout(comparison: PathComparison, context: int = 3) -> Layout:
    """Lays out two paths of each case, with `context` unchanged instructions around a change."""
    old, new = comparison.old, comparison.new
    blocks: list[Block] = [
        InText([*kernel_lines(old.kernel, "old: "), *kernel_lines(new.kernel, "new: ")])
    ]
    for case in comparison.cases:
        blocks += ["", Section(_change(case), [*path_summary(case), Paths(case, context)])]
    notes = [*comparison.caveats, *(note for case in comparison.cases for note in case.caveats)]
    return Layout(
        "path-diff",
        f"Paths of {kernel_name(old.kernel)} and {kernel_name(new.kernel)}",
        ", ".join(map(_change, comparison.cases)),
        blocks,
        unique(notes),
        side_facts(*(kernel_facts(side.kernel, side.target) for side in (old, new))),
    )


def _change(case: PathDiff) -> str:
    return f"{case.name}: {case.old} \u2192 {case.new} ({case.delta:+d})"


def path_summary(case: PathDiff) -> Iterator[Block]:
    """Yields the counts, which add up, and the functions that have other names."""
    counts = [f"{case.added} added", f"{case.removed} removed"]
    counts += [f"{case.moved} moved"] * bool(case.moved)
    change = f"{case.old} -> {case.new} kernel instructions ({case.delta:+d})"
    if not (case.added or case.removed or case.moved):
        other = sum(row.times for row in case.rows if row.constants_differ)
        constants = f", {other} with other constants" if other else ""
        yield Prose(f"{case.name}: {case.new} kernel instructions, all the same{constants}")
        return
    yield Prose(f"{case.name}: {change}: {', '.join(counts)}, {case.same} the same")
    for one in case.renamed:
        old, new = (
            " + ".join(f"{name} ({share})" for name, share in side) for side in (one.old, one.new)
        )
        yield Prose(f"{new} <- {old}", "  ", "    ")
