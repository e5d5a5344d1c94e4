# SPDX-License-Identifier: GPL-2.0-or-later
"""kentry stat: time, on silicon."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from kentry.arch import host_arch
from kentry.commands import measuring, options, values
from kentry.commands.emit import emit
from kentry.compare.counted import compare, with_paths_and_samples
from kentry.count.catalogue import choose_timed
from kentry.errors import EXIT_DONE, EXIT_UNDECIDED, UserError
from kentry.machines.machine import MachineOptions
from kentry.machines.open import open_machine
from kentry.results.comparison import Comparison, TimedComparison
from kentry.results.recording import Measured, Recording, to_file
from kentry.show.blocks import Layout
from kentry.show.comparison import comparison_layout
from kentry.stats import THRESHOLD
from kentry.stats.exact import UNDECIDED
from kentry.time.session import Session, open_session

EXAMPLES = (
    "kentry stat --case getppid,read",
    "kentry stat --compare getppid getuid",
    "kentry stat kvm --compare debian:6.1 debian:6.12 --case getppid,read",
)
# The seconds of a table, and at most of a comparison.
SECONDS, COMPARE_SECONDS = 8.0, 30.0
# A machine may run its firmware for minutes before it answers again; a guest has none to run.
_BOOT_SECONDS, _GUEST_BOOT_SECONDS = 600.0, 120.0

_GUEST = {"without the target kvm": lambda options: options.is_guest}
_COMPARE = {"without --compare": lambda options: options.compare}


@dataclass(frozen=True, kw_only=True)
class Options(options.ResultOptions):
    """What `kentry stat` takes."""

    target: str = options.operand(
        default="local",
        nargs="?",
        metavar="TARGET",
        help="machine to measure on: local, ssh:HOST, board:PLACE (labgrid) or kvm (a guest; with"
        " a kernel kvm:SPEC)",
    )
    case: tuple[str, ...] = options.list_option(
        "--case CASE,...",
        needs={
            "beside --compare of cases, which names its own": lambda options: (
                not options.compare or options.compares_kernels
            )
        },
        **measuring.CASE,
    )
    compare: tuple[tuple[str, str], ...] = options.option(
        "--compare",
        default=(),
        nargs=2,
        action="append",
        metavar=("A", "B"),
        help="compare two cases, or two kernels (kvm: specs; ssh and board: releases, paths of"
        " images there, states of a board's strategy, or what --boot takes), interleaved; cases"
        " can be repeated",
    )
    tails: bool = options.flag(
        "--tails",
        needs={
            "beside --compare or --working-set": lambda options: (
                not options.compare and options.working_set is None
            )
        },
        help="time calls one by one: p50, p99, p99.9 and the longest",
    )
    working_set: str | None = options.option(
        "--working-set SIZE,...",
        needs={"beside --compare": lambda options: not options.compare},
        help="time one case after the program has read so much memory, and after it has also run"
        " through as much code: sizes, or sweep (32K to 256M)",
    )
    extent: int | float | None = options.option(
        "--for N[s]",
        type=values.extent,
        needs={
            "in seconds here: it takes a number of groups or rounds": lambda options: (
                not isinstance(options.extent, float) or options.takes_seconds
            )
        },
        help=f"how long to measure: seconds, such as 60s (default: {SECONDS:g}s; with --compare at"
        f" most {COMPARE_SECONDS:g}s), or a number of groups of processes; with --tails groups of"
        " 100000 calls (default: 10); to compare kernels, rounds of four boots (default: at most"
        " 12)",
    )
    pin: int | None = options.option(
        "--pin N",
        type=values.whole(0, 8191),
        help="cpu to measure on; kvm: the cpu that the guest runs on",
    )
    output: Path | None = options.path_option("-o", "--output", help="write the recording to FILE")
    threshold: float | None = options.option(
        "--threshold PERCENT",
        type=values.decimal(0, 99.99, "per cent"),
        group=options.RARE,
        needs=_COMPARE,
        help="changes up to this count as none (0.25)",
    )
    boot: str | None = options.option(
        "--boot HOW",
        group=options.RARE,
        needs=_COMPARE
        | {
            "without ssh:HOST or board:PLACE": lambda options: options.target.startswith(
                ("ssh:", "board:")
            )
        },
        help="how --compare boots kernels on ssh and boards: kexec (the default), or a command"
        " with {} for the kernel",
    )
    arch: str | None = options.option(
        "--arch ARCH", group=options.RARE, needs=_GUEST, **measuring.ARCH
    )
    emulator: str | None = options.anywhere("emulator", _GUEST)
    no_sandbox: bool = options.anywhere("no_sandbox", _GUEST)
    accelerator: str | None = options.option(
        "--accel",
        choices=("kvm", "tcg", "icount"),
        group=options.RARE,
        needs=_GUEST,
        help="how the guest runs: kvm (the default), tcg or icount, which emulate it: their times"
        " say nothing about hardware",
    )

    @property
    def is_guest(self) -> bool:
        """Whether the target is a guest of this machine."""
        return self.target.partition(":")[0] == "kvm"

    @property
    def takes_seconds(self) -> bool:
        """Whether seconds can limit the measurement; a guest's table has 8 boots."""
        return not (self.tails or self.compares_kernels or (self.is_guest and not self.compare))

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
    def machine(self) -> MachineOptions:
        """How the target is reached."""
        return MachineOptions(
            pin=self.pin if self.is_guest else None,
            boot_timeout=_GUEST_BOOT_SECONDS if self.is_guest else _BOOT_SECONDS,
            switch=self.boot or "kexec",
            accelerator=self.accelerator or "kvm",
            emulator=self.emulator or "installed",
            arch=self.arch or "",
        )


def run(options: Options) -> int:
    """Measures and prints; 3 if a row of a comparison is undecided."""
    if options.output:
        measuring.check_writable(options.output)
    # Before a kernel is fetched or a machine reached.
    if options.compares_kernels and len(options.compare) > 1:
        raise UserError("--compare of kernels can be given once.", "Compare two at a time.")
    if options.compares_kernels and options.target.startswith("kvm:"):
        raise UserError(f"{options.target} is a third kernel beside --compare.", "Write kvm.")
    refused = (pair for pair in options.compare if any(map(measuring.is_spec, pair)))
    if not options.compares_kernels and (pair := next(refused, None)):
        raise UserError(
            f"{options.target} cannot compare {' and '.join(pair)}.",
            "Name two specs on kvm, what --boot takes on ssh:HOST or board:PLACE, or two cases.",
        )
    with open_machine(options.target, options.machine) as machine:
        if options.compares_kernels and options.is_guest:
            # Reading the facts of a guest would take a boot of its own.
            session = Session(machine, file=options.output)
        else:
            session = open_session(machine, options.pin, options.output)
        return (_compare if options.compare else _time)(session, options)


def _finish(
    session: Session,
    options: Options,
    recordings: Mapping[str, Recording],
    document: Comparison | dict[str, Any],
    layout: Callable[[], Layout],
    rows: Sequence[TimedComparison] = (),
) -> int:
    emit(options, layout, lambda: document)
    for side, recording in recordings.items():
        session.save(recording, side)
    undecided = any(row.verdict == UNDECIDED for row in rows)
    return EXIT_UNDECIDED if undecided else EXIT_DONE


def _time(session: Session, options: Options) -> int:
    from kentry.show.stat import stat_blocks, stat_layout, sweep_blocks, tails_blocks
    from kentry.time.measurements import time_cases, time_sweep, time_tails
    from kentry.time.sampling import GROUPS

    extent = options.extent or SECONDS
    if options.working_set is not None:
        recording, absent = time_sweep(session, options.case, options.working_set, extent)
        blocks = sweep_blocks(recording.cases, absent)
    elif options.tails:
        recording, tails = time_tails(session, options.case, int(options.extent or GROUPS))
        blocks = tails_blocks(tails)
    else:
        recording, absent = time_cases(session, options.case, extent)
        blocks = stat_blocks(recording.cases, absent)
    layout = partial(stat_layout, recording, blocks, session.findings)
    return _finish(session, options, {"": recording}, to_file(recording), layout)


def _compare(session: Session, options: Options) -> int:
    from kentry.show.stat import pair_blocks, stat_layout
    from kentry.time.measurements import NS, Schedule, compare_pairs, compare_two_kernels

    threshold = THRESHOLD if options.threshold is None else options.threshold / 100
    schedule = Schedule(options.extent or COMPARE_SECONDS, threshold)
    kernels = options.compare[0]
    if options.compares_kernels:
        sides = compare_two_kernels(session, kernels, options.case, schedule)
        comparison = compare(sides["old"], sides["new"], threshold=threshold)
        document = with_paths_and_samples(comparison, sides["old"], sides["new"])
        # Counters decide nothing: the time decided when the run ended.
        rows = [row for row in comparison.timed if row.metric == NS]
        layout = partial(comparison_layout, comparison)
        return _finish(session, options, sides, document, layout, rows)
    recording, ending, rows = compare_pairs(session, options.compare, schedule)
    blocks = pair_blocks(rows, ending)
    layout = partial(stat_layout, recording, blocks, session.findings)
    side = Measured.of(recording)
    document = Comparison(
        tool=recording.tool, old=side, new=side, rows=tuple(rows), caveats=tuple(recording.caveats)
    )
    return _finish(session, options, {"": recording}, document, layout, rows)
