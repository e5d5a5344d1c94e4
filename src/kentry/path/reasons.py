# SPDX-License-Identifier: GPL-2.0-or-later
"""What the instructions of a system call's path are for, by reasons.toml, which names sources."""

import re
import tomllib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

from kentry.arch import Arch
from kentry.model.recording import Instruction
from kentry.path.phases import parts, split_calls
from kentry.path.symbols import base_name

# For what no rule matches.
NOT_KNOWN = "not known"

_FILE = Path(__file__).with_name("reasons.toml")
_ALL = "all"
_PATTERNS = {"functions", "text", "part", "behind"}


@dataclass(frozen=True)
class Rule:
    """One rule; reasons.toml describes its fields."""

    functions: re.Pattern[str]
    reason: str
    source: str
    text: re.Pattern[str] | None = None
    part: re.Pattern[str] | None = None
    behind: re.Pattern[str] | None = None
    first: int | None = None

    def matches(self, insn: Instruction, before: Instruction | None, part: str) -> bool:
        """Whether it decides about `insn`, which was executed directly after `before`."""
        return (
            self.functions.fullmatch(base_name(insn.function)) is not None
            and (self.first is None or insn.offset < self.first)
            and (self.text is None or self.text.fullmatch(insn.text) is not None)
            and (self.part is None or self.part.fullmatch(part) is not None)
            and (
                self.behind is None
                or (before is not None and self.behind.fullmatch(before.text) is not None)
            )
        )


class Purpose(NamedTuple):
    """Of one instruction: its part of the path, its reason, and where that is from ("")."""

    part: str
    reason: str
    source: str


@cache
def rules(arch: str) -> tuple[Rule, ...]:
    """An architecture's rules in their order."""
    tables = tomllib.loads(_FILE.read_text(encoding="utf-8"))
    return tuple(map(_rule, [*tables[arch], *tables[_ALL]]))


def _rule(table: dict[str, Any]) -> Rule:
    words = dict(table)
    for name in _PATTERNS & words.keys():
        words[name] = re.compile(words[name])
    return Rule(**words)


def purposes(path: Sequence[Instruction], arch: Arch) -> Iterator[Purpose]:
    """The purpose of each instruction of a window's path, in its order."""
    known = rules(arch.name)
    for call in split_calls(path):
        before: Instruction | None = None
        for part in parts(call, arch):
            for insn in part.instructions:
                found = (rule for rule in known if rule.matches(insn, before, part.name))
                rule = next(found, None)
                reason, source = (rule.reason, rule.source) if rule else (NOT_KNOWN, "")
                yield Purpose(part.name, reason, source)
                before = insn
