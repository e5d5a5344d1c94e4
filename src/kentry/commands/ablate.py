# SPDX-License-Identifier: GPL-2.0-or-later
"""kentry ablate: what each config option adds to the path."""

from dataclasses import dataclass, replace

from kentry.arch import Arch
from kentry.commands import measuring
from kentry.commands.emit import emit
from kentry.commands.options import operand, option
from kentry.count import cache
from kentry.errors import EXIT_DONE, BuildError, GuestError, KernelError, UserError
from kentry.kernels import build
from kentry.kernels.build import knows_option
from kentry.kernels.config import Option, Request, entry_options, parse_options
from kentry.kernels.repository import Revision
from kentry.kernels.resolve import resolve_source
from kentry.kernels.spec import parse
from kentry.progress import Update, progress
from kentry.results.recording import Recording
from kentry.show.ablation import ablation_layout
from kentry.study.ablation import Trial, tabulate

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
        "--options",
        metavar="LIST",
        help="config options with commas, or a file with one on each line (default: those that"
        " shape kernel entry)",
    )


def run(options: Options) -> int:
    """Builds and measures the base and each option, prints the table."""
    candidates = parse_options(options.options) if options.options else entry_options()
    bench = _Bench(options)
    with progress(f"{options.spec} ({bench.arch.name})") as update:
        base = bench.record((), update)
    config = base.kernel["config"]
    # An option that the user names must be in the source; one of kentry's own list may be missing.
    tried = [
        one
        for one in candidates
        if options.options or knows_option(bench.revision, one.name, bench.arch)
    ]
    missing = [one.name for one in candidates if one not in tried]
    trials: list[Trial] = []
    for number, one in enumerate(tried, start=1):
        with progress(f"{number} of {len(tried)}: {one.name}") as update:
            trials.append(bench.try_option(one, config, update))
    ablation = tabulate(base, trials, missing)
    emit(
        options,
        lambda: ablation_layout(ablation, options.verbose, options.rows_shown),
        lambda: ablation,
    )
    return EXIT_DONE


class _Bench:
    """The source that all kernels are built from, and how they are measured."""

    def __init__(self, options: Options) -> None:
        self._options = options
        self.arch: Arch = options.find_arch()
        self._measurement = options.measurement(self.arch)
        self._request: Request = options.request().chosen(parse(options.spec).options)
        with progress(options.spec) as update:
            self.revision: Revision = resolve_source(options.spec, update)

    def record(self, sets: tuple[str, ...], update: Update) -> Recording:
        """Builds with `sets` on top of what the user set, boots, measures."""
        words = {word.partition("=")[0]: word for word in (*self._request.sets, *sets)}
        request = replace(self._request, sets=tuple(words.values()))
        kernel = build.kernel(self._options.spec, self.revision, self.arch, request, update)
        reuse = not self._options.fresh
        return cache.record(kernel, self.arch, self._measurement, update, reuse=reuse)

    def try_option(self, option: Option, config: dict[str, str], update: Update) -> Trial:
        """The option off and on; a kernel that cannot be built or booted is the row's problem."""

        def is_on(config: dict[str, str]) -> bool:
            return config.get(option.name.removeprefix("CONFIG_")) == option.value

        off = on = None
        problem = ""
        try:
            on = self.record(option.on(), update)
            try:
                off = self.record(option.off(), update)
            except BuildError:
                # An option of a choice cannot be set to n.  It is off if it is not asked for.
                off = self.record(option.needs, update)
                if is_on(off.kernel["config"]):
                    raise
        except (BuildError, GuestError, KernelError, UserError) as err:
            off = on = None
            problem = err.sentence
        return Trial(option.name, is_on(config), option.needs, off, on, problem)
