# SPDX-License-Identifier: GPL-2.0-or-later
"""kentry ablate: what each config option, or each mitigation, adds to the path."""

from dataclasses import dataclass, replace

from kentry.commands import measuring
from kentry.commands.emit import emit
from kentry.commands.options import flag, operand, option
from kentry.kernels.config import entry_options, parse_options
from kentry.kernels.resolve import resolve_source
from kentry.kernels.spec import parse
from kentry.progress import progress
from kentry.show.studies import ablation_layout
from kentry.study.ablation import ablate, ablate_mitigations

EXAMPLES = (
    "kentry ablate source:6.12 --arch arm64",
    "kentry ablate source:6.12 --options CONFIG_SECCOMP,CONFIG_AUDIT --case getppid",
    "kentry ablate debian:6.12 --mitigations --cpu skylake",
)


@dataclass(frozen=True, kw_only=True)
class Options(measuring.CachedOptions):
    """What `kentry ablate` takes."""

    spec: str = operand(
        metavar="SPEC",
        help=f"a source: source:6.12 or tree:DIR[@REV]; with --mitigations any kernel:"
        f" {measuring.SPEC_HELP}",
    )
    mitigations: bool = flag(
        "--mitigations",
        help="what each mitigation adds that the kernel has switched on for the processor; needs no"
        " build",
    )
    options: str | None = option(
        "--options LIST",
        needs={"with --mitigations": lambda options: not options.mitigations},
        help="config options with commas, or a file with one on each line (default: those that"
        " shape kernel entry)",
    )


def run(options: Options) -> None:
    """Measures the base and each option, or each mitigation; prints the table."""
    measuring.check_kernel(options.spec)
    if options.mitigations:
        ablation = ablate_mitigations(options.unit(options.spec, fresh=options.fresh))
    else:
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
