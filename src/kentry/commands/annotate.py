# SPDX-License-Identifier: GPL-2.0-or-later
"""kentry annotate: the path, instruction by instruction; or two paths beside each other."""

from dataclasses import dataclass, replace

from kentry.commands import measuring, values
from kentry.commands.emit import emit
from kentry.commands.options import operand, option
from kentry.errors import UserError
from kentry.path.annotation import annotate
from kentry.show.paths import annotation_layout, path_layout

EXAMPLES = (
    "kentry annotate 6.12.json",
    "kentry annotate debian:6.12 --arch riscv64 --case getppid",
    "kentry annotate 6.1.json 6.12.json --case read",
)


@dataclass(frozen=True, kw_only=True)
class Options(measuring.CoreOptions):
    """What `kentry annotate` takes."""

    what: str = operand(
        metavar="SPEC|FILE", help=f"a recording, or a kernel: {measuring.SPEC_HELP}"
    )
    new: str | None = operand(
        default=None,
        metavar="NEW",
        nargs="?",
        help="another recording or kernel: print the difference of the two paths",
    )
    context: int = option(
        "--context N",
        type=values.whole(0, values.MAX_COUNT),
        default=3,
        needs={"without two paths to compare": lambda options: options.new is not None},
        help="show N instructions that are the same around each change of a path",
    )


def run(options: Options) -> None:
    """Obtains the recording and prints the modal path of each case, or two and their difference."""
    options = replace(options, case=options.case or ("getppid",))
    if options.new is not None:
        # It loads numpy, which one path does not need.
        from kentry.compare.path_diff import compare_paths

        if options.core:
            raise UserError("--core has no effect on two paths.", "Leave --core out.")
        old, new, names = measuring.obtain_both((options.what, options.new), options)
        comparison = compare_paths(old, new, names or [case.name for case in old.cases])
        emit(options, lambda: path_layout(comparison, options.context), lambda: comparison)
        return
    options.check_cores()
    recording = measuring.obtain(options.what, options)
    # A spec is measured for the chosen cases alone.
    patterns = () if measuring.is_spec(options.what) else options.case
    names = measuring.match_cases([recording], patterns, options.what)
    with options.estimating():
        recording = options.with_misses(options.with_estimates(recording, names), names)
    annotation = annotate(recording, names)
    emit(options, lambda: annotation_layout(annotation), lambda: annotation)
