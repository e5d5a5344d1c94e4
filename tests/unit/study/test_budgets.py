# SPDX-License-Identifier: GPL-2.0-or-later
"""Files of budgets: what one says, what is refused, and numbers renewed where they stand."""

from __future__ import annotations

import contextlib
import time
import tomllib
from fractions import Fraction
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kentry.errors import UserError
from kentry.study.budgets import Budget, Budgets, read_budgets

WHOLE = """\
# Of entry.  It isn't "much" = 5.
baseline.arm64 = "old.json"   # measured on 6.12

[arm64]   # [all] = 3
getppid = 312                 # the null call, 312
"get*id" = "+2"
'stat' = "+1.5%"
read = { instructions = 700, ns = "+2 %" }   # 700
"12" = 1_000

[arm64."write"]
ns = 8.25

[all]
invalid = 0x10
"""


def read(tmp_path: Path, text: str | bytes) -> Budgets:
    file = tmp_path / "budgets.toml"
    file.write_bytes(text.encode() if isinstance(text, str) else text)
    return read_budgets(file)


def refused(tmp_path: Path, text: str | bytes) -> str:
    with pytest.raises(UserError) as caught:
        read(tmp_path, text)
    assert caught.value.remedy and caught.value.sentence.isprintable()
    return caught.value.sentence


def test_every_form_of_a_budget(tmp_path: Path) -> None:
    budgets = read(tmp_path, WHOLE)
    ins = "instructions"
    assert list(budgets.all) == [
        Budget("arm64", "getppid", ins, "312", Fraction(312), line=5),
        Budget("arm64", "get*id", ins, "+2", Fraction(2), relative=True, line=6),
        Budget("arm64", "stat", ins, "+1.5 %", Fraction(3, 2), True, True, line=7),
        Budget("arm64", "read", ins, "700", Fraction(700), line=8),
        Budget("arm64", "read", "ns", "+2 %", Fraction(2), True, True, line=8),
        Budget("arm64", "12", ins, "1000", Fraction(1000), line=9),
        Budget("arm64", "write", "ns", "8.25", Fraction(33, 4), line=12),
        Budget("all", "invalid", ins, "16", Fraction(16), line=15),
    ]
    assert budgets.baselines == {"arm64": tmp_path / "old.json"}
    assert [one.key for one in budgets.of_arch("riscv64")] == ["invalid"]
    # A line is that of the file, also below a value of several lines.
    budgets = read(tmp_path, '[arm64]\nx = """\\\n\n+2"""\ny = 1\n\n[all]\n"#" = 2\n')
    assert [(one.key, one.line) for one in budgets.all] == [("x", 2), ("y", 5), ("#", 8)]


@pytest.mark.parametrize(
    ("text", "part"),
    [
        ("", "no budget"),
        ('baseline.arm64 = "x"', "no budget"),
        ("[arm64]", "no budget"),
        ("[amd64]\ngetppid = 1", "'amd64' is no key (did you mean arm64?)"),
        ("[arm64\n", "line 1"),
        ("getppid = 312", "'getppid' is no key"),
        ("arm64 = 312", "arm64 is not a table"),
        ("[arm64]\ngetppid = -1", "arm64.getppid is not a limit: -1"),
        ("[arm64]\ngetppid = nan", "arm64.getppid is not a limit"),
        ("[arm64]\ngetppid = inf", "arm64.getppid is not a limit"),
        (f"[arm64]\ngetppid = 1{'0' * 400}", "arm64.getppid is not a limit"),
        ("[arm64]\ngetppid = true", "arm64.getppid is no budget: 'bool'"),
        ("[arm64]\ngetppid = [1]", "arm64.getppid is no budget: 'list'"),
        ("[arm64]\ngetppid = 1979-05-27", "arm64.getppid is no budget"),
        ('[arm64]\ngetppid = "312"', "arm64.getppid is no budget: '312'"),
        ('[arm64]\ngetppid = "-2"', "arm64.getppid is no budget"),
        ('[arm64]\ngetppid = "+2 percent"', "arm64.getppid is no budget"),
        ('[arm64]\ngetppid = "+1e3"', "arm64.getppid is no budget"),
        ("[arm64]\ngetppid = {}", "arm64.getppid has no metric"),
        ("[arm64]\ngetppid = { ns = { x = 1 } }", "arm64.getppid.ns is no budget: 'dict'"),
        ('[arm64]\n"" = 1', "is not a line of printable text"),
        ('[arm64]\n"\\u001b[2J" = 1', "is not a line of printable text"),
        ('baseline = "old.json"\n[arm64]\na = 1', "baseline names no architecture"),
        ('baseline.vax = "x"\n[arm64]\na = 1', "baseline.vax is of no architecture"),
        ("baseline.arm64 = 3\n[arm64]\na = 1", "baseline.arm64 is not a file's name"),
        ("[[arm64]]\ngetppid = 1", "arm64 is not a table"),
        ("[arm64]\na.b = [1]\n[all]\n[arm64.c]\nd = [2]\n# 1" + "0" * 10 + "9" * 10, "no budget"),
        (b"\xff\xfe", "decode"),
        (b"#" * (2 << 20), "larger than 1 MiB"),
    ],
)
def test_a_mistake_in_the_file_is_one_sentence(
    tmp_path: Path, text: str | bytes, part: str
) -> None:
    assert part in refused(tmp_path, text)


@pytest.mark.parametrize("name", ["../out.json", "/etc/passwd", ".", "in/../../x", "link", "up/x"])
def test_a_baseline_outside_of_the_folder_is_refused(tmp_path: Path, name: str) -> None:
    folder = tmp_path / "own"
    folder.mkdir()
    (tmp_path / "out.json").write_text("{}")
    (folder / "link").symlink_to("../out.json")
    (folder / "up").symlink_to("..")
    for one in (name, f"{folder}/inside.json"):
        assert "below the folder" in refused(folder, f'baseline.arm64 = "{one}"\n[arm64]\na = 1')


def test_a_link_inside_of_the_folder_is_no_way_out(tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to("sub/real.json")
    budgets = read(tmp_path, 'baseline.arm64 = "link"\n[arm64]\na = 1')
    assert budgets.baselines["arm64"] == tmp_path / "link"


def test_only_the_renewed_numbers_change(tmp_path: Path) -> None:
    text = WHOLE.replace("\n", "\r\n")
    budgets = read(tmp_path, text)
    new = {budget: 7 + place for place, budget in enumerate(budgets.all) if not budget.relative}
    assert budgets.renewed({}) == text
    for before, after in (
        *(("getppid = 312 ", "getppid = 7 "), ("= 700,", "= 10,")),
        *(("1_000", "12"), ("8.25", "13"), ("0x10", "14")),
    ):
        text = text.replace(before, after)
    assert budgets.renewed(new) == text


@pytest.mark.parametrize(
    "text",
    [
        '[arm64]\ngetppid = 5\nx = """+2"""\n',
        '[arm64]\ngetppid = 5\n\n[all]\nx = """\\\n+2""" # """',
        "[arm64]\ngetppid=5#'\nx='''+2'''\n",
        "arm64.getppid = 5",
        "arm64 = {'getppid'=5}",
        "[arm64]\n5 = 5\n[arm64.getppid]\ninstructions = +5",
    ],
)
def test_a_number_is_found_however_it_is_written(tmp_path: Path, text: str) -> None:
    budgets = read(tmp_path, text)
    [budget] = [one for one in budgets.all if one.key == "getppid"]
    assert budget.line
    renewed = tomllib.loads(budgets.renewed({budget: 6}))
    expected = tomllib.loads(text)
    own = expected["arm64"]
    own["getppid"] = {"instructions": 6} if isinstance(own["getppid"], dict) else 6
    assert renewed == expected


NAMES = st.text(st.sampled_from("ab1#\"'=*+.@% \\"), min_size=1, max_size=6)


def quoted(name: str) -> str:
    return '"' + name.replace("\\", "\\\\").replace('"', '\\"') + '"'


@given(
    st.dictionaries(NAMES, st.integers(0, 10**9), min_size=1, max_size=6),
    st.lists(NAMES, max_size=3),
    st.data(),
)
def test_renewed_files_say_what_they_should_whatever_the_names(
    tmp_path_factory: pytest.TempPathFactory,
    cases: dict[str, int],
    comments: list[str],
    data: st.DataObject,
) -> None:
    lines = [f"{quoted(name)} = {value} # {value} {name}" for name, value in cases.items()]
    text = "\n".join([*(f"# {one}" for one in comments), "[arm64]", *lines, ""])
    budgets = read(tmp_path_factory.mktemp("budgets"), text)
    new = {one: data.draw(st.integers(0, 10**9)) for one in budgets.all}
    renewed = budgets.renewed(new)
    assert tomllib.loads(renewed)["arm64"] == {one.key: limit for one, limit in new.items()}
    for before, after in zip(text.splitlines(), renewed.splitlines(), strict=True):
        assert before.partition("# ")[2] == after.partition("# ")[2] or '"' in before


@pytest.mark.slow
@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        (f"[arm64]\n{'.'.join(['a'] * 20_000)} = 1\n", 2),
        ("[arm64]\n" + "".join(f"case{n} = {n}\n" for n in range(20_000)), 12),
    ],
)
def test_a_large_file_is_no_hang(tmp_path: Path, text: str, seconds: float) -> None:
    began = time.process_time()
    with contextlib.suppress(UserError):
        assert read(tmp_path, text).all[-1].line == 20_001
    assert time.process_time() - began < seconds
