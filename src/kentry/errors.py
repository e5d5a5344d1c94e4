# SPDX-License-Identifier: GPL-2.0-or-later
"""Every error a user can meet, which only `cli.main` turns into output and an exit status."""

from collections.abc import Iterable

EXIT_DONE = 0
EXIT_REGRESSION = 1
EXIT_MISTAKE = 2
EXIT_UNDECIDED = 3
# For git bisect run: this commit cannot be told good or bad, and the bisection must stop.
EXIT_SKIP = 125
EXIT_STOP = 128


def did_you_mean(word: str, known: Iterable[str]) -> str:
    """Returns the sentence " Did you mean X?" where a known word is close to `word`, or nothing."""
    # Only an error needs it, and every command imports this module.
    import difflib

    close = difflib.get_close_matches(word, list(known), n=1)
    return f" Did you mean {close[0]}?" if close else ""


class KentryError(Exception):
    """A sentence of what is wrong, one of what to do; `detail` is a tool's own words below them."""

    exit_code = EXIT_MISTAKE
    # In use by git bisect run: another commit would have the same mistake, unless it is this one's.
    bisect_code = EXIT_STOP

    def __init__(self, sentence: str, remedy: str = "", detail: str = "") -> None:
        super().__init__(sentence)
        self.sentence = sentence
        self.remedy = remedy
        self.detail = detail

    def __str__(self) -> str:
        return " ".join(part for part in (self.sentence, self.remedy) if part)


class UserError(KentryError):
    """Something in the command line or an input file is wrong."""


class MissingToolError(KentryError):
    """A program or package that this step needs is not installed: `tools` are their programs."""

    def __init__(
        self, sentence: str, remedy: str = "", detail: str = "", tools: tuple[str, ...] = ()
    ) -> None:
        super().__init__(sentence, remedy, detail)
        self.tools = tools


class FetchError(KentryError):
    """A package could not be had, or is not what its archive's signature says."""


class KernelError(KentryError):
    """A kernel image, or its symbols, cannot be used."""

    bisect_code = EXIT_SKIP


class DamagedSourceError(KentryError):
    """kentry removed its damaged copy of a source. The same command makes a new one."""


class BuildError(KentryError):
    """A kernel could not be built from its source."""

    bisect_code = EXIT_SKIP


class PatchError(KentryError):
    """A patch does not apply."""


class GuestError(KentryError):
    """The guest did not get to its end mark: nothing was measured."""

    bisect_code = EXIT_SKIP


class MachineError(KentryError):
    """A machine to measure on cannot be reached, or did not do what it was asked."""


class RecordingError(KentryError):
    """A recording or other JSON file of ours cannot be read."""


class TraceError(KentryError):
    """The plugin's trace is cut short or contradicts itself: kentry's own failure."""


class ContradictionError(TraceError):
    """Two numbers that kentry has of one thing differ: its own failure, or a damaged file's."""

    def __init__(self, what: str) -> None:
        remedy = "Please report it, with the output of kentry doctor."
        super().__init__(f"kentry's own numbers disagree: {what}.", remedy)
