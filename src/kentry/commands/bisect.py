# SPDX-License-Identifier: GPL-2.0-or-later
"""kentry bisect: which commit changed the count, and by which functions."""

import shlex
from dataclasses import dataclass, fields, replace
from pathlib import Path

from kentry.commands import measuring, userland, values
from kentry.commands.emit import emit
from kentry.commands.options import RARE, flag, list_option, operand, option
from kentry.errors import EXIT_DONE, EXIT_UNDECIDED, UserError, did_you_mean
from kentry.kernels import tree
from kentry.path.metrics import SERIALISING
from kentry.progress import progress
from kentry.results.document import to_json
from kentry.results.recording import INSTRUCTIONS
from kentry.results.workload import ENTRY
from kentry.show.studies import bisection_layout, steps_layout
from kentry.study import commits, program
from kentry.study.bisection import Question, bisect
from kentry.study.check import COUNTED

EXAMPLES = (
    "kentry bisect --good v6.3 --bad v6.4 --arch riscv64",
    "kentry bisect --good v6.3 --bad v6.4 --case read --all -- arch/riscv kernel/entry",
    "kentry bisect --continue",
)
_A_BISECTION = {
    "without --good and --bad": lambda options: (options.good and options.bad) or options.resume
}
_A_SEARCH = {"without a bisection to make": lambda options: options.has_commits()}
_ALL = {"without --all": lambda options: options.everything}


# The options that shape what is searched, which --continue takes from the run before.
_KEPT = (
    *("good", "bad", "paths", "arch", "case", "metric", "configs", "compiler"),
    *("emulator", "timeout", "everything", "least", "first_parent", "meter"),
    *("program", "release", "packages", "copy", "memory", "cpu", "append"),
)


@dataclass(frozen=True, kw_only=True)
class Options(userland.ProgramOptions, measuring.TreeOptions):
    """What `kentry bisect` takes."""

    paths: tuple[str, ...] = operand(
        default=(),
        nargs="*",
        metavar="PATHS",
        help="try only commits that touch these files or folders of the tree",
    )
    good: str | None = option(
        "--good COMMIT", help="an older commit, from before the count changed"
    )
    bad: str | None = option("--bad COMMIT", help="a newer commit, from after the change")
    metric: tuple[str, ...] = list_option(
        "--metric METRIC",
        group=RARE,
        needs=_A_BISECTION,
        **{
            **measuring.METRIC,
            "help": "the metric to search by, such as loads (default: instructions); with --run"
            " such as read.instructions (default: entry.instructions)",
        },
    )
    everything: bool = flag(
        "--all", needs=_A_BISECTION, help="find every commit that changed the count, not one"
    )
    least: float | None = option(
        "--least N",
        group=RARE,
        type=values.decimal(0, values.MAX_COUNT, "the metric's unit"),
        needs=_A_BISECTION | _ALL,
        help="with --all: the smallest change to find",
    )
    meter: str | None = option(
        "--meter PROGRAM",
        group=RARE,
        needs=_A_BISECTION | {"with --run": lambda options: options.program is None},
        help="measure with a program of your own, on a board for instance: it gets a commit and the"
        " file to write the recording to, and exits with 125 where it cannot",
    )
    no_verify: bool = flag(
        "--no-verify",
        group=RARE,
        needs=_A_SEARCH,
        help="name the commits without building them from nothing and measuring them again",
    )
    resume: bool = flag("--continue", group=RARE, help="go on with the tree's last bisection")
    log: bool = flag("--log", group=RARE, help="print the steps of the tree's last bisection")

    def has_commits(self) -> bool:
        """Returns whether a bisection is begun or goes on."""
        return bool(self.good and self.bad) or self.resume

    def reads_tree(self) -> bool:
        """Returns True: --log prints the tree's bisection, and missing commits are named."""
        return True

    def inputs(self) -> list[str]:
        """Returns the tree, where kentry builds its commits itself."""
        return [f"tree:{self.tree}"] if (self.good or self.resume) and not self.meter else []

    def question(self) -> Question:
        """Returns what to search for; UserError for more than one metric."""
        if len(self.metric) > 1:
            raise UserError(
                f"Commits are searched by one metric, not {len(self.metric)}.", "Name one."
            )
        arch = self.find_arch()
        cases, metric = self.measurement(arch).cases, "".join(self.metric)
        if self.program is not None:
            self.refuse_with_program("case")
            kind, metric = program.metric(metric or f"{ENTRY}.{INSTRUCTIONS}")
            cases = (kind,)
        elif metric and not self.meter:
            known = (*COUNTED, *(f"{SERIALISING}.{name}" for name in arch.decoding.serialising))
            if metric not in known:
                raise UserError(
                    f"A kernel that kentry boots has no metric '{metric}'."
                    f"{did_you_mean(metric, known)}",
                    f"Metrics: {', '.join(known)}.",
                )
        return Question(
            cases=cases,
            metric=metric or INSTRUCTIONS,
            paths=self.paths,
            everything=self.everything,
            least=self.least or 0,
            first_parent=self.first_parent,
            verify=not self.no_verify,
        )

    def measurer(self, folder: Path) -> commits.Measurer:
        """What measures a commit; `folder` has a meter's files.  UserError for an open quote."""
        if not self.meter:
            arch = self.find_arch()
            kernels = (self.top(), arch, self.request(), self.measurement(arch))
            return commits.Kernels(*kernels, self.find_program(arch, f"tree:{self.tree}"))
        try:
            return commits.Meter(shlex.split(self.meter), folder)
        except ValueError as err:
            raise UserError(
                f"--meter {self.meter!r} cannot be read: {err}.", "Mend the quotes."
            ) from err

    def origin(self) -> dict[str, str]:
        """Returns where the kernels are from, and what shapes them."""
        request = self.request()
        texts = {
            "config_set": " ".join(sorted(request.sets)),
            "paths": " ".join(self.paths),
            "meter": self.meter or "",
            "program": self.program or "",
        }
        origin = {"tree": str(self.tree), "config": request.config, "compiler": request.compiler}
        origin |= {} if self.meter else {"cpu": self.measurement(self.find_arch()).cpu}
        return origin | {name: text for name, text in texts.items() if text}


def run(options: Options) -> int:
    """Searches, or goes on, or prints what was done; 3 where no commit can be named."""
    state = commits.State(options.tree)
    if options.log:
        steps = commits.steps_in(state.folder)
        provisional = commits.provisional_in(state.folder)
        if not steps:
            raise state.absent()
        shown = {"steps": steps, **({"provisional": provisional} if provisional else {})}
        emit(
            options,
            lambda: steps_layout(steps, provisional, by_meter=state.by_meter),
            lambda: to_json(shown),
        )
        return EXIT_DONE
    if options.resume:
        options = _resumed(options, state)
    if not (options.good and options.bad):
        raise UserError("A bisection needs two commits.", "Name them: --good COMMIT --bad COMMIT.")
    # Operands are looked at before another bisection is waited for.
    span = tree.find_range(options.top(), options.good, options.bad)
    question, measurer = options.question(), options.measurer(state.folder)
    asked = replace(options, good=span.good.name, bad=span.bad.name, arch=options.find_arch().name)
    with progress(f"bisecting {options.tree}") as update, state.locked(update):
        state.begin(
            {name: getattr(asked, name) for name in _KEPT},
            measurer.made_with(span.bad, update),
            resume=options.resume,
            keep=not options.meter,
            no_verify=options.no_verify,
        )
        searched = commits.Commits(
            state.folder, measurer, question.cases, question.metric, update, options.jobs
        )
        result = bisect(span, question, searched, options.origin())
    emit(options, lambda: bisection_layout(result, options.rows_shown), lambda: result)
    return EXIT_DONE if result.is_decided else EXIT_UNDECIDED


def _resumed(options: Options, state: commits.State) -> Options:
    plain = Options()
    shaping = {item.name: next(iter(item.metadata["flags"]), "PATHS") for item in fields(Options)}
    given = [shaping[name] for name in _KEPT if getattr(options, name) != getattr(plain, name)]
    kept = state.asked(_KEPT)
    if given:
        raise UserError(
            "--continue goes on with the options of the bisection that was begun.",
            f"Leave out {', '.join(given)}, or begin anew without --continue.",
        )
    if kept["meter"] and (options.on or options.plan):
        raise UserError("--on and --plan have no effect with --meter.", "Leave them out.")
    return replace(options, no_verify=options.no_verify or state.no_verify, **kept)
