# SPDX-License-Identifier: GPL-2.0-or-later
"""One fault each: a kill, a damage, a disk, a terminal, a guest or a clock, at a random time."""

from __future__ import annotations

import contextlib
import os
import random
import shutil
import signal
import subprocess
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from tests.processes import awaited

from bench.faults.works import KENTRY, PATIENCE, Work, Works, difference, in_a_child

# Seconds in which all that a command began must end when it has.
ENDED = 30.0
MIB = 1 << 20
LIBFAKETIME = Path("/usr/lib/x86_64-linux-gnu/faketime/libfaketime.so.1")
MISTAKES = ("Traceback", "kentry failed")
Fault = Callable[[random.Random, "subprocess.Popen[bytes]", float], str]


class Trials:
    """Faults of commands by a seed, and what was wrong after them."""

    def __init__(self, works: Works, seed: int) -> None:
        self.works, self.seed = works, seed
        self.wrong: list[str] = []
        self.counts: Counter[str] = Counter()
        # By command, when nothing happens: its answer; the seconds it takes to do all of it.
        self.answers: dict[str, Any] = {}
        self.seconds: dict[str, float] = {}

    def wanted(self, work: Work) -> Any:
        """What the command comes to when nothing happens; its results are in the cache then."""
        if work.name not in self.answers:
            if not work.in_cache:
                self.works.forget(work)
            code, printed, said = self.works.run(work.words)
            assert code == 0, (work.words, said)
            self.answers[work.name] = self.works.answer(work, code, printed)
        return self.answers[work.name]

    def _time(self, work: Work) -> tuple[Any, float]:
        """What the command comes to, and its seconds where it has to do all of it."""
        if work.name not in self.seconds:
            self.works.forget(work)
            began = time.monotonic()
            cached = self.answers.pop(work.name, None)
            if cached not in (None, self.wanted(work)):
                self._fail("no fault", 0, "another answer from the cache than from nothing")
            self.seconds[work.name] = time.monotonic() - began
        return self.answers[work.name], self.seconds[work.name]

    # --- what happens while a command runs ---------------------------------------------------

    def kill(self, number: int) -> None:
        """kentry, half of the time, or one of its programs, or of a database's, gets SIGKILL."""
        self._kill("kill", number, self.works.all)

    def kill_a_build(self, number: int) -> None:
        """The same of commands that build kernels."""
        self._kill("build", number, self.works.building)

    def _kill(self, kind: str, number: int, works: Sequence[Work]) -> None:
        def fault(rng: random.Random, process: subprocess.Popen[bytes], took: float) -> str:
            if over(process, rng.uniform(0, took)):
                return "over before"
            others = [*below(process.pid), *self.works.servers(self._now)] or [process.pid]
            victim = rng.choice([process.pid, rng.choice(others)])
            with contextlib.suppress(ProcessLookupError):
                os.kill(victim, signal.SIGKILL)
            return "kentry killed" if victim == process.pid else "a program killed"

        self._disturb(kind, number, works, fault)

    def hang_up(self, number: int) -> None:
        """The terminal is closed."""

        def fault(rng: random.Random, process: subprocess.Popen[bytes], took: float) -> str:
            over(process, rng.uniform(0, took))
            os.close(self._terminal)
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(PATIENCE)
            # 1 would be a regression.
            if process.returncode == 1:
                self._fail("terminal", number, "exit code 1")
            return f"terminal closed, exit code {process.returncode}"

        self._disturb("terminal", number, self.works.all, fault, on_terminal=True)

    def stall(self, number: int) -> None:
        """QEMU stops for longer than --timeout."""

        def fault(rng: random.Random, process: subprocess.Popen[bytes], took: float) -> str:
            over(process, rng.uniform(0, took))
            guests = [pid for pid in below(process.pid) if "qemu" in command_of(pid)]
            for pid in guests:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGSTOP)
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(60)
            return f"{'a guest' if guests else 'nothing'} stalled, exit code {process.returncode}"

        works = [work for work in self.works.all if work.boots]
        self._disturb("stall", number, works, fault, "--timeout", "3")

    def jump(self, number: int) -> None:
        """The clock of the machine jumps by years, forth or back."""
        if not LIBFAKETIME.exists():
            self.counts["not tried: no libfaketime"] += 1
            return
        file = self.works.folder / "clock"
        file.write_text("+0d")

        def fault(rng: random.Random, process: subprocess.Popen[bytes], took: float) -> str:
            over(process, rng.uniform(0, took))
            file.write_text(rng.choice(("-3650d", "-1d", "+1d", "+3650d")))
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(PATIENCE)
            return f"clock jumped, exit code {process.returncode}"

        clock = {
            "LD_PRELOAD": str(LIBFAKETIME),
            "FAKETIME_TIMESTAMP_FILE": str(file),
            "FAKETIME_NO_CACHE": "1",
            "FAKETIME_DONT_FAKE_MONOTONIC": "1",
        }
        self._disturb("clock", number, self.works.all, fault, environment=clock)

    def _disturb(
        self,
        kind: str,
        number: int,
        works: Sequence[Work],
        fault: Fault,
        *more: str,
        on_terminal: bool = False,
        environment: Mapping[str, str] | None = None,
    ) -> None:
        """Runs a command, has the fault happen, looks at what stays, and runs it once more."""
        rng = random.Random(f"{self.seed} {kind} {number}")
        work = works[number % len(works)]
        self._now = work.name
        wanted, took = self._time(work)
        before = self._left()
        self.works.forget(work)
        streams: dict[str, Any] = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
        slave = -1
        if on_terminal:
            self._terminal, slave = os.openpty()
            streams = dict.fromkeys(("stdin", "stdout", "stderr"), slave)
        with subprocess.Popen(
            [*KENTRY, *more, *work.words],
            env={**self.works.environment, **(environment or {})},
            start_new_session=True,
            preexec_fn=take_terminal if on_terminal else None,
            **streams,
        ) as process:
            if slave >= 0:
                os.close(slave)
            self.counts[fault(rng, process, took)] += 1
            try:
                process.wait(PATIENCE)
            except subprocess.TimeoutExpired:
                process.kill()
                self._fail(kind, number, "the command did not end")
        if not awaited(lambda: not self._running(), ENDED):
            self._fail(kind, number, f"a process stays: {self._running()}")
        self._again(kind, number, work, wanted)
        if stays := self._left() - before:
            self._fail(kind, number, f"files stay: {sorted(map(str, stays))[:3]}")

    def _again(self, kind: str, number: int, work: Work, wanted: Any) -> None:
        code, printed, said = self.works.run(work.words)
        answer = self.works.answer(work, code, printed)
        if answer != wanted:
            told = difference(answer, wanted)
            self._fail(kind, number, f"the same command, another answer: {told}: {said[-300:]}")

    def _left(self) -> set[Path]:
        """Files that only a run that was killed leaves: other names of files, scratch folders."""
        scratch = {path for path in self.works.cache.glob("scratch/*") if path.is_dir()}
        return hidden(self.works.folder) | {path.relative_to(self.works.folder) for path in scratch}

    def _running(self) -> list[str]:
        """The command lines of processes that have the folder in them, or in their environment."""
        server = self.works.server.process if self.works.server else 0
        found = []
        for entry in Path("/proc").glob("[0-9]*"):
            with contextlib.suppress(OSError):
                own = (entry / "cmdline").read_bytes() + (entry / "environ").read_bytes()
                # "PID (NAME) STATE PARENT ..."
                parent = (entry / "stat").read_text().rpartition(")")[2].split()[1]
                ours = {os.getpid(), server} & {int(entry.name), int(parent)}
                if not ours and str(self.works.folder).encode() in own:
                    found.append(command_of(int(entry.name))[:200])
        return found

    def _fail(self, kind: str, number: int, what: str) -> None:
        self.wrong.append(f"--seed {self.seed}, {kind} {number}, {self._now}: {what}")
        print(self.wrong[-1], flush=True)

    # --- disks ---------------------------------------------------------------------------------

    def fill(self, number: int) -> None:
        """The cache's disk has little room, few inodes, or is read only; then it is as before."""
        if os.geteuid():
            self.counts["not tried: only root mounts"] += 1
            return
        rng = random.Random(f"{self.seed} disk {number}")
        works = [work for work in self.works.all if work.in_cache]
        work = works[number % len(works)]
        self._now = work.name
        wanted = self.wanted(work)
        disk = self.works.folder / "disk"
        disk.mkdir(exist_ok=True)
        mount("-t", "tmpfs", "-o", "size=4g", "none", str(disk))
        try:
            shutil.copytree(self.works.cache, disk / "cache", symlinks=True)
            for name in work.forgets:
                shutil.rmtree(disk / name, ignore_errors=True)
            self._on_a_bad_disk(rng, number, work, wanted, disk)
        finally:
            subprocess.run(["umount", "-l", str(disk)], check=True)

    def _on_a_bad_disk(
        self, rng: random.Random, number: int, work: Work, wanted: Any, disk: Path
    ) -> None:
        state = os.statvfs(disk)
        used = (state.f_blocks - state.f_bfree) * state.f_frsize
        size = f"size={used + rng.randrange(4 * MIB)}"
        inodes = f"nr_inodes={state.f_files - state.f_ffree + rng.randrange(40)}"
        what, how = rng.choice((("full", size), ("without inodes", inodes), ("read only", "ro")))
        cache = {"KENTRY_CACHE": str(disk / "cache")}
        mount("-o", f"remount,{how}", str(disk))
        code, printed, said = self.works.run(work.words, **cache)
        if any(mistake in said for mistake in MISTAKES):
            self._fail("disk", number, f"{what}: {said[-300:]}")
        if code == 0 and self.works.answer(work, code, printed) != wanted:
            self._fail("disk", number, f"{what}: another answer")
        self.counts[f"{what}, exit code {code}"] += 1
        mount("-o", "remount,rw,size=4g,nr_inodes=1000000", str(disk))
        code, printed, said = self.works.run(work.words, **cache)
        answer = self.works.answer(work, code, printed)
        if answer != wanted:
            told = difference(answer, wanted)
            self._fail("disk", number, f"{what}, and then not: {told}: {said[-300:]}")
        if stays := hidden(disk / "cache") - hidden(self.works.cache):
            self._fail("disk", number, f"{what}: files stay: {sorted(map(str, stays))[:3]}")

    # --- files that are damaged ------------------------------------------------------------------

    def damage(self, number: int) -> None:
        """A command has all it needs, and a file of that is damaged."""
        self._damage("damage", number, [work for work in self.works.all if work.reads])

    def damage_a_build(self, number: int) -> None:
        """The same of commands that build kernels; each second time they build them again."""
        self._damage("built", number, self.works.building)

    def _damage(self, kind: str, number: int, works: Sequence[Work]) -> None:
        rng = random.Random(f"{self.seed} {kind} {number}")
        work = works[number % len(works)]
        self._now = work.name
        wanted = self.wanted(work)
        builds = bool(work.compiles_from) and rng.random() < 0.5
        file, other = self._two_files(rng, work.compiles_from if builds else work.reads)
        content = file.read_bytes()
        how, damaged = rng.choice(list(damages(rng, content, other.read_bytes())))
        # As whoever wrote it would: the inode is another one.
        file.unlink()
        file.write_bytes(damaged)
        self.works.forget(work, cached=builds)
        code, printed = in_a_child(work.again or work.words, self.works.environment)
        answer = self.works.answer(work, code, printed)
        what = f"{how} {file.relative_to(self.works.folder)}"
        # A store has no other, and a search that goes on may not forget what it was asked.
        is_made_again = self.works.cache in file.resolve().parents and not work.again
        if code not in ((0,) if is_made_again else (0, 2)):
            self._fail(kind, number, f"exit code {code}: {what}")
        elif code == 0 and answer != wanted:
            self._fail(kind, number, f"another answer: {what}: {difference(answer, wanted)}")
        self.counts["refused" if code else "made again or not used"] += 1
        if not builds:
            file.unlink(missing_ok=True)
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_bytes(content)

    def _two_files(self, rng: random.Random, names: Sequence[str]) -> tuple[Path, Path]:
        """A file that the command may read, and another one of its kind."""
        places = [place for name in names for place in sorted(self.works.cache.glob(name))]
        own = [files for at in places if (files := files_of(at) or [at] * at.is_file())]
        files = rng.choice(own)
        file = rng.choice(files)
        return file, rng.choice([one for one in files if one.suffix == file.suffix])


def hidden(folder: Path) -> set[Path]:
    """The files below a folder whose name begins with a dot, but of git's and a source's."""
    found = {path.relative_to(folder) for path in folder.rglob(".*")}
    return {path for path in found if not {"trees", "linux"} & {*path.parts}}


def files_of(folder: Path) -> list[Path]:
    """The files below a folder, in their order."""
    return sorted(path for path in folder.rglob("*") if path.is_file() and not path.is_symlink())


def damages(rng: random.Random, content: bytes, other: bytes) -> Iterator[tuple[str, bytes]]:
    """Yields each way to damage a file, with its content then."""
    yield "exchanged", other
    yield "emptied", b""
    if content:
        at, bit = rng.randrange(len(content)), 1 << rng.randrange(8)
        yield "bit flipped in", content[:at] + bytes([content[at] ^ bit]) + content[at + 1 :]
        yield "cut", content[: rng.randrange(len(content))]
    # What reads it may find nothing wrong with its form.
    if digits := [at for at, byte in enumerate(content) if byte in b"0123456789"]:
        at, digit = rng.choice(digits), b"%d" % rng.randrange(10)
        yield "digit changed in", content[:at] + digit + content[at + 1 :]


def over(process: subprocess.Popen[bytes], seconds: float) -> bool:
    """Waits for so long, or until the process ends; whether it has."""
    with contextlib.suppress(subprocess.TimeoutExpired):
        process.wait(seconds)
    return process.returncode is not None


def take_terminal() -> None:
    """The first terminal that a session's leader opens is the session's."""
    os.close(os.open(os.ttyname(0), os.O_RDWR))


def mount(*words: str) -> None:
    subprocess.run(["mount", *words], check=True)


def command_of(pid: int) -> str:
    """The command line of a process; empty where it has ended."""
    with contextlib.suppress(OSError):
        return Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode()
    return ""


def below(pid: int) -> list[int]:
    """The processes that a process began, and those that these began."""
    found = []
    with contextlib.suppress(OSError):
        for task in Path(f"/proc/{pid}/task").iterdir():
            for child in (task / "children").read_text().split():
                found += [int(child), *below(int(child))]
    return found
