# SPDX-License-Identifier: GPL-2.0-or-later
"""kentry record: boot a kernel, measure, write a recording."""

import sys
from dataclasses import dataclass, replace
from pathlib import Path

from kentry.arch import Arch
from kentry.commands import measuring, values
from kentry.commands.options import RARE, Need, flag, operand, option, path_option
from kentry.errors import EXIT_DONE
from kentry.measure.catalogue import PRESETS, choose, preset
from kentry.model.document import dump
from kentry.model.recording import to_json, write_recording
from kentry.report.changelog import recording_changelog
from kentry.report.recording import recording_text
from kentry.runners.exact import ExactOptions

EXAMPLES = (
    "kentry record debian:6.12 -o 6.12.json",
    "kentry record debian:6.12 --arch riscv64 --case getppid,read",
    "kentry record tree:~/linux@HEAD --arch arm64 --matrix vector -o head.json",
)

_A_STATE = Need(
    lambda options: options.matrix or options.preset or "=" in "".join(options.case),
    "without a vector state, such as --matrix vector or --case getppid+vec=once",
)


@dataclass(frozen=True, kw_only=True)
class Options(measuring.MatrixOptions):
    """What `kentry record` takes."""

    spec: str = operand(metavar="SPEC", help=measuring.SPEC_HELP)
    output: Path | None = path_option("-o", "--output", help="write the recording to FILE")
    changelog: bool = flag("--changelog", help=measuring.CHANGELOG_HELP)
    preset: str | None = option(
        "--preset", choices=sorted(PRESETS), group="vector state", help="the cases of a benchmark"
    )
    vl: tuple[int, ...] = option(
        "--vl",
        default=(),
        type=values.lengths,
        metavar="BITS,...",
        group="vector state",
        needs=(_A_STATE,),
        help="vector lengths of the cpu model in bits; each takes a boot",
    )
    windows: int | None = option(
        "--windows",
        type=values.windows,
        metavar="N",
        group=RARE,
        help=f"count N windows of each case (default: {measuring.WINDOWS}, with --matrix"
        f" {measuring.MATRIX_WINDOWS})",
    )
    paths: int | None = option(
        "--paths",
        type=values.windows,
        metavar="N",
        group=RARE,
        help=f"keep the paths of N windows of each case (default: {measuring.PATHS}, with --matrix"
        f" {measuring.MATRIX_PATHS})",
    )
    randomise: bool = flag(
        "--randomise", group=RARE, help="leave KASLR and stack-offset randomisation on"
    )
    seed: int = option(
        "--seed", default=1, type=values.seed, metavar="N", group=RARE, help="the emulator's seed"
    )
    memory: int | None = option("--memory", **measuring.MEMORY)
    console: Path | None = path_option(
        "--console", group=RARE, help="write the guest's console to FILE"
    )
    self_check: bool = flag(
        "--self-check",
        group=RARE,
        help="compare with a second way of counting, and with the machine's own counter (slow)",
    )

    def case_words(self, arch: Arch) -> list[str]:
        """The words for catalogue.choose(), with those of --matrix and --preset."""
        words = super().case_words(arch)
        return [*words, *preset(arch, self.preset)] if self.preset else words

    def measurement(self, arch: Arch) -> ExactOptions:
        """What to measure, and how; UserError for cases that `arch` does not have."""
        exact = super().measurement(arch)
        words = self.case_words(arch)
        names = [name for length in self.vl for name in choose(arch, words, length)]
        return replace(
            exact,
            cases=tuple(dict.fromkeys(names)) or exact.cases,
            windows=self.windows or exact.windows,
            path_windows=self.paths or exact.path_windows,
            randomise=self.randomise,
            seed=self.seed,
            memory=self.memory or exact.memory,
            check=self.self_check,
            console_file=self.console,
        )


def run(options: Options) -> int:
    """Measures, writes, prints."""
    for file in filter(None, (options.output, options.console)):
        measuring.check_writable(file)
    recording = measuring.record(options.spec, options)
    if options.json:
        sys.stdout.write(dump(to_json(recording)))
    elif options.changelog:
        sys.stdout.write(recording_changelog(recording))
    else:
        sys.stdout.write(recording_text(recording))
    if options.output:
        write_recording(recording, options.output)
    return EXIT_DONE
