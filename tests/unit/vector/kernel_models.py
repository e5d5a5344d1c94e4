# SPDX-License-Identifier: GPL-2.0-or-later
"""What kernels do to vector state, written again as their sources are: for the engine's tests.

A model is the kernel's own functions and flags, in Python, for traces without SEEN_ rows.  The
engine's bits and mechanism records are not used.
"""

import math
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from hypothesis import strategies as st

from kentry.boot.task_hooks import OF_TWO_TASKS, Event
from kentry.vector.trace import VectorTrace
from tests.unit.vector.traces import PAGE_FAULT, SVE_TRAP
from tests.unit.vector.traces import trace_of as trace_of_columns

Row = tuple[int, ...]  # event, task[, arg[, ns]]

RISCV_TRAP = 2


def trace_of(
    rows: Sequence[Row], arch: str = "arm64", release: str = "6.12.117", hz: int | None = None
) -> VectorTrace:
    """A trace of rows; the time of one that has none is 1000 ns a row."""
    full = [(*row, *(0, 1000 * place)[len(row) - 2 :]) for place, row in enumerate(rows, 1)]
    tasks = 1 + max(max(row[1], row[2] if row[0] in OF_TWO_TASKS else 0) for row in full)
    policy = {"arm64": "drop-on-load", "riscv64": "discard", "x86_64": "eager"}[arch]
    meta = {"arch": arch, "kernel": {"release": release}, "hz": hz, "policy": policy}
    columns = [(event, task, ns, arg) for event, task, arg, ns in full]
    return trace_of_columns(columns, tasks, **meta)


@dataclass
class Thread:
    """A task's fields, arm64's, riscv's and x86's."""

    number: int
    user: bool = False
    # arm64
    sve: bool = False  # TIF_SVE
    foreign: bool = True  # TIF_FOREIGN_FPSTATE
    fp_sve: bool = False  # fp_type == FP_STATE_SVE
    on_cpu: bool = False  # fpsimd_cpu is this one
    kernel_fp: bool = False  # TIF_KERNEL_FPSTATE
    frames: list[bool] = field(default_factory=list)
    trapped: int = 0  # when
    clears: int = 0
    # riscv
    vs: str = "off"
    defer: bool = False
    in_kernel_v: bool = False
    discarded: bool = False
    # x86
    need_load: bool = True
    last_cpu: bool = False


def cheapest(
    model: "type[Model]", trace: VectorTrace, costs: Mapping[str, float], most: int
) -> float | None:
    """The least that any sequence of decisions costs; None if one has more than `most`."""
    least = math.inf
    open_ends: list[tuple[bool, ...]] = [()]
    while open_ends:
        given = open_ends.pop()
        asked = 0

        def decide(where: str, thread: Thread, now: int, given: tuple[bool, ...] = given) -> bool:
            nonlocal asked
            asked += 1
            return asked <= len(given) and given[asked - 1]

        acts = model(decide).run(trace)
        if asked > most:
            return None
        least = min(least, sum(times * costs[act] for (_, act), times in acts.items()))
        # Those whose first decision beyond the given ones is to drop.
        open_ends += [(*given, *(False,) * place, True) for place in range(asked - len(given))]
    return least


# Whether access is dropped: "call" or "load", the thread, the time.
Decide = Callable[[str, Thread, int], bool]


class Model:
    """Walks a trace; `acts[task, word]` counts.  `decide` says if access is dropped."""

    trap_class = -1

    def __init__(self, decide: Decide) -> None:
        self.decide = decide
        self.acts: Counter[tuple[int, str]] = Counter()
        self.threads: dict[int, Thread] = {}
        self.now = 0

    def run(self, trace: VectorTrace) -> Counter[tuple[int, str]]:
        """The acts of all tasks."""
        rows = list(zip(trace.event, trace.task, trace.arg, trace.ns, strict=True))
        for place, (event, task, arg, ns) in enumerate(rows):
            self.now = int(ns)
            thread = self.thread(int(task))
            if event == Event.USE:
                after = rows[place + 1][:3] if place + 1 < len(rows) else None
                trapped = after == (Event.FAULT, task, self.trap_class)
                self.use(thread, trapped=trapped)
            elif event in (Event.SWITCH_BLOCKED, Event.SWITCH_PREEMPTED):
                self.switch(thread, self.thread(int(arg)))
            elif event == Event.FORK:
                self.threads.pop(int(arg), None)
                child = self.thread(int(arg))
                child.frames = list(thread.frames)
                self.fork(thread, child)
            else:
                name = Event(event).name.lower()
                getattr(self, name, lambda thread: None)(thread)
        return self.acts

    def thread(self, number: int) -> Thread:
        return self.threads.setdefault(number, Thread(number))

    def count(self, thread: Thread, act: str) -> None:
        self.acts[thread.number, act] += 1

    def dropped(self, where: str, thread: Thread, kept: str) -> bool:
        """Whether access is dropped there; `kept` is what is done else, which counts as a clear."""
        drops = self.decide(where, thread, self.now)
        self.count(thread, "drop" if drops else kept)
        thread.clears += not drops
        return drops

    def use(self, thread: Thread, *, trapped: bool) -> None: ...

    def switch(self, thread: Thread, other: Thread) -> None: ...

    def fork(self, thread: Thread, child: Thread) -> None: ...


class Arm64(Model):
    """arch/arm64/kernel/fpsimd.c of 6.12.117; `flushing`: of 7.3.4."""

    trap_class = SVE_TRAP
    flushing = False

    def __init__(self, decide: Decide) -> None:
        super().__init__(decide)
        self.last: Thread | None = None
        self.to_save_fpsimd = False

    def save_user_state(self, current: Thread) -> None:
        if current.foreign:
            return
        assert self.last is current
        current.fp_sve = current.sve and not self.to_save_fpsimd
        self.count(current, "save" if current.fp_sve else "small_save")

    def task_load(self, current: Thread) -> None:
        if current.fp_sve:
            assert current.sve
            self.count(current, "restore")
            return
        self.count(current, "small_restore")
        if current.sve and self.dropped("load", current, "kept_load"):
            current.sve = False

    def bind(self, current: Thread) -> None:
        self.last = current
        current.on_cpu = True
        self.to_save_fpsimd = False

    def flush_task_state(self, current: Thread) -> None:
        current.on_cpu = False
        current.foreign = True

    def use(self, thread: Thread, *, trapped: bool) -> None:
        if thread.sve:
            return
        self.count(thread, "trap")
        thread.sve = True
        thread.trapped, thread.clears = self.now, 0
        assert not thread.foreign
        self.count(thread, "trap_flush")
        self.bind(thread)

    def syscall(self, thread: Thread) -> None:
        if thread.sve and self.dropped("call", thread, "flush"):
            thread.sve = False
        self.to_save_fpsimd = True

    def exit(self, thread: Thread) -> None:
        if thread.foreign:
            thread.foreign = False
            self.task_load(thread)
            self.bind(thread)
        self.to_save_fpsimd = False

    def switch(self, thread: Thread, other: Thread) -> None:
        if thread.kernel_fp:
            self.count(thread, "small_save")
            self.last = None
        else:
            self.save_user_state(thread)
        if other.kernel_fp:
            self.last = None
            self.count(other, "small_restore")
        else:
            other.foreign = not (self.last is other and other.on_cpu)

    def fork(self, thread: Thread, child: Thread) -> None:
        self.save_user_state(thread)
        if self.flushing:
            self.flush_task_state(thread)

    def exec(self, thread: Thread) -> None:
        self.flush_task_state(thread)
        thread.sve = thread.fp_sve = False
        thread.frames = []

    def signal(self, thread: Thread) -> None:
        self.save_user_state(thread)
        if self.flushing:
            self.flush_task_state(thread)
        thread.frames.append(thread.fp_sve)

    def sigreturn(self, thread: Thread) -> None:
        if self.flushing:
            self.save_user_state(thread)
            self.flush_task_state(thread)
        full = thread.frames.pop()
        if thread.sve and not full:
            self.count(thread, "drop")
        thread.sve = thread.fp_sve = full
        if not self.flushing:
            self.task_load(thread)
            self.bind(thread)
            thread.foreign = False

    def kernel_use(self, thread: Thread) -> None:
        if thread.kernel_fp:
            self.count(thread, "small_save")
        else:
            self.save_user_state(thread)
        thread.in_kernel_v, thread.kernel_fp = thread.kernel_fp, True
        self.last = None
        thread.foreign = True

    def kernel_use_end(self, thread: Thread) -> None:
        if thread.in_kernel_v:
            self.count(thread, "small_restore")
            thread.in_kernel_v = False
        else:
            thread.kernel_fp = False


class Arm64Flushing(Arm64):
    flushing = True


class RiscV(Model):
    """arch/riscv of 6.12.117; a drop is VS off."""

    trap_class = RISCV_TRAP

    def vstate_save(self, thread: Thread) -> None:
        if thread.vs == "dirty":
            self.count(thread, "save")
            thread.vs = "clean"

    def set_restore(self, thread: Thread) -> None:
        if thread.vs != "off":
            thread.defer = True
            thread.vs = "initial"

    def use(self, thread: Thread, *, trapped: bool) -> None:
        if thread.vs == "off":
            self.count(thread, "trap")
            thread.vs = "initial"
            self.set_restore(thread)
            thread.trapped, thread.clears = self.now, 0
            if not trapped:
                thread.defer = False
                self.count(thread, "restore")
        if not trapped:
            thread.vs = "dirty"

    def syscall(self, thread: Thread) -> None:
        if thread.vs != "off":
            if self.dropped("call", thread, "flush"):
                thread.vs = "off"
                return
            thread.vs = "dirty"
            thread.discarded = True

    def exit(self, thread: Thread) -> None:
        if thread.defer:
            thread.defer = False
            if thread.vs != "off":
                self.load(thread)
        thread.discarded = False

    def load(self, thread: Thread) -> None:
        if not thread.discarded:
            self.count(thread, "restore")
        elif self.dropped("load", thread, "restore"):
            thread.vs = "off"
            return
        thread.vs = "clean"

    def switch(self, thread: Thread, other: Thread) -> None:
        if thread.in_kernel_v:
            self.count(thread, "save")
        else:
            self.vstate_save(thread)
        if other.in_kernel_v:
            self.count(other, "restore")
        else:
            self.set_restore(other)

    def exec(self, thread: Thread) -> None:
        thread.vs, thread.defer, thread.discarded = "off", False, False
        thread.frames = []

    def signal(self, thread: Thread) -> None:
        self.vstate_save(thread)
        thread.frames.append(thread.vs != "off")

    def sigreturn(self, thread: Thread) -> None:
        if thread.frames.pop():
            assert thread.vs != "off"
            self.set_restore(thread)
            thread.discarded = False

    def kernel_use(self, thread: Thread) -> None:
        if thread.in_kernel_v:
            self.count(thread, "save")
            thread.kernel_fp = True
            return
        self.vstate_save(thread)
        self.set_restore(thread)
        thread.in_kernel_v = True

    def kernel_use_end(self, thread: Thread) -> None:
        if thread.kernel_fp:
            self.count(thread, "restore")
            thread.kernel_fp = False
        else:
            thread.in_kernel_v = False


class X86(Model):
    """arch/x86 of 6.12.117; there is nothing to decide."""

    def __init__(self, decide: Decide) -> None:
        super().__init__(decide)
        self.owner: Thread | None = None

    def restore_userregs(self, thread: Thread) -> None:
        if self.owner is not thread or not thread.last_cpu:
            self.count(thread, "restore")
            self.owner = thread
            thread.last_cpu = True
        thread.need_load = False

    def exit(self, thread: Thread) -> None:
        thread.user = True
        if thread.need_load:
            self.restore_userregs(thread)

    def switch(self, thread: Thread, other: Thread) -> None:
        if not thread.need_load:
            self.count(thread, "save")
            thread.last_cpu = True
        other.need_load = True

    def fork(self, thread: Thread, child: Thread) -> None:
        if not thread.user:
            return
        if thread.need_load:
            self.restore_userregs(thread)
        self.count(thread, "save")

    def exec(self, thread: Thread) -> None:
        thread.last_cpu = False
        thread.need_load = True

    def signal(self, thread: Thread) -> None:
        if thread.need_load:
            self.restore_userregs(thread)
        self.count(thread, "save")
        self.count(thread, "restore")

    def sigreturn(self, thread: Thread) -> None:
        self.count(thread, "restore")
        self.owner = thread
        thread.last_cpu, thread.need_load = True, False

    def kernel_use(self, thread: Thread) -> None:
        if thread.user and not thread.need_load:
            self.count(thread, "save")
        thread.need_load = True
        self.owner = None


class _Writer:
    """Turns drawn numbers into a trace that a kernel could have: who is where is kept."""

    def __init__(self, trap: int, *, signals: bool, kernel_uses: bool) -> None:
        self.rows: list[Row] = []
        self.trap = trap
        # x86's kernel_fpu_begin() turns preemption off.
        self.preemptible = trap >= 0
        self.signals = signals
        self.kernel_uses = kernel_uses
        self.current = 1
        self.where = {0: "idle", 1: "kernel", 2: "kernel"}
        self.frames = {0: 0, 1: 0, 2: 0}
        self.in_use = dict.fromkeys(self.where, 0)
        self.started: set[int] = set()
        self.ns = 1000

    def put(self, event: Event, arg: int = 0) -> None:
        self.rows.append((event, self.current, arg, self.ns))

    def step(self, choice: int, pause: int) -> None:
        self.ns += pause
        kinds = {"user": self.user, "idle": self.idle}
        kinds.get(self.where[self.current], self.kernel)(choice)

    def user(self, choice: int) -> None:
        if choice % 2:
            self.put(Event.USE, 1)
            if choice % 16 == 15:
                self.put(Event.FAULT, self.trap)
                self.where[self.current] = "kernel"
                return
        self.ns += 10
        kind = choice // 2 % 4
        events = (Event.SYSCALL, Event.SYSCALL, Event.INTERRUPT, Event.FAULT)
        self.put(events[kind], PAGE_FAULT if kind == 3 else 0)
        self.where[self.current] = "call" if kind < 2 else "kernel"

    def idle(self, choice: int) -> None:
        if self.kernel_uses and choice % 8 == 7:
            self.put(Event.KERNEL_USE)
            self.put(Event.KERNEL_USE_END)
        self.switch(choice)

    def kernel(self, choice: int) -> None:
        kind, current = choice % 16, self.current
        call = self.where[current] == "call" and not self.in_use[current]
        if not self.preemptible or kind > 5:
            self.leave_kernel_use()
        if kind < 3:
            self.switch(choice // 16)
        elif kind == 3 and self.kernel_uses and self.in_use[current] < 2:
            self.put(Event.KERNEL_USE)
            self.in_use[current] += 1
        elif kind == 4 and call and len(self.where) < 6:
            child = len(self.where)
            self.put(Event.FORK, child)
            self.where[child], self.frames[child] = "kernel", self.frames[current]
            self.in_use[child] = 0
        elif kind == 5 and call:
            self.put(Event.EXEC)
            self.frames[current] = 0
        elif kind == 6 and self.signals and current in self.started and self.frames[current] < 3:
            self.put(Event.SIGNAL)
            self.frames[current] += 1
        elif kind == 7 and call and self.frames[current]:
            self.put(Event.SIGRETURN)
            self.frames[current] -= 1
            self.where[current] = "kernel"
        else:
            self.leave_kernel_use()
            self.put(Event.EXIT)
            self.started.add(current)
            self.where[current] = "user"

    def leave_kernel_use(self) -> None:
        while self.in_use[self.current]:
            self.put(Event.KERNEL_USE_END)
            self.in_use[self.current] -= 1

    def switch(self, choice: int) -> None:
        others = [task for task in self.where if task != self.current]
        other = others[choice % len(others)]
        self.put(Event.SWITCH_BLOCKED, other)
        self.current = other


@st.composite
def traces(
    draw: st.DrawFn,
    arch: str = "arm64",
    release: str = "6.12.117",
    *,
    signals: bool = True,
    kernel_uses: bool = True,
    most: int = 120,
) -> VectorTrace:
    """Traces of a few tasks that a kernel of the architecture could have."""
    trap = {"arm64": SVE_TRAP, "riscv64": RISCV_TRAP, "x86_64": -1}[arch]
    writer = _Writer(trap, signals=signals, kernel_uses=kernel_uses)
    steps = st.tuples(st.integers(0, 255), st.sampled_from([1, 10, 1000]))
    for choice, pause in draw(st.lists(steps, min_size=1, max_size=most)):
        writer.step(choice, pause)
    return trace_of(writer.rows or [(Event.EXIT, 1)], arch, release)
