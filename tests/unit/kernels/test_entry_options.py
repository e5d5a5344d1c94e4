# SPDX-License-Identifier: GPL-2.0-or-later
"""Lists of options, as kentry ablate takes them."""

from __future__ import annotations

from pathlib import Path

import pytest

from kentry.errors import UserError
from kentry.kernels.config import Option, entry_options, parse_options


def test_options_on_the_command_line() -> None:
    found = parse_options("CONFIG_A,CONFIG_HZ=250")
    assert found == [Option("CONFIG_A"), Option("CONFIG_HZ", "250")]
    assert found[0].on() == ("CONFIG_A=y",)
    assert found[0].off() == ("CONFIG_A=n",)
    assert found[1].on() == ("CONFIG_HZ=250",)


def test_options_in_a_file(tmp_path: Path) -> None:
    file = tmp_path / "list"
    file.write_text(
        "# a comment\n\nCONFIG_A\n  CONFIG_B=m   with CONFIG_NET CONFIG_C=2 # why\nCONFIG_D with\n"
    )
    found = parse_options(str(file))
    needs = ("CONFIG_NET=y", "CONFIG_C=2")
    assert found == [Option("CONFIG_A"), Option("CONFIG_B", "m", needs), Option("CONFIG_D")]
    assert found[1].on() == (*needs, "CONFIG_B=m")
    assert found[1].off() == (*needs, "CONFIG_B=n")


@pytest.mark.parametrize(
    "text",
    [
        *("CONFIG_A,", "CONFIG_A,,CONFIG_B", "CONFIG_A=", "CONFIG_A,B", "CONFIG_A=n", "CONFIG_"),
        *("CONFIG_A CONFIG_B", "CONFIG_A without CONFIG_B", "CONFIG_A with B", "CONFIG_A=$(x)"),
    ],
)
def test_what_is_not_understood_is_shown_how(tmp_path: Path, text: str) -> None:
    with pytest.raises(UserError) as raised:
        parse_options(text)
    assert raised.value.remedy
    if "," not in text:
        (tmp_path / "list").write_text(f"{text}\n")
        with pytest.raises(UserError):
            parse_options(str(tmp_path / "list"))


@pytest.mark.parametrize("content", [None, b"", b"# nothing\n", b"\xff\xfe"])
def test_a_list_that_names_nothing(tmp_path: Path, content: bytes | None) -> None:
    if content is not None:
        (tmp_path / "list").write_bytes(content)
    with pytest.raises(UserError) as raised:
        parse_options(str(tmp_path / "list"))
    assert str(tmp_path / "list") in raised.value.sentence
    assert raised.value.remedy


def test_the_options_that_come_with_kentry() -> None:
    found = entry_options()
    names = [option.name for option in found]
    assert len(set(names)) == len(names) > 30
    assert "CONFIG_SECCOMP" in names
    for option in found:
        assert option.name not in [need.partition("=")[0] for need in option.needs]
