# SPDX-License-Identifier: GPL-2.0-or-later
"""Processors by name: what makes QEMU one of them, and what it still lacks of it."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from kentry.arch.record import Arch

# All that QEMU emulates, which no processor of silicon has.
MAX = "max"


@dataclass(frozen=True, kw_only=True)
class Processor:
    """One processor; `name` is as a user writes it, a row of the table or QEMU's own words."""

    name: str
    model: str  # QEMU's -cpu; {vl} and {vq} are the vector length in bits and in units of 128 bits
    since: tuple[int, ...] = (7, 2)  # the oldest QEMU that has it
    # By vector unit, the lengths in bits that it can have, the default first; without: it has none.
    lengths: Mapping[str, tuple[int, ...]] = field(default_factory=dict)
    lacks: tuple[str, ...] = ()  # of what silicon has, in sentences, with what the kernel does then

    def qemu(self, length: int | None = None) -> str:
        """QEMU's -cpu with vectors of `length` bits, or of the first unit's default length."""
        bits = length or next(iter(self.lengths.values()), (0,))[0]
        return self.model.format(vl=bits, vq=bits // 128)


def find_processor(arch: Arch, text: str = MAX) -> Processor:
    """The processor that `text` names; UserError where there is none."""
    if text == MAX:
        return Processor(
            name=MAX,
            model=arch.cpu,
            lengths={unit.name: unit.lengths for unit in arch.vector.units},
        )
    return Processor(name=text, model=text)
