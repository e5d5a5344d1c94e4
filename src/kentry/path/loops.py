# SPDX-License-Identifier: GPL-2.0-or-later
"""A path with its loops folded: each instruction of a loop once, with how often it ran."""

from collections.abc import Sequence
from typing import NamedTuple

from kentry.results.recording import Instruction

# A longer body is no loop that a reader would look for; a system call that is repeated is one.
_MOST = 4096
# A loop in a loop in a loop.
_DEEPEST = 3


class Folded(NamedTuple):
    """An instruction, its first place in the path, and how often it ran from there on."""

    instruction: Instruction
    place: int
    times: int


def fold(path: Sequence[Instruction]) -> list[Folded]:
    """The path with the rounds of each loop as one; the times add up to the path's length.

    Rounds are one where they execute the same instructions directly after each other.
    """
    found = [Folded(insn, place, 1) for place, insn in enumerate(path)]
    for _ in range(_DEEPEST):
        before = len(found)
        found = _folded(found)
        if len(found) == before:
            break
    return found


def _folded(path: Sequence[Folded]) -> list[Folded]:
    # The whole instruction, since code can be patched while it runs.
    tokens = [(one.instruction, one.times) for one in path]
    found: list[Folded] = []
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
                found[i] = found[i]._replace(times=found[i].times * (rounds + 1))
                done[i] = (done[i][0], found[i].times)
            at += rounds * size
        else:
            last[token] = len(done)
            done.append(token)
            found.append(path[at])
            at += 1
    return found
