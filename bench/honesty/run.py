#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-or-later
"""How often kentry is wrong about time, on this machine, and how often its peers would be.

simulated  verdicts on made-up noise, whose truth is known
A/A        `getppid` against itself: every "better" and "worse" is false; one run in ten is the
           command itself
power      `getppid` against itself with one more call every 400, 200, 100, 50
sessions   `getppid` in all slots: kentry's A B B A, and what lat_syscall, UnixBench and perf
           bench would make of the same samples, one half of the time after the other
perf       the real `perf bench syscall basic`, twice, then kentry for as long

All kinds are done in turn, so that each sees the same hours.  Results are kept after each step:
run again, it goes on where it was interrupted, and prints the table at once where nothing is left.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

if __package__ in (None, ""):
    sys.path[0] = str(Path(__file__).resolve().parents[2])

from bench.honesty.peers import CASE
from bench.honesty.perf import open_perf
from bench.honesty.real import Bench
from bench.honesty.results import Results, Step, key_of, open_results
from bench.honesty.simulated import NOISES, simulate
from bench.honesty.table import Injected, table
from kentry.arch import host_arch
from kentry.commands.stat import COMPARE_SECONDS
from kentry.errors import EXIT_MISTAKE, KentryError
from kentry.host.native import probe_file
from kentry.machines.machine import MachineOptions
from kentry.machines.open import open_machine
from kentry.progress import Update, progress
from kentry.show.table import plain, wrapped
from kentry.stats import THRESHOLD
from kentry.time import preflight
from kentry.time.preflight import Facts, describe, gather
from kentry.time.sampling import Settings

# The default threshold would call 0.25 % none.
INJECTED = (
    Injected(400, 0.001, None),
    Injected(200, THRESHOLD, 60.0),
    Injected(100, THRESHOLD, 30.0),
    Injected(50, THRESHOLD, 30.0),
)
# Groups, looks, change: of made-up runs.
PLANS = ((30, 1, 0.0), (100, 5, 0.0), (100, 5, 0.01))
# One A/A run in this many is the command.
COMMAND_EVERY = 10
# A session is so long, seconds, and cut into comparisons of these lengths.
SESSION, LENGTHS = 24.0, (4.0, 8.0)
PERF_SECONDS = 1.5  # a run


@dataclass(frozen=True)
class Kind:
    """Steps of a kind: how many are wanted, and what makes the one with a number."""

    name: str
    wanted: int
    make: Callable[[int], Step]


def kinds_of(bench: Bench, args: argparse.Namespace) -> tuple[list[Kind], str]:
    """Everything that measures, and why perf bench is not among it."""

    def no_change(number: int) -> Step:
        last = number % COMMAND_EVERY == COMMAND_EVERY - 1
        return bench.command() if last else bench.compare(CASE)

    def slower(one: Injected) -> Callable[[int], Step]:
        return lambda number: bench.compare(f"{CASE}+extra={one.kind}", one.threshold)

    sessions = round(args.session_seconds / SESSION)
    kinds = [Kind("A/A", args.runs, no_change)]
    kinds += [Kind(one.kind, args.power_runs, slower(one)) for one in INJECTED]
    kinds.append(Kind("session", sessions, lambda number: bench.session(SESSION, LENGTHS)))
    if not args.perf_rounds:
        return kinds, "not asked for"
    perf, why = open_perf(bench.settings.cpu, PERF_SECONDS)
    if perf:
        kinds.append(Kind("perf", args.perf_rounds, lambda number: bench.beside_perf(perf)))
    return kinds, why


def next_kind(kinds: Sequence[Kind], results: Results) -> Kind | None:
    """The one of which the smallest share is done; None when all are."""
    left = [kind for kind in kinds if len(results.of(kind.name)) < kind.wanted]
    if not left:
        return None
    return min(left, key=lambda kind: (len(results.of(kind.name)) + 0.5) / kind.wanted)


def measure(kinds: Sequence[Kind], results: Results, update: Update) -> None:
    """Step after step, each kept at once."""
    wanted = sum(kind.wanted for kind in kinds)
    while kind := next_kind(kinds, results):
        done = len(results.of(kind.name))
        so_far = sum(min(len(results.of(one.name)), one.wanted) for one in kinds)
        update(so_far / wanted, f"{kind.name} {done + 1} of {kind.wanted}")
        results.add(kind.name, kind.make(done))


def simulate_all(results: Results, runs: int, update: Update) -> None:
    """Every kind of noise under every plan, with `runs` runs each."""
    steps = [step for step in results.of("simulated") if step["runs"] == runs]
    done = {(step["noise"], step["groups"], step["looks"], step["change"]) for step in steps}
    todo = [(noise, *plan) for plan in PLANS for noise in NOISES]
    for number, (noise, groups, looks, change) in enumerate(todo):
        if (noise, groups, looks, change) in done:
            continue
        update(number / len(todo), f"made-up noise: {noise}")
        rates = simulate(noise, groups, looks=looks, change=change, runs=runs)
        steps.append(
            {
                "noise": noise,
                "groups": groups,
                "looks": looks,
                "change": change,
                "runs": runs,
                "better": round(rates.better * runs),
                "worse": round(rates.worse * runs),
                "same": round(rates.same * runs),
                "covered": rates.covered,
                "seconds": rates.seconds,
            }
        )
        results.replace("simulated", steps)


def head_lines(facts: Facts, release: str, cpu: int) -> list[str]:
    """Which machine, and what keeps it from being quiet."""
    target = describe(facts)
    words = [target.get(key) for key in ("cpu_model", "machine", "hypervisor")]
    machine = ", ".join(plain(str(word)) for word in words if word)
    lines = ["kentry's honesty", f"Linux {release}", *wrapped(f"{machine}, cpu {cpu}", width=79)]
    for one in preflight.check(facts):
        lines += wrapped(f"warning: {one.text}", then="      ", width=79)
    return lines


def parse_arguments(words: Sequence[str] | None) -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--runs", type=int, default=200, help="A/A comparisons (200)")
    parser.add_argument("--power-runs", type=int, default=40, help="of each size (40)")
    parser.add_argument("--seconds-a-run", type=float, default=COMPARE_SECONDS, help="at most (30)")
    parser.add_argument("--session-seconds", type=float, default=300.0, help="in all (300)")
    parser.add_argument("--perf-rounds", type=int, default=30, help="of two runs each (30)")
    parser.add_argument("--simulated", type=int, default=1000, help="runs of each noise (1000)")
    parser.add_argument("--cpu", type=int, help="the cpu to measure on")
    parser.add_argument("--quick", action="store_true", help="a few of each, two minutes")
    parser.add_argument("--results", type=Path, help="the results file (one in the cache)")
    args = parser.parse_args(words)
    if args.quick:
        args.runs, args.power_runs, args.perf_rounds = 10, 2, 4
        args.session_seconds, args.simulated = SESSION, 100
    return args


def run(args: argparse.Namespace) -> int:
    """Measures what is left, prints the table; 1 where a bar is missed."""
    with open_machine("local", MachineOptions()) as place:
        with progress("reading facts of this machine"):
            facts = gather(place, args.cpu)
        release = Path("/proc/sys/kernel/osrelease").read_text(encoding="ascii").strip()
        settings = {"cpu": args.cpu, "seconds": args.seconds_a_run}
        machine = str(describe(facts).get("cpu_model", ""))
        key = key_of(probe_file(host_arch()), release, machine, settings)
        results = open_results(key, args.results)
        print(f"results: {results.file}", file=sys.stderr, flush=True)
        cpu = chosen_cpu(results, args.cpu, facts.cpu)
        with progress("simulating") as update:
            simulate_all(results, args.simulated, update)
        bench = Bench(place, Settings(cpu=cpu), args.seconds_a_run, command_options(args))
        kinds, why_no_perf = kinds_of(bench, args)
        with progress("measuring") as update:
            measure(kinds, results, update)
    head = head_lines(facts, release, cpu)
    report = table(head, results.steps, INJECTED, args.seconds_a_run, why_no_perf)
    sys.stdout.write(str(report))
    return 1 if report.missed else 0


def command_options(args: argparse.Namespace) -> tuple[str, ...]:
    """What the command must be told for it to do as the others do."""
    words = () if args.cpu is None else ("--cpu", str(args.cpu))
    return (
        words
        if args.seconds_a_run == COMPARE_SECONDS
        else (*words, "--for", f"{args.seconds_a_run:g}s")
    )


def chosen_cpu(results: Results, asked: int | None, found: int | None) -> int:
    """The cpu that was asked for, or that these results began with, or that was found now."""
    if asked is not None:
        return asked
    if not results.of("cpu"):
        results.add("cpu", {"cpu": -1 if found is None else found, "seconds": 0.0})
    return int(results.of("cpu")[0]["cpu"])


def main(words: Sequence[str] | None = None) -> int:
    """The command."""
    try:
        return run(parse_arguments(words))
    except KentryError as err:
        print(f"{err}\n{err.detail}".rstrip(), file=sys.stderr)
        return EXIT_MISTAKE
    except KeyboardInterrupt:
        print("interrupted: run it again to go on", file=sys.stderr)
        return 130


if __name__ == "__main__":
    raise SystemExit(main())
