# SPDX-License-Identifier: GPL-2.0-or-later
"""What `kentry record` prints: a row a case or vector state, then the caveats."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from kentry.arch import find_arch
from kentry.model import caveats
from kentry.model.case_name import CaseName
from kentry.model.caveats import Caveat
from kentry.model.recording import INSTRUCTIONS, CaseResult, Recording
from kentry.report.frame import caveat_lines, emulator_lines, kernel_lines
from kentry.report.functions import function_lines_with_total
from kentry.report.matrix import added_by_states, cells_of, matrix_lines
from kentry.report.table import Column, Table, ascii_lines, text_column

_FIRMWARE = "firmware_instructions"
_USER = "user_instructions"

# The functions that states add are printed for at most this many states.
_STATES_COMPARED = 8

# The matrix itself says where a count is undecided, so these caveats of its cases are left out.
_IN_MATRIX = (caveats.no_majority("", 0)["kind"], caveats.unrecorded_path("", 0)["kind"])


def recording_text(recording: Recording) -> str:
    """The whole report."""
    arch = find_arch(recording.kernel["arch"])
    lines = [*kernel_lines(recording), *emulator_lines(recording)]
    with_state = len(cells_of(recording))
    if cases := cases_without_state(recording):
        lines += ["", *_case_table(cases).lines()]
    if with_state:
        lines += ["", *matrix_lines(recording, arch)]
    if 0 < with_state <= _STATES_COMPARED:
        lines += _added_lines(recording)
    lines += caveat_lines([*recording.caveats, *case_caveats(recording.cases)])
    return ascii_lines(lines)


def cases_without_state(recording: Recording) -> list[CaseResult]:
    """The cases that are no part of the matrix."""
    return [case for case in recording.cases if not case.parsed.state]


def case_caveats(cases: Iterable[CaseResult]) -> Iterator[Caveat]:
    """The caveats of cases, except what the matrix says of those with a state."""
    for case in cases:
        in_matrix = case.parsed.state and not case.metrics[INSTRUCTIONS].is_decided
        for caveat in case.caveats:
            if not (in_matrix and caveat["kind"] in _IN_MATRIX):
                yield caveat


def _case_table(cases: Iterable[CaseResult]) -> Table:
    firmware = [case.metrics[_FIRMWARE].value for case in cases if _FIRMWARE in case.metrics]
    columns = [text_column("case"), Column("instructions")]
    columns += [Column("firmware")] if any(firmware) else []
    columns += [Column("windows"), text_column("other windows", wraps=True)]
    table = Table(columns, keys=2)
    for case in cases:
        count, below = case.metrics[INSTRUCTIONS], case.metrics.get(_FIRMWARE)
        others = []
        if count.value == 0:
            others.append(f"{case.metrics[_USER].value} instructions in user space")
        # Of two paths of one length the commonest, which comes first, gives the reason.
        reasons = {path.length: f" ({path.why})" for path in reversed(case.paths) if path.why}
        for value, times in count.samples:
            if value != count.value:
                others.append(f"{times} x {value}{reasons.get(value, '')}")
        if interrupted := sum(times for _, times in case.interrupted):
            others.append(f"{interrupted} interrupted, set apart")
        table.row(
            case.name,
            count.value,
            *([below.value if below else 0] if any(firmware) else []),
            f"{count.agreeing} of {count.windows}",
            ", ".join(others),
        )
    return table


def _added_lines(recording: Recording) -> Iterator[str]:
    """The functions that a vector state adds, once for states that add the same ones."""
    tables: dict[tuple[str, ...], list[str]] = {}
    for case, state, base in added_by_states(recording):
        if case.delta:
            lines = function_lines_with_total(case.functions, case.old, case.new)
            over = f"over {base} ({case.delta:+d})"
            key = (CaseName.parse(case.name).call, over, *lines)
            tables.setdefault(key, []).append(str(state))
    for (call, over, *lines), states in tables.items():
        yield from ("", f"{call}: {', '.join(states)} {over}", *lines)
