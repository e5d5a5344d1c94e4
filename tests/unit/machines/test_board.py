# SPDX-License-Identifier: GPL-2.0-or-later
"""Boards through labgrid itself; the board is this machine's sh, behind drivers of our own."""

import os
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from kentry.errors import MachineError
from kentry.machines import machine
from kentry.machines.board import BoardMachine
from kentry.machines.machine import CommandResult, MachineOptions
from kentry.machines.open import open_machine
from tests.processes import awaited

# A server or a board answers in seconds, not in milliseconds.
pytestmark = pytest.mark.slow

HEAD = "imports: [tests.unit.machines.lab_drivers]\ntargets:\n  x:\n    drivers:\n"
CONSOLE = "      FakeConsoleDriver: {}\n"
SERIAL = f"{HEAD}{CONSOLE}      SerialShell: {{}}\n"

PROBE = """\
#!/bin/sh
echo "kentry-probe start x86_64"
for word; do echo "kentry-probe word $word"; done
echo warning >&2
echo "kentry-probe end cases=1"
"""


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """What the board has for its folders."""
    there = tmp_path / "board"
    there.mkdir()
    monkeypatch.setenv("TMPDIR", str(there))
    monkeypatch.setenv("LG_ENV", str(tmp_path / "env.yaml"))
    yield there
    assert not list(there.iterdir()), "something stayed there"


@pytest.fixture
def probe(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    file = tmp_path / "probe"
    file.write_text(PROBE)
    monkeypatch.setattr(machine, "probe_file", lambda arch: file)
    return file


def options(tmp_path: Path, text: str, **more: Any) -> MachineOptions:
    """The options, where LG_ENV names a file with `text`."""
    (tmp_path / "env.yaml").write_text(text)
    return MachineOptions(**more)


@pytest.fixture
def place(tmp_path: Path, probe: Path, folder: Path) -> Iterator[BoardMachine]:
    """The board of SERIAL."""
    with open_machine("board:x", options(tmp_path, SERIAL)) as place:
        assert isinstance(place, BoardMachine)
        yield place


def lines_of(tmp_path: Path, text: str) -> list[str]:
    lines: list[str] = []
    with open_machine("board:x", options(tmp_path, text)) as place:
        assert (place.kind, place.name) == ("board", "board:x")
        place.run_probe(("n=3",), 20, lines.append)
    return lines


EXPECTED = ["kentry-probe start x86_64", "kentry-probe word n=3", "kentry-probe end cases=1"]
NETWORK = f"{HEAD}      NetworkShell: {{}}\n"


# Over a console, and by the way that a driver has for files.
@pytest.mark.parametrize("text", [SERIAL, NETWORK])
def test_a_probe_goes_there_and_its_lines_come_back(text: str, tmp_path: Path, probe: Path) -> None:
    assert lines_of(tmp_path, text) == EXPECTED


def test_a_console_that_loses_bytes_costs_time_only(tmp_path: Path, probe: Path) -> None:
    probe.write_text(PROBE.replace("echo warning", "seq 20000 | sed 's/^/kentry-probe t /'; :"))
    lines = lines_of(tmp_path, SERIAL.replace("SerialShell: {}", "SerialShell: {lossy: 23}"))
    assert len(lines) == 20003
    assert lines[-2] == "kentry-probe t 20000"


def test_a_command_has_its_status_and_both_outputs(place: BoardMachine) -> None:
    result = place.run_command(["sh", "-c", "echo 'a  b'; echo c >&2; exit 3"], 20)
    assert (result.status, result.stdout, result.stderr) == (3, "a  b\n", "c\n")
    with pytest.raises(MachineError, match="'sleep' on board:x"):
        place.run_command(["sleep", "100"], 1)


@pytest.mark.parametrize(
    ("body", "words"),
    [
        ("exit 7", "ended with status 7, before it said anything"),
        ("echo 'kentry-probe start x86_64'; kill -9 $$", "killed by SIGKILL, after 1 lines"),
        ("echo 'kentry-probe start x86_64'", "status 0, after 1 lines"),
        ("echo 'kentry-probe start x86_64'; sleep 100", "was stopped after 1 s"),
    ],
)
def test_a_probe_without_an_end_is_one_sentence_and_its_lines_are_kept(
    place: BoardMachine, probe: Path, body: str, words: str
) -> None:
    probe.write_text(f"#!/bin/sh\n{body}\n")
    lines: list[str] = []
    with pytest.raises(MachineError, match=words):
        place.run_probe((), 1, lines.append)
    assert lines == ["kentry-probe start x86_64"] * ("start" in body)


def test_a_folder_that_vanished_is_made_again(
    place: BoardMachine, tmp_path: Path, folder: Path
) -> None:
    lines: list[str] = []
    place.run_probe((), 20, lines.append)
    (made,) = folder.iterdir()
    made.rename(tmp_path / "elsewhere")
    place.run_probe((), 20, lines.append)
    assert lines == [EXPECTED[0], EXPECTED[2]] * 2


def test_a_state_of_the_strategy_is_another_kernel(tmp_path: Path, probe: Path) -> None:
    text = f"{SERIAL}      TwoKernels: {{}}\n"
    with open_machine("board:x", options(tmp_path, text)) as place:
        assert isinstance(place, BoardMachine)
        assert place.states == ("unknown", "off", "shell", "shell_next")
        place.boot("shell_next", lambda fraction, now: None)
        assert place.target.get_strategy().seen == ["shell", "shell_next"]
        with pytest.raises(MachineError, match="no state 'nothing'"):
            place.bring_up("nothing")


def test_a_command_that_ends_the_machine_is_not_waited_for(place: BoardMachine) -> None:
    place.leave(["sh", "-c", "echo 'a  b'; echo c >&2; exit 3"])
    assert place.left() is None
    assert awaited(place.left)
    assert place.left() == CommandResult(3, "a  b\n", "c\n")


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("targets: [\n", "labgrid could not make board:x of .*env.yaml: Error in configuration"),
        ("", "Configuration file is empty"),
        ("- a\n", "labgrid could not make board:x"),
        ("targets: {y: {}}\n", "has no target 'x'. It has: y."),
        ("targets: {}\n", "has no target 'x'. It has: none."),
        (f"{HEAD}      Nothing: {{}}\n", "unknown driver class Nothing"),
        (f"{HEAD}      SerialShell: {{}}\n", "no ConsoleProtocol driver found"),
        (f"{HEAD}{CONSOLE}", "board:x has no driver that runs commands"),
        ("imports: [no.such.module]\ntargets: {x: {}}\n", "No module named 'no'"),
        (
            f"{HEAD}      ManualPowerDriver: {{}}\n{CONSOLE}      SerialShell: {{}}\n",
            "labgrid asks for something to be done on board:x by hand: x: Turn the target x ON",
        ),
    ],
)
def test_an_environment_that_will_not_do_is_one_sentence(
    tmp_path: Path, text: str, words: str
) -> None:
    with (
        pytest.raises(MachineError, match=words) as caught,
        open_machine("board:x", options(tmp_path, text)),
    ):
        pass
    assert caught.value.remedy
    assert "\n" not in str(caught.value)


def test_a_file_that_cannot_be_put_there_is_one_sentence(tmp_path: Path, probe: Path) -> None:
    with pytest.raises(MachineError, match="could not put .*: no space"):
        lines_of(tmp_path, NETWORK.replace("{}", "{broken: true}"))


@pytest.mark.parametrize(
    ("name", "words"), [("", "No labgrid"), ("none.yaml", "no labgrid environment none.yaml")]
)
def test_lg_env_names_the_environment(
    name: str, words: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LG_ENV", name)
    with pytest.raises(MachineError, match=words):
        open_machine("board:x", MachineOptions()).__enter__()


def test_a_file_that_never_arrives_whole_is_one_sentence(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    losing = BoardMachine("board:x", options(tmp_path, SERIAL))
    monkeypatch.setattr(losing, "run", lambda command, _: (["H4sI"], 1))
    with pytest.raises(MachineError, match="to board:x whole"):
        losing.write(b"abc", "/x/probe")
    monkeypatch.setattr(BoardMachine, "has_console_shell", True)
    with pytest.raises(MachineError, match="from board:x whole"):
        losing.get("/x/out")


def test_no_command_is_longer_than_a_shells_line(place: BoardMachine, probe: Path) -> None:
    probe.write_bytes(PROBE.encode() + b"#" + os.urandom(30000).replace(b"\n", b""))
    lines: list[str] = []
    place.run_probe(("a'b", "=".join(["long"] * 1000)), 20, lines.append)
    commands = place._command.commands
    assert lines[1:3] == ["kentry-probe word a'b", "kentry-probe word long" + "=long" * 999]
    assert len(commands) > 50
    assert max(map(len, commands)) < 700
    assert not [command for command in commands if re.search(r"[^\x20-\x7e]", command)]
