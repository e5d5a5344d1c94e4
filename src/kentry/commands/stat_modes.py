# SPDX-License-Identifier: GPL-2.0-or-later
"""What `kentry stat` can be asked: a table, tails, a sweep, two cases, two kernels.

Each looks at the machine, has it measured, keeps the samples however that ends, and prints.
"""

from __future__ import annotations

import argparse
import contextlib
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from kentry.commands import measuring
from kentry.compare.counted import compare
from kentry.compare.counted import to_json as comparison_json
from kentry.compare.timed import measured
from kentry.errors import EXIT_DONE, EXIT_UNDECIDED, KentryError, UserError
from kentry.host.cache import cache_dir
from kentry.kernels.kernel import Kernel
from kentry.measure import preflight
from kentry.measure.catalogue import choose_timed
from kentry.measure.machine_facts import Facts, gather
from kentry.measure.timed import boots, comparing, sweep, tails
from kentry.measure.timed.analysis import NS, metrics_of
from kentry.measure.timed.identity import Session, kernel_of, recording_of
from kentry.measure.timed.output import Output
from kentry.measure.timed.sampling import (
    PILOT_GROUPS,
    Sampler,
    Settings,
    boots_of_runs,
    run_is_boot,
)
from kentry.model import caveats
from kentry.model.case_name import CaseName
from kentry.model.caveats import Caveat
from kentry.model.comparison import document_of
from kentry.model.recording import (
    NoisyMetric,
    Recording,
    dump,
    to_json,
    write_recording,
)
from kentry.progress import Update, progress
from kentry.report import stat as report
from kentry.report.comparison import comparison_text
from kentry.runners.machine import Machine
from kentry.stats.exact import UNDECIDED
from kentry.stats.noisy import THRESHOLD

# Of a table, when nothing is said; of a comparison, at most.
SECONDS, COMPARE_SECONDS = 8.0, 30.0
TAIL_CALLS = 1_000_000
# Groups in each boot of a kernel, and rounds of boots at most.
BOOT_GROUPS, ROUNDS = 20, 12
# Of a guest's table: fewer have no interval worth the name.
GUEST_BOOTS = 8
# Of a sweep, beside the pilot's: one takes more than a second.
SWEEP_GROUPS = 4

# Of a processor's own counter; above it is a timer's, 24 MHz or less on many boards.
_COARSE_NS = 30.0

_NO_FACTS = Facts()


# --- before and after -----------------------------------------------------------


def look(place: Machine, args: argparse.Namespace) -> tuple[Session, Settings]:
    """What the machine says of itself, and the cpu to measure on.

    A guest has a cpu of its own; which one of this machine it runs on is the place's business.
    """
    wanted = None if place.kind == "kvm" else args.cpu
    if args.no_preflight:
        return Session(place, _NO_FACTS), Settings(cpu=-1 if wanted is None else wanted)
    with progress(f"reading facts of {place.name}"):
        facts = gather(place, wanted)
    cpu = wanted if wanted is not None else facts.cpu
    return Session(place, facts, tuple(preflight.check(facts))), Settings(
        cpu=-1 if cpu is None else cpu
    )


# What was measured of each side: "" where there is one, else old and new.
Sides = Mapping[str, Recording]


@contextlib.contextmanager
def keeping(
    args: argparse.Namespace, session: Session, so_far: Callable[[], Sides]
) -> Iterator[None]:
    """Where the block ends early, what was measured is written before the error goes on."""
    try:
        yield
    except (Exception, KeyboardInterrupt) as err:
        kept = " and ".join(map(str, _keep(args, session, so_far)))
        if kept and isinstance(err, KentryError):
            err.remedy = f"{err.remedy} What was measured before it is in {kept}.".strip()
        elif kept:
            print(f"kentry: what was measured is in {kept}", file=sys.stderr)
        raise


def _keep(args: argparse.Namespace, session: Session, so_far: Callable[[], Sides]) -> list[Path]:
    """The files; none where there is nothing yet, or no more to be had of it."""
    try:
        sides = so_far()
    except (KentryError, ValueError):
        return []
    kept = []
    for side, recording in sides.items():
        if recording.cases:
            with contextlib.suppress(KentryError, OSError, ValueError):
                kept.append(_write(args, session, recording, side))
    return kept


def _write(args: argparse.Namespace, session: Session, recording: Recording, side: str) -> Path:
    """Into -o, or where that cannot be, or was not given, into the cache; the file."""
    in_cache = file_of(cache_dir("stat") / f"{session.name}.json", side)
    if args.output:
        with contextlib.suppress(KentryError, OSError):
            write_recording(recording, file_of(args.output, side))
            return file_of(args.output, side)
    write_recording(recording, in_cache)
    return in_cache


def save(args: argparse.Namespace, session: Session, recording: Recording, side: str = "") -> None:
    """Writes -o, if it was given, after everything was printed; UserError says where else it is."""
    if not args.output:
        return
    kept = _write(args, session, recording, side)
    if kept != file_of(args.output, side):
        raise UserError(
            f"{file_of(args.output, side)} could not be written.",
            f"Is its disk full? The recording is in {kept}.",
        )


def file_of(whole: Path, side: str) -> Path:
    """Where one of two kernels' recordings goes: NAME.old.json beside NAME.new.json."""
    return whole.with_suffix(f".{side}{whole.suffix or '.json'}") if side else whole


def finish(args: argparse.Namespace, session: Session, recording: Recording, text: str) -> None:
    """Prints and writes a recording."""
    sys.stdout.write(dump(to_json(recording)) if args.json else text)
    save(args, session, recording)


def _recording(
    session: Session,
    output: Output,
    cases: Mapping[str, Mapping[str, NoisyMetric]],
    options: Mapping[str, int],
    booted: Kernel | None = None,
) -> Recording:
    place = session.place
    kernel = kernel_of(output, place.arch.name, session.facts, booted or place.kernel)
    found = {name: metrics for name, metrics in cases.items() if metrics}
    recording = recording_of(session, kernel, found, options, _said(output))
    if output.machine.get("cpu", "").isdecimal():
        recording.target["on_cpu"] = int(output.machine["cpu"])
    return recording


def _said(output: Output) -> list[Caveat]:
    """What the probe found that a reader must know."""
    found = []
    counters = output.machine.get("counters", "")
    if counters.startswith("none"):
        found.append(caveats.no_counters(counters.partition(":")[2]))
    elif counters and "kernel-cycles" not in counters:
        found.append(caveats.few_counters(counters))
    if output.multiplexed:
        found.append(caveats.multiplexed(sorted(output.multiplexed)))
    if output.lost:
        found.append(caveats.clock_jumped(output.lost, output.jumps[0]))
    if output.resolution > _COARSE_NS:
        found.append(caveats.coarse_clock(output.resolution))
    if output.machine.get("clock") == "syscall":
        found.append(caveats.slow_clock())
    if output.machine.get("cpus") == "1":
        found.append(caveats.one_cpu())
    return found


def _metrics(
    place: Machine, output: Output, names: Sequence[str]
) -> dict[str, dict[str, NoisyMetric]]:
    """Of each case, once, in the order of the names."""
    boots = boots_of_runs(place, output)
    return {name: metrics_of(output, name, boots) for name in dict.fromkeys(names)}


# --- a table --------------------------------------------------------------------


def table(place: Machine, args: argparse.Namespace) -> int:
    """ns a call of each case."""
    names = choose_timed(place.arch, measuring.chosen_cases(args))
    session, settings = look(place, args)
    output = Output()

    def so_far() -> Recording:
        cases = _metrics(place, output, names)
        return _recording(
            session, output, cases, {"turns": settings.turns, "blocks": settings.blocks}
        )

    with (
        keeping(args, session, lambda: {"": so_far()}),
        progress(f"timing {len(names)} cases") as update,
    ):
        _sample(Sampler(place, [*names, *names], settings, output), args, update)
    recording = so_far()
    text = report.stat_text(recording, session.findings, output.absent, every=args.verbose)
    finish(args, session, recording, text)
    return EXIT_DONE


def _sample(
    sampler: Sampler,
    args: argparse.Namespace,
    update: Update,
    least: int = comparing.LEAST_GROUPS,
) -> None:
    """For as long as was asked, or so many groups; `least` are needed for an interval."""
    if args.groups:
        sampler.run(args.groups, _told(update, args.groups))
        return
    if sampler.run_is_boot:
        _sample_boots(sampler, update)
        return
    sampler.pilot()
    groups = max(least, int((args.seconds or SECONDS) / sampler.seconds_a_group))
    sampler.run(max(0, groups - PILOT_GROUPS), _told(update, groups))


def _sample_boots(sampler: Sampler, update: Update) -> None:
    """A boot is what is sampled where each run of the probe is one."""
    for boot in range(GUEST_BOOTS):
        update(boot / GUEST_BOOTS, f"boot {boot + 1} of {GUEST_BOOTS}")
        sampler.run_in_one(PILOT_GROUPS if not boot else max(2, int(1 / sampler.group_seconds)))


def _told(update: Update, groups: int) -> Callable[[int], None]:
    return lambda done: update(min(1.0, done / groups), f"{done} of {groups} groups")


# --- a sweep over the working set --------------------------------------------------


def _check_plain(names: list[str], option: str) -> None:
    parsed = map(CaseName.parse, names)
    odd = [name for name in parsed if name != name.counted or name.calls > 1]
    if odd:
        raise UserError(
            f"{option} times calls one by one itself, so {odd[0]} makes no sense.",
            f"Write {odd[0].call}.",
        )


def one_case(place: Machine, words: list[str], option: str) -> str:
    """The case that the words stand for; UserError where they are several."""
    names = choose_timed(place.arch, words)
    if len(names) != 1:
        raise UserError(
            f"{option} takes one case, and {', '.join(words)} are {len(names)}.",
            f"Name one, like {names[0]}.",
        )
    return names[0]


def working_sets(place: Machine, args: argparse.Namespace) -> int:
    """The curve of one case."""
    sizes = sweep.sizes_of(args.working_set)
    case = one_case(place, measuring.chosen_cases(args) or ["getppid"], "--working-set")
    _check_plain([case], "--working-set")
    session, settings = look(place, args)
    names = sweep.names_of(case, sizes)
    output = Output()

    def so_far() -> Recording:
        cases = _metrics(place, output, names)
        return _recording(session, output, cases, {"sizes": len(sizes)})

    with (
        keeping(args, session, lambda: {"": so_far()}),
        progress(f"timing {case} among working sets") as update,
    ):
        _sample(
            Sampler(place, names, sweep.settings_of(settings), output), args, update, SWEEP_GROUPS
        )
    recording = so_far()
    finish(
        args, session, recording, report.sweep_text(recording, session.findings, every=args.verbose)
    )
    return EXIT_DONE


# --- tails ------------------------------------------------------------------------


def percentiles(place: Machine, args: argparse.Namespace) -> int:
    """Calls one by one."""
    names = choose_timed(
        place.arch, measuring.chosen_cases(args) or ["getppid", "getpid", "invalid"]
    )
    _check_plain(names, "--tails")
    session, settings = look(place, args)
    output = Output()
    calls = args.calls or TAIL_CALLS

    def so_far() -> Recording:
        cases = {tail.name: tail.metrics for tail in tails.tails_of(output, names)}
        return _recording(session, output, cases, {"calls": calls})

    title = f"timing {calls} calls of {', '.join(names)} one by one"
    with keeping(args, session, lambda: {"": so_far()}), progress(title):
        found = tails.time_tails(place, names, calls, settings.cpu, output)
    recording = so_far()
    text = report.tails_text(recording, found, session.findings, every=args.verbose)
    finish(args, session, recording, text)
    return EXIT_DONE


# --- two cases ----------------------------------------------------------------------


def plan_of(args: argparse.Namespace) -> comparing.Plan:
    """When a comparison ends."""
    return comparing.Plan(
        args.seconds or COMPARE_SECONDS,
        args.threshold or THRESHOLD,
        sequential=not args.fixed,
        groups=args.groups,
    )


def cases(place: Machine, args: argparse.Namespace) -> int:
    """Pairs of cases by turns."""
    pairs = [
        comparing.Pair(*(one_case(place, [word], "--compare") for word in words))
        for words in args.compare
    ]
    for pair in pairs:
        old, new = CaseName.parse(pair.old), CaseName.parse(pair.new)
        if old.is_one_by_one != new.is_one_by_one:
            raise UserError(
                f"{pair.name} compares calls in blocks with calls one by one.",
                "Write +cache=warm where there is no +cache=.",
            )
    session, settings = look(place, args)
    output = Output()
    slots = [name for pair in pairs for name in pair.slots]
    odd_slots = [name for pair in pairs for name in pair.odd_slots]

    def so_far() -> Recording:
        return _recording(session, output, _metrics(place, output, slots), {})

    title = ", ".join(pair.name for pair in pairs)
    plan = plan_of(args)
    with keeping(args, session, lambda: {"": so_far()}), progress(title) as update:
        sampler = Sampler(place, slots, settings, output, odd_slots, all_of_them=True)
        result = comparing.compare_cases(sampler, pairs, plan, update)
    recording = replace(so_far(), options=result.options)
    _print_cases(args, session, recording, result, plan)
    save(args, session, recording)
    decided = all(row.found and row.found.verdict != UNDECIDED for row in result.rows)
    return EXIT_DONE if decided else EXIT_UNDECIDED


def _print_cases(
    args: argparse.Namespace,
    session: Session,
    recording: Recording,
    result: comparing.Result,
    plan: comparing.Plan,
) -> None:
    rows, lines = [], report.head_lines(recording)
    for row in result.rows:
        assert row.found
        values = (row.old[NS].value, row.new[NS].value)
        rows.append(measured(row.pair.name, NS, "ns", values, row.found))
        shown = report.values_text(row.found, *values)
        lines += [
            "",
            *report.comparison_lines(row.pair.name, row.found, shown, "ns", plan.confidence),
        ]
    if args.json:
        sys.stdout.write(dump(document_of(recording, recording, rows, recording.caveats)))
        return
    lines += ["", _ended(result)]
    lines += report.notes(recording, session.findings, every=args.verbose)
    sys.stdout.write("\n".join(lines) + "\n")


def _ended(result: comparing.Result) -> str:
    if result.looks == 1:
        return f"Decided once, after the {result.planned} {result.unit} that were planned."
    return (
        f"Ended at look {result.look.number} of {result.looks} that were planned, after"
        f" {result.groups} of at most {result.planned} {result.unit}."
    )


# --- two kernels ----------------------------------------------------------------------


def kernels(place: Machine, args: argparse.Namespace) -> int:
    """Two kernels by turns, a boot each."""
    if run_is_boot(place):
        # A look would be a boot, and is the host's business.
        session, settings = Session(place, _NO_FACTS), Settings()
    else:
        session, settings = look(place, args)
    old, new = (boots.Side(kernel) for kernel in args.compare[0])
    names = choose_timed(place.arch, measuring.chosen_cases(args) or ["getppid", "getpid", "read"])
    plan = replace(plan_of(args), groups=None)

    def side(one: boots.Side, options: Mapping[str, int]) -> Recording:
        found = {name: one.metrics(name) for name in names}
        recording = _recording(session, one.output, found, options, one.booted)
        recording.kernel["spec"] = one.kernel
        return recording

    with (
        keeping(args, session, lambda: {"old": side(old, {}), "new": side(new, {})}),
        progress(f"{old.kernel} and {new.kernel} by turns") as update,
    ):
        much = boots.Boots(names, args.groups or BOOT_GROUPS, args.rounds or ROUNDS, settings)
        result = boots.compare_kernels(place, (old, new), much, plan, update)
    both = side(old, result.options), side(new, result.options)
    comparison = compare(*both, threshold=plan.threshold)
    sys.stdout.write(
        dump(comparison_json(comparison)) if args.json else comparison_text(comparison)
    )
    for recording, word in zip(both, ("old", "new"), strict=True):
        save(args, session, recording, word)
    # What the run was ended by; counters decide nothing.
    timed = [row for row in comparison.timed if row.metric == NS]
    return EXIT_UNDECIDED if any(row.verdict == UNDECIDED for row in timed) else EXIT_DONE


def mode_of(args: argparse.Namespace) -> Callable[[Machine, argparse.Namespace], int]:
    """Which of them was asked for."""
    if args.compare:
        return kernels if args.of_kernels else cases
    if args.tails:
        return percentiles
    return working_sets if args.working_set is not None else table
