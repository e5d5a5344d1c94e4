# SPDX-License-Identifier: GPL-2.0-or-later
"""A store in a real PostgreSQL, with its objects in a folder and in S3 (moto's server)."""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import uuid
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import boto3
import psycopg
import pytest
from moto.server import ThreadedMotoServer

from kentry.cli import main
from kentry.errors import UserError
from kentry.results.recording import write_recording
from kentry.store.store import Store
from kentry.study import history
from tests.unit.store import postgres
from tests.unit.store.test_store import READ, filled_at_once, made
from tests.unit.study.test_history import package

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def database(tmp_path_factory: pytest.TempPathFactory) -> Iterator[postgres.Server]:
    """A server of PostgreSQL's for this module."""
    server = postgres.find()
    if not server:
        pytest.skip("there is no PostgreSQL: apt-get install postgresql")
    with postgres.serving(server, tmp_path_factory.mktemp("store") / "postgres"):
        yield server


@pytest.fixture(scope="module")
def bucket() -> Iterator[str]:
    """The URL of objects in a server of S3's, which s3fs finds by the environment."""
    server = ThreadedMotoServer(ip_address="127.0.0.1", port=0)
    server.start()
    host, port = server.get_host_and_port()
    names = {"AWS_ENDPOINT_URL": f"http://{host}:{port}", "AWS_ACCESS_KEY_ID": "kentry"}
    names |= {"AWS_SECRET_ACCESS_KEY": "secret", "AWS_DEFAULT_REGION": "us-east-1"}
    with pytest.MonkeyPatch.context() as patched:
        for name, value in names.items():
            patched.setenv(name, value)
        boto3.client("s3").create_bucket(Bucket="kentry")
        yield "s3://kentry/objects"
    server.stop()


@pytest.fixture(params=["folder", "S3"])
def place(request: pytest.FixtureRequest, database: postgres.Server, tmp_path: Path) -> str:
    """The URL of an empty store."""
    objects = str(tmp_path / "objects")
    if request.param == "S3":
        objects = f"{request.getfixturevalue('bucket')}/{uuid.uuid4().hex}"
    name = f"k{uuid.uuid4().hex}"
    database.make(name)
    return f"{database.url}/{name}?objects={objects}"


def test_a_database_does_as_a_folder_and_both_are_merged(place: str, tmp_path: Path) -> None:
    folder = Store(str(tmp_path / "store"), create=True)
    list(folder.add(made(tmp_path / "files", 7, 5)))
    with pytest.raises(UserError, match="is no store"):
        Store(place)
    store = Store(place, create=True)
    assert [one.new for one in store.add([str(tmp_path / "store")])] == [True, True]
    assert [one.new for one in store.add(made(tmp_path / "more", 5, 9))] == [False, True]
    assert store.query(READ)[1] == [[5.0], [7.0], [9.0]]
    assert [one.new for one in folder.add([place])].count(True) == 1
    assert folder.query(READ) == store.query(READ)
    assert set(folder.hashes()) == set(store.hashes()) and list(store.verify()) == []
    odd = "SELECT now(), sum(value)::numeric, 5 % 3 FROM history WHERE case_name LIKE 're%'"
    assert main(["store", "query", place, odd, "--json"]) == 0
    with pytest.raises(UserError, match="read-only"):
        store.query("DELETE FROM results")


def test_the_history_of_a_database_is_that_of_a_folder(
    place: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By processes of which each has its own connection."""
    folder = tmp_path / Path(place.partition("?")[0]).name
    files = [tmp_path / f"{count}.json" for count in range(20, 20 + 2 * history._AT_ONCE)]
    for count, file in enumerate(files, 10):
        write_recording(package(f"6.12.{count}-1", {"read": [("a", count // 3)]}), file)
    pages: list[dict[str, str]] = []
    for store in (str(folder), place):
        assert all(one.new for one in Store(store, create=True).add(files))
        monkeypatch.setenv("KENTRY_CACHE", str(tmp_path / f"cache-{len(pages)}"))
        site = tmp_path / f"site-{len(pages)}"
        assert main(["history", store, "-o", str(site)]) == 0
        pages.append({page.name: page.read_text() for page in site.iterdir()})
    assert pages[0] == pages[1] and "case-read.html" in pages[0]


def test_an_object_that_is_damaged_is_taken_out(place: str, tmp_path: Path) -> None:
    store = Store(place, create=True)
    list(store.add(made(tmp_path / "files", 7, 5)))
    key = store.hashes()[0]
    store._files.pipe_file(store._path(key), b"half")
    assert main(["store", "verify", place]) == 2
    assert store.gc() == (1, 1, 0)
    assert store.hashes() == [one for one in store.hashes() if one != key]
    assert [one.new for one in store.add([tmp_path / "files"])].count(True) == 1
    assert list(store.verify()) == []


def test_a_password_is_not_printed(
    database: postgres.Server, capsys: pytest.CaptureFixture[str]
) -> None:
    place = database.url.replace("kentry@", "kentry:secret@") + "/nothing?objects=/nowhere"
    assert main(["store", "verify", place]) == 2
    said = capsys.readouterr().err
    assert "does not exist" in said and "secret" not in said


def test_a_store_waits_until_its_database_has_recovered(
    place: str, database: postgres.Server, tmp_path: Path
) -> None:
    """A process of the server's that dies takes all others with it; then it replays its log."""
    Store(place, create=True)
    server = f"{database.url}/postgres"
    for count in range(3):
        with psycopg.connect(server) as victim, psycopg.connect(server) as other:
            os.kill(victim.info.backend_pid, signal.SIGKILL)
            with contextlib.suppress(psycopg.OperationalError):
                other.execute("SELECT pg_sleep(60)")
        assert all(one.new for one in Store(place).add(made(tmp_path / "files", count)))


def test_a_connection_that_ends_with_the_others_is_made_again(
    place: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The server is there and ends the process that it made for the first connection."""
    ports: list[int] = []
    connect = psycopg.connect

    def closed_once(*words: Any, **options: Any) -> Any:
        ports.append(options["port"])
        return connect(*words, **(options | {"port": port if len(ports) == 1 else ports[0]}))

    with socket.create_server(("127.0.0.1", 0)) as listener, ThreadPoolExecutor() as pool:
        port = listener.getsockname()[1]
        pool.submit(lambda: listener.accept()[0].close())
        monkeypatch.setattr(psycopg, "connect", closed_once)
        Store(place, create=True)
    assert len(ports) > 1


def test_twenty_writers_at_once_lose_nothing(place: str, tmp_path: Path) -> None:
    assert filled_at_once(place, tmp_path, 20) == [1, 2, *range(1000, 1040)]
