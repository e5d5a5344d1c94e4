# SPDX-License-Identifier: GPL-2.0-or-later
"""The compiled part of replay: a mechanism and a rule, interpreted event by event.

All of it is in one file, since numba's cache knows a function by the file that it is in.  A
task's state is a few bits; what happens to them is in small functions that the replay of one
policy (`run`) and the search for the best decisions (`best`) share.
"""

from __future__ import annotations

import math
import zlib
from collections.abc import Callable
from typing import Any, TypeVar, cast

import numpy as np
from numba import njit

from kentry.vector.mechanism import Act, Mechanism
from kentry.vector.policies import Rule

_Function = TypeVar("_Function", bound=Callable[..., Any])


def compiled(function: _Function) -> _Function:
    """The function, compiled at its first call; the result is kept beside this file.

    Where neither that nor the user's own cache can be written, each process compiles anew.
    """
    try:
        return cast(_Function, njit(cache=True, nogil=True)(function))
    except RuntimeError:
        return cast(_Function, njit(nogil=True)(function))


# Acts are constants in what is kept: others must not find it.  So they are in a field's name.
_ACTS = f"acts_{zlib.crc32(' '.join(Act.__members__).encode()):x}"


def record(values: Mechanism | Rule) -> Any:
    """A mechanism or rule as compiled code takes it: by reference, which compiles in half."""
    dtype = np.dtype([(name, np.int64) for name in (*values._fields, _ACTS)])
    return np.rec.array([(*(int(value) for value in values), 0)], dtype=dtype)[0]


# Codes of the compact stream.
NOTHING, CALL, EXIT, ROUND_TRIP, USE, TRAPPED_USE, SWITCH, FORK, EXEC = range(9)
SIGNAL, SIGRETURN, KERNEL_USE, KERNEL_END, LOAD, SVCR, _PLACE = range(9, 16)

# Bits of a task's state.
OPEN = 1  # the unit does not trap
DIRTY = 2  # memory does not have what the registers have
LIVE = 4  # the registers hold the task's state
FULL = 8  # memory, where not live, has more than the small state
DISCARDED = 16  # in a system call, with only the small state left
INITIAL = 32  # the state is what a discard leaves
USER = 64  # it was in user mode: not a kernel thread
KERNEL = 128  # the kernel uses the registers for this task
NESTED = 256  # so does a softirq within
ZA = 512  # SVCR.ZA
_FRAMES_AT = 16  # above: what signal frames have, the newest in the lowest bit
_FRAMES_MASK = 0b111  # of that many frames; one deeper is taken for one with the small state

# Rows of a trace that the stream is made of: kentry.vector.trace.Event.
_SYSCALL, _FAULT, _INTERRUPT, _EXIT, _USE, _USE_SME, _SVCR = range(1, 8)
_BLOCKED, _PREEMPTED, _FORK, _EXEC, _DIE, _SIGNAL, _SIGRETURN, _KERNEL_USE, _KERNEL_END = range(
    8, 17
)
_SEEN_TRAP, _SEEN_FLUSH, _SEEN_RESTORE, _SEEN_SMALL_RESTORE, _SEEN_SME_TRAP = 32, 33, 36, 38, 40

_CALLS = int(Act.CALLS)
_RETURNS = int(Act.RETURNS)
_OPEN_RETURN = int(Act.OPEN_RETURN)
_DROP = int(Act.DROP)
_OPEN_EXIT = int(Act.OPEN_EXIT)
_INITIAL_RESTORE = int(Act.INITIAL_RESTORE)
NOTHING_ACT = int(Act.NOTHING)


# --- the compact stream -------------------------------------------------------------------------


# What compact() knows of a task, a column each: where in the stream its last use of this user
# interval is, that of its trap, that of a load since the kernel was entered (-1: none); whether
# the trap was taken, whether it slept before the state was made, whether the kernel uses the unit.
_USED, _TRAP, _LOADED, _TAKEN, _LATE, _IN_KERNEL = range(6)


@compiled
def compact(  # noqa: C901 - one loop over the rows
    event: Any, task: Any, arg: Any, tasks: int, m: Any, seen: bool
) -> Any:
    """The rows that matter, as (code, row): what is moved or added is as the kernel did it.

    - A use whose trap the traced kernel took is TRAPPED_USE: it is there again at its retry.
    - Where that trap slept before the state was made (no SEEN_FLUSH before the switch), the use
      is moved to the return to user mode.
    - A load after which the task was switched out, or the kernel used the unit, before it got
      to user mode is a LOAD of its own; other loads are at the EXIT.
    - A call that nothing that matters comes before the return of is a ROUND_TRIP.
    `seen`: the trace has the traced kernel's traps.
    """
    n = len(event)
    # Of a row comes one at most: a moved use is in place of its FAULT, which is none itself.
    code = np.zeros(n, np.uint8)
    row = np.zeros(n, np.int64)
    known = np.zeros((tasks, 6), np.int64)
    known[:, : _LOADED + 1] = -1
    out = 0
    for i in range(n):
        e, t = event[i], task[i]
        if e == _EXIT and known[t, _LATE] and known[t, _TAKEN]:
            code[known[t, _TRAP]] = NOTHING
            code[out], row[out] = TRAPPED_USE, i
            out += 1
        put = _code_of(e, m) if e <= _KERNEL_END else _seen(e, t, known, code, m)
        if put == EXIT:
            known[t, : _LOADED + 1] = -1
            known[t, _LATE] = known[t, _IN_KERNEL] = 0
            if out > 0 and code[out - 1] == CALL and task[row[out - 1]] == t:
                code[out - 1] = ROUND_TRIP
                put = NOTHING
        elif put == USE:
            known[t, _USED] = out
        elif put in (SWITCH, KERNEL_USE, SIGNAL):
            if known[t, _LOADED] >= 0:
                code[known[t, _LOADED]] = LOAD
                known[t, _LOADED] = -1
            if put == SWITCH and seen and known[t, _TRAP] >= 0 and not m.trap_loads:
                known[t, _LATE] = 1
            elif put == KERNEL_USE:
                known[t, _IN_KERNEL] = 1
        elif put == KERNEL_END:
            known[t, _IN_KERNEL] = 0
        elif e == _FAULT and known[t, _USED] >= 0 and arg[i] == m.trap_class:
            known[t, _TRAP] = known[t, _USED]
            known[t, _TAKEN] = not seen
            if not seen:
                code[known[t, _TRAP]] = TRAPPED_USE
        if e <= _INTERRUPT:
            known[t, _USED] = -1
        if put != NOTHING:
            if put == _PLACE:
                put = NOTHING
                known[t, _LOADED] = out
            code[out], row[out] = put, i
            out += 1
    return _squeeze(code, row, out)


@compiled
def _seen(e: int, t: int, known: Any, code: Any, m: Any) -> int:
    """A row of what the traced kernel did: _PLACE for a load that may turn out to be one."""
    if e == (_SEEN_SME_TRAP if m.za else _SEEN_TRAP):
        if known[t, _TRAP] >= 0:
            code[known[t, _TRAP]] = TRAPPED_USE
            known[t, _TAKEN] = 1
    elif e == _SEEN_FLUSH:
        if not known[t, _LATE]:
            known[t, _TRAP] = -1
    elif e in (_SEEN_RESTORE, _SEEN_SMALL_RESTORE) and not known[t, _IN_KERNEL]:
        return _PLACE
    return NOTHING


@compiled
def _squeeze(code: Any, row: Any, size: int) -> Any:
    """The first `size` rows without those that are NOTHING."""
    keep = 0
    for i in range(size):
        if code[i] != NOTHING:
            code[keep] = code[i]
            row[keep] = row[i]
            keep += 1
    return code[:keep].copy(), row[:keep].copy()


@compiled
def _code_of(e: int, m: Any) -> int:
    """The code of a row of what a program or the scheduler did; NOTHING for what is left out."""
    if e == _SYSCALL:
        return CALL
    if e == _EXIT:
        return EXIT
    if e == (_USE_SME if m.za else _USE):
        return USE
    if e in (_BLOCKED, _PREEMPTED):
        return SWITCH
    if e == _SVCR:
        return SVCR if m.za else NOTHING
    return _rare_code(e)


@compiled
def _rare_code(e: int) -> int:
    if e == _FORK:
        return FORK
    if e == _EXEC:
        return EXEC
    if e == _SIGNAL:
        return SIGNAL
    if e == _SIGRETURN:
        return SIGRETURN
    if e == _KERNEL_USE:
        return KERNEL_USE
    if e == _KERNEL_END:
        return KERNEL_END
    return NOTHING


# --- what happens to a task's state -------------------------------------------------------------
# Each takes the bits and gives them back; `counts[i]` are the task's acts.


@compiled
def _save(bits: int, m: Any, counts: Any, i: int) -> int:
    """The registers are stored where they are the task's."""
    if not bits & LIVE:
        return bits
    full = bits & ZA if m.za else (bits & OPEN and not bits & DISCARDED)
    if m.saves_clean or bits & DIRTY:
        counts[i, m.save if full else m.small_save] += 1
    return (bits & ~(DIRTY | FULL)) | (FULL if full else 0)


@compiled
def _undecided(bits: int, m: Any) -> bool:
    """Whether a load leaves it to the policy if access is on afterwards."""
    return m.drops and not m.always_open and not bits & FULL


@compiled
def _load(bits: int, want: bool, m: Any, counts: Any, i: int) -> int:
    """The task's state gets into the registers; access is as `want`ed where that is undecided."""
    if not _undecided(bits, m):
        if bits & OPEN or m.loads_closed:
            counts[i, _INITIAL_RESTORE if bits & INITIAL else m.restore] += 1
    elif bits & OPEN:
        if want:
            counts[i, _INITIAL_RESTORE if bits & INITIAL else m.small_restore] += 1
            counts[i, m.kept_load] += 1
        else:
            counts[i, _DROP] += 1
            counts[i, m.closed_restore] += 1
            bits &= ~(OPEN | DIRTY | INITIAL)
    elif want:
        counts[i, _OPEN_EXIT] += 1
        counts[i, m.small_restore] += 1
        counts[i, m.kept_load] += 1
        bits |= OPEN
    else:
        counts[i, m.closed_restore] += 1
    bits = (bits | LIVE) & ~DISCARDED
    if m.exit_dirties and bits & OPEN:
        bits |= DIRTY
    return bits


@compiled
def _owns(bits: int, m: Any) -> bool:
    """Whether a task that was loaded has the registers now."""
    return m.loads_closed or bits & OPEN != 0


@compiled
def _call(bits: int, want: bool, m: Any, counts: Any, i: int) -> int:
    """A system call's entry; `want`: access that is on is kept."""
    counts[i, _CALLS] += 1
    counts[i, m.smstop] += 1
    if bits & OPEN:
        if not want:
            counts[i, _DROP] += 1
            bits &= ~(OPEN | DIRTY | INITIAL)
        elif not bits & INITIAL:
            counts[i, m.flush] += 1
            if m.flush_dirties:
                bits |= DIRTY
            if m.tracks_initial:
                bits = (bits | INITIAL) & ~DIRTY
    return bits | DISCARDED if m.discards else bits


@compiled
def _may_drop(bits: int, m: Any) -> bool:
    """Whether a system call leaves nothing that access is needed for."""
    if not (bits & OPEN and m.drops) or m.always_open:
        return False
    return not bits & ZA if m.za else m.discards


@compiled
def _use(bits: int, trapped: bool, m: Any, counts: Any, i: int) -> int:
    """The program uses the unit; `trapped`: the traced kernel took its trap, a retry follows."""
    if not bits & OPEN:
        counts[i, m.trap] += 1
        bits |= OPEN
        if m.trap_loads:
            bits = (bits | FULL) & ~(LIVE | DIRTY | INITIAL | DISCARDED)
            if not trapped:
                counts[i, m.restore] += 1
                bits |= LIVE
        elif bits & LIVE:
            counts[i, m.trap_flush] += 1
            bits &= ~DISCARDED
        elif not m.za:
            bits |= FULL
    if not trapped:
        bits = (bits | DIRTY) & ~INITIAL
    return bits


@compiled
def _switch_out(bits: int, m: Any, lazy: bool, counts: Any, i: int) -> int:
    """The previous task; with a lazy policy the next use of the unit traps."""
    if bits & KERNEL:
        counts[i, m.kernel_save] += 1
        return bits
    bits = _save(bits, m, counts, i)
    return (bits & ~(OPEN | LIVE)) | FULL if lazy else bits


@compiled
def _switch_in(bits: int, m: Any, counts: Any, i: int) -> int:
    if bits & KERNEL:
        counts[i, m.kernel_restore] += 1
    return bits if m.elides else bits & ~LIVE


@compiled
def _kernel_use(bits: int, m: Any, counts: Any, i: int) -> int:
    if bits & KERNEL:
        counts[i, m.kernel_save] += 1
        return bits | NESTED
    return (_save(bits, m, counts, i) & ~LIVE) | KERNEL


@compiled
def _kernel_end(bits: int, m: Any, counts: Any, i: int) -> int:
    if bits & NESTED:
        counts[i, m.kernel_restore] += 1
        return bits & ~NESTED
    return bits & ~KERNEL


@compiled
def _new(m: Any) -> int:
    """A task after an exec: its state is the initial one, in memory."""
    return OPEN if m.always_open else 0


@compiled
def _child(parent: int, m: Any) -> int:
    """A task that was just forked: it has the parent's frames, and its ZA, in memory."""
    bits = _new(m) | parent >> _FRAMES_AT << _FRAMES_AT
    return bits | OPEN | ZA | FULL if m.za and parent & ZA else bits


@compiled
def _load_before(bits: int, m: Any, counts: Any, i: int) -> int:
    """What x86-64 does before it stores registers elsewhere: they have to be the task's."""
    if not bits & LIVE and bits & OPEN:
        counts[i, m.restore] += 1
        bits |= LIVE
    return bits | DIRTY if bits & LIVE and bits & OPEN else bits


@compiled
def _fork(bits: int, m: Any, counts: Any, i: int) -> int:
    """The parent's part; LIVE in the result is whether it has the registers."""
    if not bits & USER:
        return bits
    if m.fork_loads:
        bits = _load_before(bits, m, counts, i)
        if bits & OPEN:
            counts[i, m.save] += 1
    elif m.fork_saves:
        bits = _save(bits, m, counts, i)
    return bits & ~LIVE if m.fork_flushes else bits


@compiled
def _signal(bits: int, m: Any, counts: Any, i: int) -> int:
    """A handler's frame is made; what it has goes on top of the task's frames."""
    if m.signal_resets:
        bits = _load_before(bits, m, counts, i)
        if bits & OPEN:
            counts[i, m.save] += 1
            counts[i, m.restore] += 1
    elif m.signal_saves:
        bits = _save(bits, m, counts, i)
        full = bits & OPEN if m.frames_if_open else bits & FULL
        frames = ((bits >> _FRAMES_AT) << 1 | (1 if full else 0)) & _FRAMES_MASK
        bits = bits & ((1 << _FRAMES_AT) - 1) | frames << _FRAMES_AT
        if m.za:
            bits &= ~ZA
    return bits & ~LIVE if m.signal_flushes else bits


@compiled
def _sigreturn(bits: int, m: Any, counts: Any, i: int) -> int:
    """The frame's state becomes the task's; the result is not LIVE where it is to be loaded."""
    if m.signal_resets:
        if bits & OPEN:
            counts[i, m.restore] += 1
            bits |= LIVE | DIRTY
        return bits
    frames = bits >> _FRAMES_AT
    full = frames & 1
    bits = bits & ((1 << _FRAMES_AT) - 1) | (frames >> 1) << _FRAMES_AT
    if m.signal_flushes:
        bits = _save(bits, m, counts, i)
    if full:
        bits = (bits | OPEN | FULL | (ZA if m.za else 0)) & ~(DIRTY | INITIAL | LIVE)
    elif m.sigreturn_closes:
        if bits & OPEN:
            counts[i, _DROP] += 1
        bits &= ~(OPEN | FULL | LIVE)
    elif m.za:
        bits &= ~(FULL | LIVE)
    return bits


@compiled
def _svcr(bits: int, value: int) -> int:
    return bits | ZA if value & 2 else bits & ~ZA


# --- one policy ---------------------------------------------------------------------------------


@compiled
def _random(state: int) -> Any:
    """xorshift64: the next state, and a number in [0, 1)."""
    x = np.uint64(state)
    x ^= x << np.uint64(13)
    x ^= x >> np.uint64(7)
    x ^= x << np.uint64(17)
    return np.int64(x), float(x >> np.uint64(11)) * 2.0**-53


@compiled
def _drawn(n: int, u: float) -> int:
    """Clears to pay before a drop: the best draw for ski rental with a break-even of `n`.

    Buying on day i of 1..n has the probability q^(n-i) / (n (1 - q^n)) with q = 1 - 1/n (Karlin,
    Manasse, McGeoch, Owicki 1990); u in [0, 1) is where in its distribution the day is.
    """
    if n <= 1:
        return 0
    q = 1.0 - 1.0 / n
    least = q**n
    day = math.ceil(n - math.log(u * (1.0 - least) + least) / math.log(q))
    return min(max(day, 1), n) - 1


@compiled
def run(  # noqa: C901 - one loop over the stream; helpers that take arrays are slower
    code: Any, task: Any, arg: Any, time: Any, group: Any, bits: Any, owner: int, m: Any, rule: Any
) -> Any:
    """Counts[tasks, acts] of one policy: `rule` where a decision is its own, else `m`.

    `time` is in what `rule.time` is in; `group[task]` is a number of the task's name, below the
    number of tasks.  `bits`, which are used up, and `owner` are of beginning().
    """
    counts = np.zeros((len(bits), NOTHING_ACT + 1), np.int64)
    # Of each task, when its last trap or use was, the clears since, how many there may be; the
    # calls since a drop, -1 for none; the timeslices in a row with a use.  Of each name, its limit.
    since, spent, slices = np.zeros_like(bits), np.zeros_like(bits), np.zeros_like(bits)
    limit, learned = np.full_like(bits, rule.limit), np.full_like(bits, rule.limit)
    gap = np.full_like(bits, -1)
    random = rule.seed
    for k in range(len(code)):
        c, t = code[k], task[k]
        b = bits[t]
        if c in (CALL, ROUND_TRIP):
            want = True
            if _may_drop(b, m):
                over = time[k] - since[t] > rule.time or spent[t] >= limit[t]
                want = not (rule.at_call and over)
                if not want:
                    gap[t] = 0
                elif not b & INITIAL:
                    spent[t] += 1
            elif gap[t] >= 0:
                gap[t] += 1
            b = _call(b, want, m, counts, t)
        if c in (EXIT, LOAD, ROUND_TRIP):
            if not b & LIVE:
                want = rule.opens
                if b & OPEN and _undecided(b, m):
                    over = time[k] - since[t] > rule.time or spent[t] >= limit[t]
                    want = not (rule.at_load and over)
                    if want:
                        spent[t] += 1
                    else:
                        gap[t] = 0
                elif want and not b & OPEN:
                    since[t], spent[t] = time[k], 0
                b = _load_for(b, want, slices[t], m, rule, counts, t)
                if _owns(b, m):
                    owner = _take(owner, t, bits)
            if c != LOAD:
                b = _exit(b, m, counts, t)
        elif c in (USE, TRAPPED_USE):
            if not b & OPEN:
                random = _note_trap(gap, learned, limit, group, t, rule, random)
                since[t], spent[t] = time[k], 0
            elif rule.since_use and c == USE:
                if rule.randomised and spent[t] > 0:
                    random = _set_limit(limit, t, 0, rule, random)
                since[t], spent[t] = time[k], 0
            b = _use(b, c == TRAPPED_USE, m, counts, t)
            if b & LIVE and m.trap_loads:
                owner = _take(owner, t, bits)
        elif c == SWITCH:
            slices[t] = (slices[t] + 1) & 255 if b & OPEN else 0
            bits[t] = _switch_out(b, m, rule.lazy >= 0, counts, t)
            owner = _switch_to(arg[k], bits, owner, m, counts)
            b = bits[t]
        elif c != CALL:
            bits[t] = _rare_bits(c, b, arg[k], m, counts, t)
            owner = _rare_owner(c, b, bits[t], t, arg[k], owner, bits, gap, m)
            b = bits[t]
            if c == SIGRETURN and m.sigreturn_loads and not b & LIVE:
                b = _load(b, rule.opens, m, counts, t)
                owner = _take(owner, t, bits)
        bits[t] = b
    return counts


def beginning(tasks: int, first: int, first_open: bool, m: Mechanism) -> Any:
    """The bits of each task when a trace begins.

    `first` is the task in user mode then, -1 for none; `first_open`: it has access.
    """
    bits = np.full(tasks, OPEN if m.always_open else 0, np.int64)
    if first >= 0:
        dirty = DIRTY if m.exit_dirties else 0
        bits[first] |= LIVE | USER | dirty | (OPEN if first_open else 0)
    return bits


@compiled
def _load_for(b: int, want: bool, slices: int, m: Any, rule: Any, counts: Any, i: int) -> Any:
    """A load; a lazy policy's is only made where the task had that many slices with a use."""
    if rule.lazy < 0:
        return _load(b, want, m, counts, i)
    if slices > rule.lazy or b & OPEN:
        counts[i, m.restore] += 1
        b |= OPEN
    return (b | LIVE) & ~DISCARDED


@compiled
def _switch_to(to: int, bits: Any, owner: int, m: Any, counts: Any) -> int:
    """The next task, and then the registers' owner."""
    bits[to] = _switch_in(bits[to], m, counts, to)
    return _take(owner, -1, bits) if bits[to] & KERNEL else owner


@compiled
def _note_trap(
    gap: Any, learned: Any, limit: Any, group: Any, t: int, rule: Any, random: int
) -> int:
    """What a policy learns from a trap; the random numbers' next state."""
    if rule.adaptive and gap[t] >= 0:
        _learn(learned, group[t], gap[t], rule.limit)
    gap[t] = -1
    return _set_limit(limit, t, learned[group[t]], rule, random)


@compiled
def _take(owner: int, t: int, bits: Any) -> int:
    """The registers go to `t`, or with -1 to the kernel."""
    if owner >= 0 and owner != t:
        bits[owner] &= ~LIVE
    return t


@compiled
def _exit(bits: int, m: Any, counts: Any, i: int) -> int:
    """The return to user mode, all being loaded."""
    counts[i, _RETURNS] += 1
    if bits & OPEN:
        counts[i, _OPEN_RETURN] += 1
        if m.exit_dirties:
            bits |= DIRTY
    return (bits | USER) & ~(DISCARDED | KERNEL | NESTED)


@compiled
def _learn(learned: Any, group: int, gap: int, first: int) -> None:
    """A trap came `gap` calls after a drop: see policies.Adaptive."""
    if gap < first:
        learned[group] = min(2 * learned[group] + 1, 64 * first)
    else:
        learned[group] >>= 1


@compiled
def _set_limit(limit: Any, t: int, learned: int, rule: Any, random: int) -> int:
    """The clears to pay until the next drop; the random numbers' next state."""
    if rule.randomised:
        random, u = _random(random)
        limit[t] = _drawn(rule.limit, u)
    elif rule.adaptive:
        limit[t] = learned
    return random


@compiled
def _rare_bits(c: int, b: int, other: int, m: Any, counts: Any, i: int) -> int:
    """The task's bits after what is not often."""
    if c == KERNEL_USE:
        return _kernel_use(b, m, counts, i)
    if c == KERNEL_END:
        return _kernel_end(b, m, counts, i)
    if c == FORK:
        return _fork(b, m, counts, i)
    if c == EXEC:
        return _new(m) | b & USER
    if c == SIGNAL:
        return _signal(b, m, counts, i)
    if c == SIGRETURN:
        return _sigreturn(b, m, counts, i)
    return _svcr(b, other)


@compiled
def _rare_owner(
    c: int, before: int, b: int, t: int, other: int, owner: int, bits: Any, gap: Any, m: Any
) -> int:
    """Whose the registers are after what is not often; a forked task begins."""
    if c == EXEC:
        gap[t] = -1
    elif c == FORK:
        bits[other], gap[other] = _child(b, m), -1
    if c == KERNEL_USE:
        return _take(owner, -1, bits)
    if b & LIVE and not before & LIVE:
        return _take(owner, t, bits)
    return -1 if owner == t and not b & LIVE else owner


# --- the best decisions -------------------------------------------------------------------------
# Dynamic programming over a task's reachable states: entry j of task t is `states[t, j]`, with the
# acts of the cheapest way to it in row t * capacity + j of `counts`.  Tasks do not depend on each
# other: whose state the registers hold is the same for all decisions wherever it matters.


@compiled
def _merge(states: Any, sizes: Any, t: int, counts: Any, price: Any) -> None:
    """Of entries in the same state the cheapest stays."""
    capacity = states.shape[1]
    size = 0
    for j in range(sizes[t]):
        row = t * capacity + j
        same = -1
        for k in range(size):
            if states[t, k] == states[t, j]:
                same = k
        kept = t * capacity + (size if same < 0 else same)
        if same < 0:
            states[t, size] = states[t, j]
            size += 1
        if same < 0 or _dearer(counts, kept, row, price):
            for act in range(counts.shape[1]):
                counts[kept, act] = counts[row, act]
    sizes[t] = size


@compiled
def _dearer(counts: Any, one: int, other: int, price: Any) -> bool:
    """Whether row `one` costs more than row `other`."""
    difference = 0.0
    for act in range(len(price)):
        difference += (counts[one, act] - counts[other, act]) * price[act]
    return difference > 0


@compiled
def _twin(states: Any, sizes: Any, t: int, j: int, counts: Any) -> int:
    """A new entry like entry j; -1 where there is no room."""
    capacity = states.shape[1]
    k = sizes[t]
    if k == capacity:
        return -1
    states[t, k] = states[t, j]
    counts[t * capacity + k] = counts[t * capacity + j]
    sizes[t] += 1
    return int(k)


@compiled
def _take_all(owner: int, t: int, states: Any, sizes: Any, m: Any) -> int:
    """The registers' owner after an event of `t`, whose entries tell if it has them."""
    live = False
    for j in range(sizes[t]):
        live = live or (states[t, j] & LIVE != 0 and _owns(states[t, j], m))
    if not live:
        return -1 if owner == t else owner
    return _give(owner, t, states, sizes)


@compiled
def _give(owner: int, t: int, states: Any, sizes: Any) -> int:
    """As _take()."""
    if owner >= 0 and owner != t:
        for j in range(sizes[owner]):
            states[owner, j] &= ~LIVE
    return t


@compiled
def _load_both(states: Any, sizes: Any, t: int, j: int, opens: bool, m: Any, counts: Any) -> bool:
    """Entry j is loaded, with access off and, as another entry, on; False without room."""
    capacity = states.shape[1]
    if _undecided(states[t, j], m) and (opens or states[t, j] & OPEN):
        k = _twin(states, sizes, t, j, counts)
        if k < 0:
            return False
        states[t, k] = _load(states[t, k], True, m, counts, t * capacity + k)
    states[t, j] = _load(states[t, j], False, m, counts, t * capacity + j)
    return True


@compiled
def _step(c: int, t: int, opens: bool, states: Any, sizes: Any, m: Any, counts: Any) -> bool:
    """A frequent event of `t`, for all its entries; False without room."""
    if c in (USE, TRAPPED_USE):
        for j in range(sizes[t]):
            row = t * states.shape[1] + j
            states[t, j] = _use(states[t, j], c == TRAPPED_USE, m, counts, row)
        return True
    if c in (CALL, ROUND_TRIP) and not _call_both(t, states, sizes, m, counts):
        return False
    return c == CALL or _return_all(c, t, opens, states, sizes, m, counts)


@compiled
def _call_both(t: int, states: Any, sizes: Any, m: Any, counts: Any) -> bool:
    """A call of all entries, with access kept and, as other entries, dropped."""
    capacity = states.shape[1]
    for j in range(sizes[t]):
        b = states[t, j]
        if _may_drop(b, m):
            k = _twin(states, sizes, t, j, counts)
            if k < 0:
                return False
            states[t, k] = _call(b, False, m, counts, t * capacity + k)
        states[t, j] = _call(b, True, m, counts, t * capacity + j)
    return True


@compiled
def _return_all(c: int, t: int, opens: bool, states: Any, sizes: Any, m: Any, counts: Any) -> bool:
    """A load of all entries that are not live, and but for LOAD the return to user mode."""
    for j in range(sizes[t]):
        live = states[t, j] & LIVE != 0
        if not live and not _load_both(states, sizes, t, j, opens, m, counts):
            return False
    if c != LOAD:
        for j in range(sizes[t]):
            states[t, j] = _exit(states[t, j], m, counts, t * states.shape[1] + j)
    return True


@compiled
def _rare_step(
    c: int, t: int, other: int, opens: bool, states: Any, sizes: Any, m: Any, counts: Any
) -> bool:
    """Any other event of one task; False without room."""
    if c == FORK:
        sizes[other] = 0
    for j in range(sizes[t]):
        b = _rare_bits(c, states[t, j], other, m, counts, t * states.shape[1] + j)
        states[t, j] = b
        # A free choice among the parent's frames: the result may be too low, never too high.
        if c == FORK and not _add_child(_child(b, m), other, states, sizes, counts):
            return False
        loads = c == SIGRETURN and m.sigreturn_loads and not b & LIVE
        if loads and not _load_both(states, sizes, t, j, opens, m, counts):
            return False
    return True


@compiled
def _add_child(bits: int, child: int, states: Any, sizes: Any, counts: Any) -> bool:
    """Another state that a forked task may be in; False without room."""
    for j in range(sizes[child]):
        if states[child, j] == bits:
            return True
    if sizes[child] == states.shape[1]:
        return False
    states[child, sizes[child]] = bits
    counts[child * states.shape[1] + sizes[child]] = 0
    sizes[child] += 1
    return True


@compiled
def _switch_all(t: int, to: int, states: Any, sizes: Any, m: Any, counts: Any) -> None:
    """A switch, for all entries of both tasks."""
    capacity = states.shape[1]
    for j in range(sizes[t]):
        states[t, j] = _switch_out(states[t, j], m, False, counts, t * capacity + j)
    for j in range(sizes[to]):
        states[to, j] = _switch_in(states[to, j], m, counts, to * capacity + j)


@compiled
def _cheapest(sizes: Any, capacity: int, counts: Any, price: Any) -> Any:
    """The acts of each task's cheapest entry."""
    tasks = len(sizes)
    result = np.zeros((tasks, counts.shape[1]), np.int64)
    for t in range(tasks):
        least = t * capacity
        for j in range(1, sizes[t]):
            if _dearer(counts, least, t * capacity + j, price):
                least = t * capacity + j
        result[t] = counts[least]
    return result


@compiled
def best(
    code: Any,
    task: Any,
    arg: Any,
    bits: Any,
    owner: int,
    capacity: int,
    opens: bool,
    m: Any,
    price: Any,
) -> Any:
    """Counts[tasks, acts] of the cheapest decisions, and whether `capacity` states were enough.

    `opens`: access may be turned on without a trap, too.  `bits` and `owner` are of beginning().
    """
    tasks = len(bits)
    states = np.zeros((tasks, capacity), np.int64)
    states[:, 0] = bits
    sizes = np.ones(tasks, np.int64)
    counts = np.zeros((tasks * capacity, NOTHING_ACT + 1), np.int64)
    for k in range(len(code)):
        c, t = code[k], task[k]
        good = True
        if c <= TRAPPED_USE or c == LOAD:
            good = _step(c, t, opens, states, sizes, m, counts)
            owner = _take_all(owner, t, states, sizes, m)
        elif c == SWITCH:
            _switch_all(t, arg[k], states, sizes, m, counts)
            if states[arg[k], 0] & KERNEL:
                owner = _give(owner, -1, states, sizes)
        else:
            good = _rare_step(c, t, arg[k], opens, states, sizes, m, counts)
            if c == KERNEL_USE:
                owner = _give(owner, -1, states, sizes)
            else:
                owner = _take_all(owner, t, states, sizes, m)
        if not good:
            return counts[:0], False
        if sizes[t] > 1:
            _merge(states, sizes, t, counts, price)
    return _cheapest(sizes, capacity, counts, price), True
