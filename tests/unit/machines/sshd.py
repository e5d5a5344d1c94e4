# SPDX-License-Identifier: GPL-2.0-or-later
"""A real ssh server on the loopback, of this account, with keys and settings of its own."""

import contextlib
import os
import shutil
import signal
import socket
import subprocess
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from unittest import mock

import pytest

from tests.processes import awaited
from tests.processes import script as write_script

FORCE = "KENTRY_TEST_FORCE"
SSHD = shutil.which("sshd", path=f"{os.environ.get('PATH', '')}:/usr/local/sbin:/usr/sbin:/sbin")


def skip(reason: str) -> None:
    if os.environ.get(FORCE) == "1":
        pytest.fail(f"{reason} ({FORCE}=1 forbids skipping)")
    pytest.skip(f"{reason} (to make this a failure: {FORCE}=1)")


def make_key(file: Path) -> Path:
    file.unlink(missing_ok=True)
    subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(file)], check=True)
    return file


def listens(port: int) -> bool:
    """Whether a server on this machine answers there."""
    with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port)):
        return True
    return False


@dataclass
class Server:
    """`folder` has everything, `tmp` is TMPDIR there, `home` HOME; `programs` is first on its PATH.

    While it serves, ssh reads ssh_config of `folder`.  Those who log in get bash and home/.bashrc.
    """

    folder: Path
    port: int = 0
    process: subprocess.Popen[bytes] | None = None

    def __post_init__(self) -> None:
        self.tmp, self.home = self.folder / "tmp", self.folder / "home"
        for name in ("tmp", "home", "programs"):
            (self.folder / name).mkdir()
        client = f'exec {shutil.which("ssh")} -F {self.folder}/ssh_config "$@"'
        write_script(self.folder / "client/ssh", client)
        make_key(self.folder / "host")
        public = make_key(self.folder / "user").with_suffix(".pub").read_text()
        (self.folder / "authorized").write_text(public)

    def start(self, *settings: str, env: Mapping[str, str] | None = None) -> None:
        if not self.port:
            with socket.socket() as chosen:
                chosen.bind(("127.0.0.1", 0))
                self.port = chosen.getsockname()[1]
        variables = {
            "TMPDIR": str(self.tmp),
            "HOME": str(self.home),
            "XDG_RUNTIME_DIR": "",
            "PATH": f"{self.folder / 'programs'}:/usr/bin:/bin",
            **(env or {}),
        }
        # One SetEnv is all that is read of them; those of the command line stand first.
        lines = [
            *(*settings, f"Port {self.port}", "ListenAddress 127.0.0.1"),
            f"HostKey {self.folder / 'host'}",
            f"AuthorizedKeysFile {self.folder / 'authorized'}",
            *("PidFile none", "StrictModes no", "UsePAM no"),  # the folder is below /tmp
            "SetEnv " + " ".join(f'{name}="{value}"' for name, value in variables.items()),
        ]
        (self.folder / "sshd_config").write_text("\n".join([*lines, ""]))
        self.write_client()
        assert SSHD
        with (self.folder / "log").open("ab") as log:
            self.process = subprocess.Popen(
                [SSHD, "-D", "-e", "-f", str(self.folder / "sshd_config")],
                stderr=log,
                start_new_session=True,
            )
        self._wait()

    def write_client(self, *settings: str, known: str | None = None) -> None:
        """The client's settings; `known` is what it knows of the server's key."""
        key = (self.folder / "host.pub").read_text()
        mark = f"[127.0.0.1]:{self.port}"
        (self.folder / "known").write_text(f"{mark} {key}" if known is None else known)
        lines = [
            *(*settings, "Host target", "HostName 127.0.0.1", f"Port {self.port}", "Host *"),
            *(f"UserKnownHostsFile {self.folder / 'known'}", "GlobalKnownHostsFile none"),
            *(f"IdentityFile {self.folder / 'user'}", "IdentitiesOnly yes", "IdentityAgent none"),
        ]
        (self.folder / "ssh_config").write_text("\n".join([*lines, ""]))

    def _wait(self) -> None:
        def answers() -> bool:
            assert self.process and self.process.poll() is None, self.log()
            return listens(self.port)

        assert awaited(answers), self.log()

    def log(self) -> str:
        return (self.folder / "log").read_text(errors="replace")

    def program(self, name: str, script: str) -> None:
        """Puts a program on the server's PATH, before any other of its name."""
        write_script(self.folder / "programs" / name, script)

    def sessions(self) -> list[int]:
        """The processes of the server's below which sessions run."""
        assert self.process
        children = Path(f"/proc/{self.process.pid}/task/{self.process.pid}/children")
        return [int(word) for word in children.read_text().split()]

    def no_session(self) -> bool:
        """Whether every session has ended, or ends in time."""
        return awaited(lambda: not self.sessions())

    def probes(self) -> list[int]:
        """The processes that run from a folder of kentry's there."""
        found = []
        for link in Path("/proc").glob("[0-9]*/exe"):
            with contextlib.suppress(OSError):
                if str(link.readlink()).startswith(str(self.folder)):
                    found.append(int(link.parent.name))
        return found

    def no_probe(self) -> bool:
        """Whether no probe runs there any more, or none does in time."""
        return awaited(lambda: not self.probes())

    def cut(self) -> None:
        """Ends every connection, as a cable does that is pulled out."""
        for pid in self.sessions():
            for below in _descendants(pid):
                with contextlib.suppress(OSError):
                    if "sshd" in Path(f"/proc/{below}/comm").read_text():
                        os.kill(below, signal.SIGKILL)

    def stop(self) -> None:
        if self.process:
            self.cut()
            self.process.kill()
            self.process.wait()
            self.process = None


def _descendants(pid: int) -> list[int]:
    found = [pid]
    with contextlib.suppress(OSError):
        for word in Path(f"/proc/{pid}/task/{pid}/children").read_text().split():
            found += _descendants(int(word))
    return found


@contextlib.contextmanager
def serving(folder: Path) -> Iterator[Server]:
    """A server that is not started yet; it is stopped at the end."""
    if not SSHD:
        skip("no ssh server: apt-get install openssh-server")
    if os.geteuid() == 0:
        # Where sshd's unprivileged half goes; Debian's service makes it.
        Path("/run/sshd").mkdir(mode=0o755, exist_ok=True)
    server = Server(folder)
    path = f"{folder / 'client'}:{os.environ['PATH']}"
    try:
        with mock.patch.dict(os.environ, PATH=path):
            yield server
    finally:
        server.stop()
