# SPDX-License-Identifier: GPL-2.0-or-later
"""Processors by name: what makes QEMU one of them, and what it still lacks of it.

processors.toml has them, each with the sources of what it says.
"""

import tomllib
from collections.abc import Iterable, Mapping
from functools import cache
from pathlib import Path

import msgspec
from msgspec import Struct

from kentry.arch.record import Arch
from kentry.errors import UserError

# All that QEMU emulates, which no processor of silicon has.
MAX = "max"

_TABLE = Path(__file__).with_name("processors.toml")


class Processor(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """One processor; `name` is as a user writes it, a row of the table or QEMU's own words."""

    name: str = ""
    model: str  # QEMU's -cpu; {vl} and {vq} are the vector length in bits and in units of 128 bits
    since: tuple[int, ...] = (7, 2)  # the oldest QEMU that has it
    machine: str = ""  # QEMU's -machine, if not the architecture's
    words: tuple[str, ...] = ()  # of the kernel's command line
    # By vector unit, lengths in bits that it is measured with, the default first; without: none.
    lengths: Mapping[str, tuple[int, ...]] = {}
    boards: tuple[str, ...] = ()  # with this processor, as other names for it
    core: str = ""  # LLVM's name, if another: --core
    lacks: tuple[str, ...] = ()  # of what silicon has, in sentences, with what the kernel does then
    sources: tuple[str, ...] = ()  # of the facts; a processor that only QEMU knows has none

    def qemu(self, length: int | None = None) -> str:
        """Returns QEMU's -cpu with vectors of `length` bits, or of the first unit's default."""
        bits = length or next(iter(self.lengths.values()), (0,))[0]
        return self.model.replace("{vl}", str(bits)).replace("{vq}", str(bits // 128))


class _Side(Struct, frozen=True, forbid_unknown_fields=True):
    """The processors of an architecture, and what they have in common."""

    lacks: tuple[str, ...]
    sources: tuple[str, ...]
    processors: dict[str, Processor]
    properties: str = ""


# Cases that need a second cpu, and the kernel's words that say what it is for.
_ON_SECOND_CPU = {"getppid-nohz-full": "nohz_full=1 isolcpus=1"}


def words_for(cases: Iterable[str]) -> list[str]:
    """Returns what the kernel's command line needs for these cases; if any, a second cpu, too."""
    bases = {name.partition("+")[0] for name in cases}
    return [word for name, word in _ON_SECOND_CPU.items() if name in bases]


def machine_for(arch: Arch, processor: Processor, cases: Iterable[str] = ()) -> str:
    """Returns QEMU's -machine for a boot with these cases, by their names in recordings."""
    bases = (name.partition("+")[0] for name in cases)
    needed = next((arch.machines[base] for base in bases if base in arch.machines), "")
    return needed or processor.machine or arch.machine


@cache
def table() -> dict[str, dict[str, Processor]]:
    """Returns the processors of each architecture, by name."""
    sides = msgspec.convert(tomllib.loads(_TABLE.read_text(encoding="utf-8")), dict[str, _Side])
    return {
        arch: {
            name: msgspec.structs.replace(
                row,
                name=name,
                model=",".join(filter(None, (row.model, side.properties))),
                lacks=(*row.lacks, *side.lacks),
                sources=(*row.sources, *side.sources),
            )
            for name, row in side.processors.items()
        }
        for arch, side in sides.items()
    }


def names_of(arch: str) -> dict[str, Processor]:
    """What a user may call each processor of an architecture: its name, or a board with it."""
    return {word: row for row in table()[arch].values() for word in (row.name, *row.boards)}


def all_names() -> list[str]:
    """Returns the names and boards of every architecture."""
    return [name for arch in table() for name in names_of(arch)]


def find_processor(arch: Arch, text: str = MAX) -> Processor:
    """Returns the processor that `text` names in the table; else QEMU will know it, or refuse it.

    UserError where it is one of another architecture.
    """
    if text == MAX:
        lengths = {unit.name: unit.lengths for unit in arch.vector.units}
        return Processor(name=MAX, model=arch.cpu, lengths=lengths)
    if row := names_of(arch.name).get(text):
        return msgspec.structs.replace(row, name=text)
    first, *properties = text.split(",")
    if second := next((word for word in properties if word in names_of(arch.name)), ""):
        raise UserError(
            f"'{text}' names two processors, and a boot has one.",
            f"Compare them: kentry diff SPEC,cpu={first} SPEC,cpu={second}.",
        )
    for other in table():
        if text in names_of(other):
            raise UserError(
                f"'{text}' is a processor of {other}, and the kernel is of {arch.name}.",
                f"Use --arch {other}, or one of: {MAX}, {', '.join(table()[arch.name])}.",
            )
    return Processor(name=text, model=text)


def vector_bits(arch: Arch, processor: str, unit: str, length: int | None = None) -> int:
    """Returns a vector length in bits: `length`, or else the processor's default for the unit."""
    row = names_of(arch.name).get(processor)
    own = row.lengths.get(unit) if row else None
    return length or (own or (arch.vector.unit(unit) or arch.vector.units[0]).lengths)[0]


def processor_of_core(arch: Arch, core: str) -> Processor | None:
    """Returns the processor with a core that LLVM calls so; None where the table has none."""
    rows = table()[arch.name].values()
    return next((row for row in rows if core in (row.name, row.core)), None)
