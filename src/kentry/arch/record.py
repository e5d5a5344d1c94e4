# SPDX-License-Identifier: GPL-2.0-or-later
"""What kentry knows of an architecture: the record that each of them fills in.

A vector event is found by the kernel's own symbols and by instruction encodings, never by an
address.  The encodings are from the instruction sets' manuals.  The functions were read in
Linux 6.1, 6.12 and 7.3 (arch/arm64/kernel/fpsimd.c, arch/riscv/include/asm/vector.h,
arch/x86/kernel/fpu/).
"""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import cache

from kentry.arch.mechanism import CountingRules, Mechanisms

_NEVER = re.compile(r"(?!)")

# The symbols of kentry's own kernel (guest/floor/), on every architecture.
FLOOR_ASSEMBLY = r"floor_(entry|return)(_second)?"
FLOOR_HANDLERS = r"floor_sys_\w+"


@dataclass(frozen=True)
class Trap:
    """Where the kernel takes an interrupt or exception: symbols matching `symbol`, + offset."""

    kind: str  # "irq" or "exception"
    symbol: re.Pattern[str]
    offset: int = 0


@dataclass(frozen=True)
class Linking:
    """How the disassembly spells what the linker chose; path/stream.py puts placeholders there.

    `rewrites` are applied to a path's text, a line an instruction (re.MULTILINE).  `high` matches
    what puts the upper part of an address into a register; `low` are patterns, with replacements,
    for what adds the rest to its `base`.  `register` finds a line's registers; its group is the
    same for all names of one.  `preserved` are callee-saved, `global_pointer` points into the
    middle of the data.  `chosen` matches the registers that compilers choose freely, with the word
    that stands for any of them.
    """

    rewrites: tuple[tuple[str, str], ...]
    high: re.Pattern[str] = _NEVER
    low: tuple[tuple[re.Pattern[str], str], ...] = ()
    register: re.Pattern[str] = _NEVER
    preserved: re.Pattern[str] = _NEVER
    global_pointer: str = ""
    chosen: tuple[re.Pattern[str], str] = (_NEVER, "")


@dataclass(frozen=True)
class Unit:
    """A vector unit: `name` is its word in a case's name, `what` is what people call it.

    `lengths` are the vector lengths in bits that the emulated cpu can have, the default first.
    `option` is the kernel's config option; `hint` is printed with the error when it is off.
    """

    name: str
    what: str
    lengths: tuple[int, ...]
    option: str
    hint: str = ""


@dataclass(frozen=True)
class Marker:
    """How an event is recognised among executed instructions.

    By the first instruction of a function that `symbol` matches, or by bytes that match `code`.
    Where given, it must also be outside the functions of `outside`, directly follow an instruction
    of `behind`, and run within a call of a function of `within`.  A marker that `repeats` is in a
    loop: consecutive iterations are one event.
    """

    event: str
    label: str
    symbol: re.Pattern[str] | None = None
    code: re.Pattern[bytes] | None = None
    outside: re.Pattern[str] | None = None
    behind: re.Pattern[bytes] | None = None
    within: re.Pattern[str] | None = None
    repeats: bool = False


@dataclass(frozen=True)
class Counter:
    """The emulated machine's own counter of instructions, by which the plugin's count is checked.

    `name` is the probe's word, `what` what people call it.  It counts the kernel's alone, or also
    those of user mode and firmware, and each repetition of an x86 REP.
    """

    name: str
    what: str
    kernel_alone: bool = False


@dataclass(frozen=True)
class VectorSide:
    """An architecture's vector units, and how the kernel keeps their state.

    `switch` changes from one task's stack to another's; before `settled`, if given, the kernel may
    still save the previous task.  `fork` is called with the new task and saves the parent's
    registers.  `entered` are the labels behind the vectors for user mode, with the tasks plugin's
    word for each.  Addresses of instructions are multiples of `alignment` bytes.  `unmodelled`
    maps a unit, or a unit and a length, to the reason why no emulator has it.  `policies` are what
    Linux does with the state of a task that no longer uses it, each from a release on;
    `mechanisms` are all else that it does with a unit's state.  `trap_classes` are the exceptions
    that a first use may raise (ESR_EL1.EC, scause).
    """

    units: tuple[Unit, ...]
    markers: tuple[Marker, ...]
    switch: str
    alignment: int
    policies: tuple[tuple[tuple[int, int], str], ...]
    mechanisms: Mapping[str, Mechanisms]
    counting: CountingRules
    trap_classes: tuple[int, ...] = ()
    settled: str = ""
    fork: str = "arch_dup_task_struct"
    entered: tuple[tuple[re.Pattern[str], str], ...] = ()
    unmodelled: Mapping[str, str] = field(default_factory=dict)

    def unit(self, name: str) -> Unit | None:
        """The unit of that name."""
        return next((unit for unit in self.units if unit.name == name), None)

    def policy_of(self, release: tuple[int, int]) -> str:
        """The policy of Linux of that release."""
        return max(row for row in self.policies if row[0] <= release)[1]

    def bits(self, unit: str, length: int | None = None) -> int:
        """A vector length in bits: `length`, or else the unit's default."""
        return length or (self.unit(unit) or self.units[0]).lengths[0]


@dataclass(frozen=True)
class Decoding:
    """What instructions do besides running: patterns of their bytes, used with re.DOTALL.

    `conditional` branches, unconditional `jumps`, `calls` and `returns` exclude each other;
    path/instructions.py says what the others are.  `far` are two instructions in a row that make
    one jump or call to a fixed address: the second alone is indirect.  `serialising` has a name
    for each instruction, or group of instructions, that no instruction behind it overtakes.
    """

    conditional: bytes
    jumps: bytes
    calls: bytes
    returns: bytes
    indirect: bytes
    atomic: bytes
    reads: bytes
    writes: bytes
    serialising: Mapping[str, bytes]
    far: bytes = b"(?!)"


@dataclass(frozen=True)
class Llvm:
    """How LLVM knows the architecture, and what its scheduling models do not price.

    `features` are those that a kernel may use on any core (-mattr).  No path has an instruction of
    the bytes `mark`.  `unpriced` matches LLVM's text, with one blank between words, of instructions
    of which the models have no latency, or 1: they enter or leave the kernel, serialise, or access
    system registers; its groups together are the instruction's name in cost tables.
    `exceptions` matches functions by which the kernel is entered for a fault or an interrupt.
    """

    triple: str
    features: str
    mark: bytes
    unpriced: re.Pattern[str]
    exceptions: re.Pattern[str]


@dataclass(frozen=True, eq=False)
class Arch:
    """One architecture: its names, its machine in QEMU, the shape of its kernel entry.

    `cpu` is QEMU's model; {vl} and {vq} stand for its vector length in bits and in units of 128
    bits.  `cores` are QEMU's models of real cores by vector length.  `boot_words` go on the guest
    kernel's command line.  `entries` enter the kernel, the native one first.  `firmware` is the
    range of addresses, in the user half, where code below the kernel runs.  `stubs` are tables of
    code, with an entry every 8 bytes or a multiple, through which interrupts reach `traps`.

    `assembly` matches the symbols of the entry's assembly, `handlers` those of system calls,
    `calls` and `by_stack_pointer` the disassembly of calls, and of what loads or stores where the
    stack pointer points.

    `kbuild` is ARCH= of the kernel's makefiles, `source_folder` the folder below arch/,
    `image_format` what make builds for QEMU's -kernel.  `build_headers` maps headers that host
    programs of the build include to Debian's packages.  `capstone` are its constants for the
    architecture and mode, where it names instructions that QEMU 7.2 does not.
    """

    name: str
    aliases: tuple[str, ...]
    debian: str
    cross: str
    compiler_package: str
    elf_machine: str
    qemu: str
    qemu_package: str
    qemu_split_package: str
    machine: str
    cpu: str
    console: str
    entries: tuple[str, ...]
    traps: tuple[Trap, ...]
    assembly: re.Pattern[str]
    handlers: re.Pattern[str]
    calls: re.Pattern[str]
    by_stack_pointer: re.Pattern[str]
    linking: Linking
    image_format: str
    image_magic: tuple[int, bytes]
    kbuild: str
    source_folder: str
    vector: VectorSide
    counter: Counter
    decoding: Decoding
    llvm: Llvm
    build_headers: dict[str, str] = field(default_factory=dict)
    cores: dict[int, str] = field(default_factory=dict)
    boot_words: tuple[str, ...] = ()
    firmware: tuple[int, int] | None = None
    stubs: tuple[str, ...] = ()
    capstone: tuple[str, str] | None = None

    def cpu_with(self, length: int | None = None) -> str:
        """QEMU's cpu model with vectors of `length` bits, or of the default length."""
        bits = length or self.vector.units[0].lengths[0]
        return self.cpu.format(vl=bits, vq=bits // 128)

    def core_with(self, length: int | None = None) -> str:
        """Like cpu_with(), but the model of a real core where QEMU has one of that length.

        User space asks the cpu what it has.  With everything that QEMU emulates, glibc's memcpy
        uses FEAT_MOPS instead of arm64's vector instructions, and no core with SVE of 2022 to
        2024 has FEAT_MOPS.
        """
        bits = length or self.vector.units[0].lengths[0]
        return self.cores.get(bits, self.cpu_with(length))


# Functions that allocate memory, for markers of the allocation of vector state.
ALLOCATORS = r"kmem_cache_alloc\w*|__kmalloc\w*|kmalloc\w*|vmalloc\w*"


def word(mask: int, value: int) -> re.Pattern[bytes]:
    """Matches a 32-bit little-endian instruction that has `value` in the bits of `mask`."""
    return re.compile(bits(mask, value), re.DOTALL)


def bits(mask: int, value: int, size: int = 4) -> bytes:
    """The pattern of an instruction of `size` bytes that has `value` in the bits of `mask`."""
    return b"".join(
        _byte(mask >> shift & 0xFF, value >> shift & 0xFF) for shift in range(0, 8 * size, 8)
    )


@cache
def _byte(mask: int, value: int) -> bytes:
    return byte_class(byte for byte in range(256) if byte & mask == value)


def byte_class(fitting: Iterable[int]) -> bytes:
    """The pattern of one byte that is among `fitting`."""
    return b"[" + b"".join(b"\\x%02x" % byte for byte in fitting) + b"]"


def any_of(*patterns: bytes, but: bytes = b"") -> bytes:
    """The pattern of what one of `patterns` matches and `but` does not."""
    return (b"(?!" + but + b")" if but else b"") + b"(?:" + b"|".join(patterns) + b")"


def function_marker(event: str, name: str, within: str | None = None) -> Marker:
    """The marker of an event that is the entry of a function, if given in a call of `within`."""
    where = f" in {within.replace('|', ' or ')}" if within else ""
    label = re.sub(r"\\w[*+]", "*", name).replace("|", " or ")
    return Marker(
        event,
        f"entry of {label}{where}",
        symbol=re.compile(name),
        within=re.compile(within) if within else None,
    )
