# SPDX-License-Identifier: GPL-2.0-or-later
"""Checks the plugin's counts by a counter that is not ours: the emulated machine's own.

The guest reads it around blocks with and without calls, in a boot without the plugin; in another
boot the plugin counts the windows of the same blocks.
"""

from collections import Counter as Histogram
from collections.abc import Sequence

from msgspec.structs import replace

from kentry.arch.record import Counter
from kentry.boot.plugin_trace import Phase, PluginTrace
from kentry.boot.probe_protocol import ProbeReport
from kentry.errors import ContradictionError, TraceError
from kentry.path.metrics import amounts_of_accesses
from kentry.results import caveats
from kentry.results.caveats import Caveat
from kentry.results.recording import CaseResult
from kentry.stats import exact

REPORT_IT = (
    "Please report it, with the output of kentry doctor; other numbers of this emulator"
    " should not be believed."
)


def check_paths(phases: Sequence[Phase], trace: PluginTrace, modal: int | None) -> None:
    """ContradictionError where what the plugin counted in a case's windows is not in their paths.

    These are the lengths, and what the window loads and stores that is recorded of the modal path.
    """
    lengths: dict[int, int] = {}
    for phase in phases:
        for window in phase.windows:
            if (path := window.path) is not None:
                length = lengths.get(path) or lengths.setdefault(path, trace.path_length(path))
                if length != window.kernel:
                    raise ContradictionError(
                        f"a window of {phase.case} has {window.kernel} kernel instructions,"
                        f" its path {length}"
                    )
    key = (phases[0].case, modal)
    if modal is not None and key in trace.touched:
        for name, amounts in amounts_of_accesses(trace.accesses[key]).items():
            ours, theirs = amounts.total(), trace.touched[key].get(name, amounts.total())
            if ours != theirs:
                raise ContradictionError(
                    f"a window of {key[0]} has {theirs} {name} by the plugin, {ours} by its path"
                )


def cross_check(
    cases: Sequence[CaseResult], phases: Sequence[Phase], report: ProbeReport, counter: Counter
) -> tuple[list[CaseResult], list[Caveat]]:
    """The cases with both figures where both were had, and why others lack them; TraceError."""
    counts = [count for blocks in report.blocks.values() for _, count, _ in blocks]
    if report.counter != counter.name or not any(counts or [1]):
        why = report.counter.removeprefix(counter.name).strip() or "it stands still"
        return list(cases), [caveats.no_counter(counter.what, why)]
    windows = {phase.case: phase for phase in phases}
    checked, wrong = [], []
    reasons: dict[str, list[str]] = {}
    for case in cases:
        figures = _figures(windows.get(case.name), report.blocks.get(case.name), counter)
        if isinstance(figures, str):
            reason = report.failed.get(case.name, figures)
            reasons.setdefault(reason, []).append(case.name)
        elif figures[0] == figures[1]:
            both = int(figures[0]), int(figures[1])
            case = replace(case, checked=counter.name, checked_counts=both)
        elif figures[1] in case.values and len(case.values) > 1:
            reasons.setdefault("in another context without the plugin", []).append(case.name)
        else:
            ours, theirs = figures
            wrong.append(f"  {case.name}: {ours:.10g} by kentry, {theirs:.10g} by the machine")
        checked.append(case)
    if wrong:
        raise TraceError(
            f"The machine's own counter disagrees in {len(wrong)} of {len(cases)} cases.",
            REPORT_IT,
            "\n".join(wrong),
        )
    parts = [f"{caveats.some(names)} ({reason})" for reason, names in reasons.items()]
    return checked, [caveats.unchecked(", ".join(parts))] if reasons else []


def _figures(
    phase: Phase | None, blocks: Sequence[tuple[int, int, int]] | None, counter: Counter
) -> tuple[float, float] | str:
    """A window's kernel instructions in the commonest block, by plugin and machine; or why not."""
    if phase is None or not blocks:
        return "more than plain calls"
    windows = [window for window in phase.windows for _ in range(window.times)]
    calls = blocks[0][0]
    if len(windows) != calls * len(blocks):
        return "windows are missing"
    totals, differences = Histogram[int](), Histogram[int]()
    for index, (_, count, empty) in enumerate(blocks):
        block = windows[calls * index : calls * (index + 1)]
        if any(window.irqs for window in block):
            continue
        ours = sum(window.kernel for window in block)
        if not counter.kernel_alone:
            ours += sum(window.user + window.firmware + window.iterations for window in block)
        differences[count - empty - ours] += 1
        totals[sum(window.kernel for window in block)] += 1
    off = exact.mode(differences) if differences else 0
    of_one_path = {total: times for total, times in totals.items() if total % calls == 0}
    if not differences or (off == 0 and not exact.is_decided(differences)):
        return "most blocks were interrupted"
    if off == 0 and not of_one_path:
        return "several paths in every block"
    ours = exact.mode(of_one_path or totals)
    return ours / calls, (ours + off) / calls
