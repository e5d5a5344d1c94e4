# SPDX-License-Identifier: GPL-2.0-or-later
"""Cost tables as text."""

import pytest

from kentry.report.costs import costs_text, list_text
from kentry.vector.costs import CostTable, Figure, load_costs, shipped

TABLE = CostTable(
    "mine",
    "arm64",
    "ns",
    {
        "trap": Figure(1234.56, 900, 2000, "measured", "my desk", "with a note"),
        "flush": Figure(14.25, 14.25, 14.25, "published", "a mail \u2013 of May"),
        "save": Figure(3, 2, 4.5, "measured", "my desk", "with a note"),
    },
    "a core of mine",
    256,
)


def test_a_row_an_act_and_sources_below() -> None:
    assert costs_text(TABLE, {"ipi": "nobody sent one"}, [("flush", 34, 34.1)]) == (
        "mine (arm64, 256 bits), ns\n"
        "a core of mine\n"
        "\n"
        "act                  value  interval          assume    source\n"
        "trap                  1235  900 - 2000        measured  [1]\n"
        "flush                 14.2                    published [2]\n"
        "save                     3  2 - 4.5           measured  [1]\n"
        "\n"
        "No figure for:\n"
        "  ipi: nobody sent one\n"
        "\n"
        "Counted twice, along the recorded paths and by the guest's own clock:\n"
        "  flush                       34      34.1\n"
        "\n"
        "[1] my desk (with a note)\n"
        "[2] a mail - of May\n"
    )


@pytest.mark.parametrize("name", shipped())
def test_what_ships_fits_into_a_mail(name: str) -> None:
    text = costs_text(load_costs(name))
    assert text.isascii()
    assert max(map(len, text.splitlines())) <= 75


def test_the_list_has_every_table() -> None:
    text = list_text(map(load_costs, shipped()))
    assert text.isascii()
    assert max(map(len, text.splitlines())) <= 75
    assert all(f"\n{name}" in text for name in shipped())
