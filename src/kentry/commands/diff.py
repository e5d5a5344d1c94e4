# SPDX-License-Identifier: GPL-2.0-or-later
"""kentry diff: two kernels or recordings, the verdict first, then functions that add up."""

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from pathlib import Path

from kentry.commands import measuring, userland
from kentry.commands.emit import emit
from kentry.commands.options import flag, list_option, operand
from kentry.compare.counted import ALL, compare, with_paths_and_samples
from kentry.errors import EXIT_DONE, EXIT_REGRESSION, EXIT_UNDECIDED, KentryError, UserError
from kentry.kernels.resolve import resolve
from kentry.progress import progress
from kentry.results.document import schema_of
from kentry.results.workload import Workload, read_workload
from kentry.show.changelog import comparison_changelog
from kentry.show.comparison import comparison_layout
from kentry.stats import exact

EXAMPLES = (
    "kentry diff old.json new.json",
    "kentry diff debian:6.1 debian:6.12 --arch arm64 --case getppid",
    "kentry diff debian:6.1 debian:6.12 --arch arm64 --packages git --run 'git --version'",
)


@dataclass(frozen=True, kw_only=True)
class Options(userland.ProgramOptions, measuring.CachedOptions, measuring.CoreOptions):
    """What `kentry diff` takes."""

    old: str = operand(
        metavar="OLD",
        help=f"a recording, a file that kentry run -o wrote, or a kernel: {measuring.SPEC_HELP}",
    )
    new: str = operand(
        metavar="NEW", help="another of the same kind; a recording and a kernel go together, too"
    )
    metric: tuple[str, ...] = list_option("--metric METRIC", **measuring.METRIC)
    fail_on_regression: bool = flag(
        "--fail-on-regression",
        help="exit with 1 if a case is worse, with 3 if one is undecided or lost",
    )


def run(options: Options) -> int:
    """Obtains both sides, compares, prints."""
    if boots := _programs(options):
        from kentry.compare.workload import compare_workloads
        from kentry.show.workload_comparison import workload_comparison_layout

        of_program = compare_workloads(*boots)
        emit(
            options,
            lambda: workload_comparison_layout(of_program, options.rows_shown),
            lambda: of_program,
        )
        return _status(options, of_program.verdicts)
    old, new, names = measuring.obtain_both(
        (options.old, options.new), options, fresh=options.fresh
    )
    failure = None
    try:
        with options.estimating():
            old, new = (options.with_estimates(side, names) for side in (old, new))
    except KentryError as err:
        # The rest is compared.
        failure = err
    comparison = compare(old, new, names, options.metric)
    # A table for each of twenty metrics has to be asked for.
    of_metrics = options.verbose or ALL not in options.metric
    emit(
        options,
        lambda: comparison_layout(comparison, options.rows_shown, of_metrics=of_metrics),
        lambda: with_paths_and_samples(comparison, old, new),
        lambda: comparison_changelog(comparison),
    )
    if failure:
        raise failure
    verdicts = {case.verdict for case in comparison.cases}
    # A time that changed where the code did not decides nothing.
    verdicts |= {exact.UNDECIDED if row.is_layout else row.verdict for row in comparison.timed}
    return _status(options, verdicts | ({exact.UNDECIDED} if comparison.lost else set()))


def _status(options: Options, verdicts: Collection[str]) -> int:
    """Returns the exit code."""
    if not options.fail_on_regression:
        return EXIT_DONE
    if exact.WORSE in verdicts:
        return EXIT_REGRESSION
    return EXIT_UNDECIDED if exact.UNDECIDED in verdicts else EXIT_DONE


def _is_workload(text: str) -> bool:
    return not measuring.is_spec(text) and schema_of(Path(text)).startswith("kentry/workload/")


def _programs(options: Options) -> tuple[Sequence[Workload], Sequence[Workload]] | None:
    """The boots of a program on both sides; None where recordings or cases are compared."""
    sides = (options.old, options.new)
    ran = list(map(_is_workload, sides))
    if not any(ran) and options.program is None:
        return None
    options.refuse_with_program("case", "metric", "core")
    if all(ran) and options.program is None:
        return [read_workload(Path(options.old))], [read_workload(Path(options.new))]
    if not all(map(measuring.is_spec, sides)):
        raise UserError(
            f"{options.old} and {options.new} are not two runs of a program.",
            "Compare two files that kentry run -o wrote, or two kernels with --run.",
        )
    return _boots(options, options.old), _boots(options, options.new)


def _boots(options: Options, spec: str) -> Sequence[Workload]:
    """The program's boots on the kernel, from the cache where it has them."""
    from kentry.count.workload_cache import run_program

    arch = options.find_arch()
    program = options.find_program(arch, spec)
    assert program
    with progress(f"running {program.workload.name} on {spec}") as update:
        kernel = resolve(spec, arch, update, options.request())
        return run_program(kernel, arch, program, update, reuse=not options.fresh)
