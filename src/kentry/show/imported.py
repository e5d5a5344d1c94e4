# SPDX-License-Identifier: GPL-2.0-or-later
"""Imported numbers in a table, each change with its base, and as kentry/import/1."""

import re
from collections.abc import Sequence
from typing import Any, NamedTuple

from msgspec import to_builtins

from kentry.importing import import_file
from kentry.results import caveats
from kentry.results.studies import ImportBase, ImportDocument, ImportedFile, ImportedNumber
from kentry.show.blocks import Block, Column, Layout, Prose, Table, text_column
from kentry.show.table import plain

_BEFORE = re.compile(
    r"\b(before|without|w/o|base(line)?|vanilla|unpatched|unmodified|old|orig(inal)?|off)\b", re.I
)


class _Row(NamedTuple):
    """A number, its samples, their change in per cent of `base`, the step from the side above."""

    number: import_file.Number
    samples: import_file.Samples
    base: import_file.Samples | None
    change: str
    step: str


def _rows(file: import_file.Imported) -> list[_Row]:
    """Every number; the base is the side whose name says "before", or else the first side."""
    by_metric: dict[tuple[str, str], list[import_file.Samples]] = {}
    for group in import_file.samples(file.numbers):
        by_metric.setdefault((group.first.case, group.first.metric), []).append(group)
    rows: list[_Row] = []
    for groups in by_metric.values():
        first = next((group for group in groups if _BEFORE.search(group.first.side)), groups[0])
        for index, group in enumerate(groups):
            # A side without a name may be anything.
            named = first.first.side and group.first.side and not group.first.percent_of
            base = first if named and group is not first else None
            change = group.change_from(base) if base else ""
            has_step = base and index and len(groups) > 2
            step = group.change_from(groups[index - 1]) if has_step else ""
            rows += [_Row(number, group, base, change, step) for number in group.numbers]
    order = {id(number): index for index, number in enumerate(file.numbers)}
    return sorted(rows, key=lambda row: order[id(row.number)])


def imported_layout(files: Sequence[import_file.Imported], written: Sequence[str] = ()) -> Layout:
    """Lays out a table a file, what the numbers cannot support, and the files that were written."""
    blocks: list[Block] = []
    for file in files:
        head = [f"{file.name}: {', '.join(file.formats)}", *([file.arch] if file.arch else [])]
        blocks += [Prose("; ".join(head)), _table(_rows(file))]
        for percent_of in dict.fromkeys(n.percent_of for n in file.numbers if n.percent_of):
            blocks += [Prose(f"percentages of: {percent_of}", then="    ")]
        blocks.append("")
    for caveat in _caveats(files):
        blocks += [Prose(caveat["text"], "note: ", "      ")]
    # A file's name is not broken, so that it can be pasted.
    blocks += [f"wrote {plain(file)}" for file in written]
    return Layout("import", "", "", blocks)


def _table(rows: Sequence[_Row]) -> Table:
    columns = [Column("line"), text_column("side", most=24), text_column("case", most=36)]
    columns += [Column("published"), Column("change"), text_column("of")]
    columns += [Column("step")] if any(row.step for row in rows) else []
    table = Table(columns)
    side: str | None = None
    for row in rows:
        number = row.number
        # The unit names the usual metrics.
        metric = "" if number.metric in import_file.UNITS.values() else number.metric
        cells = [number.line, "" if number.side == side else number.side]
        cells += [f"{number.case} {metric}", f"{number.published} {number.unit}"]
        if row.base and number is row.samples.first:
            cells += [row.change, row.base.lines, row.step]
        table.row(*cells[: len(table.columns)])
        side = number.side
    return table


def _caveats(files: Sequence[import_file.Imported]) -> list[caveats.Caveat]:
    metrics = {number.metric for file in files for number in file.numbers}
    notes = [caveats.imported_numbers()]
    if import_file.TICKS in metrics:
        notes.append(caveats.imported_ticks())
    if any(metric.endswith(import_file.OF_BASE) for metric in metrics):
        notes.append(caveats.imported_percentages())
    return notes


def imported_to_json(files: Sequence[import_file.Imported]) -> dict[str, Any]:
    """Returns the files as a kentry/import/1 document."""
    documents = []
    for file in files:
        numbers = []
        for row in _rows(file):
            number, base = row.number, None
            if row.base:
                blocks = [sample.line for sample in row.base.numbers]
                side, middle = row.base.first.side, float(row.base.middle)
                base = ImportBase(side, blocks, middle, row.change, row.step or None)
            same = ("line", "side", "case", "metric", "published", "unit", "about")
            numbers.append(
                ImportedNumber(
                    **{name: getattr(number, name) for name in same},
                    value=float(number.amount),
                    spread="",
                    percent_of=number.percent_of or None,
                    base=base,
                    absent=["interval", *number.lacks],
                )
            )
        documents.append(ImportedFile(file.name, list(file.formats), file.arch or None, numbers))
    document: dict[str, Any] = to_builtins(ImportDocument(documents, _caveats(files)))
    return document
