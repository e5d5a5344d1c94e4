# SPDX-License-Identifier: GPL-2.0-or-later
"""When a kernel drops a task's vector access: one row of POLICIES per policy.

A policy is written NAME or NAME:PARAMETER.  A kernel can decide at two points: at a system call's
entry, before it would clear the state, and at a load of the small state on the way to user mode.
Elsewhere it must keep the state that the program left.  A policy's Rule has thresholds for these
points, which engine.py interprets; a policy may also change the architecture's mechanism.
"""

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any, NamedTuple, Self

from kentry.arch.mechanism import Act, Mechanism
from kentry.errors import UserError, did_you_mean

NEVER = 1 << 62

_NS = {"ns": 1, "us": 10**3, "ms": 10**6, "s": 10**9}
_LONGEST_NS = 10**15
_MOST = 10**9


class Rule(NamedTuple):
    """Thresholds, as engine.py's compiled code takes them."""

    # The points at which it may drop.
    at_call: bool = False
    at_load: bool = False
    # It drops once this time has passed or that many clears were done since the last trap: ns,
    # and a count.  0 ns is the shortest time that a kernel's clock shows; -1 means at once.
    time: int = NEVER
    limit: int = NEVER
    # Both are counted from the last use instead.
    since_use: bool = False
    # Any load turns access on.
    opens: bool = False


# What a policy's parameter is.
TIME, BREAK_EVEN = "T", "[N]"


class Family(NamedTuple):
    """A policy without its parameter's value.

    `parameter` is TIME, BREAK_EVEN (a count that a cost table can give), or "".  An architecture
    can have the policy if its mechanism has the flag `needs`; `misfit` says why it
    cannot.  `changes` are what the policy changes in the mechanism.
    """

    name: str
    rule: Rule = Rule()
    parameter: str = ""
    needs: str = "drops"
    misfit: str = "access cannot be turned off there"
    changes: Mapping[str, Any] = {}

    @property
    def form(self) -> str:
        """How the policy is written: timeout:T, count[:N], keep."""
        return self.name + {"": "", TIME: ":T", BREAK_EVEN: "[:N]"}[self.parameter]

    def fits(self, base: Mechanism) -> bool:
        """Returns whether an architecture's mechanism can have the policy."""
        return not self.needs or bool(getattr(base, self.needs))


_DISCARDING = "flush_dirties"
_SEES_USES: dict[str, Any] = {
    "needs": "sees_uses",
    "misfit": "no kernel can see a use of the unit without a trap",
}
_BOTH = Rule(at_call=True, at_load=True)

POLICIES: Mapping[str, Family] = {
    family.name: family
    for family in (
        # Access is always on.  x86-64, where it cannot be turned off.
        Family("eager", Rule(opens=True), needs=""),
        # Access stays on from the first use to the exec or exit.
        Family("keep"),
        # As keep; what a system call clears counts as changed.  riscv64.
        Family("discard", needs=_DISCARDING, misfit="system calls do not mark state changed there"),
        # arm64 until 6.1.
        Family("drop-each-syscall", Rule(at_call=True, time=-1)),
        # At a load of the small state.  arm64 since 6.2.
        Family("drop-on-load", Rule(at_load=True, time=-1)),
        # "arm64/sve: Performance improvements with SVE state saving" v8 (2026): at a load, T after
        # the last trap (patch 1); at a load or a call (patches 1 and 2).
        Family("timeout", Rule(at_load=True), TIME),
        Family("timeout-entry", _BOTH, TIME),
        # A kernel sees uses on riscv64 (sstatus.VS) and of SME (SVCR), and no use of SVE.
        Family("timeout-from-use", _BOTH._replace(since_use=True), TIME, **_SEES_USES),
        # After N clears since the last trap; a load that keeps access counts as a clear.
        Family("count", _BOTH, BREAK_EVEN),
        Family("count-from-use", _BOTH._replace(since_use=True), BREAK_EVEN, **_SEES_USES),
        # riscv64, "riscv: optimize Vector context restore on syscall" v4 (2026): the kernel knows
        # that a call left the initial state.  The next call does not clear it again, a switch does
        # not save it, and a load makes it anew.
        Family(
            "initial-tracking",
            needs=_DISCARDING,
            misfit="whether state is initial is not known there",
            changes={"flush_dirties": False, "tracks_initial": True},
        ),
        # System calls leave the registers as they are, which riscv64's calling convention allows.
        # arm64's ABI does not: a call must leave zeros (Documentation/arch/arm64/sve.rst).
        Family(
            "preserve",
            needs=_DISCARDING,
            misfit="the ABI wants the state cleared there, or nothing clears it",
            changes={"discards": False, "flush_dirties": False, "flush": Act.NOTHING},
        ),
        # State is not loaded where the registers still hold it.  arm64 and x86-64 always do that.
        Family(
            "owner-elision",
            needs="reloads",
            misfit="that is done there in any case",
            changes={"reloads": False},
        ),
        # The least that given costs allow to a kernel that knows the future: replay.optimal().
        # It decides at the same points, and a trap gives access.  `eager` needs no trap, and so
        # can cost less.
        Family("optimal", needs=""),
    )
}


@dataclass(frozen=True)
class Policy:
    """A policy with its parameter's value: ns, a count, or None."""

    family: Family
    value: int | None = None

    @property
    def text(self) -> str:
        """The policy as parse_policy() reads it."""
        if self.value is None:
            return self.family.name
        value = duration(self.value) if self.family.parameter == TIME else self.value
        return f"{self.family.name}:{value}"

    def rule(self) -> Rule:
        """Says when it drops; UserError where its count was left out and no cost table gave one."""
        if not self.family.parameter:
            return self.family.rule
        if self.value is None:
            name = self.family.name
            raise UserError(
                f"The policy '{name}' has no count.",
                f"Write {name}:N, or name a cost table: N is then a trap's cost in flushes.",
            )
        if self.family.parameter == TIME:
            return self.family.rule._replace(time=self.value)
        return self.family.rule._replace(limit=self.value)

    def mechanism(self, base: Mechanism) -> Mechanism:
        """Changes the architecture's mechanism as the policy does; UserError if it does not fit."""
        if not self.family.fits(base):
            raise UserError(
                f"The policy '{self.family.name}' does not fit the trace's architecture:"
                f" {self.family.misfit}.",
                f"Policies: {', '.join(p.form for p in POLICIES.values() if p.fits(base))}.",
            )
        return base._replace(**self.family.changes)

    def resolved(self, costs: Mapping[str, float] | None) -> Self:
        """Fills in the break-even of `costs` (act to cost) for a count that was left out."""
        if self.family.parameter != BREAK_EVEN or self.value is not None or costs is None:
            return self
        return replace(self, value=break_even(costs))


def parse_policy(text: str) -> Policy:
    """Reads `drop-on-load`, `timeout:100ms`, `count:12`; UserError says what is wrong."""
    name, colon, parameter = text.strip().partition(":")
    family = POLICIES.get(name)
    if family is None:
        forms = ", ".join(family.form for family in POLICIES.values())
        sentence = f"There is no policy '{name}'.{did_you_mean(name, POLICIES)}"
        raise UserError(sentence, f"Policies are {forms}.")
    if (colon and not family.parameter) or (not colon and family.parameter == TIME):
        what = "takes no" if colon else "needs a"
        raise UserError(f"The policy '{name}' {what} parameter.", f"Write {family.form}.")
    if not colon:
        return Policy(family)
    if family.parameter == TIME:
        return Policy(family, parse_duration(parameter, name))
    if not re.fullmatch(r"\d{1,10}", parameter.strip()) or int(parameter) > _MOST:
        raise UserError(
            f"'{parameter}' is no count for the policy '{name}'.",
            f"Write a whole number up to {_MOST}.",
        )
    return Policy(family, int(parameter))


def parse_duration(text: str, policy: str) -> int:
    """Reads a time into ns; UserError where it is none, or longer than a million seconds."""
    match = re.fullmatch(r"(\d{1,15}(?:\.\d{1,9})?)(ns|us|ms|s)", text.strip())
    ns = int(Fraction(match[1]) * _NS[match[2]]) if match else _LONGEST_NS + 1
    if ns > _LONGEST_NS:
        raise UserError(
            f"'{text}' is no time for the policy '{policy}'.",
            f"Write one like 10ms, 250us or 1s, up to {duration(_LONGEST_NS)}.",
        )
    return ns


def duration(ns: int) -> str:
    """Writes a time as parse_duration() reads it, in the largest unit that makes it short."""
    for unit in ("s", "ms", "us"):
        if ns and ns % _NS[unit] == 0:
            return f"{ns // _NS[unit]}{unit}"
    return f"{ns}ns"


def break_even(costs: Mapping[str, float]) -> int:
    """Divides a trap's and its drop's cost by a flush's, rounded down; UserError without them."""
    for act in ("trap", "flush"):
        if act not in costs:
            raise UserError(
                f"There is no cost of a {act}, so no break-even can be worked out.",
                "Give the policy a count, or the cost table the figure.",
            )
    if costs["flush"] <= 0:
        raise UserError("A flush costs nothing in the cost table, so there is no break-even.")
    return min(_MOST, math.floor((costs["trap"] + costs.get("drop", 0.0)) / costs["flush"]))
