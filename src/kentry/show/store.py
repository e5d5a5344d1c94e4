# SPDX-License-Identifier: GPL-2.0-or-later
"""What `kentry store query` prints: a table as wide as its rows."""

from kentry.results.query import Query
from kentry.show.blocks import Column, Layout, Table, text_column

# No row is broken in two, so that awk and cut can read them.
_WIDTH = 1 << 16


def query_layout(query: Query) -> Layout:
    """Lays the rows out, numbers to the right."""
    columns = []
    for at, name in enumerate(query.columns):
        is_text = any(isinstance(row[at], str) for row in query.rows)
        columns.append(text_column(name) if is_text else Column(name))
    table = Table(columns, width=_WIDTH)
    for row in query.rows:
        # All digits that every number of 64 bits has.
        table.row(*(f"{value:.15g}" if isinstance(value, float) else value for value in row))
    return Layout("query", "", "", [table] if query.rows else ["No rows."])
