# SPDX-License-Identifier: GPL-2.0-or-later
"""Arguments, logging, exception -> exit code; nothing else exits or prints errors."""

from __future__ import annotations

import argparse
import logging
import os
import signal
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from types import ModuleType

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
from kentry.commands.options import Parser, Show, add_commands, add_options, option, read
from kentry.errors import KentryError, UserError
from kentry.host import interrupt
from kentry.progress import printable, set_quiet

COMMANDS = (record, diff, series, ablate, annotate, vector, stat, import_, join, export, doctor)

log = logging.getLogger("kentry")


@dataclass(frozen=True, kw_only=True)
class _Top:
    """What stands before the command's name."""

    help: None = option("-h", "--help", action=Show, help="print this help")
    version: None = option(
        "--version", action=Show, text=f"kentry {__version__}\n", help="print kentry's version"
    )


def build_parser() -> Parser:
    """The whole command line; each command's options are the fields of its class Options."""
    parser = Parser(
        prog="kentry",
        summary="What it costs a program to enter and leave the kernel, exactly.",
        examples=(
            "kentry record debian:6.12 -o 6.12.json",
            "kentry diff debian:6.1 debian:6.12",
            "kentry help diff",
        ),
        epilog="kentry help COMMAND shows a command's options. Exit codes: 0 done, 1 a regression,"
        " 2 a mistake or a missing tool, 3 undecided.",
    )
    add_options(parser, _Top)
    add_commands(parser, COMMANDS)
    parser.usage = "kentry COMMAND ..."
    # For the commands that still read a Namespace.
    parser.set_defaults(verbose=False, quiet=False)
    return parser


def main(argv: Sequence[str] | None = None) -> int:
    """Runs one command; returns its exit code."""
    interrupt.install()
    words = list(sys.argv[1:] if argv is None else argv)
    verbose = False
    try:
        if sys.stdout is None:
            raise UserError("There is no standard output.", "Open it, or send it to a file.")
        if words[:1] == ["help"]:
            words = [*words[1:], "--help"]
        args = build_parser().parse_args(words)
        command = args.command
        if not hasattr(command, "Options"):
            return _run_with_namespace(command, args)
        options = read(command.Options, args)
        verbose = options.verbose
        _set_up_logging(verbose)
        set_quiet(options.quiet)
        code: int = command.run(options)
        sys.stdout.flush()
        interrupt.check()
        return code
    except KentryError as err:
        return _report(err, verbose)
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
        return _report(UserError(f"{what} cannot be used: {err.strerror}."), verbose)
    except Exception as err:
        # A mistake of ours must not look like a verdict: 1 means a regression.
        sentence = f"kentry failed: {type(err).__name__}: {err}."
        error = KentryError(sentence, "Please report it; -v shows where it happened.")
        error.__cause__ = err
        return _report(error, verbose)


def _run_with_namespace(command: ModuleType, args: argparse.Namespace) -> int:
    """A command that has no class Options yet."""
    _set_up_logging(args.verbose)
    set_quiet(args.quiet)
    code: int = command.run(args)
    sys.stdout.flush()
    return code


def _discard_output() -> None:
    """What is still buffered could not be written: Python must not try again as it ends."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


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
    code: str | int | None
    try:
        code = main()
        sys.stdout.flush()
    except SystemExit as err:  # argparse ended it
        code = err.code
    except KeyboardInterrupt:
        code = 128 + signal.SIGINT
    # Python removes signal handlers some time before the process ends.  A signal in that time
    # would end kentry with another status, so they are blocked from here on.
    if interrupt.came_late():
        code = 128 + signal.SIGINT
    sys.exit(code)
