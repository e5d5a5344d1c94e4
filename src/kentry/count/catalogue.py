# SPDX-License-Identifier: GPL-2.0-or-later
"""The catalogue of cases, read from the probe that will run them.

A case is one file in guest/cases/; its CASE() leaves a line "name|entries|summary|group|uses" in
the probe's .kentry.catalogue section.  Its name may have a vector state: results/case_name.py.
"""

import fnmatch
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path

from kentry.arch import ARCHES, Arch
from kentry.arch.record import Unit
from kentry.boot.exact import ExactOptions
from kentry.errors import UserError, did_you_mean
from kentry.host.native import probe_file
from kentry.kernels.spec import FLOOR_CASES
from kentry.results.case_name import (
    COLD,
    MOST_CALLS,
    USES,
    WARM,
    WITH_CODE,
    CaseName,
    State,
    is_use,
    parse_size,
    size_name,
)

VECTOR = "vector"  # what `--matrix` takes besides the units' own names


@dataclass(frozen=True)
class Case:
    """One kernel entry, repeated."""

    name: str  # of the syscall, with @entry where it is not native
    summary: str
    group: str = ""  # runs only where it or the group is named
    uses: tuple[str, ...] = ()  # the vector states that make sense; every one where it is empty

    @property
    def needs_state(self) -> bool:
        """Whether it is nothing without a use of a vector unit."""
        return bool(self.uses) and "none" not in self.uses


@cache
def catalogue(arch: Arch, probe: Path | None = None) -> tuple[Case, ...]:
    """Returns every case of an architecture's probe, each entry instruction its own."""
    from elftools.elf.elffile import ELFFile

    with (probe or probe_file(arch)).open("rb") as file:
        section = ELFFile(file).get_section_by_name(".kentry.catalogue")
        assert section is not None, "the probe has no catalogue"
        lines = section.data().decode().strip("\0").split("\0")
    rows = [line.split("|") for line in lines if line]
    native = [
        Case(name, summary, group, tuple(uses.split())) for name, _, summary, group, uses in rows
    ]
    others = [
        Case(f"{name}@{entry}", f"{summary}, entered by {entry}")
        for entry in arch.entries[1:]
        for name, also, summary, *_ in rows
        if entry in also.split(",")
    ]
    return (*native, *others)


def cases_of_file(arch: Arch, file: Path, probe: Path) -> list[str]:
    """Returns the cases that a probe has because of `file`; UserError where there is none."""
    known = catalogue(arch)
    try:
        names = [case.name for case in catalogue(arch, probe)]
    except ValueError as err:
        raise UserError(f"{file} has a CASE with a '|' in its words.", "Leave it out.") from err
    added = [name for name in names if name not in {case.name for case in known}]
    if len(names) != len(known) + len(added):
        raise UserError(f"{file} has a case of a name that is taken.", "Give it another name.")
    if not added:
        raise UserError(f"{file} has no case.", "guest/case.h says how one is written: CASE(...).")
    for name in added:
        # The probe's list of names has commas, its lines have blanks; an entry follows "@".
        if not re.fullmatch(r"[^\s,@*?\[]+(@\w+)?", name):
            raise UserError(
                f"{file} has a case of a name that cannot be asked for: {name!r}.",
                "Leave blanks and any of , @ * ? [ out of it.",
            )
    return added


def choose(arch: Arch, wanted: Iterable[str], length: int | None = None) -> list[str]:
    """Returns the cases of an architecture's catalogue that `wanted` stands for, in its order.

    As match(), each also with a vector state, whose use may be a pattern; nothing wanted means the
    default group.  `length` is the vector length where a name has none.  UserError for a mistake.
    """
    patterns = list(wanted)
    cases = catalogue(arch)
    if not patterns:
        return [case.name for case in cases if not case.group]
    parsed = {word: CaseName.parse(word) for word in patterns}
    stateful = [word for word, name in parsed.items() if name.state and name == name.counted]
    others = [word for word in patterns if word not in stateful]
    for word in others:
        _, vl, bits = word.rpartition("+vl=")
        if vl and not bits.isdecimal():
            raise UserError(f"'{bits}' is no vector length in bits.", "Write it like vl=256.")
    for case in cases:
        if case.needs_state and case.name in others:
            raise UserError(
                f"{case.name} measures a use of the vector unit, so it needs a vector state.",
                f"Write {case.name}+{arch.vector.units[0].name}={case.uses[0]}.",
            )
    plain = [case.name for case in cases if not case.needs_state]
    chosen = match(plain, arch.name, others) if others else []
    return [*chosen, *dict.fromkeys(n for word in stateful for n in _states(arch, word, length))]


def choose_timed(arch: Arch, wanted: Iterable[str]) -> list[str]:
    """Like choose(), but in the order of `wanted`, each also with +cache= or +extra=; UserError."""
    wanted = list(wanted)
    if not wanted:
        return choose(arch, ())
    names: dict[str, None] = {}
    for word, name in zip(wanted, map(CaseName.parse, wanted), strict=True):
        cache, extra = name.cache, name.extra
        if cache is not None and extra is not None:
            raise UserError(
                f"'{word}' has both +cache= and +extra=, and calls one by one have no loop to"
                " extend.",
                "Leave one of them out.",
            )
        if cache not in (None, WARM):
            size = cache.removesuffix(WITH_CODE)
            named = size if size == COLD else size_name(parse_size(cache if size == WARM else size))
            cache = named + cache[len(size) :]
        if extra is not None:
            every = re.fullmatch(r"1/([0-9]{1,9})", extra)
            # A block of 10000 calls takes a tenth of a millisecond: with more, no call is extra.
            if not every or not 1 <= int(every[1]) <= 10_000:
                raise UserError(
                    f"'+extra={extra}' in '{word}' is no share of extra calls.",
                    "Write it like +extra=1/100: one more call every hundred, 1 %.",
                )
            extra = f"1/{int(every[1])}"
        for case in map(CaseName.parse, choose(arch, [str(name.counted)])):
            if cache is not None and case.calls > 1:
                raise UserError(
                    f"'{word}' times single calls, and only one in {case.calls} uses vectors.",
                    "Take vec=each with +cache=, or leave +cache= out.",
                )
            names[str(replace(case, cache=cache, extra=extra))] = None
    return list(names)


def matrix(arch: Arch, name: str) -> list[str]:
    """The words for choose() of a whole matrix; `name` is a unit, or VECTOR for the first one."""
    unit = arch.vector.units[0].name if name == VECTOR else _unit(arch, name, name).name
    more = ("getppid", "getpid", "pipe", "sched_yield")
    cases = [case for case in catalogue(arch) if case.group == VECTOR or case.name in more]
    return [f"{case.name}+{unit}={use}" for case in cases for use in case.uses or (*USES, "1/10")]


def _states(arch: Arch, word: str, length: int | None) -> list[str]:
    name = CaseName.parse(word)
    assert name.state
    use = name.state.use
    unit = _unit(arch, name.state.unit, word)
    bits = length if name.state.length is None else name.state.length
    if bits == unit.lengths[0]:
        bits = None
    elif bits is not None and bits not in unit.lengths:
        reason = arch.vector.unmodelled.get(f"{unit.name} {bits}")
        raise UserError(
            f"{arch.name}'s cpu model has no {unit.what} of {bits} bits"
            f"{f': {reason}' if reason else ''}.",
            f"Lengths: {', '.join(map(str, unit.lengths))}.",
        )
    cases = {case.name: case for case in catalogue(arch)}
    bases = match(list(cases), arch.name, [name.call])
    uses = [use] if is_use(use) else fnmatch.filter(USES, use)
    if not uses:
        raise UserError(
            f"'{use}' in '{word}' is no use of a vector unit.",
            f"Uses: {', '.join(USES)}, or 1/K: once every K calls (2 to {MOST_CALLS}).",
        )
    names = []
    for base in bases:
        own = cases[base].uses
        for given in uses:
            if "@" in base:
                reason = "it enters the kernel in another way, or not at all"
                remedy = f"Take {base.partition('@')[0]}."
            elif own and given not in own:
                reason = f"it makes sense with {', '.join(own)} only"
                remedy = f"Take {base}+{unit.name}={own[0]}."
            else:
                names.append(f"{base}{State(unit.name, given, bits)}")
                continue
            if len(bases) == len(uses) == 1:
                raise UserError(f"{base} has no vector state '{given}': {reason}.", remedy)
    if not names:
        raise UserError(
            f"No case has a state that '{word}' stands for.", "Write it like getppid+vec=once."
        )
    return names


def _unit(arch: Arch, name: str, word: str) -> Unit:
    if unit := arch.vector.unit(name):
        return unit
    known = ", ".join(f"{unit.name}= ({unit.what})" for unit in arch.vector.units)
    if reason := arch.vector.unmodelled.get(name):
        raise UserError(f"'{word}' cannot be measured: {reason}.", f"Units here: {known}.")
    raise UserError(f"{arch.name} has no vector unit '{name}'.", f"Units: {known}.")


def match(known: Sequence[str], arch: str, wanted: Iterable[str], files: str = "") -> list[str]:
    """Those of `known` that `wanted` (names, groups, patterns with * and ?) stands for, in order.

    Nothing wanted means every one.  "getppid@svc" is "getppid" where svc is the native
    instruction.  UserError for a word of no case, where `files` says what has no others.  An
    imported architecture has no groups.
    """
    ours = ARCHES.get(arch)
    groups = {case.name: case.group for case in catalogue(ours) if case.group} if ours else {}
    chosen: set[str] = set()
    for word in wanted:
        name = word.removesuffix(f"@{ours.entries[0]}") if ours else word
        matches = [case for case in known if name in (groups.get(case), case)]
        matches = matches or fnmatch.filter(known, name)
        if not matches:
            absent, remedy = f"Unknown case '{word}' on {arch}.", f"Cases: {', '.join(known)}."
            if files:
                absent = f"There is no case '{word}' in {files}."
            elif ours:
                remedy += f" Groups: {', '.join(sorted(set(groups.values())))}."
            raise UserError(absent + did_you_mean(word, known), remedy)
        chosen.update(matches)
    return [name for name in known if not chosen or name in chosen]


def on_floor(options: ExactOptions, arch: Arch) -> ExactOptions:
    """The options for the floor, in one context, as it has no state; UserError for other cases."""
    named = options.cases != tuple(choose(arch, ()))
    absent = [name for name in options.cases if name not in FLOOR_CASES]
    if named and absent:
        raise UserError(
            f"The floor has no case {absent[0]}.", f"It has {' and '.join(FLOOR_CASES)}."
        )
    if options.randomise:
        raise UserError("The floor has nothing to randomise.", "Leave --randomise out.")
    cases = tuple(name for name in options.cases if name in FLOOR_CASES)
    return replace(options, cases=cases, rounds=1)
