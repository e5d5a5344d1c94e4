# SPDX-License-Identifier: GPL-2.0-or-later
"""Runs one program and hands its output on a line at a time, as it comes."""

from __future__ import annotations

import contextlib
import os
import selectors
import signal
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from kentry.host.process import command_line, log, need

_POLL_SECONDS = 0.2
_CHUNK_BYTES = 1 << 16
_LAST_WORDS_BYTES = 8192
# The longest line of the probe's is a few KiB; what has no newline for so long has no lines.
_LINE_LIMIT_BYTES = 16 << 20


@dataclass(frozen=True)
class Streamed:
    """How a program ended.

    `status` is 128 + a signal's number where that ended it.  `stopped` says in words why it had
    to be stopped, "" where it was not.  `rest` is what came after the last newline, `stderr` the
    last it said there.
    """

    status: int
    stopped: str
    rest: str
    stderr: str


def stream(
    argv: Sequence[str],
    timeout: float,
    on_line: Callable[[str], None],
    *,
    env: Mapping[str, str] | None = None,
    feed: bytes = b"",
    hold: bool = False,
    check: Callable[[str], None] | None = None,
    shown: Sequence[str] | None = None,
) -> Streamed:
    """Runs `argv` for at most `timeout` seconds; its process group is gone on return.

    `on_line` gets each line of standard output without its newline.  An end without a newline
    is no line: a number in it may be cut short.  `feed` goes to standard input, which with `hold`
    stays open as long as the program runs.  `check` is called a few times a second with the
    last of standard error; what it raises ends the program.  `shown` is what -v shows
    in place of `argv`, where that would not work a second time.  It dies with kentry.
    """
    # setpriv: the program must not outlive us, whatever ends us.
    argv = [need("setpriv", "util-linux"), "--pdeathsig", "KILL", "--", *argv]
    log.info("$ %s", command_line(shown or argv, env))
    process = subprocess.Popen(
        argv,
        env={**os.environ, **(env or {})},
        stdin=subprocess.PIPE if feed or hold else subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        start_new_session=True,
        bufsize=0,
    )
    try:
        return _Watch(process, on_line, feed, hold, check).watch(timeout)
    finally:
        _end(process)


class _Watch:
    """One run: `lines` is what came of the line that has no end yet."""

    def __init__(
        self,
        process: subprocess.Popen[bytes],
        on_line: Callable[[str], None],
        feed: bytes,
        hold: bool,
        check: Callable[[str], None] | None,
    ) -> None:
        self.process = process
        self.on_line = on_line
        self.feed = memoryview(feed)
        self.hold = hold
        self.check = check
        self.rest = bytearray()
        self.words = bytearray()

    def watch(self, timeout: float) -> Streamed:
        deadline = time.monotonic() + timeout
        stopped = ""
        assert self.process.stdout is not None and self.process.stderr is not None
        with selectors.DefaultSelector() as selector:
            selector.register(self.process.stdout, selectors.EVENT_READ, self._take_lines)
            selector.register(self.process.stderr, selectors.EVENT_READ, self._take_words)
            if self.process.stdin is not None and self.feed:
                os.set_blocking(self.process.stdin.fileno(), False)
                selector.register(self.process.stdin, selectors.EVENT_WRITE)
            while not stopped and _reads(selector):
                ready = selector.select(_POLL_SECONDS)
                for key, _ in ready:
                    self._serve(selector, key)
                if self.check:
                    self.check(self.words.decode(errors="replace"))
                if not ready and self.process.poll() is not None:
                    break  # something that it left behind holds the pipes
                stopped = self._must_stop(deadline, timeout)
        if not stopped:
            try:
                self.process.wait(max(deadline - time.monotonic(), _POLL_SECONDS))
            except subprocess.TimeoutExpired:
                stopped = f"after {timeout:g} s"
        _end(self.process)
        status = self.process.returncode
        return Streamed(
            status if status >= 0 else 128 - status,
            stopped,
            self.rest.decode(errors="replace"),
            self.words.decode(errors="replace").strip(),
        )

    def _must_stop(self, deadline: float, timeout: float) -> str:
        if time.monotonic() > deadline:
            return f"after {timeout:g} s"
        if len(self.rest) > _LINE_LIMIT_BYTES:
            return f"since it printed {_LINE_LIMIT_BYTES >> 20} MiB without a newline"
        return ""

    def _serve(self, selector: selectors.BaseSelector, key: selectors.SelectorKey) -> None:
        if key.events & selectors.EVENT_WRITE:
            if not self._write():
                selector.unregister(key.fileobj)
        elif chunk := os.read(key.fd, _CHUNK_BYTES):
            key.data(chunk)
        else:
            selector.unregister(key.fileobj)

    def _write(self) -> bool:
        """Feeds some more; whether there is more to feed."""
        assert self.process.stdin is not None
        try:
            written = os.write(self.process.stdin.fileno(), self.feed[:_CHUNK_BYTES])
        except BlockingIOError:
            return True
        except BrokenPipeError:
            return False  # it has gone, or reads no more: its status says which
        self.feed = self.feed[written:]
        if not self.feed and not self.hold:
            self.process.stdin.close()
        return bool(self.feed)

    def _take_lines(self, chunk: bytes) -> None:
        self.rest += chunk
        *lines, last = self.rest.split(b"\n")
        self.rest = last
        for line in lines:
            self.on_line(line.decode(errors="replace").removesuffix("\r"))

    def _take_words(self, chunk: bytes) -> None:
        self.words += chunk
        del self.words[:-_LAST_WORDS_BYTES]


def _reads(selector: selectors.BaseSelector) -> bool:
    return any(key.events & selectors.EVENT_READ for key in selector.get_map().values())


def _end(process: subprocess.Popen[bytes]) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()
    for pipe in (process.stdin, process.stdout, process.stderr):
        if pipe:
            pipe.close()
