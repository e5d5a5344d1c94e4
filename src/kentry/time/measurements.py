# SPDX-License-Identifier: GPL-2.0-or-later
"""What `kentry stat` measures: a table, a sweep over working sets, tails, pairs, two kernels.

Each function measures in a session, which keeps the samples however that ends, and returns
recordings.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace

from kentry.arch import Arch
from kentry.count.catalogue import choose_timed
from kentry.errors import UserError
from kentry.progress import progress
from kentry.results.case_name import WARM, CaseName, parse_size, size_name
from kentry.results.comparison import TimedComparison
from kentry.results.recording import NoisyMetric, Recording
from kentry.time.analysis import NS, Tail, metrics_of, tails_of
from kentry.time.comparing import (
    LEAST_GROUPS,
    LEAST_ROUNDS,
    BootPlan,
    Ending,
    KernelRuns,
    Pair,
    Schedule,
    compare_cases,
    compare_kernels,
    metrics_of_pair,
)
from kentry.time.output import Output
from kentry.time.sampling import CALLS, TURNS, Extent, Sampler, Settings, time_calls
from kentry.time.session import Session

# The working sets of a sweep, bytes: each is twice the one before.
SMALLEST, LARGEST = 32 << 10, 256 << 20
# The turns of a sweep's group: a walk over the largest set takes 30 ms, and a turn has a dozen.
SWEEP_TURNS = 2
# The least groups of a sweep, besides the pilot's: one takes more than a second.
SWEEP_GROUPS = 4


def time_cases(
    session: Session, words: Sequence[str], extent: Extent
) -> tuple[Recording, dict[str, str]]:
    """Times each case in two slots; returns absent cases with their reasons, too."""
    names = choose_timed(session.machine.arch, words)
    settings = Settings(cpu=session.cpu)
    sampler = Sampler(session.machine, [*names, *names], settings, Output())
    options = {"turns": settings.turns, "blocks": settings.blocks}
    title = f"timing {len(names)} cases"
    recording = _sampled(session, sampler, options, extent, LEAST_GROUPS, title)
    return recording, sampler.output.absent


def sweep_sizes(text: str) -> list[int]:
    """Parses "sweep" (32 KiB to 256 MiB) or a list of sizes, in bytes; UserError."""
    if text == "sweep":
        count = (LARGEST // SMALLEST).bit_length()
        return [SMALLEST << power for power in range(count)]
    sizes = [parse_size(word) for word in text.split(",") if word]
    if not sizes:
        raise UserError("--working-set names no size.", "Write --working-set sweep, or 1M,16M.")
    return sorted(set(sizes))


def sweep_names(case: str, sizes: Sequence[int]) -> list[str]:
    """Names the case without a walk through memory, and behind a walk of each size."""
    base = CaseName.parse(case).counted
    return [str(replace(base, cache=walk)) for walk in (WARM, *map(size_name, sizes))]


def time_sweep(session: Session, words: Sequence[str], sizes: str, extent: Extent) -> Recording:
    """Times one case behind walks through working sets of these sizes."""
    walks = sweep_sizes(sizes)
    case = one_case(session.machine.arch, words or ["getppid"], "--working-set")
    _check_plain([case], "--working-set")
    settings = Settings(turns=SWEEP_TURNS, cpu=session.cpu)
    sampler = Sampler(session.machine, sweep_names(case, walks), settings, Output())
    title = f"timing {case} among working sets"
    return _sampled(session, sampler, {"sizes": len(walks)}, extent, SWEEP_GROUPS, title)


def one_case(arch: Arch, words: Sequence[str], flag: str) -> str:
    """Returns the case that the words stand for; UserError if they stand for several."""
    names = choose_timed(arch, words)
    if len(names) != 1:
        raise UserError(
            f"{flag} takes one case, and {', '.join(words)} stands for {len(names)}.",
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


def _cases(sampler: Sampler) -> dict[str, dict[str, NoisyMetric]]:
    names = dict.fromkeys(sampler.slots)
    return {name: metrics_of(sampler.output, name) for name in names}


def _sampled(
    session: Session,
    sampler: Sampler,
    options: Mapping[str, int],
    extent: Extent,
    least: int,
    title: str,
) -> Recording:
    def so_far() -> Recording:
        return session.recording(sampler.output, _cases(sampler), options)

    with session.keeping(lambda: {"": so_far()}), progress(title) as update:
        sampler.sample(extent, least, update)
    return so_far()


def time_tails(session: Session, words: Sequence[str], groups: int) -> tuple[Recording, list[Tail]]:
    """Times calls of each case one by one, in this many groups."""
    names = choose_timed(session.machine.arch, words or ["getppid", "getpid", "invalid"])
    _check_plain(names, "--tails")
    output = Output()
    calls = groups * TURNS * CALLS

    def so_far() -> Recording:
        cases = {tail.name: tail.metrics for tail in tails_of(output, names)}
        return session.recording(output, cases, {"calls": calls})

    title = f"timing {calls} calls of {', '.join(names)} one by one"
    with session.keeping(lambda: {"": so_far()}), progress(title):
        time_calls(session.machine, names, groups, session.cpu, output)
    return so_far(), tails_of(output, names)


def compare_pairs(
    session: Session, words: Sequence[tuple[str, str]], schedule: Schedule
) -> tuple[Recording, Ending, list[TimedComparison]]:
    """Compares pairs of cases interleaved; a row of the comparison for each pair."""
    schedule.check(LEAST_GROUPS)
    pairs = [_pair(session.machine.arch, *pair) for pair in words]
    slots = [name for pair in pairs for name in pair.slots]
    odd_slots = [name for pair in pairs for name in pair.odd_slots]
    output = Output()
    sampler = Sampler(
        session.machine, slots, Settings(cpu=session.cpu), output, odd_slots, all_of_them=True
    )

    def so_far(options: Mapping[str, int]) -> Recording:
        return session.recording(output, _cases(sampler), options)

    title = ", ".join(pair.name for pair in pairs)
    with session.keeping(lambda: {"": so_far({})}), progress(title) as update:
        ending = compare_cases(sampler, pairs, schedule, update)
    rows = []
    for number, (pair, estimate) in enumerate(zip(pairs, ending.rows, strict=True)):
        assert estimate
        old, new = metrics_of_pair(output, number, pair)
        row = TimedComparison(
            name=pair.name,
            metric=NS,
            unit="ns",
            old=old[NS].value,
            new=new[NS].value,
            verdict=estimate.verdict,
        )
        rows.append(row.with_estimate(estimate))
    return so_far(ending.options), ending, rows


def _pair(arch: Arch, *words: str) -> Pair:
    pair = Pair(*(one_case(arch, [word], "--compare") for word in words))
    if len({CaseName.parse(name).cache is None for name in (pair.old, pair.new)}) > 1:
        raise UserError(
            f"{pair.name} compares calls in blocks with calls one by one.",
            "Write +cache=warm where there is no +cache=.",
        )
    return pair


def compare_two_kernels(
    session: Session, kernels: tuple[str, str], words: Sequence[str], schedule: Schedule
) -> tuple[Recording, Recording]:
    """Boots two kernels interleaved; a recording of each."""
    schedule.check(LEAST_ROUNDS)
    names = choose_timed(session.machine.arch, words or ["getppid", "getpid", "read"])
    plan = BootPlan(names, Settings(cpu=session.cpu))
    old, new = map(KernelRuns, kernels)

    def recording(side: KernelRuns, options: Mapping[str, int]) -> Recording:
        cases = {name: metrics_of(side.output, name) for name in plan.cases}
        result = session.recording(side.output, cases, options, side.booted)
        result.kernel["spec"] = side.kernel
        return result

    with (
        session.keeping(lambda: {"old": recording(old, {}), "new": recording(new, {})}),
        progress(f"{old.kernel} and {new.kernel} interleaved") as update,
    ):
        ending = compare_kernels(session.machine, (old, new), plan, schedule, update)
    return recording(old, ending.options), recording(new, ending.options)
