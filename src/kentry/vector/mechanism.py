# SPDX-License-Identifier: GPL-2.0-or-later
"""What a kernel does to vector state whatever its policy: saves, loads, discards.  One record each.

A policy (policies.py) only says when a task's access to the unit is given up or kept.  All else
is the architecture's mechanism: what is saved at a switch, what is loaded on the way to user
mode, what a fork, an exec or a signal does.  engine.py interprets a record; it knows no
architecture.  Sources: Linux 6.1.192, 6.12.117, 7.3.4, file and line beside each record.
"""

from __future__ import annotations

import enum
import re
from collections.abc import Mapping
from typing import Any, NamedTuple

from kentry.errors import UserError


class Act(enum.IntEnum):
    """A column of counts: what was done, then what went by."""

    TRAP = 0
    # What the trap itself clears; the price of a trap has it.
    TRAP_FLUSH = 1
    FLUSH = 2
    DROP = 3
    SAVE = 4
    RESTORE = 5
    SMALL_SAVE = 6
    SMALL_RESTORE = 7
    # A load of the small state that leaves access on: what access adds to it.
    KEPT_LOAD = 8
    # Access turned on at a load, without a trap, because the policy said so.
    OPEN_EXIT = 9
    # The registers made as a discard leaves them, in place of a restore.
    INITIAL_RESTORE = 10
    SMSTOP = 11
    SME_TRAP = 12
    ZA_SAVE = 13
    ZA_RESTORE = 14
    # Not done, but gone by: system calls; returns to user mode, and those with access on.
    CALLS = 15
    RETURNS = 16
    OPEN_RETURN = 17
    # Where what is not counted goes.
    NOTHING = 18

    @property
    def word(self) -> str:
        """Its name in cost tables and reports."""
        return self.name.lower()


# In the order of the columns; what cost tables name.
ACTS = tuple(act.word for act in Act if act < Act.CALLS)
COLUMNS = tuple(act.word for act in Act if act < Act.NOTHING)


class Mechanism(NamedTuple):
    """Whole numbers and flags only: engine.py's compiled code takes it as it is."""

    # Access cannot be turned off: there is nothing to decide, except for a lazy policy.
    always_open: bool = False
    # Access can be turned off by a policy, and a use traps then.
    drops: bool = True
    # Access can be turned off at every switch, and a trap loads the state (lazy switching).
    lazy: bool = False
    # A system call gives up what is not the small state.
    discards: bool = True
    # What a discard leaves counts as changed, and so is saved.
    flush_dirties: bool = False
    # It is known that the state is what a discard leaves: neither saved nor discarded again.
    tracks_initial: bool = False
    # A switch saves what is in the registers, changed or not.
    saves_clean: bool = False
    # State counts as changed from the return to user mode on, used or not.
    exit_dirties: bool = False
    # A load is left out where the registers still hold the task's state.
    elides: bool = True
    # A task without access has state to load, too.
    loads_closed: bool = False
    # The state at a trap comes from memory, not from the registers.
    trap_loads: bool = False
    # What is live is what SVCR.ZA says.
    za: bool = False
    # What a fork does to the parent's state: saves it; gives the registers up; loads it before.
    fork_saves: bool = False
    fork_flushes: bool = False
    fork_loads: bool = False
    # What a signal's frame does: saves; gives the registers up; loads before and resets after.
    signal_saves: bool = True
    signal_flushes: bool = False
    signal_resets: bool = False
    # A frame has the state if access is on, not if there is more than the small state.
    frames_if_open: bool = False
    # A sigreturn loads the frame's state at once, not on the way to user mode.
    sigreturn_loads: bool = False
    # A sigreturn makes the state what the frame has; one without leaves it off.
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
    # The exception class of a use that trapped.
    trap_class: int = -1


# Lines of arch/arm64/kernel in 6.12.117.  The small state, FPSIMD, is every user task's: saved
# at each switch-out while the registers are the task's (fpsimd.c:437-508, called from :1578) and
# loaded on the way to user mode where they are not (entry-common.c:153).  Registers are the
# task's if it was the last whose state was loaded (:1590-1595).  Inside a system call only the
# small state is saved (entry-common.c:421), so access is given up when that is loaded.  6.1 saves
# by TIF_SVE, which its system calls clear (syscall.c:186): the same record.
_ARM64 = Mechanism(
    saves_clean=True,
    loads_closed=True,
    fork_saves=True,  # process.c:300
    sigreturn_loads=True,  # fpsimd.c:1804
    trap_flush=Act.TRAP_FLUSH,  # fpsimd.c:1368
    small_save=Act.SMALL_SAVE,
    small_restore=Act.SMALL_RESTORE,
    closed_restore=Act.SMALL_RESTORE,
    kept_load=Act.KEPT_LOAD,
    kernel_save=Act.SMALL_SAVE,  # fpsimd.c:1538
    kernel_restore=Act.SMALL_RESTORE,
    trap_class=0x19,  # ESR_ELx_EC_SVE
)

# 7.3.4: fork, signal and sigreturn save the state and give the registers up
# (fpsimd.c:1838, process.c:371, signal.c:1043, :1551).
_ARM64_FLUSHING = _ARM64._replace(fork_flushes=True, signal_flushes=True, sigreturn_loads=False)

# SME, arch/arm64 of 6.12 and 7.3: ZA is saved where SVCR.ZA is set (fpsimd.c:476) and survives
# system calls; each of them leaves streaming mode on a cpu with SME (entry-common.c:399).  What
# is in the registers is known as for SVE.  Access may be dropped whenever SM=ZA=0 (:278-280).
_SME = Mechanism(
    saves_clean=True,
    loads_closed=True,
    discards=False,
    za=True,
    fork_saves=True,
    sigreturn_loads=True,
    sigreturn_closes=False,
    trap=Act.SME_TRAP,
    flush=Act.NOTHING,
    save=Act.ZA_SAVE,
    small_save=Act.NOTHING,
    restore=Act.ZA_RESTORE,
    small_restore=Act.NOTHING,
    kernel_save=Act.NOTHING,
    kernel_restore=Act.NOTHING,
    smstop=Act.SMSTOP,
    trap_class=0x1D,  # ESR_ELx_EC_SME
)
_SME_FLUSHING = _SME._replace(fork_flushes=True, signal_flushes=True, sigreturn_loads=False)

# Lines of arch/riscv/include/asm/vector.h in 6.12.117; 7.3 has the same.  A discard marks the
# state dirty (:174), what is dirty is saved (:180), a switch-in asks for a load whoever has the
# registers (:259), which is made if V is on (:189).  A first use asks for one, too
# (kernel/vector.c:213).  A fork's child and an exec have V off (process.c:225, :178).
_RISCV64 = Mechanism(
    lazy=True,
    flush_dirties=True,
    elides=False,
    trap_loads=True,
    frames_if_open=True,
    sigreturn_closes=False,
    trap_class=2,  # EXC_INST_ILLEGAL
)

# Lines of arch/x86 in 6.12.117.  All state is saved at a switch-out and in kernel_fpu_begin()
# if it was loaded since (kernel/process_64.c:619, kernel/fpu/core.c:457), and loaded on the way
# to user mode unless the registers hold it (kernel/fpu/context.h:54-80).  Nothing is done to it
# at a system call.  A fork stores it in the child (core.c:667), after a load where one was due.
# A signal's frame gets it, then the registers are reset (fpu/signal.c:219, core.c:790).
_X86_64 = Mechanism(
    always_open=True,
    drops=False,
    lazy=True,
    discards=False,
    exit_dirties=True,
    trap_loads=True,
    fork_loads=True,
    signal_resets=True,
    sigreturn_loads=True,
    sigreturn_closes=False,
    flush=Act.NOTHING,
    kernel_save=Act.NOTHING,
    kernel_restore=Act.NOTHING,
)

VEC, SME = "vec", "sme"
UNITS = (VEC, SME)

_MECHANISMS = {
    ("arm64", VEC): ((0, 0), _ARM64),
    ("riscv64", VEC): ((0, 0), _RISCV64),
    ("x86_64", VEC): ((0, 0), _X86_64),
    ("arm64", SME): ((0, 0), _SME),
}
# Architecture and unit: from which release on it is another.
_LATER = {
    ("arm64", VEC): ((6, 16), _ARM64_FLUSHING),
    ("arm64", SME): ((6, 16), _SME_FLUSHING),
}

_RELEASE = re.compile(r"(\d+)\.(\d+)")


def mechanism_of(meta: Mapping[str, Any], unit: str = VEC) -> Mechanism:
    """The mechanism of the kernel that a trace's `meta` names, for one of UNITS.

    Raises UserError where the architecture has no such unit.
    """
    arch = str(meta["arch"])
    if (arch, unit) not in _MECHANISMS:
        raise UserError(f"There is no policy to replay for the unit '{unit}' of {arch}.")
    release, later = _LATER.get((arch, unit), ((99, 0), _MECHANISMS[arch, unit][1]))
    if _release(meta) >= release:
        return later
    return _MECHANISMS[arch, unit][1]


def _release(meta: Mapping[str, Any]) -> tuple[int, int]:
    """The kernel's version, (0, 0) where `meta` has none."""
    kernel = meta.get("kernel") or {}
    text = str(kernel.get("release") or kernel.get("version") or "")
    match = _RELEASE.search(text)
    return (int(match[1]), int(match[2])) if match else (0, 0)
