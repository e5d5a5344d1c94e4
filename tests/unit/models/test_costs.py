# SPDX-License-Identifier: GPL-2.0-or-later
"""Cost tables: those that come with kentry, a user's, and what is wrong with a file."""

from pathlib import Path

import msgspec
import pytest

from kentry.arch import ARCHES
from kentry.errors import UserError
from kentry.models.costs import Figure, load_costs, prices_on, shipped, table_for, to_toml

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


INSTRUCTIONS = """
cores = ["mine", "yours"]
[instructions."msr DAIF"]
value = 12
low = 8
high = 20
assume = "published"
source = "a manual"
[instructions.isb]
value = 30
assume = "measured"
source = "my desk"
"""
ALONE = f'name = "mine"\narch = "arm64"{INSTRUCTIONS}'


def written(tmp_path: Path, text: str) -> Path:
    file = tmp_path / "mine.toml"
    file.write_text(text)
    return file


@pytest.mark.parametrize("name", shipped())
def test_every_table_that_ships_says_where_each_figure_is_from(name: str, tmp_path: Path) -> None:
    table = load_costs(name)
    assert table.name == name
    assert table.arch in ARCHES
    assert table.about
    figures = [*table.figures.values(), *table.instructions.values()]
    for figure in figures:
        assert figure.low <= figure.value <= figure.high
        assert len(figure.source) > 10
        assert figure.assume != "assumed" or figure.has_interval
    # A table of guesses is no table.
    assert any(figure.assume != "assumed" for figure in figures)
    assert load_costs(written(tmp_path, to_toml(table))) == table


@pytest.mark.parametrize(("arch", "bits"), [("arm64", 128), ("riscv64", 128), ("x86_64", 256)])
def test_every_architecture_has_a_counted_table(arch: str, bits: int) -> None:
    table = table_for(arch, bits)
    assert (table.arch, table.vl, table.unit) == (arch, bits, "instructions")
    with pytest.raises(UserError, match=f"{arch} with vectors of 64 bits"):
        table_for(arch, 64)


def test_counted_tables_are_in_instructions_and_no_other() -> None:
    counted = {name for name in shipped() if load_costs(name).unit == "instructions"}
    assert counted == {name for name in shipped() if "-counted-" in name}
    for name in counted:
        for act, figure in load_costs(name).figures.items():
            # No kernel for riscv64 drops access, so there is none to count.
            if (name.startswith("riscv64"), act) == (True, "drop"):
                assert figure.assume == "assumed"
            else:
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


def test_a_table_is_written_and_read_again(tmp_path: Path) -> None:
    table = load_costs(written(tmp_path, TABLE))
    assert table.figures["trap"] == Figure(900, 700, 1200.5, "measured", "my desk", "once")
    assert table.figures["flush"] == Figure(12.5, 12.5, 12.5, "published", "a mail")
    again = load_costs(written(tmp_path, to_toml(table)))
    assert again == table
    assert msgspec.to_builtins(again)["figures"]["trap"]["high"] == 1200.5
    quoted = msgspec.structs.replace(table, about='a "quoted" \\ sentence, "\u00e9"')
    assert load_costs(written(tmp_path, to_toml(quoted))) == quoted


@pytest.mark.parametrize(
    ("old", "new", "datum"),
    [
        ("figures.trap", "figures.trp", "unknown act"),
        ('source = "my desk"', "", "figures.trap"),
        ('source = "my desk"', 'source = " "', "figures.trap.source"),
        ('source = "my desk"', 'source = "a\\u001b[2J"', "figures.trap.source"),
        ('note = "once"', 'note = "a\\nb"', "figures.trap.note"),
        ("value = 900", "value = -1", "figures.trap"),
        ("value = 900", "value = nan", "figures.trap"),
        ("value = 900", "value = inf", "figures.trap"),
        ("value = 900", "value = true", "figures.trap"),
        ("value = 900", 'value = "900"', "figures.trap"),
        ("value = 900", "value = 100", "figures.trap has a value of 100"),
        ("low = 700", "", "only one end"),
        ('unit = "ns"', 'unit = "cycles"', "cycles"),
        ('assume = "measured"', 'assume = "sure"', "sure"),
        ('name = "mine"', 'name = "My table"', "name"),
        ('name = "mine"', "", "name"),
        ("vl = 256", "vl = -1", "vl"),
        ("vl = 256", "vl = 100", "vl"),
        ('arch = "arm64"', 'arch = "mips"', "arch"),
        ("vl = 256", "vl = 256\nvalue = 3", "value"),
        ("note =", "notes =", "notes"),
        ("[figures.trap]", "[figures.trap", "line"),
        # Of instructions.
        ('cores = ["mine", "yours"]', "", "does not name its cores"),
        ('["mine", "yours"]', '["mine", "a\\u001b[2J"]', "cores[1]"),
        ("value = 12\n", "value = 120\n", "instructions.msr DAIF has a value of 120"),
        ("value = 30", "value = -30", "instructions.isb"),
        ('source = "a manual"', "", "instructions.msr DAIF"),
        ("[instructions.isb]", '[instructions."a\\nb"]', "printable"),
    ],
)
def test_a_wrong_file_is_one_sentence(tmp_path: Path, old: str, new: str, datum: str) -> None:
    whole = TABLE if old in TABLE else ALONE
    assert old in whole
    with pytest.raises(UserError) as caught:
        load_costs(written(tmp_path, whole.replace(old, new, 1)))
    assert datum in caught.value.sentence
    assert "\n" not in caught.value.sentence
    assert caught.value.remedy


@pytest.mark.parametrize(
    "data",
    [
        *(b"", b"figures = 3", b'name = "x"\narch="y"\nunit="ns"\nfigures={}'),
        *(b"\xff\xfe", b"#" * (1 << 21), b"a=" + b"[" * 100_000),
    ],
    ids=len,
)
def test_another_file_is_no_table(tmp_path: Path, data: bytes) -> None:
    file = tmp_path / "x.toml"
    file.write_bytes(data)
    with pytest.raises(UserError, match="cost table"):
        load_costs(file)


def test_an_unknown_name_lists_those_that_ship() -> None:
    with pytest.raises(UserError, match="mean sve128") as caught:
        load_costs("sve12")
    assert "sifive-x280" in caught.value.remedy
    with pytest.raises(UserError, match="/none.toml"):
        load_costs("/none.toml")
    with pytest.raises(UserError, match="/"):
        load_costs("/")


def test_a_table_may_have_instructions_beside_acts_or_alone(tmp_path: Path) -> None:
    head, acts = TABLE.split("[figures.trap]")
    both = load_costs(written(tmp_path, f"{head}{INSTRUCTIONS}[figures.trap]{acts}"))
    assert both.figures["trap"].value == 900
    assert both.instructions["msr DAIF"] == Figure(12, 8, 20, "published", "a manual")
    assert both.cores == ("mine", "yours")
    assert load_costs(written(tmp_path, to_toml(both))) == both
    alone = load_costs(written(tmp_path, ALONE))
    assert (alone.figures, alone.instructions) == ({}, both.instructions)
    assert load_costs(written(tmp_path, to_toml(alone))) == alone


def test_a_core_has_its_own_figures_before_those_of_all_cores() -> None:
    for_all = load_costs("x86_64-any").instructions
    assert prices_on("x86_64", "znver4") == for_all
    assert prices_on("arm64", "neoverse-n1") == load_costs("neoverse-n1").instructions
    assert prices_on("riscv64", "neoverse-n1") == {}
    assert prices_on("arm64", "a-core-of-nobody") == {}
