# SPDX-License-Identifier: GPL-2.0-or-later
"""kentry check: a kernel or a recording held against budgets, with an exit code."""

import re
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

from kentry.commands import measuring, userland
from kentry.commands.emit import emit
from kentry.commands.options import flag, operand, option, path_option
from kentry.count.program import program_recording
from kentry.errors import EXIT_DONE, EXIT_REGRESSION, EXIT_SKIP, EXIT_UNDECIDED, UserError
from kentry.results.document import schema_of
from kentry.results.studies import OVER, UNDECIDED, WITHIN, Check
from kentry.results.workload import read_workload
from kentry.show.comment import comment
from kentry.show.export.ci import check_b4, check_github, check_junit, check_kcidb, check_ktap
from kentry.show.studies import check_layout
from kentry.study.budgets import read_budgets
from kentry.study.check import cases_to_measure, check, find_baseline, renew
from kentry.study.plan import measure_all

EXAMPLES = (
    "kentry check debian:6.12 --arch arm64 --budget budgets.toml",
    "kentry check new.json --budget budgets.toml --format junit > junit.xml",
    "kentry check tree:. --budget ../budgets.toml --bisect",
)
_FORMATS: dict[str, Callable[[Check], str]] = {
    "ktap": check_ktap,
    "junit": check_junit,
    "github": check_github,
    "b4": check_b4,
    "comment": lambda result: comment(check_layout(result)),
}
_KCIDB = re.compile("kcidb:([a-z0-9_]+)")
_CODES = {WITHIN: EXIT_DONE, OVER: EXIT_REGRESSION, UNDECIDED: EXIT_UNDECIDED}


@dataclass(frozen=True, kw_only=True)
class Options(userland.ProgramOptions, measuring.CachedOptions):
    """What `kentry check` takes."""

    subject: str = operand(
        metavar="FILE|SPEC",
        help=f"a recording, a file that kentry run -o wrote, or a kernel: {measuring.SPEC_HELP}",
    )
    budget: Path = path_option("--budget", required=True, help="the file of budgets, in TOML")
    update: bool = flag(
        "--update",
        help="write what was measured into the file of budgets, and into its baseline if it has"
        " one",
    )
    bisect: bool = flag(
        "--bisect",
        needs={"with --update": lambda options: not options.update},
        help="exit as git bisect run asks: 0 within, 1 over, 125 undecided, no build or no boot,"
        " 128 for every mistake",
    )
    format: str | None = option(
        "--format FORMAT",
        needs={
            "with --json": lambda options: not options.json,
            "with --update": lambda options: not options.update,
        },
        help="ktap, junit, github, b4, kcidb:ORIGIN or comment",
    )


def run(options: Options) -> int:
    """Reads the budgets and the baseline, measures, prints; with --update writes them anew."""
    write = _writer(options.format) if options.format is not None else None
    budgets = read_budgets(options.budget)
    recording, program = None, None
    if not measuring.is_spec(options.subject):
        if schema_of(Path(options.subject)).startswith("kentry/workload/"):
            # Of the one boot of a program.
            recording = program_recording([read_workload(Path(options.subject))], {})
        else:
            recording = measuring.obtain(options.subject, options)
    elif program := options.find_program(options.find_arch(), options.subject):
        options.refuse_with_program("case")
    arch = str(recording.kernel["arch"]) if recording else options.find_arch().name
    if options.update:
        if options.case:
            raise UserError(
                "--update renews every budget, and --case leaves some out.", "Leave --case out."
            )
        measuring.check_writable(budgets.file)
        if arch in budgets.baselines and any(budget.relative for budget in budgets.of_arch(arch)):
            measuring.check_writable(budgets.baselines[arch])
    baseline = find_baseline(budgets, arch, new=options.update)
    expected: Sequence[str] = ()
    if program:
        unit = options.unit(options.subject, fresh=options.fresh)
        [recording] = measure_all([replace(unit, program=program)])
    elif recording is None:
        expected = cases_to_measure(budgets, baseline, options.find_arch(), options.case)
        measured = replace(options, case=tuple(expected))
        recording = measuring.obtain(options.subject, measured, fresh=options.fresh)
    result = check(budgets, recording, baseline, options.case, expected)
    if options.update:
        result = renew(budgets, result, recording, baseline)
    if write:
        sys.stdout.write(write(result))
    else:
        emit(options, lambda: check_layout(result), lambda: result)
    if options.update:
        return EXIT_UNDECIDED if result.not_renewed else EXIT_DONE
    if options.bisect and result.verdict == UNDECIDED:
        return EXIT_SKIP
    return _CODES[result.verdict]


def _writer(name: str) -> Callable[[Check], str]:
    if match := _KCIDB.fullmatch(name):
        return partial(check_kcidb, origin=match[1])
    if name not in _FORMATS:
        formats = f"{', '.join(_FORMATS)}, and kcidb:ORIGIN with your name at KernelCI"
        raise UserError(f"Unknown format '{name}'.", f"Formats: {formats} (a-z, 0-9, _).")
    return _FORMATS[name]
