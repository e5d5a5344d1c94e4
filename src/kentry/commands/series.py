# SPDX-License-Identifier: GPL-2.0-or-later
"""kentry series: one row for each patch."""

from dataclasses import dataclass, replace
from pathlib import Path

from kentry.arch import Arch
from kentry.commands import measuring, userland
from kentry.commands.emit import emit
from kentry.commands.options import list_option, operand, option, path_option
from kentry.commands.settings import settings
from kentry.errors import EXIT_DONE, EXIT_MISTAKE, UserError
from kentry.host.cache import no_space_is_an_error, write_atomically
from kentry.kernels.resolve import Lineup, is_range, line_up
from kentry.progress import progress
from kentry.results.document import dump
from kentry.results.recording import Recording, write_recording
from kentry.results.studies import NO_APPLY, Series
from kentry.show.changelog import series_changelog
from kentry.show.series import series_layout
from kentry.study import series as study
from kentry.study.plan import Unit

EXAMPLES = (
    "kentry series source:6.12 series.mbox --arch arm64,riscv64",
    "kentry series v6.12..topic --case getppid,read",
    "kentry series source:6.12 patches/ --changelog -o rows",
)
# The rows' recordings in a folder: study.row_file().
_ROWS = "[0-9][0-9][0-9][0-9]-*.json"


@dataclass(frozen=True, kw_only=True)
class Options(
    userland.ProgramOptions, measuring.CachedOptions, measuring.MatrixOptions, measuring.CoreOptions
):
    """What `kentry series` takes."""

    base: str = operand(
        metavar="BASE",
        help="the source that the patches are for, source:6.12 or tree:DIR[@REV]; or commits of the"
        " tree here, A..B; or a folder of rows that -o wrote",
    )
    patches: tuple[str, ...] = operand(
        default=(),
        nargs="*",
        metavar="PATCHES",
        help="mbox files, a git format-patch folder, a quilt series file; or commits, A..B",
    )
    arch: str | None = option(
        "--arch ARCH,...",
        needs=measuring.A_KERNEL,
        **{
            **measuring.ARCH,
            "help": "x86_64, arm64, riscv64: a column for each; this machine's own by default",
        },
    )
    output: Path | None = path_option(
        "-o",
        "--output DIR",
        needs={"on rows that were written": lambda options: not options.rows()},
        help="write each row's recording to DIR: 0000-arm64.json is the baseline's",
    )
    metric: tuple[str, ...] = list_option("--metric METRIC", **measuring.METRIC)

    def find_arches(self) -> list[Arch]:
        """Returns each architecture of --arch once, or this machine's own."""
        arches = [replace(self, arch=name).find_arch() for name in (self.arch or "").split(",")]
        return list({arch.name: arch for arch in arches}.values())

    def inputs(self) -> list[str]:
        """Returns the base; commits without one are of the tree here."""
        return ["tree:."] if is_range(self.base, self.patches) else [self.base]

    def rows(self) -> Path | None:
        """Returns the folder of rows that -o wrote, where one was named; UserError for a part."""
        folder = Path(self.base)
        if self.patches or (folder / study.SERIES_FILE).is_file():
            return None if self.patches else folder
        if any(folder.glob(_ROWS)):
            raise UserError(
                f"{self.base} has the first rows of a series that was interrupted.",
                "Run the command that measured it again: what it has measured is in the cache.",
            )
        return None

    def check(self) -> None:
        """Raises UserError for a mistake that can be found before the first build."""
        arches = self.find_arches()
        if self.program is not None:
            self.refuse_with_program("case", "matrix", "vl", "metric", "core")
        if self.core and len(arches) > 1:
            raise UserError(
                "--core names cores of one architecture, and --arch has several.",
                "Measure the series once for each architecture.",
            )
        self.check_cores()
        for arch in arches:
            self.measurement_of(arch, self.inputs()[0])
            self.find_program(arch, self.inputs()[0])
            if self.output:
                with no_space_is_an_error(self.output):
                    self.output.mkdir(parents=True, exist_ok=True)
                measuring.check_writable(study.row_file(self.output, 0, arch.name))


def run(options: Options) -> int:
    """Applies, builds, measures, prints; returns 2 if a patch does not apply."""
    if saved := options.rows():
        before, rows = study.read_rows(saved)
        names = measuring.match_cases(list(rows[0].recordings.values()), options.case, options.base)
        chosen = names if options.case else None
        with options.estimating():
            for row in rows:
                if any(own.program for own in row.recordings.values()):
                    options.refuse_with_program("core")
                for arch, own in row.recordings.items():
                    row.recordings[arch] = options.with_estimates(own, chosen)
        series = study.tabulate(rows, before.origin, chosen, before.caveats, options.metric)
    else:
        if (here := settings().tree) and is_range(options.base, options.patches):
            options = replace(options, base=f"tree:{here}", patches=(options.base,))
        options.check()
        with progress(f"{options.base}: reading the patches") as update:
            lineup = line_up(options.base, options.patches, update)
        series = _of_lineup(lineup, options)
    emit(
        options,
        lambda: series_layout(series, options.verbose, options.rows_shown),
        lambda: series,
        lambda: series_changelog(series),
    )
    refused = any(row.status == NO_APPLY for row in series.rows)
    return EXIT_MISTAKE if refused else EXIT_DONE


def _of_lineup(lineup: Lineup, options: Options) -> Series:
    folder, arches = options.output, options.find_arches()
    if folder:
        # A patch that fails now must not leave the recording of an earlier run.
        for file in (folder / study.SERIES_FILE, *folder.glob(_ROWS)):
            file.unlink(missing_ok=True)

    def keep(number: int, recording: Recording) -> Recording:
        recording = options.with_estimates(recording)
        if folder:
            write_recording(recording, study.row_file(folder, number, recording.kernel["arch"]))
        return recording

    units = [
        Unit(
            spec=lineup.base_spec,
            arch=arch.name,
            measurement=options.measurement_of(arch, lineup.base_spec),
            program=options.find_program(arch, lineup.base_spec),
            request=options.request().chosen(lineup.options),
            fresh=options.fresh,
        )
        for arch in arches
    ]
    rows, notes = study.measure_series(lineup, units, keep), study.notes_of(lineup)
    series = study.tabulate(rows, study.origin_of(lineup), notes=notes, metrics=options.metric)
    if folder:
        write_atomically(folder / study.SERIES_FILE, dump(series))
    return series
