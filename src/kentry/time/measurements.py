# SPDX-License-Identifier: GPL-2.0-or-later
"""What `kentry stat` measures: a table, a sweep over working sets, tails, pairs, two kernels.

Each pair of cases has four slots, A B B A, in every group of a run.  So a group also compares A
with A and B with B, and the noise floor is how much those differ.

Nothing is subtracted from calls in blocks: the loop takes a nanosecond or two and is a metric of
its own.  From calls timed one by one the clock's cost in the same process is subtracted.

Two kernels are booted A, B, B, A or B, A, A, B in each round, and the boots are the sample, so
what differs from boot to boot (pages, the timer's cpu) is no difference of the kernels.
"""

import random
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from statistics import mode

from kentry.arch import Arch
from kentry.count.catalogue import choose_timed
from kentry.errors import MachineError, UserError
from kentry.kernels.kernel import Kernel
from kentry.machines.machine import Machine
from kentry.progress import Update
from kentry.results.case_name import WARM, WITH_CODE, CaseName, parse_size, size_name
from kentry.results.comparison import TimedComparison
from kentry.results.recording import NoisyMetric, Recording, TimedProcess
from kentry.results.samples import estimate_rows, values_by_boot, values_by_group
from kentry.stats import CONFIDENCE, THRESHOLD
from kentry.stats.estimators import level_interval
from kentry.stats.exact import UNDECIDED
from kentry.stats.sequential import LOOKS, Look, plan_looks
from kentry.stats.verdict import Effect, Group, compare_groups
from kentry.time.sampling import (
    CALLS,
    PILOT_GROUPS,
    TURNS,
    Extent,
    Output,
    Process,
    Sampler,
    Settings,
    quantile,
)
from kentry.time.session import Session

NS, LOOP = "ns", "loop_ns"
IN_BLOCKS = "mean of processes, each its turns' 10th percentile of blocks"
ONE_BY_ONE = "mean of processes, each of its calls but the longest 5 %, the clock's cost off"
COUNTED = "mean of processes, each the median of its turns"
# The percentiles of calls timed one by one.
SHARES = {"p50": 0.5, "p99": 0.99, "p99.9": 0.999}
# The working sets of a sweep, bytes: each is twice the one before.
SMALLEST, LARGEST = 32 << 10, 256 << 20
# Of a sweep: the turns of a group (a walk over the largest set takes 30 ms, and a turn has a
# dozen), and the least groups besides the pilot's, each of more than a second.
SWEEP_TURNS, SWEEP_GROUPS = 2, 4
# The slots of a pair's A in even runs of the probe and of B in odd ones; and the other way round.
_OUTER, _INNER = (0, 3), (1, 2)
LEAST_GROUPS, LEAST_BOOTS = 20, 6
# The rounds of the first look: fewer have no interval; and the most, unless told otherwise.
LEAST_ROUNDS, ROUNDS = 6, 12
BOOT_GROUPS = 20  # of each boot of a kernel
_REMEDY = "Look at its boot loader; --boot says how kernels are switched."

Metrics = Mapping[str, NoisyMetric]
Rows = list[Effect | None]


@dataclass(frozen=True)
class Tail:
    """One case's calls, ns each without the clock's cost, which is `timer`."""

    name: str
    calls: int
    timer: int
    metrics: dict[str, NoisyMetric]
    longest: int


def metrics_of(output: Output, name: str) -> dict[str, NoisyMetric]:
    """Returns every metric of a case."""
    return metrics_of_processes(output.of_case(name))


def metrics_of_processes(processes: Sequence[Process]) -> dict[str, NoisyMetric]:
    """Returns the metrics of processes that ran the same case; {} if none has a time."""
    processes = [process for process in processes if any(process.turns)]
    if not processes:
        return {}
    one_by_one = CaseName.parse(processes[0].case).cache is not None
    timed, loops = [], []
    for process in processes:
        # A serial line may have cut a turn: only those of the commonest length count.
        length = mode(map(len, process.turns))
        values = tuple(ns for turn in process.turns if len(turn) == length for ns in turn)
        empties = tuple(ns for turn in process.empties for ns in turn)
        if one_by_one:
            timed.append(_process(process, process.calls, values, 0, empties))
        else:
            timed.append(_process(process, process.calls, values, length or 1))
            loops.append(_process(process, process.calls, empties, 1))
    metrics = {NS: metric(timed, "ns", ONE_BY_ONE if one_by_one else IN_BLOCKS)}
    if any(loop.values for loop in loops):
        metrics[LOOP] = metric(loops, "ns", IN_BLOCKS)
    for counter in dict.fromkeys(name for process in processes for name in process.counted):
        counted = []
        for process in processes:
            counts = process.counted.get(counter, [])
            calls = counts[0][1] if counts else 1
            counted.append(_process(process, calls, tuple(count for count, _ in counts), 0))
        metrics[counter] = metric(counted, counter.partition("-")[2], COUNTED)
    return metrics


def _process(
    process: Process,
    calls: int,
    values: tuple[int, ...],
    blocks: int,
    empties: tuple[int, ...] = (),
) -> TimedProcess:
    """Makes a recording's process; the groups of all runs are numbered consecutively."""
    group = process.run * 100_000 + process.group
    return TimedProcess(0, process.boot, group, process.slot, calls, blocks, values, empties)


def metric(processes: Sequence[TimedProcess], unit: str, estimator: str) -> NoisyMetric:
    """Returns the value of these processes, its interval, and the noise floor of the run."""
    processes = [process for process in processes if process.values]
    level = level_interval(list(values_by_boot(processes).values()))
    has_interval = level.low == level.low
    floor = detectable = None
    # The first half of a group's slots against the second: the same case on both sides.
    halves = [
        Group(boot, tuple(values[:half]), tuple(values[half : 2 * half]))
        for (boot, _), values in values_by_group(processes).items()
        if (half := len(values) // 2) and min(values) > 0
    ]
    if halves:
        estimate = compare_groups(halves)
        largest = max(map(abs, estimate.interval))
        if largest == largest:
            floor, detectable = largest, estimate.detectable
    return NoisyMetric(
        value=level.estimate,
        unit=unit,
        samples=tuple(processes),
        interval=(level.low, level.high) if has_interval else None,
        confidence=CONFIDENCE if has_interval else None,
        floor=floor,
        detectable=detectable,
        estimator=estimator,
    )


def tails_of(output: Output, names: Sequence[str]) -> list[Tail]:
    """Returns the tails of the cases so far; the median reading of the clock is subtracted."""
    tails = []
    for name in names:
        processes = [p for p in output.of_case(name) if p.bins and p.empty_bins]
        if not processes:
            continue
        calls: Counter[int] = sum((process.bins for process in processes), Counter())
        timer = quantile(sum((process.empty_bins for process in processes), Counter()), 0.5)
        metrics = {}
        for word, share in SHARES.items():
            less = [_process(p, 1, (quantile(p.bins, share) - timer,), 0) for p in processes]
            how = f"each the {word} of its calls, {timer} ns of the clock's taken off"
            metrics[f"{word}_ns"] = metric(less, "ns", f"mean of groups, {how}")
        longest = [_process(process, 1, (max(process.bins) - timer,), 0) for process in processes]
        metrics["max_ns"] = metric(longest, "ns", "mean of groups, each its longest call")
        tails.append(Tail(name, calls.total(), timer, metrics, max(calls) - timer))
    return tails


# --- one kernel ----------------------------------------------------------------------------


def time_cases(
    session: Session, cases: Sequence[str], extent: Extent
) -> tuple[Recording, dict[str, str]]:
    """Times each case in two slots; returns absent cases with their reasons, too."""
    names = choose_timed(session.machine.arch, cases)
    settings = Settings(cpu=session.cpu)
    sampler = Sampler(session.machine, [*names, *names], settings, Output())
    so_far = partial(_record, session, sampler, turns=settings.turns, blocks=settings.blocks)
    with session.measuring(f"timing {len(names)} cases", so_far) as update:
        sampler.sample(extent, LEAST_GROUPS, update)
    return so_far()[""], sampler.output.absent


def sweep_names(case: str, sizes: str) -> list[str]:
    """Names the case without walks, behind those through data and behind those through code, too.

    `sizes` is "sweep" (32 KiB to 256 MiB) or a list; UserError for what is no size.
    """
    walks = {SMALLEST << power for power in range((LARGEST // SMALLEST).bit_length())}
    if sizes != "sweep":
        walks = {parse_size(word) for word in sizes.split(",") if word}
    if not walks:
        raise UserError("--working-set names no size.", "Write --working-set sweep, or 1M,16M.")
    base = CaseName.parse(case).counted
    data = list(map(size_name, sorted(walks)))
    both = [size + WITH_CODE for size in data]
    return [str(replace(base, cache=walk)) for walk in (WARM, *data, *both)]


def time_sweep(
    session: Session, cases: Sequence[str], sizes: str, extent: Extent
) -> tuple[Recording, dict[str, str]]:
    """Times one case behind walks through working sets; returns absent ones with reasons, too."""
    case = _one_case(session.machine.arch, cases or ["getppid"], "--working-set")
    _check_plain([case], "--working-set")
    names, settings = sweep_names(case, sizes), Settings(turns=SWEEP_TURNS, cpu=session.cpu)
    sampler = Sampler(session.machine, names, settings, Output())
    so_far = partial(_record, session, sampler, sizes=len(names) // 2)
    with session.measuring(f"timing {case} among working sets", so_far) as update:
        sampler.sample(extent, SWEEP_GROUPS, update)
    return so_far()[""], sampler.output.absent


def _one_case(arch: Arch, cases: Sequence[str], flag: str) -> str:
    names = choose_timed(arch, cases)
    if len(names) != 1:
        raise UserError(
            f"{flag} takes one case, and {', '.join(cases)} stands for {len(names)}.",
            f"Name one, like {names[0]}.",
        )
    return names[0]


def _check_plain(names: Sequence[str], flag: str) -> None:
    for name in map(CaseName.parse, names):
        if name != name.counted or name.calls > 1:
            raise UserError(
                f"{flag} times calls one by one itself, so it cannot take {name}.",
                f"Write {name.call}.",
            )


def _record(session: Session, sampler: Sampler, **options: int) -> dict[str, Recording]:
    """Makes the recording of a sampler's cases; see Session.measuring()."""
    cases = {name: metrics_of(sampler.output, name) for name in dict.fromkeys(sampler.slots)}
    return {"": session.recording(sampler.output, cases, options)}


def time_tails(session: Session, cases: Sequence[str], groups: int) -> tuple[Recording, list[Tail]]:
    """Times calls of each case one by one, in this many groups."""
    names = choose_timed(session.machine.arch, cases or ["getppid", "getpid", "invalid"])
    _check_plain(names, "--tails")
    sampler = Sampler(session.machine, names, Settings(cpu=session.cpu), Output())
    calls = groups * TURNS * CALLS

    def so_far() -> dict[str, Recording]:
        cases = {tail.name: tail.metrics for tail in tails_of(sampler.output, names)}
        return {"": session.recording(sampler.output, cases, {"calls": calls})}

    title = f"timing {calls} calls of {', '.join(names)} one by one"
    with session.measuring(title, so_far):
        sampler.run_tails(groups)
    return so_far()[""], tails_of(sampler.output, names)


# --- comparisons ---------------------------------------------------------------------------


@dataclass(frozen=True)
class Schedule:
    """The most time, groups or rounds, and the fraction up to which a change is none."""

    extent: Extent
    threshold: float = THRESHOLD

    def check(self, least: int) -> None:
        """Raises UserError if fewer than `least` groups or rounds are asked for."""
        if isinstance(self.extent, int) and self.extent < least:
            raise UserError(
                f"--for {self.extent} is too few for an interval.", f"Write --for {least} or more."
            )


@dataclass(frozen=True)
class Ending:
    """Where a comparison ended: an estimate a row, and `done` groups, boots or rounds."""

    rows: Rows
    look: Look
    looks: int
    done: int
    planned: int
    unit: str

    @property
    def options(self) -> dict[str, int]:
        """As a recording has them."""
        return {self.unit: self.done, "looks": self.looks, "look": self.look.number}


def run_looks(
    planned: int,
    least: int,
    unit: str,
    measure: Callable[[int, int], None],
    estimate: Callable[[Look], Rows],
) -> Ending:
    """Measures up to each interim look, from units so far to those needed, until all is decided."""
    looks = plan_looks(1 - CONFIDENCE, LOOKS)
    done = 0
    for look in looks:
        before, done = done, max(done, least, round(planned * look.fraction))
        measure(before, done)
        rows = estimate(look)
        measured = [row for row in rows if row]
        if measured and all(row.verdict != UNDECIDED for row in measured):
            break
    return Ending(rows, look, len(looks), done, planned, unit)


def _estimate(sides: Sequence[tuple[Metrics, Metrics]], schedule: Schedule, look: Look) -> Rows:
    """Compares the times of each row; None where old and new have no groups in common."""
    rows = [
        (old[NS].samples, new[NS].samples) if NS in old and NS in new else ((), ())
        for old, new in sides
    ]
    return estimate_rows(rows, threshold=schedule.threshold, look=look)


@dataclass(frozen=True)
class Pair:
    """Two cases; percentages are of `old`."""

    old: str
    new: str

    @property
    def name(self) -> str:
        """As a row of a table."""
        return f"{self.old} -> {self.new}"


def pairs_sampler(
    machine: Machine, pairs: Sequence[Pair], settings: Settings, output: Output
) -> Sampler:
    """Makes the sampler of compare_cases(): in odd runs B A A B."""
    slots = [name for pair in pairs for name in (pair.old, pair.new, pair.new, pair.old)]
    odd_slots = [name for pair in pairs for name in (pair.new, pair.old, pair.old, pair.new)]
    return Sampler(machine, slots, settings, output, odd_slots)


def compare_pairs(
    session: Session, named: Sequence[tuple[str, str]], schedule: Schedule
) -> tuple[Recording, Ending, list[TimedComparison]]:
    """Compares pairs of cases interleaved; a row of the comparison for each pair."""
    schedule.check(LEAST_GROUPS)
    pairs = [_pair(session.machine.arch, *pair) for pair in named]
    sampler = pairs_sampler(session.machine, pairs, Settings(cpu=session.cpu), Output())
    title = ", ".join(pair.name for pair in pairs)
    with session.measuring(title, partial(_record, session, sampler)) as update:
        ending = compare_cases(sampler, pairs, schedule, update)
    rows = []
    for number, (pair, estimate) in enumerate(zip(pairs, ending.rows, strict=True)):
        assert estimate
        old, new = metrics_of_pair(sampler.output, number, pair)
        row = TimedComparison(
            name=pair.name,
            metric=NS,
            unit="ns",
            old=old[NS].value,
            new=new[NS].value,
            verdict=estimate.verdict,
        )
        rows.append(row.with_estimate(estimate))
    return _record(session, sampler, **ending.options)[""], ending, rows


def _pair(arch: Arch, *cases: str) -> Pair:
    pair = Pair(*(_one_case(arch, [case], "--compare") for case in cases))
    if len({CaseName.parse(name).cache is None for name in (pair.old, pair.new)}) > 1:
        raise UserError(
            f"{pair.name} compares calls in blocks with calls one by one.",
            "Write +cache=warm where there is no +cache=.",
        )
    return pair


def compare_cases(
    sampler: Sampler, pairs: Sequence[Pair], schedule: Schedule, update: Update
) -> Ending:
    """Measures groups, or boots where a run is one, until every pair is decided; MachineError."""
    sampler.run(PILOT_GROUPS)
    unit, least, piloted, seconds = "groups", LEAST_GROUPS, PILOT_GROUPS, sampler.seconds_a_group
    a_boot = 0
    if sampler.run_is_boot:
        # About a second a boot: more groups would tell more about the same boot only.
        a_boot = max(PILOT_GROUPS, int(1 / sampler.group_seconds))
        unit, least, piloted = "boots", LEAST_BOOTS, 1
        seconds = sampler.run_overhead + a_boot * sampler.group_seconds
    extent = schedule.extent
    planned = max(least, extent if isinstance(extent, int) else int(extent / seconds))

    def show(ended: int) -> None:
        update(min(1.0, ended / planned), f"{ended} of at most {planned} {unit}")

    def measure(before: int, count: int) -> None:
        before = max(before, piloted)
        if not sampler.run_is_boot:
            sampler.run(count - before, show)
        for boot in range(before, count if sampler.run_is_boot else 0):
            show(boot)
            sampler.run_in_one(a_boot)

    def estimate(look: Look) -> Rows:
        output = sampler.output
        sides = [metrics_of_pair(output, number, pair) for number, pair in enumerate(pairs)]
        rows = _estimate(sides, schedule, look)
        for pair in (pair for pair, row in zip(pairs, rows, strict=True) if row is None):
            raise MachineError(
                f"{pair.name} cannot be compared: calls take no longer than reading the clock,"
                f" whose step is {output.resolution:g} ns.",
                "Compare them in blocks: leave +cache= out.",
            )
        return rows

    return run_looks(planned, least, unit, measure, estimate)


def metrics_of_pair(output: Output, number: int, pair: Pair) -> tuple[Metrics, Metrics]:
    """Returns both sides' metrics of the pair with this number; MachineError if it has none."""
    sides = []
    for case, even, odd in ((pair.old, _OUTER, _INNER), (pair.new, _INNER, _OUTER)):
        # The name counts too: if the line about an absent case was lost, others have its slots.
        slots = [{(4 * number + slot, case) for slot in of_run} for of_run in (even, odd)]
        processes = [
            process
            for process in output.processes.values()
            if (process.slot, process.case) in slots[process.run % 2]
        ]
        if not processes:
            reason = next(iter(output.absent.items()), (pair.name, "the probe did not run it"))
            raise MachineError(
                f"{pair.name} was not timed: {reason[0]} {reason[1]}.", "Compare other cases."
            )
        sides.append(metrics_of_processes(processes))
    return sides[0], sides[1]


@dataclass
class KernelRuns:
    """One of the kernels: what the probe printed in all its boots, and the file that was booted."""

    kernel: str
    output: Output = field(default_factory=Output)
    booted: Kernel | None = None


def compare_two_kernels(
    session: Session, kernels: tuple[str, str], cases: Sequence[str], schedule: Schedule
) -> dict[str, Recording]:
    """Boots two kernels interleaved; a recording of each, "old" and "new"."""
    schedule.check(LEAST_ROUNDS)
    names = choose_timed(session.machine.arch, cases or ["getppid", "getpid", "read"])
    old, new = map(KernelRuns, kernels)

    def both(options: Mapping[str, int]) -> dict[str, Recording]:
        results = {}
        for name, side in (("old", old), ("new", new)):
            cases = {case: metrics_of(side.output, case) for case in names}
            results[name] = session.recording(side.output, cases, options, side.booted)
            results[name].kernel["spec"] = side.kernel
        return results

    title = f"{old.kernel} and {new.kernel} interleaved"
    with session.measuring(title, lambda: both({})) as update:
        settings = Settings(cpu=session.cpu)
        ending = compare_kernels(session.machine, (old, new), names, settings, schedule, update)
    return both(ending.options)


def compare_kernels(
    machine: Machine,
    sides: tuple[KernelRuns, KernelRuns],
    cases: Sequence[str],
    settings: Settings,
    schedule: Schedule,
    update: Update,
) -> Ending:
    """Boots the two in turn until all is decided; `sides` keep what is measured; MachineError."""
    planned = schedule.extent if isinstance(schedule.extent, int) else ROUNDS
    order = random.Random(settings.seed)  # noqa: S311

    def measure(before: int, count: int) -> None:
        for number in range(before, count):

            def show(fraction: float | None, now: str, number: int = number) -> None:
                update(number / planned, f"round {number + 1} of at most {planned}: {now}")

            outer, inner = sides if order.random() < 0.5 else (sides[1], sides[0])
            for turn, side in enumerate((outer, inner, inner, outer)):
                sampler = Sampler(machine, cases, settings, side.output, boot=4 * number + turn)
                _run_boot(sampler, side, show)
            output, other = (side.output for side in sides)
            is_same = output.notes and output.identity == other.identity
            if is_same and sides[0].kernel != sides[1].kernel:
                raise MachineError(
                    f"{machine.name} runs the same kernel, {output.release}, whether it is told"
                    f" to boot {sides[0].kernel} or {sides[1].kernel}.",
                    _REMEDY,
                )

    def estimate(look: Look) -> Rows:
        old, new = (side.output for side in sides)
        rows = [(metrics_of(old, case), metrics_of(new, case)) for case in cases]
        return _estimate(rows, schedule, look)

    return run_looks(planned, LEAST_ROUNDS, "rounds", measure, estimate)


def _run_boot(sampler: Sampler, side: KernelRuns, update: Update) -> None:
    """Boots and measures one side."""
    machine, output, before = sampler.machine, side.output, side.output.identity
    update(None, side.kernel)
    machine.boot(side.kernel, update)
    side.booted = machine.kernel
    sampler.run_in_one(BOOT_GROUPS)
    # A boot loader may silently fall back to another kernel.
    if output.run and output.identity != before:
        raise MachineError(
            f"{machine.name} was told to boot {side.kernel}, but runs another kernel than before:"
            f" {output.release}.",
            _REMEDY,
        )
    if not any(key[0] == output.run for key in output.processes):
        raise MachineError(f"{side.kernel} on {machine.name} timed nothing.", "Run again with -v.")
