# SPDX-License-Identifier: GPL-2.0-or-later
"""Plain text: ASCII, no colour, numbers as LC_ALL=C prints them."""

from __future__ import annotations

import textwrap
from collections.abc import Iterable, Iterator, Sequence

from kentry.arch import Arch, find_arch
from kentry.compare.counted import Comparison
from kentry.compare.timed import percent_digits
from kentry.model.case_name import CaseName
from kentry.model.caveats import Caveat
from kentry.model.comparison import CaseComparison, FunctionDelta, TimedComparison
from kentry.model.recording import INSTRUCTIONS, CaseResult, Instruction, Recording
from kentry.path.phases import Part, parts, split_calls
from kentry.report.timed import (
    share,
    timed_change,
    timed_unit,
    timed_values,
    timed_verdict,
    timing_lines,
)
from kentry.report.vector import (
    event_change_lines,
    matrix_lines,
    over_none,
    own_caveats,
    preset_lines,
    short_changes,
    stateful,
)
from kentry.stats.exact import SAME

# Rows of a function table before the rest is added up in one.
FUNCTIONS_SHOWN = 10

# States whose functions are compared below the table: more is what a matrix is for.
_STATES_COMPARED = 8

# Columns of running text; tables may be wider.
_WIDTH = 79

_FIRMWARE = "firmware_instructions"
_USER = "user_instructions"


def recording_table(recording: Recording, preset: str | None = None) -> str:
    """What `kentry record` prints: a row a case or vector state, then the caveats.

    With a `preset` its rows also in the form of the benchmark it stands for.
    """
    arch = find_arch(recording.kernel["arch"])
    vector_cases = stateful(recording)
    plain_cases = [case for case in recording.cases if case not in vector_cases]
    lines = [*kernel_lines(recording), *target_lines(recording)]
    if plain_cases:
        lines += ["", *_case_lines(plain_cases)]
    if vector_cases:
        lines += ["", *matrix_lines(recording, arch)]
    if 0 < len(vector_cases) <= _STATES_COMPARED:
        lines += _added_by_states(recording)
    if preset:
        lines += ["", *preset_lines(preset, recording, arch)]
    return "\n".join([*lines, *caveat_lines(_all_caveats(recording))]) + "\n"


def _added_by_states(recording: Recording) -> Iterator[str]:
    """The functions that a vector state adds; states that add the same together."""
    tables: dict[tuple[str, str, tuple[str, ...]], list[str]] = {}
    for one, own, base in over_none(recording):
        if one.delta:
            lines = (f"({one.delta:+d})", *function_lines(one, FUNCTIONS_SHOWN))
            tables.setdefault((CaseName.parse(one.name).call, base, lines), []).append(own)
    for (case, base, (delta, *table)), states in tables.items():
        yield from ("", f"{case}: {', '.join(states)} over {base} {delta}", *table)


def _case_lines(cases: Sequence[CaseResult]) -> list[str]:
    width = max(len(case.name) for case in cases)
    firmware = any(_firmware(case) for case in cases)
    extra = f"{'firmware':>10}" if firmware else ""
    lines = [f"{'case':<{width}} {'instructions':>13}{extra} {'windows':>12}  other windows"]
    for case in cases:
        more = f"{_firmware(case):>10}" if firmware else ""
        lines.append(
            f"{case.name:<{width}} {case.metrics[INSTRUCTIONS].value:>13}{more}"
            f" {_share(case):>12}  {_others(case)}".rstrip()
        )
    return lines


def kernel_lines(recording: Recording, label: str = "") -> list[str]:
    """Which kernel, in two lines: one would be wider than a mail."""
    kernel = recording.kernel
    release = f"Linux {kernel['release']}" if kernel["release"] else "release not known"
    lines = [f"{label}{kernel['spec']} ({kernel['arch']}): {release}"]
    if kernel["compiler"]:
        lines.append(f"{' ' * len(label)}{kernel['compiler']}")
    return lines


def target_lines(recording: Recording) -> list[str]:
    """The emulator and its cpu model: they belong to the numbers."""
    target = recording.target
    return [target["emulator"], f"-cpu {target.get('cpu', '?')}"]


def _firmware(case: CaseResult) -> int:
    metric = case.metrics.get(_FIRMWARE)
    return metric.value if metric else 0


def _share(case: CaseResult) -> str:
    samples = dict(case.metrics[INSTRUCTIONS].samples)
    return f"{samples[case.metrics[INSTRUCTIONS].value]} of {sum(samples.values())}"


def _others(case: CaseResult) -> str:
    """The windows that did not have the value, and why, where a path says it."""
    metric = case.metrics[INSTRUCTIONS]
    # The commonest path comes first: of two of one length it is the one named.
    reasons = {path.length: path.why for path in reversed(case.paths) if path.why}
    found = []
    if metric.value == 0:
        found.append(f"{case.metrics[_USER].value} instructions in user space")
    for value, times in metric.samples:
        if value != metric.value:
            why = f" ({reasons[value]})" if value in reasons else ""
            found.append(f"{times} x {value}{why}")
    interrupted = sum(times for _, times in case.interrupted)
    if interrupted:
        found.append(f"{interrupted} interrupted, set apart")
    return ", ".join(found)


def _all_caveats(recording: Recording) -> list[Caveat]:
    return [*recording.caveats, *own_caveats(recording.cases)]


def caveat_lines(caveats: Iterable[Caveat]) -> list[str]:
    """An empty line and the caveats, as they stand under every result."""
    lines = [""]
    for caveat in caveats:
        lines += textwrap.wrap(
            f"note: {caveat['text']}",
            width=_WIDTH,
            subsequent_indent="      ",
            break_on_hyphens=False,
            break_long_words=False,
        )
    return lines


def comparison_text(comparison: Comparison, shown: int | None = FUNCTIONS_SHOWN) -> str:
    """What `kentry diff` prints: verdicts, then functions, then caveats.

    `shown` rows a function table, None for all of them.
    """
    lines = [
        *kernel_lines(comparison.old, "old: "),
        *kernel_lines(comparison.new, "new: "),
        *timing_lines(comparison, _WIDTH),
        "",
    ]
    if events := event_change_lines(comparison.cases, _WIDTH):
        lines += [*events, ""]
    lines += _all_verdict_lines(comparison)
    for case in comparison.cases:
        if case.delta:
            title = f"{case.name}{CaseName.parse(case.name).calls_note} ({case.delta:+d})"
            lines += ["", title, *function_lines(case, shown)]
    return "\n".join([*lines, *caveat_lines(comparison_caveats(comparison))]) + "\n"


def comparison_caveats(comparison: Comparison) -> list[Caveat]:
    """Those of the comparison, then those of its rows; what is said of many rows once."""
    found = list(comparison.caveats)
    found += [caveat for case in comparison.cases for caveat in case.caveats]
    found += [caveat for row in comparison.timed for caveat in row.caveats]
    return [caveat for i, caveat in enumerate(found) if caveat not in found[:i]]


def _all_verdict_lines(comparison: Comparison) -> list[str]:
    """A sentence a case and metric, time under instructions, numbers below each other."""
    rows = [
        (name if i == 0 else "", row)
        for name in comparison.names
        for i, row in enumerate(comparison.rows(name))
    ]
    labels = [f"{name}{CaseName.parse(name).calls_note}:" if name else "" for name, _ in rows]
    values = [_values(row) for _, row in rows]
    name = max(map(len, labels))
    number = max(len(value) for pair in values for value in pair)
    return [
        f"{label:<{name}} {old:>{number}} -> {new:>{number}} {_said(row)}"
        for label, (old, new), (_, row) in zip(labels, values, rows, strict=True)
    ]


def _values(row: CaseComparison | TimedComparison) -> tuple[str, str]:
    if isinstance(row, CaseComparison):
        return str(row.old), str(row.new)
    return timed_values(row)


def _said(row: CaseComparison | TimedComparison) -> str:
    if isinstance(row, CaseComparison):
        return f"kernel instructions {_change(row)}"
    floor = f"; floor {share(row.floor, percent_digits(row))}" if row.floor is not None else ""
    return f"{timed_unit(row)} ({timed_change(row)}{floor}) {timed_verdict(row)}"


def _change(case: CaseComparison) -> str:
    if case.delta == 0:
        identical = case.identical_path and case.verdict == SAME
        return f"{case.verdict}, identical path" if identical else case.verdict
    percent = "" if case.percent is None else f", {case.percent:+.1f} %"
    events = short_changes(case)
    why = f": {events}" if events else ""
    return f"({case.delta:+d}{percent}{why}) {case.verdict}"


def function_lines(case: CaseComparison, shown: int | None) -> list[str]:
    """The functions that changed, in scripts/bloat-o-meter's form, adding up to the delta."""
    if not case.functions:
        return ["  no path was recorded on one side, so functions cannot be told"]
    lines = bloat_lines([row for row in case.functions if row.delta], shown)
    same = [row for row in case.functions if not row.delta]
    if same:
        lines.append(function_row(f"{len(same)} unchanged", *2 * [sum(row.old for row in same)]))
    return [*lines, function_row("Total", case.old, case.new)]


def bloat_lines(rows: Sequence[FunctionDelta], shown: int | None = FUNCTIONS_SHOWN) -> list[str]:
    """bloat-o-meter's header and rows; those beyond `shown` added up in one."""
    lines = [bloat_header(rows), f"{'Function':<40} {'old':>7} {'new':>7} {'delta':>7}"]
    cut = len(rows) if shown is None or len(rows) <= shown + 1 else shown
    lines += [function_row(row.name, row.old, row.new) for row in rows[:cut]]
    rest = rows[cut:]
    if rest:
        label = f"{len(rest)} other functions"
        lines.append(function_row(label, sum(r.old for r in rest), sum(r.new for r in rest)))
    return lines


def bloat_header(rows: Sequence[FunctionDelta]) -> str:
    """How many functions came and went, grew and shrank, and by how much."""
    up = sum(row.delta for row in rows if row.delta > 0)
    down = sum(row.delta for row in rows if row.delta < 0)
    return (
        f"add/remove: {sum(not r.old for r in rows)}/{sum(not r.new for r in rows)}"
        f" grow/shrink: {sum(r.old > 0 and r.delta > 0 for r in rows)}"
        f"/{sum(r.new > 0 and r.delta < 0 for r in rows)}"
        f" up/down: {up}/{down} ({up + down})"
    )


def function_row(name: str, old: int, new: int) -> str:
    """One row of a function table; "-" stands for none."""
    change = f"{new - old:+d}" if new != old else "-"
    before, after = str(old) if old else "-", str(new) if new else "-"
    return f"{name:<40} {before:>7} {after:>7} {change:>7}"


def annotation(recording: Recording, case: CaseResult, arch: Arch) -> str:
    """What `kentry annotate` prints: the modal path, instruction by instruction."""
    path = case.modal_path
    assert path is not None
    recorded = sum(p.times for p in case.paths)
    lines = [
        *kernel_lines(recording),
        "",
        f"{case.name}: {path.length} kernel instructions,"
        f" the path of {path.times} of {recorded} recorded windows",
    ]
    calls = list(split_calls(recording.instructions(path)))
    for number, call in enumerate(calls, start=1):
        found = parts(call, arch)
        lines += ["", _sum_line(found, number if len(calls) > 1 else None, len(call))]
        for part in found:
            lines += ["", f"{part.name} ({len(part.instructions)})", *_part_lines(part)]
    return "\n".join([*lines, *caveat_lines([*recording.caveats, *case.caveats])]) + "\n"


def _sum_line(found: Sequence[Part], number: int | None, length: int) -> str:
    sums = " + ".join(f"{part.name} {len(part.instructions)}" for part in found)
    call = f"call {number}: " if number else ""
    return f"{call}{sums} = {length}"


def _part_lines(part: Part) -> list[str]:
    width = max(len(_place(insn)) for insn in part.instructions)
    return [
        f"  {_place(insn):<{width}}  {'  ' * depth}{insn.text}"
        for insn, depth in zip(part.instructions, part.depths, strict=True)
    ]


def _place(insn: Instruction) -> str:
    return f"{insn.function}+{insn.offset:#x}"
