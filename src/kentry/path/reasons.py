# SPDX-License-Identifier: GPL-2.0-or-later
"""What the instructions of a system call's path are for, by reasons.toml, which names sources."""

import re
import tomllib
from collections.abc import Iterator, Sequence
from functools import cache, lru_cache
from pathlib import Path
from typing import NamedTuple

import msgspec

from kentry.arch import Arch
from kentry.path.calls import parts, split_calls
from kentry.path.symbols import base_name
from kentry.results.recording import Instruction

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
    first: int | None = None

    def matches(self, insn: Instruction, before: Instruction | None, part: str) -> bool:
        """Whether it decides about `insn` of its functions, executed directly after `before`."""
        return (
            (self.first is None or insn.offset < self.first)
            and (not self.text or bool(self.text.fullmatch(insn.text)))
            and (not self.part or bool(self.part.fullmatch(part)))
            and (not self.behind or bool(before and self.behind.fullmatch(before.text)))
        )


class Purpose(NamedTuple):
    """Of one instruction: its part of the path, its reason, and where that is from ("")."""

    part: str
    reason: str
    source: str


@cache
def rules(arch: str) -> tuple[Rule, ...]:
    """An architecture's rules in their order."""
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
    """The purpose of each instruction of a window's path, in its order."""
    for call in split_calls(path):
        before: Instruction | None = None
        for part in parts(call, arch):
            for insn in part.instructions:
                known = _rules_of(arch.name, insn.function)
                rule = next((one for one in known if one.matches(insn, before, part.name)), None)
                reason, source = (rule.reason, rule.source) if rule else (NOT_KNOWN, "")
                yield Purpose(part.name, reason, source)
                before = insn
