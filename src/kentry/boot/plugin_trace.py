# SPDX-License-Identifier: GPL-2.0-or-later
"""Reads the plugin's trace; plugin/trace.h describes the format."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from kentry.errors import TraceError
from kentry.results.recording import Access

# A saved run may have a trace from before accesses were recorded.
TRACE_VERSIONS = (1, 2)
# A fifth more than a boot of all cases, groups included, of x86-64's 6.12 leaves; bytes.  A guest
# that means harm fills it with long paths of short runs, which take 2.4 GiB of memory.
MOST_BYTES = 128 << 20


@dataclass(frozen=True, slots=True)
class Insn:
    """One kernel instruction: its address as executed, its bytes in memory order, its text."""

    address: int
    code: str
    text: str


# What a window's kernel instructions load and store, in the order of plugin/accesses.h.
_TOUCHED = (
    *("loads", "stores", "bytes.loaded", "bytes.stored"),
    *("lines.data.32", "lines.data", "lines.data.128", "pages.data"),
)


@dataclass(frozen=True, slots=True)
class Window:
    """`times` windows in a row with the same counts, the sums of their accesses ({}: not known)."""

    times: int
    kernel: int
    firmware: int
    user: int
    irqs: int
    exceptions: int
    iterations: int
    path: int | None
    touched: Mapping[str, int] = field(default_factory=dict)


@dataclass
class Phase:
    """The windows of one case in one phase: "warm", "count", "path" or "check".

    `user` is the number of user instructions every window must have, None if unknown; `irqs` that
    of the interrupts that belong to it; `context` indexes PluginTrace.contexts.
    """

    case: str
    name: str
    user: int | None
    irqs: int = 0
    windows: list[Window] = field(default_factory=list)
    context: int = 0


@dataclass
class PluginTrace:
    """A whole trace.  A path is a list of runs: a first instruction's index and a length.

    `accesses` are what a case's path loads and stores in a window, if the case took it twice, and
    `touched` what the plugin counted in that window.  Two cases may share a path, not its memory.

    `contexts` are what the rounds of cases found, by the names of guest/context.c.  `checks` are
    the phases in which the machine's own counter is read; `phases` are the others.
    """

    api: int = 0
    text_address: int | None = None
    insns: list[Insn] = field(default_factory=list)
    paths: list[list[tuple[int, int]]] = field(default_factory=list)
    accesses: dict[tuple[str, int], tuple[Access, ...]] = field(default_factory=dict)
    touched: dict[tuple[str, int], Mapping[str, int]] = field(default_factory=dict)
    phases: list[Phase] = field(default_factory=list)
    contexts: list[dict[str, int]] = field(default_factory=list)
    checks: list[Phase] = field(default_factory=list)
    cases_ended: int | None = None
    messages: list[str] = field(default_factory=list)
    spoilt: int = 0
    checked: int | None = None
    mismatches: int = 0
    windows: int | None = None

    def path_length(self, path: int) -> int:
        """How many instructions a path has."""
        return sum(count for _, count in self.paths[path])

    def path_insns(self, path: int) -> list[int]:
        """Returns the indexes of a path's instructions, in the order of execution."""
        return [n for first, count in self.paths[path] for n in range(first, first + count)]


def read_text(file: Path) -> str:
    """The text of a file of the plugin's; OSError, TraceError when it is too large."""
    _check_size(file, "Run something shorter.")
    return file.read_text(encoding="ascii", errors="replace")


def _check_size(file: Path, remedy: str) -> None:
    if file.stat().st_size > MOST_BYTES:
        raise TraceError(f"A file of the plugin's has more than {MOST_BYTES >> 20} MiB.", remedy)


def parse_trace(file: Path) -> PluginTrace:
    """The trace in `file`; TraceError when it is not one, newer, too large, or cut short."""
    trace = PluginTrace()
    try:
        _check_size(file, "Measure fewer cases, or keep fewer paths: kentry record --paths 8.")
        with file.open(encoding="utf-8", errors="replace", newline="\n") as lines:
            if not (first := next(lines, "")):
                raise TraceError(
                    "QEMU ended before the plugin wrote anything.",
                    "Run again with -v: the kernel may have stopped QEMU, or kentry may have.",
                )
            if first not in (f"kentry-trace {version}\n" for version in TRACE_VERSIONS):
                raise TraceError(
                    f"The plugin's trace is not version {TRACE_VERSIONS[-1]}.",
                    "Build the plugin anew: make setup.",
                )
            for number, line in enumerate(lines, start=2):
                _take_line(trace, number, line.rstrip("\n"))
    except OSError as err:
        raise TraceError(
            f"The plugin wrote no trace: {err.strerror}.", "kentry doctor shows what is missing."
        ) from err
    if trace.windows is None:
        raise TraceError(
            "The plugin's trace was cut short.",
            f"Free space in {file.parent}, or name another folder in KENTRY_CACHE.",
        )
    trace.checks = [phase for phase in trace.phases if phase.name == "check"]
    trace.phases = [phase for phase in trace.phases if phase.name != "check"]
    return trace


def _take_line(trace: PluginTrace, number: int, line: str) -> None:
    keyword, _, rest = line.partition(" ")
    try:
        _take(trace, keyword, rest)
    except (ValueError, IndexError) as err:
        if keyword == "message":
            raise TraceError(
                f"The plugin got a message that no probe sends: {rest[:80]!r}.",
                "Use a kernel that starts /init of its initramfs.",
            ) from err
        raise TraceError(
            f"Line {number} of the plugin's trace is damaged: {line[:80]!r}.",
            "Please report it, with the output of kentry doctor.",
        ) from err


def _take(trace: PluginTrace, keyword: str, rest: str) -> None:
    """Adds one line to the trace; ValueError or IndexError where it makes no sense."""
    if keyword == "window":
        _take_window(trace, rest)
    elif keyword == "insn":
        index, address, code, text = rest.split(" ", 3)
        if int(index) != len(trace.insns):
            raise ValueError("instructions out of order")
        trace.insns.append(Insn(int(address, 16), code, tidy(code, text)))
    elif keyword == "path":
        index, count, *runs = rest.split()
        pieces = [(int(first), int(length)) for first, length in (run.split("+") for run in runs)]
        if any(first < 0 or n < 1 or first + n > len(trace.insns) for first, n in pieces):
            raise ValueError("a path beyond the instructions")
        if int(index) != len(trace.paths) or sum(n for _, n in pieces) != int(count):
            raise ValueError("a path out of order, or whose runs do not add up")
        trace.paths.append(pieces)
    elif keyword == "accesses":
        _take_accesses(trace, rest)
    elif keyword == "message":
        _take_message(trace, rest)
    elif keyword == "qemu":
        _, api = rest.split()
        trace.api = int(api.removeprefix("api="))
    elif keyword == "spoilt":
        trace.spoilt = int(rest)
    elif keyword == "check":
        trace.checked, trace.mismatches = map(int, rest.split())
    elif keyword == "end":
        trace.windows = int(rest)
        if trace.windows != sum(window.times for phase in trace.phases for window in phase.windows):
            raise ValueError("windows are missing")
    else:
        raise ValueError("an unknown word")


def _take_window(trace: PluginTrace, rest: str) -> None:
    *numbers, written, touched = rest.split() if rest.count(" ") > 7 else [*rest.split(), "-"]
    times, kernel, firmware, user, irqs, exceptions, iterations = map(int, numbers)
    path = None if written == "-" else int(written)
    if path is not None and not 0 <= path < len(trace.paths):
        raise ValueError("a path that was not written")
    sums = () if touched == "-" else zip(_TOUCHED, map(int, touched.split(",")), strict=True)
    counts = (times, kernel, firmware, user, irqs, exceptions, iterations)
    window = Window(*counts, path, dict(sums))
    trace.phases[-1].windows.append(window)
    if path is not None and (key := (trace.phases[-1].case, path)) in trace.accesses:
        # The first is the window whose accesses were kept.
        trace.touched.setdefault(key, window.touched)


def _take_accesses(trace: PluginTrace, rest: str) -> None:
    index, *pieces = rest.split()
    path = int(index)
    if not 0 <= path < len(trace.paths):
        raise ValueError("accesses of a path that was not written")
    length = trace.path_length(path)
    accesses = []
    for piece in pieces:
        position, address, size, kind = piece.split(":")
        if not 0 <= int(position) < length or kind not in ("l", "s"):
            raise ValueError("an access of no instruction, or of no kind")
        accesses.append(Access(int(position), int(address, 16), int(size), kind == "s"))
    # A path that another case took in between is written again.
    trace.accesses.setdefault((trace.phases[-1].case, path), tuple(accesses))


def _take_message(trace: PluginTrace, text: str) -> None:
    """A line that the probe sent to the plugin; guest/probe.c lists them."""
    trace.messages.append(text)
    fields = text.split()
    if fields[0] == "text":
        trace.text_address = int(fields[1], 16)
    elif fields[0] == "case":
        _, case, phase, user, *irqs = fields
        own, number = None if user == "?" else int(user), max(0, len(trace.contexts) - 1)
        irq = int(irqs[0]) if irqs else 0
        trace.phases.append(Phase(case, phase, own, irq, context=number))
    elif fields[0] == "context":
        pairs = (word.split("=") for word in fields[2:])
        trace.contexts.append({name: int(value) for name, value in pairs})
    elif fields[0] == "end":
        trace.cases_ended = int(fields[1])


def tidy(code: str, text: str) -> str:
    """QEMU's disassembly without the number that comes first on riscv, and with single spaces."""
    tokens = text.split()
    if tokens and tokens[0] == bytes.fromhex(code)[::-1].hex():
        del tokens[0]
    return " ".join(tokens)
