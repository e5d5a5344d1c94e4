# SPDX-License-Identifier: GPL-2.0-or-later
"""The units of plans as command lines, for whatever starts commands: kentry ... --plan FILE.

A line is the command itself with --on unit:KEY: it comes as far as the unit, performs it, writes
down what became of it in the cache, and ends.  So lines may run in any order and more than once.
The same command with --plan then names those that are missing, and without any it goes on: a
search asks for commits by what is known of others, so it takes a few rounds.
"""

import contextlib
import shlex
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Executor, Future
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import msgspec

from kentry.count import cache
from kentry.errors import BuildError, GuestError, KentryError, UserError
from kentry.host.cache import cache_dir, digest_of, read_json, write_atomically, write_json
from kentry.kernels.kernel import Kernel
from kentry.kernels.repository import Revision
from kentry.progress import printable, say
from kentry.results.studies import MEASURED, NO_BOOT, NO_BUILD
from kentry.study.plan import Outcome, Unit, perform, performed_by

_KEY_DIGITS = 16
_FAILED: dict[str, type[KentryError]] = {NO_BUILD: BuildError, NO_BOOT: GuestError}


class _Ended(Exception):  # noqa: N818 - no error
    """The command has done what it was started for, before its end."""


class _Later(Future[Outcome]):
    """It has its result when it is asked for, by when all units of the plan are known."""

    def __init__(self, make: Callable[[], Outcome]) -> None:
        super().__init__()
        self._make = make
        self.set_result(Outcome(status=MEASURED))

    def result(self, timeout: float | None = None) -> Outcome:
        """What became of the unit; _Ended where something else is to be done."""
        return self._make()


class _Units(Executor):
    """Answers with what was performed; performs the unit `wanted`, or takes note of `missing`."""

    def __init__(self, wanted: str = "") -> None:
        self._wanted = wanted
        self._unit: Unit | None = None
        self.missing: dict[str, Unit] = {}
        self.known = 0
        self.outcome: Outcome | None = None

    def submit(self, function: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
        """Takes a unit; the file of a recording is only read."""
        unit: Unit = args[0]
        if isinstance(unit.source, Path):
            return _Later(lambda: perform(unit))
        key = _key(unit)
        if key == self._wanted:
            self._unit = unit
        elif read_json(_kept(key)):
            self.known += 1
        else:
            self.missing[key] = unit
        return _Later(lambda: self._answer(key, unit))

    def _answer(self, key: str, unit: Unit) -> Outcome:
        if self._unit:
            self.outcome = perform(self._unit)
            _keep(self._wanted, self.outcome)
            raise _Ended
        if self.missing:
            raise _Ended
        known = read_json(_kept(key))
        if error := _FAILED.get(known["status"]):
            failed = error(known["sentence"], known["remedy"], known["detail"])
            return Outcome(status=known["status"], error=failed, seconds=known["seconds"])
        # kentry record would measure it again.
        return perform(replace(unit, fresh=False))


@contextlib.contextmanager
def written(file: Path, argv: Sequence[str]) -> Iterator[None]:
    """Of the command `argv`, writes a line for each unit that nobody performed yet.

    Where there is none, the file is empty and the block ends as it does without a plan.
    """
    units = _Units()
    with contextlib.suppress(_Ended), performed_by(units):
        yield
    lines = [
        f"{_line(argv, key)}  # {printable(unit.label or unit.spec)}\n"
        for key, unit in units.missing.items()
    ]
    write_atomically(file, "".join(lines))
    if lines:
        say(f"{len(lines)} of {len(lines) + units.known} kernels are to be measured: {file}")


@contextlib.contextmanager
def one_unit(key: str) -> Iterator[Executor]:
    """Performs one unit of the block's plans, and ends the block; its error is the block's."""
    units = _Units(key)
    with contextlib.suppress(_Ended):
        yield units
    if not units.outcome:
        raise UserError(
            f"The command has no unit {key}: a tree, a patch or kentry has changed.",
            "Write the plan anew, with --plan.",
        )
    if units.outcome.error:
        raise units.outcome.error


def _key(unit: Unit) -> str:
    """What a unit's kernel and measurement are, whoever stands in for it, in few digits."""
    source = cache.of_kernel(unit.source) if isinstance(unit.source, Kernel) else ""
    if isinstance(unit.source, Revision):
        source = unit.source.commit
    facts = {
        "kentry": cache.code_digest(),
        # A tree's spec has its path, and a commit is the same in each.
        "kernel": source or unit.spec,
        "arch": unit.arch,
        "measurement": asdict(unit.measurement),
        "program": unit.program and asdict(unit.program),
        "request": asdict(unit.request),
        "anew": unit.anew is not None,
    }
    return digest_of(msgspec.to_builtins(facts, enc_hook=str))[:_KEY_DIGITS]


def _kept(key: str) -> Path:
    return cache_dir("units") / f"{key}.json"


def _keep(key: str, outcome: Outcome) -> None:
    """Writes down that the unit was performed, and why it has no recording."""
    error = outcome.error or KentryError("")
    facts = {"sentence": error.sentence, "remedy": error.remedy, "detail": error.detail}
    write_json(_kept(key), {"status": outcome.status, "seconds": outcome.seconds, **facts})


def _line(argv: Sequence[str], key: str) -> str:
    """The command with --on unit:KEY where it had --plan FILE."""
    at = next(i for i, word in enumerate(argv) if word.partition("=")[0] == "--plan")
    rest = argv[at + (1 if "=" in argv[at] else 2) :]
    return shlex.join(["kentry", *argv[:at], "--on", f"unit:{key}", *rest])
