# SPDX-License-Identifier: GPL-2.0-or-later
"""Options of all commands: one meaning for one name, few enough, refused where they do nothing."""

import argparse
from collections.abc import Iterator
from pathlib import Path

import pytest

from kentry.cli import build_parser, main
from kentry.commands.options import RARE, Parser, read, take_anywhere
from kentry.errors import UserError

COMMON = {"--help", "--verbose", "--quiet"}
# An output is a file, or a folder where there are several results; only kentry record takes
# several vector lengths; kentry import takes architectures that kentry cannot boot; kentry check
# and kentry export write different formats.
SEVERAL_MEANINGS = {"--output", "--vl", "--arch", "--format"}
MOST = 192


def leaves(parser: Parser) -> Iterator[Parser]:
    below = [one for one in parser._actions if isinstance(one, argparse._SubParsersAction)]
    for action in below:
        for sub in action.choices.values():
            yield from leaves(sub)
    if not below:
        yield parser


PARSERS = {parser.prog: parser for parser in leaves(build_parser())}
OPTIONS = [
    (prog, action)
    for prog, parser in PARSERS.items()
    for action in parser._actions
    if action.option_strings
]


def test_there_are_few_enough_options() -> None:
    assert len([one for _, one in OPTIONS if one.option_strings[-1] not in COMMON]) <= MOST


@pytest.mark.parametrize("prog", PARSERS)
def test_a_command_shows_few_options_before_those_that_are_rarely_needed(prog: str) -> None:
    first = [group for group in PARSERS[prog]._action_groups if group.title != RARE]
    flags = [
        one.option_strings[-1]
        for group in first
        for one in group._group_actions
        if one.option_strings
    ]
    # Compare two kernels, a row a patch, find the commit: what most come for.
    main_jobs = {"kentry diff", "kentry series", "kentry bisect"}
    assert len(set(flags) - COMMON) <= (8 if prog in main_jobs else 9)


def test_an_option_has_one_meaning_and_one_default_everywhere() -> None:
    meanings: dict[str, set[tuple[object, ...]]] = {}
    for _, one in OPTIONS:
        name = one.option_strings[-1]
        meaning = (tuple(one.option_strings), one.metavar, one.type, one.nargs)
        meanings.setdefault(name, set()).add(meaning)
    several = {name for name, found in meanings.items() if len(found) > 1}
    assert several - SEVERAL_MEANINGS == set()


@pytest.mark.parametrize("prog", PARSERS)
def test_help_opens_with_three_examples_of_the_command(
    prog: str, capsys: pytest.CaptureFixture[str]
) -> None:
    words = prog.split()[1:]
    for line in (["help", *words], [*words, "--help"]):
        with pytest.raises(SystemExit) as caught:
            main(line)
        assert caught.value.code == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[2] == "examples:"
    assert len([line for line in lines[3:6] if prog in line]) >= 1
    assert all(line.startswith("  kentry ") for line in lines[3:6])
    assert lines[6] == ""


VALUED = [
    (prog, one.option_strings[-1]) for prog, one in OPTIONS if one.nargs in (None, 1, "+", "*")
]


@pytest.mark.parametrize(("prog", "name"), VALUED)
def test_an_empty_value_is_refused(prog: str, name: str) -> None:
    with pytest.raises(UserError, match=name):
        build_parser().parse_args([*prog.split()[1:], f"{name}="])


@pytest.mark.parametrize(
    "line", ["record debian:6.12 -o -", "run debian:6.12 --trace - -- ls", "--plan - log a"]
)
def test_no_file_is_named_by_a_dash(line: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(line.split()) == 2
    assert "- is no file" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("words", "fields"),
    [
        (["diff", "a", "b"], {"verbose": False, "quiet": False, "fresh": False}),
        (["-v", "diff", "a", "b", "-q"], {"verbose": True, "quiet": True}),
        (["--emulator=newest", "diff", "--timeout", "5", "debian:6.1", "floor:"], {"timeout": 5.0}),
        (["vector", "-v", "stats", "--color", "never", "x"], {"verbose": True, "color": "never"}),
        (["vector", "trace", "debian:6.12", "--", "ls", "-v"], {"workload": ("ls", "-v")}),
        (
            ["vector", "replay", "x", "y", "x", "--policy", "b,a,b", "--policy", "a,c"],
            # A word of a list counts once, an operand as often as it is named.
            {"policy": ("b", "a", "c"), "traces": (Path("x"), Path("y"), Path("x"))},
        ),
    ],
)
def test_some_options_may_stand_anywhere(words: list[str], fields: dict[str, object]) -> None:
    anywhere, others = take_anywhere(words)
    args = build_parser().parse_args(others, anywhere)
    options = read(args.command.Options, args)
    assert {name: getattr(options, name) for name in fields} == fields
