# SPDX-License-Identifier: GPL-2.0-or-later
"""Boots of one kernel -> one Recording: a cpu model has one vector length, a table has several."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from kentry.recording import CaseResult, KernelPath, Recording


def joined(recordings: Sequence[Recording]) -> Recording:
    """Boots of one kernel that differ in the cpu model's vector length, as one recording."""
    first, *others = recordings
    if not others:
        return first
    code = list(first.code)
    places = {insn: index for index, insn in enumerate(code)}
    cases = list(first.cases)
    for other in others:
        indexes = []
        for insn in other.code:
            if insn not in places:
                places[insn] = len(code)
                code.append(insn)
            indexes.append(places[insn])
        cases += [_reindexed(case, indexes) for case in other.cases]
    cpus = dict.fromkeys(one.target["cpu"] for one in recordings if "cpu" in one.target)
    cpu = {"cpu": " / ".join(cpus)} if cpus else {}
    known = [caveat for one in recordings for caveat in one.caveats]
    return replace(
        first,
        target={**first.target, **cpu},
        code=code,
        cases=cases,
        caveats=[caveat for i, caveat in enumerate(known) if caveat not in known[:i]],
        markers=next((one.markers for one in recordings if one.markers is not None), None),
    )


def _reindexed(case: CaseResult, indexes: Sequence[int]) -> CaseResult:
    paths = tuple(replace(path, runs=_runs(path, indexes)) for path in case.paths)
    return replace(case, paths=paths)


def _runs(path: KernelPath, indexes: Sequence[int]) -> tuple[tuple[int, int], ...]:
    runs: list[tuple[int, int]] = []
    for first, count in path.runs:
        for index in indexes[first : first + count]:
            if runs and sum(runs[-1]) == index:
                runs[-1] = (runs[-1][0], runs[-1][1] + 1)
            else:
                runs.append((index, 1))
    return tuple(runs)
