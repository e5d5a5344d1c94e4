# SPDX-License-Identifier: GPL-2.0-or-later
"""What one kernel executed in each of a case's contexts: paths, functions, calls, loops."""

from collections import Counter
from collections.abc import Collection, Container, Mapping, Sequence
from functools import lru_cache
from math import gcd

from msgspec import UNSET

from kentry.arch import find_arch
from kentry.path.metrics import OF_CALLS, accessed_by_call, amounts_of_code, shares
from kentry.path.symbols import base_name
from kentry.results.recording import (
    INSTRUCTIONS,
    CaseResult,
    Instruction,
    KernelPath,
    Recording,
)
from kentry.stats import exact

# What each call of each function executes.
Calls = Mapping[str, Sequence[int]]


def settles(case: CaseResult) -> bool:
    """Tells whether most contexts have a commonest count with a path, and not too many others."""
    contexts = len(case.contexts)
    decided = sum(exact.is_decided(dict(context.samples)) for context in case.contexts)
    known = len(paths_by_context(case)) if case.paths else contexts
    return (
        decided >= contexts / 2
        # With fewer paths one side's may all be of one boot, and the other's of another.
        and known >= contexts * 3 / 4
        # With more counts beside one the case may have any; of two contexts that says nothing.
        and (contexts < 3 or len(case.values) - 1 <= contexts / 2)
    )


def paths_by_context(case: CaseResult) -> dict[int, KernelPath]:
    """Returns the commonest path of each context that has one.

    One whose own path was not recorded has the path of its length, if any; a recording from before
    contexts has its modal path in one.
    """
    by_length = {path.length: path for path in reversed(case.paths)}
    if not case.contexts:
        return {0: case.modal_path} if case.modal_path else {}
    paths = {
        c.context: by_length.get(c.value) if c.path is None else case.paths[c.path]
        for c in case.contexts
    }
    return {context: path for context, path in paths.items() if path}


def distinct_paths(case: CaseResult) -> list[tuple[KernelPath, list[int]]]:
    """Returns each of those paths once, with its contexts."""
    paths: dict[int, tuple[KernelPath, list[int]]] = {}
    for context, path in paths_by_context(case).items():
        paths.setdefault(id(path), (path, []))[1].append(context)
    return list(paths.values())


def functions_by_context(case: CaseResult, recording: Recording) -> dict[int, Counter[str]]:
    """Returns what each function executes in each context, a compiler's clones as one."""
    by_context: dict[int, Counter[str]] = {}
    for path, contexts in distinct_paths(case):
        by_context |= dict.fromkeys(contexts, functions_of(path, recording))
    return by_context


def functions_of(path: KernelPath, recording: Recording) -> Counter[str]:
    """Returns what each function executes in a path, a compiler's clones as one."""
    counts: Counter[str] = Counter()
    for index, times in Counter(path.indexes).items():
        counts[base_name(recording.code[index].function)] += times
    return counts


def by_call(indexes: Sequence[int], code: Sequence[Instruction]) -> tuple[list[str], list[int]]:
    """Returns the function of each call in a path, and which call each position is of.

    A call is begun by a function's first instruction and is without its callees; a compiler's
    clones are one function.
    """
    calls: list[str] = []
    # The last call of each function.
    last: dict[str, int] = {}
    positions = []
    for index in indexes:
        name = base_name(code[index].function)
        if name not in last or code[index].offset == 0:
            last[name] = len(calls)
            calls.append(name)
        positions.append(last[name])
    return calls, positions


# A check asks for one metric after the other.
_amounts = lru_cache(maxsize=64)(amounts_of_code)


def calls_by_context(
    case: CaseResult, recording: Recording, metrics: Collection[str] = (INSTRUCTIONS,)
) -> dict[str, dict[int, Calls]]:
    """Returns what each call has of metrics that the path determines, by metric and context.

    A context is missing where the accesses of its path are not known.
    """
    by_metric: dict[str, dict[int, Calls]] = {metric: {} for metric in metrics}
    arch = find_arch(recording.kernel["arch"])
    for path, contexts in distinct_paths(case):
        calls, positions = by_call(path.indexes, recording.code)
        amounts: Mapping[str, Counter[int]] = {}
        if not {*metrics} <= {INSTRUCTIONS, *OF_CALLS}:
            amounts = _amounts(tuple(recording.instructions(path)), arch)
        of_calls = {name: shares(own, positions) for name, own in amounts.items()}
        of_calls[INSTRUCTIONS] = Counter(positions)
        accessed = path.accessed
        if {*metrics}.isdisjoint(OF_CALLS):
            accessed = UNSET
        elif accessed is UNSET and path.accesses is not None:
            accessed = accessed_by_call(path.accesses, positions)
        if accessed is not UNSET:
            for column, name in enumerate(OF_CALLS):
                of_calls[name] = Counter({n: row[column] for n, row in enumerate(accessed)})
        for metric in metrics:
            if metric in OF_CALLS and accessed is UNSET:
                continue
            own = of_calls.get(metric, Counter())
            of_functions: dict[str, list[int]] = {}
            for number, name in enumerate(calls):
                of_functions.setdefault(name, []).append(own[number])
            by_metric[metric] |= dict.fromkeys(contexts, of_functions)
    return by_metric


def varying(by_context: Mapping[int, Mapping[str, int]]) -> dict[str, dict[int, int]]:
    """Returns functions with several counts: in how many contexts each."""
    contexts = by_context.values()
    names = dict.fromkeys(name for shares in contexts for name in shares)
    counts = {name: Counter(shares.get(name, 0) for shares in contexts) for name in names}
    return {name: dict(sorted(own.items())) for name, own in counts.items() if len(own) > 1}


def loop_bodies(case: CaseResult, recording: Recording, names: Container[str]) -> dict[str, int]:
    """Returns the length of a round for each of `names` that loops more or less often.

    A context's path that executes each of n instructions k times more has k rounds of n more.
    """
    offsets: dict[str, list[Counter[int]]] = {}
    for path, _ in distinct_paths(case):
        own: dict[str, Counter[int]] = {}
        for index, times in Counter(path.indexes).items():
            insn = recording.code[index]
            if (name := base_name(insn.function)) in names:
                own.setdefault(name, Counter())[insn.offset] += times
        for name, counts in own.items():
            offsets.setdefault(name, []).append(counts)
    bodies = {}
    for name, paths in offsets.items():
        least = min(paths, key=Counter.total)
        more = [path - least for path in paths]
        body = gcd(*(counts.total() // gcd(*counts.values()) for counts in more if counts))
        # At least load, compare, branch, advance.
        if body >= 4:
            bodies[name] = body
    return bodies
