# SPDX-License-Identifier: GPL-2.0-or-later
"""A board of a real coordinator of labgrid's, which a real exporter exports; ssh reaches it."""

from __future__ import annotations

import os
import re
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from kentry.errors import EXIT_MISTAKE, MachineError
from kentry.host.cache import cache_dir
from kentry.machines.machine import MachineOptions
from kentry.machines.open import open_machine
from tests.processes import awaited
from tests.unit.machines import sshd

pytestmark = pytest.mark.slow

ENVIRONMENT = """\
options: {{coordinator_address: "{coordinator}"}}
targets:
  x:
    resources: {{RemotePlace: {{name: {place}}}}}
    drivers: {{SSHDriver: {{keyfile: {key}}}}}
"""
EXPORTED = "group: {{NetworkService: {{address: 127.0.0.1, port: {port}, username: {user}}}}}\n"


@dataclass
class Lab:
    """A coordinator that has the place "board"."""

    coordinator: str
    environment: Path

    def client(self, *words: str, user: str = "") -> str:
        """What labgrid-client prints, of another user's."""
        argv = [sys.executable, "-m", "labgrid.remote.client", "-x", self.coordinator, *words]
        own = {"LG_USERNAME": user} if user else {}
        done = subprocess.run(
            argv,
            env={**os.environ, "LG_ENV": "", **own},
            capture_output=True,
            text=True,
            check=True,
        )
        return done.stdout

    def who(self) -> str:
        """The user who has the place."""
        found = re.search(r"acquired: \S+/(\S+)", self.client("-p", "board", "show"))
        return found[1] if found and found[1] != "None" else ""

    def name(self, place: str, coordinator: str = "") -> None:
        """Has the environment name a place."""
        text = self.environment.read_text().replace("name: board", f"name: {place}")
        self.environment.write_text(text.replace(self.coordinator, coordinator or self.coordinator))


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as listening:
        return int(listening.getsockname()[1])


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[str, sshd.Server]]:
    """The coordinator's address, and the board."""
    folder = tmp_path_factory.mktemp("lab")
    with sshd.serving(tmp_path_factory.mktemp("board")) as board, (folder / "log").open("w") as log:
        board.start("Subsystem sftp internal-sftp")
        address = f"127.0.0.1:{(port := free_port())}"
        user = subprocess.run(["id", "-un"], capture_output=True, text=True, check=True)
        exported = EXPORTED.format(port=board.port, user=user.stdout.strip())
        (folder / "exporter.yaml").write_text(exported)
        programs = (
            ("labgrid.remote.coordinator", "-l", address),
            ("labgrid.remote.exporter", "-c", address, "-n", "here", "exporter.yaml"),
        )
        running = []
        for words in programs:
            argv = [sys.executable, "-m", *words]
            running.append(subprocess.Popen(argv, cwd=folder, stdout=log, stderr=log))
            # The exporter ends where there is no coordinator yet.
            assert awaited(lambda: sshd.listens(port), 60)
        lab = Lab(address, folder)

        def is_exported() -> bool:
            try:
                return "here/group" in lab.client("resources")
            except subprocess.CalledProcessError:
                return False

        assert awaited(is_exported, 60), (folder / "log").read_text()
        lab.client("-p", "board", "create")
        lab.client("-p", "board", "add-match", "here/group/NetworkService")
        yield address, board
        for process in running:
            process.kill()
            process.wait()
        board.stop()


@pytest.fixture
def lab(
    served: tuple[str, sshd.Server], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Lab]:
    address, board = served
    file, key = tmp_path / "env.yaml", board.folder / "user"
    file.write_text(ENVIRONMENT.format(coordinator=address, place="board", key=key))
    monkeypatch.setenv("LG_ENV", str(file))
    monkeypatch.setenv("KENTRY_CACHE", str(tmp_path / "cache"))
    lab = Lab(address, file)
    yield lab
    if user := lab.who():
        lab.client("-p", "board", "release", user=user)


def measured() -> str:
    """What a command on the board prints."""
    with open_machine("board:x", MachineOptions()) as machine:
        return machine.run_command(["echo", "there"], 20).stdout


def test_a_place_is_lent_while_it_is_measured_on(lab: Lab) -> None:
    assert not lab.who()
    with open_machine("board:x", MachineOptions()) as machine:
        assert machine.run_command(["echo", "there"], 20).stdout == "there\n"
        assert lab.who()
    assert not lab.who()


def test_kentry_waits_for_a_place_that_another_user_has(
    lab: Lab, capsys: pytest.CaptureFixture[str]
) -> None:
    lab.client("-p", "board", "acquire", user="somebody")
    release = lambda: lab.client("-p", "board", "release", user="somebody")  # noqa: E731
    timer = threading.Timer(4, release)
    timer.start()
    assert measured() == "there\n"
    timer.join()
    assert "nobody" in capsys.readouterr().err
    assert not lab.who()


def test_a_place_that_the_user_has_stays_the_users(lab: Lab) -> None:
    lab.client("-p", "board", "acquire")
    assert measured() == "there\n"
    assert lab.who()


def test_a_place_of_a_kentry_that_was_killed_is_released(lab: Lab) -> None:
    lab.client("-p", "board", "acquire")
    measured()
    # What such a kentry leaves; the user's own has no mark.
    [lock] = cache_dir("places").glob("*.lock")
    lock.with_suffix("").touch()
    assert measured() == "there\n"
    assert not lab.who()


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_kentry_that_is_interrupted_releases_the_place(lab: Lab, number: signal.Signals) -> None:
    argv = [sys.executable, "-m", "kentry", "stat", "board:x", "--case", "getppid", "--for", "60s"]
    with subprocess.Popen(argv, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as kentry:
        assert awaited(lab.who, 60)
        time.sleep(2)
        kentry.send_signal(number)
        # labgrid makes an error of its own of a copy that was interrupted, and Python may end
        # itself by SIGINT.
        assert kentry.wait(60) in (128 + number, -number, EXIT_MISTAKE)
    assert not lab.who()


def test_a_place_that_cannot_be_lent_is_one_sentence(lab: Lab) -> None:
    lab.name("nothing")
    with pytest.raises(MachineError, match="nothing") as caught:
        measured()
    assert lab.coordinator in caught.value.remedy
    lab.name("nothing", "127.0.0.1:1")
    with pytest.raises(MachineError, match="nothing"):
        measured()
