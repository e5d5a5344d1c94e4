# SPDX-License-Identifier: GPL-2.0-or-later
"""A path as calls: which function called which, and what each instruction is for.

The parts are entry (assembly, before the first C function), dispatch (up to the system call's
handler; none in a kernel that dispatches in assembly), handler, exit (after the handler returned)
and return (assembly again).  Symbols, calls and returns tell them apart.  Reasons are by the
kernel's own tables of what it patches; purposes, which the floor has, also by reasons.toml, which
names their sources.
"""

import re
import tomllib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache, lru_cache
from itertools import pairwise
from pathlib import Path
from typing import NamedTuple

import msgspec

from kentry.arch import Arch
from kentry.path.symbols import base_name
from kentry.results.recording import Instruction

# In the order of execution.
PARTS = ("entry", "dispatch", "handler", "exit", "return")
# In place of a return address, where the entry assembly called C through a jump.
_BY_JUMP = -1


@dataclass(frozen=True)
class Part:
    """Instructions in a row with the same purpose; `depths` has one number for each."""

    name: str
    instructions: tuple[Instruction, ...]
    depths: tuple[int, ...]


def split_calls(path: Sequence[Instruction]) -> Iterator[Sequence[Instruction]]:
    """Yields the path of each system call of a window: each begins where the first one did."""
    if not path:
        return
    starts = [i for i, insn in enumerate(path) if insn.address == path[0].address]
    for start, end in pairwise([*starts, len(path)]):
        yield path[start:end]


def parts(path: Sequence[Instruction], arch: Arch) -> list[Part]:
    """Returns one system call's path in its parts, empty ones left out; they add up to the path."""
    depths = call_depths(path, arch)
    in_assembly = [bool(arch.assembly.fullmatch(insn.function)) for insn in path]
    first_c = next((i for i, flag in enumerate(in_assembly) if not flag), len(path))
    last_c = next((i for i in reversed(range(len(path))) if not in_assembly[i]), -1) + 1
    # Where the handler begins and where its caller goes on; both at the end without a handler.
    end = max(first_c, last_c)
    begins = (i for i in range(first_c, end) if arch.handlers.fullmatch(path[i].function))
    handler = next(begins, end)
    after = next((j for j in range(handler, end) if depths[j] < depths[handler]), end)
    cuts = [0, first_c, handler, after, max(after, last_c), len(path)]
    return [
        Part(name, tuple(path[start:end]), tuple(depths[start:end]))
        for name, (start, end) in zip(PARTS, pairwise(cuts), strict=True)
        if end > start
    ]


def parts_of(path: Sequence[Instruction], arch: Arch) -> Iterator[str]:
    """Yields the name of the part that each instruction of a window's path is in."""
    for call in split_calls(path):
        for part in parts(call, arch):
            yield from [part.name] * len(part.instructions)


def reason_of(insn: Instruction, arch: Arch) -> str:
    """What the kernel's tables say of an instruction, "static key (__jump_table)"; else ""."""
    what = {table.section: table.what for table in arch.site_tables}
    return ", ".join(f"{what.get(name, 'patched')} ({name})" for name in insn.tables)


def call_depths(path: Sequence[Instruction], arch: Arch) -> list[int]:
    """Returns how many calls deep each instruction is, 0 in the entry assembly.

    A call is over when its return address is reached, so return thunks and tail calls need no
    rules.  Assembly that jumps to C (riscv) makes a call that ends when assembly goes on.
    """
    pending: list[int] = []
    depths = []
    for i, insn in enumerate(path):
        assembly = bool(arch.assembly.fullmatch(insn.function))
        if insn.address in pending:
            del pending[pending.index(insn.address) :]
        elif i and not pending and not assembly:
            pending.append(_BY_JUMP)
        elif assembly and pending[:1] == [_BY_JUMP]:
            pending.clear()
        depths.append(len(pending))
        # A retpoline calls its own next lines; that enters no function.
        own = all(n.function == insn.function and n.offset for n in path[i + 1 : i + 2])
        if not own and arch.calls.match(insn.text):
            pending.append(insn.address + len(insn.code) // 2)
    return depths


class Span(NamedTuple):
    """A function from first to last instruction; one jumped to takes the jumping one's place."""

    function: str
    start: int
    end: int  # behind the last
    caller: int | None  # the index of the span that called it; None for the entry's own
    site: int | None  # the position of the instruction that did


class Spans(NamedTuple):
    """The spans of a path, each behind its caller; `inner` is the innermost at each position."""

    spans: tuple[Span, ...]
    inner: tuple[int, ...]


def spans(path: Sequence[Instruction], arch: Arch) -> Spans:
    """Returns the spans of a window's path; each of its system calls begins outside of any call."""
    spans: list[Span] = []
    inner: list[int] = []
    for call in split_calls(path):
        running: list[int] = []
        for insn, depth in zip(call, call_depths(call, arch), strict=True):
            position = len(inner)
            here = spans[running[depth]] if depth < len(running) else None
            goes_on = here is not None and here.function == insn.function
            _close(spans, running, depth + goes_on, position)
            if not goes_on:
                caller = running[-1] if running else None
                called = position - 1 if running else None
                site = here.site if here else called
                running.append(len(spans))
                spans.append(Span(insn.function, position, position, caller, site))
            inner.append(running[-1])
        _close(spans, running, 0, len(inner))
    return Spans(tuple(spans), tuple(inner))


def _close(spans: list[Span], running: list[int], left: int, position: int) -> None:
    """Ends all but the outermost `left` of the running spans before a position."""
    for index in running[left:]:
        spans[index] = spans[index]._replace(end=position)
    del running[left:]


# For what no rule matches.
NOT_KNOWN = "not known"


class Rule(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One rule; reasons.toml describes its fields."""

    functions: re.Pattern[str]
    reason: str
    source: str
    text: re.Pattern[str] | None = None
    part: re.Pattern[str] | None = None
    behind: re.Pattern[str] | None = None
    table: re.Pattern[str] | None = None
    first: int | None = None

    def matches(self, insn: Instruction, before: Instruction | None, part: str) -> bool:
        """Whether it decides about `insn` of its functions, executed directly after `before`."""
        return (
            (self.first is None or insn.offset < self.first)
            and (not self.text or bool(self.text.fullmatch(insn.text)))
            and (not self.part or bool(self.part.fullmatch(part)))
            and (not self.behind or bool(before and self.behind.fullmatch(before.text)))
            and (not self.table or any(map(self.table.fullmatch, insn.tables)))
        )


class Purpose(NamedTuple):
    """Of one instruction: its part of the path, its reason, and where that is from ("")."""

    part: str
    reason: str
    source: str


@cache
def rules(arch: str) -> tuple[Rule, ...]:
    """Returns an architecture's rules in their order."""
    tables = tomllib.loads(Path(__file__).with_name("reasons.toml").read_text(encoding="utf-8"))
    own = [*tables[arch], *tables["all"]]
    return msgspec.convert(own, tuple[Rule, ...], dec_hook=lambda _, text: re.compile(text))


# A path has some hundred functions.
@lru_cache(4096)
def _rules_of(arch: str, function: str) -> tuple[Rule, ...]:
    """Those about a function, a compiler's clone by its own name."""
    name = base_name(function)
    return tuple(rule for rule in rules(arch) if rule.functions.fullmatch(name))


def purposes(path: Sequence[Instruction], arch: Arch) -> Iterator[Purpose]:
    """Yields the purpose of each instruction of a window's path, in its order."""
    for call in split_calls(path):
        before: Instruction | None = None
        for part in parts(call, arch):
            for insn in part.instructions:
                known = _rules_of(arch.name, insn.function)
                rule = next((row for row in known if row.matches(insn, before, part.name)), None)
                reason, source = (rule.reason, rule.source) if rule else (NOT_KNOWN, "")
                yield Purpose(part.name, reason, source)
                before = insn
