# SPDX-License-Identifier: GPL-2.0-or-later
"""The layout of tables: every rule of width."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kentry.show.blocks import Column, Table, text_column
from kentry.show.table import LEAST_WIDTH, WIDTH, plain, shortened, table_lines, terminal, wrapped
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
    for width in (LEAST_WIDTH, 60, WIDTH, 200):
        with terminal(width):
            lines = table_lines(table)
        for line in lines:
            assert line.isascii() and line.isprintable() and line == line.rstrip()
            assert len(line) <= width
    assert max(map(len, table_lines(table))) <= WIDTH


def test_a_narrow_terminal_shortens_words_and_no_number() -> None:
    table = Table([Column(), text_column("kernel", most=34), Column("count"), Column("step")], 2)
    table.row(1, "arm64: entry: convert to generic entry", 1234567, -7654321)
    with terminal(LEAST_WIDTH):
        lines = table_lines(table)
    assert [line.split()[-2:] for line in lines] == [["count", "step"], ["1234567", "-7654321"]]
    assert "arm64: entry:" in lines[1] and "..." in lines[1]


def test_a_narrow_terminal_repeats_fewer_keys_where_all_do_not_fit() -> None:
    table = Table([text_column("case"), *(Column(str(n) * 12) for n in range(4))], keys=3)
    table.row("getppid", *range(4))
    with terminal(LEAST_WIDTH):
        rows = [line.split() for line in table_lines(table) if line.startswith("getppid")]
    assert rows == [["getppid", "0", number] for number in "123"]


def test_paragraphs_are_neither_narrower_than_a_terminal_nor_wider_than_a_mail() -> None:
    with terminal(1):
        assert max(map(len, wrapped("word " * 30))) <= LEAST_WIDTH
    with terminal(200):
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
