# SPDX-License-Identifier: GPL-2.0-or-later
"""A store in a folder: what is in it once, what is found, what is damaged, many writers at once."""

from __future__ import annotations

import gzip
import json
import os
import random
import sqlite3
import subprocess
import sys
import tempfile
import time
from hashlib import sha256
from pathlib import Path

import pytest

from kentry.cli import main
from kentry.errors import UserError
from kentry.results.recording import read_recording, write_recording
from kentry.store.store import Store, shown
from tests.builders import recording, timed
from tests.unit.kernels.sources import put

READ = "SELECT value FROM history WHERE case_name = 'read' AND metric = 'instructions' ORDER BY 1"

ALL = "SELECT * FROM results ORDER BY 1, 2, 3"


def made(folder: Path, *counts: int) -> list[Path]:
    """The files of recordings of read, one a count."""
    folder.mkdir(exist_ok=True)
    files = [folder / f"{count}.json" for count in counts]
    for file, count in zip(files, counts, strict=True):
        write_recording(recording({"read": [("a", count)]}), file)
    return files


def filled(tmp_path: Path, *counts: int) -> Store:
    store = Store(str(tmp_path / "store"), create=True)
    assert all(one.new for one in store.add(made(tmp_path / "files", *counts)))
    return store


def filled_at_once(place: str, folder: Path, writers: int) -> list[float]:
    """The values in a store to which `writers` processes add two files of their own at once.

    The first makes it, and each adds two that all others have, too: those of 1 and 2.
    """
    made(folder / "shared", 1, 2)
    program = f"""
import sys
from pathlib import Path
from kentry.store.store import Store
from tests.unit.store.test_store import made
first, folder = 1000 + 2 * int(sys.argv[1]), Path({str(folder)!r})
own = made(folder / sys.argv[1], first, first + 1)
store = Store({place!r}, create=True)
assert not [one for one in store.add([*own, folder / "shared"]) if one.error]
"""
    processes = [
        subprocess.Popen([sys.executable, "-c", program, str(number)], stderr=subprocess.PIPE)
        for number in range(writers)
    ]
    assert [process.communicate()[1].decode() for process in processes] == [""] * writers
    return [row[0] for row in Store(place).query(READ)[1]]


def open_to_all(folder: Path) -> None:
    """Another user may enter the folder, which is below pytest's own."""
    for one in (folder, *folder.parents):
        if Path(tempfile.gettempdir()) in one.parents:
            one.chmod(0o755)


def an_object(tmp_path: Path) -> Path:
    return min((tmp_path / "store" / "objects").rglob("*.gz"))


def test_what_is_added_is_found_exported_and_there_once(tmp_path: Path) -> None:
    store = filled(tmp_path, 7, 5)
    files = [tmp_path / "files" / name for name in ("5.json", "7.json")]
    # A pipe in a folder is no result.
    os.mkfifo(tmp_path / "files" / "pipe.json")
    assert [one.new for one in store.add([tmp_path / "files"])] == [False, False]
    assert store.query(READ) == (["value"], [[5], [7]])
    assert len(list(store.export(tmp_path / "out"))) == 2
    out = sorted(file.read_bytes() for file in (tmp_path / "out").iterdir())
    assert out == sorted(file.read_bytes() for file in files)
    assert all(read_recording(file) for file in (tmp_path / "out").iterdir())
    assert list(store.verify()) == [] and store.gc() == (0, 0, 0)


def test_times_are_found_with_their_unit(tmp_path: Path) -> None:
    times = timed({"getppid": 80.0}, groups=2)
    write_recording(times, tmp_path / "times.json")
    store = Store(str(tmp_path / "store"), create=True)
    assert [one.new for one in store.add([tmp_path / "times.json"])] == [True]
    _, [row] = store.query("SELECT case_name, value, unit FROM history WHERE metric = 'ns'")
    assert row == ["getppid", times.cases[0].noisy["ns"].value, "ns"]


def test_two_stores_are_merged_without_loss(tmp_path: Path) -> None:
    first = filled(tmp_path, 7, 5)
    second = Store(str(tmp_path / "second"), create=True)
    assert len(list(second.add(made(tmp_path / "more", 5, 9)))) == 2
    assert [one.new for one in second.add([str(tmp_path / "store")])].count(True) == 1
    assert second.query(READ)[1] == [[5.0], [7.0], [9.0]]
    assert set(first.hashes()) < set(second.hashes())


def test_a_damaged_object_stops_no_merge_and_no_export(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    filled(tmp_path, 7, 5, 9)
    an_object(tmp_path).write_bytes(b"half")
    damaged, merged, out = (str(tmp_path / name) for name in ("store", "merged", "out"))
    assert main(["store", "add", merged, damaged, "-q"]) == 2
    said = capsys.readouterr()
    assert said.out == "2 added, 1 refused\n" and "gc" in said.err
    assert main(["store", "export", damaged, out, "-q"]) == 2
    assert len(list(Path(out).iterdir())) == 2
    assert main(["store", "verify", merged]) == 0


@pytest.mark.parametrize(
    ("place", "name"),
    [
        ("results", "results"),
        ("postgresql://u:pa@s:s@host/db?objects=o", "postgresql://u:***@host/db?objects=o"),
        ("postgresql://h:5432/db?objects=/a%40b", "postgresql://h:5432/db?objects=/a%40b"),
        ("postgresql://h/db?password=pass&objects=o", "postgresql://h/db?password=***&objects=o"),
        ("postgresql://u:pass@h:port/db?objects=o", "postgresql://u:***@h:port/db?objects=o"),
    ],
)
def test_no_message_has_a_password(
    place: str, name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert shown(place) == name
    for words in (["gc", place], ["verify", place], ["export", place, str(tmp_path / "out")]):
        assert main(["store", *words]) == 2
    assert main(["history", place, "-o", str(tmp_path / "site")]) == 2
    assert "pass" not in capsys.readouterr().err.replace("password", "")


@pytest.mark.parametrize(
    "content",
    [
        *(b"", b"[]", b"{}", b'{"schema": "other/1"}', b"\x00" * 99),
        *(b'{"schema": "kentry/z/1\\ud800"}', b'{"schema": "kentry/z/1\\u0000"}'),
    ],
)
def test_what_is_no_result_is_refused_and_the_rest_is_added(
    content: bytes, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    [good] = made(tmp_path / "files", 7)
    (tmp_path / "bad.json").write_bytes(content)
    words = ["store", "add", str(tmp_path / "store"), str(tmp_path / "bad.json"), str(good)]
    assert main(words) == 2
    said = capsys.readouterr()
    assert said.out == "1 added, 1 refused\n" and str(tmp_path / "bad.json") in said.err
    damaged = good.read_text().replace('"read"', '"raed"')
    good.write_text(damaged)
    assert main(["store", "add", str(tmp_path / "store"), str(good)]) == 2


@pytest.mark.parametrize("how", ["changed", "cut", "gone", "another's", "a link to nothing"])
def test_what_is_damaged_is_named_taken_out_and_can_be_added_again(
    how: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    store = filled(tmp_path, 7, 5)
    file = an_object(tmp_path)
    key, packed = file.name.removesuffix(".gz"), file.read_bytes()
    other = next(one for one in file.parents[1].rglob("*.gz") if one != file)
    contents = {
        "changed": packed[:90] + bytes([packed[90] ^ 1]) + packed[91:],
        "cut": packed[:-9],
        "another's": other.read_bytes(),
    }
    file.unlink()
    if how == "a link to nothing":
        file.symlink_to("nothing")
    elif how in contents:
        file.write_bytes(contents[how])
    assert main(["store", "verify", str(tmp_path / "store")]) == 2
    said = capsys.readouterr().out
    assert key in said and "1 of 2 files" in said
    assert store.gc() == (1, how != "gone", 0)
    assert key not in store.hashes() and len(store.hashes()) == 1
    assert [one.new for one in store.add([tmp_path / "files"])].count(True) == 1
    assert main(["store", "verify", str(tmp_path / "store")]) == 0


def test_what_cannot_be_read_now_is_not_taken_out(tmp_path: Path) -> None:
    store = filled(tmp_path, 7, 5)
    file = an_object(tmp_path)
    file.rename(away := tmp_path / "away.gz")
    # As where a disk or a network fails: too many levels of symbolic links.
    file.symlink_to(file)
    for asked in (lambda: list(store.verify()), store.gc):
        with pytest.raises(UserError):
            asked()
    index = tmp_path / "store" / "index.sqlite"
    with sqlite3.connect(index) as connection:
        connection.execute("DELETE FROM results")
        connection.execute("DELETE FROM documents")
    with pytest.raises(UserError):
        store.gc()
    assert len(store.hashes()) == 1
    away.replace(file)
    assert store.gc() == (0, 0, 1)
    assert list(store.verify()) == [] and len(store.hashes()) == 2


@pytest.mark.parametrize("how", ["value", "row", "page", "cut", "text", "gone"])
def test_an_index_that_is_damaged_is_made_again_from_the_objects(how: str, tmp_path: Path) -> None:
    store, place = filled(tmp_path, 7, 5), str(tmp_path / "store")
    before, index = store.query(ALL)[1], Path(place, "index.sqlite")
    put(tmp_path / "store/objects/00" / f"{'0' * 64}.gz", b"half")
    for file in (tmp_path / "store" / "objects").rglob("*.gz"):
        os.utime(file, (time.time() - 7200,) * 2)
    content = index.read_bytes()
    if how in ("value", "row"):
        with sqlite3.connect(index) as connection:
            connection.execute("UPDATE results SET value = value + 1 WHERE value = 7")
            if how == "row":
                connection.execute("DELETE FROM documents")
                connection.execute("DELETE FROM results WHERE value = 5")
    elif how == "page":
        at = content.rindex(b"getppid" if b"getppid" in content else b"instructions") & ~4095
        index.write_bytes(content[:at] + b"\xff" * 4096 + content[at + 4096 :])
    elif how == "gone":
        index.unlink()
        assert main(["store", "add", place, str(tmp_path / "files")]) == 0
    else:
        index.write_bytes(content[: len(content) // 2] if how == "cut" else b"no index" * 999)
    assert main(["store", "gc", place]) == 0
    assert main(["store", "verify", place]) == 0
    assert Store(place).query(ALL)[1] == before
    assert len(list(Path(place, "objects").rglob("*.gz"))) == 2


@pytest.mark.slow
def test_any_damage_of_an_index_is_mended_by_gc(tmp_path: Path) -> None:
    store, place = filled(tmp_path, 7, 5), str(tmp_path / "store")
    before, index = store.query(ALL)[1], tmp_path / "store" / "index.sqlite"
    content, rng = index.read_bytes(), random.Random(1)
    used = [at for at, byte in enumerate(content) if byte]
    for number in range(200):
        at = rng.choice(used)
        damaged = bytes([rng.choice([0, 0x80, 0xFF, content[at] ^ 1])])
        index.write_bytes(content[:at] + damaged + content[at + 1 :])
        assert main(["store", "gc", place, "-q"]) == 0, (number, at, damaged)
        assert Store(place).query(ALL)[1] == before, (number, at, damaged)
    index.write_bytes(b"")
    assert main(["store", "gc", place, "-q"]) == 0
    assert Store(place).query(ALL)[1] == before


def test_gc_leaves_a_strangers_index(tmp_path: Path) -> None:
    with sqlite3.connect(tmp_path / "index.sqlite") as index:
        index.execute("CREATE TABLE mine (number)")
    assert main(["store", "gc", str(tmp_path)]) == 2
    assert [file.name for file in tmp_path.iterdir()] == ["index.sqlite"]


def test_gc_keeps_what_only_a_newer_kentry_reads_and_takes_no_empty_folder_for_a_loss(
    tmp_path: Path,
) -> None:
    store = filled(tmp_path, 7, 5)
    newer = b'{"schema": "kentry/recording/99"}'
    key = sha256(newer).hexdigest()
    file = put(tmp_path / "store/objects" / key[:2] / f"{key}.gz", gzip.compress(newer))
    os.utime(file, (1, 1))
    copy = put(tmp_path / "store/objects/copies/00" / file.name, b"a user's own")
    assert store.gc() == (0, 0, 0) and file.exists() and copy.exists()
    objects = tmp_path / "store/objects"
    objects.rename(away := tmp_path / "not mounted")
    objects.mkdir()
    with pytest.raises(UserError):
        store.gc()
    objects.rmdir()
    away.rename(objects)
    assert list(store.verify()) == [] and len(store.hashes()) == 2


def test_an_object_that_unpacks_to_more_than_a_result_is_damaged(tmp_path: Path) -> None:
    store = filled(tmp_path, 7)
    # 200 KB that are 200 MB.
    an_object(tmp_path).write_bytes(gzip.compress(b"\0" * (200 << 20), 1))
    with pytest.raises(UserError, match="damaged"):
        store.get(store.hashes()[0])


def test_an_object_of_an_add_that_did_not_end_goes_after_an_hour(tmp_path: Path) -> None:
    store = filled(tmp_path, 7)
    stray = put(tmp_path / "store/objects/00" / f"{'0' * 64}.gz", b"half")
    assert store.gc() == (0, 0, 0) and stray.exists()
    os.utime(stray, (time.time() - 7200,) * 2)
    assert store.gc() == (0, 1, 0) and not stray.exists()


@pytest.mark.parametrize(
    "statement",
    [
        "DELETE FROM results",
        "DROP VIEW history",
        "INSERT INTO kentry_store VALUES (9)",
        "PRAGMA query_only = OFF",
        "SELEKT",
        "SELECT 1; SELECT 2",
        "",
    ],
)
def test_a_query_only_reads(statement: str, tmp_path: Path) -> None:
    store = filled(tmp_path, 7)
    assert main(["store", "query", str(tmp_path / "store"), statement]) == 2
    assert store.query(READ)[1] == [[7.0]]


def test_a_query_is_a_table_or_json(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    filled(tmp_path, 7, 5)
    assert main(["store", "query", str(tmp_path / "store"), READ, "--json"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert (document["schema"], document["rows"]) == ("kentry/query/1", [[5], [7]])
    assert "5.0" not in str(document["rows"])
    odd = "SELECT 12345678.0, 12345678.25, x'00ff', 1e999, NULL, 5 % 3, 1e300 WHERE 'a' LIKE 'a%'"
    assert main(["store", "query", str(tmp_path / "store"), odd, "--json"]) == 0
    [row] = json.loads(capsys.readouterr().out)["rows"]
    assert row == [12345678, 12345678.25, str(b"\x00\xff"), "inf", None, 2, 1e300]
    assert main(["store", "query", str(tmp_path / "store"), odd]) == 0
    assert "12345678 " in (out := capsys.readouterr().out) and "12345678.25" in out
    assert main(["store", "query", str(tmp_path / "store")]) == 0
    assert capsys.readouterr().out.splitlines()[-1].split()[-1] == "2"


@pytest.mark.parametrize(
    "place",
    ["nothing", "mysql://host/db", "postgresql://host/db", "://", "postgresql://h:x/db?objects=a"],
)
def test_what_is_no_store_is_said(
    place: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    assert main(["store", "verify", place]) == 2
    assert capsys.readouterr().err.count("\n") == 2
    assert list(tmp_path.iterdir()) == []


def test_a_store_of_a_newer_kentry_is_left_alone(tmp_path: Path) -> None:
    filled(tmp_path, 7)
    with sqlite3.connect(tmp_path / "store" / "index.sqlite") as index:
        index.execute("UPDATE kentry_store SET version = 2")
    with pytest.raises(UserError, match="newer"):
        Store(str(tmp_path / "store"), create=True)


def test_a_read_only_store_is_read_and_not_written(tmp_path: Path) -> None:
    store = filled(tmp_path, 7)
    [new] = made(tmp_path / "more", 9)
    program = f"""
import os, sys
from kentry.cli import main
store = {str(tmp_path / "store")!r}
# What it imports may be in a folder of root's.
assert main(["store", "verify", store]) == main(["store", "query", store, "SELECT 0"]) == 0
print("===")
os.setgid(65534), os.setuid(65534)
codes = main(["store", "query", store, {READ!r}]), main(["store", "add", store, {str(new)!r}])
sys.exit(10 * codes[0] + codes[1])
"""
    if os.geteuid():
        pytest.skip("only root may become nobody (root's files are writable for root alone)")
    open_to_all(tmp_path)
    argv = [sys.executable, "-c", program]
    done = subprocess.run(argv, capture_output=True, text=True, check=False)
    assert done.returncode == 2, done.stderr
    assert done.stdout.partition("===")[2].split() == ["value", "7"]
    assert "cannot be" in done.stderr and store.query(READ)[1] == [[7.0]]


@pytest.mark.slow
def test_fifty_writers_at_once_lose_nothing(tmp_path: Path) -> None:
    values = filled_at_once(str(tmp_path / "store"), tmp_path, 50)
    assert values == [1, 2, *range(1000, 1100)]


def test_gc_removes_no_file_that_is_not_an_object(tmp_path: Path) -> None:
    victim = tmp_path / "victim"
    store = Store(str(tmp_path / "store"), create=True)
    (tmp_path / "store/objects").rmdir()
    (tmp_path / "store/objects").symlink_to(victim)
    for name in ("thesis.tex", "ab/notes.gz"):
        (victim / name).parent.mkdir(exist_ok=True, parents=True)
        (victim / name).touch()
        os.utime(victim / name, (1, 1))
    assert store.gc() == (0, 0, 0)
    assert sum(file.is_file() for file in victim.rglob("*")) == 2
