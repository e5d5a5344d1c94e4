# SPDX-License-Identifier: GPL-2.0-or-later
"""Cost tables as text."""

from collections.abc import Callable

import pytest

from kentry.models.costs import CostTable, Figure, load_costs, shipped
from kentry.show.models import costs_layout, list_layout
from kentry.show.table import WIDTH
from kentry.show.text import to_text

Golden = Callable[[str, str], None]

TABLE = CostTable(
    name="mine",
    about="a core of mine",
    arch="arm64",
    unit="ns",
    vl=256,
    figures={
        "trap": Figure(1234.56, 900, 2000, "measured", "my desk", "with a note"),
        "flush": Figure(14.25, 14.25, 14.25, "published", "a mail \u2013 of May"),
        "save": Figure(3, 2, 4.5, "measured", "my desk", "with a note"),
    },
    absent={"ipi": "nobody sent one"},
)


def test_a_row_an_act_and_the_sources_below(golden: Golden) -> None:
    text = to_text(costs_layout(TABLE, [("flush", 34, 34.1)]))
    rows = [line.split() for line in text.splitlines()]
    assert ["trap", "1235", "900", "-", "2000", "measured", "[1]"] in rows
    assert ["flush", "14.2", "published", "[2]"] in rows
    assert ["save", "3", "2", "-", "4.5", "measured", "[1]"] in rows
    assert ["flush", "34", "34.1"] in rows
    golden("cost-table.txt", text)


@pytest.mark.parametrize("name", shipped())
def test_what_ships_fits_into_a_mail(name: str) -> None:
    text = to_text(costs_layout(load_costs(name)))
    assert text.isascii()
    assert max(map(len, text.splitlines())) <= WIDTH


def test_the_list_has_every_table() -> None:
    text = to_text(list_layout(map(load_costs, shipped())))
    assert text.isascii()
    assert max(map(len, text.splitlines())) <= WIDTH
    assert {line.split()[0] for line in text.splitlines() if line[0] != " "} >= set(shipped())
