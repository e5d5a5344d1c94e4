# SPDX-License-Identifier: GPL-2.0-or-later
"""The harness of make faults: what it damages is what a command reads, and it sees what follows."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path

import pytest
from bench.faults import works
from bench.faults.trials import Trials

pytestmark = pytest.mark.slow


class Believing(works.Works):
    """One command, which prints two files of the cache, whatever they are."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.cache = folder, folder / "cache"
        self.environment = {"KENTRY_CACHE": str(self.cache)}
        self.all = [works.Work("print", ("print",), reads=("stored",))]

    def run(self, words: tuple[str, ...], **more: str) -> tuple[int, str, str]:
        return (*works.in_a_child(words, self.environment | more), "")


STORED = {"1.json": b'{"count": 12}', "2.json": b'{"count": 345678}'}


def refusing(words: list[str]) -> int:
    printing(words)
    folder = Path(os.environ["KENTRY_CACHE"], "stored")
    return 0 if {file.name: file.read_bytes() for file in folder.iterdir()} == STORED else 2


def printing(words: list[str]) -> int:
    files = sorted(Path(os.environ["KENTRY_CACHE"], "stored").iterdir())
    print(json.dumps([file.read_bytes().hex() for file in files]))
    return 0


@pytest.mark.parametrize("command", [printing, refusing])
def test_damage_that_a_command_believes_or_refuses_is_found(
    command: Callable[[list[str]], int], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(works, "kentry_main", command)
    trials = Trials(Believing(tmp_path), seed=1)
    folder, users = trials.works.cache / "stored", tmp_path / "users"
    monkeypatch.setenv("KENTRY_CACHE", str(users))
    for each in (folder, users / "stored"):
        each.mkdir(parents=True)
        for name, content in STORED.items():
            (each / name).write_bytes(content)
    for number in range(20):
        trials.damage(number)
    # A file may be exchanged for itself, and a digit for the same one.
    assert len(trials.wrong) > 12
    assert {file.name: file.read_bytes() for file in folder.iterdir()} == STORED
    assert os.environ["KENTRY_CACHE"] == str(users)


def test_a_command_that_raises_in_a_child_is_an_error_of_kentrys(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(works, "kentry_main", lambda words: words.absent)
    assert works.in_a_child((), {}) == (70, "")
