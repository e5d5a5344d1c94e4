# SPDX-License-Identifier: GPL-2.0-or-later
"""kentry ablate: what each config option adds to the path."""

from __future__ import annotations

import argparse
import sys
from dataclasses import replace
from typing import TYPE_CHECKING

from kentry.commands import measuring
from kentry.errors import EXIT_DONE, BuildError, GuestError, KernelError, UserError

if TYPE_CHECKING:
    from kentry.arch import Arch
    from kentry.compare.ablation import Trial
    from kentry.kernels.config import Request
    from kentry.kernels.options import Option
    from kentry.kernels.repository import Revision
    from kentry.model.recording import Recording
    from kentry.progress import Update

NAME = "ablate"
HELP = "build with each config option off and on: what it adds to the path"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The command's arguments."""
    parser.add_argument("spec", metavar="SPEC", help="a source: source:6.12 or tree:DIR[@REV]")
    parser.add_argument(
        "--options",
        metavar="FILE|CONFIG_A,...",
        help="the options, or a file with one a line; without it those that shape kernel entry",
    )
    parser.add_argument("--json", action="store_true", help="print kentry/ablation/1")
    parser.add_argument(
        "--functions",
        action="store_true",
        help="print each option's function deltas below the table; -v does, too",
    )
    parser.add_argument(
        "--fresh", action="store_true", help="measure again even what is in the cache"
    )
    measuring.add_arguments(parser)


def run(args: argparse.Namespace) -> int:
    """Builds and measures the base and each option, prints the table."""
    from kentry.compare.ablation import tabulate, to_json
    from kentry.kernels.options import built_in, parse_options
    from kentry.model.recording import dump
    from kentry.progress import progress
    from kentry.report.ablation import ablation_text

    options = parse_options(args.options) if args.options else built_in()
    bench = _Bench(args)
    with progress(f"{args.spec} ({bench.arch.name})") as update:
        base = bench.record((), update)
    config = base.kernel["config"]
    known, passed_over = options, []
    if not args.options:
        known = [option for option in options if bench.knows(option.name)]
        passed_over = [option.name for option in options if option not in known]
    trials: list[Trial] = []
    for number, option in enumerate(known, start=1):
        with progress(f"{number} of {len(known)}: {option.name}") as update:
            trials.append(bench.try_option(option, config, update))
    ablation = tabulate(base, trials, passed_over)
    if args.json:
        sys.stdout.write(dump(to_json(ablation)))
    else:
        sys.stdout.write(ablation_text(ablation, functions=args.functions or args.verbose))
    return EXIT_DONE


class _Bench:
    """The source that all kernels are built from, and how they are measured."""

    def __init__(self, args: argparse.Namespace) -> None:
        from kentry.kernels.resolve import resolve_source
        from kentry.kernels.spec import parse
        from kentry.progress import progress

        self._args = args
        self.arch: Arch = measuring.arch_of(args)
        self._options = measuring.options_of(args, self.arch)
        self._request: Request = measuring.request_of(args).chosen(parse(args.spec).options)
        with progress(args.spec) as update:
            self._revision: Revision = resolve_source(args.spec, update)

    def knows(self, name: str) -> bool:
        """Whether the source has the option, for this architecture or for all."""
        from kentry.kernels.build import knows_option

        return knows_option(self._revision, name, self.arch)

    def record(self, sets: tuple[str, ...], update: Update) -> Recording:
        """Builds with `sets` on top of what the user set, boots, measures."""
        from kentry.kernels import build

        words = {word.partition("=")[0]: word for word in (*self._request.sets, *sets)}
        request = replace(self._request, sets=tuple(words.values()))
        kernel = build.kernel(self._args.spec, self._revision, self.arch, request, update)
        return measuring.measured(
            kernel, self.arch, self._options, self._args, update, reuse=not self._args.fresh
        )

    def try_option(self, option: Option, config: dict[str, str], update: Update) -> Trial:
        """The option off and on; a kernel that cannot be had is the row's problem."""
        from kentry.compare.ablation import Trial

        on_in_base = config.get(option.name.removeprefix("CONFIG_")) == option.value
        try:
            on = self.record(option.on(), update)
            off = self._without(option, update)
        except (BuildError, GuestError, KernelError, UserError) as err:
            return Trial(option.name, on_in_base, option.needs, problem=err.sentence)
        return Trial(option.name, on_in_base, option.needs, off, on)

    def _without(self, option: Option, update: Update) -> Recording:
        """Off as a user would turn it off; one of a choice is off when it is not asked for."""
        try:
            return self.record(option.off(), update)
        except BuildError:
            found = self.record(option.needs, update)
            if found.kernel["config"].get(option.name.removeprefix("CONFIG_")) == option.value:
                raise
            return found
