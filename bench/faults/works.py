# SPDX-License-Identifier: GPL-2.0-or-later
"""The commands that faults happen to, in a folder with a cache of its own, and their answers."""

from __future__ import annotations

import contextlib
import io
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from tests import ROOT
from tests.builders import recording
from tests.processes import script
from tests.unit.kernels import sources
from tests.unit.store import postgres

from kentry.cli import main as kentry_main
from kentry.results.recording import read_recording, write_recording

KENTRY = (sys.executable, "-m", "kentry")
# What no two runs share; a commit that is measured anew is another step of a bisection.
VOLATILE = {"command", "seconds", "steps"}
# Seconds that a command may take at most.
PATIENCE = 1800.0
GOLDEN = ROOT / "tests" / "golden" / "arm64-6.12.json"
KERNELS = ("debian:6.1", "debian:6.12")
ON = ("--arch", "arm64", "--json")
MEASURED = (*ON, "--case", "getppid,read")
# Recordings in the store that is read, and in the one that is filled.
FEW, MANY = 4, 60
COMMITS = 24
BUDGETS = """\
baseline.arm64 = "old.json"
[arm64]
getppid = 400
read = "+1 %"
"""
DATABASE = "faults"
PATCHES = sorted((ROOT / "examples" / "riscv-entry").glob("*.patch"))
SOURCE = ("source:6.12", "--arch", "riscv64", "--config", "tiny", "--case", "getppid", "--json")
# Each commit of the repository has its recording in it; reading that takes a board some time.
METER = 'sleep 0.1; git -C {tree} show "$1:recording.json" > "$2"'


@dataclass(frozen=True)
class Work:
    """A command; `forgets` are folders that are not there before it; `made` is what it makes.

    `reads` are folders of the cache's, or beside it, whose files it believes when it runs again,
    as patterns; `compiles_from` are those whose files it believes when it builds again.
    One that `boots` starts QEMU.  `in_cache` says that all that it writes is there; `database`,
    that it fills the server's.  `again` gives its answer from what is there, if another does.
    """

    name: str
    words: tuple[str, ...]
    forgets: tuple[str, ...] = ()
    made: str = ""
    reads: tuple[str, ...] = ()
    compiles_from: tuple[str, ...] = ()
    boots: bool = False
    in_cache: bool = True
    database: bool = False
    again: tuple[str, ...] = ()


class Works:
    """The commands, with what they need in `folder`, and with a database if there is a server.

    Without a `cache` it is in the folder, and a command's results can be forgotten.  Those that
    build kernels are left out unless `building`.
    """

    def __init__(
        self,
        folder: Path,
        server: postgres.Server | None = None,
        cache: Path | None = None,
        *,
        building: bool = False,
    ) -> None:
        self.folder, self.cache, self.server = folder, cache or folder / "cache", server
        self.environment = {**os.environ, "KENTRY_CACHE": str(self.cache)}
        self.all = [*self._booting(), *self._of_stores(), self._bisection()]
        self.building = self._building() if building else []

    def _booting(self) -> list[Work]:
        # The kernels are fetched now.
        for kernel in KERNELS:
            self.run(("record", kernel, *MEASURED, "-o", str(self.folder / "old.json")))
        (self.folder / "budgets.toml").write_text(BUDGETS)
        check = ("--budget", str(self.folder / "budgets.toml"))
        one, both = (KERNELS[1], *MEASURED), (*KERNELS, *MEASURED)
        kernels = ("kernels", "images", "archive")
        images = ("workloads", "userland", "emulators", *kernels)
        forgets, reads = ("cache/recordings",), ("recordings", *kernels)
        program, trace = ("--", "/bin/true"), str(self.folder / "trace.parquet")
        return [
            # It boots again, whatever there is; so does a trace.
            Work("record", ("record", *one), forgets, boots=True),
            Work("diff", ("diff", *both), forgets, reads=reads, boots=True),
            Work("log", ("log", *both), forgets, reads=reads, boots=True),
            Work("annotate", ("annotate", *one), forgets, reads=reads, boots=True),
            Work("check", ("check", *one, *check), forgets, reads=reads, boots=True),
            Work(
                *("run", ("run", KERNELS[1], *ON, *program), ("cache/workloads",)),
                reads=images,
                boots=True,
            ),
            Work(
                *("trace", ("vector", "trace", KERNELS[1], *ON[:2], "-o", trace, *program)),
                made=trace,
                boots=True,
                in_cache=False,
            ),
        ]

    def _of_stores(self) -> list[Work]:
        many, whole, site = (str(self.folder / name) for name in ("many", "whole", "site"))
        store, export = str(self.folder / "store"), str(self.folder / "export")
        self._put(Path(many), MANY)
        self._put(self.folder / "few", FEW)
        self.run(("store", "add", whole, str(self.folder / "few")))
        works = [
            Work("store add", ("store", "add", store, many), ("store",)),
            Work(
                *("store export", ("store", "export", whole, export), ("export",), export),
                reads=("../whole",),
            ),
            Work(
                *("history", ("history", whole, "-o", site), ("cache/compared", "site"), site),
                reads=("../whole", "compared"),
            ),
        ]
        if self.server:
            place = f"{self.server.url}/{DATABASE}?objects={self.folder / 'objects'}"
            words = ("store", "add", place, many)
            name = "store add to a database"
            works.append(Work(name, words, ("objects",), database=True))
        return [replace(work, in_cache=False) for work in works]

    def _bisection(self) -> Work:
        tree = self.folder / "linux"
        tree.mkdir()
        sources.git(tree, "init", "--quiet", "--initial-branch=master", "--template=")
        for number in range(COMMITS):
            count = 10 if number < COMMITS // 3 else 15
            functions = [("handle_exception", 100), ("syscall", count)]
            write_recording(recording({"getppid": functions}), tree / "recording.json")
            sources.commit(tree, f"commit {number}", {f"file{number}": "x"})
        meter = script(self.folder / "meter", METER.format(tree=tree))
        bisect = ("bisect", "--tree", str(tree), "--json")
        words = ("--good", f"master~{COMMITS - 1}", "--bad", "master", "--meter", str(meter))
        places, again = ("bisections",), (*bisect, "--continue")
        forgets = ("cache/bisections",)
        return Work("bisect", (*bisect, *words), forgets, reads=places, again=again)

    def _building(self) -> list[Work]:
        """What builds kernels; their sources and the compiler's cache stay."""
        forgets = tuple(f"cache/{name}" for name in ("recordings", "built", "clean"))
        reads, objects = (
            ("recordings", "built", "clean"),
            ("ccache", "trees/*/riscv64-*", "trees/*/git"),
        )
        series = ("series", SOURCE[0], *map(str, PATCHES[:2]), *SOURCE[1:])
        ablate = ("ablate", *SOURCE, "--options", "CONFIG_AUDIT")
        works = [Work(words[0], words, forgets, reads=reads) for words in (series, ablate)]
        return [replace(work, compiles_from=objects) for work in works]

    @staticmethod
    def _put(folder: Path, count: int) -> None:
        folder.mkdir()
        own = read_recording(GOLDEN)
        for number in range(count):
            origin = {**own.kernel["origin"], "version": f"6.12.{number}-1"}
            own.kernel = {**own.kernel, "origin": origin}
            write_recording(own, folder / f"{number}.json")

    def run(self, words: tuple[str, ...], **more: str) -> tuple[int, str, str]:
        """The exit code of a command, what it printed and what it said."""
        done = subprocess.run(
            [*KENTRY, *words],
            env={**self.environment, **more},
            capture_output=True,
            text=True,
            errors="replace",
            timeout=PATIENCE,
            check=False,
        )
        return done.returncode, done.stdout, done.stderr

    def answer(self, work: Work, code: int, printed: str) -> Any:
        """What the command came to, without what no two runs share."""
        if work.made:
            made = Path(work.made)
            files = sorted(made.rglob("*")) if made.is_dir() else [made]
            # A page says on which day it was written.
            today = str(datetime.now(UTC).date()).encode()
            contents = ((str(file), file.read_bytes()) for file in files if file.is_file())
            return code, [(file, content.replace(today, b"today")) for file, content in contents]
        if work.name.startswith("store add"):
            status, text, _ = self.run(("store", "verify", work.words[2]))
            return code, status, text
        return code, without(json.loads(printed)) if code == 0 else printed

    def forget(self, work: Work, *, cached: bool = True) -> None:
        """Takes away what the command makes, so that it has to do all of it, or what is cached."""
        for name in work.forgets:
            if cached or not name.startswith("cache/"):
                shutil.rmtree(self.folder / name, ignore_errors=True)
        if work.made and Path(work.made).is_file():
            Path(work.made).unlink()
        if work.database and self.server:
            self.server.make(DATABASE)

    def servers(self, name: str = "") -> list[int]:
        """The processes of the database that serve, of the command of that name or of all."""
        own = [work for work in self.all if work.database and name in ("", work.name)]
        return self.server.processes() if self.server and own else []


def in_a_child(words: tuple[str, ...], environment: Mapping[str, str]) -> tuple[int, str]:
    """The exit code and the output of a command, in a copy of this process."""
    out, out_of_child = os.pipe()
    child = os.fork()
    if child == 0:
        code, printed = 70, io.StringIO()
        os.environ.update(environment)
        hidden = contextlib.redirect_stderr(io.StringIO())
        with contextlib.suppress(BaseException), hidden, contextlib.redirect_stdout(printed):
            code = kentry_main(list(words))
        with os.fdopen(out_of_child, "w") as stream:
            stream.write(printed.getvalue())
        os._exit(code)
    os.close(out_of_child)
    with os.fdopen(out) as stream:
        said = stream.read()
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), said


def without(document: Any) -> Any:
    """A document without what no two runs share."""
    if isinstance(document, Mapping):
        return {name: without(own) for name, own in document.items() if name not in VOLATILE}
    return [without(own) for own in document] if isinstance(document, list) else document


def difference(own: Any, other: Any, place: str = "") -> str:
    """The first place where two documents differ."""
    if type(own) is not type(other) or not isinstance(own, dict | list | tuple):
        return f"{place}: {str(own)[:80]} and {str(other)[:80]}"
    keys = sorted(own.keys() | other.keys()) if isinstance(own, dict) else range(len(own))
    if not isinstance(own, dict) and len(own) != len(other):
        return f"{place}: {len(own)} and {len(other)} items"
    for key in keys:
        if isinstance(own, dict) and (key not in own or key not in other):
            return f"{place}.{key} on one side"
        if own[key] != other[key]:
            return difference(own[key], other[key], f"{place}.{key}")
    return ""
