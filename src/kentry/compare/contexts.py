# SPDX-License-Identifier: GPL-2.0-or-later
"""A change between two kernels that both have several contexts, function by function.

A function may execute another number of instructions in another context of the same kernel: it
walks a hash chain, or takes a branch for one slab page and not for another.  Such a difference is
no change between kernels.  What each call of a function executes is therefore compared as the set
of its counts in all contexts.  docs/methods.md has the rules with examples.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

from kentry.arch import find_arch
from kentry.arch.record import Arch
from kentry.compare.code import changed_functions
from kentry.path import variation
from kentry.path.stream import stream
from kentry.path.symbols import base_name
from kentry.results.recording import (
    INSTRUCTIONS,
    MODAL,
    OF_LAYOUT,
    CaseResult,
    Instruction,
    KernelPath,
    Metric,
    Recording,
)
from kentry.stats import exact

# A number of calls that fewer contexts have is a rare path's.  The first boot has a quarter of all.
_OFTEN = 1 / 5
# A metric is known of a case if it is of this share of the contexts with a path.
_KNOWN = 3 / 4


class Side(NamedTuple):
    """A case of one kernel, and the recording that has it."""

    case: CaseResult
    recording: Recording

    @property
    def arch(self) -> Arch:
        """The kernel's architecture."""
        return find_arch(self.recording.kernel["arch"])

    @property
    def path(self) -> list[Instruction] | None:
        """The modal path; None where none was recorded."""
        path = self.case.modal_path
        return self.recording.instructions(path) if path else None


class Change(NamedTuple):
    """By how much a share changed: from `low` to `high`, the same if it is so in every context."""

    low: int
    high: int


class MetricChange(NamedTuple):
    """A case's change of a metric that the path decides."""

    # What each function has in the old value's path, and by how much that changes.
    shares: Mapping[str, int]
    by_function: Mapping[str, Change]
    # Each side's value in each context.
    values: tuple[Mapping[int, int], Mapping[int, int]]


@dataclass(frozen=True)
class Sides:
    """A case of two kernels: what its rows of all metrics have in common, worked out once."""

    old: Side
    new: Side

    def __iter__(self) -> Iterator[Side]:
        yield from (self.old, self.new)

    @cached_property
    def changed(self) -> frozenset[str]:
        """The functions whose code differs, as changed_functions() says."""
        return changed_functions(self.old.recording, self.new.recording)

    @property
    def are_paired(self) -> bool:
        """Whether both were measured in the same contexts."""
        contexts = self.old.recording.contexts
        return bool(contexts) and contexts == self.new.recording.contexts

    @property
    def depend_on_contexts(self) -> bool:
        """Whether a side has several counts."""
        return any(len(side.case.values) > 1 for side in self)

    @property
    def settle(self) -> bool:
        """Whether both sides settle on a count."""
        return all(variation.settles(side.case) for side in self)

    @cached_property
    def identical_paths(self) -> tuple[Sequence[Instruction], Sequence[Instruction]] | None:
        """Both sides' path of a context that both kernels execute, the modal one if it is one.

        None where there is none, or a context meets changed code.
        """
        # A stream takes long to make, and two are the same only where all functions' shares are.
        before, after = (
            {
                frozenset(variation.functions_of(path, recording).items()): recording.instructions(
                    path
                )
                for path, _ in sorted(
                    variation.distinct_paths(case), key=lambda own: own[0].role != MODAL
                )
            }
            for case, recording in self
        )
        if any(name in self.changed for shares in before | after for name, _ in shares):
            return None
        arch = self.old.arch
        pairs = ((path, after[shares]) for shares, path in before.items() if shares in after)
        return next(
            (pair for pair in pairs if stream(pair[0], arch) == stream(pair[1], arch)), None
        )

    @cached_property
    def by_function(self) -> dict[str, Change] | None:
        """Each function's change over all contexts; None where a side has no path of any."""
        before, after = (variation.calls_by_context(*side)[INSTRUCTIONS] for side in self)
        if not before or not after:
            return None
        by_context = [{at: _sums(calls) for at, calls in side.items()} for side in (before, after)]
        bodies = [
            variation.loop_bodies(*side, variation.varying(shares))
            for side, shares in zip(self, by_context, strict=True)
        ]
        # A function has one body of a loop, or is in a loop on one side only.
        agreed = {
            name: body
            for name, body in (bodies[0] | bodies[1]).items()
            if all(own.get(name, body) == body for own in bodies)
        }
        return changes(before, after, agreed, self.changed, paired=self.are_paired)

    @property
    def are_unchanged(self) -> bool:
        """Whether both execute the same code, and what differs between them is of contexts."""
        names = self.by_function or ()
        return bool(self.identical_paths or (names and self._of_contexts == {*names}))

    @cached_property
    def _of_contexts(self) -> set[str]:
        """The functions whose code did not change and that differ by context alone."""
        by_function = self.by_function or {}
        return {
            name for name, change in by_function.items() if change == Change(0, 0)
        } - self.changed

    @cached_property
    def _steady(self) -> dict[str, bool]:
        """Those of them that execute the same on both sides in some context; whether one moved."""
        executed: list[set[tuple[str, tuple[int, ...]]]] = []
        starts: list[dict[str, int]] = []
        for case, recording in self:
            executed.append(set())
            starts.append({})
            for path, _ in variation.distinct_paths(case):
                offsets: dict[str, list[int]] = {}
                for insn in recording.instructions(path):
                    name = base_name(insn.function)
                    offsets.setdefault(name, []).append(insn.offset)
                    starts[-1][name] = insn.address - insn.offset
                executed[-1] |= {(name, tuple(own)) for name, own in offsets.items()}
        alike = {name for name, _ in executed[0] & executed[1]}
        return {name: starts[0][name] != starts[1][name] for name in self._of_contexts & alike}

    def by_metric(self, metrics: Sequence[str]) -> dict[str, MetricChange]:
        """What changed of each metric that both sides' paths decide; without those not known."""
        paths = [variation.distinct_paths(side.case) for side in self]
        if not all(paths):
            return {}
        several = any(len(own) > 1 for own in paths)
        calls_by_metric = [variation.calls_by_context(*side, metrics) for side in self]
        # The value's own path may not have been recorded in any context.
        modal = self.old.case.modal_path
        _, [context, *_] = max(paths[0], key=lambda own: (own[0] is modal, len(own[1])))
        known = {}
        for metric in metrics:
            calls = [own[metric] for own in calls_by_metric]
            if context not in calls[0] or not all(
                _is_known(side.case.metrics.get(metric), own, of_side)
                for side, own, of_side in zip(self, calls, paths, strict=True)
            ):
                continue
            shares = _sums(calls[0][context])
            if several:
                # Of code that moved, lines and pages are others.
                same = {
                    name: Change(0, 0)
                    for name, is_moved in self._steady.items()
                    if not (is_moved and metric in OF_LAYOUT)
                }
                before, after = (
                    {
                        at: {name: each for name, each in own.items() if name not in same}
                        for at, own in side.items()
                    }
                    for side in calls
                )
                rest = changes(before, after, {}, self.changed, paired=self.are_paired)
                by_function = same | rest
            else:
                now = _sums(next(iter(calls[1].values())))
                by_function = {
                    name: Change(*[now.get(name, 0) - shares.get(name, 0)] * 2)
                    for name in shares | now
                }
            old, new = (
                {at: sum(map(sum, own.values())) for at, own in side.items()} for side in calls
            )
            known[metric] = MetricChange(shares, by_function, (old, new))
        return known

    def place_change(self, metric: str) -> Change:
        """The change of a metric that depends on where data lies; none if the code is unchanged.

        It is exact where it is the same in every context, and otherwise from the least to the most
        that two contexts may differ by.
        """
        if self.are_unchanged:
            return Change(0, 0)
        before, after = (place_values(case, metric) for case, _ in self)
        both = before.keys() & after.keys() if self.are_paired else ()
        if len(by := {after[context] - before[context] for context in both}) == 1:
            return Change(*by, *by)
        seen = [
            {*values.values(), *(value for value, _ in case.metrics[metric].samples)}
            for values, (case, _) in zip((before, after), self, strict=True)
        ]
        return Change(min(seen[1]) - max(seen[0]), max(seen[1]) - min(seen[0]))


def _sums(calls: variation.Calls) -> dict[str, int]:
    """What each function executes in all of its calls."""
    return {name: sum(own) for name, own in calls.items()}


def _is_known(
    counted: Metric | None,
    calls: Mapping[int, variation.Calls],
    paths: Sequence[tuple[KernelPath, list[int]]],
) -> bool:
    """Whether paths decide a metric: those of most contexts, and an only one as its windows do."""
    if len(paths) == 1 and counted and calls:
        own = sum(map(sum, next(iter(calls.values())).values()))
        return counted.is_decided and counted.value == own
    return len(calls) >= _KNOWN * sum(len(at) for _, at in paths)


def sum_of(changes: Iterable[Change]) -> Change:
    """Returns all changes together."""
    low, high = map(sum, zip(*[Change(0, 0), *changes], strict=True))
    return Change(low, high)


def place_values(case: CaseResult, metric: str) -> dict[int, int]:
    """Returns each context's commonest value of a metric that depends on where data lies."""
    known = (context for context in case.contexts if metric in context.data)
    return {context.context: exact.mode(dict(context.data[metric])) for context in known}


def changes(
    old: Mapping[int, variation.Calls],
    new: Mapping[int, variation.Calls],
    bodies: Mapping[str, int],
    changed: Set[str] = frozenset(),
    *,
    paired: bool,
) -> dict[str, Change]:
    """Each function's change; `bodies`: those of loop_bodies(); `paired`: contexts are the same.

    Where a function is `changed`, by changed_functions(), other contexts explain no difference.
    """
    names = dict.fromkeys(name for side in (old, new) for own in side.values() for name in own)
    both: Sequence[int] = sorted(old.keys() & new.keys()) if paired else ()
    by_function = {}
    for name in names:
        a, b = (
            {context: tuple(own.get(name, ())) for context, own in side.items()}
            for side in (old, new)
        )
        body = bodies.get(name, 0)
        if len({sum(b[context]) - sum(a[context]) for context in both}) == 1:
            change = sum(b[both[0]]) - sum(a[both[0]])
            by_function[name] = Change(change, change)
            continue
        groups = [_by_sums(a, b)] if name in changed else _called_alike(a, b)
        likely = [_of_calls(*group, both, body, name in changed) for group in groups]
        lows, highs = zip(*likely, strict=True)
        by_function[name] = Change(min(lows), max(highs))
    return by_function


# What each call of a function executes, in each context.
_InContexts = Mapping[int, tuple[int, ...]]


def _called_alike(old: _InContexts, new: _InContexts) -> list[tuple[_InContexts, _InContexts]]:
    """Groups contexts by each number of calls often seen; all, as of one call, if these are few."""
    sides = (old, new)
    seen = [Counter(map(len, side.values())) for side in sides]
    often = [
        number for number in seen[0] if all(own[number] >= _OFTEN * own.total() for own in seen)
    ]
    if any(2 * sum(own[number] for number in often) <= own.total() for own in seen):
        return [_by_sums(old, new)]
    return [
        (
            {at: calls for at, calls in old.items() if len(calls) == number},
            {at: calls for at, calls in new.items() if len(calls) == number},
        )
        for number in often
    ]


def _by_sums(old: _InContexts, new: _InContexts) -> tuple[_InContexts, _InContexts]:
    """Returns all calls as one, unless all contexts have the same number of calls."""
    if len({len(calls) for side in (old, new) for calls in side.values()}) == 1:
        return old, new
    before, after = ({at: (sum(calls),) for at, calls in side.items()} for side in (old, new))
    return before, after


def _of_calls(
    old: _InContexts, new: _InContexts, both: Sequence[int], body: int, changed: bool
) -> Change:
    pairs = [(old[at], new[at]) for at in both if at in old and at in new]
    return sum_of(
        _change(
            Counter(own[call] for own in old.values()),
            Counter(own[call] for own in new.values()),
            {after[call] - before[call] for before, after in pairs},
            body,
            changed,
        )
        for call in range(len(next(iter(old.values()))))
    )


def _change(
    old: Counter[int], new: Counter[int], pairs: Set[int], body: int, changed: bool
) -> Change:
    """The change between both sides' counts, with their contexts; `pairs` are by context."""
    if len(pairs) == 1:
        return Change(*pairs, *pairs)
    shift, top = min(new) - min(old), max(new) - max(old)
    moved = {count + shift for count in old} == new.keys()
    rounds = {(count - min(old)) % body for count in old.keys() | new.keys()} if body else set()
    are_rounds = rounds == {0} and bool(min(old) and min(new))
    if changed and moved and not are_rounds:
        return Change(shift, shift)
    if not changed:
        if are_rounds:
            return Change(0, 0)
        if moved or {0} in (old.keys(), new.keys()):
            # Of a function that only one kernel has: its least share.
            return Change(shift, shift)
        if _of_contexts(old, new, pairs):
            return Change(0, 0)
        common = old.keys() & new.keys()
        likely = {*pairs, shift, top} if not common else set()
        fitting = [by for by in likely if _is_within({count + by for count in old}, new.keys())]
        if fitting:
            # The least change, or the one that explains more contexts.
            by_size = sorted(fitting, key=abs)
            shares = [
                sum(min(old[n] / old.total(), new[n + by] / new.total()) for n in old)
                for by in by_size
            ]
            both = by_size[0], by_size[shares.index(max(shares))]
            return Change(min(both), max(both))
    between = {*pairs} or {shift, top}
    if not pairs and (are_rounds or max(min(old), min(new)) <= min(max(old), max(new))):
        # Each side has been between the other's counts: there may be no change at all.
        between.add(0)
    return Change(min(between), max(between))


def _is_within(some: Set[int], others: Set[int]) -> bool:
    return some <= others or others <= some


def _of_contexts(old: Counter[int], new: Counter[int], pairs: Set[int]) -> bool:
    """Returns whether each side was just seen in contexts in which the other was not."""
    # One has all counts of the other, or both several in most contexts or one in nearly all, and
    # context by context there is no difference, or as well one way as the other.
    if _is_within(old.keys(), new.keys()):
        return not pairs or 0 in pairs
    common = old.keys() & new.keys()
    of_both = [sum(side[count] for count in common) / side.total() for side in (old, new)]
    mostly = min(of_both) > (1 / 2 if len(common) > 1 else 1 - _OFTEN)
    return mostly and (not pairs or min(pairs) < 0 < max(pairs))
