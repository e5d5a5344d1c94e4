# SPDX-License-Identifier: GPL-2.0-or-later
"""Boots of one program -> a Recording: its cases are kinds of entries, its contexts the boots.

What a call executes has the value of every call that ended.  What a boot has as a whole is one
value a boot, and depends on the run, too.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from kentry.errors import GuestError
from kentry.results import caveats
from kentry.results.recording import (
    INSTRUCTIONS,
    CaseContext,
    CaseResult,
    Metric,
    NoisyMetric,
    Pair,
    Recording,
    TimedProcess,
)
from kentry.results.workload import (
    ALL,
    AROUND,
    CALLS,
    ENTRY,
    KERNEL,
    OF_KERNEL,
    OF_THE_KERNEL,
    SHARE,
    SYSCALL,
    TOTAL,
    Row,
    Workload,
)
from kentry.stats.exact import histogram

# What a boot does not know of its kernel.
_NOT_KNOWN = {"banner": "", "config": None, "image_sha256": None, "symbols_from": ""}


def program_recording(boots: Sequence[Workload], kernel: Mapping[str, Any]) -> Recording:
    """The kinds of which a call ended in each boot; `kernel` is known beside what the boots say."""
    first = boots[0]
    kinds = [[boot.row(row.name) for boot in boots] for row in first.rows]
    cases = [
        _kind(rows, boots)
        for rows in ([row for row in own if row and row.values] for own in kinds)
        if len(rows) == len(boots) and rows[0].what in OF_THE_KERNEL
    ]
    if not cases:
        raise GuestError("No entry of the program ended in each boot.", "Run it longer.")
    of_kernel = [{TOTAL: boot.kernel_instructions} for boot in boots]
    target = {name: value for name, value in first.target.items() if name != "seed"}
    return Recording(
        kernel={**_NOT_KNOWN, **kernel, **first.kernel},
        program=first.workload,
        target=target,
        options={"boots": len(boots)},
        caveats=caveats.unique(caveat for boot in boots for caveat in boot.caveats),
        cases=[*_entry(boots), _case(KERNEL, [], of_kernel, boots), *cases],
        code=[],
        contexts=[
            {
                "seed": boot.target.get("seed", 0),
                ALL: boot.instructions,
                OF_KERNEL: boot.kernel_instructions,
            }
            for boot in boots
        ],
    )


def _kind(rows: Sequence[Row], boots: Sequence[Workload]) -> CaseResult:
    whole = [
        {CALLS: row.calls, TOTAL: row.instructions}
        | ({AROUND: row.entry + row.exit} if row.handled else {})
        for row in rows
    ]
    return _case(rows[0].name, [row.values for row in rows], whole, boots)


def _entry(boots: Sequence[Workload]) -> list[CaseResult]:
    """All system calls' entry and exit; nothing where no kind's is a whole number."""
    calls = [[row for row in boot.rows if row.what == SYSCALL and row.handled] for boot in boots]
    known = [[(row.around, row.calls) for row in own if row.around is not None] for own in calls]
    if not all(known):
        return []
    around = [sum(row.entry + row.exit for row in own) for own in calls]
    whole = [
        {CALLS: sum(row.calls for row in own), AROUND: total, TOTAL: total}
        for own, total in zip(calls, around, strict=True)
    ]
    return [_case(ENTRY, [tuple(histogram(own).items()) for own in known], whole, boots)]


def _case(
    name: str,
    values: Sequence[Sequence[Pair]],
    whole: Sequence[Mapping[str, int]],
    boots: Sequence[Workload],
) -> CaseResult:
    """`values` are those of calls, `whole` what is of all of them, both a boot."""
    metrics = {}
    if values:
        counted = Metric.of(histogram(pair for own in values for pair in own))
        none = Metric.of({0: counted.windows})
        # A call is of the kernel alone.
        metrics = {INSTRUCTIONS: counted, "user_instructions": none, "firmware_instructions": none}
    for metric in whole[0]:
        metrics[metric] = Metric.of(histogram((own[metric], 1) for own in whole))
    shares = [100 * own[TOTAL] / boot.instructions for own, boot in zip(whole, boots, strict=True)]
    share = NoisyMetric(
        value=sum(shares) / len(shares),
        unit="% of all",
        interval=(min(shares), max(shares)),
        estimator="mean of the boots, and their range",
        samples=tuple(
            TimedProcess(0, boot, 0, 0, 1, 0, (value,)) for boot, value in enumerate(shares)
        ),
    )
    contexts = tuple(
        CaseContext(
            context=boot,
            samples=tuple(own),
            data={metric: ((value, 1),) for metric, value in whole[boot].items()},
        )
        for boot, own in enumerate(values)
    )
    return CaseResult(name, metrics, (), (), (), contexts=contexts, noisy={SHARE: share})
