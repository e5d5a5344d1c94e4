# SPDX-License-Identifier: GPL-2.0-or-later
"""Looking at a measurement before its end without fooling oneself: alpha spending.

The chance of a false verdict, alpha, is spent over looks that are planned in advance as fractions
of a maximum that is fixed in advance (Lan and DeMets, Biometrika 70, 1983).  The boundaries follow
from the joint distribution of the looks, integrated one look after the other (Armitage, McPherson
and Rowe, 1969).  An interval at the level that belongs to a look is a repeated confidence
interval: all of them together miss with probability alpha at most (Jennison and Turnbull, 1989).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import NamedTuple

import numpy as np
from scipy import optimize, special

from kentry.stats.estimators import Array

OBRIEN_FLEMING = "obrien-fleming"
POCOCK = "pocock"

# The looks of a run that may end early, as fractions of its longest: a recording says only how
# many there were, so other fractions need another number of them.
LOOKS = (0.1, 0.2, 0.4, 0.7, 1.0)

# No look is asked to be surer than this: below, doubles and measurements have no tails.
LEAST_ALPHA = 1e-12
# Beyond so many standard deviations there is nothing to integrate: 2e-19.
_REACH = 9.0


class Look(NamedTuple):
    """One planned look: the level to use for the interval there."""

    number: int  # from 1
    fraction: float  # of the planned maximum
    boundary: float  # in standard errors of a normal estimate
    alpha: float  # two-sided; the interval's confidence is 1 - alpha
    spent: float  # of the whole alpha, up to and with this look
    plan: Sequential

    @property
    def confidence(self) -> float:
        """The level of the interval at this look."""
        return 1 - self.alpha

    def adjusted(self, p: float) -> float:
        """A look's two-sided p to one of the whole plan: the least alpha that would reject."""
        levels, alphas = _levels(self.plan.fractions, self.plan.kind)
        at_look = levels[:, self.number - 1]
        if p >= at_look[-1]:
            return 1.0
        p = max(p, at_look[0])
        return float(np.exp(np.interp(np.log(p), np.log(at_look), np.log(alphas))))


@dataclass(frozen=True)
class Sequential:
    """A plan of looks.  `fractions` rise to 1, the maximum that was fixed before measuring."""

    alpha: float
    fractions: tuple[float, ...]
    kind: str = OBRIEN_FLEMING

    def __init__(
        self, alpha: float, looks: int | Sequence[float], kind: str = OBRIEN_FLEMING
    ) -> None:
        """`looks`: how many, equally apart, or the fractions of the maximum at which they are."""
        fractions = (
            tuple((k + 1) / looks for k in range(looks)) if isinstance(looks, int) else tuple(looks)
        )
        if not 0 < alpha < 1 or not _rise_to_one(fractions) or kind not in _SPENDING:
            raise ValueError(f"no plan of looks: {alpha}, {looks}, {kind}")
        object.__setattr__(self, "alpha", alpha)
        object.__setattr__(self, "fractions", fractions)
        object.__setattr__(self, "kind", kind)

    @property
    def looks(self) -> tuple[Look, ...]:
        """All looks, in order."""
        bounds = boundaries(self.alpha, self.fractions, self.kind)
        spent = [2 * _SPENDING[self.kind](self.alpha / 2, part) for part in self.fractions]
        return tuple(
            Look(i + 1, part, bound, max(_two_sided(bound), LEAST_ALPHA), total, self)
            for i, (part, bound, total) in enumerate(
                zip(self.fractions, bounds, spent, strict=True)
            )
        )

    def look(self, number: int) -> Look:
        """The look with this number, from 1."""
        return self.looks[number - 1]


def _rise_to_one(fractions: Sequence[float]) -> bool:
    rising = all(a < b for a, b in zip((0.0, *fractions), fractions, strict=False))
    return bool(fractions) and rising and abs(fractions[-1] - 1) < 1e-9


def _two_sided(boundary: float) -> float:
    return float(2 * special.ndtr(-boundary))


def _spend_late(alpha: float, part: float) -> float:
    """One side's alpha spent at a fraction, like O'Brien and Fleming's: hardly any early."""
    return float(2 * special.ndtr(special.ndtri(alpha / 2) / np.sqrt(part)))


def _spend_evenly(alpha: float, part: float) -> float:
    """One side's alpha spent at a fraction, like Pocock's."""
    return float(alpha * np.log1p((np.e - 1) * part))


_SPENDING = {OBRIEN_FLEMING: _spend_late, POCOCK: _spend_evenly}


@lru_cache(maxsize=512)
def boundaries(alpha: float, fractions: tuple[float, ...], kind: str) -> tuple[float, ...]:
    """The two-sided boundary of each look, in standard errors.

    Both sides get alpha / 2; that one path crosses both is left out, as usual (it is < alpha^2).
    """
    spent = [_SPENDING[kind](alpha / 2, part) for part in fractions]
    return tuple(_solve(fractions, np.diff([0.0, *spent])))


def _solve(fractions: Sequence[float], spends: Array) -> Iterator[float]:
    """Look by look: the boundary that spends what is to be spent, given all before it.

    The sum of a normal process has variance `fraction`; `nodes`, `weights` and `density` are its
    distribution among the paths that have not crossed yet.
    """
    nodes, weights, density, before = np.zeros(1), np.ones(1), np.ones(1), 0.0
    for part, spend in zip(fractions, spends, strict=True):
        step, root = np.sqrt(part - before), np.sqrt(part)
        mass = weights * density

        bound = _bound(nodes / step, root / step, mass, spend)
        yield bound
        reach = min(bound, _REACH) * root
        count = int(np.clip(8 * reach / step, 64, 1024))
        unit, unit_weights = _legendre(count)
        after = unit * reach
        gap = (after[:, None] - nodes[None, :]) / step
        density = (np.exp(-0.5 * gap * gap) @ mass) / (step * np.sqrt(2 * np.pi))
        nodes, weights, before = after, unit_weights * reach, part


def _bound(nodes: Array, scale: float, mass: Array, spend: float) -> float:
    """The boundary that paths at `nodes` with this `mass` cross with probability `spend`."""
    wanted = np.log(max(spend, 1e-300))

    def excess(bound: float) -> float:
        crossing = mass @ special.ndtr(nodes - bound * scale)
        return float(np.log(max(crossing, 1e-300)) - wanted)

    return float(optimize.brentq(excess, -1.0, 36.0, xtol=1e-10))


@lru_cache(maxsize=32)
def _legendre(count: int) -> tuple[Array, Array]:
    nodes, weights = special.roots_legendre(count)
    return nodes, weights


@lru_cache(maxsize=32)
def _levels(fractions: tuple[float, ...], kind: str) -> tuple[Array, Array]:
    """(each look's own alpha for each whole alpha, those whole alphas), from small to large."""
    alphas = np.geomspace(1e-11, 0.5, 40)
    rows = [[_two_sided(b) for b in boundaries(float(a), fractions, kind)] for a in alphas]
    return np.maximum(np.array(rows), 1e-300), alphas
