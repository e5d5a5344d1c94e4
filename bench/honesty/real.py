# SPDX-License-Identifier: GPL-2.0-or-later
"""Steps that measure this machine, each made by what `kentry stat --compare` runs."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from dataclasses import dataclass

from bench.honesty.peers import (
    CASE,
    NO_CHANGE,
    all_differences,
    by_group,
    kentry_comparison,
    windows,
)
from bench.honesty.perf import PerfBench
from bench.honesty.results import Step
from kentry.errors import EXIT_DONE, EXIT_UNDECIDED, MachineError
from kentry.machines.machine import Machine
from kentry.stats import THRESHOLD
from kentry.stats.exact import UNDECIDED
from kentry.time.measurements import Pair, Schedule, compare_cases, pairs_sampler
from kentry.time.sampling import PILOT_GROUPS, Output, Sampler, Settings

# Half of an interval with this confidence is one standard error, but for Student's t.
_ONE_ERROR = 0.6827


@dataclass(frozen=True)
class Bench:
    """This machine, and how long a comparison may take, seconds.

    `options` are words of the command, for what is not as it has it by default.
    """

    place: Machine
    settings: Settings
    seconds: float
    options: tuple[str, ...] = ()

    def compare(self, new: str, threshold: float = THRESHOLD) -> Step:
        """CASE against `new`, as the command compares them."""
        pair, output = Pair(CASE, new), Output()
        sampler = self._sampler(pair, output)
        begun = time.monotonic()
        ending = compare_cases(
            sampler, [pair], Schedule(self.seconds, threshold), lambda fraction, now: None
        )
        seconds = time.monotonic() - begun
        (estimate,) = ending.rows
        assert estimate
        step = {
            "via": "compare_cases",
            "verdict": estimate.verdict,
            "effect": estimate.effect,
            "look": ending.look.number,
            "groups": ending.done,
            "seconds": seconds,
            **_at_once(output, pair),
        }
        if new == CASE:
            step["differences"] = all_differences(list(output.processes.values()))
        return step

    def command(self) -> Step:
        """CASE against itself by `kentry stat`; its exit status is held against its verdict."""
        words = [sys.executable, "-m", "kentry", "stat", "--compare", CASE, CASE, "--json", "-q"]
        begun = time.monotonic()
        ran = subprocess.run([*words, *self.options], capture_output=True, text=True, check=False)
        seconds = time.monotonic() - begun
        if ran.returncode not in (EXIT_DONE, EXIT_UNDECIDED):
            raise MachineError(f"kentry stat ended with status {ran.returncode}.", "", ran.stderr)
        row = json.loads(ran.stdout)["cases"][0]
        expected = EXIT_UNDECIDED if row["verdict"] == UNDECIDED else EXIT_DONE
        return {
            "via": "command",
            "verdict": row["verdict"],
            "effect": row["percent_of_old"] / 100,
            "seconds": seconds,
            "status_is_right": ran.returncode == expected,
        }

    def session(self, seconds: float, lengths: tuple[float, ...]) -> Step:
        """CASE in all slots for so long, cut into comparisons of these lengths, seconds."""
        output = Output()
        sampler = self._sampler(NO_CHANGE, output)
        sampler.run(PILOT_GROUPS)
        output.processes.clear()
        begun = time.monotonic()
        groups = max(1, int(seconds / sampler.seconds_a_group))
        sampler.run(groups)
        took = time.monotonic() - begun
        pairs = list(output.processes.values())
        found: Step = {"seconds": took, "groups": groups}
        for length in lengths:
            each = max(2, round(len(by_group(pairs)) * length / took))
            found[f"{length:g}"] = [all_differences(part) for part in windows(pairs, each)]
        return found

    def beside_perf(self, perf: PerfBench) -> Step:
        """Two runs of perf bench, then kentry for as long as both took."""
        begun = time.monotonic()
        values = [perf.ns(), perf.ns()]
        both = time.monotonic() - begun
        begun = time.monotonic()
        output = Output()
        sampler = self._sampler(NO_CHANGE, output)
        sampler.run(PILOT_GROUPS)
        left = both - (time.monotonic() - begun)
        sampler.run(max(2, int(left / sampler.seconds_a_group)))
        return {
            "perf": values[1] / values[0] - 1,
            "perf_ns": values,
            "perf_seconds": both,
            "kentry": kentry_comparison(list(output.processes.values())).effect,
            "seconds": time.monotonic() - begun + both,
        }

    def _sampler(self, pair: Pair, output: Output) -> Sampler:
        return pairs_sampler(self.place, [pair], self.settings, output)


def _at_once(output: Output, pair: Pair) -> Step:
    """What this run would have said, had nobody looked before: interval, standard error."""
    pairs = list(output.processes.values())
    low, high = kentry_comparison(pairs, _ONE_ERROR, pair).interval
    whole = kentry_comparison(pairs, pair=pair)
    return {"interval": list(whole.interval), "error": (high - low) / 2}
