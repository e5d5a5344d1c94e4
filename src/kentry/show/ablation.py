# SPDX-License-Identifier: GPL-2.0-or-later
"""What `kentry ablate` prints: a row for each config option."""

from kentry.results.ablation import Ablation
from kentry.show.frame import caveat_lines, emulator_lines, kernel_lines
from kentry.show.functions import SHOWN, function_lines
from kentry.show.numbers import signed
from kentry.show.table import Column, Table, ascii_lines, text_column, wrapped

_CASES_SHOWN = 4


def ablation_text(ablation: Ablation, functions: bool, most: int | None = SHOWN) -> str:
    """The table, the options without numbers, caveats; with `functions` at most `most` for each."""
    base = ablation.base
    origin = base.kernel["origin"]
    sets = f", {origin['config_set']}" if origin.get("config_set") else ""
    lines = [
        *kernel_lines(base),
        f"config {origin.get('config', '?')}{sets}",
        *emulator_lines(base),
        "",
    ]
    # Cases to which every option adds the same, by their additions; then by the first of them.
    same: dict[tuple[int | None, ...], list[str]] = {}
    for name in ablation.cases:
        adds = [row.cases[name].delta if name in row.cases else None for row in ablation.rows]
        same.setdefault(tuple(adds), []).append(name)
    groups = {first: others for first, *others in same.values()}
    shown = list(groups)[:_CASES_SHOWN]
    lines += _table(ablation, shown).lines()
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
        lines += [""] if sentences else []
        lines += [line for sentence in sentences for line in wrapped(sentence)]
    for row in ablation.rows if functions else ():
        added = row.cases.get(ablation.cases[0])
        if added and added.functions:
            title = f"{row.option}, {ablation.cases[0]} ({added.delta:+d})"
            lines += ["", title, *function_lines(added.functions, most)]
    return ascii_lines([*lines, *caveat_lines(ablation.caveats)])


def _table(ablation: Ablation, shown: list[str]) -> Table:
    columns = [text_column("option")]
    columns += [Column(name, group=case) for case in shown for name in ("off", "on", "adds")]
    table = Table(columns)
    for row in ablation.rows:
        cells: list[object] = []
        for name in shown:
            added = row.cases.get(name)
            if added is None:
                cells += [None, None, None]
            else:
                same = "same" if added.identical_path and not added.delta else signed(added.delta)
                cells += [added.off, added.on, same]
        if row.cases:
            table.row(f"{row.option}{' *' if row.on_in_base else ''}", *cells)
            if row.needs:
                table.note(f"with {' '.join(row.needs)}")
    return table
