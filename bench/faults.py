# SPDX-License-Identifier: GPL-2.0-or-later
"""make faults: kentry and its programs are killed, its files are damaged; what comes then.

A kill: a command runs in a cache that has kernels and no recordings; at a random time kentry or one
of its programs gets SIGKILL.  Then no process may stay, and the same command must give what an
undisturbed run gave and leave no file that only a killed run leaves.  A damage: a file of the
cache or of a store is cut short, emptied, has a bit flipped, or is exchanged for another of its
kind; then the command must give what it gave, or end with an error.
Usage: python -m bench.faults [--kills N] [--damages N] [--seed N]
"""

from __future__ import annotations

import argparse
import contextlib
import io
import json
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests import ROOT
from tests.processes import awaited

from kentry.cli import main as kentry_main
from kentry.results.recording import read_recording, write_recording

KENTRY = (sys.executable, "-m", "kentry")
# What no two runs share.
VOLATILE = {"command", "seconds"}
# Seconds in which all that a killed kentry began must end, and a command must.
ENDED, PATIENCE = 20.0, 300.0
GOLDEN = ROOT / "tests" / "golden" / "arm64-6.12.json"
KERNELS = ("debian:6.1", "debian:6.12")
MEASURED = ("--arch", "arm64", "--case", "getppid,read", "--json")
# Recordings in the store that is read, and in the one that is filled.
FEW, MANY = 4, 60


@dataclass(frozen=True)
class Work:
    """A command; `forgets` are folders that are not there before it; `made` are those it makes."""

    name: str
    words: tuple[str, ...]
    forgets: tuple[str, ...]
    made: str = ""


class Trials:
    """The commands in a folder with a cache of its own, and what is wrong."""

    def __init__(self, folder: Path, seed: int) -> None:
        self.folder, self.cache, self.seed = folder, folder / "cache", seed
        self.environment = {**os.environ, "KENTRY_CACHE": str(self.cache)}
        self.wrong: list[str] = []
        self.counts: Counter[str] = Counter()
        # By command: its answer, and the seconds it took.
        self.undisturbed: dict[str, tuple[Any, float]] = {}
        many, whole, site = (str(folder / name) for name in ("many", "whole", "site"))
        recordings = str(self.cache / "recordings")
        (folder / "budgets.toml").write_text('[arm64]\ngetppid = 400\nread = "+1 %"\n')
        check = ("--budget", str(folder / "budgets.toml"), "--baseline", str(folder / "old.json"))
        store, export = str(folder / "store"), str(folder / "export")
        self.works = [
            Work("record", ("record", KERNELS[1], *MEASURED), (recordings,)),
            Work("diff", ("diff", *KERNELS, *MEASURED), (recordings,)),
            Work("log", ("log", *KERNELS, *MEASURED), (recordings,)),
            Work("annotate", ("annotate", KERNELS[1], *MEASURED), (recordings,)),
            Work("check", ("check", KERNELS[1], *MEASURED, *check), (recordings,)),
            Work("store add", ("store", "add", store, many), (store,)),
            Work("store export", ("store", "export", whole, export), (export,), export),
            Work(
                "history",
                ("history", whole, "-o", site),
                (str(self.cache / "compared"), site),
                site,
            ),
        ]
        self._put(Path(many), MANY)
        self._put(folder / "few", FEW)
        self._run(("store", "add", whole, str(folder / "few")))
        # The kernels are fetched now.
        for kernel in KERNELS:
            self._run(("record", kernel, *MEASURED, "-o", str(folder / "old.json")))

    @staticmethod
    def _put(folder: Path, count: int) -> None:
        folder.mkdir()
        own = read_recording(GOLDEN)
        for number in range(count):
            origin = {**own.kernel["origin"], "version": f"6.12.{number}-1"}
            own.kernel = {**own.kernel, "origin": origin}
            write_recording(own, folder / f"{number}.json")

    def _run(self, words: tuple[str, ...]) -> tuple[int, str]:
        done = subprocess.run(
            [*KENTRY, *words],
            env=self.environment,
            capture_output=True,
            text=True,
            timeout=PATIENCE,
            check=False,
        )
        return done.returncode, done.stdout

    def _answer(self, work: Work, code: int, printed: str) -> Any:
        """What the command came to, without what no two runs share."""
        if work.made:
            files = sorted(Path(work.made).rglob("*"))
            return code, [(str(file), file.read_bytes()) for file in files if file.is_file()]
        if work.name == "store add":
            status, text = self._run(("store", "verify", work.words[2]))
            return code, status, text
        return code, without(json.loads(printed)) if code == 0 else printed

    def _forget(self, work: Work) -> None:
        for name in work.forgets:
            shutil.rmtree(name, ignore_errors=True)

    def _left(self) -> set[Path]:
        """Files that only a run that was killed leaves: other names of files, scratch folders."""
        dots = {path for path in self.folder.rglob(".*") if "trees" not in path.parts}
        return dots | {path for path in self.cache.glob("scratch/*") if path.is_dir()}

    def kill(self, number: int) -> None:
        """One trial: a command, a time, a victim."""
        rng = random.Random(f"{self.seed} kill {number}")
        work = self.works[number % len(self.works)]
        if work.name not in self.undisturbed:
            began = time.monotonic()
            self._forget(work)
            answer = self._answer(work, *self._run(work.words))
            self.undisturbed[work.name] = answer, time.monotonic() - began
        wanted, took = self.undisturbed[work.name]
        before = self._left()
        self._forget(work)
        with subprocess.Popen(
            [*KENTRY, *work.words],
            env=self.environment,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        ) as process:
            time.sleep(rng.uniform(0, took))
            family = [process.pid, *below(process.pid)]
            # kentry itself half of the time.
            victim = rng.choice([process.pid, rng.choice(family)])
            with contextlib.suppress(ProcessLookupError):
                os.kill(victim, signal.SIGKILL)
            try:
                process.wait(PATIENCE)
            except subprocess.TimeoutExpired:
                process.kill()
                self._fail(work, "kill", number, "a command went on without its program")
        self.counts["kentry killed" if victim == process.pid else "a program killed"] += 1
        if not awaited(lambda: not self._running(), ENDED):
            self._fail(work, "kill", number, f"a process stays: {self._running()}")
        answer = self._answer(work, *self._run(work.words))
        if answer != wanted:
            what = f"the same command gives something else: {difference(answer, wanted)}"
            self._fail(work, "kill", number, what)
        if stays := self._left() - before:
            self._fail(work, "kill", number, f"files stay: {sorted(map(str, stays))[:3]}")

    def _running(self) -> list[str]:
        """The command lines of processes that have the folder in them, or in their environment."""
        found = []
        for entry in Path("/proc").glob("[0-9]*"):
            with contextlib.suppress(OSError):
                text = (entry / "cmdline").read_bytes()
                known = text + (entry / "environ").read_bytes()
                if int(entry.name) != os.getpid() and str(self.folder).encode() in known:
                    found.append(text.replace(b"\0", b" ")[:200].decode(errors="replace"))
        return found

    def damage(self, number: int, wanted: dict[str, Any]) -> None:
        """One trial: a command that has all it needs, and a file of that which is damaged."""
        rng = random.Random(f"{self.seed} damage {number}")
        # `record` boots again, whatever there is.
        work = self.works[1 + number % (len(self.works) - 1)]
        file, other = self._two_files(rng, work)
        content = file.read_bytes()
        how, damaged = rng.choice(list(damages(rng, content, other.read_bytes())))
        # As whoever wrote it would: the inode is another one.
        file.unlink()
        file.write_bytes(damaged)
        code, said = in_a_child(work.words)
        answer = self._answer(work, code, said)
        what = f"{how} {file.relative_to(self.folder)}"
        if code not in (0, 2):
            self._fail(work, "damage", number, f"exit code {code}: {what}")
        elif code == 0 and answer != wanted[work.name]:
            told = difference(answer, wanted[work.name])
            self._fail(work, "damage", number, f"another answer: {what}: {told}")
        self.counts["refused" if code else "made again or not used"] += 1
        file.unlink(missing_ok=True)
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(content)

    def _two_files(self, rng: random.Random, work: Work) -> tuple[Path, Path]:
        """A file that the command may read, and another one of its kind."""
        places = [self.cache / name for name in ("recordings", "kernels", "archive", "compared")]
        if work.name.startswith(("store", "history")):
            places = [self.folder / "whole", self.cache / "compared"]
        place = rng.choice([place for place in places if place.is_dir()])
        files = sorted(path for path in place.rglob("*") if path.is_file())
        file = rng.choice(files)
        return file, rng.choice([one for one in files if one.suffix == file.suffix])

    def _fail(self, work: Work, kind: str, number: int, what: str) -> None:
        self.wrong.append(f"--seed {self.seed}, {kind} {number}, {work.name}: {what}")
        print(self.wrong[-1], flush=True)


def damages(rng: random.Random, content: bytes, other: bytes) -> Iterator[tuple[str, bytes]]:
    """Yields each way to damage a file, with its content then."""
    yield "exchanged", other
    yield "emptied", b""
    if content:
        at, bit = rng.randrange(len(content)), 1 << rng.randrange(8)
        yield "bit flipped in", content[:at] + bytes([content[at] ^ bit]) + content[at + 1 :]
        yield "cut", content[: rng.randrange(len(content))]


def in_a_child(words: tuple[str, ...]) -> tuple[int, str]:
    """The exit code and the output of a command, in a copy of this process."""
    out, out_of_child = os.pipe()
    child = os.fork()
    if child == 0:
        code, printed = 70, io.StringIO()
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
    if isinstance(document, dict):
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


def below(pid: int) -> list[int]:
    """The processes that a process began, and those that these began."""
    found = []
    with contextlib.suppress(OSError):
        for task in Path(f"/proc/{pid}/task").iterdir():
            for child in (task / "children").read_text().split():
                found += [int(child), *below(int(child))]
    return found


def run(kills: int, damages: int, seed: int, say: Callable[[str], None] = print) -> list[str]:
    """Makes the trials of both kinds; returns what was wrong, a line each."""
    with tempfile.TemporaryDirectory(prefix="kentry-faults-") as name:
        trials = Trials(Path(name), seed)
        began = time.monotonic()
        for number in range(kills):
            trials.kill(number)
        say(f"{kills} kills in {time.monotonic() - began:.0f} s: {dict(trials.counts)}")
        trials.counts.clear()
        began = time.monotonic()
        os.environ["KENTRY_CACHE"] = str(trials.cache)
        wanted = {}
        for work in trials.works:
            trials._run(work.words)
            wanted[work.name] = trials._answer(work, *in_a_child(work.words))
        for number in range(damages):
            trials.damage(number, wanted)
        say(f"{damages} damages in {time.monotonic() - began:.0f} s: {dict(trials.counts)}")
        say(f"{len(trials.wrong)} wrong")
        return trials.wrong


def main() -> int:
    """Prints the figures; 1 where something is wrong."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--kills", type=int, default=300)
    parser.add_argument("--damages", type=int, default=2000)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    return bool(run(options.kills, options.damages, options.seed))


if __name__ == "__main__":
    sys.exit(main())
