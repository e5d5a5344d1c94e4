# SPDX-License-Identifier: GPL-2.0-or-later
"""Makes a manual page of kentry and of each command from the parser, as `make man` asks.

Usage: python scripts/man.py FOLDER, such as .venv/share/man/man1: man finds that one where
.venv/bin is on the PATH.
"""

from __future__ import annotations

import argparse
import re
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path

from kentry import __version__
from kentry.cli import COMMANDS, build_parser
from kentry.commands.options import Parser

EXIT_CODES = {
    "0": "done, and for kentry check: within the budgets",
    "1": "a regression, where the command was asked to look for one",
    "2": "a mistake, or a missing tool",
    "3": "undecided",
    "125, 128": "of kentry check --bisect: no verdict on this commit; stop",
}
VARIABLES = {
    "KENTRY_CACHE": "where kernels, builds and recordings are kept (default: ~/.cache/kentry)",
    "PAGER": "the program that shows text of more lines than the terminal has (default: less -FRX);"
    " cat, or nothing, for none",
    "NO_COLOR": "where it is set and not empty there is no colour, unless --color asks for it",
}


def manual_pages() -> dict[str, str]:
    """The text of each page, by the name of its file."""
    parsers = {"": build_parser()} | dict(_below(build_parser(), ""))
    return {f"{_name(words)}.1": _page(words, parser) for words, parser in parsers.items()}


def _below(parser: argparse.ArgumentParser, above: str) -> Iterator[tuple[str, Parser]]:
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            for word, sub in action.choices.items():
                words = f"{above} {word}".strip()
                yield words, sub
                yield from _below(sub, words)


def _name(words: str) -> str:
    return "-".join(["kentry", *words.split()])


def _page(words: str, parser: Parser) -> str:
    name = _name(words)
    synopsis = parser.format_usage().removeprefix("usage: ").strip()
    lines = [
        f'.TH {name.upper()} 1 "" "kentry {__version__}" "kentry"',
        # Names are not divided, and no blanks are put between words.
        *(".nh", ".ad l"),
        *(".SH NAME", f"{_text(name)} \\- {_text(parser.summary.rstrip('.'))}"),
        *(".SH SYNOPSIS", _text(synopsis)),
    ]
    for group in parser._action_groups:
        actions = [one for one in group._group_actions if one.help != argparse.SUPPRESS]
        if actions:
            lines.append(f".SH {(group.title or '').upper()}")
            lines += [line for action in actions for line in _action(parser, action)]
    lines += [".SH EXAMPLES", ".nf", *map(_text, parser.examples), ".fi"]
    lines += [".SH EXIT STATUS", *_list(EXIT_CODES), ".SH ENVIRONMENT", *_list(VARIABLES)]
    others = [_name(other) for other in ("", *COMMANDS) if other != words]
    lines += [".SH SEE ALSO", *(f".BR {_text(other)} (1)," for other in others[:-1])]
    return "\n".join([*lines, f".BR {_text(others[-1])} (1)"]) + "\n"


def _action(parser: Parser, action: argparse.Action) -> Iterator[str]:
    """An option or operand with its help; of commands, a line for each."""
    if isinstance(action, argparse._SubParsersAction):
        yield from _list({str(one.dest): one.help or "" for one in action._choices_actions})
    else:
        head = parser._get_formatter()._format_action_invocation(action)
        yield from _list({head: action.help or ""})


def _list(items: dict[str, str]) -> Iterator[str]:
    for head, text in items.items():
        yield from (".TP", f"\\fB{_text(head)}\\fR", _text(text))


def _text(text: str) -> str:
    """As roff prints it: no escape, no request, and a "-" that can be copied."""
    text = text.replace("\\", "\\e").replace("-", "\\-").replace("~", "\\(ti").replace("^", "\\(ha")
    text = text.replace("`", "\\(ga").replace("'", "\\(aq").replace('"', "\\(dq")
    return re.sub(r"^\.", "\\&.", text)


def write(folder: Path, pages: Iterable[tuple[str, str]]) -> None:
    """Writes the pages into the folder, which is made if it is not there."""
    folder.mkdir(parents=True, exist_ok=True)
    for name, text in pages:
        (folder / name).write_text(text, encoding="ascii")


if __name__ == "__main__":
    write(Path(sys.argv[1]), manual_pages().items())
