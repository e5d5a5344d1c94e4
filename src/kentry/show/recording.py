# SPDX-License-Identifier: GPL-2.0-or-later
"""The layout of a recording: a row a case, the matrix of vector states; each case's path."""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace

from kentry.arch import ARCHES, Arch
from kentry.arch.processors import MAX, vector_bits
from kentry.path.metrics import part_amounts
from kentry.results import caveats
from kentry.results.case_name import CaseName, State
from kentry.results.caveats import Caveat, amount
from kentry.results.comparison import CaseComparison, Distribution, cells_of, without_use
from kentry.results.recording import INSTRUCTIONS, CaseResult, Recording
from kentry.show import charts, provenance
from kentry.show.beside import estimate_blocks, miss_blocks, part_table, recording_context_blocks
from kentry.show.blocks import Block, Cell, Column, Layout, Prose, Table, text_column
from kentry.show.numbers import fraction, per_call, share, with_interval
from kentry.show.sections import Chart, Deltas, Fold, InText, OnPage, Section

_FIRMWARE = "firmware_instructions"
_USER = "user_instructions"
# Counts of other windows that a row names, the commonest first.
_OTHERS = 4
# The functions that states add are printed for at most this many states.
_STATES_COMPARED = 8
# The matrix itself says where a count is undecided, so these caveats of its cases are left out.
_IN_MATRIX = (caveats.no_majority("", 0)["kind"], caveats.unrecorded_path("", 0)["kind"])

# What a vector state adds to the same case without use: the comparison and both states.
AddedByState = tuple[CaseComparison, State, State]


def recording_layout(
    recording: Recording,
    floor: Mapping[str, int] | None = None,
    added: Iterable[AddedByState] = (),
) -> Layout:
    """Lays out a recording, with ratios to the counts of `floor`, and what vector states add."""
    arch, every = ARCHES.get(recording.kernel["arch"]), recording.cases
    counts: list[Block] = []
    if cases := cases_without_state(recording):
        numbers = {case.name: at for at, case in enumerate(every, start=1)}
        counts += ["", _case_table(cases, floor or {}, numbers)]
        counts += recording_context_blocks(recording, cases)
    with_state = len(cells_of(recording))
    if with_state and arch:
        counts += ["", *matrix_blocks(recording, arch)]
    if 0 < with_state <= _STATES_COMPARED:
        counts += _added_blocks(added)
    blocks: list[Block] = [
        InText([*provenance.kernel_lines(recording.kernel), *provenance.emulator_lines(recording)]),
        Section("Cases", counts),
    ]
    if models := [*estimate_blocks(every), *miss_blocks(every)]:
        blocks.append(Section("By models, not measured", models))
    checked = sum(bool(case.checked) for case in every)
    if checked and arch:
        agrees = f"agrees in {checked} of {len(every)} cases."
        blocks += ["", Prose(f"The machine's own counter ({arch.counter.what}) {agrees}")]
    timed = [case for case in every if case.noisy]
    folds = [_fold(recording, case, number) for number, case in enumerate(every, start=1)]
    # One case is open: the first that has something to look at.
    shown = next((fold for fold in folds if any(map(_is_drawn, fold.blocks))), None)
    folds = [replace(fold, open=fold is shown) for fold in folds]
    times = [Section("Times", [_time_table(timed)])] if timed else []
    blocks.append(OnPage([*times, Section("Each case", [charts.ICICLE_HELP, *folds])]))
    counted = len(every) - sum(not case.metrics for case in timed)
    amounts = [
        f"{amount(count, 'case')} {what}"
        for count, what in ((counted, "counted"), (len(timed), "timed"))
        if count
    ]
    return Layout(
        "recording",
        provenance.kernel_name(recording.kernel),
        ", ".join(amounts),
        blocks,
        [*recording.caveats, *case_caveats(every)],
        **provenance.how_measured(recording.tool, recording),
        versions=provenance.versions(recording),
        command=provenance.repeat("record", [recording], [case.name for case in every]),
    )


def cases_without_state(recording: Recording) -> list[CaseResult]:
    """Returns the cases with counts that are no part of the matrix."""
    counted = (case for case in recording.cases if INSTRUCTIONS in case.metrics)
    return [case for case in counted if not case.parsed.state]


def case_caveats(cases: Iterable[CaseResult]) -> Iterator[Caveat]:
    """Yields the caveats of cases, except what the matrix says of those with a state."""
    for case in cases:
        in_matrix = case.parsed.state and not case.metrics[INSTRUCTIONS].is_decided
        for caveat in case.caveats:
            if not (in_matrix and caveat["kind"] in _IN_MATRIX):
                yield caveat


def _case_table(
    cases: Iterable[CaseResult], floor: Mapping[str, int], numbers: Mapping[str, int]
) -> Table:
    firmware = any(case.metrics[_FIRMWARE].value for case in cases if _FIRMWARE in case.metrics)
    heads = ["instructions", *["x floor"] * bool(floor), *["firmware"] * firmware, "windows"]
    others = text_column("other windows", wraps=True)
    table = Table([text_column("case"), *map(Column, heads), others], keys=2)
    for case in cases:
        count, below = case.metrics[INSTRUCTIONS], case.metrics.get(_FIRMWARE)
        name = Cell(case.name, link=f"case-{numbers[case.name]}")
        cells: list[object] = [name, count.value]
        if floor:
            least = floor.get(case.name)
            cells.append(f"{count.value / least:.1f}" if least else "-")
        cells += [below.value if below else 0] if firmware else []
        table.row(*cells, f"{count.agreeing} of {count.windows}", ", ".join(_other_windows(case)))
    return table


def _other_windows(case: CaseResult) -> Iterator[str]:
    count = case.metrics[INSTRUCTIONS]
    if count.value == 0:
        yield f"{case.metrics[_USER].value} instructions in user space"
    # Of two paths of one length the commonest, which comes first, gives the reason.
    reasons = {path.length: f" ({path.why})" for path in reversed(case.paths) if path.why}
    rare = sorted(
        (pair for pair in count.samples if pair[0] not in (count.value, *case.values)),
        key=lambda pair: (-pair[1], pair[0]),
    )
    for value, times in rare[:_OTHERS]:
        yield f"{times} x {value}{reasons.get(value, '')}"
    if rest := rare[_OTHERS:]:
        values = [value for value, _ in rest]
        yield f"{sum(times for _, times in rest)} from {min(values)} to {max(values)}"
    if interrupted := sum(times for _, times in case.interrupted):
        yield f"{interrupted} interrupted, set apart"


def _added_blocks(added: Iterable[AddedByState]) -> Iterator[Block]:
    tables: dict[tuple[object, ...], tuple[CaseComparison, State, list[str]]] = {}
    for case, state, base in added:
        if case.delta:
            changed = (function for function in case.functions if function.delta)
            call = CaseName.parse(case.name).call
            key = (call, base, case.old, len(case.functions), *changed)
            tables.setdefault(key, (case, base, []))[2].append(str(state))
    for case, base, states in tables.values():
        call = CaseName.parse(case.name).call
        title = f"{call}: {', '.join(states)} over {base} ({case.delta:+d})"
        yield from ("", title, Deltas(case.functions, case.old, case.new))


def matrix_blocks(recording: Recording, arch: Arch) -> list[Block]:
    """A row a state: its count per call, the ratio to "none", its events; then the markers."""
    cells = cells_of(recording)
    keys = [text_column("case"), Column("vl"), text_column("state")]
    events = text_column("events per call", wraps=True)
    table = Table([*keys, Column("instructions"), Column("x none"), events], keys=len(keys))
    cpu = recording.target.get("processor", MAX)
    above: tuple[str, int] | None = None
    for case, state in cells:
        label = (case.parsed.call, vector_bits(arch, cpu, state.unit, state.length))
        count, calls = case.metrics[INSTRUCTIONS], case.parsed.calls
        base = without_use(case, state, cells)
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
    units = ", ".join(f"{u.name} is {u.what}" for u in arch.vector.units if u.name in named)
    # The kernel code by which each event was found, and the events that have none.
    markers = recording.markers or {}
    known = "; ".join(f"{event}: {label}" for event, label in markers.items())
    absent = [marker.event for marker in arch.vector.markers if marker.event not in markers]
    blocks: list[Block] = [table, "", Prose(f"markers: {known}")]
    if absent:
        blocks += [Prose(f"not in this kernel, so not counted: {', '.join(absent)}")]
    return [*blocks, Prose(f"{units}; vl: bits")]


def _events(case: CaseResult) -> str:
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


def _is_drawn(block: Block) -> bool:
    return isinstance(block, Chart) or (
        isinstance(block, Section) and any(map(_is_drawn, block.blocks))
    )


def _fold(recording: Recording, case: CaseResult, number: int) -> Fold:
    count = case.metrics.get(INSTRUCTIONS)
    path, arch = case.modal_path, ARCHES.get(recording.kernel["arch"])
    blocks: list[Block] = []
    if path and path.length and arch:
        code = recording.instructions(path)
        drawn = charts.frames(code, arch)
        sizes: Counter[str] = Counter()
        for frame in drawn:
            if not frame.depth:
                sizes[frame.name] += frame.size
        label = f"{case.name}: {path.length} instructions from left to right, by call"
        kinds = {name: f"{name} {size}" for name, size in sizes.items()}
        icicle, left_out = charts.icicle(drawn, path.length, label)
        blocks.append(Chart(icicle, f"= {path.length} instructions{left_out}", kinds))
    elif count and count.value:
        blocks.append(f"No path of it was recorded. {recording.path_remedy}")
    if case.functions:
        whole = sum(size for _, size in case.functions)
        table = Table([text_column("function"), Column("instructions"), Column("share")])
        for name, size in sorted(case.functions, key=lambda pair: -pair[1]):
            table.row(name, size, share(size, whole))
        table.row("total", Cell(str(whole), "sum"), "")
        blocks.append(Fold("Functions", [table]))
    if len(case.paths) > 1:
        recorded = sum(path.times for path in case.paths)
        heads = map(Column, ("instructions", "windows", "share"))
        table = Table([*heads, text_column("why")])
        for other in case.paths:
            why = other.why or other.role
            table.row(other.length, other.times, share(other.times, recorded), why)
        blocks.append(Fold(f"{len(case.paths)} distinct paths", [table]))
    if path and path.length and arch:
        amounts = part_table(part_amounts(code, path.accesses, arch))
        blocks.append(Fold("What the path loads, stores and touches", [amounts]))
    if case.noisy:
        # It loads numpy, which counts do not need.
        from kentry.results.samples import distribution

        noisy = {metric: distribution(timed) for metric, timed in case.noisy.items()}
        blocks += time_blocks(case.name, recording.kernel["spec"], noisy)
    title = f"{case.name}: {count.value} kernel instructions" if count else case.name
    return Fold(title, blocks, f"case-{number}")


def _time_table(cases: Iterable[CaseResult]) -> Table:
    texts = [text_column("case"), text_column("metric"), Column("value"), text_column("unit")]
    table = Table([*texts, *map(Column, ("interval", "noise floor", "would see"))])
    for case in cases:
        for metric, timed in case.noisy.items():
            value, interval = with_interval(timed.value, timed.interval)
            limits = map(fraction, (timed.floor, timed.detectable))
            table.row(case.name, metric, value, timed.unit, interval, *limits)
    return table


def time_blocks(
    case: str,
    kernel: str,
    noisy: Mapping[str, Distribution],
    beside: Mapping[str, Distribution] | None = None,
) -> Iterator[Block]:
    """Lays out the noisy metrics of a case: their processes, on one axis with those of `beside`."""
    for metric, timed in noisy.items():
        value, interval = with_interval(timed.value, timed.interval)
        blocks: list[Block] = []
        # One published number has no distribution.
        if len(timed.values) > 1:
            other = beside.get(metric) if beside else None
            label = f"{kernel}, {case}, {metric}: {value} {timed.unit} {interval}"
            drawing = charts.spread(timed, label, other)
            level = f" ({100 * timed.confidence:.4g} %)" if timed.confidence else ""
            caption = (
                f"Each process of the run. The line is the interval{level}, the band the noise"
                f" floor ({fraction(timed.floor)} of the value). {len(timed.values)} processes;"
                f" {timed.estimator}."
            )
            blocks.append(Chart(drawing, caption))
        if timed.absent:
            blocks.append(f"Absent: {', '.join(timed.absent)}.")
        yield Section(f"{kernel}, {metric}: {value} {timed.unit} {interval}", blocks)
