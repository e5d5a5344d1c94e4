# SPDX-License-Identifier: GPL-2.0-or-later
"""How far an exact count depends on what is not the kernel: `make contexts`.

Each kernel is measured once as `kentry record` does, and then many times under perturbations that
a user would not call the kernel: memory size, seed, number of windows, which cases run.  Printed
are, for each kernel, how many counts of perturbed contexts the first recording does not list, and
how many pairs of recordings `kentry diff` calls the same in every case.  Both should be 0 and all.

    python bench/contexts.py [--runs 40] [--pairs 1000] [SPEC,ARCH ...]
"""

from __future__ import annotations

import argparse
import random
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from itertools import combinations

from kentry.arch import find_arch
from kentry.compare.contexts import is_listed
from kentry.compare.counted import compare
from kentry.kernels.kernel import Kernel
from kentry.kernels.resolve import resolve
from kentry.measure.catalogue import choose
from kentry.measure.recorder import measure
from kentry.model.recording import Recording
from kentry.report.contexts import recording_context_lines
from kentry.runners.exact import ExactOptions, QemuRunner
from kentry.stats.exact import SAME

KERNELS = (
    *("debian:6.1,arm64", "debian:6.1,x86_64"),
    *(f"debian:6.12,{arch}" for arch in ("arm64", "riscv64", "x86_64")),
    *(f"debian:newest,{arch}" for arch in ("arm64", "riscv64", "x86_64")),
)
MEMORIES = (192, 256, 320, 384, 512, 640, 768, 1024, 1536, 2048)  # MiB
WINDOWS = (100, 200, 333, 1000)
BOOTS_AT_ONCE = 2


def silent(fraction: float | None, now: str) -> None:
    """No progress: a line a kernel is enough."""


def perturbed(cases: tuple[str, ...], runs: int) -> Iterator[ExactOptions]:
    """The usual options, then others, the same each time."""
    yield ExactOptions(cases)
    for run in range(runs):
        draw = random.Random(run)
        some = set(draw.sample(cases, draw.randint(1, len(cases)))) if run % 2 else set(cases)
        yield ExactOptions(
            tuple(case for case in cases if case in some),
            windows=draw.choice(WINDOWS),
            memory=draw.choice(MEMORIES),
            seed=draw.randint(2, 9999),
        )


def recordings(kernel: Kernel, cases: tuple[str, ...], runs: int) -> list[Recording]:
    runner = QemuRunner(find_arch(kernel.arch))
    with ThreadPoolExecutor(BOOTS_AT_ONCE) as pool:
        options = perturbed(cases, runs)
        return list(pool.map(lambda one: measure(kernel, runner, one, silent), options))


def report(spec: str, arch: str, runs: int, pairs: int) -> None:
    kernel = resolve(spec, find_arch(arch), silent)
    measured = recordings(kernel, tuple(choose(find_arch(arch), ())), runs)
    first, *others = measured
    seen: Counter[str] = Counter()
    outside: dict[str, Counter[int]] = {}
    for case in first.cases:
        for other in filter(None, (recording.case(case.name) for recording in others)):
            for one in other.contexts:
                seen[case.name] += 1
                if not is_listed(case, first, one.value):
                    outside.setdefault(case.name, Counter())[one.value] += 1
    of_pairs = {
        (a, b): common
        for a, b in combinations(range(runs + 1), 2)
        if (common := [c.name for c in measured[a].cases if measured[b].case(c.name)])
    }
    chosen = random.Random(0).sample(sorted(of_pairs), min(pairs, len(of_pairs)))
    differing: Counter[str] = Counter()
    whole = 0
    for a, b in chosen:
        old, new, common = measured[a], measured[b], of_pairs[a, b]
        wrong = [row.name for row in compare(old, new, common).cases if row.verdict != SAME]
        differing.update(wrong)
        whole += not wrong
    print(
        f"{spec} {arch}: {len(seen)} cases, {len(others)} perturbed runs, {seen.total()} contexts:"
        f" {sum(map(Counter.total, outside.values()))} counts outside their list;"
        f" {whole} of {len(chosen)} pairs the same",
        flush=True,
    )
    for line in recording_context_lines(first, first.cases):
        print(line)
    for case in first.cases:
        if case.name in outside:
            print(f"  {case.name}: outside the list: {dict(outside[case.name])}")
        if case.name in differing:
            print(f"  {case.name}: another verdict than same in {differing[case.name]} pairs")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("kernels", nargs="*", metavar="SPEC,ARCH", default=KERNELS)
    parser.add_argument("--runs", type=int, default=40, help="perturbed runs of each kernel")
    parser.add_argument("--pairs", type=int, default=125, help="pairs of recordings of each kernel")
    options = parser.parse_args()
    for one in options.kernels:
        spec, arch = one.split(",")
        report(spec, arch, options.runs, options.pairs)


if __name__ == "__main__":
    main()
