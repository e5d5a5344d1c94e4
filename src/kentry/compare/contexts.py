# SPDX-License-Identifier: GPL-2.0-or-later
"""A change between two kernels that both have several contexts, function by function.

A function may execute another number of instructions in another context of the same kernel: it
walks a hash chain, or takes a branch for one slab page and not for another.  Such a difference is
no change between kernels.  What each function executes is therefore compared as the set of its
counts in all contexts.  docs/methods.md has the rules with examples.
"""

from collections import Counter
from collections.abc import Mapping, Set
from dataclasses import dataclass
from math import gcd

from kentry.model.recording import INSTRUCTIONS, CaseResult, KernelPath, Recording
from kentry.path.symbols import base_name
from kentry.stats import exact

# A loop's body has at least this many instructions: load, compare, branch, advance.
_LOOP = 4
# With fewer contexts nothing can be said of a case whose every context has another count.
_FEW = 3

# A function's count in each context.
Counts = Mapping[int, int]


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
    """Whether most contexts have a commonest count, and one that other contexts have too."""
    decided = sum(exact.is_decided(dict(one.samples)) for one in case.contexts)
    few = len(case.contexts) < _FEW
    return 2 * decided >= len(case.contexts) and (few or len(case.values) < len(case.contexts))


def functions_by_context(case: CaseResult, recording: Recording) -> dict[int, Counter[str]]:
    """What each function executes in each context, a compiler's clones as one."""
    found: dict[int, Counter[str]] = {}
    shares: dict[int, Counter[str]] = {}
    for context, path in paths_by_context(case).items():
        if id(path) not in shares:
            names = (base_name(insn.function) for insn in recording.instructions(path))
            shares[id(path)] = Counter(names)
        found[context] = shares[id(path)]
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


def varying(by_context: Mapping[int, Mapping[str, int]]) -> dict[str, dict[int, int]]:
    """Functions with several counts: in how many contexts each."""
    names = dict.fromkeys(name for shares in by_context.values() for name in shares)
    found = {}
    for name in names:
        counts = Counter(shares.get(name, 0) for shares in by_context.values())
        if len(counts) > 1:
            found[name] = dict(sorted(counts.items()))
    return found


def loop_bodies(case: CaseResult, recording: Recording) -> dict[str, int]:
    """The instructions of a round for each function that goes through a loop more or less often.

    A context's path that executes each of n instructions k times more has k rounds of n more.
    """
    offsets: dict[str, list[Counter[int]]] = {}
    for path in {id(one): one for one in paths_by_context(case).values()}.values():
        own: dict[str, Counter[int]] = {}
        for insn in recording.instructions(path):
            own.setdefault(base_name(insn.function), Counter())[insn.offset] += 1
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
    old: Mapping[int, Mapping[str, int]],
    new: Mapping[int, Mapping[str, int]],
    bodies: Mapping[str, int],
    *,
    paired: bool,
) -> dict[str, Change]:
    """Each function's change; `paired`: a context of one number is the same on both sides.

    `bodies` are those of loop_bodies(), of functions for which both sides agree.
    """
    names = dict.fromkeys(name for side in (old, new) for own in side.values() for name in own)
    found = {}
    for name in names:
        a, b = ({key: own.get(name, 0) for key, own in side.items()} for side in (old, new))
        pairs = {b[key] - a[key] for key in a.keys() & b.keys()} if paired else set()
        found[name] = _change(set(a.values()), set(b.values()), pairs, bodies.get(name, 0))
    return found


def _change(old: Set[int], new: Set[int], pairs: Set[int], body: int) -> Change:
    """The change between two sets of counts; `pairs` are the differences context by context."""
    if len(pairs) == 1:
        return Change(*pairs, *pairs)
    if body and min(old) and min(new):
        rounds = {(count - min(old)) % body for count in old | new}
        if rounds == {0}:
            return Change(0, 0)
    shift = min(new) - min(old)
    if {count + shift for count in old} == new:
        return Change(shift, shift)
    if old & new and (old <= new or new <= old) and (not pairs or 0 in pairs):
        # One kernel has been seen in more contexts than the other.
        return Change(0, 0)
    for by in sorted({*pairs, shift, max(new) - max(old)}, key=abs) if not old & new else ():
        moved = {count + by for count in old}
        if moved <= new or new <= moved:
            return Change(by, by)
    between = pairs or {shift, max(new) - max(old)}
    return Change(min(between), max(between))


def same_contexts(old: Recording, new: Recording) -> bool:
    """Whether both were measured in contexts that were made alike."""
    return bool(old.contexts) and old.contexts == new.contexts


def is_listed(case: CaseResult, recording: Recording, value: int) -> bool:
    """Whether the case can have this count by what was seen in its contexts.

    Each function that varies adds one of its counts, or some rounds of its loop, to those of the
    functions that do not.
    """
    by_context = functions_by_context(case, recording)
    bodies = loop_bodies(case, recording)
    shares = next(iter(by_context.values()), None)
    if value in case.values or shares is None:
        return value in (case.values or [case.metrics[INSTRUCTIONS].value])
    several = varying(by_context)
    sums = {sum(count for name, count in shares.items() if name not in several)}
    for name, counts in several.items():
        body = bodies.get(name)
        can_be = range(min(counts), value + 1, body) if body else sorted(counts)
        sums = {total + count for total in sums for count in can_be if total + count <= value}
    return value in sums
