# SPDX-License-Identifier: GPL-2.0-or-later
"""Arguments, logging, exception -> exit code; nothing else exits or prints errors."""

from __future__ import annotations

import argparse
import logging
import os
import signal
import sys
from collections.abc import Sequence
from types import FrameType

from kentry import __version__
from kentry.commands import (
    ablate,
    annotate,
    diff,
    doctor,
    export,
    import_,
    join,
    record,
    series,
    stat,
    vector,
)
from kentry.errors import KentryError, UserError
from kentry.progress import printable, set_quiet

COMMANDS = (record, diff, series, ablate, annotate, vector, stat, import_, join, export, doctor)

log = logging.getLogger("kentry")


def build_parser() -> argparse.ArgumentParser:
    """The whole command line; each command adds its own arguments."""
    common = argparse.ArgumentParser(add_help=False)
    common.add_argument(
        "-v", "--verbose", action="store_true", help="print every command line that is run"
    )
    common.add_argument("-q", "--quiet", action="store_true", help="show no progress")
    parser = argparse.ArgumentParser(
        prog="kentry",
        description="What it costs a program to enter and leave the kernel, exactly.",
        epilog="Exit codes: 0 done, 1 a regression, 2 a mistake or a missing tool, 3 undecided.",
    )
    parser.add_argument("--version", action="version", version=f"kentry {__version__}")
    commands = parser.add_subparsers(metavar="COMMAND", required=True)
    for command in COMMANDS:
        sub = commands.add_parser(
            command.NAME, help=command.HELP, description=command.HELP, parents=[common]
        )
        command.add_arguments(sub)
        sub.set_defaults(run=command.run)
    return parser


def main(argv: Sequence[str] | None = None) -> int:
    """Runs one command; returns its exit code."""
    args = build_parser().parse_args(argv)
    _set_up_logging(args.verbose)
    set_quiet(args.quiet)
    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, _interrupt)
    try:
        if sys.stdout is None:
            raise UserError("There is no standard output.", "Open it, or send it to a file.")
        code: int = args.run(args)
        sys.stdout.flush()
        return code
    except KentryError as err:
        return _report(err, args.verbose)
    except KeyboardInterrupt:
        print("kentry: interrupted", file=sys.stderr)
        return 128 + signal.SIGINT
    except BrokenPipeError:
        # The reader (head, less) has gone; nothing is wrong, and nothing more to say.
        _discard_output()
        return 128 + signal.SIGPIPE
    except OSError as err:
        _discard_output()
        what = err.filename or "The output"
        return _report(UserError(f"{what} cannot be used: {err.strerror}."), args.verbose)
    except Exception as err:
        # A mistake of ours must not look like a verdict: 1 means a regression.
        sentence = f"kentry failed: {type(err).__name__}: {err}."
        error = KentryError(sentence, "Please report it; -v shows where it happened.")
        error.__cause__ = err
        return _report(error, args.verbose)


def _discard_output() -> None:
    """What is still buffered could not be written: Python must not try again as it ends."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _interrupt(number: int, frame: FrameType | None) -> None:
    raise KeyboardInterrupt


def _set_up_logging(verbose: bool) -> None:
    logging.basicConfig(stream=sys.stderr, format="%(message)s", level=logging.WARNING)
    log.setLevel(logging.INFO if verbose else logging.WARNING)


def _report(err: KentryError, verbose: bool) -> int:
    for text in (err.sentence, err.remedy):
        if text:
            print(f"kentry: {printable(text)}", file=sys.stderr)
    if err.detail:
        print("\n".join(map(printable, err.detail.splitlines())), file=sys.stderr)
    if verbose:
        log.info("", exc_info=err)
    return err.exit_code


def entry_point() -> None:
    """The console script."""
    sys.exit(main())
