# SPDX-License-Identifier: GPL-2.0-or-later
"""Runs one emulator to its end, whatever it does: hang, flood, crash."""

from __future__ import annotations

import contextlib
import logging
import os
import selectors
import signal
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import IO

from kentry.host.process import command_line
from kentry.progress import Update

log = logging.getLogger("kentry")

# A quiet boot prints a few KiB; what comes after this many is a flood.
_CONSOLE_LIMIT_BYTES = 4 << 20
_POLL_SECONDS = 0.2
_LAST_WORDS_BYTES = 4096


@dataclass(frozen=True)
class Ending:
    """How a run ended.

    `clause` says it in words; `trouble` holds the emulator's own stderr, when it said
    something or failed.
    """

    console: str
    clause: str
    trouble: str


def probing(console: bytes | bytearray) -> str:
    """What a guest that runs the probe is doing."""
    return "cases are running" if b"kentry-probe start" in console else "booting"


def supervise(
    argv: Sequence[str],
    env: Mapping[str, str],
    timeout: float,
    update: Update,
    doing: Callable[[bytes | bytearray], str] = probing,
) -> Ending:
    """Runs `argv` for at most `timeout` seconds; its process group is gone on return.

    `doing` says in words what the guest does, from its console so far.
    """
    log.info("$ %s", command_line(argv, env))
    process = subprocess.Popen(
        argv,
        env={**os.environ, **env},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        start_new_session=True,
    )
    try:
        return _watch(process, timeout, update, doing)
    finally:
        _end(process)


def _watch(
    process: subprocess.Popen[bytes],
    timeout: float,
    update: Update,
    doing: Callable[[bytes | bytearray], str],
) -> Ending:
    assert process.stdout is not None and process.stderr is not None
    console, words = bytearray(), bytearray()
    deadline = time.monotonic() + timeout
    clause = ""
    with selectors.DefaultSelector() as selector:
        selector.register(process.stdout, selectors.EVENT_READ, console)
        selector.register(process.stderr, selectors.EVENT_READ, words)
        while selector.get_map() and not clause:
            for key, _ in selector.select(_POLL_SECONDS):
                _read(selector, key)
            update(None, doing(console))
            if len(console) > _CONSOLE_LIMIT_BYTES:
                clause = f"it printed more than {_CONSOLE_LIMIT_BYTES >> 20} MiB and was stopped"
            elif time.monotonic() > deadline:
                clause = f"it was stopped after {timeout:g} s"
    if not clause:
        clause = _status_clause(process.wait())
    del words[:-_LAST_WORDS_BYTES]
    return Ending(console.decode(errors="replace"), clause, words.decode(errors="replace").strip())


def _read(selector: selectors.BaseSelector, key: selectors.SelectorKey) -> None:
    pipe: IO[bytes] = key.fileobj  # type: ignore[assignment]
    chunk = os.read(pipe.fileno(), 1 << 16)
    if chunk:
        key.data.extend(chunk)
    else:
        selector.unregister(pipe)


def _status_clause(status: int) -> str:
    if status < 0:
        with contextlib.suppress(ValueError):
            return f"QEMU was killed by {signal.Signals(-status).name}"
    if status:
        return f"QEMU ended with status {status}"
    return "the machine rebooted or was switched off"


def _end(process: subprocess.Popen[bytes]) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()
    for pipe in (process.stdout, process.stderr):
        if pipe:
            pipe.close()
