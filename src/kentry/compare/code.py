# SPDX-License-Identifier: GPL-2.0-or-later
"""Which functions' code differs between two recordings, as far as both executed it.

A recording has every instruction that any context of any case executed.  Where a function's code
is the same in both kernels, both have the same instruction at each offset that both executed.  An
instruction that is inserted moves all that follow, and what leads to it was executed before it: a
change that a path meets is therefore seen, unless only one of the recordings came to the branch
that leads there.
"""

import re
from collections import Counter, defaultdict
from collections.abc import Sequence
from functools import lru_cache

from kentry.path.symbols import UNNAMED, base_name
from kentry.results.recording import Instruction, Recording

# What the linker, or the kernel when it boots, put into an instruction.
_NUMBER = re.compile(r"(?<![\w.%])[#$]?-?(?:0x[0-9a-f]+|\d+)\b|\+0x[0-9a-f]+(?=>)")
_TARGET = re.compile(r"<([^<>\n]+)>")

# By offset, the instructions there without numbers, and their lengths in hexadecimal digits.
# There are several where the kernel patched itself.
_Code = defaultdict[int, set[tuple[str, int]]]


def changed_functions(old: Recording, new: Recording) -> frozenset[str]:
    """Returns the functions whose code differs, and those that these call from other places."""
    return _changed(tuple(old.code), tuple(new.code))


# Each case of two recordings asks for it.
@lru_cache(maxsize=2)
def _changed(old: Sequence[Instruction], new: Sequence[Instruction]) -> frozenset[str]:
    # A compiler's clones are compared by their own names, and returned by the function's.
    sides = _code(old), _code(new)
    shared = sides[0].keys() & sides[1].keys()
    changed = {name for name in shared if _differ(sides[0][name], sides[1][name])}
    reached: set[str] = set()
    while changed - reached:
        reached |= changed
        before, after = (
            Counter(
                target
                for name in changed & own.keys()
                for texts in own[name].values()
                for text, _ in texts
                for target in _TARGET.findall(text)
            )
            for own in sides
        )
        changed |= {name for name in before | after if before[name] != after[name]}
    return frozenset(map(base_name, changed))


def _code(code: Sequence[Instruction]) -> dict[str, _Code]:
    """Returns each function's code, a compiler's clones by their own names."""
    functions: defaultdict[str, _Code] = defaultdict(lambda: defaultdict(set))
    texts = _NUMBER.sub("#", "\n".join(insn.text for insn in code)).split("\n")
    for insn, text in zip(code, texts, strict=False):
        if insn.function != UNNAMED:
            functions[insn.function][insn.offset].add((text, len(insn.code)))
    return functions


def _differ(old: _Code, new: _Code) -> bool:
    """Whether one has another instruction at an offset, or one that begins within another."""
    if any(old[offset].isdisjoint(new[offset]) for offset in old.keys() & new.keys()):
        return True
    starts = old.keys() | new.keys()
    return any(
        not starts.isdisjoint(range(offset + 1, offset + size // 2))
        for code in (old, new)
        for offset, own in code.items()
        for _, size in own
    )
