# SPDX-License-Identifier: GPL-2.0-or-later
"""What models make of a path: cycles of a named core, what was left out, misses of its caches."""

from __future__ import annotations

from typing import Annotated, Literal

from msgspec import Meta, Struct

from kentry.results.document import OMITTED, Count, Number, Positive, about

# Why an instruction was left out of the model's stream.
Why = Literal["entry", "system", "unknown"]
ENTRY: Why = "entry"
SYSTEM: Why = "system"
UNKNOWN: Why = "unknown"

# What can limit a path, beside a port, which has the model's name.
FRONT_END = "front end"
DEPENDENCIES = "dependencies"


class Share(Struct, frozen=True):
    """What a function or a part has of a path's cycles, with its instructions that were left out.

    The rows of a path add up to its instructions, and to its cycles from `low` to `high`.
    """

    name: str
    instructions: Count
    low: Number
    high: Number
    missing: Annotated[Count, about("Instructions that have no figure")] = 0


class LeftOut(Struct, frozen=True):
    """An instruction that the model did not see, `times` times, and its figure in cycles."""

    name: str
    times: Positive
    why: Annotated[
        Why,
        about(
            "What enters the kernel, which no path has; an instruction of the system,"
            " which no model prices; one that this model does not know"
        ),
    ]
    low: Annotated[Number | None, about("Of one, in cycles; null: no figure is known")] = None
    high: Number | None = None
    source: str = ""


class Limit(Struct, frozen=True):
    """What limits the path: how long each would take alone, in cycles of a steady pass."""

    by: Annotated[str, about("front end, dependencies, or the name of a port in LLVM's model")]
    front_end: Annotated[Number, about("Micro-operations by the width of the front end")]
    port: Annotated[str, about("The busiest port")]
    port_cycles: Number
    ports: Annotated[
        str,
        about("What the names of the model's ports begin with: some cores share another's model"),
    ]


class Estimate(Struct, frozen=True):
    """A core's cycles for one window of a case, by a scheduling model: no measurement.

    `model` are the cycles of what the model knows, one pass from an empty pipeline; `low` and
    `high` add the figures of what it does not know.  Where a figure is missing, the path takes at
    least that.  `steady` is a pass of what the model knows, when passes follow each other.
    """

    core: str
    llvm: Annotated[str, Meta(pattern=r"^[0-9]+(\.[0-9]+)*$"), about("LLVM's version")]
    model: Count
    low: Number
    high: Number
    missing: Annotated[Count, about("Instructions that have no figure; 0: the range is whole")]
    steady: Number
    limit: Limit
    left: tuple[LeftOut, ...]
    functions: Annotated[tuple[Share, ...], about("In the order of the path; they add up")]
    parts: Annotated[tuple[Share, ...], about("Of the kernel entry; they add up")]


class Level(Struct, frozen=True):
    """A cache or a TLB."""

    name: Annotated[str, about("L1I, L1D, L2, L3, ITLB, DTLB, L2 TLB, L2 ITLB or L2 DTLB")]
    bytes: Annotated[Positive, about("Of memory that it holds; of a TLB, that its entries map")]
    ways: Positive
    line: Annotated[Positive, about("Bytes of a line, or of a page")]


class Misses(Struct, frozen=True):
    """How often one window of a case misses in each level of a core, by a model."""

    core: str
    levels: tuple[Level, ...]
    warm: Annotated[tuple[Count, ...], about("By level, after windows of the same case")]
    cold: Annotated[tuple[Count, ...], about("By level, with nothing in any of them")]
    walked: Annotated[
        tuple[tuple[Positive, tuple[Count, ...]], ...],
        about("By level, after a program has read a number of bytes: [bytes, misses], by bytes"),
    ]
    source: Annotated[str, about("Where the sizes and ways are from")]
    walked_with_code: Annotated[
        tuple[tuple[Positive, tuple[Count, ...]], ...],
        about("As `walked`, after the program has also run through as many bytes of code"),
        OMITTED,
    ] = ()
