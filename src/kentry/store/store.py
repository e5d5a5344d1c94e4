# SPDX-License-Identifier: GPL-2.0-or-later
"""A store: files of results by their content, and an index of them in SQL.

It is a folder with index.sqlite and objects/, or a database of PostgreSQL's with its objects in a
folder or in S3: postgresql://HOST/DATABASE?objects=s3://BUCKET/FOLDER.  An object is a packed file
with the SHA-256 of its content as its name.  It is written before the index names it: a reader
finds all that the index names, any number may write at once, and what is added twice is there once.
"""

import contextlib
import gzip
import math
import os
import re
import sqlite3
import time
import zlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from hashlib import sha256
from pathlib import Path
from typing import Any

import fsspec
import sqlalchemy as sql
from fsspec.implementations.local import LocalFileSystem
from sqlalchemy.engine import URL, make_url

from kentry.errors import RecordingError, UserError
from kentry.host.cache import no_space_is_an_error, read_bytes, write_atomically
from kentry.results.document import MOST_BYTES, printable_error, schema_of
from kentry.results.query import Value
from kentry.results.recording import read_recording

# Of the tables below; a kentry that knows fewer does not touch the store.
VERSION = 1
# How long a writer waits for others, seconds.
_PATIENCE = 60.0
# An error of a PostgreSQL that will be there soon, and how long kentry waits for it, seconds.  The
# first: it starts (57P03, cannot_connect_now; libpq passes no number on).  The second: one of its
# processes died, and it ended all others; a server that is no PostgreSQL may say the same.
_RECOVERS = {
    re.compile("the database system is (starting up|in recovery|not yet accepting)"): _PATIENCE,
    re.compile("server closed the connection unexpectedly"): 5.0,
}
# An object that the index does not have may be one that is just being added, for so long; seconds.
_NEW = 3600.0
# Objects that cannot be read before gc gives up: the disk or the network has failed.
_MOST_UNREAD = 10
_INDEX, _OBJECTS = "index.sqlite", "objects"

# What a recording is of, as text; empty where it does not say, and of other results.
_FACTS = (
    *("spec", "release", "package_version", "arch", "cpu"),
    *("compiler", "emulator", "config", "image"),
)
_tables = sql.MetaData()
_version = sql.Table("kentry_store", _tables, sql.Column("version", sql.Integer, primary_key=True))
_documents = sql.Table(
    "documents",
    _tables,
    sql.Column("sha256", sql.String(64), primary_key=True),
    *(sql.Column(name, sql.Text, nullable=False) for name in ("schema", *_FACTS)),
    sql.Column("added", sql.Double, nullable=False),
)
_results = sql.Table(
    "results",
    _tables,
    sql.Column("sha256", sql.String(64), sql.ForeignKey("documents.sha256"), primary_key=True),
    sql.Column("case_name", sql.Text, primary_key=True),
    sql.Column("metric", sql.Text, primary_key=True),
    sql.Column("value", sql.Double, nullable=False),
    sql.Column("unit", sql.Text, nullable=False),
    sql.Index("results_of_a_case", "case_name", "metric"),
)
_HISTORY = """CREATE VIEW history AS
    SELECT case_name, metric, value, unit, arch, cpu, release, package_version, spec, compiler,
           emulator, config, image, added, documents.sha256 AS sha256
    FROM results JOIN documents ON results.sha256 = documents.sha256"""


@dataclass(frozen=True)
class Added:
    """What became of a file: it is `new`, or was there; or the `error` why it is not."""

    name: str
    new: bool = False
    error: RecordingError | UserError | None = None


class DamagedObjectError(UserError):
    """The store has lost an object, or its content is not what its name says."""


def shown(location: str) -> str:
    """Returns a store's folder or URL as messages name it, without what nobody else may read."""
    # As SQLAlchemy finds it, up to the last "@".
    return re.sub(r"(://[^:/?#]*:).*(?=@)|(password=)[^&]*", r"\1\2***", location)


class Store:
    """An open store; UserError wherever its database or its objects cannot be used."""

    def __init__(self, location: str, *, create: bool = False) -> None:
        """Opens the folder or URL `location`, and with `create` makes it if it is not there."""
        url, objects = _where(location, create=create)
        self.shown = shown(location)
        with self._errors():
            # Each step has a connection of its own: a store has no end at which one would close.
            waits = {"timeout": _PATIENCE} if url.drivername == "sqlite" else {}
            self._engine = sql.create_engine(url, poolclass=sql.NullPool, connect_args=waits)
            sql.event.listen(self._engine, "do_connect", _connect)
            self._files, self._root = fsspec.url_to_fs(objects)
            if not sql.inspect(self._engine).has_table(_version.name):
                if not create:
                    raise UserError(
                        f"{self.shown} is no store.", "Make one: kentry store add STORE FILE..."
                    )
                self._make()
            with self._engine.begin() as connection:
                version = connection.scalar(sql.select(sql.func.max(_version.c.version)))
        if version and version > VERSION:
            raise UserError(
                f"{self.shown} was written by a newer kentry.", "Update kentry here, too."
            )

    def _make(self) -> None:
        # Whoever comes second finds some of it, and waits until all of it is there.
        with contextlib.suppress(sql.exc.DBAPIError), self._engine.begin() as connection:
            _tables.create_all(connection)
            connection.execute(sql.text(_HISTORY))
            connection.execute(_version.insert(), {"version": VERSION})
        deadline = time.monotonic() + _PATIENCE
        while not sql.inspect(self._engine).has_table(_version.name):
            if time.monotonic() > deadline:
                raise UserError(f"{self.shown} cannot be made.", "Look at the database's log.")
            time.sleep(0.1)

    def add(self, paths: Iterable[Path | str]) -> Iterator[Added]:
        """Adds results' files, all of a folder's, or of another store; says so of each file."""
        # A store that has lost its index still has its objects.
        for key in () if self.hashes() else self._objects():
            with contextlib.suppress(DamagedObjectError, RecordingError):
                self._index(key)
        for path in paths:
            if is_store(str(path)):
                other = Store(str(path))
                for key in other.hashes():
                    name = f"{other.shown}: {key[:12]}"
                    try:
                        yield self._add(name, other.get(key))
                    except DamagedObjectError as err:
                        yield Added(name, error=err)
                continue
            folder = Path(path)
            files = (file for file in folder.rglob("*.json") if file.is_file())
            for file in sorted(files) if folder.is_dir() else [folder]:
                yield self._add(str(file), read_bytes(file, most=MOST_BYTES + 1))

    def _add(self, name: str, content: bytes) -> Added:
        key = sha256(content).hexdigest()
        # What is there was read when it was added.
        if self._known(_documents, key):
            return Added(name)
        try:
            document, results = _rows(name, content)
        except RecordingError as err:
            return Added(name, error=err)
        with self._errors():
            self._put(key, content)
        return Added(name, new=self._insert(document, results))

    def _insert(
        self, document: dict[str, Any], results: Sequence[dict[str, Any]], *, anew: bool = False
    ) -> bool:
        """Inserts the rows of a file, `anew` in place of what is there; False where it is there."""
        with self._errors():
            try:
                with self._engine.begin() as connection:
                    if anew:
                        _delete(connection, document["sha256"])
                    connection.execute(_documents.insert(), document)
                    if results:
                        connection.execute(_results.insert(), results)
            except sql.exc.IntegrityError:
                return False
        return True

    def _index(self, key: str) -> bool:
        """Makes the index say of a file what its object says; False where it does already."""
        with self._errors():
            document, results = _rows(key, self.get(key))
            document["added"] = self._files.modified(self._path(key)).timestamp()
        return not self._says(document, results) and self._insert(document, results, anew=True)

    def _says(self, document: dict[str, Any], results: Sequence[dict[str, Any]]) -> bool:
        """Whether the index has these rows of a file, and no other."""
        known = [self._known(table, document["sha256"]) for table in (_documents, _results)]
        return known == [_comparable([document]), _comparable(results)]

    def _objects(self) -> list[str]:
        """The SHA-256 in the name of each object."""
        with self._errors():
            self._files.invalidate_cache()
            paths = self._files.find(self._root)
        named = ((path, match[1]) for path in paths if (match := _OBJECT.search(path)))
        return [key for path, key in named if path == self._path(key)]

    def hashes(self) -> list[str]:
        """The SHA-256 of all files that the index has."""
        with self._errors(), self._engine.connect() as connection:
            return list(connection.scalars(sql.select(_documents.c.sha256).order_by("sha256")))

    def get(self, key: str) -> bytes:
        """The file of this SHA-256; DamagedObjectError if it is missing or has other content."""
        remedy = "kentry store gc takes it out; add its file again."
        content, unpacking = b"", zlib.decompressobj(wbits=31)
        with self._errors(), contextlib.suppress(zlib.error):
            try:
                # One above the limit is none of kentry's, packed or not.
                small = self._files.size(self._path(key)) <= MOST_BYTES
                packed = self._files.cat_file(self._path(key)) if small else b""
            except FileNotFoundError as err:
                sentence = f"{self.shown} has lost its object {key}."
                raise DamagedObjectError(sentence, remedy) from err
            content = unpacking.decompress(packed, MOST_BYTES + 1)
        if not unpacking.eof or sha256(content).hexdigest() != key:
            raise DamagedObjectError(f"The object {key} of {self.shown} is damaged.", remedy)
        return content

    def query(self, text: str) -> tuple[list[str], list[list[Any]]]:
        """The columns and rows of a statement that reads; UserError where it does not.

        What JSON has no form for, such as a date, is a text.
        """
        with self._errors(), self._engine.connect() as connection:
            if connection.dialect.name == "sqlite":
                connection.exec_driver_sql("PRAGMA query_only = ON")
            else:
                connection = connection.execution_options(postgresql_readonly=True)
            # Without parameters a % is a %.
            plain = connection.execution_options(no_parameters=True)
            answer = plain.exec_driver_sql(text)
            if not answer.returns_rows:
                raise UserError("The statement returns no rows.", "Write a SELECT.")
            return list(answer.keys()), [list(map(_value, row)) for row in answer]

    def export(self, folder: Path) -> Iterator[Added]:
        """Writes each file into the folder, named by release, architecture and content."""
        with no_space_is_an_error(folder):
            folder.mkdir(parents=True, exist_ok=True)
        with self._errors(), self._engine.connect() as connection:
            rows = connection.execute(sql.select(*_documents.c["sha256", "release", "arch"])).all()
        for key, release, arch in rows:
            # A name from a recording has no slash of its own here.
            name = "".join(c if c.isalnum() or c in "+.-_" else "_" for c in f"{release}-{arch}")
            file = folder / f"{name.lstrip('.')}-{key[:12]}.json"
            try:
                write_atomically(file, self.get(key))
                yield Added(str(file), new=True)
            except DamagedObjectError as err:
                yield Added(str(file), error=err)

    def verify(self) -> Iterator[tuple[str, str]]:
        """Yields each file that is not as the index says, with the reason."""
        for key in self.hashes():
            try:
                document, results = _rows(key, self.get(key))
            except (DamagedObjectError, RecordingError) as err:
                yield key, err.sentence
                continue
            if not self._says(document, results):
                yield key, "The index does not match the file."

    def gc(self) -> tuple[int, int, int]:
        """Takes out what is lost or damaged, and makes the index say of the rest what it has.

        Returns how many files are gone, how many objects were removed, and how many indexed.
        """
        known, objects = set(self.hashes()), set(self._objects())
        if known and not objects:
            raise UserError(
                f"None of the objects of {self.shown} is there.",
                "Look whether their folder is mounted, and whether objects= names it.",
            )
        removed = indexed = 0
        lost: list[str] = []
        unread: list[UserError] = []
        for key in sorted(known | objects):
            try:
                with contextlib.suppress(RecordingError):  # a newer kentry reads it
                    indexed += self._index(key)
            except DamagedObjectError:
                lost.append(key)
            except UserError as err:
                # A disk or a network fails: nothing is known of the object.
                unread.append(err)
                if len(unread) == _MOST_UNREAD:
                    break
        for key in lost:
            removed += key in objects and self._remove(key, at_once=key in known)
            with self._errors(), self._engine.begin() as connection:
                _delete(connection, key)
        if unread:
            raise unread[0]
        return len(known.intersection(lost)), removed, indexed

    def _remove(self, key: str, *, at_once: bool) -> bool:
        """Whether an object is removed: not one that somebody may be adding just now."""
        path, before = self._path(key), time.time() - _NEW
        # Another gc may have been here.
        with self._errors(), contextlib.suppress(FileNotFoundError):
            if at_once or self._files.modified(path).timestamp() < before:
                self._files.rm_file(path)
                return True
        return False

    def _known(self, table: sql.Table, key: str) -> list[tuple[Any, ...]]:
        """The rows of a file in the index."""
        with self._errors(), self._engine.connect() as connection:
            chosen = table.select().where(table.c.sha256 == key)
            return _comparable(connection.execute(chosen).mappings())

    def _path(self, key: str) -> str:
        return f"{self._root}/{key[:2]}/{key}.gz"

    def _put(self, key: str, content: bytes) -> None:
        path, packed = self._path(key), gzip.compress(content, mtime=0)
        # It appears as a whole, which S3 sees to by itself.
        if isinstance(self._files, LocalFileSystem):
            Path(path).parent.mkdir(parents=True, exist_ok=True)
            write_atomically(Path(path), packed)
        else:
            self._files.pipe_file(path, packed)

    @contextlib.contextmanager
    def _errors(self) -> Iterator[None]:
        anew = f"kentry store gc {self.shown} makes its index again from its objects."
        try:
            yield
        except sql.exc.SQLAlchemyError as err:
            why = printable_error(str(getattr(err, "orig", None) or err).partition("\n")[0])
            remedy = "Look at the statement, at the database, or at the room on its disk."
            is_damaged = _code(err) in (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB)
            remedy = anew if is_damaged else remedy
            raise UserError(f"{self.shown} cannot be used: {why}.", remedy) from err
        except OSError as err:
            raise UserError(
                f"The objects of {self.shown} cannot be used: {err.strerror or err}.",
                "Look at the folder's permissions and at the room on its disk.",
            ) from err
        except UnicodeDecodeError as err:
            raise UserError(f"The index of {self.shown} is damaged.", anew) from err


def _value(value: Any) -> Value:
    """A value as JSON has it; a number that is whole is written so."""
    if isinstance(value, float | Decimal):
        # JSON's readers have 64 bits for a whole number.
        whole = math.isfinite(value) and -(2**63) < value < 2**63 and value == int(value)
        number = int(value) if whole else float(value)
        return number if math.isfinite(number) else str(number)
    return value if isinstance(value, str | int | None) else str(value)


def _connect(
    dialect: sql.Dialect, _: object, arguments: Sequence[Any], options: Mapping[str, Any]
) -> Any:
    """Connects; waits for a PostgreSQL that starts, as it does by itself after a process died."""
    began = time.monotonic()
    while True:
        try:
            return dialect.connect(*arguments, **options)
        except dialect.loaded_dbapi.Error as err:
            waits = [wait for text, wait in _RECOVERS.items() if text.search(str(err))]
            if not waits or time.monotonic() - began > waits[0]:
                raise
        time.sleep(0.1)


# What may be removed below the objects' folder, which may be a link to anywhere.
_OBJECT = re.compile(r"/[0-9a-f]{2}/([0-9a-f]{64})\.gz$")


def _delete(connection: sql.Connection, key: str) -> None:
    connection.execute(_results.delete().where(_results.c.sha256 == key))
    connection.execute(_documents.delete().where(_documents.c.sha256 == key))


# What is wrong with the machine and not with the file: https://www.sqlite.org/rescode.html.
_OF_THE_MACHINE = (
    *(sqlite3.SQLITE_PERM, sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED, sqlite3.SQLITE_NOMEM),
    *(sqlite3.SQLITE_READONLY, sqlite3.SQLITE_INTERRUPT, sqlite3.SQLITE_IOERR),
    *(sqlite3.SQLITE_FULL, sqlite3.SQLITE_CANTOPEN),
)


def _code(err: sql.exc.SQLAlchemyError) -> int:
    """SQLite's primary code of an error; 0 where it has none."""
    return getattr(getattr(err, "orig", None), "sqlite_errorcode", 0) & 0xFF


def set_aside_damaged_index(location: str) -> bool:
    """Renames the index of a folder if it cannot be read whole; whether it did."""
    index = Path(location, _INDEX)
    # Without objects it may be a stranger's, or that of a store which is just being made.
    if not index.is_file() or not any(Path(location, _OBJECTS).glob("??/*.gz")):
        return False
    engine = sql.create_engine(URL.create("sqlite", database=str(index)), poolclass=sql.NullPool)
    try:
        with engine.connect() as connection:
            if (connection.scalar(sql.select(sql.func.max(_version.c.version))) or 0) > VERSION:
                return False
            for table in (_documents, _results):
                for _ in connection.execute(table.select()):
                    pass
            if connection.exec_driver_sql("PRAGMA integrity_check(1)").scalar() == "ok":
                return False
    except sql.exc.DatabaseError as err:
        if _code(err) in _OF_THE_MACHINE:
            return False
    except (TypeError, ValueError):
        pass
    # SQLite would apply the journal of a process that died to the new index.
    for file in (index, index.with_name(f"{index.name}-journal")):
        if file.exists():
            file.replace(file.with_name(f"{file.name}.damaged-{time.time_ns()}"))
    return True


def is_store(location: str) -> bool:
    """Whether this is a URL, or a folder with a store."""
    return "://" in location or Path(location, _INDEX).is_file()


def _where(location: str, *, create: bool) -> tuple[URL, str]:
    """The database and the folder or URL of the objects."""
    if "://" not in location:
        folder = Path(os.path.realpath(location))
        if create:
            with no_space_is_an_error(folder):
                (folder / _OBJECTS).mkdir(parents=True, exist_ok=True)
        elif not is_store(location):
            raise UserError(f"{location} is no store.", "Make one: kentry store add STORE FILE...")
        return URL.create("sqlite", database=str(folder / _INDEX)), str(folder / _OBJECTS)
    form = "Write postgresql://HOST/DATABASE?objects=FOLDER, or s3://BUCKET/FOLDER."
    try:
        url = make_url(location)
    except sql.exc.ArgumentError as err:
        raise UserError(f"'{shown(location)}' is no URL of a database.", form) from err
    objects = url.query.get("objects")
    if url.drivername != "postgresql" or not isinstance(objects, str):
        raise UserError(
            f"'{shown(location)}' names no database of PostgreSQL's with objects.", form
        )
    rest = url.difference_update_query(["objects"])
    return rest.set(drivername="postgresql+psycopg"), objects


def _comparable(rows: Iterable[Mapping[Any, Any]]) -> list[tuple[Any, ...]]:
    """Rows in one order, without when they were added."""
    return sorted(tuple(sorted((n, v) for n, v in row.items() if n != "added")) for row in rows)


def _rows(name: str, content: bytes) -> tuple[dict[str, Any], Sequence[dict[str, Any]]]:
    """The rows of both tables for a file; RecordingError where it is no result of kentry's."""
    key = sha256(content).hexdigest()
    schema = schema_of(Path(name), content)
    if not schema.startswith("kentry/") or not schema.isprintable():
        raise RecordingError(f"{name} is no result of kentry's.", "Name a file that is.")
    document = {"sha256": key, "schema": schema, "added": time.time(), **dict.fromkeys(_FACTS, "")}
    if not schema.startswith("kentry/recording/"):
        return document, []
    recording = read_recording(Path(name), content)
    kernel, target = dict[str, Any](recording.kernel), dict[str, Any](recording.target)
    facts = {
        **{name: kernel.get(name) for name in ("spec", "release", "arch", "compiler")},
        "package_version": (kernel.get("origin") or {}).get("version"),
        "cpu": target.get("processor") or target.get("cpu_model"),
        "emulator": target.get("emulator"),
        "config": kernel.get("config_sha256"),
        "image": kernel.get("image_sha256"),
    }
    document |= {name: str(fact or "") for name, fact in facts.items()}
    results = [
        {
            "sha256": key,
            "case_name": case.name,
            "metric": metric,
            "value": float(own.value),
            "unit": getattr(own, "unit", ""),
        }
        for case in recording.cases
        for metric, own in (case.metrics | case.noisy).items()
    ]
    return document, results
