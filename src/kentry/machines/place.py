# SPDX-License-Identifier: GPL-2.0-or-later
"""Places that a coordinator of labgrid's lends: one user has a board, the others wait for it."""

import contextlib
import hashlib
import re
import sys
from collections.abc import Iterator
from subprocess import CompletedProcess

from kentry.errors import MachineError
from kentry.host.cache import cache_dir, held
from kentry.host.process import run
from kentry.progress import progress

_REMEDY = "See what labgrid-client says of it: labgrid-client -x {} -p {} show."


@contextlib.contextmanager
def acquired(place: str, coordinator: str) -> Iterator[None]:
    """Acquires the place for the block, when its turn has come; MachineError.

    One that the user has by `labgrid-client acquire` is used, and stays the user's.
    """
    # Of one user labgrid does not tell two processes apart.
    key = hashlib.sha256(f"{coordinator} {place}".encode()).hexdigest()[:16]
    mark = cache_dir("places") / key
    with contextlib.ExitStack() as stack:
        with progress(f"labgrid's place {place}") as update:
            lock = mark.with_suffix(".lock")
            stack.enter_context(held(lock, update, f"another kentry that has {place}"))
            done = _client(coordinator, place, "acquire")
            is_users = f"already acquired place {place}." in done.stderr
            if "already acquired" in done.stderr and not is_users:
                update(None, "waiting until nobody else has it")
                words = ("reserve", "--wait", "--shell", f"name={place}")
                done = _client(coordinator, place, *words)
                if token := re.search(r"LG_TOKEN=(\w+)", done.stdout):
                    done = _client(coordinator, f"+{token[1]}", "acquire")
        if done.returncode and not is_users:
            why = (done.stderr.strip().splitlines() or ["it gave no reason"])[-1].rstrip(".")
            remedy = _REMEDY.format(coordinator, place)
            raise MachineError(f"labgrid does not lend {place}: {why}.", remedy)
        # A kentry that was killed has it still.
        if not is_users:
            mark.touch()
        try:
            yield
        finally:
            if mark.exists():
                _client(coordinator, place, "release")
                mark.unlink()


def _client(coordinator: str, place: str, *words: str) -> CompletedProcess[str]:
    client = (sys.executable, "-m", "labgrid.remote.client", "-x", coordinator, "-p", place)
    # It would look for the place in the file that this names, too.
    return run([*client, *words], env={"LG_ENV": ""}, check=False)
