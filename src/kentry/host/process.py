# SPDX-License-Identifier: GPL-2.0-or-later
"""Runs programs in process groups that end with the block and with kentry; logs command lines."""

import contextlib
import logging
import math
import os
import selectors
import shlex
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from kentry.errors import UserError
from kentry.host import interrupt
from kentry.host.packages import DOCTOR, missing

log = logging.getLogger("kentry")

_POLL_SECONDS = 0.2
_CHUNK_BYTES = 1 << 16
# What run() keeps in memory of what a program prints.
_MOST_PRINTED = 1 << 30
# How much of the end of standard error supervise() keeps.
_STDERR_BYTES = 8192
# The probe's longest line is a few KiB; output without a newline for this long has no lines.
_LINE_LIMIT_BYTES = 16 << 20
# How long to wait for the rest of a killed group; what it left behind is init's to reap.
_REAP_SECONDS = 0.1


def command_line(argv: Sequence[str], env: Mapping[str, str] | None = None) -> str:
    """Return `argv` as a shell would read it, with the environment variables it adds in front."""
    settings = [f"{name}={shlex.quote(value)}" for name, value in (env or {}).items()]
    return " ".join([*settings, shlex.join(argv)])


def need(program: str) -> str:
    """Return the full path of `program`, or MissingToolError with the command that installs it."""
    path = shutil.which(program)
    if not path:
        raise missing(f"{program} is not installed.", program, otherwise=DOCTOR)
    return path


@contextlib.contextmanager
def child(
    argv: Sequence[str],
    *,
    env: Mapping[str, str] | None = None,
    shown: str | None = None,
    **popen: Any,
) -> Iterator[subprocess.Popen[bytes]]:
    """Start `argv`, with `env` added to ours; its process group is killed when the block ends."""
    # -v prints `shown` where the command line would not work again.  `popen` goes to Popen; by
    # default there is no input, and both outputs are pipes.
    log.info("$ %s", shown or command_line(argv, env))
    # setpriv starts the program itself, so nothing is left to clean up if kentry is killed.
    if setpriv := shutil.which("setpriv"):
        argv = [setpriv, "--pdeathsig", "KILL", "--", *argv]
    options = {"stdin": subprocess.DEVNULL, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    environment = {**os.environ, **(env or {})}
    start: Callable[..., subprocess.Popen[bytes]] = subprocess.Popen
    process = start(argv, env=environment, start_new_session=True, **(options | popen))
    try:
        yield process
    finally:
        kill_group(process)
        for pipe in (process.stdin, process.stdout, process.stderr):
            if pipe:
                with contextlib.suppress(BrokenPipeError):
                    pipe.close()


def kill_group(process: subprocess.Popen[bytes]) -> None:
    """Kills the program and all that it started, and waits until none is left."""
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()
    deadline = time.monotonic() + _REAP_SECONDS
    with contextlib.suppress(ProcessLookupError, PermissionError):
        while time.monotonic() < deadline:
            os.killpg(process.pid, 0)
            time.sleep(0.005)


def run(
    argv: Sequence[str],
    *,
    env: Mapping[str, str] | None = None,
    cwd: Path | None = None,
    check: bool = True,
    feed: bytes = b"",
    seconds: float = math.inf,
) -> subprocess.CompletedProcess[str]:
    """Run `argv` to its end, fed `feed`; with `check`, CalledProcessError for a status but 0.

    What takes more than `seconds` is killed: TimeoutExpired; what prints without end: UserError.
    """
    ends = time.monotonic() + seconds
    # A file, so that it is not fed while its output is read.
    with tempfile.TemporaryFile() if feed else open(os.devnull, "r+b") as stdin:
        stdin.write(feed)
        stdin.seek(0)
        with (
            child(argv, env=env, cwd=cwd, stdin=stdin) as process,
            selectors.DefaultSelector() as open_pipes,
        ):
            outputs = {pipe: bytearray() for pipe in (process.stdout, process.stderr) if pipe}
            for pipe in outputs:
                open_pipes.register(pipe, selectors.EVENT_READ, outputs[pipe])
            while True:
                for key, _ in open_pipes.select(_POLL_SECONDS) if open_pipes.get_map() else ():
                    if not (chunk := os.read(key.fd, _CHUNK_BYTES)):
                        open_pipes.unregister(key.fileobj)
                    key.data.extend(chunk)
                if not open_pipes.get_map():
                    with contextlib.suppress(subprocess.TimeoutExpired):
                        process.wait(_POLL_SECONDS)
                        break
                interrupt.check()
                if sum(map(len, outputs.values())) > _MOST_PRINTED:
                    raise UserError(
                        f"{Path(argv[0]).name} printed more than {_MOST_PRINTED >> 20} MiB.",
                        "Look at what it reads; kentry -v shows its command line.",
                    )
                if time.monotonic() > ends:
                    raise subprocess.TimeoutExpired(list(argv), seconds)
    out, err = (output.decode(errors="replace") for output in outputs.values())
    if check and process.returncode:
        raise subprocess.CalledProcessError(process.returncode, list(argv), out, err)
    return subprocess.CompletedProcess(list(argv), process.returncode, out, err)


@dataclass(frozen=True)
class Exit:
    """How a supervised program ended: its status, 128 + a signal's number if that ended it.

    `stopped` says why we stopped it ("after 60 s"), "" if we did not.  `rest` is its output after
    the last newline, `stderr` the end of its standard error.
    """

    status: int
    stopped: str
    rest: str
    stderr: str


def status_clause(program: str, status: int) -> str:
    """Return what a status says: 128 + a signal's number if one ended the program."""
    if status > 128:
        with contextlib.suppress(ValueError):
            return f"{program} was killed by {signal.Signals(status - 128).name}"
    return f"{program} ended with status {status}"


def supervise(
    argv: Sequence[str],
    timeout: float,
    on_line: Callable[[str], None],
    *,
    env: Mapping[str, str] | None = None,
    feed: bytes = b"",
    hold: bool = False,
    check: Callable[[str], None] | None = None,
    shown: Sequence[str] | None = None,
    limit: int = 0,
    progress: Callable[[], int] | None = None,
    grace: float = 0.0,
) -> Exit:
    """Run `argv` for at most `timeout` seconds and hand on its output as it comes.

    Time in which it waits for a processor does not count, so a busy machine ends nothing.  With
    `progress`, a number that grows while the program gets on, `timeout` is from the last growth or
    output, and ten times as long in all.  `on_line` gets each line of standard output without its
    newline, `check` a few times a second the end of standard error; what they raise ends it.
    `feed` goes to standard input, which with `hold` stays open while the program runs.  -v prints
    `shown` in place of `argv`.  `limit` is how many bytes it may print, 0 for any number.
    One that is stopped may end by itself for `grace` seconds, behind a SIGTERM; so may one that
    kentry's user interrupts, of which the next interrupt.check() tells.
    """
    stdin = subprocess.PIPE if feed or hold else subprocess.DEVNULL
    line = command_line(shown or argv, env)
    with child(argv, env=env, shown=line, stdin=stdin, bufsize=0) as process:
        pipes = _Pipes(process, on_line, feed, hold)
        clock = _seconds_of(process.pid)
        now = last = 0.0
        size = 0
        stopped = ""
        try:
            while not stopped and pipes.outputs:
                # Asked first: what it printed before its end is in the pipes then.
                ended = process.poll() is not None
                idle = not pipes.serve()
                interrupt.check()
                if check:
                    check(pipes.stderr.decode(errors="replace"))
                if idle and ended:
                    break  # a process that it left behind holds the pipes
                now = next(clock)
                if progress and (grown := pipes.size + progress()) != size:
                    size, last = grown, now
                if now > min(last, 9 * timeout) + timeout:
                    stopped = f"after {timeout:g} s{' without progress' if progress else ''}"
                elif limit and pipes.size > limit:
                    stopped = f"because it printed more than {limit >> 20} MiB"
                elif len(pipes.rest) > _LINE_LIMIT_BYTES:
                    stopped = f"because it printed {_LINE_LIMIT_BYTES >> 20} MiB without a newline"
            if not stopped:
                try:
                    process.wait(max(last + timeout - now, _POLL_SECONDS))
                except subprocess.TimeoutExpired:
                    stopped = f"after {timeout:g} s"
        except KeyboardInterrupt:
            if not grace:
                raise
            interrupt.put_off()
            stopped = "by a signal"
        if stopped and grace:
            process.terminate()
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(grace)
    status = process.returncode
    return Exit(
        status if status >= 0 else 128 - status,
        stopped,
        pipes.rest.decode(errors="replace"),
        pipes.stderr.decode(errors="replace").strip(),
    )


def _seconds_of(pid: int) -> Iterator[float]:
    """Yield for how long a program ran or slept so far; waiting for a processor does not count."""
    seconds = before = 0.0
    wall = time.monotonic()
    while True:
        now, ran, runnable = time.monotonic(), 0, False
        with contextlib.suppress(OSError, IndexError, ValueError):
            for thread in Path(f"/proc/{pid}/task").iterdir():
                # In ns: Documentation/scheduler/sched-stats.rst.  The state: proc(5).
                ran += int((thread / "schedstat").read_text().split()[0])
                runnable |= (thread / "stat").read_text().rpartition(")")[2].split()[0] == "R"
        passed = now - wall
        seconds += min(passed, max(ran / 1e9 - before, 0.0)) if runnable else passed
        wall, before = now, ran / 1e9
        yield seconds


class _Pipes:
    """The pipes of one program: `rest` is the start of the line that has no end yet."""

    def __init__(
        self,
        process: subprocess.Popen[bytes],
        on_line: Callable[[str], None],
        feed: bytes,
        hold: bool,
    ) -> None:
        self.rest = bytearray()
        self.stderr = bytearray()
        self.size = 0
        self.outputs = 2
        self._on_line = on_line
        self._stdin = process.stdin
        self._feed = memoryview(feed)
        self._hold = hold
        self._selector = selectors.PollSelector()
        assert process.stdout is not None and process.stderr is not None
        self._selector.register(process.stdout, selectors.EVENT_READ, False)
        self._selector.register(process.stderr, selectors.EVENT_READ, True)
        if process.stdin is not None and feed:
            os.set_blocking(process.stdin.fileno(), False)
            self._selector.register(process.stdin, selectors.EVENT_WRITE)

    def serve(self) -> bool:
        """Move what can be moved, after a short wait; return whether there was anything."""
        ready = self._selector.select(_POLL_SECONDS)
        for key, events in ready:
            if events & selectors.EVENT_WRITE:
                more = self._write()
            else:
                chunk = os.read(key.fd, _CHUNK_BYTES)
                more = bool(chunk)
                if key.data:
                    self.stderr = (self.stderr + chunk)[-_STDERR_BYTES:]
                else:
                    self.size += len(chunk)
                    *lines, self.rest = (self.rest + chunk).split(b"\n")
                    for line in lines:
                        self._on_line(line.decode(errors="replace").removesuffix("\r"))
                self.outputs -= not more
            if not more:
                self._selector.unregister(key.fileobj)
        return bool(ready)

    def _write(self) -> bool:
        assert self._stdin is not None
        try:
            self._feed = self._feed[os.write(self._stdin.fileno(), self._feed[:_CHUNK_BYTES]) :]
        except BlockingIOError:
            return True
        except BrokenPipeError:
            return False  # it ended or reads no more; its status says which
        if not self._feed and not self._hold:
            self._stdin.close()
        return bool(self._feed)
