# SPDX-License-Identifier: GPL-2.0-or-later
"""What kentry knows of an architecture: the record that each of them fills in.

A vector event is found by the kernel's own symbols and by instruction encodings, never by an
address.  The encodings are from the instruction sets' manuals.  The functions were read in
Linux 6.1, 6.12 and 7.3 (arch/arm64/kernel/fpsimd.c, arch/riscv/include/asm/vector.h,
arch/x86/kernel/fpu/).
"""

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cache

from kentry.arch.mechanism import CountingRules, Mechanisms

_NEVER = re.compile(r"(?!)")
_WORD = 4  # bytes of an instruction that Marker.behind matches

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
class Exceptions:
    """How the tasks plugin tells entries apart, and what they are called.

    `entries` are first instructions: of exceptions in kernel mode, of system calls: a pattern of
    symbols, the plugin's word, offsets.  Where no register says the cause, the pattern's group is
    its name; else `faults` and `interrupts` have the names by the register's number.
    """

    entries: tuple[tuple[re.Pattern[str], str, tuple[int, ...]], ...]
    faults: Mapping[int, str] = field(default_factory=dict)
    interrupts: Mapping[int, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Linking:
    """How the disassembly spells what the linker chose; path/stream.py puts placeholders there."""

    rewrites: tuple[tuple[str, str], ...]  # of a path's text, a line an instruction (MULTILINE)
    high: re.Pattern[str] = _NEVER  # what puts the upper part of an address into a register
    # What adds the rest to its `base`, with the replacement.
    low: tuple[tuple[re.Pattern[str], str], ...] = ()
    register: re.Pattern[str] = _NEVER  # of a line; its group is the same for all names of one
    preserved: re.Pattern[str] = _NEVER  # the callee-saved registers
    global_pointer: str = ""  # points into the middle of the data
    # The registers that compilers choose freely, with the word that stands for any of them.
    chosen: tuple[re.Pattern[str], str] = (_NEVER, "")


@dataclass(frozen=True)
class Entry:
    """How a SiteTable has a site: bytes an entry, numpy's type of its site at offset 0, length.

    A signed site counts from the entry, an unsigned one is an address, and 0 is no site.  The
    length, in bytes, is in a field of which `length_at` has offset and type, or the same for all.
    A site that begins `before` bytes before a function is one in the function.
    """

    size: int
    site: str
    length_at: tuple[int, str] | None = None
    length: int = 1  # that is: only the instruction that begins there
    before: int = 0


@dataclass(frozen=True)
class SiteTable:
    """A table of the kernel in which it finds the instructions that it patches."""

    section: str
    what: str  # is at a site, in a word or two
    bounds: tuple[str, str]  # symbols where it starts and ends
    entries: tuple[Entry, ...]  # it had these in several releases; the bytes say which


# include/linux/jump_label.h, struct jump_entry with HAVE_ARCH_JUMP_LABEL_RELATIVE, which all three
# select in 6.1, 6.12 and 7.3.
STATIC_KEYS = SiteTable(
    "__jump_table",
    "static key",
    ("__start___jump_table", "__stop___jump_table"),
    (Entry(16, "<i4"),),
)


def alternatives(*entries: Entry) -> SiteTable:
    """.altinstructions, with entries as struct alt_instr of the architecture."""
    bounds = ("__alt_instructions", "__alt_instructions_end")
    return SiteTable(".altinstructions", "alternative", bounds, entries)


def ftrace_sites(length: int, before: int = 0) -> SiteTable:
    """__mcount_loc, where the linker also puts __patchable_function_entries (vmlinux.lds.h)."""
    bounds = ("__start_mcount_loc", "__stop_mcount_loc")
    return SiteTable("__mcount_loc", "ftrace", bounds, (Entry(8, "<u8", None, length, before),))


@dataclass(frozen=True)
class Unit:
    """A vector unit."""

    name: str  # its word in a case's name
    what: str  # what people call it
    lengths: tuple[int, ...]  # in bits, that the emulated cpu can have, the default first
    option: str  # the kernel's config option
    hint: str = ""  # printed with the error when the option is off


@dataclass(frozen=True)
class Marker:
    """How an event is recognised: by the first instruction of a function, or by an encoding."""

    event: str
    label: str
    symbol: re.Pattern[str] | None = None
    code: re.Pattern[bytes] | None = None
    outside: re.Pattern[str] | None = None  # in no function of this name
    behind: re.Pattern[bytes] | None = None  # directly behind such an instruction
    within: re.Pattern[str] | None = None  # in a call of a function of this name
    repeats: bool = False  # in a loop, whose consecutive iterations are one event

    def places(self, text: bytes, alignment: int) -> Iterator[int]:
        """Yields where `code` is in a kernel's text, at multiples of `alignment` bytes."""
        assert self.code is not None
        behind = self.behind.pattern if self.behind else b""
        pattern = re.compile(behind + self.code.pattern, re.DOTALL)
        match = pattern.search(text)
        while match:
            if match.start() % alignment == 0:
                yield match.start() + (_WORD if behind else 0)
            match = pattern.search(text, match.start() + 1)


@dataclass(frozen=True)
class Counter:
    """The emulated machine's counter of instructions, by which the plugin's count is checked."""

    name: str  # the probe's word
    what: str  # what people call it
    # Otherwise also those of user mode and firmware, and each repetition of an x86 REP.
    kernel_alone: bool = False


@dataclass(frozen=True)
class VectorSide:
    """An architecture's vector units, and how the kernel keeps their state."""

    units: tuple[Unit, ...]
    markers: tuple[Marker, ...]
    switch: str  # changes from one task's stack to another's
    alignment: int  # of an instruction's address, in bytes
    # What Linux does with the state of a task that no longer uses it, each from a release on.
    policies: tuple[tuple[tuple[int, int], str], ...]
    mechanisms: Mapping[str, Mechanisms]  # all else that it does with a unit's state
    counting: CountingRules
    trap_classes: tuple[int, ...] = ()  # that a first use may raise (ESR_EL1.EC, scause)
    settled: str = ""  # before it the kernel may still save the previous task
    fork: str = "arch_dup_task_struct"  # called with the new task; saves the parent's registers
    # Why no emulator has a unit, or "unit length".
    unmodelled: Mapping[str, str] = field(default_factory=dict)

    def unit(self, name: str) -> Unit | None:
        """Returns the unit of that name."""
        return next((unit for unit in self.units if unit.name == name), None)

    def policy_of(self, release: tuple[int, int]) -> str:
        """Returns the policy of Linux of that release."""
        return max(row for row in self.policies if row[0] <= release)[1]


@dataclass(frozen=True)
class Decoding:
    """What instructions do besides running: patterns of their bytes, used with re.DOTALL.

    The first four exclude each other; path/metrics.py says what each is.
    """

    conditional: bytes
    jumps: bytes
    calls: bytes
    returns: bytes
    indirect: bytes
    atomic: bytes
    reads: bytes
    writes: bytes
    serialising: Mapping[str, bytes]  # by a name for each instruction, or group of instructions
    # Two in a row that make one jump or call to a fixed address: the second alone is indirect.
    far: bytes = b"(?!)"


@dataclass(frozen=True)
class Llvm:
    """How LLVM knows the architecture, and what its scheduling models do not price."""

    triple: str
    features: str  # that a kernel may use on any core (-mattr)
    mark: bytes  # of an instruction that no path has
    # LLVM's text, with one blank between words, of instructions of which the models have no
    # latency, or 1: they enter or leave the kernel, serialise, or access system registers.  Its
    # groups together are the instruction's name in cost tables.
    unpriced: re.Pattern[str]
    exceptions: re.Pattern[str]  # functions that are entered for a fault or an interrupt


@dataclass(frozen=True, eq=False)
class Arch:
    """One architecture: its names, its machine in QEMU, the shape of its kernel entry."""

    name: str
    aliases: tuple[str, ...]
    debian: str
    cross: str
    elf_machine: str
    qemu: str
    qemu_split_package: str
    floor: dict[str, int]  # instructions of each case on guest/floor/, counted by hand there
    machine: str
    cpu: str  # QEMU's model; {vl} and {vq} are its vector length in bits and in units of 128 bits
    console: str
    entries: tuple[str, ...]  # instructions that enter the kernel, the native one first
    traps: tuple[Trap, ...]
    assembly: re.Pattern[str]  # symbols of the entry code written in assembly
    handlers: re.Pattern[str]  # symbols of system call handlers
    calls: re.Pattern[str]  # the disassembly of call instructions
    by_stack_pointer: re.Pattern[str]  # and of what loads or stores where the stack pointer points
    linking: Linking
    image_format: str  # what make builds for QEMU's -kernel
    image_magic: tuple[int, bytes]
    kbuild: str  # ARCH= of the kernel's makefiles
    source_folder: str  # below arch/
    vector: VectorSide
    exceptions: Exceptions
    counter: Counter
    decoding: Decoding
    llvm: Llvm
    site_tables: tuple[SiteTable, ...]
    # Headers that host programs of the build include, and Debian's packages of them.
    build_headers: tuple[str, ...] = ()
    # Versions of QEMU, by how they begin, that do not do, and what goes wrong.
    failing_emulators: dict[tuple[int, ...], str] = field(default_factory=dict)
    cores: dict[int, str] = field(default_factory=dict)  # processors to trace by vector length
    machines: dict[str, str] = field(default_factory=dict)  # that of a boot with this case in it
    # The addresses, in the user half, where code below the kernel runs.
    firmware: tuple[int, int] | None = None
    # Tables of code, with an entry every 8 bytes or a multiple, by which interrupts reach `traps`.
    stubs: tuple[str, ...] = ()
    # Around the relocations (Elf64_Rela, R_*_RELATIVE) with the addresses that a table lacks.
    relocations: tuple[str, str] = ("", "")
    # What switches a mitigation off, by flaw: words of the kernel's command line
    # (Documentation/admin-guide/kernel-parameters.txt, 6.12 and 7.3).
    switches: Mapping[str, str] = field(default_factory=dict)
    # Where the vectors for user mode clear the branch history (Spectre-BHB), and how: a pattern of
    # the disassembly and a word; a group is a hexadecimal number in the word.
    branch_history: tuple[str, tuple[tuple[re.Pattern[str], str], ...]] = ("", ())
    # capstone's architecture and mode, where it names instructions that QEMU 7.2 does not.
    capstone: tuple[str, str] | None = None


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
    """Returns the pattern of one byte that is among `fitting`."""
    return b"[" + b"".join(b"\\x%02x" % byte for byte in fitting) + b"]"


def any_of(*patterns: bytes, but: bytes = b"") -> bytes:
    """Returns the pattern of what one of `patterns` matches and `but` does not."""
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
