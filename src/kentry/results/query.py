# SPDX-License-Identifier: GPL-2.0-or-later
"""The rows that a store has for a statement."""

from __future__ import annotations

from typing import Annotated

from msgspec import Struct

from kentry.results.document import about

Value = str | int | float | None


class Query(Struct, frozen=True, kw_only=True, tag_field="schema", tag="kentry/query/1"):
    """What `kentry store query --json` prints."""

    columns: Annotated[tuple[str, ...], about("The columns' names")]
    rows: Annotated[tuple[tuple[Value, ...], ...], about("A value for each column")]
