# SPDX-License-Identifier: GPL-2.0-or-later
"""Two executed paths of one case -> rows: what is the same, added, removed or moved.

Instructions are compared by mnemonic and form of operands: which registers a compiler chose, where
code and data were linked, and constants such as a field's offset are no differences.  Targets
of calls are compared by function.  A function that was inlined is recognised by the kernel's debug
info if there is any, else, like one that has another name, by its instructions.

The alignment decides which instruction is which, and never how many there are: each side's
instructions are in the rows exactly once, and one that moved is in one row of each.
"""

import re
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import groupby, pairwise

import numpy as np
from msgspec.structs import replace
from numpy.typing import NDArray

from kentry.arch import Arch, find_arch
from kentry.compare.alignment import Keys, Pair, aligned
from kentry.compare.differences import differences, of_both, one_architecture
from kentry.compare.layout import layout_change
from kentry.errors import ContradictionError, UserError
from kentry.path.calls import parts_of, reason_of
from kentry.path.metrics import effects
from kentry.path.pairs import placed
from kentry.path.stream import Folded, fold, stream
from kentry.path.symbols import base_name
from kentry.results import caveats
from kentry.results.annotation import (
    ADDED,
    MOVED_FROM,
    MOVED_TO,
    REMOVED,
    SAME,
    Change,
    PathComparison,
    PathDiff,
    PathPair,
    Row,
)
from kentry.results.caveats import Caveat
from kentry.results.comparison import Renamed
from kentry.results.recording import (
    FLOOR,
    INSTRUCTIONS,
    CaseResult,
    Instruction,
    Measured,
    Recording,
)

# A function is another one's body where this share of it is alike there, the mean of with and
# without constants, in rows of at least _IN_A_ROW instructions, _DISTINCT of them different ones.
_BODY = 0.6
_IN_A_ROW = 3
_DISTINCT = 3
_FEW = 5

# Of a function that was called where its instructions now are, less is enough: so much of what
# neither saves and restores registers nor returns.
_OF_KIN = 0.4
_IN_A_ROW_OF_KIN = 2

# A compiler moves an instruction at most about _NEAR places within a function.  From function to
# function only a block of _BLOCK instructions counts as moved: prologues are alike and shorter.
_NEAR = 24
_BLOCK = 6

# A call enters a function in its first bytes, behind a landing pad perhaps.
_ENTRY = 16

_TAKEN = re.compile(r" \(taken\)$", re.MULTILINE)
_TARGET = re.compile(r"<([^<>\n]*)>")
# What two instructions that are alike need not share; a field at offset 0 is one like others.
_CONSTANTS = (
    (re.compile(r"%lo[+-]\d+"), "%lo"),
    (re.compile(r"%addr\(%rip\)"), "%addr"),
    (re.compile(r"(?<![\w.%])[#$]?-?(?:0x[0-9a-f]+|\d+)\b"), "#"),
    (re.compile(r"(?<![\w#])\((?=%)"), "#("),
    (re.compile(r"\[(\w+)\]"), r"[\1, #]"),
)


@dataclass(frozen=True)
class _Side:
    """A path with its loops folded; everything has one item for each of `folded`.

    `functions` are names without what compilers append, `targets` those that an instruction calls
    or jumps to, "" for its own.  The texts have no targets: `texts` as executed, `equal` without
    the registers' names, `alike` without constants too.  `frames` tells which instructions use the
    stack pointer or return, `callers` who calls a function.  `hosts` is in what each function is
    inlined, as debug info says.
    """

    folded: Sequence[Folded]
    functions: Sequence[str]
    targets: Sequence[str]
    texts: Sequence[str]
    equal: Sequence[str]
    alike: Sequence[str]
    frames: Sequence[bool]
    callers: defaultdict[str, set[str]]
    hosts: defaultdict[str, set[str]]


def compare_paths(old: Recording, new: Recording, names: Sequence[str]) -> PathComparison:
    """Returns the cases' modal paths beside each other; UserError: two arches, no case or path."""
    one_architecture(old, new, "Name two kernels of one.")
    arch = find_arch(old.kernel["arch"])
    pairs = [(_case(old, name, "old"), _case(new, name, "new")) for name in dict.fromkeys(names)]
    cases = []
    for before, after in pairs:
        paths = _path(before, old, "old"), _path(after, new, "new")
        notes = of_both(list(before.caveats), list(after.caveats))
        if len(before.values) > 1 or len(after.values) > 1:
            notes.append(caveats.one_of_several_paths(before.name, *map(len, paths)))
        diff = diff_paths(before.name, *paths, arch, notes)
        if all(row.change == SAME and not row.constants_differ for row in diff.rows):
            diff = replace(diff, layout=layout_change(*paths, arch))
        cases.append(diff)
    notes = differences(old, new, pairs, list(names), counted=True, timed=False)
    if any(case.renamed for case in cases):
        notes.append(caveats.by_body())
    silent = [
        name
        for name, side in (("old", old), ("new", new))
        if side.kernel["origin"].get("kind") != FLOOR and not any(insn.tables for insn in side.code)
    ]
    if silent and any(case.added or case.removed for case in cases):
        notes.append(caveats.no_tables(" and ".join(silent)))
    return PathComparison(new.tool, Measured.of(old), Measured.of(new), tuple(cases), tuple(notes))


def modal_paths(name: str, old: Recording, new: Recording) -> PathPair | None:
    """Returns a case's modal paths and their difference; None where one was not recorded."""
    paths = []
    for side in (old, new):
        case = side.case(name)
        path = case.modal_path if case else None
        if path is None or not path.length:
            return None
        paths.append(side.instructions(path))
    diff = diff_paths(name, paths[0], paths[1], find_arch(old.kernel["arch"]))
    return PathPair(paths[0], paths[1], diff)


def _case(recording: Recording, name: str, side: str) -> CaseResult:
    if case := recording.case(name):
        return case
    raise UserError(
        f"The {side} recording, of {recording.kernel['spec']}, has no case {name}.",
        f"It has: {', '.join(case.name for case in recording.cases)}.",
    )


def _path(case: CaseResult, recording: Recording, side: str) -> list[Instruction]:
    """Returns the modal path; empty for a case that does not enter the kernel."""
    if case.modal_path:
        return recording.instructions(case.modal_path)
    counted = case.metrics.get(INSTRUCTIONS)
    if counted and not counted.value:
        return []
    raise UserError(
        f"No kernel path of {case.name} is in the {side} recording, of {recording.kernel['spec']}.",
        recording.path_remedy,
    )


def diff_paths(
    name: str,
    old: Sequence[Instruction],
    new: Sequence[Instruction],
    arch: Arch,
    notes: Sequence[Caveat] = (),
) -> PathDiff:
    """Returns a case's two paths beside each other, and the functions that have other names."""
    sides, renamed = _pair(tuple(old), tuple(new), arch.name)
    before, after = sides
    labels = {name: row.name for row in renamed for name, _ in (*row.old, *row.new)}
    entries = _entries(before, after, _aligned(before, after, labels))
    moves = _Moves(sides, labels, entries)
    moves.blocks()
    moves.near()
    moves.alone(arch)
    in_parts = list(parts_of(old, arch)), list(parts_of(new, arch))
    rows = tuple(_row(entry, sides, labels, in_parts, arch) for entry in entries)
    diff = PathDiff(name=name, rows=rows, renamed=renamed, caveats=tuple(notes))
    if (diff.old, diff.new) != (len(old), len(new)):
        raise ContradictionError(
            f"the rows of {name} have {diff.old} and {diff.new} instructions, its paths {len(old)}"
            f" and {len(new)}"
        )
    return diff


def renames(old: Sequence[Instruction], new: Sequence[Instruction], arch: Arch) -> list[Renamed]:
    """Returns the functions that have other names, were inlined or were split."""
    return list(_pair(tuple(old), tuple(new), arch.name)[1])


# A comparison asks for the renames of each case, and then for the difference of its paths.
@lru_cache(maxsize=64)
def _pair(
    old: tuple[Instruction, ...], new: tuple[Instruction, ...], arch: str
) -> tuple[tuple[_Side, _Side], tuple[Renamed, ...]]:
    sides = _side(old, find_arch(arch)), _side(new, find_arch(arch))
    return sides, tuple(_renames(*sides))


def _side(path: Sequence[Instruction], arch: Arch) -> _Side:
    folded = fold(path)
    code = [row.instruction for row in folded]
    shown = stream(code, arch)
    functions = [function for function, _ in shown]
    whole = _TAKEN.sub("", "\n".join(text for _, text in shown))
    targets = []
    for line, function in zip(whole.split("\n"), functions, strict=False):
        target = _TARGET.search(line)
        targets.append(target[1] if target and target[1] != function else "")
    texts = _TARGET.sub("<>", whole)
    equal = arch.linking.chosen[0].sub(arch.linking.chosen[1], texts)
    alike = equal
    for pattern, placeholder in _CONSTANTS:
        alike = pattern.sub(placeholder, alike)
    lines = [text.split("\n")[: len(code)] for text in (texts, equal, alike)]
    frames = [
        bool(arch.by_stack_pointer.search(insn.text)) or effects(insn.code, arch).returns
        for insn in code
    ]
    callers: defaultdict[str, set[str]] = defaultdict(set)
    for (before, insn), (caller, callee) in zip(pairwise(code), pairwise(functions), strict=True):
        if caller != callee and insn.offset < _ENTRY and arch.calls.match(before.text):
            callers[callee].add(caller)
    hosts: defaultdict[str, set[str]] = defaultdict(set)
    for insn, function in zip(code, functions, strict=True):
        for inlined in insn.source_lines[:-1]:
            hosts[base_name(inlined.function)].add(function)
    return _Side(folded, functions, targets, lines[0], lines[1], lines[2], frames, callers, hosts)


# --- which functions are others -----------------------------------------------------------


def _renames(old: _Side, new: _Side) -> list[Renamed]:
    sizes = Counter(old.functions), Counter(new.functions)
    gone, come = sizes[0].keys() - sizes[1].keys(), sizes[1].keys() - sizes[0].keys()
    if not gone and not come:
        return []
    # What a call of one of them is on the other side is not known yet.
    pairs = _aligned(old, new, dict.fromkeys(gone | come, ""), abroad=True)
    runs: defaultdict[tuple[str, str], list[Pair]] = defaultdict(list)

    def run_of(pair: tuple[int, Pair]) -> tuple[int, int, tuple[str, str]]:
        """The same for pairs that directly follow each other in the same two functions."""
        n, (i, j) = pair
        return i - n, j - n, (old.functions[i], new.functions[j])

    for (_, _, link), numbered in groupby(enumerate(pairs), run_of):
        run = [pair for _, pair in numbered]
        least = _IN_A_ROW_OF_KIN if _is_kin(link, old, new) else _IN_A_ROW
        if link[0] != link[1] and len(run) >= least and (link[0] in gone or link[1] in come):
            runs[link] += run
    # How many instructions each function has but for its frame.
    bodies = [
        Counter(name for name, frame in zip(side.functions, side.frames, strict=True) if not frame)
        for side in (old, new)
    ]
    links = []
    for link, pairs in runs.items():
        alone = [side for side, names in enumerate((gone, come)) if link[side] in names]
        same = [old.equal[i] for i, j in pairs if old.equal[i] == new.equal[j]]
        alike = (len(pairs) + len(same)) / 2
        whole = min(sizes[side][link[side]] for side in alone)
        body = min(bodies[side][link[side]] for side in alone)
        inside = sum(1 + (old.equal[i] == new.equal[j]) for i, j in pairs if not old.frames[i]) / 2
        # Of a few instructions all have to be there.
        is_body = alike >= _BODY * whole and (whole > _FEW or len(same) >= whole)
        is_kin = _is_kin(link, old, new) and inside >= _OF_KIN * body
        if (is_body or is_kin) and len(set(same)) >= _DISTINCT:
            links.append(link)
    stems = {_stem(name): name for name in sorted(come)}
    links += [(name, stems[stem]) for name in sorted(gone) if (stem := _stem(name)) in stems]
    links += [(name, host) for name in sorted(gone) if (host := _inlined_into(name, old, new))]
    links += [(host, name) for name in sorted(come) if (host := _inlined_into(name, new, old))]
    # Functions that are linked are one row, with those of the same names on the other side.
    groups: list[set[tuple[int, str]]] = []
    for link in links:
        group = {(side, name) for side in (0, 1) for name in link if name in sizes[side]}
        for other in [other for other in groups if other & group]:
            groups.remove(other)
            group |= other
        groups.append(group)
    return [Renamed(_shares(old, 0, group), _shares(new, 1, group)) for group in groups]


def _shares(side: _Side, at: int, group: set[tuple[int, str]]) -> tuple[tuple[str, int], ...]:
    """The functions of a side that are in a group, with their instructions; the largest first."""
    executed: Counter[str] = Counter()
    for function, item in zip(side.functions, side.folded, strict=True):
        if (at, function) in group:
            executed[function] += item.times
    return tuple(sorted(executed.items(), key=lambda pair: (-pair[1], pair[0])))


def _inlined_into(name: str, side: _Side, other: _Side) -> str:
    hosts = (side.callers[name] & other.hosts[name]) - side.hosts[name]
    return hosts.pop() if len(hosts) == 1 else ""


def _is_kin(link: tuple[str, str], old: _Side, new: _Side) -> bool:
    before, after = link
    return after in old.callers[before] or before in new.callers[after]


def _stem(function: str) -> str:
    """A name without what a function gets when another is put before it, as _noprof of 6.10."""
    return function.lstrip("_").removesuffix("_noprof")


# --- which instruction is which -----------------------------------------------------------


def _aligned(
    old: _Side, new: _Side, labels: Mapping[str, str], *, abroad: bool = False
) -> list[Pair]:
    codes: dict[object, int] = {}

    def coded(values: Iterator[object]) -> NDArray[np.int32]:
        return np.fromiter((codes.setdefault(value, len(codes)) for value in values), np.int32)

    def keys(side: _Side) -> Keys:
        homes = [labels.get(name) or name for name in side.functions]
        own = zip((labels.get(name, name) for name in side.targets), homes, strict=True)
        targets = ["" if target == home else target for target, home in own]
        texts = side.texts, side.equal, side.alike
        rows = [coded(zip(*texts[n:], targets, strict=True)) for n in range(len(texts))]
        return np.array([*rows, coded(iter(homes))])

    return list(aligned(keys(old), keys(new), abroad=abroad))


_NONE = -1


@dataclass
class _Entry:
    """A row in the making: the places of its instructions in each side's folded path, or _NONE."""

    change: Change
    old: int
    new: int
    times: int


def _entries(old: _Side, new: _Side, pairs: Sequence[Pair]) -> list[_Entry]:
    """Orders the rows: removed, added, the next pair; a loop's further runs follow alone."""
    entries: list[_Entry] = []
    rest: list[_Entry] = []
    end = (len(old.folded), len(new.folded))
    for (i, j), (next_i, next_j) in pairwise([(-1, -1), *pairs, end]):
        if i >= 0:
            times = old.folded[i].times, new.folded[j].times
            entries.append(_Entry(SAME, i, j, min(times)))
            if times[0] > times[1]:
                rest.append(_Entry(REMOVED, i, _NONE, times[0] - times[1]))
            elif times[1] > times[0]:
                rest.append(_Entry(ADDED, _NONE, j, times[1] - times[0]))
        goes_on = (
            (next_i, next_j) == (i + 1, j + 1)
            and (next_i, next_j) != end
            and old.folded[next_i].times != new.folded[next_j].times
        )
        if not goes_on:
            entries += rest
            rest = []
        entries += [_Entry(REMOVED, n, _NONE, old.folded[n].times) for n in range(i + 1, next_i)]
        entries += [_Entry(ADDED, _NONE, n, new.folded[n].times) for n in range(j + 1, next_j)]
    return entries


class _Moves:
    """Marks what is removed in one place and added in another; both are kept by place."""

    def __init__(
        self, sides: tuple[_Side, _Side], labels: Mapping[str, str], entries: list[_Entry]
    ) -> None:
        self._old, self._entries = sides[0], entries
        self._homes = [[labels.get(name, name) for name in side.functions] for side in sides]
        self._what = [
            [
                (text, labels.get(target, target), row.times)
                for text, target, row in zip(side.texts, side.targets, side.folded, strict=True)
            ]
            for side in sides
        ]
        # Of a loop that only runs more often nothing moved.
        self._removed, self._added = (
            {
                position: at
                for at, entry in enumerate(entries)
                for position in [max(entry.old, entry.new)]
                if entry.change == change and entry.times == side.folded[position].times
            }
            for change, side in zip((REMOVED, ADDED), sides, strict=True)
        )

    def _mark(self, i: int, j: int) -> None:
        source, goal = self._entries[self._removed.pop(i)], self._entries[self._added.pop(j)]
        source.change, goal.change = MOVED_FROM, MOVED_TO
        source.new, goal.old = j, i

    def blocks(self) -> None:
        """Marks rows of instructions that moved anywhere; the longest of several."""
        old, new = self._what
        starts: defaultdict[tuple[object, ...], list[int]] = defaultdict(list)
        for i in self._removed:
            if all(i + n in self._removed for n in range(_BLOCK)):
                starts[tuple(old[i : i + _BLOCK])].append(i)
        for j in list(self._added):
            lengths = {i: self._length(i, j) for i in starts.get(tuple(new[j : j + _BLOCK]), ())}
            best = max(lengths, key=lambda i: lengths[i], default=0)
            if lengths.get(best, 0) >= _BLOCK:
                for n in range(lengths[best]):
                    self._mark(best + n, j + n)

    def _length(self, i: int, j: int) -> int:
        old, new = self._what
        length = 0
        while (
            i + length in self._removed
            and j + length in self._added
            and old[i + length] == new[j + length]
        ):
            length += 1
        return length

    def near(self) -> None:
        """Marks single instructions that moved within a function; a branch says too little."""
        there: defaultdict[object, list[int]] = defaultdict(list)
        for j in self._added:
            there[self._homes[1][j], self._what[1][j]].append(j)
        for i in [i for i in self._removed if "<" not in self._old.texts[i]]:
            at = self._removed[i]
            same = [j for j in there[self._homes[0][i], self._what[0][i]] if j in self._added]
            distances = {j: abs(self._added[j] - at) for j in same}
            best = min(distances, key=lambda j: distances[j], default=0)
            if distances.get(best, _NEAR + 1) <= _NEAR:
                self._mark(i, best)

    def alone(self, arch: Arch) -> None:
        """Marks what turns interrupts on, or serialises otherwise, if each side has one such."""
        old, new = self._what
        left = Counter(old[i] for i in self._removed), Counter(new[j] for j in self._added)
        there = {new[j]: j for j in self._added}
        for i in list(self._removed):
            code = self._old.folded[i].instruction.code
            if left[0][old[i]] == left[1][old[i]] == 1 and effects(code, arch).serialising:
                self._mark(i, there[old[i]])


def _row(
    entry: _Entry,
    sides: tuple[_Side, _Side],
    labels: Mapping[str, str],
    in_parts: tuple[Sequence[str], Sequence[str]],
    arch: Arch,
) -> Row:
    old, new = sides
    # What was removed, or moved away, stands in the old path.
    is_old = entry.change in (REMOVED, MOVED_FROM)
    own, position = (old, entry.old) if is_old else (new, entry.new)
    executed = own.folded[position]
    both = entry.old != _NONE and entry.new != _NONE
    function = own.functions[position]
    return Row(
        change=entry.change,
        times=entry.times,
        function=labels.get(function, function),
        part=in_parts[0 if is_old else 1][executed.position],
        reason=reason_of(executed.instruction, arch),
        source=", ".join(executed.instruction.tables),
        constants_differ=both and old.equal[entry.old] != new.equal[entry.new],
        old=None if entry.old == _NONE else placed(old.folded[entry.old].instruction, arch),
        new=None if entry.new == _NONE else placed(new.folded[entry.new].instruction, arch),
    )
