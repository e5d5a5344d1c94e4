# SPDX-License-Identifier: GPL-2.0-or-later
"""Callgrind's format, version 1, which KCachegrind and callgrind_annotate read.

https://valgrind.org/docs/manual/cl-format.html.  A case is a function without a cost of its own
that calls the functions of its entry.  Positions are addresses.
"""

from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence

from kentry import __version__
from kentry.path.metrics import LOADS, STORES
from kentry.results.recording import INSTRUCTIONS, Recording
from kentry.show.export.common import Export, printable
from kentry.show.export.stacks import CaseStacks, stacks
from kentry.show.frame import kernel_name

# Callgrind's own names of what it counts, too, which KCachegrind has words for.
_EVENTS = {INSTRUCTIONS: "Ir", LOADS: "Dr", STORES: "Dw", "branches.indirect": "Bi"}

_OBJECT = "[kernel.kallsyms]"
# What callgrind itself writes where it knows no source; callgrind_annotate needs a name.
_FILE = "???"

# A function and where in it, and for a call the function that it enters and where.
_Line = tuple[str, int]
_Call = tuple[str, int, str, int]


def export(recordings: Sequence[Recording]) -> Export:
    """The cases of one recording, as one program's run."""
    found = stacks(recordings)
    metrics = found.metrics
    own: dict[_Line, Counter[str]] = defaultdict(Counter)
    calls: dict[_Call, Counter[str]] = defaultdict(Counter)
    times: Counter[_Call] = Counter()
    for case in found.cases:
        _add(case, metrics, own, calls, times)
    totals = Counter[str]()
    for costs in own.values():
        totals.update(costs)
    kernel = printable("; ".join(kernel_name(one.kernel) for one in recordings))
    lines = [
        "# callgrind format",
        "version: 1",
        f"creator: kentry {__version__}",
        f"cmd: {kernel}",
        "part: 1",
        "",
        "desc: Unit: the modal path of each case, once",
        "positions: instr",
        *(f"event: {_EVENTS[name]} : {name}" for name in metrics if name in _EVENTS),
        f"events: {' '.join(_EVENTS.get(name, name) for name in metrics)}",
        f"summary: {_costs(totals, metrics)}",
        *_functions(metrics, own, calls, times),
        "",
        f"totals: {_costs(totals, metrics)}",
    ]
    return Export("\n".join(lines) + "\n", found.notes)


def _add(
    case: CaseStacks,
    metrics: Sequence[str],
    own: dict[_Line, Counter[str]],
    calls: dict[_Call, Counter[str]],
    times: Counter[_Call],
) -> None:
    for name in metrics:
        for position, amount in case.amounts[name].items():
            insn = case.path[position]
            own[insn.function, insn.address][name] += amount
    sums = {name: case.sums(name) for name in metrics}
    for span in case.calls.spans:
        if span.caller is None or span.site is None:
            place = (case.name, 0)
        else:
            place = (case.calls.spans[span.caller].function, case.path[span.site].address)
        call = (*place, span.function, case.path[span.start].address)
        times[call] += 1
        calls[call].update({name: sum_[span.end] - sum_[span.start] for name, sum_ in sums.items()})


def _functions(
    metrics: Sequence[str],
    own: dict[_Line, Counter[str]],
    calls: dict[_Call, Counter[str]],
    times: Counter[_Call],
) -> Iterator[str]:
    """Each function's own lines, then its calls; a name is written once and then a number."""
    numbers: dict[str, int] = {}

    def named(function: str) -> str:
        if function in numbers:
            return f"({numbers[function]})"
        numbers[function] = len(numbers) + 1
        return f"({numbers[function]}) {function}"

    lines: dict[str, list[tuple[int, Counter[str]]]] = defaultdict(list)
    for (function, address), costs in own.items():
        lines[function].append((address, costs))
    called: dict[str, list[_Call]] = defaultdict(list)
    for call in calls:
        called[call[0]].append(call)
    for function in dict.fromkeys([*called, *lines]):
        yield ""
        yield from (f"ob={_OBJECT}", f"fl={_FILE}") if not numbers else ()
        yield f"fn={named(function)}"
        for address, costs in sorted(lines[function], key=lambda line: line[0]):
            yield f"{address:#x} {_costs(costs, metrics)}"
        for call in called[function]:
            _, site, callee, entered = call
            yield f"cfn={named(callee)}"
            yield f"calls={times[call]} {entered:#x}"
            yield f"{site:#x} {_costs(calls[call], metrics)}"


def _costs(costs: Counter[str], metrics: Sequence[str]) -> str:
    return " ".join(str(costs[name]) for name in metrics)
