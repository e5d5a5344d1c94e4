# SPDX-License-Identifier: GPL-2.0-or-later
"""kentry bisect: which commit changed the count, and by which functions."""

import hashlib
import json
import math
import shlex
import sys
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import msgspec

from kentry.commands import measuring, output, values
from kentry.commands.options import Need, flag, list_option, operand, option
from kentry.count import cache
from kentry.errors import EXIT_DONE, EXIT_UNDECIDED, UserError
from kentry.host.cache import cache_dir, held, read_json, write_atomically
from kentry.kernels import history
from kentry.kernels.history import touching
from kentry.progress import Update, progress, say
from kentry.results.bisection import Bisection
from kentry.results.document import dump
from kentry.results.recording import INSTRUCTIONS
from kentry.show.bisection import bisection_text, steps_text
from kentry.study.bisection import Question, bisect, to_file
from kentry.study.commits import Commits, Kernels, Measurer, Program, steps_in

EXAMPLES = (
    "kentry bisect --good v6.3 --bad v6.4 --arch riscv64",
    "kentry bisect --good v6.3 --bad v6.4 --case read --all -- arch/riscv kernel/entry",
    "kentry bisect --continue",
)
RETIRED = {name: measuring.RETIRED[name] for name in ("--set", "--functions")}

_STATE = "bisection.json"
_A_BISECTION = Need(lambda options: options.good and options.bad, "without --good and --bad")
_ALL = Need(lambda options: options.everything, "without --all")


# The options that shape what is searched, which --continue takes from the run before.
_KEPT = (
    *("good", "bad", "paths", "arch", "case", "metric", "configs", "compiler"),
    *("emulator", "timeout", "everything", "least", "first_parent", "run"),
)


@dataclass(frozen=True, kw_only=True)
class Options(measuring.TreeOptions):
    """What `kentry bisect` takes."""

    paths: tuple[str, ...] = operand(
        default=(),
        nargs="*",
        metavar="PATHS",
        help="try only commits that touch these files or folders of the tree",
    )
    good: str | None = option("--good", metavar="COMMIT", help="an older commit with the one count")
    bad: str | None = option("--bad", metavar="COMMIT", help="a newer commit with the other count")
    metric: tuple[str, ...] = list_option("--metric", needs=(_A_BISECTION,), **measuring.METRIC)
    everything: bool = flag(
        "--all", needs=(_A_BISECTION,), help="find every commit that changed the count, not one"
    )
    least: float | None = option(
        "--least",
        type=values.decimal(0, values.MAX_COUNT, "the metric's unit"),
        metavar="N",
        needs=(_A_BISECTION, _ALL),
        help="with --all: the smallest change to find",
    )
    run: str | None = option(
        "--run",
        metavar="PROGRAM",
        needs=(_A_BISECTION,),
        help="measure with a program of your own, on a board for instance: it gets a commit and the"
        " file to write the recording to, and exits with 125 where it cannot",
    )
    resume: bool = flag("--continue", help="go on with the tree's last bisection")
    log: bool = flag("--log", help="print the steps of the tree's last bisection")

    def has_commits(self) -> bool:
        """Whether a bisection is begun or goes on."""
        return bool(self.good and self.bad) or self.resume

    def inputs(self) -> list[str]:
        """The tree, where kentry builds its commits itself."""
        return [] if self.run or not self.good else [f"tree:{self.tree}"]


def run(options: Options) -> int:
    """Searches, or goes on, or prints what was done; 3 where no commit can be named."""
    folder = options.tree.expanduser().resolve()
    state = cache_dir("bisections", hashlib.sha256(str(folder).encode()).hexdigest()[:16])
    if options.log:
        steps = tuple(steps_in(state))
        if not steps:
            raise _no_bisection(options)
        if options.json:
            sys.stdout.write(dump({"steps": msgspec.to_builtins(steps)}))
        else:
            output.show(options, steps_text, steps)
        return EXIT_DONE
    if options.resume:
        options = _resumed(options, state)
    elif not (options.good and options.bad):
        raise UserError("A bisection needs two commits.", "Name them: --good COMMIT --bad COMMIT.")
    from filelock import FileLock

    with (
        progress(f"bisecting {options.tree}") as update,
        held(FileLock(state / "lock"), update, "another bisection of the tree"),
    ):
        found = _bisect(options, folder, state, update)
    if options.json:
        sys.stdout.write(dump(msgspec.to_builtins(found)))
    else:
        output.show(options, bisection_text, found, options.rows_shown)
    undecided = found.suspects or any(one["kind"] == "undecided" for one in found.caveats)
    return EXIT_UNDECIDED if undecided else EXIT_DONE


def _bisect(options: Options, folder: Path, state: Path, update: Update) -> Bisection:
    assert options.good and options.bad
    span = history.find_range(folder, options.good, options.bad)
    arch = options.find_arch()
    measurement = options.measurement(arch)
    if len(options.metric) > 1:
        raise UserError(
            f"Commits are searched by one metric, not {len(options.metric)}.", "Name one."
        )
    question = Question(
        case=measurement.cases[0],
        metric="".join(options.metric) or INSTRUCTIONS,
        everything=options.everything,
        least=options.least or 0,
        first_parent=options.first_parent,
        at_once=options.jobs,
    )
    measurer: Measurer
    if options.run:
        measurer = Program(_words(options.run), state)
        made_with = [options.run]
    else:
        measurer = Kernels(folder, arch, options.request(), measurement)
        made_with = measurer.made_with(span.bad, update)
    asked = replace(options, good=span.good.name, bad=span.bad.name, arch=arch.name)
    _begin(asked, made_with, state)
    commits = Commits(state, measurer, question.case, question.metric, options.jobs)
    steps = len(touching(folder, span.line(), options.paths)) - 1
    say(
        f"commits to search: {steps}; steps: about {math.ceil(math.log2(steps + 1))};"
        f" known already: {len(commits.steps)}"
    )
    found = bisect(span, options.paths, question, measurer, commits, update)
    request = options.request()
    origin = {"tree": str(options.tree), "config": request.config, "compiler": request.compiler}
    if request.sets:
        origin["config_set"] = " ".join(sorted(request.sets))
    if options.paths:
        origin["paths"] = " ".join(options.paths)
    return to_file(found, span, question, commits, origin)


def _words(command: str) -> list[str]:
    """The words of --run; UserError where a quotation has no end."""
    try:
        return shlex.split(command)
    except ValueError as err:
        raise UserError(f"--run {command!r} cannot be read: {err}.", "Mend the quotes.") from err


def _begin(options: Options, made_with: list[str], state: Path) -> None:
    """Writes down what is asked; what is known of the same question is kept, but for noise.

    UserError where a bisection that goes on is not made with what it was begun with.
    """
    asked = {name: getattr(options, name) for name in _KEPT}
    # As JSON has it: tuples are lists.
    new = json.loads(json.dumps({"asked": asked, "made_with": [cache.own_digest(), *made_with]}))
    old = read_json(state / _STATE)
    if options.resume and old != new:
        raise UserError(
            "The config, the compiler, the emulator or kentry has changed since it began.",
            "Begin anew, without --continue.",
        )
    if not options.resume and (options.run or old != new):
        for file in state.glob("*.json*"):
            file.unlink()
        write_atomically(state / _STATE, json.dumps(new) + "\n")


def _resumed(options: Options, state: Path) -> Options:
    """The options of the tree's last bisection; UserError where others are given beside."""
    kept = read_json(state / _STATE).get("asked", {})
    if set(kept) != set(_KEPT):
        raise _no_bisection(options)
    plain = Options()
    given = [name for name in _KEPT if getattr(options, name) != getattr(plain, name)]
    if given:
        raise UserError(
            "--continue goes on with the options of the bisection that was begun.",
            f"Leave out what shapes it ({', '.join(given)}), or begin anew without --continue.",
        )
    words: dict[str, Any] = {
        name: tuple(one) if isinstance(one, list) else one for name, one in kept.items()
    }
    return replace(options, **words)


def _no_bisection(options: Options) -> UserError:
    return UserError(
        f"There is no bisection of {options.tree}.", "Begin one: --good COMMIT --bad COMMIT."
    )
