# SPDX-License-Identifier: GPL-2.0-or-later
"""Arguments, logging, exception -> exit code; nothing else exits or prints errors."""

from __future__ import annotations

import argparse
import contextlib
import importlib
import logging
import os
import re
import signal
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TextIO

from kentry.commands import emit, options
from kentry.commands.settings import settings
from kentry.errors import (
    EXIT_DONE,
    EXIT_MISTAKE,
    EXIT_STOP,
    DamagedSourceError,
    KentryError,
    MissingToolError,
    UserError,
)
from kentry.host import interrupt
from kentry.progress import printable, restart, say, set_quiet, took

# "store" and "vector" are groups of the commands whose names begin with them.
COMMANDS = {
    "record": "boot a kernel, measure it, write a recording",
    "diff": "compare two kernels or recordings, function by function",
    "series": "build and measure a series of patches, a row for each patch",
    "ablate": "build with each config option off and on: what it adds to the path",
    "bisect": "find the commit that changed a count, and the functions it changed",
    "log": "measure a range of commits, or kernels in order, and find where a count changed",
    "annotate": "print the path of a case, instruction by instruction",
    "vector": "what the policy for vector state costs a workload: trace, replay, stats, costs",
    "vector trace": "boot a Debian user space, run a workload, write what its tasks did",
    "vector replay": "print what each policy would have cost a trace's workload",
    "vector stats": "print how a trace's tasks use vectors: traps, loads, the gaps between uses",
    "vector costs": "print what an act on vector state costs on a core, or make a table of it",
    "run": "boot a Debian user space, run a program, count what each of its kernel entries costs",
    "check": "hold a kernel or a recording against budgets: a gate for CI and for git bisect run",
    "stat": "time calls on real hardware, or compare two, with an interval and a verdict",
    "import": "read numbers from other tools' output and from tables, and make recordings of them",
    "join": "put the counts and the times of one kernel into one recording",
    "export": "write recordings in the formats of other programs",
    "report": "write results of any kind as one HTML page that needs no other file",
    "store": "keep results of many machines: add, query, export, verify, gc",
    "store add": "add results' files, or all of another store, to a store; make it if need be",
    "store query": "print what a store has, or the rows of an SQL statement on it",
    "store export": "write all files of a store into a folder",
    "store verify": "read all files of a store, and hold them against its index",
    "store gc": "take out what is lost or damaged, and make the index agree with the rest",
    "history": "write the counts of all kernels in a store as a site of static pages",
    "completion": "print what bash, zsh or fish needs to complete kentry's command line",
    "doctor": "print what is missing here, and the command that installs it",
}
GROUP_EXAMPLES = {
    "store": (
        "kentry store add results 6.1.json 6.12.json",
        "kentry store query results \"SELECT * FROM history WHERE case_name = 'read'\"",
        "kentry store verify results",
    ),
    "vector": (
        "kentry vector trace debian:6.12 --arch arm64 -- shell",
        "kentry vector replay shell-arm64.parquet",
        "kentry vector costs",
    ),
}

# How many copies of sources one command has made again, before something else is wrong.
_MOST_DAMAGED = 3
# What kentry prints where no command is named.
_FIRST_USE = """\
kentry measures what it costs a program to enter and leave the Linux kernel: it boots the kernel
under QEMU and counts every kernel instruction. The same kernel gives the same count everywhere.

  kentry doctor                                    print what is missing here
  kentry record debian:6.12 --case getppid         measure a kernel of Debian's
  kentry diff debian:6.1 debian:6.12 --arch arm64  compare two, function by function
  kentry series v6.12..topic                       measure each patch of a git branch
  kentry stat --case getppid                       time a system call on this machine

kentry help lists all commands; kentry help COMMAND shows a command's options.
"""

log = logging.getLogger("kentry")


def _version() -> str:
    from kentry.host.native import version  # not above: only this command line needs it

    return version()


@dataclass(frozen=True, kw_only=True)
class _Top:
    """What stands before the command's name."""

    help: None = options.option("-h", "--help", action=options.Show, help="print this help")
    version: None = options.option(
        "--version",
        action=options.Show,
        text=_version,
        help="print kentry's version and commit, and the hashes of its plugin and probes",
    )


def build_parser(only: str | None = None, *, anywhere: bool = False) -> options.Parser:
    """The whole command line; each command's options are the fields of its class Options.

    With `only`, the other commands have no options, and their modules are not imported.  With
    `anywhere`, each command also has the options that may stand anywhere: for completion.
    """
    parser = options.Parser(
        prog="kentry",
        summary="What it costs a program to enter and leave the kernel, exactly.",
        examples=(
            "kentry record debian:6.12 -o 6.12.json",
            "kentry diff debian:6.1 debian:6.12",
            "kentry help diff",
        ),
        epilog="kentry help COMMAND shows a command's own options. Exit codes: 0 done, 1 a"
        " regression, 2 an error, 3 undecided; of kentry check --bisect and of a"
        " line of --plan also 125 and 128.",
    )
    options.add_options(parser, _Top)
    options.add_options(parser, options.AnywhereOptions, anywhere=True)
    below = {"": _add_subcommands(parser)}
    for name, summary in COMMANDS.items():
        group, _, word = name.rpartition(" ")
        sub = below[group].add_parser(word, help=summary, summary=summary)
        if name in GROUP_EXAMPLES:
            sub.examples = GROUP_EXAMPLES[name]
            options.add_options(sub, options.Common)
            below[name] = _add_subcommands(sub)
        elif only is None or name.split()[0] == only:
            module = "import_" if name == "import" else name.replace(" ", "_")
            command = importlib.import_module(f"kentry.commands.{module}")
            sub.examples = command.EXAMPLES
            options.add_options(sub, command.Options)
            if anywhere:
                options.add_options(sub, command.Options, anywhere=True)
            sub.set_defaults(command=command, parser=sub)
    return parser


def _add_subcommands(parser: options.Parser) -> argparse._SubParsersAction[options.Parser]:
    below = parser.add_subparsers(
        title="commands", metavar="COMMAND", required=True, prog=parser.prog
    )
    parser.usage = f"{parser.prog} COMMAND ..."
    return below


def main(argv: Sequence[str] | None = None) -> int:
    """Runs one command; returns its exit code."""
    interrupt.install()
    argv = list(sys.argv[1:] if argv is None else argv)
    try:
        for _ in range(_MOST_DAMAGED):
            with contextlib.suppress(DamagedSourceError):
                return _run(argv)
            # What was measured is in the cache.
            say("kentry's own copy of a source was damaged. It is made again.")
        return _run(argv)
    except KentryError as err:
        _report(err)
        return err.bisect_code if _knows_bisect_codes(argv) else err.exit_code
    except KeyboardInterrupt:
        _print("kentry: interrupted")
        return interrupt.status()
    except BrokenPipeError:
        # The reader, such as head or less, has ended.  That is no error.
        _discard(sys.stdout)
        return 128 + signal.SIGPIPE
    except OSError as err:
        _discard(sys.stdout)
        _report(UserError(f"{err.filename or 'The output'} cannot be used: {err.strerror}."))
    except Exception as err:
        # A mistake of ours must not look like a verdict: 1 means a regression.
        sentence = f"kentry failed: {type(err).__name__}: {err}."
        report = "Please report it; -v shows where it happened."
        error = _without_extra(err) or KentryError(sentence, report)
        error.__cause__ = err
        _report(error)
    return EXIT_STOP if _knows_bisect_codes(argv) else EXIT_MISTAKE


def _without_extra(err: Exception) -> KentryError | None:
    """Says which extra of kentry's package has the library that a command lacks, if one does."""
    from importlib import metadata

    library = (err.name or "").partition(".")[0] if isinstance(err, ModuleNotFoundError) else ""
    with contextlib.suppress(metadata.PackageNotFoundError):
        for requirement in (library and metadata.requires("kentry")) or ():
            # Not dev, which has all of them.
            if extra := re.match(rf"{library}\b.*extra == \W(?!dev\b)(\w+)", requirement):
                return MissingToolError(
                    f"This needs {library}, which a small installation of kentry does not have.",
                    f"Run: {sys.executable} -m pip install 'kentry[{extra[1]}]'",
                )
    return None


def _knows_bisect_codes(argv: Sequence[str]) -> bool:
    """Whether who reads the exit code knows 125 and 128; also of words that cannot be parsed."""
    if any(word.startswith("unit:") for word in argv):
        return True
    # git bisect run does; argparse takes --bi for --bisect.
    command = next((word for word in argv if not word.startswith("-")), "")
    return command == "check" and any(
        len(word) > len("--b") and "--bisect".startswith(word) for word in argv
    )


class _Printable(logging.Formatter):
    """Writes nothing that a terminal would act on: a traceback may quote a stranger's file."""

    def format(self, record: logging.LogRecord) -> str:
        lines = super().format(record).split("\n")
        return "\n".join(map(printable, lines))


def _run(argv: list[str]) -> int:
    shown = logging.StreamHandler(sys.stderr)
    shown.setFormatter(_Printable("%(message)s"))
    logging.basicConfig(handlers=[shown], level=logging.WARNING)
    log.setLevel(logging.WARNING)
    if sys.stdout is None:
        raise UserError("There is no standard output.", "Open it, or send it to a file.")
    words = argv
    anywhere, argv = options.take_anywhere(argv)
    if not argv:
        sys.stdout.write(_FIRST_USE)
        sys.stdout.flush()
        return EXIT_DONE
    if argv[:1] == ["help"]:
        argv = [*argv[1:], "--help"]
    parser = build_parser(argv[0])
    args, rest = parser.parse_known_args(argv, anywhere)
    if rest:
        args.parser.refuse(rest)
    command, defaults = args.command, settings()
    if defaults.mirror:
        os.environ.setdefault("KENTRY_MIRROR", defaults.mirror)
    here = Path(os.path.expanduser(defaults.tree or "."))
    chosen = options.read(command.Options, args, color=defaults.color or emit.AUTO, tree=here)
    if getattr(chosen, "no_sandbox", False):
        from kentry.host.sandbox import ALLOW_VARIABLE

        os.environ[ALLOW_VARIABLE] = "1"
    if chosen.verbose:
        log.setLevel(logging.INFO)
    set_quiet(chosen.quiet, colourless=getattr(chosen, "color", None) == emit.NEVER)
    restart()
    code: int = EXIT_DONE
    # A plan ends the block before the command's end.
    with _performed_on(chosen, words):
        code = command.run(chosen) or EXIT_DONE
    sys.stdout.flush()
    interrupt.check()
    if summary := took():
        say(summary)
    return code


def _performed_on(
    chosen: options.Common, words: list[str]
) -> contextlib.AbstractContextManager[None]:
    """Where the kernels of the command are measured; most commands load no executor."""
    if plan := getattr(chosen, "plan", None):
        from kentry.study.plan_file import written

        return written(plan, words)
    if (executor := getattr(chosen, "on", None)) in (None, "local"):
        return contextlib.nullcontext()
    from kentry.study.executors import on

    return on(executor)


def _discard(stream: TextIO) -> None:
    """Keeps Python from writing again, as it ends, what could not be written."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())


def _report(err: KentryError) -> None:
    for text in (err.sentence, err.remedy):
        if text:
            _print(f"kentry: {printable(text)}")
    if err.detail:
        _print("\n".join(map(printable, err.detail.splitlines())))
    log.info("", exc_info=err)


def _print(text: str) -> None:
    """Prints a line on standard error, which may be a terminal that was closed."""
    try:
        print(text, file=sys.stderr, flush=True)
    except OSError:
        _discard(sys.stderr)


def entry_point() -> None:
    """Runs kentry as the console script."""
    if "_ARGCOMPLETE" in os.environ:
        # Tells the shell what the line can go on with.
        import argcomplete

        command = os.environ.get("COMP_LINE", "").split()[1:2]
        # A command whose name is not whole yet has no options to complete.
        parser = build_parser(*command or [""], anywhere=True)
        argcomplete.autocomplete(parser, always_complete_options=False)
        sys.exit(EXIT_MISTAKE)
    code: str | int | None
    try:
        code = main()
    except SystemExit as err:  # argparse ended it
        code = err.code
    except KeyboardInterrupt:
        code = interrupt.status()
    # Python removes signal handlers some time before the process ends.  A signal in that time
    # would end kentry with another status, so they are blocked from here on.
    if interrupt.came_late():
        code = interrupt.status()
    with contextlib.suppress(AttributeError):  # None where it is closed
        try:
            sys.stdout.flush()
        except OSError:
            _discard(sys.stdout)
    sys.exit(code)
