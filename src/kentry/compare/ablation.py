# SPDX-License-Identifier: GPL-2.0-or-later
"""What each config option adds to the path: a row an option, the dearest first."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from kentry.compare.counted import compare
from kentry.model.comparison import CaseComparison, FunctionDelta, side_to_json
from kentry.model.document import plain
from kentry.model.recording import Recording

SCHEMA = "kentry/ablation/1"


@dataclass(frozen=True)
class Trial:
    """One option measured off and on, or why it could not be; `on_in_base`: the base has it."""

    option: str
    on_in_base: bool
    needs: tuple[str, ...] = ()
    off: Recording | None = None
    on: Recording | None = None
    problem: str = ""


@dataclass(frozen=True)
class Added:
    """One case without and with an option; `functions` sum to the difference."""

    off: int
    on: int
    identical_path: bool
    functions: tuple[FunctionDelta, ...]

    @property
    def delta(self) -> int:
        """What the option adds."""
        return self.on - self.off


@dataclass(frozen=True)
class Row:
    """One option: what it adds to each case, or why that is not known."""

    option: str
    on_in_base: bool
    needs: tuple[str, ...]
    cases: Mapping[str, Added]
    problem: str = ""


@dataclass(frozen=True)
class Ablation:
    """Rows sorted by what they add to the first case, those without numbers last."""

    base: Recording
    cases: tuple[str, ...]
    rows: tuple[Row, ...]
    passed_over: tuple[str, ...] = field(default=())


def tabulate(base: Recording, trials: Sequence[Trial], passed_over: Sequence[str] = ()) -> Ablation:
    """The table of all trials on a base."""
    names = tuple(case.name for case in base.cases)
    rows = [
        Row(trial.option, trial.on_in_base, trial.needs, _added(trial), trial.problem)
        for trial in trials
    ]
    first = names[0] if "getppid" not in names else "getppid"
    names = (first, *(name for name in names if name != first))

    def place(row: Row) -> tuple[bool, int, str]:
        added = row.cases.get(first)
        return (added is None, -added.delta if added else 0, row.option)

    return Ablation(base, names, tuple(sorted(rows, key=place)), tuple(passed_over))


def _added(trial: Trial) -> dict[str, Added]:
    if trial.off is None or trial.on is None:
        return {}
    return {case.name: _of(case) for case in compare(trial.off, trial.on).cases}


def _of(case: CaseComparison) -> Added:
    changed = tuple(row for row in case.functions if row.delta)
    return Added(case.old, case.new, case.identical_path, changed)


def to_json(ablation: Ablation) -> dict[str, Any]:
    """The table as kentry/ablation/1."""
    return {
        "schema": SCHEMA,
        "tool": ablation.base.tool,
        "base": side_to_json(ablation.base),
        "rows": [
            {
                "option": row.option,
                "on_in_base": row.on_in_base,
                "needs": list(row.needs),
                "problem": row.problem,
                "cases": {
                    name: {
                        "off": one.off,
                        "on": one.on,
                        "delta": one.delta,
                        "identical_path": one.identical_path,
                        "functions": plain(one.functions),
                    }
                    for name, one in row.cases.items()
                },
            }
            for row in ablation.rows
        ],
        "passed_over": list(ablation.passed_over),
        "caveats": ablation.base.caveats,
    }
