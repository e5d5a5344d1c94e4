# SPDX-License-Identifier: GPL-2.0-or-later
"""A server of PostgreSQL's of one's own."""

from __future__ import annotations

import contextlib
import os
import shutil
import socket
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from tests.processes import awaited
from tests.unit.store.test_store import open_to_all


@dataclass
class Server:
    """Its `programs`, and where it listens."""

    programs: Path
    port: int = 0
    process: int = 0

    @property
    def url(self) -> str:
        return f"postgresql://kentry@127.0.0.1:{self.port}"

    def processes(self) -> list[int]:
        """Its own, and those that work for clients, which it begins anew when one is killed."""
        children = Path(f"/proc/{self.process}/task/{self.process}/children").read_text()
        return [int(word) for word in children.split()]

    def make(self, name: str) -> None:
        """Makes an empty database, in place of one of that name, once the server serves."""
        import psycopg

        def done() -> bool:
            with (
                contextlib.suppress(psycopg.OperationalError),
                psycopg.connect(f"{self.url}/postgres", autocommit=True) as connection,
            ):
                connection.execute(f"DROP DATABASE IF EXISTS {name} WITH (FORCE)".encode())
                connection.execute(f"CREATE DATABASE {name}".encode())
                return True
            return False

        assert awaited(done, 60)


def find() -> Server | None:
    """The newest that is installed."""
    programs = max(Path("/usr/lib/postgresql").glob("*/bin"), default=None)
    return Server(programs) if programs else None


@contextmanager
def serving(server: Server, folder: Path) -> Iterator[Server]:
    """Starts it with its data in a folder that is made."""
    folder.mkdir()
    open_to_all(folder)
    # The server refuses to be root.
    user = ["setpriv", "--reuid=postgres", "--regid=postgres", "--clear-groups"]
    user = [] if os.geteuid() else user
    if user:
        shutil.chown(folder, "postgres", "postgres")
    with socket.create_server(("127.0.0.1", 0)) as listening:
        server.port = listening.getsockname()[1]
    control = [*user, str(server.programs / "pg_ctl"), "-D", str(folder / "data"), "-w", "-s"]
    initdb = [*user, str(server.programs / "initdb"), "-A", "trust", "-U", "kentry", "-N"]
    subprocess.run([*initdb, str(folder / "data")], check=True, capture_output=True, cwd="/")
    options = f"-p {server.port} -c listen_addresses=127.0.0.1 -k {folder}"
    log = str(folder / "log")
    subprocess.run([*control, "-o", options, "-l", log, "start"], check=True, cwd="/")
    server.process = int((folder / "data" / "postmaster.pid").read_text().split("\n")[0])
    try:
        yield server
    finally:
        subprocess.run([*control, "-m", "immediate", "stop"], check=True, cwd="/")
