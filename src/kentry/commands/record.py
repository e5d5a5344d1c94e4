# SPDX-License-Identifier: GPL-2.0-or-later
"""kentry record: boot a kernel, measure, write a recording."""

from dataclasses import dataclass, replace
from pathlib import Path

from kentry.arch import Arch, find_arch
from kentry.boot.exact import ExactOptions
from kentry.commands import measuring, values
from kentry.commands.emit import emit
from kentry.commands.options import RARE, flag, operand, option, path_option
from kentry.compare.counted import added_by_states
from kentry.count.catalogue import cases_of_file, catalogue
from kentry.errors import KentryError, UserError
from kentry.host.native import probe_with_case
from kentry.path.calls import split_calls
from kentry.results.recording import Recording, to_file, write_recording
from kentry.show.changelog import recording_changelog
from kentry.show.recording import recording_layout

EXAMPLES = (
    "kentry record debian:6.12 -o 6.12.json",
    "kentry record debian:6.12 --arch riscv64 --case getppid,read",
    "kentry record tree:~/linux@HEAD --arch arm64 --matrix vector -o head.json",
)


@dataclass(frozen=True, kw_only=True)
class Options(measuring.MatrixOptions, measuring.CoreOptions):
    """What `kentry record` takes."""

    spec: str = operand(metavar="SPEC", help=measuring.SPEC_HELP)
    output: Path | None = path_option("-o", "--output", help="write the recording to FILE")
    floor: bool = flag(
        "--floor",
        group=RARE,
        needs={
            "with --json or --changelog: it adds a column to the table": lambda options: (
                not (options.json or options.changelog)
            ),
            "on the floor itself": lambda options: not options.spec.startswith("floor"),
        },
        help="print how many times the least that a system call can cost each case has",
    )
    case_file: Path | None = path_option(
        "--case-file",
        group=RARE,
        help="compile the case in FILE, a C file like those in guest/cases/, and measure it",
    )
    paths: int | None = option(
        "--paths N",
        type=values.windows,
        group=RARE,
        help=f"keep the paths of N windows of each case (default: {measuring.PATHS}, with --matrix"
        f" {measuring.MATRIX_PATHS})",
    )
    randomise: bool = flag(
        "--randomise", group=RARE, help="leave KASLR and stack-offset randomisation on"
    )
    seed: int = option(
        "--seed N", default=1, type=values.seed, group=RARE, help="the emulator's seed"
    )
    memory: int | None = option("--memory MIB", **measuring.MEMORY)
    console: Path | None = path_option(
        "--console", group=RARE, help="write the guest's console to FILE"
    )
    self_check: bool = flag(
        "--self-check",
        group=RARE,
        help="compare with a second way of counting, and with the machine's own counter (slow)",
    )

    def measurement(self, arch: Arch) -> ExactOptions:
        """Returns what to measure, and how; UserError for cases that `arch` does not have."""
        probe = probe_with_case(arch, self.case_file) if self.case_file else None
        own = cases_of_file(arch, self.case_file, probe) if self.case_file and probe else []
        of_kentry = replace(self, case=tuple(name for name in self.case if name not in own))
        exact = super(Options, of_kentry).measurement(arch)
        others = exact.cases if not own or of_kentry.case_words(arch) else ()
        return replace(
            exact,
            probe=probe,
            cases=(*others, *own),
            path_windows=self.paths or exact.path_windows,
            randomise=self.randomise,
            seed=self.seed,
            memory=self.memory or exact.memory,
            check=self.self_check,
            console_file=self.console,
        )


def run(options: Options) -> None:
    """Measures, writes, prints."""
    for file in filter(None, (options.output, options.console)):
        measuring.check_writable(file)
    measuring.check_kernel(options.spec)
    options.check_cores()
    floor = measuring.floor_counts(options.spec, options) if options.floor else {}
    recording = measuring.record(options.spec, options)
    if options.case_file:
        _check_entries(recording, options.case_file)
    failure = None
    try:
        with options.estimating():
            recording = options.with_misses(options.with_estimates(recording))
    except KentryError as err:
        # What was measured is printed and written.
        failure = err
    emit(
        options,
        lambda: recording_layout(recording, floor, added_by_states(recording)),
        lambda: to_file(recording),
        lambda: recording_changelog(recording),
    )
    if options.output:
        write_recording(recording, options.output)
    if failure:
        raise failure


def _check_entries(recording: Recording, file: Path) -> None:
    """Raises UserError where a user's own case enters the kernel more often in some windows."""
    known = {case.name for case in catalogue(find_arch(recording.kernel["arch"]))}
    for case in recording.cases:
        if case.name in known:
            continue
        entries = {len(list(split_calls(recording.instructions(path)))) for path in case.paths}
        if len(entries) > 1:
            raise UserError(
                f"{case.name} of {file} enters the kernel {min(entries)} to {max(entries)} times"
                " a window.",
                "Let its run() do the same in every window; setup() runs before them.",
            )
