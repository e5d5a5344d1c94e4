# SPDX-License-Identifier: GPL-2.0-or-later
"""A path made comparable: as executed wherever its code was linked, and with its loops folded.

Two kernels took the same path when they executed the same instructions in the same functions,
though a patch elsewhere moved all of them.  What the linker chose is replaced by placeholders:

- %addr: an address as such, or its distance from the program counter;
- %hi, %lo: the parts of an address that two instructions make.  A number is only taken for %lo
  where the register it is added to was last written by one that makes a %hi; an offset from a
  whole address is a struct's field, and stays.  What a later %lo of one %hi has more than its
  first is a field's offset too, and stays: %lo+8;
- <name>: an address in code, without its offset.  Where it was jumped to within the function,
  the instruction is marked.

What is in doubt stays in the text: then two equal paths seem different, never the reverse.  But an
instruction that now refers to another variable, or takes another function's address, looks the
same, because a recording has no names of data.  No count depends on any of this.
"""

import re
from collections.abc import Sequence
from typing import NamedTuple

from kentry.arch import Arch
from kentry.arch.record import Linking
from kentry.path.symbols import base_name
from kentry.results.recording import Instruction

_NAMED = re.compile(r"<([^<>\n]+?)(?:\+0x[0-9a-f]+)?>")

# What the disassembler did not know may have written any register.
_UNKNOWN = re.compile(r"\.|illegal|\(bad\)")

# A longer body is no loop that a reader would look for; a system call that is repeated is one.
_MOST = 4096
# A loop in a loop in a loop.
_DEEPEST = 3


def stream(path: Sequence[Instruction], arch: Arch) -> tuple[tuple[str, str], ...]:
    """Returns each instruction's function, a compiler's clone by its own name, and its text."""
    if not path:
        return ()
    text = "\n".join(insn.text for insn in path)
    for pattern, placeholder in arch.linking.rewrites:
        text = re.sub(pattern, placeholder, text, flags=re.MULTILINE)
    text = _NAMED.sub(lambda match: f"<{base_name(match[1])}>", text)
    parts = _Parts(arch.linking)
    lines = []
    jumped = False
    functions = [base_name(insn.function) for insn in path]
    for position, (insn, function, line) in enumerate(
        zip(path, functions, text.split("\n"), strict=True), 1
    ):
        if jumped:
            parts.returned(insn.address)
        shown = parts.follow(line)
        behind = insn.address + len(insn.code) // 2
        if arch.calls.match(line):
            parts.called(behind)
        jumped = position == len(path) or path[position].address != behind
        taken = jumped and shown.endswith(">") and functions[position : position + 1] == [function]
        lines.append((function, f"{shown} (taken)" if taken else shown))
    return tuple(lines)


class _Parts:
    """Which registers hold an address's upper part; any other use of one ends it."""

    def __init__(self, linking: Linking) -> None:
        self._linking = linking
        # Register -> the first number added to its part, None before that.
        self._held: dict[str, int | None] = {}
        self._calls: list[tuple[int, dict[str, int | None]]] = []

    def called(self, back: int) -> None:
        """A call, that returns to the address `back`."""
        preserved = filter(self._linking.preserved.fullmatch, self._held)
        self._calls.append((back, {name: self._held[name] for name in preserved}))

    def returned(self, address: int) -> None:
        """A jump to `address`; where a call returns to it, functions called restored registers."""
        for i in range(len(self._calls) - 1, -1, -1):
            if self._calls[i][0] == address:
                self._held = self._calls[i][1]
                del self._calls[i:]
                return

    def follow(self, line: str) -> str:
        """Returns the line as it is compared; what it does to registers is noted."""
        if match := self._linking.high.match(line):
            self._held[match[1]] = None
        elif _UNKNOWN.match(line):
            self._held.clear()
        elif self._held and not self._held.keys().isdisjoint(self._linking.register.findall(line)):
            for pattern, placeholder in self._linking.low:
                match = pattern.match(line)
                if match and (base := match["base"]) in self._held:
                    low = int(match["low"] or "0", 0)
                    first = self._held[base]
                    if first is None:
                        self._held[base] = first = low
                    more = f"{low - first:+d}" if low != first else ""
                    # What is written is named before the base.
                    self._forget(line[: match.start("base")])
                    if base == self._linking.global_pointer:
                        self._held[base] = None
                    return match.expand(placeholder).replace("%lo", f"%lo{more}")
            self._forget(line)
        return line

    def _forget(self, text: str) -> None:
        for name in self._linking.register.findall(text):
            self._held.pop(name, None)


class Folded(NamedTuple):
    """An instruction, its first position in the path, and how often it ran from there on."""

    instruction: Instruction
    position: int
    times: int


def fold(path: Sequence[Instruction]) -> list[Folded]:
    """Returns the path with equal rounds in a row as one; the times add up to the path's length."""
    rows = [Folded(insn, position, 1) for position, insn in enumerate(path)]
    for _ in range(_DEEPEST):
        before = len(rows)
        rows = _folded(rows)
        if len(rows) == before:
            break
    return rows


def _folded(path: Sequence[Folded]) -> list[Folded]:
    # The whole instruction, since code can be patched while it runs.
    tokens = [(row.instruction, row.times) for row in path]
    kept: list[Folded] = []
    done: list[tuple[Instruction, int]] = []
    last: dict[tuple[Instruction, int], int] = {}
    at = 0
    while at < len(path):
        token = tokens[at]
        start = last.get(token, len(done))
        size = len(done) - start
        rounds = 0
        if 0 < size <= _MOST and done[start] == token:
            body = done[start:]
            while tokens[at + rounds * size : at + (rounds + 1) * size] == body:
                rounds += 1
        if rounds:
            for i in range(start, len(done)):
                kept[i] = kept[i]._replace(times=kept[i].times * (rounds + 1))
                done[i] = (done[i][0], kept[i].times)
            at += rounds * size
        else:
            last[token] = len(done)
            done.append(token)
            kept.append(path[at])
            at += 1
    return kept
