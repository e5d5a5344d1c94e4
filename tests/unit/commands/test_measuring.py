# SPDX-License-Identifier: GPL-2.0-or-later
"""The arguments of vector states: cases, lengths, how many windows."""

import argparse
from pathlib import Path

import pytest

from kentry.arch import ARCHES
from kentry.commands import measuring
from kentry.errors import UserError
from kentry.measure.vector_units import boots
from kentry.model.case_name import USES
from tests.builders import recording

ARM, RISCV = ARCHES["arm64"], ARCHES["riscv64"]
LONGER = "getppid+vec=once+vl=256"


def parsed(*words: str) -> argparse.Namespace:
    parser = argparse.ArgumentParser()
    measuring.add_arguments(parser)
    return parser.parse_args(words)


def names(*words: str) -> list[str]:
    return list(measuring.case_names(parsed(*words), RISCV))


@pytest.mark.parametrize(
    ("words", "chosen"),
    [
        (["--case", "read,getppid+vec=once"], ["read", "getppid+vec=once"]),
        (["--preset", "v-getppid"], ["getppid+vec=none", "getppid+vec=once"]),
        (
            ["--preset", "v-getppid", "--case", "getppid+vec=once,getpid"],
            ["getpid", "getppid+vec=once", "getppid+vec=none"],
        ),
        (["--case", "getppid+vec=once", "--vl", "512"], ["getppid+vec=once+vl=512"]),
        (
            ["--case", "getppid,getpid+vec=once", "--vl", "256,128,256"],
            ["getppid", "getpid+vec=once+vl=256", "getpid+vec=once"],
        ),
        (["--case", "getpid+vec=once+vl=512", "--vl", "128,256"], ["getpid+vec=once+vl=512"]),
    ],
)
def test_words_matrix_preset_and_lengths_are_one_list(words: list[str], chosen: list[str]) -> None:
    assert names(*words) == chosen


def test_a_matrix_once_a_length() -> None:
    once = names("--matrix", "vector")
    assert [name for name in once if name.startswith("getppid+")] == [
        f"getppid+vec={use}" for use in (*USES, "1/10")
    ]
    assert names("--matrix", "vec", "--vl", "128,256") == [*once, *(f"{n}+vl=256" for n in once)]


@pytest.mark.parametrize("words", [[], ["--case", "getppid"], ["--case", "*"]])
def test_a_length_of_no_vector_state_is_a_mistake(words: list[str]) -> None:
    with pytest.raises(UserError) as caught:
        names("--vl", "256", *words)
    assert caught.value.sentence == (
        "--vl is the vector length of cases with a vector state, and none is chosen."
    )
    assert "--matrix vector" in caught.value.remedy


@pytest.mark.parametrize("text", ["", "big", "128,", "128,,256", "-1", "1.5"])
def test_what_is_no_list_of_lengths(text: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        parsed(f"--vl={text}")
    assert "is no list of vector lengths in bits" in capsys.readouterr().err


def test_a_preset_that_is_none(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        parsed("--preset", "lmbench")
    assert "fp-pidbench" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("words", "windows", "paths"),
    [
        ([], 1000, 128),
        (["--case", "getppid+vec=*"], 1000, 128),
        (["--matrix", "vector"], 200, 32),
        (["--matrix", "vector", "--windows", "7", "--paths", "3"], 7, 3),
    ],
)
def test_a_matrix_has_fewer_windows_a_case(words: list[str], windows: int, paths: int) -> None:
    options = measuring.options_of(parsed(*words), RISCV)
    assert (options.windows, options.path_windows) == (windows, paths)
    assert options.vector_length is None


def test_another_architectures_unit_is_a_mistake_before_anything_is_booted() -> None:
    with pytest.raises(UserError, match="riscv64 has no vector unit 'za'"):
        measuring.options_of(parsed("--matrix", "za"), RISCV)
    assert measuring.options_of(parsed("--matrix", "za"), ARM).cases


def test_every_boot_keeps_a_console_of_its_own(tmp_path: Path) -> None:
    words = [
        "--case",
        "getppid+vec=once",
        "--vl",
        "128,256",
        "--console",
        str(tmp_path / "console"),
    ]
    each = boots(measuring.options_of(parsed(*words), RISCV))
    assert len({one.console_file for one in each}) == len(each) == 2


@pytest.mark.parametrize(
    ("words", "texts", "asked_for"),
    [
        ([], ["source:6.12", "source:6.1"], None),
        (["--case", "getppid+vec=once", "--vl", "256"], ["source:6.12", "source:6.1"], [LONGER]),
        (["--preset", "v-getppid"], ["source:6.12"], ["getppid+vec=once"]),
        (["--case", "getppid+vec=*"], ["a.json", "b.json"], ["getppid+vec=once", LONGER]),
        (["--case", "getppid"], ["a.json"], ["getppid"]),
    ],
)
def test_what_was_asked_for_is_called_as_it_was_measured(
    words: list[str], texts: list[str], asked_for: list[str] | None
) -> None:
    cases = {name: [("f", 5)] for name in ("getppid", "getppid+vec=once", LONGER)}
    found = recording(cases, kernel={"arch": "riscv64"})
    assert measuring.asked_for(texts, [found], parsed(*words)) == asked_for
