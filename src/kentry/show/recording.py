# SPDX-License-Identifier: GPL-2.0-or-later
"""What `kentry record` prints: a row a case, the matrix of vector states, then the caveats."""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence

from kentry.arch import Arch, find_arch
from kentry.compare.counted import compare_case
from kentry.results import caveats
from kentry.results.case_name import NONE, CaseName, State
from kentry.results.caveats import Caveat
from kentry.results.comparison import CaseComparison
from kentry.results.recording import INSTRUCTIONS, CaseResult, Recording
from kentry.show.contexts import recording_context_lines
from kentry.show.estimate import estimate_lines
from kentry.show.frame import caveat_lines, emulator_lines, kernel_lines
from kentry.show.functions import function_lines_with_total
from kentry.show.misses import miss_lines
from kentry.show.numbers import per_call
from kentry.show.table import Column, Table, ascii_lines, text_column, wrapped

_FIRMWARE = "firmware_instructions"
_USER = "user_instructions"

# Counts of other windows that a row names, the commonest first.
_OTHERS = 4

# The functions that states add are printed for at most this many states.
_STATES_COMPARED = 8

# The matrix itself says where a count is undecided, so these caveats of its cases are left out.
_IN_MATRIX = (caveats.no_majority("", 0)["kind"], caveats.unrecorded_path("", 0)["kind"])

_CHECKED = "The machine's own counter ({}) agrees in {} of {} cases."

# A case in a task with this vector state.
Cell = tuple[CaseResult, State]


def recording_text(recording: Recording, floor: Mapping[str, int] | None = None) -> str:
    """The whole report; `floor` are the counts of cases on the floor, for a column of ratios."""
    arch = find_arch(recording.kernel["arch"])
    lines = [*kernel_lines(recording), *emulator_lines(recording)]
    with_state = len(cells_of(recording))
    if cases := cases_without_state(recording):
        lines += [
            "",
            *_case_table(cases, floor or {}).lines(),
            *recording_context_lines(recording, cases),
        ]
    if with_state:
        lines += ["", *matrix_lines(recording, arch)]
    if 0 < with_state <= _STATES_COMPARED:
        lines += _added_lines(recording)
    lines += [*estimate_lines(recording.cases), *miss_lines(recording.cases)]
    if checked := sum(case.checked is not None for case in recording.cases):
        lines += ["", *wrapped(_CHECKED.format(arch.counter.what, checked, len(recording.cases)))]
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


def _case_table(cases: Iterable[CaseResult], floor: Mapping[str, int]) -> Table:
    firmware = [case.metrics[_FIRMWARE].value for case in cases if _FIRMWARE in case.metrics]
    columns = [text_column("case"), Column("instructions")]
    columns += [Column("x floor")] if floor else []
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
        rare = sorted(
            (pair for pair in count.samples if pair[0] not in (count.value, *case.values)),
            key=lambda pair: (-pair[1], pair[0]),
        )
        for value, times in rare[:_OTHERS]:
            others.append(f"{times} x {value}{reasons.get(value, '')}")
        if rest := rare[_OTHERS:]:
            windows, values = sum(times for _, times in rest), [value for value, _ in rest]
            others.append(f"{windows} from {min(values)} to {max(values)}")
        if interrupted := sum(times for _, times in case.interrupted):
            others.append(f"{interrupted} interrupted, set apart")
        table.row(
            case.name,
            count.value,
            *([_ratio(count.value, floor.get(case.name))] if floor else []),
            *([below.value if below else 0] if any(firmware) else []),
            f"{count.agreeing} of {count.windows}",
            ", ".join(others),
        )
    return table


def _ratio(count: int, floor: int | None) -> str:
    return f"{count / floor:.1f}" if floor else "-"


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


def cells_of(recording: Recording) -> list[Cell]:
    """The cases with a vector state, all states of a case below each other."""
    groups: dict[tuple[str, str, int | None], list[Cell]] = {}
    for case in recording.cases:
        if state := case.parsed.state:
            groups.setdefault((state.unit, case.parsed.call, state.length), []).append(
                (case, state)
            )
    return [cell for group in groups.values() for cell in group]


def matrix_lines(recording: Recording, arch: Arch) -> list[str]:
    """A row a state: its count per call, the ratio to "none", its events; then the markers."""
    cells = cells_of(recording)
    keys = [text_column("case"), Column("vl"), text_column("state")]
    events = text_column("events per call", wraps=True)
    table = Table([*keys, Column("instructions"), Column("x none"), events], keys=len(keys))
    above: tuple[str, int] | None = None
    for case, state in cells:
        label = (case.parsed.call, arch.vector.bits(state.unit, state.length))
        count, calls = case.metrics[INSTRUCTIONS], case.parsed.calls
        base = _without_use(case, state, cells)
        ratio = None
        if base and base.metrics[INSTRUCTIONS].is_decided and count.is_decided:
            per_base = base.metrics[INSTRUCTIONS].value / base.parsed.calls
            ratio = f"{count.value / calls / per_base:.2f}" if per_base else None
        table.row(
            *(label if label != above else ("", "")),
            f"{state.unit}={state.use}",
            per_call(count.value, calls),
            ratio,
            _events(case),
        )
        above = label
    named = {state.unit for _, state in cells}
    units = ", ".join(f"{one.name} is {one.what}" for one in arch.vector.units if one.name in named)
    return [*table.lines(), "", *marker_lines(recording, arch), *wrapped(f"{units}; vl: bits")]


def _without_use(case: CaseResult, state: State, cells: Sequence[Cell]) -> CaseResult | None:
    """The same case in a task that never used the unit."""
    wanted = (case.parsed.call, State(state.unit, NONE, state.length))
    return next((one for one, own in cells if (one.parsed.call, own) == wanted), None)


def _events(case: CaseResult) -> str:
    """The events per call; how many windows have the count unless all have."""
    count, calls = case.metrics[INSTRUCTIONS], case.parsed.calls
    times: Counter[tuple[str, str]] = Counter()
    for event in case.events or ():
        times[event.name, event.cause] += event.times
    texts = [f"{name} {per_call(n, calls)} ({cause})" for (name, cause), n in times.items()]
    text = "not known" if case.events is None else ", ".join(texts) or "-"
    if count.agreeing == count.windows:
        return text
    if count.is_decided:
        return f"{text} [{count.agreeing} of {count.windows} windows]"
    values = [value for value, _ in count.samples]
    low, high = (per_call(edge, calls) for edge in (min(values), max(values)))
    return f"{text} [undecided: {low} to {high} in {count.windows} windows]"


def marker_lines(recording: Recording, arch: Arch) -> list[str]:
    """The kernel code by which each event was found, and the events that have none."""
    markers = recording.markers or {}
    known = "; ".join(f"{event}: {label}" for event, label in markers.items())
    absent = [one.event for one in arch.vector.markers if one.event not in markers]
    lines = wrapped(f"markers: {known}")
    if absent:
        lines += wrapped(f"not in this kernel, so not counted: {', '.join(absent)}")
    return lines


def added_by_states(recording: Recording) -> Iterator[tuple[CaseComparison, State, State]]:
    """What each state adds to the same case without use: the comparison and both states."""
    cells = cells_of(recording)
    for case, state in cells:
        base = _without_use(case, state, cells)
        if base is None or base is case or base.parsed.calls != case.parsed.calls:
            continue
        if base.metrics[INSTRUCTIONS].is_decided and case.metrics[INSTRUCTIONS].is_decided:
            assert base.parsed.state
            yield compare_case(base, case, recording, recording), state, base.parsed.state
