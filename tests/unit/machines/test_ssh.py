# SPDX-License-Identifier: GPL-2.0-or-later
"""A machine behind ssh: a real server on the loopback, and all that can go wrong on the way."""

import logging
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from kentry.arch import host_arch
from kentry.errors import MachineError, UserError
from kentry.host.native import probe_file
from kentry.machines import ssh
from kentry.machines.machine import Machine, MachineOptions
from kentry.machines.open import open_machine
from kentry.machines.ssh import destination_of
from kentry.time.measurements import Schedule, compare_pairs
from kentry.time.session import open_session
from tests.processes import PATIENCE, gone
from tests.unit.machines.sshd import Server, make_key, serving

# A server or a board answers in seconds, not in milliseconds.
pytestmark = pytest.mark.slow

WORDS = ("n=3", "paths=0", "cases=getppid")
# It takes hours: what is tested is how it ends before.
ENDLESS = ("n=2000000000", "paths=0", "cases=getppid")
AWKWARD = ["a  b", "it's", '"$HOME"', "*", "x\ny", "", "$(exit)", "back\\slash", "-n", "!"]


@pytest.fixture
def server(tmp_path: Path) -> Iterator[Server]:
    """A server that is not started yet."""
    with serving(tmp_path) as made:
        yield made


@pytest.fixture
def started(server: Server) -> Server:
    server.start()
    return server


@pytest.fixture
def place(started: Server) -> Iterator[Machine]:
    """The machine behind the server; nothing is left there in the end."""
    with open_machine("ssh:target", MachineOptions()) as place:
        yield place
    assert nothing_left(started)


def nothing_left(server: Server) -> bool:
    return not [*server.tmp.iterdir(), *(server.home / ".cache").glob("*")]


def refused(server: Server, pattern: str, text: str = "ssh:target") -> MachineError:
    """The error of a place that cannot be opened."""
    with pytest.raises(MachineError, match=pattern) as caught, open_machine(text, MachineOptions()):
        pass
    assert nothing_left(server)
    return caught.value


def probe(place: Machine, words: tuple[str, ...] = WORDS, timeout: float = 30.0) -> list[str]:
    lines: list[str] = []
    place.run_probe(words, timeout, lines.append)
    return lines


def test_the_probe_runs_there_and_nothing_is_left(started: Server) -> None:
    with open_machine("ssh:target", MachineOptions()) as place:
        assert (place.kind, place.name, place.arch) == ("ssh", "ssh:target", host_arch())
        assert nothing_left(started)
        first, second = probe(place), probe(place)
        assert first[0] == f"kentry-probe start {host_arch().name}"
        assert first[-1] == "kentry-probe end cases=1"
        assert first == second
        folder = next(started.tmp.iterdir())
        assert folder.stat().st_mode & 0o777 == 0o700
        assert (folder / "probe").read_bytes() == probe_file(host_arch()).read_bytes()
    assert nothing_left(started)
    assert started.log().count("Accepted publickey") == 1
    assert started.no_session()


def test_cases_are_timed_there(place: Machine) -> None:
    session = open_session(place, None, None)
    _, _, (row,) = compare_pairs(session, [("getppid", "openat+close")], Schedule(60))
    assert (row.metric, row.verdict, row.paired) == ("ns", "worse", True)


def test_words_with_spaces_and_quotes_arrive_as_they_are(place: Machine) -> None:
    result = place.run_command(["printf", "<%s>", *AWKWARD], 20)
    assert (result.status, result.stderr) == (0, "")
    assert result.stdout == "".join(f"<{word}>" for word in AWKWARD)
    assert probe(place, ("n=3", 'cases=it\'s,"a b"'))[-1] == "kentry-probe end cases=0"


def test_a_commands_status_and_words_come_back(place: Machine) -> None:
    result = place.run_command(["sh", "-c", "echo out; echo err >&2; exit 255"], 20)
    assert (result.status, result.stdout, result.stderr) == (255, "out\n", "err")
    assert place.run_command(["no-such-program"], 20).status == 127
    killed = place.run_command(["sh", "-c", "kill -9 $$"], 20)
    assert killed.status == 128 + signal.SIGKILL
    with pytest.raises(MachineError, match=r"'sleep' on ssh:target was.* 0\.5 s"):
        place.run_command(["sleep", "1000"], 0.5)


def test_noise_of_the_accounts_shell_does_not_matter(server: Server) -> None:
    noise = "echo 'kentry-probe start noise'; echo trouble >&2; printf 'no newline'"
    (server.home / ".bashrc").write_text(f"{noise}\nuname() {{ echo Minix; }}\n")
    (server.folder / "banner").write_text("Authorised use only: Connection refused\n")
    server.start(f"Banner {server.folder / 'banner'}")
    with open_machine("ssh:target", MachineOptions()) as place:
        said = place.run_command(["echo", "hello"], 20)
        assert said.stdout == "hello\n"
        lines = probe(place)
    assert (lines[0], lines[-1]) == (
        f"kentry-probe start {host_arch().name}",
        "kentry-probe end cases=1",
    )
    assert nothing_left(server)


def test_a_shell_that_ends_before_it_runs_anything_is_an_error(server: Server) -> None:
    server.start("ForceCommand echo This account is not available.; exit 1")
    error = refused(server, r"ended with status 1 before it ran anything\..*ssh target true")
    assert "not available" in error.detail


@pytest.mark.parametrize(
    "settings",
    [
        ("PubkeyAuthentication no", "PasswordAuthentication yes"),
        ("PasswordAuthentication no", "KbdInteractiveAuthentication no"),
    ],
)
def test_who_has_no_key_there_is_told_and_not_asked(
    server: Server, settings: tuple[str, ...]
) -> None:
    server.start(*settings)
    make_key(server.folder / "user")
    error = refused(server, "nobody in with the keys.*ssh -o BatchMode=yes target true")
    assert "Permission denied" in error.detail


def test_a_changed_host_key_is_never_accepted(started: Server) -> None:
    other = make_key(started.folder / "other").with_suffix(".pub").read_text()
    known = f"[127.0.0.1]:{started.port} {other}"
    started.write_client(known=known)
    error = refused(started, "host key")
    assert f"[127.0.0.1]:{started.port}" in error.detail
    assert (started.folder / "known").read_text() == known


@pytest.mark.parametrize("strict", ["ask", "yes"])
def test_an_unknown_host_key_is_not_accepted(started: Server, strict: str) -> None:
    started.write_client(f"StrictHostKeyChecking {strict}", known="")
    refused(started, "host key.*ssh target")
    assert (started.folder / "known").read_text() == ""


def test_a_name_or_settings_that_ssh_does_not_like_are_an_error(started: Server) -> None:
    refused(started, r"No address.*no\.such\.invalid", "ssh:no.such.invalid")
    refused(started, "ssh://HOST:PORT", "ssh:target:22")
    started.write_client("NoSuchOption yes")
    assert "nosuchoption" in refused(started, "not get to").detail


def test_nobody_listening_is_an_error_and_so_is_a_server_that_says_nothing(
    server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    server.start()
    server.stop()
    refused(server, "target does not answer")
    monkeypatch.setattr(ssh, "_CONNECT_SECONDS", 1)
    with socket.create_server(("127.0.0.1", 0)) as silent:
        server.port = silent.getsockname()[1]
        server.write_client()
        refused(server, "target does not answer")


@pytest.mark.parametrize(
    ("says", "pattern"),
    [
        ("Linux pdp11", "is 'pdp11', an architecture that kentry does not know"),
        ("Darwin arm64", "runs Darwin, not Linux"),
        ("", "runs no system that says its name"),
    ],
)
def test_a_machine_that_is_not_for_kentry_is_an_error(
    server: Server, says: str, pattern: str
) -> None:
    server.program("uname", f"echo {says}")
    server.start()
    refused(server, pattern)


def test_a_cut_connection_keeps_lines_and_ends_the_probe(started: Server, place: Machine) -> None:
    lines: list[str] = []

    def take(line: str) -> None:
        lines.append(line)
        # The probe's last line before its cases.
        if " vector " in line:
            started.cut()

    with pytest.raises(MachineError, match=r"ssh:target was lost"):
        place.run_probe(ENDLESS, 60, take)
    assert lines[0].startswith("kentry-probe start")
    assert started.no_probe()
    # The next run makes another connection; so does the removal.
    assert probe(place)[-1] == "kentry-probe end cases=1"


def test_a_folder_that_cannot_be_removed_is_named(
    started: Server, caplog: pytest.LogCaptureFixture
) -> None:
    with open_machine("ssh:target", MachineOptions()) as place:
        probe(place)
        (folder,) = started.tmp.iterdir()
        started.stop()
    told = [record.getMessage() for record in caplog.records if record.levelno == logging.WARNING]
    assert told == [f"kentry: {folder} stays on ssh:target: target does not answer."]


def test_what_is_stopped_ends_with_its_children(started: Server, place: Machine) -> None:
    file = started.folder / "pid"
    text = f"sleep 1000 & echo $! >{file}; wait"
    with pytest.raises(MachineError, match="was stopped after 2 s"):
        place.run_command(["sh", "-c", text], 2)
    assert gone(int(file.read_text()))


@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL])
def test_nothing_is_left_when_kentry_ends_and_no_probe_if_it_is_killed(
    started: Server, how: signal.Signals
) -> None:
    with _endless(started) as child:
        child.send_signal(how)
        child.wait(PATIENCE)
    assert nothing_left(started) or how == signal.SIGKILL
    assert started.no_probe()


@contextmanager
def _endless(server: Server) -> Iterator[subprocess.Popen[bytes]]:
    """A kentry in which the probe runs for hours; it has begun."""
    text = (
        "from kentry.host import interrupt\n"
        "from kentry.machines.machine import MachineOptions\n"
        "from kentry.machines.open import open_machine\n"
        "interrupt.install()\n"
        "with open_machine('ssh:target', MachineOptions()) as place:\n"
        f"    place.run_probe({ENDLESS!r}, 1000, lambda line: print(line, flush=True))\n"
    )
    child = subprocess.Popen(
        [sys.executable, "-c", text],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        env={**os.environ, "TMPDIR": str(server.folder)},
    )
    with child:
        assert child.stdout and child.stdout.readline().startswith(b"kentry-probe start")
        assert server.probes()
        yield child


def test_a_probe_that_vanished_is_copied_again(started: Server, place: Machine) -> None:
    probe(place)
    (folder,) = started.tmp.iterdir()
    (folder / "probe").unlink()
    folder.rmdir()
    assert probe(place)[-1] == "kentry-probe end cases=1"


def test_a_folder_where_nothing_runs_is_passed_over(server: Server) -> None:
    (server.home / ".cache").mkdir()
    # As where it is mounted noexec: what is there cannot be run.
    server.program("chmod", f'case "$2" in {server.tmp}/*) ;; *) exec /bin/chmod "$@" ;; esac')
    text = f'case "$1" in {server.folder}/*) exec /bin/mkdir "$@" ;; *) exit 1 ;; esac'
    server.program("mkdir", text)
    server.start()
    with open_machine("ssh:target", MachineOptions()) as place:
        assert probe(place)[-1] == "kentry-probe end cases=1"
        assert list((server.home / ".cache").iterdir())
        assert not list(server.tmp.iterdir())
    assert nothing_left(server)


@pytest.mark.parametrize(
    ("program", "says", "pattern"),
    [
        ("mkdir", "Read-only file system", "No folder on ssh:target takes a program"),
        ("cat", "write error: No space left on device", "cannot be written on ssh:target.*64 KiB"),
    ],
)
def test_a_probe_that_cannot_be_put_there_is_an_error(
    program: str, says: str, pattern: str, server: Server
) -> None:
    server.program(program, f"echo {says} >&2; exit 1")
    server.start()
    with open_machine("ssh:target", MachineOptions()) as place:
        with pytest.raises(MachineError, match=pattern) as caught:
            probe(place)
        assert program == "mkdir" or says in caught.value.detail
    assert nothing_left(server)


def test_command_lines_are_shown_and_work_again(
    started: Server, caplog: pytest.LogCaptureFixture
) -> None:
    with (
        caplog.at_level(logging.INFO, logger="kentry"),
        open_machine("ssh:target", MachineOptions()) as place,
    ):
        place.run_command(["echo", "it's", "here"], 20)
    (line,) = [text for text in caplog.messages if text.endswith("here'")]
    command = line.removeprefix("$ ")
    done = subprocess.run(
        ["bash", "-c", f"sleep 2 | {command}"], capture_output=True, text=True, check=True
    )
    assert "it's here" in done.stdout


@pytest.mark.parametrize(
    ("text", "destination"),
    [
        ("ssh:host", "host"),
        ("ssh:user@host", "user@host"),
        ("ssh://user@host:2222", "ssh://user@host:2222"),
        ("ssh:ssh://host", "ssh://host"),
        ("ssh:fe80::1%eth0", "fe80::1%eth0"),
    ],
)
def test_a_place_names_what_ssh_is_given(text: str, destination: str) -> None:
    assert destination_of(text) == destination


@pytest.mark.parametrize(
    "text",
    ["ssh:-oProxyCommand=x", "ssh:user@-x", "ssh://-x", "ssh:", "ssh://", "ssh:a b", "ssh:a\n"],
)
def test_what_is_no_machine_is_a_mistake(text: str) -> None:
    with pytest.raises(UserError, match="names no machine"):
        destination_of(text)
