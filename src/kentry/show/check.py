# SPDX-License-Identifier: GPL-2.0-or-later
"""The layout of a check: how many budgets hold, then a row a budget, then caveats."""

from kentry.results.recording import INSTRUCTIONS
from kentry.results.studies import OVER, UNDECIDED, WITHIN, Check, CheckRow
from kentry.show.blocks import Block, Cell, Column, Layout, Prose, Table, text_column
from kentry.show.counts import counts_text
from kentry.show.models import without_model_notes
from kentry.show.numbers import number, significant
from kentry.show.provenance import kernel_facts, kernel_lines, kernel_name
from kentry.show.sections import InText, Section

# A row and its reason stand on one line where they can.
_ROW = 100


def check_layout(check: Check) -> Layout:
    """Lays out the budgets; of --update what it changed instead of verdicts."""
    measured, baseline = check.measured, check.baseline
    lines = kernel_lines(measured.kernel)
    facts = [*kernel_facts(measured), ("budgets", check.budgets)]
    if baseline:
        lines += kernel_lines(baseline.kernel, "baseline: ")[:1]
        facts.append(("baseline", kernel_name(baseline.kernel)))
    budgets: list[Block] = [InText([Prose(summary(check)), ""]), _table(check)]
    return Layout(
        "check",
        f"Budgets: {kernel_name(measured.kernel)}",
        summary(check),
        [
            InText([*lines, f"budgets: {check.budgets}", ""]),
            Section("Budgets", budgets if check.written is None else _changes(check)),
        ],
        without_model_notes(check.caveats, cycles=False),
        facts,
    )


def summary(check: Check) -> str:
    """How many budgets there are, and how many of them do not hold: a sentence."""
    total = len(check.rows)
    counts = {word: len(check.of_verdict(word)) for word in (OVER, UNDECIDED, WITHIN)}
    if counts[WITHIN] == total:
        return "The budget holds." if total == 1 else f"All {total} budgets hold."
    parts = ", ".join(f"{count} {word}" for word, count in counts.items() if count)
    return f"Of {total} budget{'s' if total > 1 else ''}: {parts}."


def row_sentence(row: CheckRow) -> str:
    """A row in words: "312 instructions, at most 310: over by 2"."""
    words = []
    if row.value is not None:
        words.append(f"{_measured(row)} {row.unit}")
    if row.limit is not None:
        of = f" ({row.budget} of {number(row.baseline)})" if row.baseline is not None else ""
        words.append(f"at most {number(row.limit)}{of}")
    return f"{', '.join(words)}{': ' if words else ''}{_verdict(row)}"


def _table(check: Check) -> Table:
    relative = any(row.baseline is not None for row in check.rows)
    metrics = {row.metric for row in check.rows} != {INSTRUCTIONS}
    columns = [text_column("case", most=40)]
    columns += [text_column("metric")] if metrics else []
    columns += [Column("budget"), Column("baseline")] if relative else []
    columns += [Column("at most"), Column("measured"), text_column("verdict", wraps=True)]
    table = Table(columns, width=_ROW)
    for row in check.rows:
        table.row(
            row.name,
            *([row.metric] if metrics else []),
            *([row.budget, number(row.baseline)] if relative else []),
            number(row.limit),
            _measured(row),
            Cell(_verdict(row), row.verdict),
        )
        if row.counts and row.verdict != WITHIN:
            table.note(f"{row.name}: {counts_text(row.counts)}")
    return table


def _measured(row: CheckRow) -> str:
    """The number, or the first and last of what it may be."""
    if row.low is None or row.high is None or row.low == row.high:
        return number(row.value if row.low is None or row.high is None else row.low)
    return f"{number(row.low)}..{number(row.high)}"


def _verdict(row: CheckRow) -> str:
    if row.verdict == UNDECIDED:
        return f"{UNDECIDED}: {row.reason}"
    if row.verdict == OVER and row.low is not None and row.limit is not None:
        over = row.low - row.limit
        return f"over by {significant(over, 3) if isinstance(over, float) else over}"
    return row.verdict


def _changes(check: Check) -> list[Block]:
    """What --update wrote, and what it could not renew."""
    columns = [text_column("case", most=40), text_column("metric"), *map(Column, ("old", "new"))]
    table = Table([*columns, text_column("in")], width=_ROW)
    blocks: list[Block] = [Prose(f"written: {file}") for file in check.written or ()]
    for one in check.changes:
        table.row(one.name, one.metric, number(one.old), number(one.new), one.file)
    blocks += ["", table] if check.changes else ["no number changed"]
    blocks += [
        Prose(f"not renewed: {row.name} {row.metric}: {row.reason}") for row in check.not_renewed
    ]
    return blocks
