# SPDX-License-Identifier: GPL-2.0-or-later
"""kentry stat: time, on silicon; an interval and a verdict where others print one number."""

from __future__ import annotations

import argparse
import re
from pathlib import Path
from typing import TYPE_CHECKING

from kentry.commands import measuring
from kentry.errors import UserError

if TYPE_CHECKING:
    from kentry.runners.machine import MachineOptions

NAME = "stat"
HELP = "time on silicon: ns a call, or which of two is faster, with an interval and a verdict"

MOST_CALLS = 1_000_000_000
# Below these nothing is said: timing/comparing.py, timing/boots.py.
_LEAST_GROUPS, _LEAST_ROUNDS = 20, 6
_MOST_SECONDS = 86_400.0


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The command's arguments."""
    parser.add_argument(
        "target",
        nargs="?",
        default="local",
        help="local (this machine), ssh:HOST, board:PLACE (labgrid) or kvm (local)",
    )
    measuring.add_case_argument(parser)
    parser.epilog = (
        "Examples: kentry stat ssh:board --case getppid; kentry stat --compare getppid getuid;"
        " kentry stat kvm --compare debian:6.1 debian:6.12"
    )
    what = parser.add_argument_group("what is measured")
    what.add_argument(
        "--compare",
        nargs=2,
        metavar=("A", "B"),
        action="append",
        default=[],
        help="two cases or states, or two kernels (kvm: specs; ssh, board: what --boot takes),"
        " by turns; cases may be given again",
    )
    what.add_argument("--tails", action="store_true", help="calls one by one: p50, p99, p99.9, max")
    what.add_argument("--calls", type=_count, metavar="N", help="of each case of --tails (1000000)")
    what.add_argument(
        "--working-set",
        metavar="SIZE,...",
        help="ns a call behind a walk over so much memory: sweep (32K to 256M), or sizes",
    )
    how = parser.add_argument_group("how long, how sure")
    how.add_argument(
        "--seconds",
        type=_seconds,
        metavar="S",
        help="of measuring (8; --compare: 30, and it ends before where it can)",
    )
    how.add_argument(
        "--groups",
        type=_count,
        metavar="N",
        help="so many instead of seconds; of kernels: in each boot (20)",
    )
    how.add_argument(
        "--fixed", action="store_true", help="decide once, at the end, not at planned looks"
    )
    how.add_argument(
        "--threshold",
        type=_percent,
        metavar="PERCENT",
        help="a change up to this is none (0.25)",
    )
    how.add_argument("--cpu", type=_cpu, metavar="N", help="the cpu to measure on")
    how.add_argument(
        "--no-preflight", action="store_true", help="do not look at the machine for a second"
    )
    _add_target_arguments(parser)
    parser.add_argument("-o", "--output", type=Path, metavar="FILE", help="keep the recording")
    parser.add_argument("--json", action="store_true", help="print JSON instead of the table")


def _add_target_arguments(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("targets")
    group.add_argument("--kernel", metavar="SPEC", help="what the kvm guest boots")
    group.add_argument(
        "--accel",
        choices=("kvm", "tcg", "icount"),
        default="kvm",
        help="of the kvm guest; tcg and icount try it under emulation, where time means little",
    )
    group.add_argument("--arch", metavar="A", help="of an emulated guest")
    group.add_argument("--memory", type=_count, default=512, metavar="MIB", help="of a guest (512)")
    group.add_argument(
        "--emulator", default="installed", metavar="QEMU", help="of a guest, as for kentry record"
    )
    group.add_argument("--console", type=Path, metavar="FILE", help="keep a guest's console")
    group.add_argument(
        "--boot",
        default="kexec",
        metavar="HOW",
        help="how --compare switches kernels on ssh and boards: kexec, or a command with {}",
    )
    group.add_argument(
        "--rounds", type=_count, metavar="N", help="of four boots each, at most (12)"
    )
    group.add_argument("--board-env", type=Path, metavar="FILE", help="labgrid's ($LG_ENV)")
    group.add_argument(
        "--ssh-option", action="append", default=[], metavar="OPTION", help="as ssh's own -o"
    )
    group.add_argument(
        "--boot-timeout",
        type=_seconds,
        default=300.0,
        metavar="S",
        help="until a machine that was told to boot answers again (300)",
    )


def _seconds(text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = 0.0
    if not 0 < value <= _MOST_SECONDS:
        raise argparse.ArgumentTypeError(f"{text} is not a time in seconds")
    return value


def _percent(text: str) -> float:
    try:
        value = float(text.removesuffix("%"))
    except ValueError:
        value = -1.0
    if not 0 < value < 100:
        raise argparse.ArgumentTypeError(f"{text} is not a share in per cent")
    return value / 100


def _count(text: str) -> int:
    value = int(text) if text.isdecimal() else 0
    if not 1 <= value <= MOST_CALLS:
        raise argparse.ArgumentTypeError(f"{text} is not a number from 1 to {MOST_CALLS}")
    return value


def _cpu(text: str) -> int:
    if not text.isdecimal() or int(text) >= 8192:
        raise argparse.ArgumentTypeError(f"{text} is no cpu's number")
    return int(text)


def run(args: argparse.Namespace) -> int:
    """Measures, and prints."""
    from kentry.commands.stat_modes import mode_of
    from kentry.runners.open import open_machine

    _check(args)
    args.of_kernels = names_kernels(args)
    if args.output:
        measuring.check_writable(args.output)
    with open_machine(args.target, place_options(args)) as place:
        return mode_of(args)(place, args)


# What is asked, and the options that only have a meaning with it.
_ONLY_WITH = {
    "--calls": ("calls", ("--tails",)),
    "--fixed": ("fixed", ("--compare",)),
    "--threshold": ("threshold", ("--compare",)),
    "--rounds": ("rounds", ("--compare",)),
    "--kernel": ("kernel", ("kvm",)),
    "--console": ("console", ("kvm",)),
}
# And those that it leaves nothing to say to.
_NOT_WITH = {
    "--seconds": ("seconds", ("--tails",)),
    "--groups": ("groups", ("--tails",)),
}


def _check(args: argparse.Namespace) -> None:
    asked = [
        name
        for name, is_asked in (
            ("--compare", bool(args.compare)),
            ("--tails", args.tails),
            ("--working-set", args.working_set is not None),
        )
        if is_asked
    ]
    if len(asked) > 1:
        raise UserError(f"{' and '.join(asked)} are different questions.", "Ask one of them.")
    if args.target.startswith("kvm"):
        asked.append("kvm")
    _check_options(args, asked)
    _check_compare(args)


def _check_options(args: argparse.Namespace, asked: list[str]) -> None:
    for option, (name, uses) in _ONLY_WITH.items():
        if getattr(args, name) and not set(uses) & set(asked):
            raise UserError(
                f"{option} has a meaning only with {' or '.join(uses)}.", f"Leave {option} out."
            )
    for option, (name, uses) in _NOT_WITH.items():
        found = set(uses) & set(asked)
        if getattr(args, name) and found:
            raise UserError(f"{option} has no meaning with {min(found)}.", f"Leave {option} out.")


def _check_compare(args: argparse.Namespace) -> None:
    if not names_kernels(args):
        if args.compare and measuring.chosen_cases(args):
            raise UserError(
                "--compare names its cases itself.", "Leave --case out, or compare two kernels."
            )
        if args.compare and any(map(measuring.is_spec, args.compare[0])):
            raise UserError(
                f"{args.target} runs its own kernel, so it cannot be told to boot"
                f" {args.compare[0][0]}.",
                "Compare two kernels on kvm, ssh:HOST or board:PLACE.",
            )
        _check_least(args, "--groups", args.groups, _LEAST_GROUPS, "groups of a comparison")
    else:
        if len(args.compare) > 1:
            raise UserError("--compare of kernels can be given once.", "Compare two at a time.")
        _check_least(args, "--rounds", args.rounds, _LEAST_ROUNDS, "rounds of four boots")


def _check_least(
    args: argparse.Namespace, option: str, given: int | None, least: int, what: str
) -> None:
    if args.compare and given is not None and given < least:
        raise UserError(
            f"{option} {given} is too few for an interval: {least} {what} are the least.",
            f"Write {option} {least} or more.",
        )


def names_kernels(args: argparse.Namespace) -> bool:
    """Whether --compare is of kernels: specs, or what a place is told to boot."""
    if not args.compare:
        return False
    a, b = args.compare[0]
    if args.target.startswith("kvm"):
        return all(map(measuring.is_spec, (a, b)))
    return bool(re.match(r"(/|\d+\.\d+)", a) and re.match(r"(/|\d+\.\d+)", b)) or (
        args.boot != "kexec" or (args.target.startswith("board:") and not _are_cases(a, b))
    )


def _are_cases(*words: str) -> bool:
    from kentry.arch import host_arch
    from kentry.measure.catalogue import choose_timed

    try:
        choose_timed(host_arch(), words)
    except UserError:
        return False
    return True


def place_options(args: argparse.Namespace) -> MachineOptions:
    """The target's arguments."""
    from kentry.runners.machine import MachineOptions

    if not 64 <= args.memory <= 65536:
        raise UserError(
            f"--memory {args.memory} is not between 64 and 65536 MiB.", "Try --memory 512."
        )
    if args.console:
        measuring.check_writable(args.console)
    in_guest = args.target.startswith("kvm")
    return MachineOptions(
        memory=args.memory,
        emulator=args.emulator,
        console_file=args.console,
        pin=args.cpu if in_guest else None,
        ssh_options=tuple(word for option in args.ssh_option for word in ("-o", option)),
        boot_timeout=args.boot_timeout,
        switch=args.boot,
        accelerator=args.accel,
        arch=args.arch or "",
        kernel=args.kernel or "",
        board_env=args.board_env,
    )
