# SPDX-License-Identifier: GPL-2.0-or-later
"""The harness's results as a table, ASCII, at most 79 columns; each bar, and whether it is met."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean, median, stdev

import numpy as np
from scipy.stats import binomtest

from bench.honesty.peers import ESTIMATORS, KENTRY, percentile, ratio_interval
from bench.honesty.results import Step
from kentry.show.table import wrapped
from kentry.stats.exact import BETTER, SAME, UNDECIDED, WORSE

WIDTH = 79
FALSE_BAR, POWER_BAR, RATIO_BAR = 0.01, 0.95, 10.0
# Intervals are asked to hold the truth as often as they say.
COVERAGE = 0.99

Steps = Mapping[str, Sequence[Step]]


@dataclass(frozen=True)
class Injected:
    """A slowdown of known size, 1/`every`; a bar where `bar_seconds` is not None."""

    every: int
    threshold: float
    bar_seconds: float | None

    @property
    def change(self) -> float:
        """A fraction."""
        return 1 / self.every

    @property
    def kind(self) -> str:
        """Of its steps."""
        return f"1/{self.every}"


@dataclass
class Report:
    """Lines, and how many bars were missed."""

    lines: list[str]
    missed: int = 0

    def say(self, text: str) -> None:
        """A sentence, wrapped."""
        self.lines += wrapped(text, width=WIDTH)

    def bar(self, text: str, good: bool) -> None:
        """A bar, and whether it was met."""
        self.missed += not good
        self.say(f"{'met' if good else 'MISSED'}: {text}")

    def __str__(self) -> str:
        return "\n".join(self.lines) + "\n"


def share(count: int, of: int, digits: int = 2) -> str:
    """A share with its 95 % interval after Clopper and Pearson, per cent."""
    if not of:
        return "-"
    ends = binomtest(count, of).proportion_ci(0.95, "exact")
    rate, low, high = (f"{100 * one:.{digits}f}" for one in (count / of, ends.low, ends.high))
    return f"{rate} % [{low}, {high}]"


def _number(value: float, digits: int = 1) -> str:
    return f"{value:.{digits}f}" if math.isfinite(value) else "-"


def _seconds(steps: Sequence[Step]) -> tuple[float, float]:
    """Median and 95th percentile."""
    values = [step["seconds"] for step in steps]
    return median(values), float(np.quantile(values, 0.95))


# --- sections --------------------------------------------------------------------


def simulated_section(report: Report, steps: Sequence[Step]) -> None:
    """Made-up noise."""
    if not steps:
        return
    report.lines += ["", "Simulated: made-up noise, groups of A B B A"]
    report.lines.append(
        f"{'change':>7} {'groups':>7} {'looks':>6} {'runs':>7} {'wrong, [95 %]':>22}"
        f" {'found':>8} {'covered':>8} {'s':>6}"
    )
    good = True
    for plan in dict.fromkeys(map(_plan, steps)):
        of_plan = [one for one in steps if _plan(one) == plan]
        report.lines.append(_simulated_line(of_plan))
        good &= sum(map(_wrong, of_plan)) <= FALSE_BAR * sum(one["runs"] for one in of_plan)
        good &= not any(_surely_above_bar(one) for one in of_plan)
    worst = max(steps, key=lambda one: _wrong(one) / one["runs"])
    report.bar(
        f"wrong at most {FALSE_BAR:.0%} of each line, and of no kind of noise surely more; most,"
        f" {_wrong(worst) / worst['runs']:.2%}, of {worst['noise']}",
        good,
    )
    least = min(steps, key=lambda one: one["covered"])
    report.say(
        f"covered: intervals at {COVERAGE:.0%} that hold the truth, the median of"
        f" {len({one['noise'] for one in steps})} kinds of noise; fewest, {least['covered']:.1%},"
        f" of {least['noise']}"
    )


def _plan(step: Step) -> tuple[float, int, int]:
    return step["change"], step["groups"], step["looks"]


def _wrong(step: Step) -> int:
    """Better is always wrong; a change that is called same, and none that is called worse."""
    return int(step["better"] + (step["same"] if step["change"] else step["worse"]))


def _surely_above_bar(step: Step) -> bool:
    ends = binomtest(_wrong(step), step["runs"]).proportion_ci(0.99, "exact")
    return bool(ends.low > FALSE_BAR)


def _simulated_line(steps: Sequence[Step]) -> str:
    change, groups, looks = _plan(steps[0])
    runs = sum(one["runs"] for one in steps)
    found = f"{100 * sum(one['worse'] for one in steps) / runs:.1f} %" if change else "-"
    covered = median(one["covered"] for one in steps)
    return (
        f"{100 * change:>5.1f} % {groups:>7} {looks:>6} {runs:>7}"
        f" {share(sum(map(_wrong, steps)), runs):>22} {found:>8} {100 * covered:>6.1f} %"
        f" {sum(one['seconds'] for one in steps):>6.1f}"
    )


def no_change_section(report: Report, steps: Sequence[Step], longest: float) -> None:
    """A/A."""
    if not steps:
        return
    report.lines += ["", f"No change: getppid -> getppid, at most {longest:g} s"]
    report.lines.append(
        f"{'':18}{'runs':>6}{SAME:>7}{UNDECIDED:>11}{BETTER:>8}{WORSE:>7}"
        f"{'median s':>10}{'p95 s':>8}"
    )
    vias = {"compare_cases": "as the command", "command": "kentry stat"}
    for via, name in vias.items():
        of_via = [step for step in steps if step["via"] == via]
        if not of_via:
            continue
        counts = Counter(step["verdict"] for step in of_via)
        middle, top = _seconds(of_via)
        report.lines.append(
            f"{name:18}{len(of_via):>6}{counts[SAME]:>7}{counts[UNDECIDED]:>11}"
            f"{counts[BETTER]:>8}{counts[WORSE]:>7}{middle:>10.1f}{top:>8.1f}"
        )
    wrong = sum(step["verdict"] in (BETTER, WORSE) for step in steps)
    report.bar(
        f"false positives at most {FALSE_BAR:.0%}: {wrong} of {len(steps)},"
        f" {share(wrong, len(steps))} with 95 %",
        wrong <= FALSE_BAR * len(steps),
    )
    status = [step for step in steps if not step.get("status_is_right", True)]
    if status:
        report.bar(f"exit status as the verdict: {len(status)} are not", good=False)
    _calibration(report, [step for step in steps if "error" in step])


def _calibration(report: Report, steps: Sequence[Step]) -> None:
    """Do intervals hold 0 as often as they say, and do runs differ by as much as they say?"""
    if len(steps) < 2:
        return
    held = sum(step["interval"][0] <= 0 <= step["interval"][1] for step in steps)
    effects = [step["effect"] for step in steps]
    spread = stdev(effects)
    claimed = math.sqrt(fmean(step["error"] ** 2 for step in steps))
    between = math.sqrt(max(0.0, spread**2 - claimed**2))
    mean, error = fmean(effects), spread / math.sqrt(len(effects))
    least = binomtest(held, len(steps)).proportion_ci(0.95, "exact").high
    word = "as they should" if least >= COVERAGE else "TOO FEW"
    report.say(
        f"Intervals at {COVERAGE:.0%} hold 0 in {held} of {len(steps)} runs,"
        f" {share(held, len(steps))}: {word}."
    )
    report.say(
        f"Effects spread from run to run by {100 * spread:.3f} % (standard deviation), the runs"
        f" claim {100 * claimed:.3f} %: {spread / claimed if claimed else math.nan:.2f} times."
        f" What no run sees from inside is {100 * between:.3f} %; the threshold covers it."
        f" On average {100 * mean:+.4f} % +- {100 * error:.4f} %."
    )


def change_section(report: Report, steps: Steps, injected: Sequence[Injected]) -> None:
    """Slowdowns of known size."""
    rows = [one for one in injected if steps.get(one.kind)]
    if not rows:
        return
    report.lines += ["", "A change of known size: getppid -> getppid+extra=1/N"]
    report.lines.append(
        f"{'injected':>8} {'thresh.':>7} {'runs':>4} {'found, [95 %]':>21} {'med. s':>6}"
        f" {'p95 s':>6} {'measured %':>15} {'holds':>5}"
    )
    for one in rows:
        report.lines.append(_change_line(one, steps[one.kind]))
    for one in rows:
        if one.bar_seconds is None:
            continue
        found = sum(_found(step, one) for step in steps[one.kind])
        report.bar(
            f"{one.change:.1%} found in at least {POWER_BAR:.0%} of runs, within"
            f" {one.bar_seconds:g} s: {found} of {len(steps[one.kind])}",
            found >= POWER_BAR * len(steps[one.kind]),
        )
    every = [step for one in rows for step in steps[one.kind]]
    wrong = sum(step["verdict"] in (SAME, BETTER) for step in every)
    report.bar(f"none of {len(every)} called same or better: {wrong}", not wrong)
    report.say("holds: the intervals, at 99 %, that hold the injected change.")


def _found(step: Step, one: Injected) -> bool:
    soon = one.bar_seconds is None or step["seconds"] <= one.bar_seconds
    return bool(step["verdict"] == WORSE and soon)


def _change_line(one: Injected, steps: Sequence[Step]) -> str:
    found = sum(_found(step, one) for step in steps)
    middle, top = _seconds(steps)
    effects = [step["effect"] for step in steps]
    error = stdev(effects) / math.sqrt(len(effects)) if len(effects) > 1 else math.nan
    held = sum(step["interval"][0] <= one.change <= step["interval"][1] for step in steps)
    measured = f"{100 * fmean(effects):+.3f} +- {_number(100 * error, 3)}"
    return (
        f"{100 * one.change:>6.2f} % {100 * one.threshold:>5.2f} % {len(steps):>4}"
        f" {share(found, len(steps), 1):>21} {middle:>6.1f} {top:>6.1f} {measured:>15}"
        f" {100 * held / len(steps):>3.0f} %"
    )


# --- peers -------------------------------------------------------------------------


@dataclass(frozen=True)
class _Column:
    """Differences between two measurements of the same thing, at equal time."""

    seconds: float
    differences: dict[str, list[float]]

    @property
    def count(self) -> int:
        return len(self.differences[KENTRY])


REAL = "perf bench itself"


def peers_section(report: Report, steps: Steps, why_no_perf: str) -> None:
    """Peers' estimators on the same samples, and perf bench itself."""
    columns = list(_columns(steps))
    if columns:
        report.lines += ["", "The same twice, at equal time: p95 of the difference, %"]
        _peer_lines(report, columns)
        report.say(
            "kentry: A B B A interleaved, 10th percentiles. All others: the first half of the time"
            " against the second, of the same samples; perf bench itself: two runs of it, in turn"
            " with kentry's."
        )
    if why_no_perf:
        report.say(f"perf bench itself was not run: {why_no_perf}")


def _columns(steps: Steps) -> Iterator[_Column]:
    no_change = [step for step in steps.get("A/A", ()) if "differences" in step]
    if no_change:
        found = [step["differences"] for step in no_change]
        yield _Column(median(step["seconds"] for step in no_change), _by_name(found))
    sessions = steps.get("session", ())
    for length in dict.fromkeys(key for step in sessions for key in step if key[0].isdigit()):
        parts = [part for step in sessions for part in step.get(length, ())]
        if parts:
            yield _Column(float(length), _by_name(parts))
    beside = steps.get("perf", ())
    if beside:
        found = [{KENTRY: step["kentry"], REAL: step["perf"]} for step in beside]
        yield _Column(median(step["perf_seconds"] for step in beside), _by_name(found))


def _by_name(found: Sequence[Mapping[str, float]]) -> dict[str, list[float]]:
    return {name: [one[name] for one in found] for name in found[0]}


def _peer_lines(report: Report, columns: Sequence[_Column]) -> None:
    def row(name: str, cells: Sequence[str]) -> None:
        line = f"{name:<19}" + "".join(f"{cell:>15}" for cell in cells)
        report.lines.append(line.rstrip())

    row("seconds, in all", [f"{one.seconds:.1f}" for one in columns])
    row("comparisons", [str(one.count) for one in columns])
    row(KENTRY, [_top(one, KENTRY) for one in columns])
    for name in (*ESTIMATORS, REAL):
        if any(name in one.differences for one in columns):
            row(_label(name), [_top(one, name) for one in columns])
            row("  x kentry, [95 %]", [_ratio_text(one, name) for one in columns])
    for one in columns:
        peer = next(name for name in ("perf bench", REAL) if name in one.differences)
        ratio = _ratio(one, peer)
        report.bar(
            f"{_label(peer)} differs by at least {RATIO_BAR:g} times as much, at"
            f" {one.seconds:.1f} s: {_short(ratio)}",
            ratio >= RATIO_BAR,
        )


def _label(name: str) -> str:
    return f"{name}-style" if name in ESTIMATORS else name


def _top(one: _Column, name: str) -> str:
    if name not in one.differences:
        return "-"
    return _number(100 * percentile(one.differences[name]), 3)


def _ratio(one: _Column, name: str) -> float:
    top = percentile(one.differences[KENTRY])
    return percentile(one.differences[name]) / top if top > 0 else math.inf


def _ratio_text(one: _Column, name: str) -> str:
    if name not in one.differences:
        return ""
    ends = ratio_interval(one.differences[name], one.differences[KENTRY])
    low, high = (_short(end) for end in ends)
    return f"{_short(_ratio(one, name))} [{low},{high}]"


def _short(ratio: float) -> str:
    """At most four characters up to a million."""
    if not math.isfinite(ratio):
        return "-"
    if ratio < 9.95:
        return f"{ratio:.1f}"
    return f"{ratio:.0f}" if ratio < 999.5 else f"{ratio / 1000:.0f}k"


# --- all of it -----------------------------------------------------------------------


def table(
    head: Sequence[str],
    steps: Steps,
    injected: Sequence[Injected],
    longest: float,
    why_no_perf: str = "",
) -> Report:
    """Everything."""
    report = Report(list(head))
    simulated_section(report, steps.get("simulated", ()))
    no_change_section(report, steps.get("A/A", ()), longest)
    change_section(report, steps, injected)
    peers_section(report, steps, why_no_perf)
    minutes = sum(step["seconds"] for of_kind in steps.values() for step in of_kind) / 60
    report.lines.append("")
    report.say(f"{minutes:.1f} minutes of measuring; bars missed: {report.missed}.")
    return report
