# SPDX-License-Identifier: GPL-2.0-or-later
"""kentry store query: what a store has."""

from dataclasses import dataclass

from kentry.commands.emit import emit
from kentry.commands.options import ResultOptions, StoreOptions, operand

EXAMPLES = (
    "kentry store query results",
    "kentry store query results \"SELECT release, value FROM history WHERE case_name = 'read' AND"
    " metric = 'instructions'\"",
    'kentry store query results "SELECT DISTINCT arch, cpu FROM documents" --json',
)
_CONTENTS = """SELECT arch, cpu, release, COUNT(*) AS files FROM documents
    GROUP BY arch, cpu, release ORDER BY arch, cpu, release"""


@dataclass(frozen=True, kw_only=True)
class Options(StoreOptions, ResultOptions):
    """What `kentry store query` takes."""

    statement: str = operand(
        nargs="?",
        default=_CONTENTS,
        metavar="SQL",
        help="a statement that reads documents, results and history (docs/howto/keep-results.md);"
        " without one: what there is",
    )


def run(options: Options) -> None:
    """Prints the rows."""
    from kentry.results.query import Query
    from kentry.show.store import query_layout
    from kentry.store.store import Store

    columns, rows = Store(options.store).query(options.statement)
    found = Query(columns=tuple(columns), rows=tuple(map(tuple, rows)))
    emit(options, lambda: query_layout(found), json=lambda: found)
