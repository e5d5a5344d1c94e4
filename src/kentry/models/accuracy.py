# SPDX-License-Identifier: GPL-2.0-or-later
"""How far the scheduling models were from a real core: accuracy.toml, by bench/accuracy.py."""

import tomllib
from functools import cache
from pathlib import Path

import msgspec
from msgspec import Struct

_TABLE = Path(__file__).with_name("accuracy.toml")


class Routine(Struct, frozen=True):
    """A routine of a kernel: cycles a call, measured (with its interval) and by the model.

    `missing` of its instructions are not known to the model.
    """

    name: str
    instructions: int
    model: float
    measured: float
    low: float
    high: float
    missing: int

    @property
    def error(self) -> float:
        """The model's, as a fraction of what was measured."""
        return self.model / self.measured - 1


class Accuracy(Struct, frozen=True):
    """The routines on one core, by LLVM's name for it."""

    core: str
    cpu: str
    llvm: str
    kernel: str
    routine: tuple[Routine, ...]

    @property
    def errors(self) -> list[float]:
        """The absolute errors of the routines of which the model knows every instruction."""
        return [abs(one.error) for one in self.routine if not one.missing]


@cache
def accuracy() -> Accuracy:
    """Reads the shipped table."""
    return msgspec.convert(tomllib.loads(_TABLE.read_text()), Accuracy)
