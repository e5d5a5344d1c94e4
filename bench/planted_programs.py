#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-or-later
"""Three more instructions at every system call's entry: found in each workload, and nothing else?

    python -m bench.planted_programs [WORKLOAD ...] [--boots N] [--spec SPEC]

Of Debian's arm64 kernel the image is changed, which takes no build: the calls of invoke_syscall()
go to code that is never executed otherwise, where two no-ops and a branch lead to it.  Of
source:6.12 a patch puts three no-ops into invoke_syscall(), and two kernels are built.

calls     system calls of the first boot
entry     entry and exit of a call, without and with the plant, and what kentry says of it
kinds     kinds of system calls that got dearer by three, of those that are decided
others    other kinds that are called better or worse: there must be none
of all    what the plant is of all instructions of the program
same      pairs of boots of one kernel with other seeds in which nothing is better or worse
"""

from __future__ import annotations

import argparse
import struct
import tempfile
from dataclasses import dataclass, replace
from itertools import combinations
from pathlib import Path

from kentry.arch import find_arch
from kentry.arch.processors import MAX
from kentry.boot.guest_tasks import TraceOptions
from kentry.boot.userland.root_image import find_release
from kentry.boot.userland.workloads import WORKLOADS, find_workload
from kentry.compare.workload import compare_workloads
from kentry.count.workload_cache import Program, run_program
from kentry.host.cache import sha256_of
from kentry.kernels.config import USERLAND, Request
from kentry.kernels.kernel import Kernel
from kentry.kernels.resolve import resolve
from kentry.results.workload import SYSCALL, Workload
from kentry.results.workload_comparison import WorkloadComparison
from kentry.show.blocks import Column, Table, text_column
from kentry.show.numbers import change
from kentry.show.text import written
from kentry.stats.exact import BETTER, SAME, WORSE

ARCH = find_arch("arm64")
PATCH = Path(__file__).parents[1] / "tests" / "qemu" / "patches" / "invoke_syscall.patch"
CALLED, UNUSED = "invoke_syscall", "emergency_restart"
PLANTED = 3
# Boots a side that are compared, as kentry diff --run does.
SIDE = 3
# Encodings of the architecture's manual (DDI 0487): an offset in words is in 26 bits.
NOP, B, BL = 0xD503201F, 0x14000000, 0x94000000
OFFSET = (1 << 26) - 1


def silent(_fraction: float | None, _now: str) -> None:
    """Nothing is shown."""


def branch(opcode: int, source: int, target: int) -> int:
    return opcode | (target - source) // 4 & OFFSET


def in_image(kernel: Kernel, folder: Path) -> Kernel:
    """The kernel with other calls of CALLED; an image of arm64 is its text from _text on."""
    address = dict(zip(kernel.symbols.names, kernel.symbols.addresses, strict=True))
    first, called, unused = (address[name] for name in ("_text", CALLED, UNUSED))
    image = bytearray(kernel.image.read_bytes())
    assert image[56:60] == b"ARMd", "no plain image of arm64"
    words = memoryview(image)[: (address["_etext"] - first) // 4 * 4].cast("I")
    callers = [
        place for place, word in enumerate(words) if word == branch(BL, first + 4 * place, called)
    ]
    assert callers, f"no call of {CALLED}"
    for place in callers:
        words[place] = branch(BL, first + 4 * place, unused)
    last = unused + 4 * (PLANTED - 1)
    code = [NOP] * (PLANTED - 1) + [branch(B, last, called)]
    struct.pack_into(f"<{PLANTED}I", words, unused - first, *code)
    file = folder / "Image"
    file.write_bytes(image)
    return replace(kernel, image=file, image_sha256=sha256_of(file))


def kernels(spec: str, folder: Path) -> tuple[Kernel, Kernel]:
    """The kernel without and with the plant."""
    request = Request(USERLAND)
    base = resolve(spec, ARCH, silent, request)
    if not spec.startswith(("source:", "tree:")):
        return base, in_image(base, folder)
    patch = folder / "0001.patch"
    patch.write_text(PATCH.read_text(encoding="utf-8").replace("@N@", str(PLANTED)))
    return base, resolve(f"{spec},patches={patch}", ARCH, silent, request)


@dataclass(frozen=True)
class Result:
    """The plant against its kernel, and the pairs of boots of that kernel alone."""

    found: WorkloadComparison
    pairs: list[WorkloadComparison]

    @property
    def same(self) -> int:
        return sum(
            pair.entry.verdict == SAME and not pair.verdicts & {BETTER, WORSE}
            for pair in self.pairs
        )

    @property
    def kinds(self) -> tuple[int, int]:
        """Kinds of system calls that changed by the plant, and that are decided."""
        decided = [
            kind.delta
            for kind in self.found.kinds
            if kind.what == SYSCALL and kind.delta is not None
        ]
        return decided.count(PLANTED), len(decided)

    @property
    def others(self) -> list[str]:
        return [
            f"{kind.name} {kind.delta:+d}"
            for kind in self.found.kinds
            if kind.delta and (kind.what, kind.delta) != (SYSCALL, PLANTED)
        ]

    @property
    def is_right(self) -> bool:
        entry = self.found.entry
        right, decided = self.kinds
        return (
            (entry.verdict, entry.delta) == (WORSE, PLANTED)
            and right == decided
            and not self.others
            and self.same == len(self.pairs)
        )


def measure(words: list[str], boots: int, base: Kernel, planted: Kernel) -> Result:
    """Boots the workload on both kernels, on the first with as many seeds as `boots`."""
    program = Program(
        workload=find_workload(words),
        release=find_release(None, ARCH),
        options=TraceOptions(cpu=MAX),
        seeds=tuple(range(1, boots + 1)),
    )
    side = min(boots, SIDE)
    old = run_program(base, ARCH, program, silent, reuse=True)
    with_plant = replace(program, seeds=program.seeds[:side])
    new: list[Workload] = run_program(planted, ARCH, with_plant, silent, reuse=True)
    return Result(
        compare_workloads(old[:side], new),
        [compare_workloads([one], [other]) for one, other in combinations(old, 2)],
    )


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("workload", nargs="*", default=list(WORKLOADS))
    parser.add_argument("--boots", type=int, default=SIDE, help="of the kernel without the plant")
    parser.add_argument("--spec", default="debian:6.12")
    args = parser.parse_args()
    heads = ("calls", "entry", "with it", "verdict", "kinds", "others", "of kernel", "of all")
    table = Table([text_column("workload"), *map(Column, heads), Column("same")], width=110)
    wrong = False
    with tempfile.TemporaryDirectory() as folder:
        base, planted = kernels(args.spec, Path(folder))
        for workload in args.workload:
            result = measure([workload], args.boots, base, planted)
            entry, old = result.found.entry, result.found.old
            planted_at_all = entry.calls * PLANTED
            table.row(
                workload,
                entry.calls,
                entry.old,
                entry.new,
                f"{entry.verdict} {entry.delta}",
                "{} of {}".format(*result.kinds),
                len(result.others),
                change(planted_at_all, old.kernel_instructions[0], 2),
                change(planted_at_all, old.instructions[0], 2),
                f"{result.same} of {len(result.pairs)}",
            )
            wrong |= not result.is_right
            print(workload, "right" if result.is_right else f"WRONG {result.others}", flush=True)
    print(written([table]))
    return int(wrong)


if __name__ == "__main__":
    raise SystemExit(main())
