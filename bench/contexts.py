# SPDX-License-Identifier: GPL-2.0-or-later
"""How far an exact count depends on what is not the kernel: `make contexts`.

Each kernel is measured once as `kentry record` does, and then many times under perturbations that
a user would not call the kernel: memory size, seed, number of windows, which cases run.  A table at
the end says, for each kernel, how many counts of perturbed contexts the first recording does not
list, and how many pairs of recordings `kentry diff` calls the same in every case that settles: 0
and all, if the contexts suffice.  Of these pairs `metrics` have no metric that is better or worse
(--metric all), and `check` pass a budget of +0 for every metric of the cases that settle.  Another
table has the cases with several counts.  The last lines say, for the first kernel, how many counts
would not be listed without each part of the contexts.

    python -m bench.contexts [--runs 40] [--pairs 125] [SPEC,ARCH ...]
"""

from __future__ import annotations

import argparse
import random
import subprocess
import time
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from itertools import combinations
from pathlib import Path

from msgspec import structs

from kentry.arch import find_arch
from kentry.boot.exact import ExactOptions, QemuRunner
from kentry.compare.counted import ALL, compare
from kentry.count.catalogue import choose
from kentry.count.recorder import measure
from kentry.host.cache import scratch_folder
from kentry.kernels.kernel import Kernel
from kentry.kernels.resolve import resolve
from kentry.path.symbols import why_in_context
from kentry.path.variation import (
    calls_by_context,
    functions_by_context,
    loop_bodies,
    settles,
    varying,
)
from kentry.results import caveats
from kentry.results.recording import INSTRUCTIONS, CaseResult, Recording
from kentry.show.beside import recording_context_blocks
from kentry.show.blocks import Block, Column, Prose, Table, text_column
from kentry.show.text import written
from kentry.stats.exact import BETTER, SAME, UNDECIDED, WORSE
from kentry.study.plan import Unit, outcomes, perform

KERNELS = (
    *("debian:6.1,arm64", "debian:6.1,x86_64"),
    *(f"debian:6.12,{arch}" for arch in ("arm64", "riscv64", "x86_64")),
    *(f"debian:newest,{arch}" for arch in ("arm64", "riscv64", "x86_64")),
)
MEMORIES = (192, 256, 320, 384, 512, 640, 768, 1024, 1536, 2048)  # MiB
WINDOWS = (50, 100, 333)
PATH_WINDOWS = (64, 256)
RECORDINGS_AT_ONCE = 2
# A case and its verdict.
Row = tuple[str, str]
GUEST = Path(__file__).parents[1] / "guest"
# What is left out of the contexts of a build, guest/context.c.
LEFT_OUT = {"the tasks": "MOST_NEW_TASKS=0", "the sleep": "MOST_SLEEP_NS=0"}
SEEDS = (1, 2, 3)


def listed(case: CaseResult, recording: Recording, most: int) -> Set[int]:
    """The counts up to `most` that the case can have by what was seen in its contexts.

    Those are the lengths of its recorded paths, and sums of what its functions executed: each call
    of one that varies adds one of its counts, or some rounds of its loop, to those of the others.
    """
    lengths = {path.length for path in case.paths}
    values = {*case.values, case.metrics[INSTRUCTIONS].value} | lengths
    by_context = calls_by_context(case, recording)[INSTRUCTIONS]
    if not by_context:
        return values
    several = varying(functions_by_context(case, recording))
    bodies = loop_bodies(case, recording, several)
    sums = {
        sum(sum(n) for name, n in next(iter(by_context.values())).items() if name not in several)
    }
    for name in several:
        calls = [own.get(name, ()) for own in by_context.values()]
        if len({len(counts) for counts in calls}) > 1:
            calls = [(sum(counts),) for counts in calls]
        for counts in map(set, zip(*calls, strict=True)):
            body = bodies.get(name)
            can_be = range(min(counts), most + 1, body) if body else sorted(counts)
            sums = {total + count for total in sums for count in can_be if total + count <= most}
    return sums | values


def silent(fraction: float | None, now: str) -> None:
    """No progress: a line a kernel is enough."""


def perturbed(cases: Sequence[str], runs: int) -> Iterator[ExactOptions]:
    """Other options than the usual ones, the same each time.

    Every case is in every run: every other one is two recordings, each of some of the cases.
    """
    for run in range(runs):
        draw = random.Random(run)
        some = set(draw.sample(cases, draw.randint(1, len(cases) - 1))) if run % 2 else set(cases)
        for chosen in filter(None, (some, set(cases) - some)):
            yield ExactOptions(
                tuple(case for case in cases if case in chosen),
                windows=draw.choice(WINDOWS),
                path_windows=draw.choice(PATH_WINDOWS),
                memory=draw.choice(MEMORIES),
                seed=draw.randint(100, 9999),
            )


def recordings(kernel: Kernel, several: Iterable[ExactOptions]) -> list[Recording]:
    """Recordings of both boots, from the cache where they are; RuntimeError where one failed."""
    units = [
        Unit(spec=kernel.spec, arch=kernel.arch, measurement=one, source=kernel) for one in several
    ]
    with ThreadPoolExecutor(RECORDINGS_AT_ONCE) as threads:
        performed = dict(outcomes(perform, units, silent, threads))
    measured = [performed[place].measured(unit) for place, unit in enumerate(units)]
    for one in (caveat for recording in measured for caveat in recording.caveats):
        if one["kind"] == caveats.one_boot.kind:
            raise RuntimeError(one["text"])
    return measured


def outside(first: Recording, others: Sequence[Recording]) -> dict[str, Counter[int]]:
    """The counts of other recordings that the first does not list, for each case."""
    found: dict[str, Counter[int]] = {}
    for case in first.cases:
        same = filter(None, (recording.case(case.name) for recording in others))
        seen = Counter(one.value for other in same for one in other.contexts)
        known = listed(case, first, max(seen, default=0))
        if unlisted := {count: times for count, times in seen.items() if count not in known}:
            found[case.name] = Counter(unlisted)
    return found


def verdicts(measured: Sequence[Recording], pairs: int) -> tuple[Counter[str], Counter[Row]]:
    """How many pairs are the same, by column of the table, and the verdicts of all cases."""
    common = {
        (a, b): [case.name for case in old.cases if new.case(case.name)]
        for (a, old), (b, new) in combinations(enumerate(measured), 2)
    }
    drawn = sorted(pair for pair, cases in common.items() if cases)
    same: Counter[str] = Counter()
    found: Counter[Row] = Counter()
    for a, b in random.Random(0).sample(drawn, min(pairs, len(drawn))):
        comparison = compare(measured[a], measured[b], common[a, b], [ALL])
        rows = [
            (row, caveats.unsettled.kind in {one["kind"] for one in row.caveats})
            for row in comparison.cases
        ]
        restless = {row.name for row, is_restless in rows if is_restless}
        metrics = [row for row in comparison.metrics if row.name not in restless]
        same["pairs"] += 1
        same["same"] += all(row.verdict == SAME for row, is_restless in rows if not is_restless)
        # Neither better nor worse, of any metric of any case.
        same["metrics"] += {row.verdict for row in comparison.metrics}.isdisjoint({BETTER, WORSE})
        # What a budget of +0 against the other recording needs.
        same["check"] += all(row.change == (0, 0) for row in metrics)
        found.update((row.name, row.verdict) for row, _ in rows)
        found.update((f"{row.name} {row.metric}", row.verdict) for row in metrics)
    return same, found


def seconds(kernel: Kernel, options: ExactOptions) -> float:
    """The time of a record: the less of two, with nothing beside it."""
    times = []
    for _ in range(2):
        began = time.perf_counter()
        measure(kernel, QemuRunner(find_arch(kernel.arch)), options, silent)
        times.append(time.perf_counter() - began)
    return min(times)


@dataclass(frozen=True)
class Result:
    """A kernel, what `kentry record` lists of it, and what the perturbed runs saw beside it."""

    kernel: Kernel
    first: Recording
    others: list[Recording]
    unlisted: dict[str, Counter[int]]
    same: Counter[str]
    verdicts: Counter[Row]

    @property
    def name(self) -> str:
        return f"{self.kernel.spec} {self.kernel.arch}"

    def counts(self, name: str) -> set[int]:
        """Every context's count of a case, in all recordings."""
        seen = filter(None, (one.case(name) for one in (self.first, *self.others)))
        return {context.value for case in seen for context in case.contexts}


def settled(recording: Recording) -> tuple[str, ...]:
    """Of the other cases a comparison says `undecided`, whatever their contexts."""
    return tuple(case.name for case in recording.cases if settles(case))


def evaluated(kernel: Kernel, first: Recording, others: list[Recording], pairs: int) -> Result:
    same, rows = verdicts([first, *others], pairs)
    return Result(kernel, first, others, outside(first, others), same, rows)


def report(spec: str, arch: str, runs: int, pairs: int) -> Result:
    kernel = resolve(spec, find_arch(arch), silent)
    usual = ExactOptions(tuple(choose(find_arch(arch), ())))
    whole, one_context = (seconds(kernel, replace(usual, rounds=n)) for n in (usual.rounds, 1))
    [first] = recordings(kernel, [ExactOptions(tuple(choose(find_arch(arch), ["*"])))])
    cases = settled(first)
    result = evaluated(kernel, first, recordings(kernel, perturbed(cases, runs)), pairs)
    print(
        f"{result.name}: a record of the {len(usual.cases)} cases without a group takes"
        f" {whole:.1f} s, {whole / one_context:.2f} x that in one context",
        flush=True,
    )
    for name, counts_outside in result.unlisted.items():
        print(written([Prose(f"outside: {name} {dict(counts_outside)}", "  ", "    ")]), end="")
    for verdict in (UNDECIDED, BETTER, WORSE):
        of_it = [
            f"{name} {n}" for (name, one), n in sorted(result.verdicts.items()) if one == verdict
        ]
        if of_it:
            print(written([Prose(f"{verdict}: {', '.join(of_it)}", "  ", "    ")]), end="")
    steady = [one for one in first.cases if settles(one)]
    print(written(recording_context_blocks(first, steady)), end="", flush=True)
    return result


def left_out(result: Result) -> dict[str, list[int]]:
    """How many counts are not listed, by the part that the contexts lack, for SEEDS.

    The usual cases have a recording of their own: some others let the time pass for them, too.
    """
    kernel, others = result.kernel, result.others
    usual = tuple(choose(find_arch(kernel.arch), ()))
    sets = usual, tuple(name for name in settled(result.first) if name not in usual)
    whole = [ExactOptions(cases, windows=100, seed=seed) for seed in SEEDS for cases in sets]
    several = {"nothing": whole}
    several["all but the first context"] = [replace(one, rounds=1) for one in whole]
    with scratch_folder() as folder:
        for number, (part, macro) in enumerate(LEFT_OUT.items()):
            probe = folder / str(number) / f"probe-{kernel.arch}"
            words = [f"CPPFLAGS=-D{macro}", f"OUT={probe.parent}", str(probe)]
            argv = ["make", "-s", "-C", str(GUEST), *words]
            subprocess.run(argv, check=True, capture_output=True)
            several[part] = [replace(one, probe=probe) for one in whole]
        measured = iter(recordings(kernel, [one for part in several.values() for one in part]))
    found = {part: [[next(measured) for _ in sets] for _ in SEEDS] for part in several}
    found["the second boot"] = [
        [structs.replace(one, cases=[of_first_boot(case) for case in one.cases]) for one in of]
        for of in found["nothing"]
    ]
    return {
        part: [sum(total(outside(one, others)) for one in of) for of in by_seed]
        for part, by_seed in found.items()
    }


def of_first_boot(case: CaseResult) -> CaseResult:
    rounds = ExactOptions(()).rounds
    return structs.replace(
        case, contexts=tuple(one for one in case.contexts if one.context < rounds)
    )


def summary(results: Sequence[Result]) -> list[Block]:
    """Two tables: how far each kernel's recording suffices, and which cases have several counts."""
    of_pairs = ("pairs", "same", "metrics", "check")
    numbers = ("cases", "settle", "contexts", "outside", *of_pairs)
    kernels = Table([text_column("kernel"), *map(Column, numbers)])
    for one in results:
        contexts = sum(len(case.contexts) for other in one.others for case in other.cases)
        kernels.row(
            one.name,
            len(one.first.cases),
            len(settled(one.first)),
            contexts,
            total(one.unlisted),
            *(one.same[name] for name in of_pairs),
        )
    reasons: dict[str, dict[str, None]] = {}
    for one in results:
        for case in one.first.cases:
            for function in varying(functions_by_context(case, one.first)):
                if reason := why_in_context(function):
                    reasons.setdefault(case.name, {})[reason] = None
    letters = [f"{number})" for number in range(1, len(results) + 1)]
    cases = Table([text_column("case"), *map(Column, letters), text_column("why", wraps=True)])
    names = dict.fromkeys(case.name for one in results for case in one.first.cases)
    for name in names:
        cells: list[object] = []
        for one in results:
            case_of_first = one.first.case(name)
            if case_of_first is None:
                cells.append(None)
            else:
                cells.append(len(one.counts(name)) if settles(case_of_first) else "never")
        if set(cells) - {None, 1}:
            cases.row(name, *cells, "; ".join(reasons.get(name, ())))
    numbered = [f"{letter} {one.name}" for letter, one in zip(letters, results, strict=True)]
    return [kernels, "", Prose("; ".join(numbered)), "", cases]


def total(unlisted: Mapping[str, Counter[int]]) -> int:
    return sum(map(Counter.total, unlisted.values()))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("kernels", nargs="*", metavar="SPEC,ARCH", default=KERNELS)
    parser.add_argument("--runs", type=int, default=40, help="perturbed runs of each kernel")
    parser.add_argument("--pairs", type=int, default=125, help="pairs of recordings of each kernel")
    options = parser.parse_args()
    named = [one.split(",") for one in options.kernels]
    results = [report(spec, arch, options.runs, options.pairs) for spec, arch in named]
    print("\n" + written(summary(results)), end="")
    print(f"\n{results[0].name}: counts outside its list, seed by seed, without")
    for part, counts in left_out(results[0]).items():
        print(f"  {part}: {', '.join(map(str, counts))}")


if __name__ == "__main__":
    main()
