# SPDX-License-Identifier: GPL-2.0-or-later
"""What kentry ablate prints: a row an option, in plain text."""

from __future__ import annotations

from kentry.model.ablation import Ablation, Added, OptionRow
from kentry.report.plain import plain, wrapped
from kentry.report.text import bloat_lines, caveat_lines, kernel_lines, target_lines

_WIDTH = 79
_CASES_SHOWN = 4


def ablation_text(ablation: Ablation, *, functions: bool) -> str:
    """The table, then with `functions` where each option's instructions are, then caveats."""
    base = ablation.base
    origin = base.kernel["origin"]
    sets = f", {origin['config_set']}" if origin.get("config_set") else ""
    lines = [
        *kernel_lines(base),
        f"config {origin.get('config', '?')}{sets}",
        *target_lines(base),
        "",
        *_table(ablation),
        *_others(ablation),
        *_problems(ablation),
    ]
    marks = []
    if any(row.on_in_base for row in ablation.rows):
        marks.append("* on in the base: it is what turning it off takes away.")
    if any(row.needs for row in ablation.rows if row.cases):
        marks.append('Options after "with" are on in both kernels of that row.')
    lines += ["", *marks] if marks else []
    if ablation.passed_over:
        text = f"Not options of this source: {', '.join(ablation.passed_over)}."
        lines += ["", *wrapped(text, _WIDTH)]
    if functions:
        lines += _functions(ablation)
    return "\n".join([*lines, *caveat_lines(base.caveats)]) + "\n"


def _table(ablation: Ablation) -> list[str]:
    shown = list(_groups(ablation))[:_CASES_SHOWN]
    rows = [row for row in ablation.rows if row.cases]
    width = max([len(_label(row)) for row in rows], default=6)
    cells = {name: max(len(name), 16) for name in shown}
    title = "".join(f"  {name:>{cells[name]}}" for name in shown)
    header = "".join(f"  {'off -> on  adds':>{cells[name]}}" for name in shown)
    lines = [f"{'':<{width}}{title}", f"{'option':<{width}}{header}"]
    for row in rows:
        values = "".join(f"  {_cell(row.cases.get(name)):>{cells[name]}}" for name in shown)
        lines.append(f"{_label(row):<{width}}{values}")
        if row.needs:
            lines += wrapped(f"with {' '.join(row.needs)}", _WIDTH, "    ", "      ")
    return lines


def _groups(ablation: Ablation) -> dict[str, list[str]]:
    """Cases to which every option adds the same, by the first of them."""
    groups: dict[tuple[int | None, ...], list[str]] = {}
    for name in ablation.cases:
        adds = [row.cases[name].delta if name in row.cases else None for row in ablation.rows]
        groups.setdefault(tuple(adds), []).append(name)
    return {names[0]: names[1:] for names in groups.values()}


def _others(ablation: Ablation) -> list[str]:
    """Which cases have no column, and why."""
    groups = _groups(ablation)
    shown = list(groups)[:_CASES_SHOWN]
    lines = []
    for name in shown:
        if groups[name]:
            text = f"The same is added to {', '.join(groups[name])} as to {name}."
            lines += wrapped(text, _WIDTH)
    left = [name for first in list(groups)[_CASES_SHOWN:] for name in (first, *groups[first])]
    if left:
        lines += wrapped(f"Not shown (--case shows them): {', '.join(left)}.", _WIDTH)
    return ["", *lines] if lines else []


def _label(row: OptionRow) -> str:
    return f"{row.option}{' *' if row.on_in_base else ''}"


def _cell(added: Added | None) -> str:
    if added is None:
        return "-"
    change = f"{added.delta:+d}" if added.delta else "same" if added.identical_path else "0"
    return f"{added.off} -> {added.on} {change:>5}"


def _problems(ablation: Ablation) -> list[str]:
    lines: list[str] = []
    for row in ablation.rows:
        if row.problem:
            lines += wrapped(f"{row.option}: {plain(row.problem)}", _WIDTH, "    ", "      ")
    return ["", *lines] if lines else []


def _functions(ablation: Ablation) -> list[str]:
    name = ablation.cases[0]
    lines: list[str] = []
    for row in ablation.rows:
        added = row.cases.get(name)
        if added and added.functions:
            lines += ["", f"{row.option}, {name} ({added.delta:+d})", *bloat_lines(added.functions)]
    return lines
