# SPDX-License-Identifier: GPL-2.0-or-later
"""This machine as a place, and the programs that are run there."""

import pytest

from kentry.arch import host_arch
from kentry.errors import MachineError, UserError
from kentry.machines.machine import Machine, MachineOptions
from kentry.machines.open import open_machine

WORDS = ("n=3", "paths=0", "cases=getppid")


def here() -> Machine:
    with open_machine("local", MachineOptions()) as place:
        return place


def test_the_probe_runs_as_an_ordinary_process() -> None:
    lines: list[str] = []
    place = here()
    assert (place.kind, place.name, place.arch) == ("local", "local", host_arch())
    place.run_probe(WORDS, 30, lines.append)
    assert lines[0] == f"kentry-probe start {host_arch().name}"
    assert lines[-1] == "kentry-probe end cases=1"


def test_a_command_is_words_and_not_a_shells() -> None:
    words = ["a  b", "it's", '"$HOME"', "*", "x\ny", ""]
    result = here().run_command(["printf", "<%s>", *words], 20)
    assert (result.status, result.stderr) == (0, "")
    assert result.stdout == "".join(f"<{word}>" for word in words)


def test_a_program_that_is_not_there_is_an_error() -> None:
    with pytest.raises(MachineError, match="no-such-program"):
        here().run_command(["no-such-program"], 20)


def test_this_machine_does_not_boot_another_kernel() -> None:
    with pytest.raises(MachineError, match="would end kentry itself.*ssh:HOST"):
        here().boot("6.1.0", lambda fraction, now: None)


@pytest.mark.parametrize("text", ["", "locals", "ssh", "ssh:", "board", "board:", "qemu", "host:x"])
def test_what_is_no_place_is_a_mistake(text: str) -> None:
    with pytest.raises(UserError, match="is no place"):
        open_machine(text, MachineOptions())
