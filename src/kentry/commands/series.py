# SPDX-License-Identifier: GPL-2.0-or-later
"""kentry series: a row a patch."""

from __future__ import annotations

import os
import sys
from dataclasses import dataclass, replace
from pathlib import Path

from kentry.arch import Arch
from kentry.commands import measuring, values
from kentry.commands.options import operand, option
from kentry.compare.series import Outcome, tabulate
from kentry.errors import EXIT_DONE, EXIT_MISTAKE, BuildError, GuestError, KernelError, UserError
from kentry.kernels import build
from kentry.kernels.apply import Step
from kentry.kernels.lineup import Lineup, line_up
from kentry.kernels.repository import Revision
from kentry.measure import cache
from kentry.model import caveats
from kentry.model.caveats import Caveat
from kentry.model.recording import Recording, dump, write_recording
from kentry.model.series import NO_APPLY, NO_BOOT, NO_BUILD, Problem, to_json
from kentry.progress import Update, progress
from kentry.report.changelog import series_changelog
from kentry.report.series import series_text

EXAMPLES = (
    "kentry series source:6.12 series.mbox --arch arm64,riscv64",
    "kentry series tree:~/linux v6.12..topic --case getppid,read",
    "kentry series source:6.12 patches/ --changelog -o rows",
)


@dataclass(frozen=True, kw_only=True)
class Options(measuring.CachedOptions, measuring.MatrixOptions):
    """What `kentry series` takes."""

    base: str = operand(
        metavar="BASE", help="the source that the patches are for: source:6.12 or tree:DIR[@REV]"
    )
    patches: tuple[str, ...] = operand(
        default=(),
        nargs="*",
        metavar="PATCHES",
        help="mbox files, a git format-patch folder, a quilt series file; or commits, A..B",
    )
    output: Path | None = option(
        "-o",
        "--output",
        type=values.path,
        metavar="DIR",
        help="write each row's recording to DIR: 0000-arm64.json is the baseline's",
    )
    changelog: bool = option(
        "--changelog",
        default=False,
        help=measuring.CHANGELOG_HELP,
    )
    functions: bool = option(
        "--functions",
        default=False,
        help="print a table of functions for each row; -v prints it, too",
    )

    @property
    def inputs(self) -> tuple[str, ...]:
        """The base."""
        return (self.base,)

    def find_arches(self) -> list[Arch]:
        """Each architecture of --arch once, or this machine's own."""
        arches = [replace(self, arch=name).find_arch() for name in (self.arch or "").split(",")]
        return list({arch.name: arch for arch in arches}.values())


def run(options: Options) -> int:
    """Applies, builds, measures, prints; exits with 2 where a patch does not apply."""
    arches = options.find_arches()
    for arch in arches:
        options.measurement(arch)
    if options.output:
        _check_folder(options.output)
    with progress(f"{options.base}: reading the patches") as update:
        lineup = line_up(options.base, options.patches, update)
    if options.output:
        _remove_old(options.output, len(lineup.steps), arches)
    outcomes = _measure(lineup, arches, options)
    series = tabulate(outcomes, _origin(lineup), caveats=_caveats(lineup))
    if options.json:
        sys.stdout.write(dump(to_json(series)))
    elif options.changelog:
        sys.stdout.write(series_changelog(series))
    else:
        sys.stdout.write(series_text(series, functions=options.functions or options.verbose))
    refused = any(row.status == NO_APPLY for row in series.rows)
    return EXIT_MISTAKE if refused else EXIT_DONE


def _measure(lineup: Lineup, arches: list[Arch], options: Options) -> list[Outcome]:

    recordings: dict[int, dict[str, Recording]] = {n: {} for n in range(len(lineup.steps) + 1)}
    problems: dict[int, dict[str, Problem]] = {n: {} for n in range(len(lineup.steps) + 1)}
    for arch in arches:
        with progress(f"baseline ({arch.name})") as update:
            base = _record(lineup, 0, lineup.base, arch, options, update)
        recordings[0][arch.name] = base
        for place, step in enumerate(lineup.steps, start=1):
            if step.revision is None:
                problems[place][arch.name] = Problem(NO_APPLY, step.problem)
                continue
            label = f"patch {step.number} of {len(lineup.steps)} ({arch.name})"
            with progress(label) as update:
                got = _try(lineup, step, arch, options, update)
            if isinstance(got, Problem):
                problems[place][arch.name] = got
            else:
                recordings[place][arch.name] = got
    return [
        Outcome(0, "baseline", lineup.base.commit, recordings[0]),
        *(
            Outcome(
                step.number,
                step.subject,
                step.revision.commit if step.revision else "",
                recordings[place],
                problems[place],
            )
            for place, step in enumerate(lineup.steps, start=1)
        ),
    ]


def _try(
    lineup: Lineup, step: Step, arch: Arch, options: Options, update: Update
) -> Recording | Problem:

    assert step.revision
    try:
        return _record(lineup, step.number, step.revision, arch, options, update)
    except BuildError as err:
        return Problem(NO_BUILD, err.sentence, f"{err.detail}\n{err.remedy}".strip())
    except (GuestError, KernelError) as err:
        return Problem(NO_BOOT, err.sentence, err.detail)


def _record(
    lineup: Lineup,
    number: int,
    revision: Revision,
    arch: Arch,
    options: Options,
    update: Update,
) -> Recording:

    spec = f"{lineup.base_spec} + patch {number}" if number else lineup.base_spec
    request = options.request().chosen(lineup.options)
    kernel = build.kernel(spec, revision, arch, request, update)
    measurement = options.measurement(arch)
    recording = cache.record(kernel, arch, measurement, update, reuse=not options.fresh)
    if options.output:
        write_recording(recording, _row_file(options.output, number, arch))
    return recording


def _row_file(folder: Path, number: int, arch: Arch) -> Path:
    return folder / f"{number:04}-{arch.name}.json"


def _remove_old(folder: Path, patches: int, arches: list[Arch]) -> None:
    """Of an earlier run's rows: one that now fails must not leave its old recording."""
    for number in range(patches + 1):
        for arch in arches:
            _row_file(folder, number, arch).unlink(missing_ok=True)


def _check_folder(folder: Path) -> None:
    """Says now, not after the first build, that nothing could be kept there."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as err:
        raise UserError(f"{folder} cannot be a folder: {err.strerror}.", "Name another.") from err
    if not os.access(folder, os.W_OK):
        raise UserError(f"{folder} cannot be written to.", "Name another folder.")


def _origin(lineup: Lineup) -> dict[str, str]:
    trailers = {"base-commit": lineup.base_commit, "change-id": lineup.change_id}
    found = {name: value for name, value in trailers.items() if value}
    return {"base": lineup.base_spec, "commit": lineup.base.commit, **found}


def _caveats(lineup: Lineup) -> list[Caveat]:

    found = [caveats.series_note(note) for note in lineup.notes]
    if lineup.base_commit and lineup.base_commit != lineup.base.commit:
        found.append(caveats.other_base(lineup.base_commit, lineup.base_spec))
    refused = [step.number for step in lineup.steps if step.revision is None]
    if refused and refused[-1] != lineup.steps[-1].number:
        found.append(caveats.left_out(refused))
    return found
