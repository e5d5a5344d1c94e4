# SPDX-License-Identifier: GPL-2.0-or-later
from __future__ import annotations

from kentry.kernels.kernel import Symbol, SymbolTable

FIRST = Symbol(0x1000, "T", "first")
ALIAS = Symbol(0x1000, "W", "alias")
LAST = Symbol(0x1040, "t", "last")


def test_a_table_is_sorted_and_keeps_the_order_of_aliases() -> None:
    table = SymbolTable.of([LAST, FIRST, ALIAS])
    assert list(table) == [FIRST, ALIAS, LAST]
    assert len(table) == 3


def test_an_address_lies_in_the_symbol_before_it() -> None:
    table = SymbolTable.of([FIRST, ALIAS, LAST])
    assert table.at(0xFFF) is None
    assert table.at(0x1000) == FIRST
    assert table.at(0x103F) == FIRST
    assert table.at(0x1040) == LAST
    assert table.at(1 << 64) == LAST
    assert SymbolTable.of([]).at(0) is None


def test_names_are_found() -> None:
    table = SymbolTable.of([FIRST, ALIAS, LAST])
    assert table.address_of("alias") == 0x1000
    assert table.address_of("absent") is None
