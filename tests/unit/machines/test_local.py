# SPDX-License-Identifier: GPL-2.0-or-later
"""This machine as a place, and the programs that are run there."""

import signal
from pathlib import Path

import pytest

from kentry.arch import ARCHES, host_arch
from kentry.errors import MachineError, UserError
from kentry.host.native import probe_file
from kentry.machines.machine import Machine, MachineOptions, find_probe
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


def test_a_commands_status_and_words_come_back() -> None:
    result = here().run_command(["sh", "-c", "echo out; echo err >&2; exit 7"], 20)
    assert (result.status, result.stdout, result.stderr) == (7, "out\n", "err")
    assert here().run_command(["sh", "-c", "kill -9 $$"], 20).status == 128 + signal.SIGKILL


def test_a_program_that_is_not_there_is_an_error() -> None:
    with pytest.raises(MachineError, match="no-such-program"):
        here().run_command(["no-such-program"], 20)


def test_this_machine_does_not_boot_another_kernel() -> None:
    with pytest.raises(MachineError, match="would end kentry itself.*ssh:HOST"):
        here().boot("6.1.0", lambda fraction, now: None)


def test_another_architectures_probe_is_refused() -> None:
    other = next(arch for arch in ARCHES.values() if arch != host_arch())
    with pytest.raises(MachineError, match=f"cannot run the probe probe-{other.name}"):
        find_probe("local", host_arch(), probe_file(other))


def test_a_probe_that_is_not_there_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(MachineError, match="cannot be read: No such file"):
        find_probe("local", host_arch(), tmp_path / "probe")


@pytest.mark.parametrize("text", ["", "locals", "ssh", "ssh:", "board", "board:", "qemu", "host:x"])
def test_what_is_no_place_is_a_mistake(text: str) -> None:
    with pytest.raises(UserError, match="is no place to measure on"):
        open_machine(text, MachineOptions())


def test_a_probe_that_takes_too_long_is_stopped_and_its_lines_kept() -> None:
    lines: list[str] = []
    with pytest.raises(MachineError, match=r"was stopped after 0\.3 s"):
        here().run_probe(["n=2000000000", "paths=0", "cases=getppid"], 0.3, lines.append)
    assert lines[0].startswith("kentry-probe start")
