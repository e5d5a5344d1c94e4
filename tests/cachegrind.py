# SPDX-License-Identifier: GPL-2.0-or-later
"""A user program, its accesses as valgrind's lackey lists them, and cachegrind's misses.

The program is for x86-64, needs no C library and has its own stack, so that it executes the same
and at the same addresses under every emulator.  No instruction and no datum of it lies across two
lines of 64 bytes: cachegrind counts one miss where both are missed, kentry two.
"""

import re
import subprocess
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from kentry.models.caches import Hierarchy
from kentry.results.estimate import Level

_GCC = "x86_64-linux-gnu-gcc"
# Functions of 128 bytes each: 32 KiB of code.
_FUNCTIONS = 256

_SOURCE = """
typedef unsigned long word;
__asm__(".bundle_align_mode 6");
static word state = 1, table[1 << 16] __attribute__((aligned(64)));
static struct node { struct node *next; word value[7]; } nodes[4096] __attribute__((aligned(64)));
char stack[4096] __attribute__((aligned(64)));

static inline word next(void)
{
	state = state * 6364136223846793005 + 1442695040888963407;
	return state >> 33;
}

#define F(n) __attribute__((noinline, aligned(128))) static void f##n(void) \\
	{ table[(state >> 7 ^ n * 977) & 0xffff] += next() ^ n; }
FUNCTIONS
static void (*const all[])(void) = { POINTERS };

__attribute__((used)) void run(void)
{
	struct node *node = nodes;
	word sum = 0;

	for (int i = 0; i < 4096; i++)
		nodes[i].next = &nodes[(i * 1597 + 1) & 4095];
	for (int i = 0; i < ROUNDS; i++) {
		/* Mostly near, so that some of it stays in each level. */
		word at = next();
		table[at & (at & 7 << 20 ? 0x3ff : 0xffff)]++;
		node = node->next;
		sum += node->value[i & 3];
		if (!(i & 3))
			all[next() & FUNCTIONS_MASK]();
	}
	table[0] = sum;
	__asm__ volatile("syscall" : : "a"(231), "D"(0) : "rcx", "r11", "memory");
}

__asm__(".globl _start\\n_start:\\n lea stack+4032(%rip), %rsp\\n call run\\n");
"""

_ACCESS = re.compile(rb"^(I | L| S| M) +([0-9a-f]+),(\d+)$", re.MULTILINE)


def hierarchy(i1: tuple[int, int], d1: tuple[int, int], last: tuple[int, int]) -> Hierarchy:
    """Two levels like cachegrind's, each of (bytes, ways), with lines of 64 bytes."""
    sizes = {"L1I": i1, "L1D": d1, "L2": last}
    levels = tuple(Level(name, size, ways, 64) for name, (size, ways) in sizes.items())
    return Hierarchy("cachegrind", "", levels, ((0, 2), (), (1, 2), ()))


def build(folder: Path, rounds: int) -> Path:
    """The program, which goes through its loop so often."""
    source, program = folder / "program.c", folder / "program"
    numbers = range(_FUNCTIONS)
    text = _SOURCE.replace("FUNCTIONS_MASK", hex(_FUNCTIONS - 1)).replace("ROUNDS", str(rounds))
    text = text.replace("FUNCTIONS", " ".join(f"F({n})" for n in numbers))
    source.write_text(text.replace("POINTERS", ", ".join(f"f{n}" for n in numbers)))
    argv = [_GCC, "-O2", "-nostdlib", "-static", "-ffreestanding", "-fno-stack-protector"]
    argv += ["-fno-tree-vectorize", "-mno-red-zone", "-fcf-protection=none", "-Wall", "-Werror"]
    subprocess.run([*argv, "-o", str(program), str(source)], check=True)
    return program


def trace(program: Path) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """The line of each access in order, and whether it is one of data."""
    log = program.with_suffix(".log")
    argv = ["valgrind", "--tool=lackey", "--trace-mem=yes", f"--log-file={log}", str(program)]
    subprocess.run(argv, check=True, capture_output=True)
    found = _ACCESS.findall(log.read_bytes())
    addresses = np.array([int(address, 16) for _, address, _ in found], np.int64)
    sizes = np.array([int(size) for _, _, size in found], np.int64)
    lines = addresses // 64
    assert (lines == (addresses + sizes - 1) // 64).all(), "an access across two lines"
    return lines, np.array([kind != b"I " for kind, _, _ in found], np.int64)


def cachegrind(program: Path, levels: tuple[Level, ...]) -> dict[str, int]:
    """Its counts: Ir, I1mr, ILmr, Dr, D1mr, DLmr, Dw, D1mw, DLmw."""
    out = program.with_suffix(".out")
    options = [
        f"--{name}={level.bytes},{level.ways},{level.line}"
        for name, level in zip(("I1", "D1", "LL"), levels, strict=True)
    ]
    argv = ["valgrind", "--tool=cachegrind", "--cache-sim=yes", f"--cachegrind-out-file={out}"]
    subprocess.run([*argv, *options, str(program)], check=True, capture_output=True)
    text = out.read_text()
    names = re.search(r"^events: (.*)$", text, re.MULTILINE)
    sums = re.search(r"^summary: (.*)$", text, re.MULTILINE)
    assert names and sums
    return dict(zip(names[1].split(), map(int, sums[1].split()), strict=True))
