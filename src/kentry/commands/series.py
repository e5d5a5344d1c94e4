# SPDX-License-Identifier: GPL-2.0-or-later
"""kentry series: one row for each patch."""

from dataclasses import dataclass, replace
from pathlib import Path

from kentry.arch import Arch
from kentry.commands import measuring
from kentry.commands.emit import emit
from kentry.commands.options import flag, list_option, operand, option, path_option
from kentry.count import cache
from kentry.errors import (
    EXIT_DONE,
    EXIT_MISTAKE,
    BuildError,
    GuestError,
    KernelError,
    UserError,
)
from kentry.host.cache import no_space_is_an_error
from kentry.kernels import build
from kentry.kernels.repository import Revision
from kentry.kernels.resolve import Lineup, line_up
from kentry.progress import Update, progress
from kentry.results import caveats
from kentry.results.recording import Recording, write_recording
from kentry.results.series import NO_APPLY, NO_BOOT, NO_BUILD, Problem
from kentry.show.changelog import series_changelog
from kentry.show.series import series_layout
from kentry.study.series import Outcome, tabulate

EXAMPLES = (
    "kentry series source:6.12 series.mbox --arch arm64,riscv64",
    "kentry series tree:~/linux v6.12..topic --case getppid,read",
    "kentry series source:6.12 patches/ --changelog -o rows",
)
RETIRED = measuring.RETIRED


@dataclass(frozen=True, kw_only=True)
class Options(
    measuring.CachedOptions,
    measuring.MatrixOptions,
    measuring.CoreOptions,
):
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
    arch: str | None = option(
        "--arch",
        needs=[measuring.A_KERNEL],
        **{
            **measuring.ARCH,
            "metavar": "ARCH,...",
            "help": "x86_64, arm64, riscv64: a column for each; this machine's own by default",
        },
    )
    output: Path | None = path_option(
        "-o",
        "--output",
        metavar="DIR",
        help="write each row's recording to DIR: 0000-arm64.json is the baseline's",
    )
    metric: tuple[str, ...] = list_option("--metric", **measuring.METRIC)
    changelog: bool = flag("--changelog", help=measuring.CHANGELOG_HELP)

    def find_arches(self) -> list[Arch]:
        """Each architecture of --arch once, or this machine's own."""
        arches = [replace(self, arch=name).find_arch() for name in (self.arch or "").split(",")]
        return list({arch.name: arch for arch in arches}.values())


def run(options: Options) -> int:
    """Applies, builds, measures, prints; returns 2 if a patch does not apply."""
    arches = options.find_arches()
    if options.core and len(arches) > 1:
        raise UserError(
            "--core names cores of one architecture, and --arch has several.",
            "Measure the series once for each architecture.",
        )
    options.check_cores()
    for arch in arches:
        # A mistake is found now, not after the first build.
        options.measurement(arch)
        if options.output:
            with no_space_is_an_error(options.output):
                options.output.mkdir(parents=True, exist_ok=True)
            measuring.check_writable(_row_file(options.output, 0, arch))
    with progress(f"{options.base}: reading the patches") as update:
        lineup = line_up(options.base, options.patches, update)
    if options.output:
        # A patch that fails now must not leave the recording of an earlier run.
        for number in range(len(lineup.steps) + 1):
            for arch in arches:
                _row_file(options.output, number, arch).unlink(missing_ok=True)
    trailers = {"base-commit": lineup.base_commit, "change-id": lineup.change_id}
    origin = {"base": lineup.base_spec, "commit": lineup.base.commit}
    origin |= {name: value for name, value in trailers.items() if value}
    notes = [caveats.series_note(note) for note in lineup.notes]
    if lineup.base_commit and lineup.base_commit != lineup.base.commit:
        notes.append(caveats.other_base(lineup.base_commit, lineup.base_spec))
    refused = [step.number for step in lineup.steps if step.revision is None]
    if refused and refused[-1] != lineup.steps[-1].number:
        notes.append(caveats.left_out(refused))
    series = tabulate(_rows(lineup, arches, options), origin, caveats=notes, metrics=options.metric)
    emit(
        options,
        lambda: series_layout(series, options.verbose, options.rows_shown),
        lambda: series,
        lambda: series_changelog(series),
    )
    return EXIT_MISTAKE if refused else EXIT_DONE


def _rows(lineup: Lineup, arches: list[Arch], options: Options) -> list[Outcome]:
    """The baseline, then each patch: on every architecture its recording or what is wrong."""
    columns: dict[str, list[Recording | Problem]] = {}
    for arch in arches:
        with progress(f"baseline ({arch.name})") as update:
            columns[arch.name] = [_record(lineup, 0, lineup.base, arch, options, update)]
        for step in lineup.steps:
            cell: Recording | Problem
            if step.revision is None:
                columns[arch.name].append(Problem(NO_APPLY, step.problem))
                continue
            with progress(f"patch {step.number} of {len(lineup.steps)} ({arch.name})") as update:
                try:
                    cell = _record(lineup, step.number, step.revision, arch, options, update)
                except BuildError as err:
                    cell = Problem(NO_BUILD, err.sentence, f"{err.detail}\n{err.remedy}".strip())
                except (GuestError, KernelError) as err:
                    cell = Problem(NO_BOOT, err.sentence, err.detail)
            columns[arch.name].append(cell)
    commits = [step.revision.commit if step.revision else "" for step in lineup.steps]
    names = [(0, "baseline"), *((step.number, step.subject) for step in lineup.steps)]
    rows = []
    for index, commit in enumerate([lineup.base.commit, *commits]):
        cells = {name: column[index] for name, column in columns.items()}
        recordings = {name: one for name, one in cells.items() if isinstance(one, Recording)}
        problems = {name: one for name, one in cells.items() if isinstance(one, Problem)}
        rows.append(Outcome(*names[index], commit, recordings, problems))
    return rows


def _record(
    lineup: Lineup, number: int, revision: Revision, arch: Arch, options: Options, update: Update
) -> Recording:
    """Builds, measures and writes one row's kernel."""
    spec = f"{lineup.base_spec} + patch {number}" if number else lineup.base_spec
    request = options.request().chosen(lineup.options)
    kernel = build.kernel(spec, revision, arch, request, update)
    measurement = options.measurement(arch)
    recording = cache.record(kernel, arch, measurement, update, reuse=not options.fresh)
    recording = options.with_estimates(recording)
    if options.output:
        write_recording(recording, _row_file(options.output, number, arch))
    return recording


def _row_file(folder: Path, number: int, arch: Arch) -> Path:
    return folder / f"{number:04}-{arch.name}.json"
