# SPDX-License-Identifier: GPL-2.0-or-later
"""kentry ablate: what each config option adds to the path."""

from dataclasses import dataclass, replace

from kentry.commands import measuring
from kentry.commands.emit import emit
from kentry.commands.options import operand, option
from kentry.errors import EXIT_DONE
from kentry.kernels.config import entry_options, parse_options
from kentry.kernels.resolve import resolve_source
from kentry.kernels.spec import parse
from kentry.progress import progress
from kentry.show.studies import ablation_layout
from kentry.study.ablation import ablate

EXAMPLES = (
    "kentry ablate source:6.12 --arch arm64",
    "kentry ablate source:6.12 --options CONFIG_SECCOMP,CONFIG_AUDIT --case getppid",
    "kentry ablate tree:~/linux@HEAD --config distro --options options.txt",
)
RETIRED = measuring.RETIRED


@dataclass(frozen=True, kw_only=True)
class Options(measuring.CachedOptions):
    """What `kentry ablate` takes."""

    spec: str = operand(metavar="SPEC", help="a source: source:6.12 or tree:DIR[@REV]")
    options: str | None = option(
        "--options LIST",
        help="config options with commas, or a file with one on each line (default: those that"
        " shape kernel entry)",
    )


def run(options: Options) -> int:
    """Builds and measures the base and each option, prints the table."""
    candidates = parse_options(options.options) if options.options else entry_options()
    unit = options.unit(options.spec, fresh=options.fresh)
    request = unit.request.chosen(parse(options.spec).options)
    with progress(options.spec) as update:
        unit = replace(unit, source=resolve_source(options.spec, update), request=request)
    ablation = ablate(unit, candidates, named=bool(options.options))
    emit(
        options,
        lambda: ablation_layout(ablation, options.verbose, options.rows_shown),
        lambda: ablation,
    )
    return EXIT_DONE
