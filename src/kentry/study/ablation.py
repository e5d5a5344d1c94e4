# SPDX-License-Identifier: GPL-2.0-or-later
"""Recordings with and without each config option -> an Ablation."""

from collections.abc import Sequence
from dataclasses import dataclass

from kentry.compare.counted import compare
from kentry.results.ablation import Ablation, Added, OptionRow
from kentry.results.recording import Measured, Recording


@dataclass(frozen=True)
class Trial:
    """One option measured off and on, or why it could not be; `on_in_base`: the base has it."""

    option: str
    on_in_base: bool
    needs: tuple[str, ...] = ()
    off: Recording | None = None
    on: Recording | None = None
    problem: str = ""


def tabulate(base: Recording, trials: Sequence[Trial], passed_over: Sequence[str] = ()) -> Ablation:
    """The table of all trials on a base: getppid decides the order, or else the first case."""
    names = tuple(case.name for case in base.cases)
    first = names[0] if "getppid" not in names else "getppid"
    rows = []
    for trial in trials:
        added: dict[str, Added] = {}
        if trial.off and trial.on:
            for case in compare(trial.off, trial.on).cases:
                changed = tuple(row for row in case.functions if row.delta)
                added[case.name] = Added(
                    case.old, case.new, identical_path=case.identical_path, functions=changed
                )
        rows.append(OptionRow(trial.option, trial.on_in_base, trial.needs, trial.problem, added))

    def place(row: OptionRow) -> tuple[bool, int, str]:
        known = row.cases.get(first)
        return (known is None, -known.delta if known else 0, row.option)

    return Ablation(
        tool=base.tool,
        base=Measured.of(base),
        rows=tuple(sorted(rows, key=place)),
        passed_over=tuple(passed_over),
        caveats=tuple(base.caveats),
        cases=(first, *(name for name in names if name != first)),
    )
