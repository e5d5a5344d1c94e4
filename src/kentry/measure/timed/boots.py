# SPDX-License-Identifier: GPL-2.0-or-later
"""Two kernels on one machine, by turns: each round boots A, B, B and A in a random order.

A boot is what is sampled: what differs from boot to boot (which pages, which cpu the timer is on)
would else be taken for a difference of the kernels.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass, field

from kentry.compare.groups import pair_groups
from kentry.errors import MachineError
from kentry.kernels.kernel import Kernel
from kentry.measure.timed.analysis import NS, metrics_of
from kentry.measure.timed.comparing import Plan
from kentry.measure.timed.output import Output
from kentry.measure.timed.sampling import Sampler, Settings
from kentry.model.recording import NoisyMetric
from kentry.progress import Update
from kentry.runners.machine import Machine
from kentry.stats.exact import UNDECIDED
from kentry.stats.noisy import Estimate, Look, apply_holm, compare_groups

# Rounds at which a sequential run is looked at: below the first there is no interval.
LEAST_ROUNDS = 6


@dataclass
class Side:
    """One of the kernels: what the probe said on it, in which boot each of its runs was."""

    kernel: str
    output: Output = field(default_factory=Output)
    boots: list[int] = field(default_factory=list)
    booted: Kernel | None = None
    # uname -r and the ELF notes of its first boot.
    identity: tuple[str, bytes] | None = None

    def metrics(self, case: str) -> dict[str, NoisyMetric]:
        """Of all its boots."""
        return metrics_of(self.output, case, self.boots)


@dataclass(frozen=True)
class Boots:
    """How much is measured: cases, groups a boot, and at most so many rounds."""

    cases: Sequence[str]
    groups: int
    rounds: int
    settings: Settings


@dataclass(frozen=True)
class Result:
    """What was found of every case that both have, at the look where it ended."""

    found: dict[str, Estimate]
    look: Look
    looks: int
    rounds: int

    @property
    def options(self) -> dict[str, int]:
        """As a recording has them."""
        return {"rounds": self.rounds, "looks": self.looks, "look": self.look.number}


def compare_kernels(
    place: Machine, sides: tuple[Side, Side], boots: Boots, plan: Plan, update: Update
) -> Result:
    """Boots the two by turns until every case is decided at a planned look, or to the end.

    What was measured is in `sides`, however it ends.
    """
    rounds = max(LEAST_ROUNDS, boots.rounds)
    looks = plan.looks()
    order = random.Random(boots.settings.seed)  # noqa: S311
    done = 0
    for look in looks:
        wanted = max(LEAST_ROUNDS, round(rounds * look.fraction))
        for number in range(done, wanted):
            _round(place, sides, boots, order, number, _of_all(update, number, rounds))
        done = max(done, wanted)
        found = judged(sides, boots.cases, plan, look)
        if found and all(one.verdict != UNDECIDED for one in found.values()):
            break
    return Result(found, look, len(looks), done)


def _of_all(update: Update, number: int, rounds: int) -> Update:
    """What a boot says of itself, with the share of all rounds that is done."""

    def told(fraction: float | None, now: str) -> None:
        update(number / rounds, f"round {number + 1} of at most {rounds}: {now}")

    return told


def _round(
    place: Machine,
    sides: tuple[Side, Side],
    boots: Boots,
    order: random.Random,
    number: int,
    update: Update,
) -> None:
    turns = [*sides, *reversed(sides)] if order.random() < 0.5 else [*reversed(sides), *sides]
    for turn, side in enumerate(turns):
        update(None, side.kernel)
        place.boot(side.kernel, update)
        side.booted = place.kernel
        side.boots.append(number * len(turns) + turn)
        _measure(place, side, boots)
    _check_sides(place, sides)


def _measure(place: Machine, side: Side, boots: Boots) -> None:
    sampler = Sampler(place, boots.cases, boots.settings, side.output)
    sampler.run_in_one(boots.groups)
    _check_identity(place, side)
    if not any(key[0] == side.output.run for key in side.output.processes):
        raise MachineError(f"{side.kernel} on {place.name} timed nothing.", "Run again with -v.")


def _check_identity(place: Machine, side: Side) -> None:
    """A boot loader falls back to another kernel without a word: every boot must be of one."""
    said = (side.output.release, side.output.notes)
    if side.identity is None:
        side.identity = said
    if said != side.identity:
        raise MachineError(
            f"{place.name} was told to boot {side.kernel}, and another kernel than before runs"
            f" there: {said[0]}.",
            "Look at its boot loader; --boot says how kernels are switched.",
        )


def _check_sides(place: Machine, sides: tuple[Side, Side]) -> None:
    old, new = sides
    known = old.identity is not None and old.identity[1]
    if known and old.kernel != new.kernel and old.identity == new.identity:
        raise MachineError(
            f"{place.name} runs the same kernel, {old.output.release}, whether it is told to boot"
            f" {old.kernel} or {new.kernel}.",
            "Look at its boot loader; --boot says how kernels are switched.",
        )


def judged(
    sides: tuple[Side, Side], cases: Sequence[str], plan: Plan, look: Look
) -> dict[str, Estimate]:
    """By case, the newer kernel against the older one, Holm's correction made."""
    known = {}
    for case in cases:
        old, new = (side.metrics(case) for side in sides)
        if NS in old and NS in new and (groups := pair_groups(old[NS].samples, new[NS].samples)):
            known[case] = groups
    found = [
        compare_groups(of_case, threshold=plan.threshold, confidence=plan.confidence, look=look)
        for of_case in known.values()
    ]
    return dict(zip(known, apply_holm(found, 1 - plan.confidence), strict=True))
