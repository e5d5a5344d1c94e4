# SPDX-License-Identifier: GPL-2.0-or-later
"""What a kernel does to vector state whatever its policy: when it saves, loads and clears.

A policy (vector/policies.py) only decides when a task's access to the unit is dropped or kept.
All else is the architecture's mechanism: what a switch saves, what the way to user mode loads,
what a fork, an exec or a signal does.  vector/engine.py interprets a record and knows no
architecture.  Each record names its source, file and line, in Linux 6.1.192, 6.12.117 and 7.3.4.
"""

import enum
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NamedTuple


class Act(enum.IntEnum):
    """A column of counts: what the kernel did, then what happened without an act."""

    TRAP = 0
    TRAP_FLUSH = 1  # what the trap itself clears; the price of a trap includes it
    FLUSH = 2
    DROP = 3
    SAVE = 4
    RESTORE = 5
    SMALL_SAVE = 6
    SMALL_RESTORE = 7
    KEPT_LOAD = 8  # what a load of the small state costs more because it leaves access on
    OPEN_EXIT = 9  # access turned on at a load, without a trap, because the policy said so
    INITIAL_RESTORE = 10  # the registers set to what a discard leaves, instead of a restore
    SMSTOP = 11
    SME_TRAP = 12
    ZA_SAVE = 13
    ZA_RESTORE = 14
    # No acts: system calls, returns to user mode, and those of them with access on.
    CALLS = 15
    RETURNS = 16
    OPEN_RETURN = 17
    NOTHING = 18  # the column for what is not counted

    @property
    def word(self) -> str:
        """Its name in cost tables and reports."""
        return self.name.lower()


# In the order of the columns; the acts that cost tables name.
ACTS = tuple(act.word for act in Act if act < Act.CALLS)
COLUMNS = tuple(act.word for act in Act if act < Act.NOTHING)


class Mechanism(NamedTuple):
    """Whole numbers and flags only: vector/engine.py's compiled code takes it as it is."""

    always_open: bool = False  # access cannot be turned off: a policy has nothing to decide
    drops: bool = True  # a policy can turn access off, and a use then traps
    sees_uses: bool = False  # the kernel can see a use that did not trap
    discards: bool = True  # a system call discards all but the small state
    flush_dirties: bool = False  # what a discard leaves counts as changed, and so is saved
    # The kernel knows that the state is what a discard leaves: it neither saves nor discards it.
    tracks_initial: bool = False
    saves_clean: bool = False  # a switch saves what is in the registers even if it did not change
    # State counts as changed from the return to user mode on, even without a use.
    exit_dirties: bool = False
    # A switch-in asks for a load even where the registers still hold the task's state.
    reloads: bool = False
    loads_closed: bool = False  # a task without access has state to load, too
    trap_loads: bool = False  # the state at a trap comes from memory, not from the registers
    za: bool = False  # SVCR.ZA says whether state is live
    fork_saves: bool = False  # a fork saves the parent's state
    fork_flushes: bool = False  # a fork gives up the registers
    fork_loads: bool = False  # a fork loads the state first
    signal_saves: bool = True  # a signal's frame saves the state
    signal_flushes: bool = False  # a signal gives up the registers
    signal_resets: bool = False  # a signal loads the state first and resets it after
    # A frame has the whole state if access is on, not if there is more than the small state.
    frames_if_open: bool = False
    # A sigreturn loads the frame's state at once, not on the way to user mode.
    sigreturn_loads: bool = False
    # After a sigreturn from a frame without the state, access is off.
    sigreturn_closes: bool = True
    # The acts.
    trap: int = Act.TRAP
    trap_flush: int = Act.NOTHING
    flush: int = Act.FLUSH
    save: int = Act.SAVE
    small_save: int = Act.SAVE
    restore: int = Act.RESTORE
    small_restore: int = Act.RESTORE
    closed_restore: int = Act.NOTHING
    kept_load: int = Act.NOTHING
    kernel_save: int = Act.SAVE
    kernel_restore: int = Act.RESTORE
    smstop: int = Act.NOTHING
    trap_class: int = -1  # the exception class of a use that trapped


# The units that policies are replayed for: SVE, V or AVX; and SME.
VEC, SME = "vec", "sme"

# Each mechanism with the first release of Linux that it holds for.
Mechanisms = tuple[tuple[tuple[int, int], Mechanism], ...]


@dataclass(frozen=True)
class CountingRules:
    """How vector/cost_counts.py counts an architecture's acts in recorded paths.

    `events` maps an act to the event that marks it.  `calls` maps an act to the functions around
    it.  `inner` are acts inside a function that does much else.
    """

    events: Mapping[str, str]
    calls: Mapping[str, str] = field(default_factory=dict)
    inner: tuple[str, ...] = ()
