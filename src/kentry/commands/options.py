# SPDX-License-Identifier: GPL-2.0-or-later
"""A command's options: the fields of one frozen dataclass, each declared once.

A command is a module of this package with EXAMPLES (three), a class Options and run(options), which
returns an exit code, or None for EXIT_DONE.
"""

import argparse
import inspect
import re
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import MISSING, Field, dataclass, field, fields
from functools import partial
from pathlib import Path
from typing import Any, NoReturn, TypeVar

from kentry.commands import emit, values
from kentry.errors import UserError, did_you_mean

# The last group of a command's help, and that of options which may stand anywhere on the line.
RARE, ANYWHERE = "rarely needed", "anywhere on the line"
# How an operand stands in the usage line, by its nargs.
_USAGE = {None: "{}", "?": "[{}]", "*": "[{}...]", "+": "{}..."}
_T = TypeVar("_T")


# What an option must find in the rest of the command line to have an effect: by the end of the
# sentence "--calls has no effect without --tails" whether the command's Options have it.
Needs = Mapping[str, Callable[[Any], Any]]


def option(
    *flags: str,
    default: Any = None,
    group: str = "options",
    needs: Needs | None = None,
    completes: Callable[[argparse.Namespace], Iterable[str]] | None = None,
    **kwargs: Any,
) -> Any:
    """Returns a field that is set by one of `flags`, of which the last may name a value: "--cpu N".

    `kwargs` are argparse's for add_argument; action="append" makes a tuple.  `completes` returns
    the words that a shell may complete after what is already on the command line.
    """
    *others, last = flags
    last, _, metavar = last.partition(" ")
    if metavar:
        kwargs["metavar"] = metavar
    metadata = {"flags": (*others, last), "group": group, "needs": needs or {}, "kwargs": kwargs}
    return field(default=default, metadata=metadata | {"completes": completes})


def flag(*flags: str, **kwargs: Any) -> Any:
    """Returns an option that takes no value: True where it is given."""
    return option(*flags, default=False, action="store_true", **kwargs)


def path_option(*flags: str, **kwargs: Any) -> Any:
    """Returns an option whose value is a file or a folder."""
    return option(*flags, type=values.path, **{"metavar": "FILE", **kwargs})


def list_option(*flags: str, **kwargs: Any) -> Any:
    """An option of words with commas that can be repeated: a tuple of the words, each once."""
    return option(*flags, default=(), action="extend", type=values.words, **kwargs)


def operand(*, default: Any = MISSING, **kwargs: Any) -> Any:
    """A field that is set by its place on the command line; required unless it has a default."""
    metadata = {"flags": (), "group": "operands", "needs": {}, "kwargs": kwargs}
    return field(default=default, metadata=metadata)


class Show(argparse.Action):
    """Prints what `text` returns, or the help, and ends the program; OSError if that fails."""

    def __init__(self, *, text: Callable[[], str] | None = None, **kwargs: Any) -> None:
        super().__init__(**{**kwargs, "nargs": 0})
        self._text = text

    def __call__(self, parser: argparse.ArgumentParser, *_: Any) -> NoReturn:
        """Called by argparse where the option stands."""
        emit.write(self._text() if self._text else parser.format_help(), emit.NEVER)
        sys.stdout.flush()
        parser.exit()


class Changelog(argparse.Action):
    """Stores "long" or "short"; a word of its own after the option is the next operand."""

    def __init__(self, **kwargs: Any) -> None:
        super().__init__(**{**kwargs, "nargs": 0})

    def __call__(
        self,
        parser: argparse.ArgumentParser,
        namespace: argparse.Namespace,
        values: object,
        option_string: str | None = None,
    ) -> None:
        """Called by argparse where the option stands."""
        setattr(namespace, self.dest, (option_string or "").partition("=")[2] or "long")


@dataclass(frozen=True, kw_only=True)
class Common:
    """What every command takes."""

    help: None = option("-h", "--help", action=Show, help="print this help")
    verbose: bool = flag(
        "-v",
        "--verbose",
        group=ANYWHERE,
        help="print whole tables of functions, and on stderr every command line that is run",
    )
    quiet: bool = flag("-q", "--quiet", group=ANYWHERE, help="show no progress")


@dataclass(frozen=True, kw_only=True)
class TextOptions(Common):
    """What every command takes that prints text for a person."""

    color: str = option(
        "--color WHEN",
        default=emit.AUTO,
        group=ANYWHERE,
        choices=emit.COLORS,
        needs={
            "on what a program reads": lambda options: (
                not getattr(options, "json", False) and not getattr(options, "format", None)
            )
        },
        help="colour the text: auto (on a terminal), always or never",
    )


@dataclass(frozen=True, kw_only=True)
class ResultOptions(TextOptions):
    """What every command takes that prints a result."""

    json: bool = flag("--json", help="print JSON instead of text")

    @property
    def rows_shown(self) -> int | None:
        """How many rows a table of functions has at most; None for all, with -v."""
        # It loads structs, which the parser of the command line does not need.
        from kentry.show.blocks import SHOWN

        return None if self.verbose else SHOWN


@dataclass(frozen=True, kw_only=True)
class MeasuredOptions(ResultOptions):
    """What every command takes whose result people post."""

    changelog: str = option(
        "--changelog=short",
        "--changelog",
        default="",
        group=RARE,
        action=Changelog,
        help="print text for a commit message or cover letter, at most 75 columns wide; short is"
        " at most four lines: what changed, and how it was measured",
    )


@dataclass(frozen=True, kw_only=True)
class StoreOptions(TextOptions):
    """What every command takes that works on a store."""

    store: str = operand(
        metavar="STORE",
        help="a folder, or postgresql://HOST/DATABASE?objects=FOLDER (or s3://BUCKET/FOLDER)",
    )


@dataclass(frozen=True, kw_only=True)
class AnywhereOptions(TextOptions):
    """What may stand anywhere on the line; each command has those that can affect it."""

    timeout: float | None = option(
        "--timeout SECONDS",
        type=values.seconds,
        group=ANYWHERE,
        help="how many seconds a boot can take without progress (default: 120), or kentry vector"
        " trace in all (1800)",
    )
    emulator: str | None = option(
        "--emulator QEMU",
        group=ANYWHERE,
        help="boot by the installed QEMU (default), backports, newest, or the path of a qemu-system"
        " program",
    )
    fresh: bool = flag(
        "--fresh", group=ANYWHERE, help="measure again even if the cache has the recording"
    )
    on: str | None = option(
        "--on EXECUTOR",
        group=ANYWHERE,
        help="who builds and boots: local (this machine, the default), dask:HOST:PORT (a"
        " scheduler's workers) or slurm[:JOBS]; all share the folder KENTRY_CACHE",
    )
    plan: Path | None = path_option(
        "--plan",
        group=ANYWHERE,
        help="write to FILE a command line for each kernel that is not measured yet, for a job"
        " scheduler; print the result if there is none",
    )
    no_sandbox: bool = flag(
        "--no-sandbox",
        group=ANYWHERE,
        help="build and read kernels without bubblewrap where it does not work: they can then do"
        " all that you can",
    )


def anywhere(name: str, needs: Needs) -> Any:
    """The field of AnywhereOptions with this name, for a command on which it `needs` something."""
    item = AnywhereOptions.__dataclass_fields__[name]
    return field(default=item.default, metadata={**item.metadata, "needs": needs})


# argparse's words for a value that is none of an argument's choices.
_CHOICE = re.compile(r"(\S+): invalid choice: '([^']*)'")


def _name(action: argparse.Action) -> str:
    """Returns what argparse calls the argument in its errors."""
    return "/".join(action.option_strings) or str(action.metavar)


class Parser(argparse.ArgumentParser):
    """A parser whose help opens with examples, and whose errors are UserErrors."""

    def __init__(self, *, summary: str = "", examples: Iterable[str] = (), **kwargs: Any) -> None:
        super().__init__(**kwargs, add_help=False, formatter_class=_Formatter)
        self.summary, self.examples = summary, examples

    def format_help(self) -> str:
        """Returns the summary, the examples, then argparse's own help."""
        examples = "".join(f"  {example}\n" for example in self.examples)
        return f"{self.summary}\n\nexamples:\n{examples}\n{super().format_help()}"

    def error(self, message: str) -> NoReturn:
        """Raises UserError with argparse's message as a sentence."""
        sentence, meant = message.removeprefix("argument ").rstrip("."), ""
        if choice := _CHOICE.match(sentence):
            name, word = choice.groups()
            [known] = (a.choices for a in self._actions if a.choices and _name(a) == name)
            meant = did_you_mean(word, known)
            if name == "COMMAND":
                sentence = f"Unknown command '{word}'"
        raise UserError(f"{sentence[0].upper()}{sentence[1:]}.{meant}", self._remedy())

    def refuse(self, left: Sequence[str]) -> NoReturn:
        """UserError for words that are left over, with an option that is close to the first."""
        known = [flag for action in self._actions for flag in action.option_strings]
        known += [flag for item in fields(AnywhereOptions) for flag in item.metadata["flags"]]
        meant = did_you_mean(left[0].partition("=")[0], known)
        raise UserError(f"Unknown: {' '.join(left)}.{meant}", self._remedy())

    def _remedy(self) -> str:
        return f"Run: {self.prog.replace('kentry', 'kentry help', 1)}"


class _Formatter(argparse.HelpFormatter):
    """The same lines on every terminal and with every version of Python."""

    def __init__(self, prog: str) -> None:
        super().__init__(prog, max_help_position=26, width=80)

    def add_argument(self, action: argparse.Action) -> None:
        """argparse's, but with room for the indent of commands, which it forgets."""
        super().add_argument(action)
        if isinstance(action, argparse._SubParsersAction):
            longest = max(map(len, action.choices), default=0)
            least = self._current_indent + self._indent_increment + longest
            self._action_max_length = max(self._action_max_length, least)

    def _format_action_invocation(self, action: argparse.Action) -> str:
        if not action.option_strings or action.nargs == 0:
            return ", ".join(action.option_strings) or super()._format_action_invocation(action)
        value = self._format_args(action, action.dest.upper())
        return f"{', '.join(action.option_strings)} {value}"


def add_options(parser: Parser, cls: type, *, anywhere: bool = False) -> None:
    """Registers the fields of `cls`, operands, then own ones first, RARE ones last.

    With `anywhere` those that are ANYWHERE.
    """
    own = inspect.get_annotations(cls)
    groups: dict[str, Any] = {}
    usage = [parser.prog]
    chosen = [item for item in fields(cls) if (item.metadata["group"] == ANYWHERE) == anywhere]

    def place(item: Field[Any]) -> tuple[int, bool]:
        if not item.metadata["flags"]:
            return 0, False
        return 1 + (item.metadata["group"] == RARE), item.name not in own

    for item in sorted(chosen, key=place):
        flags, group = item.metadata["flags"], item.metadata["group"]
        kwargs = {"default": argparse.SUPPRESS, **item.metadata["kwargs"]}
        if kwargs.get("action") in (None, "append", "extend"):
            kwargs = {"type": values.text, **kwargs}
        if item.default not in (MISSING, None, False, (), ""):
            default = f"{item.default:g}" if isinstance(item.default, float) else item.default
            kwargs["help"] += f" (default: {default})"
        if group not in groups:
            groups[group] = parser.add_argument_group(group)
        if flags:
            action = groups[group].add_argument(*flags, dest=item.name, **kwargs)
            if completes := item.metadata["completes"]:
                action.completer = partial(_complete, completes)
        else:
            groups[group].add_argument(item.name, **kwargs)
            usage.append(_USAGE[kwargs.get("nargs")].format(kwargs["metavar"]))
    if not anywhere:
        others = [item.metadata["flags"][0] for item in fields(cls) if item not in chosen]
        parser.usage = " ".join([*usage, "[options]"])
        if others:
            parser.epilog = f"It also takes {', '.join(others)}: see kentry help."


def _complete(
    completes: Callable[[argparse.Namespace], Iterable[str]],
    prefix: str,
    parsed_args: argparse.Namespace,
    **_: Any,
) -> list[str]:
    """Returns what argcomplete asks for: the words for the last place of a list with commas."""
    before, comma, _last = prefix.rpartition(",")
    return [f"{before}{comma}{word}" for word in completes(parsed_args)]


def take_anywhere(argv: Sequence[str]) -> tuple[argparse.Namespace, list[str]]:
    """The options of AnywhereOptions that stand before a "--", and the other words in order."""
    parser = Parser(prog="kentry", allow_abbrev=False)
    add_options(parser, AnywhereOptions, anywhere=True)
    end = argv.index("--") if "--" in argv else len(argv)
    args, others = parser.parse_known_args(argv[:end])
    return args, [*others, *argv[end:]]


def read(cls: type[_T], args: argparse.Namespace, **defaults: Any) -> _T:
    """The parsed command line as `cls`; UserError names an option that can have no effect.

    `defaults` are the user's for fields that `cls` may have; they are never refused.
    """
    given = [item for item in fields(cls) if hasattr(args, item.name)]  # type: ignore[arg-type]
    for item in fields(AnywhereOptions):
        if hasattr(args, item.name) and not hasattr(cls, item.name):
            name = item.metadata["flags"][-1]
            raise UserError(f"{name} has no effect on this command.", f"Leave {name} out.")

    def frozen(value: Any) -> Any:
        return tuple(map(frozen, value)) if isinstance(value, list) else value

    values = {name: value for name, value in defaults.items() if hasattr(cls, name)}
    for item in given:
        values[item.name] = frozen(getattr(args, item.name))
        if item.metadata["kwargs"].get("action") == "extend":
            values[item.name] = tuple(dict.fromkeys(values[item.name]))
    options = cls(**values)
    for item in given:
        for otherwise, met in item.metadata["needs"].items():
            if not met(options):
                name = item.metadata["flags"][-1]
                raise UserError(f"{name} has no effect {otherwise}.", f"Leave {name} out.")
    return options
