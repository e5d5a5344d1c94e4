# SPDX-License-Identifier: GPL-2.0-or-later
"""kentry diff: two kernels or recordings, the verdict first, then functions that add up."""

from dataclasses import dataclass, replace

from kentry.commands import measuring
from kentry.commands.emit import emit
from kentry.commands.options import flag, list_option, operand
from kentry.compare.counted import compare
from kentry.compare.metrics import ALL
from kentry.errors import EXIT_DONE, EXIT_REGRESSION, EXIT_UNDECIDED, KentryError, UserError
from kentry.results.comparison import Comparison
from kentry.results.recording import INSTRUCTIONS
from kentry.show.changelog import comparison_changelog
from kentry.show.comparison import comparison_layout
from kentry.stats import exact

EXAMPLES = (
    "kentry diff old.json new.json",
    "kentry diff debian:6.1 debian:6.12 --arch arm64 --case getppid",
    "kentry diff tree:~/linux@v6.12 tree:~/linux@HEAD --fail-on-regression",
)
RETIRED = {
    **measuring.RETIRED,
    "--path": "kentry annotate OLD NEW",
    "--context": "kentry annotate OLD NEW --context N",
    "--html": "kentry report OLD NEW -o FILE, with recordings that kentry record -o FILE wrote",
}


@dataclass(frozen=True, kw_only=True)
class Options(
    measuring.CachedOptions,
    measuring.CoreOptions,
):
    """What `kentry diff` takes."""

    old: str = operand(metavar="OLD", help=f"a recording, or a kernel: {measuring.SPEC_HELP}")
    new: str = operand(metavar="NEW", help="a recording or a kernel")
    metric: tuple[str, ...] = list_option("--metric", **measuring.METRIC)
    changelog: bool = flag("--changelog", help=measuring.CHANGELOG_HELP)
    fail_on_regression: bool = flag(
        "--fail-on-regression",
        help="exit with 1 if a case is worse, with 3 if one is undecided or lost",
    )


def run(options: Options) -> int:
    """Obtains both sides, compares, prints."""
    options.check_cores()
    names = None
    inputs = (options.old, options.new)
    files = [text for text in inputs if not measuring.is_spec(text)]
    sides = {file: measuring.obtain(file, options, fresh=options.fresh) for file in files}
    if files and options.case:
        # A pattern stands for what it matches in the file; the other side is measured for that.
        names = measuring.match_cases(list(sides.values()), options.case)
        options = replace(options, case=tuple(names))
    for spec in filter(measuring.is_spec, inputs):
        for file in files:
            if not any(INSTRUCTIONS in case.metrics for case in sides[file].cases):
                raise UserError(
                    f"{file} has times only, and kentry diff would count instructions of {spec}.",
                    "Name two recordings with times, as kentry stat --compare of two kernels"
                    " writes them.",
                )
        sides[spec] = measuring.obtain(spec, options, fresh=options.fresh)
    failure = None
    try:
        sides = {text: options.with_estimates(one, names) for text, one in sides.items()}
    except KentryError as err:
        # The rest is compared.
        failure = err
    comparison = compare(sides[options.old], sides[options.new], names, options.metric)
    # A table for each of twenty metrics has to be asked for.
    of_metrics = options.verbose or ALL not in options.metric
    emit(
        options,
        lambda: comparison_layout(comparison, options.rows_shown, of_metrics=of_metrics),
        lambda: comparison,
        lambda: comparison_changelog(comparison),
    )
    if failure:
        raise failure
    return _exit_code(comparison) if options.fail_on_regression else EXIT_DONE


def _exit_code(comparison: Comparison) -> int:
    verdicts = {case.verdict for case in comparison.cases}
    # A time that changed where the code did not decides nothing.
    verdicts |= {exact.UNDECIDED if row.is_layout else row.verdict for row in comparison.timed}
    if exact.WORSE in verdicts:
        return EXIT_REGRESSION
    undecided = exact.UNDECIDED in verdicts or comparison.lost
    return EXIT_UNDECIDED if undecided else EXIT_DONE
