# SPDX-License-Identifier: GPL-2.0-or-later
"""kentry check: a kernel or a recording held against budgets, with an exit code."""

import sys
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from msgspec import structs

from kentry.arch import Arch
from kentry.commands import measuring
from kentry.commands.emit import emit
from kentry.commands.options import Need, flag, operand, option, path_option
from kentry.count.catalogue import choose, match
from kentry.errors import EXIT_DONE, EXIT_REGRESSION, EXIT_SKIP, EXIT_UNDECIDED, UserError
from kentry.host.cache import write_atomically
from kentry.results.check import OVER, UNDECIDED, WITHIN, Check, CheckRow, Renewed
from kentry.results.recording import (
    ABOUT_PATHS,
    INSTRUCTIONS,
    Recording,
    read_recording,
    write_recording,
)
from kentry.show.check import check_layout
from kentry.show.export.github import check_github
from kentry.show.export.junit import check_junit
from kentry.show.export.ktap import check_ktap
from kentry.study.budgets import BASELINE, Budget, Budgets, read_budgets
from kentry.study.check import check, new_limits

EXAMPLES = (
    "kentry check debian:6.12 --arch arm64 --budget budgets.toml",
    "kentry check new.json --budget budgets.toml --format junit > junit.xml",
    "kentry check tree:. --budget ../budgets.toml --bisect",
)
RETIRED = measuring.RETIRED

_FORMATS: dict[str, Callable[[Check], str]] = {
    "ktap": check_ktap,
    "junit": check_junit,
    "github": check_github,
}
# What a kernel that is booted has of each case.
_COUNTED = (INSTRUCTIONS, "user_instructions", "firmware_instructions", *ABOUT_PATHS)
_CODES = {WITHIN: EXIT_DONE, OVER: EXIT_REGRESSION, UNDECIDED: EXIT_UNDECIDED}


@dataclass(frozen=True, kw_only=True)
class Options(measuring.CachedOptions):
    """What `kentry check` takes."""

    subject: str = operand(
        metavar="FILE|SPEC", help=f"a recording, or a kernel: {measuring.SPEC_HELP}"
    )
    budget: Path = path_option("--budget", required=True, help="the file of budgets, in TOML")
    update: bool = flag(
        "--update", help="write what was measured into the file of budgets, or as its baseline"
    )
    bisect: bool = flag(
        "--bisect",
        needs=[Need(lambda options: not options.update, "with --update")],
        help="exit as git bisect run asks: 0 within, 1 over, 125 undecided, no build or no boot,"
        " 128 for every mistake",
    )
    format: str | None = option(
        "--format",
        metavar="FORMAT",
        needs=[
            Need(lambda options: not options.json, "with --json"),
            Need(lambda options: not options.update, "with --update"),
        ],
        help="ktap, junit or github",
    )


def run(options: Options) -> int:
    """Reads the budgets and the baseline, measures, prints; with --update writes them anew."""
    if options.format is not None and options.format not in _FORMATS:
        raise UserError(f"Unknown format '{options.format}'.", f"Formats: {', '.join(_FORMATS)}.")
    budgets = read_budgets(options.budget)
    recording = None
    if not measuring.is_spec(options.subject):
        recording = measuring.obtain(options.subject, options)
    arch = str(recording.kernel["arch"]) if recording else options.find_arch().name
    baseline = _baseline(budgets, arch, options)
    expected: Sequence[str] = ()
    if recording is None:
        expected = _cases(budgets, baseline, options)
        measured = replace(options, case=tuple(expected))
        recording = measuring.obtain(options.subject, measured, fresh=options.fresh)
    sides = [recording, baseline] if baseline else [recording]
    known = dict.fromkeys([*expected, *(case.name for side in sides for case in side.cases)])
    found = check(
        budgets,
        recording,
        baseline,
        cases_of=lambda key: measuring.match_names(list(known), arch, [key]),
        only=lambda names: _of_option(names, arch, options),
        expected=expected,
    )
    if options.update:
        found = _update(budgets, found, recording, baseline)
    if options.format:
        sys.stdout.write(_FORMATS[options.format](found))
    else:
        emit(options, lambda: check_layout(found), lambda: found)
    if options.update:
        return EXIT_UNDECIDED if found.not_renewed else EXIT_DONE
    if options.bisect and found.verdict == UNDECIDED:
        return EXIT_SKIP
    return _CODES[found.verdict]


def _baseline(budgets: Budgets, arch: str, options: Options) -> Recording | None:
    """The recording that budgets of `arch` add to; None where none does, or it is to be written.

    UserError where there is none, or it is of another architecture.
    """
    relative = [one for one in budgets.of_arch(arch) if one.relative]
    if options.update:
        if options.case:
            raise UserError(
                "--update renews every budget, and --case leaves some out.", "Leave --case out."
            )
        measuring.check_writable(budgets.file)
    if not relative:
        return None
    if arch not in budgets.baselines:
        raise UserError(
            f"{budgets.file} has '{relative[0].text}' for {relative[0].key} and no baseline for"
            f" {arch}.",
            f'Write above its tables: {BASELINE}.{arch} = "FILE", a recording.',
        )
    file = budgets.baselines[arch]
    if options.update:
        measuring.check_writable(file)
        if not file.exists():
            return None
    elif not file.exists():
        raise UserError(
            f"The baseline {file} does not exist.",
            f"kentry check {options.subject} --budget {budgets.file} --update writes it.",
        )
    if not file.is_file():
        raise UserError(f"The baseline {file} is not a file.", "Name a recording.")
    baseline = read_recording(file)
    if baseline.kernel["arch"] != arch:
        raise UserError(
            f"The baseline {file} is of {baseline.kernel['arch']}, and {budgets.file} names it"
            f" for {arch}.",
            "Name a recording of that architecture.",
        )
    return baseline


def _cases(budgets: Budgets, baseline: Recording | None, options: Options) -> Sequence[str]:
    """The cases to measure: those that have a budget, and of --case; UserError for a mistake."""
    arch = options.find_arch()
    own = budgets.of_arch(arch.name)
    for budget in own:
        if budget.metric not in _COUNTED:
            raise UserError(
                f"{budgets.file} limits {budget.metric} of {budget.key}, and a kernel that kentry"
                f" boots has {', '.join(_COUNTED)}.",
                "Keep budgets for times in another file, and check a recording of times with it.",
            )
    return _of_option(choose(arch, _names(own, baseline, arch)), arch.name, options)


def _of_option(names: Sequence[str], arch: str, options: Options) -> Sequence[str]:
    """The cases of --case among those that have a budget; UserError where none has."""
    if not options.case:
        return names
    try:
        return measuring.match_names(names, arch, options.case)
    except UserError as err:
        raise UserError(
            f"{options.budget} has no budget for a case of --case {','.join(options.case)}.",
            f"It has some for {', '.join(names)}.",
        ) from err


def _names(own: Iterable[Budget], baseline: Recording | None, arch: Arch) -> list[str]:
    """The cases that budgets stand for: in the baseline, or among all that there are."""
    names: list[str] = []
    for budget in own:
        found = []
        if budget.relative and baseline:
            known = [case.name for case in baseline.cases]
            try:
                found = match(known, arch, [budget.key])
            except UserError:
                # A case that is new.
                found = []
        names += found or choose(arch, [budget.key])
    return list(dict.fromkeys(names))


def _update(
    budgets: Budgets, found: Check, recording: Recording, baseline: Recording | None
) -> Check:
    """Writes the baseline, if there is one, then the limits; says what changed.

    UserError, and nothing is written, where a number of the baseline would be lost.
    """
    limits = new_limits(budgets, found)
    text = budgets.renewed(limits)
    changes = [
        Renewed(
            file=str(budgets.file),
            name=budget.key,
            metric=budget.metric,
            old=float(budget.number) if budget.number.denominator > 1 else int(budget.number),
            new=limit,
        )
        for budget, limit in limits.items()
        if budget.number != limit
    ]
    written = []
    if any(one.relative for one in budgets.of_arch(recording.kernel["arch"])):
        file = budgets.baselines[recording.kernel["arch"]]
        for row in found.rows:
            if row.is_relative and row.value is None and _has(baseline, row):
                raise UserError(
                    f"{file} has {row.metric} of {row.name}, which would be lost: {row.reason}.",
                    "Record it too, or take its budget out of the file.",
                )
        write_recording(recording, file)
        written.append(str(file))
        changes += [
            Renewed(
                file=str(file), name=row.name, metric=row.metric, old=row.baseline, new=row.value
            )
            for row in found.rows
            if row.is_relative and row.value is not None and row.value != row.baseline
        ]
    if text != budgets.text:
        write_atomically(budgets.file, text)
        written.append(str(budgets.file))
    return structs.replace(found, changes=tuple(changes), written=tuple(written))


def _has(baseline: Recording | None, row: CheckRow) -> bool:
    case = baseline.case(row.name) if baseline else None
    return case is not None and (row.metric in case.metrics or row.metric in case.noisy)
