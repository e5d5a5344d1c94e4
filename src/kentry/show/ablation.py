# SPDX-License-Identifier: GPL-2.0-or-later
"""The layout of an ablation: a row for each config option."""

from collections.abc import Sequence

from kentry.results.studies import Ablation, OptionRow
from kentry.show.blocks import SHOWN, Block, Cell, Column, Layout, Prose, Table, text_column
from kentry.show.numbers import signed
from kentry.show.provenance import emulator_lines, kernel_facts, kernel_lines, kernel_name
from kentry.show.sections import Deltas, Fold, InText, OnPage, Section

_CASES_SHOWN = 4


def ablation_layout(
    ablation: Ablation, functions: bool = False, most: int | None = SHOWN
) -> Layout:
    """Lays out the table, options without numbers; with `functions` at most `most` for each."""
    base = ablation.base
    origin = base.kernel["origin"]
    sets = f", {origin['config_set']}" if origin.get("config_set") else ""
    config = f"config {origin.get('config', '?')}{sets}"
    # A file says which cases were measured by what it has of them.
    of_rows = dict.fromkeys(name for row in ablation.rows for name in row.cases)
    names = list(ablation.cases) or list(of_rows)
    # Cases to which every option adds the same, by their additions; then by the first of them.
    same: dict[tuple[int | None, ...], list[str]] = {}
    for name in names:
        adds = [row.cases[name].delta if name in row.cases else None for row in ablation.rows]
        same.setdefault(tuple(adds), []).append(name)
    groups = {first: others for first, *others in same.values()}
    shown = list(groups)[:_CASES_SHOWN]
    table, folds = _rows(ablation.rows, shown)
    blocks: list[Block] = [table]
    others = [
        f"{', '.join(groups[name])}: each option adds the same as to {name}."
        for name in shown
        if groups[name]
    ]
    left = [name for first in list(groups)[_CASES_SHOWN:] for name in (first, *groups[first])]
    if left:
        others.append(f"Not shown (--case shows them): {', '.join(left)}.")
    problems = [f"{row.option}: {row.problem}" for row in ablation.rows if row.problem]
    marks = []
    if any(row.on_in_base for row in ablation.rows):
        marks.append("* The base has this option on; the row says what turning it off removes.")
    if any(row.needs for row in ablation.rows if row.cases):
        marks.append('Options after "with" are on in both kernels of that row.')
    if ablation.passed_over:
        marks.append(f"Not options of this source: {', '.join(ablation.passed_over)}.")
    for sentences in (others, problems, marks):
        blocks += [""] if sentences else []
        blocks += [Prose(sentence) for sentence in sentences]
    for row in ablation.rows if functions else ():
        added = row.cases.get(names[0])
        if added and added.functions:
            title = f"{row.option}, {names[0]} ({added.delta:+d})"
            blocks.append(InText(["", title, Deltas(added.functions, shown=most)]))
    known = sum(bool(row.cases) for row in ablation.rows)
    return Layout(
        "ablation",
        f"What config options add: {kernel_name(base.kernel)}",
        f"{known} of {len(ablation.rows)} options measured on {len(names)} cases",
        [
            InText([*kernel_lines(base.kernel), config, *emulator_lines(base), ""]),
            Section("Options", blocks),
            OnPage([Section("Where", folds)]),
        ],
        ablation.caveats,
        kernel_facts(base),
    )


def _rows(rows: Sequence[OptionRow], shown: list[str]) -> tuple[Table, list[Block]]:
    groups = [Column(name, group=case) for case in shown for name in ("off", "on", "adds")]
    table, folds = Table([text_column("option"), *groups]), list[Block]()
    for place, row in enumerate(rows):
        if not row.cases:
            continue
        cells: list[object] = []
        for added in map(row.cases.get, shown):
            if added is None:
                cells += [None, None, None]
            else:
                same = "same" if added.identical_path and not added.delta else signed(added.delta)
                cells += [added.off, added.on, same]
        option = f"{row.option}{' *' if row.on_in_base else ''}"
        table.row(Cell(option, link=f"option-{place}"), *cells)
        if row.needs:
            table.note(f"with {' '.join(row.needs)}")
        sections = [
            Section(f"{name} ({one.delta:+d})", [Deltas(one.functions, one.off, one.on)])
            for name, one in row.cases.items()
            if one.functions
        ]
        none = "No function's number of instructions changes."
        folds.append(Fold(row.option, sections or [none], f"option-{place}"))
    return table, folds
