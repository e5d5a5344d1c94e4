# SPDX-License-Identifier: GPL-2.0-or-later
"""kentry stat: time, on silicon."""

from __future__ import annotations

import re
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from kentry.arch import host_arch
from kentry.commands import measuring, output, values
from kentry.commands.options import (
    EMULATOR,
    RARE,
    Need,
    ResultOptions,
    flag,
    list_option,
    operand,
    option,
    path_option,
)
from kentry.compare.counted import compare
from kentry.count.catalogue import choose_timed
from kentry.errors import EXIT_DONE, EXIT_UNDECIDED, UserError
from kentry.machines.machine import Machine, MachineOptions
from kentry.machines.open import open_machine
from kentry.results.case_name import CaseName
from kentry.results.comparison import TimedComparison, document_of
from kentry.results.comparison import to_json as comparison_json
from kentry.results.document import dump
from kentry.results.recording import to_json
from kentry.show.comparison import comparison_text
from kentry.stats import THRESHOLD
from kentry.stats.exact import UNDECIDED
from kentry.time.sampling import Amount, Settings
from kentry.time.session import Session, open_session

if TYPE_CHECKING:
    from kentry.time.comparing import Schedule

EXAMPLES = (
    "kentry stat --case getppid,read",
    "kentry stat --compare getppid getuid",
    "kentry stat kvm --compare debian:6.1 debian:6.12 --case getppid,read",
)

# The seconds of a table, and at most of a comparison.
SECONDS, COMPARE_SECONDS = 8.0, 30.0
# The groups in each boot of a kernel, and the most rounds of boots.
BOOT_GROUPS, ROUNDS = 20, 12
# A machine may run its firmware for minutes before it answers again; a guest has none to run.
_BOOT_SECONDS, _GUEST_BOOT_SECONDS = 600.0, 120.0

_GUEST = Need(lambda options: options.is_guest, "without the target kvm")
_COMPARE = Need(lambda options: options.compare, "without --compare")
_KERNELS = Need(lambda options: options.compares_kernels, "without --compare of two kernels")


@dataclass(frozen=True, kw_only=True)
class Options(ResultOptions):
    """What `kentry stat` takes."""

    target: str = operand(
        default="local",
        nargs="?",
        metavar="TARGET",
        help="machine to measure on: local, ssh:HOST, board:PLACE (labgrid) or kvm (a guest)",
    )
    case: tuple[str, ...] = list_option(
        "--case",
        needs=[
            Need(
                lambda options: not options.compare or options.compares_kernels,
                "beside --compare of cases, which names its own",
            )
        ],
        **measuring.CASE,
    )
    compare: tuple[tuple[str, str], ...] = option(
        "--compare",
        default=(),
        nargs=2,
        action="append",
        metavar=("A", "B"),
        help="compare two cases, or two kernels (kvm: specs; ssh and board: what --boot takes),"
        " interleaved; cases can be repeated",
    )
    tails: bool = flag(
        "--tails",
        needs=(
            Need(
                lambda options: not options.compare and options.working_set is None,
                "beside --compare or --working-set",
            ),
        ),
        help="time calls one by one: p50, p99, p99.9 and the longest",
    )
    working_set: str | None = option(
        "--working-set",
        metavar="SIZE,...",
        needs=(Need(lambda options: not options.compare, "beside --compare"),),
        help="time one case behind a walk through that much memory: sweep (32K to 256M), or sizes",
    )
    seconds: float | None = option(
        "--seconds",
        type=values.decimal(0, 86_400, "seconds"),
        metavar="SECONDS",
        needs=(
            Need(lambda options: options.groups is None, "beside --groups"),
            Need(lambda options: not options.tails, "beside --tails: give --groups"),
            Need(lambda options: not options.compares_kernels, "on boots: give --rounds"),
            Need(
                lambda options: not options.is_guest or options.compare,
                "on the table of a guest, which has 8 boots",
            ),
        ),
        help=f"how long to measure: {SECONDS:g} by default; --compare at most"
        f" {COMPARE_SECONDS:g}, and it ends early once it is decided",
    )
    groups: int | None = option(
        "--groups",
        type=values.count,
        metavar="N",
        help="how many groups of processes instead of --seconds; with --compare of kernels groups"
        f" in each boot ({BOOT_GROUPS}), with --tails groups of 100000 calls (10)",
    )
    threshold: float | None = option(
        "--threshold",
        type=values.decimal(0, 99.99, "per cent"),
        metavar="PERCENT",
        needs=(_COMPARE,),
        help="changes up to this count as none (0.25)",
    )
    cpu: int | None = option(
        "--cpu",
        type=values.whole(0, 8191),
        metavar="N",
        help="cpu to measure on; kvm: the cpu that the guest runs on",
    )
    kernel: str | None = option(
        "--kernel",
        metavar="SPEC",
        needs=(
            _GUEST,
            Need(lambda options: not options.compares_kernels, "beside --compare of two kernels"),
        ),
        help="kernel of the kvm guest: " + measuring.SPEC_HELP,
    )
    boot: str | None = option(
        "--boot",
        metavar="HOW",
        needs=(
            _COMPARE,
            Need(
                lambda options: options.target.startswith(("ssh:", "board:")),
                "without ssh:HOST or board:PLACE",
            ),
        ),
        help="how --compare boots kernels on ssh and boards: kexec (the default), or a command"
        " with {} for the kernel",
    )
    rounds: int | None = option(
        "--rounds",
        type=values.count,
        metavar="N",
        needs=(_KERNELS,),
        help=f"most rounds of four boots for --compare of kernels ({ROUNDS}; 6 are the least)",
    )
    output: Path | None = path_option("-o", "--output", help="write the recording to FILE")
    arch: str | None = option("--arch", group=RARE, needs=[_GUEST], **measuring.ARCH)
    emulator: str | None = option("--emulator", needs=[_GUEST], **EMULATOR)
    accelerator: str | None = option(
        "--accel",
        choices=("kvm", "tcg", "icount"),
        group=RARE,
        needs=(_GUEST,),
        help="how the guest runs: kvm (the default), tcg or icount, which emulate it: their times"
        " say nothing about hardware",
    )
    ssh_options: tuple[str, ...] = option(
        "--ssh-option",
        default=(),
        action="append",
        metavar="OPTION",
        group=RARE,
        needs=(Need(lambda options: options.target.startswith("ssh:"), "without ssh:HOST"),),
        help="an option for ssh's own -o, such as Port=2222; can be repeated",
    )

    @property
    def is_guest(self) -> bool:
        """Whether the target is a guest of this machine."""
        return self.target.partition(":")[0] == "kvm"

    @property
    def compares_kernels(self) -> bool:
        """Whether --compare names kernels: specs, or what the machine is told to boot."""
        if not self.compare:
            return False
        names = self.compare[0]
        if self.is_guest:
            return all(map(measuring.is_spec, names))
        if all(re.match(r"(/|\d+\.\d+)", name) for name in names):
            return True
        if self.boot not in (None, "kexec"):
            return True
        if self.target.startswith("board:"):
            try:
                choose_timed(host_arch(), names)
            except UserError:
                return True
        return False

    @property
    def schedule(self) -> Schedule:
        """When a comparison ends."""
        from kentry.time.comparing import Schedule

        threshold = THRESHOLD if self.threshold is None else self.threshold / 100
        return Schedule(self.seconds or COMPARE_SECONDS, threshold, groups=self.groups)


def run(options: Options) -> int:
    """Measures and prints; 3 if a row of a comparison is undecided."""
    from kentry.time.comparing import LEAST_GROUPS, LEAST_ROUNDS

    flag, count, least = "--groups", options.groups, LEAST_GROUPS
    if options.compares_kernels:
        if len(options.compare) > 1:
            raise UserError("--compare of kernels can be given once.", "Compare two at a time.")
        flag, count, least = "--rounds", options.rounds, LEAST_ROUNDS
    elif options.compare and any(map(measuring.is_spec, options.compare[0])):
        raise UserError(
            f"{options.target} runs its own kernel and cannot boot {options.compare[0][0]}.",
            "Compare two kernels on kvm, ssh:HOST or board:PLACE.",
        )
    if options.compare and count is not None and count < least:
        raise UserError(
            f"{flag} {count} is too few for an interval.", f"Write {flag} {least} or more."
        )
    if options.output:
        measuring.check_writable(options.output)
    how = MachineOptions(
        pin=options.cpu if options.is_guest else None,
        ssh_options=tuple(word for text in options.ssh_options for word in ("-o", text)),
        boot_timeout=_GUEST_BOOT_SECONDS if options.is_guest else _BOOT_SECONDS,
        switch=options.boot or "kexec",
        accelerator=options.accelerator or "kvm",
        emulator=options.emulator or "installed",
        arch=options.arch or "",
        kernel=options.kernel or "",
    )
    with open_machine(options.target, how) as machine:
        if options.compares_kernels:
            return _compare_kernels(machine, options)
        if options.compare:
            return _compare_cases(machine, options)
        return _time(machine, options)


def _time(machine: Machine, options: Options) -> int:
    """A table, tails, or a sweep over working sets."""
    from kentry.show.stat import stat_text, sweep_text, tails_text
    from kentry.time.measurements import sweep_sizes, time_cases, time_sweep, time_tails
    from kentry.time.sampling import GROUPS

    words, every = options.case, options.verbose
    amount = Amount(options.seconds or SECONDS, options.groups)
    if options.working_set is not None:
        sizes = sweep_sizes(options.working_set)
        case = _one_case(machine, words or ["getppid"], "--working-set")
        _check_plain([case], "--working-set")
        session = open_session(machine, options.cpu, options.output)
        recording = time_sweep(session, case, sizes, amount)
        text = partial(sweep_text, recording, session.findings, every=every)
    elif options.tails:
        names = choose_timed(machine.arch, words or ["getppid", "getpid", "invalid"])
        _check_plain(names, "--tails")
        session = open_session(machine, options.cpu, options.output)
        recording, tails = time_tails(session, names, options.groups or GROUPS)
        text = partial(tails_text, recording, tails, session.findings, every=every)
    else:
        names = choose_timed(machine.arch, words)
        session = open_session(machine, options.cpu, options.output)
        recording, absent = time_cases(session, names, amount)
        text = partial(stat_text, recording, absent, session.findings, every=every)
    if options.json:
        sys.stdout.write(dump(to_json(recording)))
    else:
        output.show(options, text)
    session.save(recording)
    return EXIT_DONE


def _one_case(machine: Machine, words: Sequence[str], flag: str) -> str:
    names = choose_timed(machine.arch, words)
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


def _compare_cases(machine: Machine, options: Options) -> int:
    from kentry.show.stat import pairs_text
    from kentry.time.comparing import Pair
    from kentry.time.measurements import compare_pairs

    pairs = []
    for words in options.compare:
        pair = Pair(*(_one_case(machine, [word], "--compare") for word in words))
        if len({CaseName.parse(name).cache is None for name in (pair.old, pair.new)}) > 1:
            raise UserError(
                f"{pair.name} compares calls in blocks with calls one by one.",
                "Write +cache=warm where there is no +cache=.",
            )
        pairs.append(pair)
    session = open_session(machine, options.cpu, options.output)
    recording, ending, rows = compare_pairs(session, pairs, options.schedule)
    if options.json:
        sys.stdout.write(dump(document_of(recording, recording, rows, recording.caveats)))
    else:
        findings, every = session.findings, options.verbose
        output.show(options, pairs_text, recording, rows, ending, findings, every=every)
    session.save(recording)
    return _exit_code(rows)


def _compare_kernels(machine: Machine, options: Options) -> int:
    from kentry.time.analysis import NS
    from kentry.time.comparing import BootPlan
    from kentry.time.measurements import compare_two_kernels

    names = choose_timed(machine.arch, options.case or ["getppid", "getpid", "read"])
    if options.is_guest:
        # Reading the facts of a guest would take a boot of its own.
        session = Session(machine, file=options.output)
    else:
        session = open_session(machine, options.cpu, options.output)
    groups, rounds = options.groups or BOOT_GROUPS, options.rounds or ROUNDS
    plan = BootPlan(names, groups, rounds, Settings(cpu=session.cpu))
    schedule = options.schedule
    old, new = compare_two_kernels(session, options.compare[0], plan, schedule)
    comparison = compare(old, new, threshold=schedule.threshold)
    if options.json:
        sys.stdout.write(dump(comparison_json(comparison)))
    else:
        output.show(options, comparison_text, comparison)
    session.save(old, "old")
    session.save(new, "new")
    # Counters decide nothing: the time decided when the run ended.
    return _exit_code([row for row in comparison.timed if row.metric == NS])


def _exit_code(rows: Sequence[TimedComparison]) -> int:
    undecided = any(row.verdict == UNDECIDED for row in rows)
    return EXIT_UNDECIDED if undecided else EXIT_DONE
