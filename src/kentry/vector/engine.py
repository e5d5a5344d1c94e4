# SPDX-License-Identifier: GPL-2.0-or-later
"""The compiled part of replay: interprets a mechanism and a rule, event by event.

All of it is in one file, because numba's cache looks for changes in the function's own file only.
A task's state is a few bits.  The replay of one policy (`run`) and the search for the best
decisions (`best`) share the small functions that change these bits.
"""

import zlib
from typing import Any

import numpy as np

from kentry.arch.mechanism import Act, Mechanism
from kentry.host.native import compiled
from kentry.vector.policies import Rule

# Compiled code has the numbers of the acts in it.  Their checksum is part of the record's type, so
# code that was compiled with other numbers is not used.
_ACTS = f"acts_{zlib.crc32(' '.join(Act.__members__).encode()):x}"


def record(values: Mechanism | Rule) -> Any:
    """Makes a record for compiled code; a named tuple would take twice as long to compile."""
    dtype = np.dtype([(name, np.int64) for name in (*values._fields, _ACTS)])
    return np.rec.array([(*(int(value) for value in values), 0)], dtype=dtype)[0]


# Codes of the compact stream.
NOTHING, CALL, EXIT, ROUND_TRIP, USE, TRAPPED_USE, SWITCH, FORK, EXEC = range(9)
SIGNAL, SIGRETURN, KERNEL_USE, KERNEL_END, LOAD, SVCR, _PLACE = range(9, 16)

# Bits of a task's state.
OPEN = 1  # the unit does not trap
DIRTY = 2  # the registers differ from memory
LIVE = 4  # the registers hold the task's state
FULL = 8  # memory has more than the small state; has no meaning while LIVE
DISCARDED = 16  # in a system call that left only the small state
INITIAL = 32  # the state is what a discard leaves
USER = 64  # the task was in user mode: it is no kernel thread
KERNEL = 128  # the kernel uses the registers for this task
NESTED = 256  # and so does a softirq meanwhile
ZA = 512  # SVCR.ZA
# From this bit on: whether each signal frame has the whole state, the newest frame first.  Frames
# deeper than the third are taken to have the small state.
_FRAMES_AT = 16
_FRAMES_MASK = 0b111

# Event's numbers (boot/task_hooks.py), for compiled code: numba sees no change of another file.
_SYSCALL, _FAULT, _INTERRUPT, _EXIT, _USE, _USE_SME, _SVCR, _BLOCKED, _PREEMPTED = range(1, 10)
_FORK, _EXEC, _DIE, _SIGNAL, _SIGRETURN, _KERNEL_USE, _KERNEL_END = range(10, 17)
_SEEN_TRAP, _SEEN_FLUSH, _SEEN_RESTORE, _SEEN_SMALL_RESTORE, _SEEN_SME_TRAP = 32, 33, 36, 38, 40

_CALLS, _RETURNS, _OPEN_RETURN = int(Act.CALLS), int(Act.RETURNS), int(Act.OPEN_RETURN)
_DROP, _OPEN_EXIT = int(Act.DROP), int(Act.OPEN_EXIT)
_INITIAL_RESTORE, NOTHING_ACT = int(Act.INITIAL_RESTORE), int(Act.NOTHING)


# The columns of compact()'s notes on a task: where in the stream its last use of this user interval
# is, that use's trap, and a load since the kernel was entered (-1: none); then flags: the trap was
# taken, the task slept before the trap made its state, the kernel is using the unit.
_USED, _TRAP, _LOADED, _TAKEN, _LATE, _IN_KERNEL = range(6)


def codes(m: Mechanism) -> Any:
    """Maps each kind of row to the stream's code, for compact(); NOTHING leaves a row out."""
    table = np.full(256, NOTHING, np.uint8)
    table[_USE_SME if m.za else _USE] = USE
    for row, code in (
        *((_SYSCALL, CALL), (_EXIT, EXIT), (_BLOCKED, SWITCH), (_PREEMPTED, SWITCH)),
        *((_FORK, FORK), (_EXEC, EXEC), (_SIGNAL, SIGNAL), (_SIGRETURN, SIGRETURN)),
        *((_KERNEL_USE, KERNEL_USE), (_KERNEL_END, KERNEL_END), (_SVCR, SVCR if m.za else NOTHING)),
        *((_SEEN_RESTORE, _PLACE), (_SEEN_SMALL_RESTORE, _PLACE)),
    ):
        table[row] = code
    return table


@compiled
def compact(  # noqa: C901 - one loop over the rows
    event: Any, task: Any, arg: Any, tasks: int, codes: Any, m: Any, seen: bool
) -> Any:
    """Keeps the rows that replay needs, as (code, row).  Some move, and some are added:

    - A use whose trap the traced kernel took is TRAPPED_USE; the trace has it again at its retry.
    - If that trap slept before it made the state (no SEEN_FLUSH before the switch), the use moves
      to the return to user mode.
    - A load is a LOAD if the task was switched out, or the kernel used the unit, before the task
      reached user mode.  Other loads are part of EXIT.
    - A call and its return with nothing in between are one ROUND_TRIP.
    `codes` is what codes() returns.  `seen`: the trace has the traced kernel's traps.
    """
    n = len(event)
    # A row gives at most one code: a moved use takes the place of its FAULT, which has none.
    code = np.zeros(n, np.uint8)
    row = np.zeros(n, np.int64)
    notes = np.zeros((tasks, 6), np.int64)
    notes[:, : _LOADED + 1] = -1
    trap_event = _SEEN_SME_TRAP if m.za else _SEEN_TRAP
    out = 0
    for i in range(n):
        e, t = event[i], task[i]
        if e == _EXIT and notes[t, _LATE] and notes[t, _TAKEN]:
            code[notes[t, _TRAP]] = NOTHING
            code[out], row[out] = TRAPPED_USE, i
            out += 1
        put = codes[e]
        if put == EXIT:
            notes[t, : _LOADED + 1] = -1
            notes[t, _LATE] = notes[t, _IN_KERNEL] = 0
            if out > 0 and code[out - 1] == CALL and task[row[out - 1]] == t:
                code[out - 1] = ROUND_TRIP
                put = NOTHING
        elif put == USE:
            notes[t, _USED] = out
        elif put in (SWITCH, KERNEL_USE, SIGNAL):
            if notes[t, _LOADED] >= 0:
                code[notes[t, _LOADED]] = LOAD
                notes[t, _LOADED] = -1
            if put == SWITCH and seen and notes[t, _TRAP] >= 0 and not m.trap_loads:
                notes[t, _LATE] = 1
            elif put == KERNEL_USE:
                notes[t, _IN_KERNEL] = 1
        elif put == KERNEL_END:
            notes[t, _IN_KERNEL] = 0
        elif put == _PLACE:
            put = NOTHING
            if not notes[t, _IN_KERNEL]:
                # It may turn out to be a LOAD.
                notes[t, _LOADED] = out
                code[out], row[out] = NOTHING, i
                out += 1
        elif e == _FAULT and notes[t, _USED] >= 0 and arg[i] == m.trap_class:
            notes[t, _TRAP] = notes[t, _USED]
            notes[t, _TAKEN] = not seen
            if not seen:
                code[notes[t, _TRAP]] = TRAPPED_USE
        elif e == trap_event:
            if notes[t, _TRAP] >= 0:
                code[notes[t, _TRAP]] = TRAPPED_USE
                notes[t, _TAKEN] = 1
        elif e == _SEEN_FLUSH and not notes[t, _LATE]:
            notes[t, _TRAP] = -1
        if e <= _INTERRUPT:
            notes[t, _USED] = -1
        if put != NOTHING:
            code[out], row[out] = put, i
            out += 1
    kept = code[:out] != NOTHING
    return code[:out][kept], row[:out][kept]


# Each function takes a task's bits and returns them; `counts[i]` are the task's acts.


@compiled
def _save(bits: int, m: Any, counts: Any, i: int) -> int:
    """Stores the registers if they are the task's."""
    if not bits & LIVE:
        return bits
    full = bits & ZA if m.za else (bits & OPEN and not bits & DISCARDED)
    if m.saves_clean or bits & DIRTY:
        counts[i, m.save if full else m.small_save] += 1
    return (bits & ~(DIRTY | FULL)) | (FULL if full else 0)


@compiled
def _undecided(bits: int, m: Any) -> bool:
    """Returns whether the policy decides if access is on after a load."""
    return m.drops and not m.always_open and not bits & FULL


@compiled
def _load(bits: int, want: bool, m: Any, counts: Any, i: int) -> int:
    """Loads the task's state into the registers; `want`: access is on, if the policy decides."""
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
    """Returns whether a task owns the registers after its load."""
    return m.loads_closed or bits & OPEN != 0


@compiled
def _call(bits: int, want: bool, m: Any, counts: Any, i: int) -> int:
    """Enters a system call; `want`: access stays on."""
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
    """Returns whether access can be dropped at a system call."""
    if not (bits & OPEN and m.drops) or m.always_open:
        return False
    return not bits & ZA if m.za else m.discards


@compiled
def _use(bits: int, trapped: bool, m: Any, counts: Any, i: int) -> int:
    """Uses the unit; `trapped`: in the traced kernel it trapped, and is retried."""
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
def _switch_out(bits: int, m: Any, counts: Any, i: int) -> int:
    """Switches a task out, as the kernel does with the previous one."""
    if bits & KERNEL:
        counts[i, m.kernel_save] += 1
        return bits
    return int(_save(bits, m, counts, i))


@compiled
def _switch_in(bits: int, m: Any, counts: Any, i: int) -> int:
    if bits & KERNEL:
        counts[i, m.kernel_restore] += 1
    return bits & ~LIVE if m.reloads else bits


@compiled
def _new(m: Any) -> int:
    """Makes the bits of a task after an exec: its state is the initial one, in memory."""
    return OPEN if m.always_open else 0


@compiled
def _child(parent: int, m: Any) -> int:
    """Makes the bits of a task just forked: its memory has the parent's frames and ZA."""
    bits = _new(m) | parent >> _FRAMES_AT << _FRAMES_AT
    return bits | OPEN | ZA | FULL if m.za and parent & ZA else bits


@compiled
def _load_before(bits: int, m: Any, counts: Any, i: int) -> int:
    """Loads the task's state before its registers are stored elsewhere, as x86-64 does."""
    if not bits & LIVE and bits & OPEN:
        counts[i, m.restore] += 1
        bits |= LIVE
    return bits | DIRTY if bits & LIVE and bits & OPEN else bits


@compiled
def _fork(bits: int, m: Any, counts: Any, i: int) -> int:
    """Forks; returns the parent's bits."""
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
    """Delivers a signal: its frame gets the state, and goes on top of the task's frames."""
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
    """Takes the state from the newest frame; without LIVE in the result it must be loaded."""
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
def _exit(bits: int, m: Any, counts: Any, i: int) -> int:
    """Returns to user mode, after every load."""
    counts[i, _RETURNS] += 1
    if bits & OPEN:
        counts[i, _OPEN_RETURN] += 1
        if m.exit_dirties:
            bits |= DIRTY
    return (bits | USER) & ~(DISCARDED | KERNEL | NESTED)


@compiled
def _rare(c: int, b: int, other: int, m: Any, counts: Any, i: int) -> int:
    """Handles a rare event: kernel use, fork, exec, a signal, a change of SVCR."""
    if c == KERNEL_USE:
        if b & KERNEL:
            counts[i, m.kernel_save] += 1
            return b | NESTED
        return (_save(b, m, counts, i) & ~LIVE) | KERNEL
    if c == KERNEL_END:
        if b & NESTED:
            counts[i, m.kernel_restore] += 1
            return b & ~NESTED
        return b & ~KERNEL
    if c == FORK:
        return _fork(b, m, counts, i)
    if c == EXEC:
        return _new(m) | b & USER
    if c == SIGNAL:
        return _signal(b, m, counts, i)
    if c == SIGRETURN:
        return _sigreturn(b, m, counts, i)
    return b | ZA if other & 2 else b & ~ZA


@compiled
def run(  # noqa: C901 - one loop over the stream; helpers that take arrays are slower
    code: Any, task: Any, arg: Any, time: Any, bits: Any, owner: int, m: Any, rule: Any
) -> Any:
    """Replays one policy into counts[tasks, acts]; `time` and `rule.time` have one unit."""
    counts = np.zeros((len(bits), NOTHING_ACT + 1), np.int64)
    # Of each task: the time of its last trap or use, and the clears since then.
    since, spent = np.zeros_like(bits), np.zeros_like(bits)
    for k in range(len(code)):
        c, t = code[k], task[k]
        b = bits[t]
        if c in (CALL, ROUND_TRIP):
            want = True
            if _may_drop(b, m):
                over = time[k] - since[t] > rule.time or spent[t] >= rule.limit
                want = not (rule.at_call and over)
                if want and not b & INITIAL:
                    spent[t] += 1
            b = _call(b, want, m, counts, t)
        if c in (EXIT, LOAD, ROUND_TRIP):
            if not b & LIVE:
                want = rule.opens
                if b & OPEN and _undecided(b, m):
                    over = time[k] - since[t] > rule.time or spent[t] >= rule.limit
                    want = not (rule.at_load and over)
                    if want:
                        spent[t] += 1
                elif want and not b & OPEN:
                    since[t], spent[t] = time[k], 0
                b = _load(b, want, m, counts, t)
                if _owns(b, m):
                    owner = _take(owner, t, bits)
            if c != LOAD:
                b = _exit(b, m, counts, t)
        elif c in (USE, TRAPPED_USE):
            if not b & OPEN or (rule.since_use and c == USE):
                since[t], spent[t] = time[k], 0
            b = _use(b, c == TRAPPED_USE, m, counts, t)
            if b & LIVE and m.trap_loads:
                owner = _take(owner, t, bits)
        elif c == SWITCH:
            bits[t] = _switch_out(b, m, counts, t)
            to = arg[k]
            bits[to] = _switch_in(bits[to], m, counts, to)
            if bits[to] & KERNEL:
                owner = _take(owner, -1, bits)
            b = bits[t]
        elif c != CALL:
            before, b = b, _rare(c, b, arg[k], m, counts, t)
            bits[t] = b
            if c == FORK:
                bits[arg[k]] = _child(b, m)
            if c == KERNEL_USE:
                owner = _take(owner, -1, bits)
            elif b & LIVE and not before & LIVE:
                owner = _take(owner, t, bits)
            elif owner == t and not b & LIVE:
                owner = -1
            b = bits[t]
            if c == SIGRETURN and m.sigreturn_loads and not b & LIVE:
                b = _load(b, rule.opens, m, counts, t)
                owner = _take(owner, t, bits)
        bits[t] = b
    return counts


def beginning(tasks: int, first: int, is_open: bool, m: Mechanism) -> Any:
    """Makes each task's bits; task `first` is in user mode (-1: none), with access if `is_open`."""
    bits = np.full(tasks, OPEN if m.always_open else 0, np.int64)
    if first >= 0:
        bits[first] |= LIVE | USER | (DIRTY if m.exit_dirties else 0) | (OPEN if is_open else 0)
    return bits


@compiled
def _take(owner: int, t: int, bits: Any) -> int:
    """Gives the registers to `t`, or with -1 to the kernel; `bits`: of tasks, or their entries."""
    if owner >= 0 and owner != t:
        bits[owner] &= ~LIVE
    return t


# Dynamic programming over each task's reachable states.  Entry j of task t is `states[t, j]`; row
# t * capacity + j of `counts` has the acts of the cheapest way there.  Tasks are independent: who
# owns the registers is the same for all decisions wherever it matters.


@compiled
def _merge(states: Any, sizes: Any, t: int, counts: Any, price: Any) -> None:
    """Keeps only the cheapest of a task's entries in the same state."""
    first = t * states.shape[1]
    size = 0
    for j in range(sizes[t]):
        kept = 0
        while kept < size and states[t, kept] != states[t, j]:
            kept += 1
        # What the entry that is kept so far costs more than entry j.
        more = 0.0
        if kept < size:
            for act in range(len(price)):
                more += (counts[first + kept, act] - counts[first + j, act]) * price[act]
        if kept == size or more > 0:
            counts[first + kept] = counts[first + j]
        states[t, kept] = states[t, j]
        size = max(size, kept + 1)
    sizes[t] = size


@compiled
def _twin(states: Any, sizes: Any, t: int, j: int, counts: Any) -> int:
    """Adds an entry like entry j."""
    first, k = t * states.shape[1], sizes[t]
    states[t, k] = states[t, j]
    counts[first + k] = counts[first + j]
    sizes[t] += 1
    return int(k)


@compiled
def _load_both(states: Any, sizes: Any, t: int, j: int, m: Any, counts: Any) -> None:
    """Loads entry j with access off and, as another entry, on."""
    first = t * states.shape[1]
    if _undecided(states[t, j], m) and states[t, j] & OPEN:
        k = _twin(states, sizes, t, j, counts)
        states[t, k] = _load(states[t, k], True, m, counts, first + k)
    states[t, j] = _load(states[t, j], False, m, counts, first + j)


@compiled
def _call_both(t: int, states: Any, sizes: Any, m: Any, counts: Any) -> None:
    """Calls from all entries, with access kept and, as other entries, dropped."""
    first = t * states.shape[1]
    for j in range(sizes[t]):
        if _may_drop(states[t, j], m):
            k = _twin(states, sizes, t, j, counts)
            states[t, k] = _call(states[t, k], False, m, counts, first + k)
        states[t, j] = _call(states[t, j], True, m, counts, first + j)


@compiled
def best(  # noqa: C901 - one loop over the stream
    code: Any, task: Any, arg: Any, bits: Any, owner: int, capacity: int, m: Any, price: Any
) -> Any:
    """Finds counts[tasks, acts] of the cheapest decisions, and if `capacity` states were enough."""
    tasks = len(bits)
    states = np.zeros((tasks, capacity), np.int64)
    states[:, 0] = bits
    sizes = np.ones(tasks, np.int64)
    counts = np.zeros((tasks * capacity, NOTHING_ACT + 1), np.int64)
    for k in range(len(code)):
        c, t, to = code[k], task[k], arg[k]
        first = t * capacity
        # A call and a load each double the entries at most.
        if 4 * sizes[t] > capacity:
            return counts[:0], False
        if c in (USE, TRAPPED_USE):
            for j in range(sizes[t]):
                states[t, j] = _use(states[t, j], c == TRAPPED_USE, m, counts, first + j)
        elif c == SWITCH:
            for j in range(sizes[t]):
                states[t, j] = _switch_out(states[t, j], m, counts, first + j)
            for j in range(sizes[to]):
                states[to, j] = _switch_in(states[to, j], m, counts, to * capacity + j)
        elif c in (CALL, ROUND_TRIP, EXIT, LOAD):
            if c in (CALL, ROUND_TRIP):
                _call_both(t, states, sizes, m, counts)
            if c != CALL:
                for j in range(sizes[t]):
                    if not states[t, j] & LIVE:
                        _load_both(states, sizes, t, j, m, counts)
            if c not in (CALL, LOAD):
                for j in range(sizes[t]):
                    states[t, j] = _exit(states[t, j], m, counts, first + j)
        else:
            for j in range(sizes[t]):
                b = _rare(c, states[t, j], to, m, counts, first + j)
                states[t, j] = b
                if c == FORK:
                    # A free choice among the parent's frames: the result may be too low, never
                    # too high.
                    states[to, j], counts[to * capacity + j] = _child(b, m), 0
                if c == SIGRETURN and m.sigreturn_loads and not b & LIVE:
                    _load_both(states, sizes, t, j, m, counts)
            if c == FORK:
                sizes[to] = sizes[t]
                _merge(states, sizes, to, counts, price)
        if c == KERNEL_USE or (c == SWITCH and states[to, 0] & KERNEL):
            owner = _take(owner, -1, states)
        elif c != SWITCH:
            # The entries tell if the task has the registers.
            owns = False
            for j in range(sizes[t]):
                owns = owns or (states[t, j] & LIVE != 0 and _owns(states[t, j], m))
            if owns:
                owner = _take(owner, t, states)
            elif owner == t:
                owner = -1
        if sizes[t] > 1:
            _merge(states, sizes, t, counts, price)
    # With one state for all entries the cheapest of each task is what stays.
    states[:] = 0
    for t in range(tasks):
        _merge(states, sizes, t, counts, price)
    return counts[::capacity].copy(), True
