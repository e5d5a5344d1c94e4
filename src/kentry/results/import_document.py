# SPDX-License-Identifier: GPL-2.0-or-later
"""The document kentry/import/1: numbers that other tools printed."""

from typing import Annotated

from msgspec import Meta, Struct

from kentry.results.caveats import Caveat
from kentry.results.document import Positive


class ImportBase(Struct, frozen=True):
    """What a change is of."""

    side: str
    lines: list[Positive]
    value: Annotated[float, Meta(description="The median of those lines")]
    change_percent: Annotated[str, Meta(description="No digit beyond the published ones")]
    step_percent: Annotated[str | None, Meta(description="Change from the side above")]


class ImportedNumber(Struct, frozen=True):
    """One published number."""

    line: Positive
    side: Annotated[str, Meta(description="What the file calls the kernel or set-up; may be empty")]
    case: str
    metric: Annotated[str, Meta(description="Its name in a recording")]
    published: Annotated[str, Meta(description="As it was printed")]
    unit: Annotated[str, Meta(description="The published one")]
    value: Annotated[float, Meta(description="Per call, in the metric's unit")]
    about: Annotated[bool, Meta(description="It was published as about that")]
    spread: str
    percent_of: Annotated[str | None, Meta(description="What a published percentage is of")]
    base: Annotated[ImportBase | None, Meta(description="null for a base itself")]
    absent: Annotated[list[str], Meta(description="What the number lacks")]


class ImportedFile(Struct, frozen=True):
    """One file that was read."""

    file: str
    formats: list[str]
    arch: Annotated[str | None, Meta(description="null where the user named none")]
    numbers: list[ImportedNumber]


class ImportDocument(Struct, frozen=True, tag_field="schema", tag="kentry/import/1"):
    """What kentry import printed."""

    files: Annotated[list[ImportedFile], Meta(min_length=1)]
    caveats: list[Caveat]
