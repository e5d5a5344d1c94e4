# SPDX-License-Identifier: GPL-2.0-or-later
"""Cost tables: those that come with kentry, a user's, and what is wrong with a file."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from kentry.arch import ARCHES
from kentry.errors import UserError
from kentry.vector.costs import (
    ACTS,
    ASSUMPTIONS,
    CostTable,
    Figure,
    load_costs,
    shipped,
    to_json,
    to_toml,
)
from kentry.vector.mechanism import ACTS as COUNTED

TABLE = """
name = "mine"
arch = "arm64"
unit = "ns"
vl = 256
[figures.trap]
value = 900
low = 700
high = 1200.5
assume = "measured"
source = "my desk"
note = "once"
[figures.flush]
value = 12.5
assume = "published"
source = "a mail"
"""


def written(tmp_path: Path, text: str) -> Path:
    file = tmp_path / "mine.toml"
    file.write_text(text)
    return file


@pytest.mark.parametrize("name", shipped())
def test_every_table_that_ships_says_where_each_figure_is_from(name: str) -> None:
    table = load_costs(name)
    assert table.name == name
    assert table.arch in ARCHES
    assert table.about
    for figure in table.figures.values():
        assert figure.low <= figure.value <= figure.high
        assert figure.assume in ASSUMPTIONS
        assert len(figure.source) > 10
        if figure.assume == "assumed":
            assert figure.has_interval


def test_counted_tables_are_in_instructions_and_no_other() -> None:
    counted = {name for name in shipped() if load_costs(name).unit == "instructions"}
    assert counted == {name for name in shipped() if "-counted-" in name}
    for name in counted:
        for act, figure in load_costs(name).figures.items():
            # No kernel for riscv64 drops access, so there is none to count.
            if (name.startswith("riscv64"), act) == (True, "drop"):
                assert figure.assume == "assumed"
                continue
            assert figure.assume in ("counted", "derived"), (name, act)
            assert "kentry " in figure.source


def test_published_figures_are_those_that_were_published() -> None:
    x280 = load_costs("sifive-x280").figures
    assert x280["syscall"].value == 178.2
    assert x280["flush"].value == pytest.approx(234.8 - 178.2)
    assert x280["flush"].low == pytest.approx(242.9 - 194.3)
    sve = load_costs("sve128").figures
    assert sve["flush"].value == pytest.approx(0.06 * sve["syscall"].value, abs=0.05)
    fpu = load_costs("haswell-like").figures
    assert fpu["save"].value + fpu["restore"].value == 32
    a53 = load_costs("odroid-c2").figures
    assert a53["small_save"].value == pytest.approx((381 - 236) / 2 / 1.536, abs=0.05)


def test_every_act_that_is_counted_can_be_given() -> None:
    assert set(COUNTED) <= set(ACTS)


def test_a_table_is_written_and_read_again(tmp_path: Path) -> None:
    table = load_costs(written(tmp_path, TABLE))
    assert table.figures["trap"] == Figure(900, 700, 1200.5, "measured", "my desk", "once")
    assert table.figures["flush"] == Figure(12.5, 12.5, 12.5, "published", "a mail")
    again = load_costs(written(tmp_path, to_toml(table)))
    assert again == table
    assert to_json(again)["figures"]["trap"]["high"] == 1200.5
    quoted = replace(table, about='a "quoted" \\ sentence, "\u00e9"')
    assert load_costs(written(tmp_path, to_toml(quoted))) == quoted


@pytest.mark.parametrize("name", shipped())
def test_what_ships_can_be_copied(name: str, tmp_path: Path) -> None:
    assert load_costs(written(tmp_path, to_toml(load_costs(name)))) == load_costs(name)


def test_a_vector_is_in_the_order_asked_for(tmp_path: Path) -> None:
    table = load_costs(written(tmp_path, TABLE))
    assert table.vector(["flush", "trap"]).tolist() == [12.5, 900]
    assert table.vector(["flush", "trap"], bound="low").tolist() == [12.5, 700]
    assert table.vector(["flush", "trap"], bound="high").tolist() == [12.5, 1200.5]
    assert table.vector(["trap"]).dtype == np.float64


def test_a_figure_that_is_missing_only_matters_where_it_is_needed(tmp_path: Path) -> None:
    file = written(tmp_path, TABLE)
    table = load_costs(file)
    assert table.vector(["ipi", "trap"], needed=["trap"]).tolist() == [0, 900]
    with pytest.raises(UserError, match="no figure for 'ipi'") as caught:
        table.vector(["ipi", "trap"])
    assert "[figures.ipi]" in caught.value.remedy
    assert str(file) in caught.value.remedy
    with pytest.raises(UserError, match="no figure for 'trap'") as caught:
        load_costs("haswell-like").figure("trap")
    assert "a copy of it (kentry vector costs haswell-like -o FILE)" in caught.value.remedy


def test_a_table_made_in_memory_can_be_asked() -> None:
    table = CostTable("x", "arm64", "ns", {"trap": Figure(1, 1, 1, "assumed", "me")})
    assert table.vector(["trap"]).tolist() == [1]


@pytest.mark.parametrize(
    ("old", "new", "reason"),
    [
        ("figures.trap", "figures.trp", "'trp' is no act (did you mean trap?)"),
        ('source = "my desk"', "", "figures.trap has no source"),
        ('source = "my desk"', 'source = " "', "source is not a line of printable text"),
        ('source = "my desk"', 'source = "a\\u001b[2J"', "source is not a line of printable text"),
        ("value = 900", "value = -1", "a cost is finite and not negative"),
        ("value = 900", "value = nan", "a cost is finite and not negative"),
        ("value = 900", "value = inf", "a cost is finite and not negative"),
        ("value = 900", "value = true", "not a number"),
        ("value = 900", 'value = "900"', "not a number"),
        ("value = 900", "value = 100", "outside its interval"),
        ("low = 700", "", "only one end of its interval"),
        ('unit = "ns"', 'unit = "cycles"', "its unit is 'cycles', not ns or instructions"),
        ('assume = "measured"', 'assume = "sure"', "none of measured, published"),
        ('name = "mine"', 'name = "My table"', "is not made of"),
        ('name = "mine"', "", "it has no name"),
        ("vl = 256", "vl = -1", "not a vector length"),
        ("vl = 256", "vl = 256\nvalue = 3", "'value', which is none of"),
        ("note =", "notes =", "'notes', which is none of"),
        ("[figures.trap]", "[figures.trap", "not a cost table"),
    ],
)
def test_what_is_wrong_with_a_file_is_one_sentence(
    tmp_path: Path, old: str, new: str, reason: str
) -> None:
    assert old in TABLE
    with pytest.raises(UserError) as caught:
        load_costs(written(tmp_path, TABLE.replace(old, new, 1)))
    assert reason in caught.value.sentence
    assert "\n" not in caught.value.sentence
    assert caught.value.remedy


@pytest.mark.parametrize("text", ["", "figures = 3", 'name = "x"\narch="y"\nunit="ns"\nfigures={}'])
def test_a_file_without_figures_is_no_table(tmp_path: Path, text: str) -> None:
    with pytest.raises(UserError, match="is not a cost table"):
        load_costs(written(tmp_path, text))


def test_a_file_that_is_no_text_or_too_long_is_no_table(tmp_path: Path) -> None:
    file = tmp_path / "x.toml"
    for data in (b"\xff\xfe", b"#" * (1 << 21), b"a=" + b"[" * 100_000):
        file.write_bytes(data)
        with pytest.raises(UserError, match="is not a cost table"):
            load_costs(file)


def test_an_unknown_name_lists_those_that_ship() -> None:
    with pytest.raises(UserError, match="no cost table 'sve12'. Did you mean sve128") as caught:
        load_costs("sve12")
    assert "sifive-x280" in caught.value.remedy
    with pytest.raises(UserError, match="/none.toml cannot be read"):
        load_costs("/none.toml")
    with pytest.raises(UserError, match="cannot be read"):
        load_costs("/")
