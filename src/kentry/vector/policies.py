# SPDX-License-Identifier: GPL-2.0-or-later
"""When a kernel gives up a task's vector access or state: one small pure class per policy.

A policy is written NAME or NAME:PARAMETER.  A kernel can decide at a system call's entry, before
it would clear the state, and at a load of the small state on the way to user mode; nowhere else
is the state a program has left allowed to go.  Most policies are a threshold at one of those
points or at both: `rule()` says which, engine.py interprets it.

What a use is can be seen by a kernel on riscv64 (VS) and for SME (SVCR); a use of SVE is seen
only if it traps, so the policies `...-from-use` cannot be had in hardware there.
"""

from __future__ import annotations

import difflib
import math
import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import ClassVar, NamedTuple

from kentry.errors import UserError
from kentry.vector.mechanism import Act, Mechanism

NEVER = 1 << 62

_NS = {"ns": 1, "us": 10**3, "ms": 10**6, "s": 10**9}
_DURATION = re.compile(r"(\d{1,15}(?:\.\d{1,9})?)(ns|us|ms|s)")
_LONGEST_NS = 10**15
_MOST = 10**9


class Rule(NamedTuple):
    """Thresholds, as engine.py's compiled code takes them."""

    # The points at which it may drop.
    at_call: bool = False
    at_load: bool = False
    # It drops when this time is over or that many clears were paid for: ns, and a count.  0 ns
    # is the smallest time that a kernel can tell from none, -1 is at once.
    time: int = NEVER
    limit: int = NEVER
    # Both are counted from the last use, not from the last trap.
    since_use: bool = False
    # It turns access on at any load.
    opens: bool = False
    # The limit is drawn anew each time, up to `limit`.
    randomised: bool = False
    # The limit is learned, a task name at a time, beginning with `limit`.
    adaptive: bool = False
    # Timeslices with a use after which state is loaded without a trap; -1: not a lazy policy.
    lazy: int = -1
    seed: int = 1


@dataclass(frozen=True)
class Policy:
    """What a policy has; a subclass is one policy."""

    name: ClassVar[str] = ""
    # Its parameter, as a user is told: "T", "N", "[N]", or nothing.
    parameter: ClassVar[str] = ""

    @property
    def text(self) -> str:
        """The policy as parse_policy() reads it."""
        return self.name

    def rule(self) -> Rule:
        """When it drops."""
        return Rule()

    def mechanism(self, base: Mechanism) -> Mechanism:
        """What it changes in the architecture's mechanism; UserError where it cannot be had."""
        if not base.drops:
            raise _misfit(self, "access cannot be turned off there")
        return base

    def resolved(self, costs: Mapping[str, float] | None) -> Policy:
        """Itself with a parameter that was left out worked out from `costs` (act to cost)."""
        return self


@dataclass(frozen=True)
class Eager(Policy):
    """Access is always on and the state always kept: each system call has something to clear.

    What x86-64 does, where access cannot be turned off.
    """

    name = "eager"

    def rule(self) -> Rule:
        """It never drops, and turns access on at each load."""
        return Rule(opens=True)

    def mechanism(self, base: Mechanism) -> Mechanism:
        """Every architecture's."""
        return base


@dataclass(frozen=True)
class Keep(Policy):
    """Access is on from the first use to the exec or exit; state is cleared at system calls."""

    name = "keep"


@dataclass(frozen=True)
class Discard(Keep):
    """What mainline does on riscv64: as `keep`; what a system call clears counts as changed."""

    name = "discard"

    def mechanism(self, base: Mechanism) -> Mechanism:
        """riscv64's."""
        if not base.flush_dirties:
            raise _misfit(self, "system calls do not mark state as changed there")
        return base


@dataclass(frozen=True)
class DropEachSyscall(Policy):
    """Access is dropped at each system call: arm64 until 6.1."""

    name = "drop-each-syscall"

    def rule(self) -> Rule:
        """At once, at a call."""
        return Rule(at_call=True, time=-1)


@dataclass(frozen=True)
class DropOnLoad(Policy):
    """Access is dropped where the small state is loaded: arm64 since 6.2."""

    name = "drop-on-load"

    def rule(self) -> Rule:
        """At once, at a load."""
        return Rule(at_load=True, time=-1)


@dataclass(frozen=True)
class Timed(Policy):
    """What the timeouts share: `ns` is the time after which access is dropped."""

    parameter = "T"
    ns: int = 10**9

    @property
    def text(self) -> str:
        """With its time."""
        return f"{self.name}:{duration(self.ns)}"


@dataclass(frozen=True)
class Timeout(Timed):
    """Dropped at a load of the small state, T after the last trap: the series' patch 1."""

    name = "timeout"

    def rule(self) -> Rule:
        """At a load."""
        return Rule(at_load=True, time=self.ns)


@dataclass(frozen=True)
class TimeoutEntry(Timed):
    """Dropped at a load or a system call, T after the last trap: the series' patches 1 and 2."""

    name = "timeout-entry"

    def rule(self) -> Rule:
        """At both points."""
        return Rule(at_call=True, at_load=True, time=self.ns)


@dataclass(frozen=True)
class TimeoutFromUse(Timed):
    """Dropped at a load or a system call, T after the last use.

    The kernel has to see the use: it does on riscv64 (VS dirty) and for SME (SVCR).  A use of
    SVE without a trap is not observable, so there it is only what could be had if it were.
    """

    name = "timeout-from-use"

    def rule(self) -> Rule:
        """At both points, from the last use."""
        return Rule(at_call=True, at_load=True, time=self.ns, since_use=True)


@dataclass(frozen=True)
class Counted(Policy):
    """What the counts share: `clears` is N, None for the break-even of the cost table."""

    parameter = "[N]"
    clears: int | None = None

    @property
    def text(self) -> str:
        """With its count, where it has one."""
        return self.name if self.clears is None else f"{self.name}:{self.clears}"

    @property
    def limit(self) -> int:
        """N; UserError where neither the policy nor a cost table said it."""
        if self.clears is None:
            raise UserError(
                f"The policy '{self.name}' has no count.",
                f"Write {self.name}:N, or name a cost table: N is then a trap's cost in flushes.",
            )
        return self.clears

    def resolved(self, costs: Mapping[str, float] | None) -> Policy:
        """With the break-even of `costs` for a count that was left out."""
        if self.clears is not None or costs is None:
            return self
        return replace(self, clears=break_even(costs))


@dataclass(frozen=True)
class Count(Counted):
    """Dropped at a load or a system call, when N clears were paid for since the last trap.

    A load that keeps access on counts as a clear.  With N the break-even it costs at most twice
    what `optimal` does: sweep.competitive_bound() says where that holds.
    """

    name = "count"

    def rule(self) -> Rule:
        """At both points."""
        return Rule(at_call=True, at_load=True, limit=self.limit)


@dataclass(frozen=True)
class CountFromUse(Counted):
    """As `count`, from the last use: like `timeout-from-use`, not for SVE in hardware."""

    name = "count-from-use"

    def rule(self) -> Rule:
        """At both points, from the last use."""
        return Rule(at_call=True, at_load=True, limit=self.limit, since_use=True)


@dataclass(frozen=True)
class Randomised(Counted):
    """As `count`, with a count drawn anew at each trap from the density e^(x/N) on [0, N].

    That draw is best where a use can be seen (`randomised-from-use`).  Where only traps can, no
    draw beats `count`: with a mean of k clears of cost r between trap and drop a trap of cost B
    is paid once more each time, so the ratio is at least 1 + max(B/kr, kr/B), which is 2 at best.
    """

    name = "randomised"
    seed: int = 1

    def rule(self) -> Rule:
        """At both points."""
        return Rule(True, True, limit=self.limit, randomised=True, seed=self.seed)


@dataclass(frozen=True)
class RandomisedFromUse(Randomised):
    """As `randomised`, from the last use; at most e/(e-1) times `optimal` in expectation."""

    name = "randomised-from-use"

    def rule(self) -> Rule:
        """At both points, from the last use."""
        return super().rule()._replace(since_use=True)


@dataclass(frozen=True)
class Adaptive(Counted):
    """As `count`, with a count learned for each task name as the workload runs.

    It begins with N.  A trap within N system calls after a drop says that the drop came too
    early, and doubles the count of that name (plus one, up to 64 N); a later one halves it.
    """

    name = "adaptive"

    def rule(self) -> Rule:
        """At both points."""
        return Rule(at_call=True, at_load=True, limit=self.limit, adaptive=True)


@dataclass(frozen=True)
class InitialTracking(Policy):
    """riscv64, the series' v4: what a call leaves is known to be initial.

    It is not cleared again by the next call, not saved by a switch, and made anew, not loaded.
    """

    name = "initial-tracking"

    def mechanism(self, base: Mechanism) -> Mechanism:
        """riscv64's, tracking the initial state."""
        if not base.flush_dirties:
            raise _misfit(self, "whether state is initial is not known there")
        return base._replace(flush_dirties=False, tracks_initial=True)


@dataclass(frozen=True)
class Preserve(Policy):
    """riscv64: system calls leave the state as it is, which the ISA's calling rules allow.

    arm64's ABI does not: what a call leaves must be zero.
    """

    name = "preserve"

    def mechanism(self, base: Mechanism) -> Mechanism:
        """riscv64's, without a discard."""
        if not base.flush_dirties:
            raise _misfit(self, "the ABI wants the state cleared there, or nothing clears it")
        return base._replace(discards=False, flush_dirties=False, flush=Act.NOTHING)


@dataclass(frozen=True)
class OwnerElision(Policy):
    """riscv64: state is not loaded where the registers still hold it, as on arm64 and x86-64."""

    name = "owner-elision"

    def mechanism(self, base: Mechanism) -> Mechanism:
        """riscv64's, with the registers' last owner known."""
        if base.elides:
            raise _misfit(self, "that is done there in any case")
        return base._replace(elides=True)


@dataclass(frozen=True)
class FpuCounter(Policy):
    """Old x86: access is off after a switch, but after N timeslices in a row that had a use.

    The counter is 8 bits wide, so after 256 timeslices in a row a use is asked for again.  SSE is
    not in a trace's uses, so on x86-64 this is about programs' AVX only.
    """

    name = "fpu-counter"
    parameter = "N"
    slices: int = 5

    @property
    def text(self) -> str:
        """With its count."""
        return f"{self.name}:{self.slices}"

    def rule(self) -> Rule:
        """Lazy."""
        return Rule(lazy=self.slices)

    def mechanism(self, base: Mechanism) -> Mechanism:
        """One where a trap loads the state."""
        if not base.lazy:
            raise _misfit(self, "a trap does not load state there")
        return base._replace(always_open=False, drops=True)


@dataclass(frozen=True)
class Optimal(Policy):
    """What a kernel that knew the future would drop and keep: the least that given costs allow.

    It decides at the same points as other policies; worked out by optimal.py.  As for them, access
    is given by a trap.  `eager` needs none, and so can cost less.
    """

    name = "optimal"
    opens: ClassVar[bool] = False

    def mechanism(self, base: Mechanism) -> Mechanism:
        """Every architecture's."""
        return base


@dataclass(frozen=True)
class OptimalOpening(Optimal):
    """As `optimal`, and it may turn access on at a load, before a use: nothing costs less."""

    name = "optimal-opening"
    opens: ClassVar[bool] = True


POLICIES: Mapping[str, type[Policy]] = {
    policy.name: policy
    for policy in (
        *(Eager, Keep, Discard, DropEachSyscall, DropOnLoad),
        *(Timeout, TimeoutEntry, TimeoutFromUse),
        *(Count, CountFromUse, Randomised, RandomisedFromUse, Adaptive),
        *(InitialTracking, Preserve, OwnerElision, FpuCounter, Optimal, OptimalOpening),
    )
}


def parse_policy(text: str) -> Policy:
    """The policy that a text names: `drop-on-load`, `timeout:100ms`, `count:12`.

    Raises UserError for a name that is none, which lists the known, and for a parameter that is
    missing, not wanted, or wrong.
    """
    name, colon, parameter = text.strip().partition(":")
    kind = POLICIES.get(name)
    if kind is None:
        close = difflib.get_close_matches(name, POLICIES, n=1)
        meant = f" Did you mean {close[0]}?" if close else ""
        raise UserError(f"There is no policy '{name}'.{meant}", f"Policies are {known_policies()}.")
    if not colon:
        if kind.parameter in ("", "[N]"):
            return kind()
        raise UserError(f"The policy '{name}' needs a parameter.", f"Write {_form(kind)}.")
    if not kind.parameter:
        raise UserError(f"The policy '{name}' takes no parameter.", f"Write {name}.")
    if issubclass(kind, Timed):
        return kind(parse_duration(parameter, name))
    count = _parse_count(parameter, kind)
    return FpuCounter(count) if issubclass(kind, FpuCounter) else _counted(kind, count)


def _counted(kind: type[Policy], count: int) -> Policy:
    assert issubclass(kind, Counted)
    return kind(count)


def known_policies() -> str:
    """All policies with their parameters, for a message."""
    return ", ".join(_form(kind) for kind in POLICIES.values())


def _form(kind: type[Policy]) -> str:
    """How a policy is written, with an example's parameter."""
    forms = {"": "", "T": ":T", "N": ":N", "[N]": "[:N]"}
    return f"{kind.name}{forms[kind.parameter]}"


def parse_duration(text: str, policy: str) -> int:
    """A time in ns; UserError where it is none, or longer than a million seconds."""
    match = _DURATION.fullmatch(text.strip())
    ns = int(Fraction(match[1]) * _NS[match[2]]) if match else _LONGEST_NS + 1
    if ns > _LONGEST_NS:
        raise UserError(
            f"'{text}' is no time for the policy '{policy}'.", "Write one like 10ms, 250us or 1s."
        )
    return ns


def _parse_count(text: str, kind: type[Policy]) -> int:
    if not re.fullmatch(r"\d{1,10}", text.strip()) or int(text) > _MOST:
        raise UserError(
            f"'{text}' is no count for the policy '{kind.name}'.",
            f"Write a whole number up to {_MOST}.",
        )
    return int(text)


def duration(ns: int) -> str:
    """A time as parse_duration() reads it, in the largest unit that makes it short."""
    for unit in ("s", "ms", "us"):
        if ns and ns % _NS[unit] == 0:
            return f"{ns // _NS[unit]}{unit}"
    return f"{ns}ns"


def break_even(costs: Mapping[str, float]) -> int:
    """n* = B/r rounded down: clears (`flush`) that cost what a trap and its drop cost.

    Raises UserError where `costs` (act to cost) lacks `trap` or `flush`, or a flush costs nothing.
    """
    for act in ("trap", "flush"):
        if act not in costs:
            raise UserError(
                f"There is no cost of a {act}, so no break-even can be worked out.",
                "Give the policy a count, or the cost table the figure.",
            )
    if costs["flush"] <= 0:
        raise UserError("A flush costs nothing in the cost table, so there is no break-even.")
    return min(_MOST, math.floor((costs["trap"] + costs.get("drop", 0.0)) / costs["flush"]))


def _misfit(policy: Policy, why: str) -> UserError:
    return UserError(f"The policy '{policy.name}' does not fit the trace's architecture: {why}.")
