# SPDX-License-Identifier: GPL-2.0-or-later
"""The layout of tables: every rule of width."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kentry.show.blocks import Column, Table, text_column
from kentry.show.table import WIDTH, plain, shortened, table_lines, terminal, wrapped
from kentry.show.text import written


def test_a_wide_column_is_shortened_before_the_table_is_split() -> None:
    table = Table([text_column("a", most=10), *[Column(f"{n}" * 9) for n in range(6)]])
    table.row("x" * 30, *range(6))
    head, row = table_lines(table)
    assert len(row) == WIDTH and "xxxxxxx..." in row
    assert head.split() == ["a", *[f"{n}" * 9 for n in range(6)]]


def test_columns_that_do_not_fit_follow_below_with_the_keys_again() -> None:
    table = Table([text_column("case"), *[Column("n" * 20) for _ in range(5)]])
    table.row("getppid", *range(5))
    lines = table_lines(table)
    assert [line.split() for line in lines if line.startswith("getppid")] == [
        ["getppid", "0", "1", "2"],
        ["getppid", "3", "4"],
    ]


def test_a_group_stays_together_below_its_name() -> None:
    columns = [Column(name, group=group) for group in "ab" for name in ("count" * 4, "step" * 5)]
    table = Table([text_column("case"), *columns])
    table.row("getppid", 1, 2, 3, 4)
    lines = table_lines(table)
    assert [line.split() for line in lines] == [
        ["a"],
        ["case", "count" * 4, "step" * 5],
        ["getppid", "1", "2"],
        [],
        ["b"],
        ["case", "count" * 4, "step" * 5],
        ["getppid", "3", "4"],
    ]


def test_the_last_column_continues_below_itself() -> None:
    table = Table([text_column("case"), text_column("why", wraps=True)])
    table.row("read", "word " * 20)
    lines = table_lines(table)
    assert len(lines) == 3 and lines[2].startswith("      word")


def test_a_sentence_without_room_goes_below_its_row() -> None:
    table = Table([text_column("case"), text_column("why", wraps=True)])
    table.row("c" * 60, "word " * 5)
    assert table_lines(table)[1:] == ["c" * 60, "    word word word word word"]


@given(
    st.lists(
        st.tuples(st.text(max_size=90), st.integers(-(10**12), 10**12), st.text(max_size=90)),
        min_size=1,
        max_size=5,
    )
)
def test_any_table_is_ascii_within_the_width(rows: list[tuple[str, int, str]]) -> None:
    columns = [text_column("a", most=20), Column("b, ns"), text_column("c", wraps=True)]
    table = Table(columns)
    for row in rows:
        table.row(*row)
        table.note(row[0])
    for width in (1, WIDTH, 200):
        with terminal(width):
            lines = table_lines(table)
        for line in lines:
            assert line.isascii() and line.isprintable() and line == line.rstrip()
            assert len(line) <= max(width, WIDTH)
    assert max(map(len, table_lines(table))) <= WIDTH


def test_paragraphs_are_as_wide_as_a_mail_on_every_terminal() -> None:
    for columns in (1, 200):
        with terminal(columns):
            assert WIDTH - 5 < max(map(len, wrapped("word " * 30))) <= WIDTH


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("Caf\u00e9 \u2013 na\u00efve \u00d72", "Cafe - naive x2"),
        ("\u201ctwo\nlines\u201d\t\x1b[31m", '"two lines" [31m'),
        ("\u5185\u6838", "??"),
    ],
)
def test_text_from_outside_becomes_one_line_of_ascii(text: str, expected: str) -> None:
    assert plain(text) == expected


def test_text_is_cut_with_dots_and_a_number_stays_with_its_per_cent() -> None:
    assert (shortened("abcdef", 6), shortened("abcdefg", 6)) == ("abcdef", "abc...")
    lines = wrapped("word " * 14 + "1000 % of all")
    assert lines == ["word " * 13 + "word", "  1000 % of all"]
    assert written(["a  ", "\u00e9"]) == "a\n?\n"
