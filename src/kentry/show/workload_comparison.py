# SPDX-License-Identifier: GPL-2.0-or-later
"""The layout of one program on two kernels: what the kernel changed, then what the run did."""

from collections import Counter
from collections.abc import Iterable, Sequence

from kentry.results.workload_comparison import KindDelta, KindSide, WorkloadComparison
from kentry.show.blocks import SHOWN, Block, Cell, Column, Layout, Prose, Table, text_column
from kentry.show.numbers import change, signed
from kentry.show.provenance import how_measured, kernel_name, side_lines, versions
from kentry.show.sections import Deltas, Fold, InText, Section
from kentry.show.workload import program_name
from kentry.stats.exact import BETTER, SAME, UNDECIDED, WORSE

# Columns of a line: a kind, its numbers and its verdict stand on one.
_WIDTH = 120
# A longer command line is "the program" in a sentence.
_NAME = 30
# Rows of a table of kinds.
_KINDS = 25
# Kinds whose functions are shown.
_FOLDS = 4


def workload_comparison_layout(comparison: WorkloadComparison, shown: int | None = SHOWN) -> Layout:
    """Lays out the verdicts, what is a property of the run, and the functions."""
    old, new = comparison.old, comparison.new
    program = program_name(old.workload)
    judged = [kind for kind in comparison.kinds if kind.verdict]
    counts = Counter(kind.verdict for kind in judged)
    verdicts = (WORSE, BETTER, UNDECIDED, SAME)
    amounts = [f"{counts[verdict]} {verdict}" for verdict in verdicts if counts[verdict]]
    summary = f"{program}: {', '.join(amounts)}, of {len(judged)} kinds of kernel entry"
    changed = [kind for kind in judged if kind.delta]
    folds: list[Block] = []
    for kind in changed[:_FOLDS]:
        before, after = (_first(side).instructions[0] for side in (kind.old, kind.new))
        title = f"{kind.name} ({signed(kind.by_cost + kind.by_calls)})"
        folds += ["", Fold(title, [Deltas(kind.functions, before, after, shown)])]
    if comparison.functions:
        before, after = (side.kernel_instructions[0] for side in (old, new))
        whole = Deltas(comparison.functions, before, after, shown)
        folds += ["", Fold("the kernel, in the first boots", [whole])]
    return Layout(
        "workload-comparison",
        f"{program}: {kernel_name(old.kernel)} \u2192 {kernel_name(new.kernel)}",
        summary,
        [
            InText([Prose(summary)]),
            *map(Prose, _sentences(comparison, program, changed)),
            InText(side_lines(old, new)),
            Prose(_boots(comparison)),
            "",
            Section("What the kernel changed", _verdicts(judged, old.kernel_instructions[0])),
            Section("What is of the run", ["", _of_the_run(comparison.kinds)]),
            Section("Functions", folds),
        ],
        comparison.caveats,
        **how_measured(comparison.tool, old, new),
        versions=versions(old, new),
    )


def _sentences(
    comparison: WorkloadComparison, program: str, changed: Sequence[KindDelta]
) -> Iterable[str]:
    entry, old = comparison.entry, comparison.old
    name = program if len(program) <= _NAME else "the program"

    def shares(delta: int) -> str:
        kernel, whole = old.kernel_instructions[0], old.instructions[0]
        return (
            f"{change(delta, kernel, 2)} of the kernel's instructions and"
            f" {change(delta, whole, 2)} of all of {name}"
        )

    both = f"entry and exit of a system call: {entry.old} -> {entry.new} instructions"
    if entry.delta is None:
        yield f"entry and exit of a system call: {UNDECIDED}"
    elif not entry.delta:
        yield f"{both}, {SAME}"
    else:
        yield (
            f"{both}, {entry.verdict}: {signed(entry.delta)} in {entry.kinds} of {entry.of} kinds;"
            f" at {entry.calls} calls that is {shares(entry.delta * entry.calls)}"
        )
    if changed:
        total = sum((kind.delta or 0) * _first(kind.old).calls[0] for kind in changed)
        yield f"what is {BETTER} or {WORSE} adds up to {signed(total)}: {shares(total)}"


def _boots(comparison: WorkloadComparison) -> str:
    numbers = [
        f"{side.instructions[0]} instructions, {side.kernel_instructions[0]} of the kernel"
        for side in (comparison.old, comparison.new)
    ]
    seeds = [", ".join(map(str, side.seeds)) for side in (comparison.old, comparison.new)]
    return f"boots with seeds {seeds[0]} and {seeds[1]}; the first: {numbers[0]}, and {numbers[1]}"


def _first(side: KindSide | None) -> KindSide:
    return side or KindSide(calls=(0,), instructions=(0,), blocked=(0,), preempted=(0,))


def _verdicts(judged: Sequence[KindDelta], kernel: int) -> list[Block]:
    names = ("calls", "median", "new", "mean", "new", "entry+exit", "of kernel")
    table = Table(
        (text_column("a call"), *map(Column, names), text_column("verdict")), width=_WIDTH
    )
    same = [kind for kind in judged if kind.verdict == SAME and not kind.by_cost]
    rows = [kind for kind in judged if kind not in same]
    for kind in rows[:_KINDS]:
        old, new = _first(kind.old), _first(kind.new)
        around = None if None in (old.around, new.around) else (new.around or 0) - (old.around or 0)
        why = signed(kind.delta) if kind.delta else kind.why
        table.row(
            kind.name,
            old.calls[0],
            *(old.median, new.median, _mean(old), _mean(new)),
            "" if around is None else signed(around),
            change(kind.by_cost, kernel) if kind.by_cost else "",
            Cell(f"{kind.verdict}{f': {why}' if why else ''}", kind.verdict or ""),
        )
    blocks: list[Block] = [table] if rows else []
    if rest := rows[_KINDS:]:
        blocks.append(Prose(f"and {len(rest)} more: {', '.join(kind.name for kind in rest)}"))
    if same:
        blocks.append(Prose(f"{SAME} in each: {', '.join(kind.name for kind in same)}"))
    return blocks


def _mean(side: KindSide) -> str | None:
    return None if side.mean is None else f"{side.mean:.1f}"


def _of_the_run(kinds: Sequence[KindDelta]) -> Block:
    heads = ("calls", "new", "blocked", "new", "preempted", "new", "instructions", "new")
    table = Table((text_column("of the run"), *map(Column, heads)), width=_WIDTH)
    for kind in kinds:
        sides = [_first(kind.old), _first(kind.new)]
        numbers = [
            [side.calls[0], side.blocked[0], side.preempted[0], side.instructions[0]]
            for side in sides
        ]
        # A call that costs more has more instructions: only other calls are the run's.
        if numbers[0][:3] != numbers[1][:3] or (kind.verdict is None and numbers[0] != numbers[1]):
            table.row(
                kind.name, *(one or "" for pair in zip(*numbers, strict=True) for one in pair)
            )
    return table if table.rows else Prose("calls, sleeps and interrupts are the same")
