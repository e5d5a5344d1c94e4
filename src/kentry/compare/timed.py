# SPDX-License-Identifier: GPL-2.0-or-later
"""Metrics with noise on two kernels: a change with its interval, and whether it can be believed.

Two recordings of one session were measured interleaved, so they are compared group by group and
what the machine did meanwhile is in both sides.  Recordings of two runs are shown, not decided.

Importing this module loads numpy and scipy.
"""

import math
from collections.abc import Mapping, Sequence

from msgspec.structs import replace

from kentry.compare.differences import shared_metrics
from kentry.results import caveats
from kentry.results.comparison import CaseComparison, TimedComparison
from kentry.results.recording import CaseResult, NoisyMetric, Recording, TimedProcess
from kentry.results.samples import estimate_rows, values_by_boot
from kentry.stats import CONFIDENCE, THRESHOLD
from kentry.stats.exact import BETTER, SAME, UNDECIDED, WORSE
from kentry.stats.sequential import LOOKS, plan_looks
from kentry.stats.verdict import Effect, compare_unpaired

# In units that end so, more is better; in all others, less.
_RATE = "/s"


def compare_timed(
    pairs: Sequence[tuple[CaseResult, CaseResult]],
    counted: Mapping[str, CaseComparison],
    old: Recording,
    new: Recording,
    threshold: float | None,
) -> list[TimedComparison]:
    """Compares the noisy metrics that both sides have in one unit; `counted` has rows by case."""
    threshold = THRESHOLD if threshold is None else threshold
    # The rows of one metric are one table: what is not sure enough for its length is undecided.
    tables: dict[tuple[str, str], list[tuple[CaseResult, CaseResult]]] = {}
    for a, b in pairs:
        for metric in shared_metrics(a, b):
            tables.setdefault((metric, a.noisy[metric].unit), []).append((a, b))
    session = old.timed_target.get("session")
    interleaved = bool(session) and session == new.timed_target.get("session")
    # The look at which the measurement ended, if it had planned some.
    looks, ended = old.options.get("looks", 0), old.options.get("look", 0)
    look = None
    if interleaved and looks >= 2 and 1 <= ended <= looks and new.options.get("look") == ended:
        look = plan_looks(1 - CONFIDENCE, LOOKS if looks == len(LOOKS) else looks)[int(ended) - 1]
    rows = {}
    for (metric, unit), cases in tables.items():
        both = [(a.noisy[metric], b.noisy[metric]) for a, b in cases]
        estimates = estimate_rows(
            [(_samples(a), _samples(b)) if interleaved else ((), ()) for a, b in both],
            threshold=threshold,
            look=look,
            higher_is_better=unit.endswith(_RATE),
        )
        for (a, b), own, estimate in zip(cases, both, estimates, strict=True):
            row = _row(a.name, metric, *own, estimate, threshold)
            case = counted.get(a.name)
            known = case and a.modal_path and b.modal_path
            row = replace(row, identical_path=case.identical_path if case and known else None)
            rows[a.name, metric] = _beside_counts(row, case)
    return [rows[a.name, metric] for a, b in pairs for metric in shared_metrics(a, b)]


def _samples(metric: NoisyMetric) -> Sequence[TimedProcess]:
    """Returns the processes of a metric that was measured; none of one that was imported."""
    return () if "interval" in metric.absent else metric.samples


def _row(
    name: str,
    metric: str,
    old: NoisyMetric,
    new: NoisyMetric,
    estimate: Effect | None,
    threshold: float,
) -> TimedComparison:
    """Returns the row of the estimate of interleaved groups; without any it has no verdict."""
    boots = {process.boot for process in old.samples}
    halves = [
        (side.interval[1] - side.interval[0]) / 2 if side.interval else None for side in (old, new)
    ]
    groups = {(process.boot, process.group) for process in old.samples}
    plain = TimedComparison(
        name=name,
        metric=metric,
        unit=old.unit,
        old=old.value,
        new=new.value,
        percent=100 * (new.value - old.value) / old.value if old.value else None,
        verdict=UNDECIDED,
        halves=(halves[0], halves[1]),
        estimators=tuple(side.estimator for side in (old, new) if side.estimator),
        boots=len(boots),
        groups=len(groups) if boots & {process.boot for process in new.samples} else 0,
    )
    if estimate:
        row = _with_estimate(plain, estimate)
        # Identical samples are the same without a test.
        return replace(row, verdict=SAME, reason="") if old.samples == new.samples else row
    absent = [
        caveats.unsupported(side, metric, ", ".join(own.absent))
        for side, own in (("old", old), ("new", new))
        if own.absent
    ]
    if absent and not (_samples(old) and _samples(new)):
        return replace(plain, reason="imported", caveats=tuple(absent))
    try:
        before, after = (list(values_by_boot(side.samples).values()) for side in (old, new))
        apart = compare_unpaired(before, after, threshold=threshold)
    except ValueError:
        # Values of 0 or less have no logarithm.
        return replace(
            plain, reason="values not above 0", caveats=(caveats.no_statistics(name, metric),)
        )
    row = _with_estimate(plain, apart)
    return replace(row, paired=False, caveats=(caveats.measured_apart(),))


def _with_estimate(plain: TimedComparison, estimate: Effect) -> TimedComparison:
    """Returns the row with the estimate; old and new in the estimated ratio, about their middle."""
    middle = math.sqrt(plain.old * plain.new)
    if not math.isfinite(estimate.effect) or estimate.effect <= -1 or not middle:
        return replace(plain, paired=True, reason=estimate.reason)
    root = math.sqrt(1 + estimate.effect)
    return replace(plain.with_estimate(estimate), old=middle / root, new=middle * root)


def _beside_counts(row: TimedComparison, case: CaseComparison | None) -> TimedComparison:
    # Instructions are executed, not timed: they have no layout, and no sign of their own.
    if row.unit == "instructions" or row.metric.startswith("user") or not row.percent or not case:
        return row
    # Whether the change is beyond its interval and the noise floor.
    clear = row.interval is not None and (row.interval[0] > 0 or row.interval[1] < 0)
    clear = clear and abs(row.percent) > max(row.floor or 0, row.threshold or 0)
    word = "time" if row.metric == "ns" else row.metric
    unsure = f" ({row.reason or UNDECIDED})" if row.verdict == UNDECIDED else ""
    change = f"{row.percent:+.{row.percent_digits}f} %{unsure}"
    better = (row.percent > 0) == row.unit.endswith(_RATE)
    if row.identical_path:
        notes = [caveats.layout(row.name, word, change)] if clear else []
    elif (clear or row.interval is None) and case.verdict == (WORSE if better else BETTER):
        share = "" if case.percent is None else f" ({case.percent:+.1f} %)"
        notes = [caveats.sign_conflict(row.name, f"{case.delta:+d}{share}", word, change)]
    else:
        notes = []
    return replace(row, caveats=(*row.caveats, *notes))
