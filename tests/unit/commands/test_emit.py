# SPDX-License-Identifier: GPL-2.0-or-later
"""What a terminal gets: its width, colours, a pager; and that a pipe gets none of them."""

import contextlib
import json
import os
import re
import shlex
import signal
import sys
from collections.abc import Callable, Mapping, Sequence
from functools import cache, partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pexpect
import pytest
from msgspec import structs

from kentry import progress
from kentry.cli import entry_point, main
from kentry.commands import emit
from kentry.results.studies import Point
from kentry.show.studies import log_layout
from kentry.show.table import terminal
from kentry.show.text import to_text
from tests.golden.test_golden import REPORTS, a_log

GOLDEN = Path(__file__).parents[2] / "golden"
OLD, NEW = "arm64-6.1.json", "arm64-6.12.json"
DIFF = ("diff", OLD, NEW, "--case", "getppid")
CHECK = ("check", NEW, "--budget", "check.toml")
SGR = re.compile("\x1b\\[[0-9]*m")
SHOWN = [name for name in REPORTS if "changelog" not in name]
# Nothing of what the tests run under.
VARIABLES = ("NO_COLOR", "PAGER", "LESS", "COLUMNS", "LINES")


def on_terminal(words: Sequence[str], **more: Any) -> tuple[str, int | None]:
    """What kentry WORDS writes to a terminal, and its status."""
    return all_of(spawned(words, **more))


def all_of(child: pexpect.spawn) -> tuple[str, int | None]:
    text = child.read()
    child.close()
    return text.replace("\r\n", "\n"), child.exitstatus


def spawned(
    words: Sequence[str],
    columns: int = 80,
    lines: int = 500,
    variables: Mapping[str, str] | None = None,
) -> pexpect.spawn:
    def kentry() -> None:
        os.environ.update(variables or {})
        sys.argv = ["kentry", *words]
        entry_point()

    return forked(kentry, columns, lines)


def forked(program: Callable[[], None], columns: int, lines: int) -> pexpect.spawn:
    """A copy of this process on a terminal: it has imported what kentry takes 0.2 s to."""

    def run() -> None:
        # pexpect waits for the end of a pipe, which exec would close.
        os.closerange(3, 1 << 16)
        for number, name in enumerate(("stdin", "stdout", "stderr")):
            for attribute in (name, f"__{name}__"):
                setattr(sys, attribute, os.fdopen(number, "rww"[number], closefd=False))
        for name in VARIABLES:
            os.environ.pop(name, None)
        os.environ["TERM"] = "xterm-256color"
        code: object = 0
        try:
            program()
        except SystemExit as err:
            code = err.code
        finally:
            sys.stdout.flush()
            os._exit(code if isinstance(code, int) else 99)

    more = {"cwd": GOLDEN, "encoding": "utf-8", "timeout": 60}
    return pexpect.spawn("true", preexec_fn=run, dimensions=(lines, columns), **more)


def bare(text: str) -> str:
    return SGR.sub("", text)


@cache
def reports_on(columns: int) -> str:
    def show() -> None:
        for name in SHOWN:
            print(f"==> {name}")
            emit.emit(SimpleNamespace(color=emit.AUTO), REPORTS[name])

    return all_of(forked(show, columns, 5000))[0]


@pytest.mark.parametrize("columns", [80, 200])
@pytest.mark.slow
def test_no_line_of_a_report_is_wider_than_the_terminal(columns: int) -> None:
    text = reports_on(columns)
    plain = bare(text)
    assert [name for name in SHOWN if f"==> {name}\n" not in plain] == []
    assert [line for line in plain.splitlines() if len(line) > columns] == []
    # Only colours are sent beside text.
    assert "\x1b[1m" in text
    assert all(line.isprintable() for line in plain.split("\n"))
    # Each line ends as it began, so that a reader who scrolls sees the same.
    assert [line for line in text.split("\n") if "\x1b" in line and "\x1b[m" not in line] == []


def test_a_wide_terminal_shows_long_names_whole() -> None:
    name = "arm64: entry: rename what nobody will ever call by its old name again"
    assert name not in reports_on(80)
    assert name in reports_on(200)


@pytest.mark.parametrize("name", SHOWN)
def test_colours_are_all_that_a_pipe_gets_where_they_are_forced(
    name: str, capsys: pytest.CaptureFixture[str]
) -> None:
    emit.emit(SimpleNamespace(color=emit.ALWAYS), REPORTS[name])
    text = capsys.readouterr().out
    assert "\x1b[" in text
    assert bare(text) == to_text(REPORTS[name]())


@pytest.mark.parametrize(
    "words",
    [
        DIFF,
        (*DIFF, "--changelog"),
        CHECK,
        ("annotate", NEW),
        ("import", "../../docs/cases/ia64-syscall-series.csv"),
        ("doctor",),
        ("vector", "costs"),
        ("help", "diff"),
    ],
)
def test_a_pipe_gets_no_colour(
    words: Sequence[str], monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    for name, value in {"COLUMNS": "40", "LINES": "3", "TERM": "xterm", "PAGER": "false"}.items():
        monkeypatch.setenv(name, value)
    monkeypatch.chdir(GOLDEN)
    with contextlib.suppress(SystemExit):  # of help
        main(words)
    text = capfd.readouterr().out
    assert text and "\x1b" not in text
    assert max(map(len, text.splitlines())) > 40


def test_verdicts_have_their_colours() -> None:
    text, status = on_terminal(CHECK)
    assert status == 1
    coloured = re.compile("\x1b\\[(3.)m([^\x1b]*)\x1b\\[m")
    assert {("31", "over by 1"), ("32", "within"), ("33", "undecided")} <= set(
        coloured.findall(text)
    )
    # With the change before it.
    parts = coloured.findall(on_terminal(DIFF)[0])
    assert ("31", "(+2, +0.6 %) worse") in parts
    # A function's change, with its bar: the largest has the longest.
    assert ("31", "+16 |++++++++") in parts and ("32", "-8 |----") in parts


def test_a_wide_screen_has_a_bar_for_each_verdict() -> None:
    row = re.compile(r"^(\S+): +\d+ -> +\d+ (\S*) +kernel instructions", re.MULTILINE)
    wide, narrow = (bare(on_terminal(DIFF[:3], columns=columns)[0]) for columns in (120, 75))
    bars = dict(row.findall(wide))
    assert bars["invalid"] == "|++++++++" and bars["getppid"] == "|++++"
    assert not set(dict(row.findall(narrow)).values()) & {"|++++", "|++++++++"}


@pytest.mark.parametrize(
    ("words", "variables", "coloured"),
    [
        ((), {"NO_COLOR": "1"}, False),
        ((), {"TERM": "dumb"}, False),
        ((), {"TERM": ""}, False),
        (("--color", "never"), {}, False),
        (("--json",), {}, False),
        ((), {"NO_COLOR": ""}, True),
        (("--color=always",), {"NO_COLOR": "1"}, True),
        (("--color=auto",), {}, True),
    ],
)
def test_a_terminal_gets_colour_where_it_is_wanted(
    words: Sequence[str], variables: dict[str, str], coloured: bool
) -> None:
    text, status = on_terminal((*DIFF, *words), variables=variables)
    assert (status, " worse\x1b[m" in text, "\x1b" in text) == (0, coloured, coloured)


PLAIN = (
    "Of 5 budgets: 1 over, 2 undecided, 2 within.",
    "the executed instructions are the same",
    "Total: getppid 55 -> 55 (0)",
    "add/remove: 0/0 grow/shrink: 2/4 up/down: 17/-15 (2)",
)


@pytest.mark.parametrize(
    ("lines", "styles"),
    [
        # A warning is seen, a note is not in its way, and both are one to their ends.
        ("warning: busy|      Stop it|note: a|      worse|plain", ("33", "33", "2", "2", "")),
        # A path's differences have the colours of git.
        (
            "-cpu max||@@ a @@|+added|-removed|>moved here|<moved away|@@ el0_svc @@| same||+2",
            ("", "", "36", "32", "31", "35", "35", "36", "", "", ""),
        ),
        ("|".join(PLAIN), ("",) * len(PLAIN)),
    ],
)
def test_a_line_has_the_colour_of_what_it_says(
    lines: str, styles: tuple[str, ...], capsys: pytest.CaptureFixture[str]
) -> None:
    emit.write(lines.replace("|", "\n"), emit.ALWAYS)
    expected = [
        f"\x1b[{style}m{line}\x1b[m" if style else line
        for line, style in zip(lines.split("|"), styles, strict=True)
    ]
    assert capsys.readouterr().out.split("\n") == expected


def test_text_from_outside_does_not_move_the_cursor(capsys: pytest.CaptureFixture[str]) -> None:
    hostile = "a\x1b[2Jb\rc\x07d\x9b1Ae\x08f\u202eg\u2028h"
    for color in emit.COLORS:
        emit.write(f"{hostile}  worse\nnote: {hostile}\n+{hostile}\n", color)
        assert all(line.isprintable() for line in bare(capsys.readouterr().out).split("\n"))


def test_a_sparkline_is_no_wider_than_the_terminal() -> None:
    places = {place: place % 8 for place in range(300)}
    points = tuple(Point(place=one, name=str(one), value=value) for one, value in places.items())
    log = structs.replace(a_log(), kernels=len(points), points=points)
    for columns in (80, 200):
        with terminal(columns):
            lines = to_text(log_layout(log)).splitlines()
        line = lines[lines.index("") + 1]
        assert columns / 2 < len(line) <= columns


def test_the_progress_has_no_colour_either() -> None:
    def show(colourless: bool) -> None:
        progress.set_quiet(False, colourless=colourless)
        with progress.progress("x"):
            pass

    texts = [all_of(forked(partial(show, off), 80, 500))[0] for off in (True, False)]
    assert [bool(re.search("\x1b\\[[0-9;]*3[0-9]", text)) for text in texts] == [False, True]


@pytest.fixture
def pager(tmp_path: Path) -> str:
    """A PAGER that keeps what it gets in the file `paged`."""
    program = tmp_path / "my pager"
    program.write_text('#!/bin/sh\ncat > "$1"\necho paged\n')
    program.chmod(0o755)
    return shlex.join([str(program), str(tmp_path / "paged")])


@pytest.mark.slow
def test_the_pager_gets_what_is_longer_than_the_screen(pager: str, tmp_path: Path) -> None:
    text, _ = on_terminal(DIFF, variables={"PAGER": pager})
    assert not (tmp_path / "paged").exists()
    lines = text.count("\n")
    # All lines and the prompt fit, then one line less.
    assert on_terminal(DIFF, lines=lines + 1, variables={"PAGER": pager}) == (text, 0)
    assert on_terminal(DIFF, lines=lines, variables={"PAGER": pager}) == ("paged\n", 0)
    assert (tmp_path / "paged").read_text() == text
    words = ("help", "diff")
    assert on_terminal(words, lines=24, variables={"PAGER": pager}) == ("paged\n", 0)


@pytest.mark.parametrize(
    ("words", "variables"),
    [
        ((*DIFF, "--json"), {}),
        ((*CHECK, "--format", "junit"), {}),
        ((*CHECK, "--bisect"), {}),
        (("vector", "costs", "neoverse-n1", "-o", "costs.toml"), {}),
        (DIFF, {"TERM": "dumb"}),
        (DIFF, {"PAGER": ""}),
        (DIFF, {"PAGER": "cat"}),
        (DIFF, {"PAGER": "/nonexistent/pager"}),
        (DIFF, {"PAGER": "'unfinished"}),
    ],
)
@pytest.mark.slow
def test_there_is_no_pager(
    words: Sequence[str], variables: dict[str, str], pager: str, tmp_path: Path
) -> None:
    words = [str(tmp_path / word) if word == "costs.toml" else word for word in words]
    text, _ = on_terminal(words, lines=5, variables={"PAGER": pager, **variables})
    assert text.count("\n") > 5
    assert "paged" not in text and not (tmp_path / "paged").exists()
    if "--json" in words:
        json.loads(text)


def test_a_pager_that_ends_early_changes_no_exit_code() -> None:
    assert on_terminal(CHECK, lines=5, variables={"PAGER": "true"})[1] == 1


def test_less_pages_with_colours_and_keeps_ctrl_c() -> None:
    child = spawned(("annotate", NEW, "--color=auto"), 80, 10)
    child.expect_exact("\x1b[1mentry (85)")
    child.sendintr()
    # A slow less drops what comes while it handles the signal.
    for _ in range(20):
        child.send("G")
        if not child.expect_exact(["KASLR", pexpect.TIMEOUT], timeout=3):
            break
    child.send("q")
    child.expect(pexpect.EOF)
    child.close()
    assert (child.exitstatus, child.signalstatus) == (0, None)


@pytest.mark.slow
def test_a_pager_ends_with_kentry(tmp_path: Path) -> None:
    program = tmp_path / "pager"
    program.write_text("#!/bin/sh\ncat > /dev/null\necho started $$\nexec sleep 60\n")
    program.chmod(0o755)
    child = spawned(DIFF, 80, 5, variables={"PAGER": str(program)})
    child.expect(r"started (\d+)\r")
    assert isinstance(child.match, re.Match)
    pid = int(child.match[1])
    child.kill(signal.SIGTERM)
    child.expect(pexpect.EOF)
    child.close()
    assert child.exitstatus == 128 + signal.SIGTERM
    with pytest.raises(ProcessLookupError):
        os.kill(pid, 0)
