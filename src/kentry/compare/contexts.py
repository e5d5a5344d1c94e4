# SPDX-License-Identifier: GPL-2.0-or-later
"""A change between two kernels that both have several contexts, function by function.

A function may execute another number of instructions in another context of the same kernel: it
walks a hash chain, or takes a branch for one slab page and not for another.  Such a difference is
no change between kernels.  What each call of a function executes is therefore compared as the set
of its counts in all contexts.  docs/methods.md has the rules with examples.
"""

from collections import Counter
from collections.abc import Container, Mapping, Sequence, Set
from dataclasses import dataclass
from math import gcd

from kentry.path.symbols import base_name
from kentry.results.recording import INSTRUCTIONS, CaseResult, KernelPath, Recording
from kentry.stats import exact

# A loop's body has at least this many instructions: load, compare, branch, advance.
_LOOP = 4
# With fewer contexts nothing can be said of a case whose every context has another count.
_FEW = 3
# With fewer paths, of all contexts, one side's may all be of one boot and the other's of another.
_KNOWN = 3 / 4
# A case with more counts beside one than this share of its contexts may have any count.
_MANY = 1 / 2
# A number of calls that fewer contexts have is a rare path's.  The first boot has a quarter of all.
_OFTEN = 1 / 5

# What each call of each function executes.
Calls = Mapping[str, Sequence[int]]


@dataclass(frozen=True)
class Change:
    """By how much a function's share changed: from `low` to `high`, the same where it is known."""

    low: int
    high: int

    @property
    def is_known(self) -> bool:
        """Whether it is the same in every context."""
        return self.low == self.high


def settles(case: CaseResult) -> bool:
    """Whether most contexts have a commonest count with a path, and not too many others."""
    contexts = len(case.contexts)
    decided = sum(exact.is_decided(dict(one.samples)) for one in case.contexts)
    known = len(paths_by_context(case)) if case.paths else contexts
    few = contexts < _FEW
    return (
        2 * decided >= contexts
        and known >= _KNOWN * contexts
        and (few or len(case.values) - 1 <= _MANY * contexts)
    )


def functions_by_context(case: CaseResult, recording: Recording) -> dict[int, Counter[str]]:
    """What each function executes in each context, a compiler's clones as one."""
    found: dict[int, Counter[str]] = {}
    for path, contexts in distinct_paths(case):
        found |= dict.fromkeys(contexts, functions_of(path, recording))
    return found


def functions_of(path: KernelPath, recording: Recording) -> Counter[str]:
    """What each function executes in a path, a compiler's clones as one."""
    found: Counter[str] = Counter()
    for index, times in path.executions().items():
        found[base_name(recording.code[index].function)] += times
    return found


def calls_by_context(case: CaseResult, recording: Recording) -> dict[int, Calls]:
    """What each call of each function executes in each context, callees apart.

    A call begins with the function's first instruction.
    """
    names = [base_name(insn.function) for insn in recording.code]
    found: dict[int, Calls] = {}
    for path, contexts in distinct_paths(case):
        own: dict[str, list[int]] = {}
        for index in path.indexes:
            counts = own.setdefault(names[index], [])
            if not counts or recording.code[index].offset == 0:
                counts.append(0)
            counts[-1] += 1
        found |= dict.fromkeys(contexts, own)
    return found


def paths_by_context(case: CaseResult) -> dict[int, KernelPath]:
    """The commonest path of each context that has one.

    A context whose own path was not recorded has the path of its length, if there is one.  A
    recording from before contexts has its modal path in one context.
    """
    by_length = {path.length: path for path in reversed(case.paths)}
    if not case.contexts:
        return {0: case.modal_path} if case.modal_path else {}
    paths = {
        one.context: by_length.get(one.value) if one.path is None else case.paths[one.path]
        for one in case.contexts
    }
    return {context: path for context, path in paths.items() if path}


def distinct_paths(case: CaseResult) -> list[tuple[KernelPath, list[int]]]:
    """Each of those paths once, with its contexts."""
    found: dict[int, tuple[KernelPath, list[int]]] = {}
    for context, path in paths_by_context(case).items():
        found.setdefault(id(path), (path, []))[1].append(context)
    return list(found.values())


def varying(by_context: Mapping[int, Mapping[str, int]]) -> dict[str, dict[int, int]]:
    """Functions with several counts: in how many contexts each."""
    names = dict.fromkeys(name for shares in by_context.values() for name in shares)
    found = {}
    for name in names:
        counts = Counter(shares.get(name, 0) for shares in by_context.values())
        if len(counts) > 1:
            found[name] = dict(sorted(counts.items()))
    return found


def loop_bodies(case: CaseResult, recording: Recording, names: Container[str]) -> dict[str, int]:
    """The instructions of a round for each function that goes through a loop more or less often.

    Only functions of `names` are looked at: those with several counts.
    A context's path that executes each of n instructions k times more has k rounds of n more.
    """
    offsets: dict[str, list[Counter[int]]] = {}
    for path, _ in distinct_paths(case):
        own: dict[str, Counter[int]] = {}
        for index, times in path.executions().items():
            insn = recording.code[index]
            if (name := base_name(insn.function)) in names:
                own.setdefault(name, Counter())[insn.offset] += times
        for name, counts in own.items():
            offsets.setdefault(name, []).append(counts)
    bodies = {}
    for name, paths in offsets.items():
        least = min(paths, key=Counter.total)
        more = [path - least for path in paths]
        body = gcd(*(one.total() // gcd(*one.values()) for one in more if one))
        if body >= _LOOP:
            bodies[name] = body
    return bodies


def changes(
    old: Mapping[int, Calls], new: Mapping[int, Calls], bodies: Mapping[str, int], *, paired: bool
) -> dict[str, Change]:
    """Each function's change; `paired`: a context of one number is the same on both sides.

    `bodies` are those of loop_bodies(), of functions for which both sides agree.
    """
    names = dict.fromkeys(name for side in (old, new) for own in side.values() for name in own)
    both: Sequence[int] = sorted(old.keys() & new.keys()) if paired else ()
    found = {}
    for name in names:
        a, b = (
            {context: tuple(own.get(name, ())) for context, own in side.items()}
            for side in (old, new)
        )
        body = bodies.get(name, 0)
        if len({sum(b[context]) - sum(a[context]) for context in both}) == 1:
            change = sum(b[both[0]]) - sum(a[both[0]])
            found[name] = Change(change, change)
            continue
        likely = [_of_calls(*alike, both, body) for alike in _called_alike(a, b)]
        found[name] = Change(min(one.low for one in likely), max(one.high for one in likely))
    return found


# What each call of a function executes, in each context.
_InContexts = Mapping[int, tuple[int, ...]]


def _called_alike(old: _InContexts, new: _InContexts) -> list[tuple[_InContexts, _InContexts]]:
    """The contexts with as many calls on both sides, for each number of calls that is often seen.

    All contexts, as if of one call, where those are not most of either side's.
    """
    sides = (old, new)
    seen = [Counter(map(len, side.values())) for side in sides]
    often = [
        number for number in seen[0] if all(own[number] >= _OFTEN * own.total() for own in seen)
    ]
    if any(2 * sum(own[number] for number in often) <= own.total() for own in seen):
        sums = [{at: (sum(calls),) for at, calls in side.items()} for side in sides]
        return [(sums[0], sums[1])]
    return [
        (
            {at: calls for at, calls in old.items() if len(calls) == number},
            {at: calls for at, calls in new.items() if len(calls) == number},
        )
        for number in often
    ]


def _of_calls(old: _InContexts, new: _InContexts, both: Sequence[int], body: int) -> Change:
    """The change of all calls, as many in each context of either side."""
    pairs = [(old[at], new[at]) for at in both if at in old and at in new]
    calls = [
        _change(
            Counter(own[call] for own in old.values()),
            Counter(own[call] for own in new.values()),
            {after[call] - before[call] for before, after in pairs},
            body,
        )
        for call in range(len(next(iter(old.values()))))
    ]
    return Change(sum(one.low for one in calls), sum(one.high for one in calls))


def _change(old: Counter[int], new: Counter[int], pairs: Set[int], body: int) -> Change:
    """The change between two sides' counts, each with how many contexts had it.

    `pairs` are the differences context by context.
    """
    if len(pairs) == 1:
        return Change(*pairs, *pairs)
    if body and min(old) and min(new):
        rounds = {(count - min(old)) % body for count in old.keys() | new.keys()}
        if rounds == {0}:
            return Change(0, 0)
    shift = min(new) - min(old)
    if {count + shift for count in old} == new.keys() or {0} in (old.keys(), new.keys()):
        # Of a function that only one kernel has: its least share.
        return Change(shift, shift)
    if _of_contexts(old, new, pairs):
        return Change(0, 0)
    common = old.keys() & new.keys()
    likely = {*pairs, shift, max(new) - max(old)} if not common else set()
    fitting = [by for by in likely if _is_within({count + by for count in old}, new.keys())]
    if fitting:
        # The least change, or the one that explains more contexts.
        by_size = sorted(fitting, key=abs)
        both = by_size[0], max(by_size, key=lambda by: _overlap(old, new, by))
        return Change(min(both), max(both))
    between = {*pairs} or {shift, max(new) - max(old)}
    if not pairs and max(min(old), min(new)) <= min(max(old), max(new)):
        # Each side has been between the other's counts: there may be no change at all.
        between.add(0)
    return Change(min(between), max(between))


def _overlap(old: Counter[int], new: Counter[int], by: int) -> float:
    """The share of contexts in which both have the same counts once the old ones are moved."""
    return sum(min(old[n] / old.total(), new[n + by] / new.total()) for n in old)


def _is_within(some: Set[int], others: Set[int]) -> bool:
    """Whether one has all counts of the other."""
    return some <= others or others <= some


def _of_contexts(old: Counter[int], new: Counter[int], pairs: Set[int]) -> bool:
    """Whether each side was just seen in contexts in which the other was not.

    One side has all counts of the other, or both have several of them in most contexts, or one in
    nearly all.  Context by context there is then no difference, or as well one way as the other.
    """
    if _is_within(old.keys(), new.keys()):
        return not pairs or 0 in pairs
    common = old.keys() & new.keys()
    of_both = [sum(side[count] for count in common) / side.total() for side in (old, new)]
    mostly = min(of_both) > (1 / 2 if len(common) > 1 else 1 - _OFTEN)
    return mostly and (not pairs or min(pairs) < 0 < max(pairs))


def same_contexts(old: Recording, new: Recording) -> bool:
    """Whether both were measured in contexts that were made alike."""
    return bool(old.contexts) and old.contexts == new.contexts


def listed(case: CaseResult, recording: Recording, most: int) -> Set[int]:
    """The counts up to `most` that the case can have by what was seen in its contexts.

    Those are the lengths of its recorded paths, and sums of what its functions executed: each call
    of one that varies adds one of its counts, or some rounds of its loop, to those of the others.
    """
    lengths = {path.length for path in case.paths}
    values = {*case.values, case.metrics[INSTRUCTIONS].value} | lengths
    by_context = calls_by_context(case, recording)
    if not by_context:
        return values
    several = varying(functions_by_context(case, recording))
    bodies = loop_bodies(case, recording, several)
    sums = {
        sum(sum(n) for name, n in next(iter(by_context.values())).items() if name not in several)
    }
    for name in several:
        calls = [own.get(name, ()) for own in by_context.values()]
        if len({len(counts) for counts in calls}) > 1:
            calls = [(sum(counts),) for counts in calls]
        for counts in map(set, zip(*calls, strict=True)):
            body = bodies.get(name)
            can_be = range(min(counts), most + 1, body) if body else sorted(counts)
            sums = {total + count for total in sums for count in can_be if total + count <= most}
    return sums | values
