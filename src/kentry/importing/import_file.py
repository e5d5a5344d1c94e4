# SPDX-License-Identifier: GPL-2.0-or-later
"""A file -> the numbers that each reader finds in it, with every digit -> a recording a side.

Readers know benchmarks' output, and plain tables in Markdown, CSV or aligned columns:

    | side   | getpid@epc (cycles) | getpid@break (cycles) |
    |--------|---------------------|-----------------------|
    | before | 40                  | 254                   |

A number's side, case and unit are in columns of these names, or in the header of its own column:
"CASE (UNIT)", "SIDE (UNIT)" or "UNIT", perhaps with " per call"; a side also in a heading above.  A
table without a column `side` or `case` is read only if its first column is `commit`, `kernel` or
`version` and all others have a unit.  A percentage is of what the column `of` says.
"""

from __future__ import annotations

import csv
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from decimal import Decimal
from functools import cached_property
from itertools import chain, islice
from pathlib import Path
from statistics import median

from kentry.arch import ARCHES, find_arch
from kentry.errors import UserError
from kentry.host.cache import read_bytes
from kentry.results.case_name import CaseName
from kentry.results.caveats import imported as imported_caveat
from kentry.results.recording import CaseResult, NoisyMetric, Recording, TimedProcess

# What a number may lack, beside the interval, which all of them lack.
REPETITIONS, VALUE = "repetitions", "value"
SYSCALL = "syscall"  # the case where the output does not name the system call
# Metrics by their names in a recording.  `all-instructions` counts everything that ran.
NS, OPS, TICKS = "ns", "ops_per_s", "ticks"
# Units in which a text may give a number, and the metric that each is of.
UNITS = {
    "ns": NS,
    "us": NS,
    "cycles": "cycles",
    "ops/s": OPS,
    "ticks": TICKS,
    "instructions": "all-instructions",
}
# The unit of each metric in a recording; a text may have another, such as us.
_RECORDED = {metric: unit for unit, metric in reversed(UNITS.items())}
OF_BASE = "-of-base"  # ends the metric where only a percentage of an unpublished value is known
_MOST_DIGITS = 18
# A line "Before:", "-- baseline --" or "## After the patch" names the side of what follows.
_HEADING = re.compile(r"(?:[-=*]{2,}|#{2,})\s*(\w[^:|]{0,71}?)\s*[-=*:]*|(\w[^:|]{0,71}):")
# It is none if it has the punctuation, the length or a verb of a sentence.
_SENTENCE = re.compile(
    r"[.,;?!](?:\s|$)|(?:\S+\s+){7}"
    r"|\b(?:I|we|you|it|here|is|are|was|were|be|has|have|had|do|does|did|see|wrote|shows?)\b",
    re.IGNORECASE,
)
# It is none below a line of prose, which has no digit, or above a list.
_PROSE = re.compile(r"\s*[^\W\d]\S*\s\D*(?<![\s:-])\s*")
_LIST = re.compile(r"\s*[-*+] ")
_LONGEST_LINE = 4000  # that a reader knows
_ESCAPE = re.compile(r"\x1b(?:\[[0-9;?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)|.)")
# Architectures that kentry does not run, by the kernel's names.
FOREIGN_ARCHES = ("ia64", "powerpc", "loongarch64", "s390x")
_MOST_BYTES = 8 << 20
_SIMPLE = re.compile(
    r"Simple (syscall|read|write|stat|fstat|open/close): (\d+(?:\.\d+)?) microseconds"
)
_SIMPLE_CASES = {"syscall": "getppid", "open/close": "openat+close"}

# Olof Johansson's loop prints "V=1 242.9 ns/call (12144527848 ns / 50000000 iters)".
_PER_CALL = re.compile(r"\s*(?:([\w=.+@/-]+):?\s+)?(\d+(?:\.\d+)?) (ns|us|cycles)/(?:sys)?call\b")

# perf bench groups digits as the locale does (tools/perf/bench/syscall.c): 5.110.201, 51,10,201.
_GROUPED = r"(\d[\d., '\u2019]*)"
_EXECUTED = re.compile(rf"# Executed {_GROUPED} (\w+)\(\) calls")
_USECS = re.compile(r"\s*(\d+[.,]\d+) usecs/op\s*")
_RATE = re.compile(rf"\s*{_GROUPED} ops/sec\s*")

_LABELS = ("side", "case", "unit", "of")
_SIDES = ("commit", "kernel", "version")
_RULE = re.compile(r"\s*\|[\s|:-]+$")
_HEADER = re.compile(r"(?:(.*)\()?([^()]+?)(?: per (?:system |sys)?call)?\)?")
_CELL = re.compile(r"(~?[+-]?\d[\d,]*(?:\.\d+)?)\s*(%?)")

# Aligned columns: a line of names that begins with blanks, and rows "SIDE: NUMBER NUMBER".
_NAMES = re.compile(r"\s+[a-z_]\w*(?:\s+[a-z_]\w*)*\s*")
_PLAIN = re.compile(r"\d[\d,]*(?:\.\d+)?")
_QUOTED = re.compile(r'"([A-Z]\w*)"')
_UNIT = re.compile(r"\b(ns|us|cycle|cycles|ticks|instructions)\b")


def read_lat_syscall(text: Text) -> Iterator[Number]:
    """Read each "Simple syscall: 0.2365 microseconds"; repeats under a heading are samples."""
    for number, side, line in text.lines:
        if match := _SIMPLE.search(line):
            case = _SIMPLE_CASES.get(match[1], match[1])
            yield Number(number, side, case, NS, match[2], "us")


def read_per_call(text: Text) -> Iterator[Number]:
    """Read lines that are a number a call; a word before the number is the case."""
    for number, side, line in text.lines:
        if match := _PER_CALL.match(line):
            yield Number(number, side, match[1] or SYSCALL, UNITS[match[3]], match[2], match[3])


def read_perf_bench(text: Text) -> Iterator[Number]:
    """Read time and rate of every run of perf bench syscall."""
    case = SYSCALL
    for number, side, line in text.lines:
        if "# Running '" in line:
            case = SYSCALL
        elif match := _EXECUTED.search(line):
            case = "fork+exit" if match[2] == "fork" else match[2]
        elif match := _USECS.fullmatch(line):
            yield Number(number, side, case, NS, match[1].replace(",", "."), "us")
        elif match := _RATE.fullmatch(line):
            yield Number(number, side, case, OPS, re.sub(r"\D", "", match[1]), "ops/s")


def read_table(text: Text) -> Iterator[Number]:
    """Read every table in Markdown or CSV; UserError for a unit or cell of another form."""
    header: list[str] = []
    for number, side, line in text.lines:
        if _RULE.match(line):
            continue
        if line.lstrip().startswith("|"):
            cells = [cell.strip(" `*") for cell in line.strip().strip("|").split("|")]
        elif "," in line and not line.lstrip().startswith("#"):
            cells = [cell.strip() for cell in next(csv.reader([line]))]
        else:
            header = []
            continue
        if not header:
            header = _header(cells)
            continue
        try:
            if len(cells) != len(header):
                raise ValueError(f"{len(cells)} cells under {len(header)} headers")
            columns = list(zip(header, cells, strict=True))
            row = {name.lower(): cell for name, cell in columns if name.lower() in _LABELS}
            for name, cell in columns:
                if name.lower() not in _LABELS and cell not in ("", "-"):
                    yield _number(number, side, row, name, cell)
        except ValueError as err:
            sentence = f"Line {number} of {text.name} has {err}."
            raise UserError(sentence, "Correct the table.") from err


def _header(cells: list[str]) -> list[str]:
    """Return the headers of a table that kentry reads, or none."""
    names = [cell.lower() for cell in cells]
    if "side" in names or "case" in names:
        return cells
    matches = [_HEADER.fullmatch(cell) for cell in cells[1:]]
    if names[0] in _SIDES and matches and all(match and match[2] in UNITS for match in matches):
        return ["side", *cells[1:]]
    return []


def _number(line: int, heading: str, row: dict[str, str], header: str, cell: str) -> Number:
    """Make the number of a cell; ValueError says what is wrong."""
    match = _HEADER.fullmatch(header)
    is_both = match and "unit" not in row
    name, unit = ((match[1] or "").rstrip(), match[2]) if match and is_both else (header, "")
    unit = row.get("unit", unit)
    if unit not in UNITS:
        raise ValueError(f"unit '{unit}', which is none of {', '.join(UNITS)}")
    value = _CELL.fullmatch(cell)
    if not value:
        raise ValueError(f"'{cell}' in place of a number")
    case = row.get("case") or name or SYSCALL
    side = row.get("side", name if "case" in row else "") or heading
    number = Number(line, side, case, UNITS[unit], value[1], unit)
    if not value[2]:
        return number
    of = row.get("of") or "a base that the table does not name"
    lacks, metric = (VALUE, REPETITIONS), number.metric + OF_BASE
    return replace(number, metric=metric, unit="%", percent_of=of, lacks=lacks)


def read_columns(text: Text) -> Iterator[Number]:
    """Read tables of aligned columns, such as that of the ia64 series of 2005.

    The unit is the last that the text above names.  The last names in quotes above tell several
    numbers a case apart: "EPC", "BREAK" for `getpid@epc`, `getpid@break`.  Both must be there.
    """
    cases, units, entries = list[str](), list[str](), dict[str, None]()
    for number, _, line in text.lines:
        side, colon, rest = line.strip().rpartition(":")
        published = rest.split()
        if not (colon and side and published and all(map(_PLAIN.fullmatch, published))):
            units += _UNIT.findall(line)
            entries |= dict.fromkeys(_QUOTED.findall(line))
            cases = line.split() if _NAMES.fullmatch(line) else []
            continue
        variants = len(published) // max(len(cases), 1)
        chosen = [*islice(reversed(entries), variants)][::-1]
        names = [f"{case}@{entry.lower()}" for case in cases for entry in chosen]
        names = cases if variants == 1 else names
        if units and len(names) == len(published):
            unit = "cycles" if units[-1] == "cycle" else units[-1]
            for case, value in zip(names, published, strict=True):
                yield Number(number, side, case, UNITS[unit], value, unit)


FORMATS = {
    "lat_syscall": read_lat_syscall,
    "per-call": read_per_call,
    "perf-bench": read_perf_bench,
    "table": read_table,
    "columns": read_columns,
}


@dataclass(frozen=True)
class Number:
    """One published measurement; `published` and `unit` are as in the file.

    `percent_of` says of what a number in "%" is.
    """

    line: int
    side: str
    case: str
    metric: str
    published: str
    unit: str
    percent_of: str = ""
    lacks: tuple[str, ...] = (REPETITIONS,)

    @property
    def about(self) -> bool:
        """Whether it was published as "about" that: "~200"."""
        return self.published.startswith("~")

    @property
    def value(self) -> Decimal:
        """What was published, in `unit`."""
        return Decimal(self.published.lstrip("~").replace(",", ""))

    @property
    def is_plausible(self) -> bool:
        """Whether it is a number at all, of at most 18 digits and below 10^18."""
        try:
            digits = len(self.value.as_tuple().digits)
            return digits <= _MOST_DIGITS and abs(self.amount) < 10**_MOST_DIGITS
        except ArithmeticError:
            return False

    @property
    def amount(self) -> Decimal:
        """The value per call, in the metric's unit."""
        return self.value * self._factor

    @property
    def _factor(self) -> Decimal:
        return Decimal(1000 if self.unit == "us" else 1)

    @property
    def half_digit(self) -> Decimal:
        """How far rounding may have moved it: 242.9 is 242.85 to 242.95; "about 10" is 9 to 11."""
        exponent = self.value.as_tuple().exponent
        assert isinstance(exponent, int)
        return Decimal(1).scaleb(exponent) * self._factor / (1 if self.about else 2)


@dataclass(frozen=True)
class Samples:
    """The numbers of one side, case and metric: repetitions of one measurement."""

    numbers: tuple[Number, ...]

    @property
    def first(self) -> Number:
        """The first in the file; side, case, metric and unit are the same in all."""
        return self.numbers[0]

    @cached_property
    def middle(self) -> Decimal:
        """The median, per call, in the metric's unit."""
        return median(number.amount for number in self.numbers)

    @property
    def lines(self) -> str:
        """The lines they stand on: "45-47", "45"."""
        first, last = self.first.line, self.numbers[-1].line
        return str(first) if first == last else f"{first}-{last}"

    def change_from(self, base: Samples) -> str:
        """Return the change, "-5.2%", in digits that the printed ones support; "" if base is 0."""
        old_half = median(number.half_digit for number in base.numbers)
        new_half = median(number.half_digit for number in self.numbers)
        if base.middle <= old_half:
            return ""
        ratio = self.middle / base.middle
        half = 100 * (new_half + old_half * ratio) / base.middle
        text = f"{100 * (ratio - 1):+.{1 if half < Decimal('0.5') else 0}f}"
        return f"{text if float(text) else '0'}%"

    def noisy_metric(self) -> NoisyMetric:
        """Make a recording's metric; -6 per cent of a base is 94, in the unit "percent"."""
        first, count = self.first, len(self.numbers)
        base = Decimal(100 if first.percent_of else 0)
        # Repeats in one file are repetitions.
        lacks = [word for word in first.lacks if count == 1 or word != REPETITIONS]
        return NoisyMetric(
            value=float(base + self.middle),
            unit="percent" if first.percent_of else _RECORDED[first.metric],
            samples=tuple(
                TimedProcess(0, 0, index, 0, 1, 0, (float(base + number.amount),))
                for index, number in enumerate(self.numbers)
            ),
            estimator=f"median of {count} published values" if count > 1 else "one published value",
            absent=("interval", *lacks, "kernel", "config", "interleaving"),
        )


def samples(numbers: Iterable[Number]) -> list[Samples]:
    """Group the numbers by side, case and metric, in the order of the file."""
    groups: dict[tuple[str, str, str], list[Number]] = {}
    for number in numbers:
        groups.setdefault((number.side, number.case, number.metric), []).append(number)
    return [Samples(tuple(group)) for group in groups.values()]


@dataclass(frozen=True)
class Text:
    """The file's printable lines: number, the last heading above it or "", and what it reads."""

    name: str
    lines: list[tuple[int, str, str]]


def parse_text(name: str, content: str) -> Text:
    """Split `content` into lines, whatever ends them."""
    lines = []
    for line in re.split(r"\r\n|\r|\n", content):
        text = _ESCAPE.sub("", line[:_LONGEST_LINE]).replace("\t", "        ")
        lines.append("".join(char for char in text if char.isprintable()))
    sides = [""]
    for before, line, after in zip(["", *lines], lines, lines[1:], strict=False):
        match = _HEADING.fullmatch(line.strip())
        heading = (match[1] or match[2]) if match else ""
        is_text = heading in ("", "commit") or _SENTENCE.search(heading)
        if is_text or _LIST.match(after) or _PROSE.fullmatch(before):
            heading = sides[-1]
        sides.append(heading)
    return Text(name, [*zip(range(1, len(lines) + 1), sides, lines, strict=True)])


@dataclass(frozen=True)
class Imported:
    """What was read from the file `name`; `arch` is "" where the user named none."""

    name: str
    arch: str
    formats: tuple[str, ...]
    numbers: tuple[Number, ...]


def import_file(file: Path, arch: str = "") -> Imported:
    """Read every number in a file; UserError where no reader finds any."""
    data = read_bytes(file, "Name a file with a tool's output.", _MOST_BYTES + 1)
    if len(data) > _MOST_BYTES:
        raise UserError(
            f"{file} has more than {_MOST_BYTES >> 20} MiB.", "Cut out the part with the numbers."
        )
    if b"\0" in data:
        raise UserError(f"{file} is not text.", "Name a file with a tool's output.")
    return import_text(data.decode("utf-8-sig", "replace"), file.name, arch)


def import_text(content: str, name: str, arch: str = "") -> Imported:
    """Read every number in a text; UserError where no reader finds any."""
    text = parse_text(name, content)
    by_format = {form: numbers for form, read in FORMATS.items() if (numbers := list(read(text)))}
    if not by_format:
        raise UserError(
            f"{name} has no numbers in a format that kentry reads.",
            f"It reads {', '.join(FORMATS)}. docs/howto/import.md shows how to write a table.",
        )
    merged = sorted(chain.from_iterable(by_format.values()), key=lambda number: number.line)
    if wrong := next((number for number in merged if not number.is_plausible), None):
        raise UserError(
            f"Line {wrong.line} of {name} has '{wrong.published[:40]}' in place of a number.",
            "Correct it, or cut the line out.",
        )
    return Imported(name, arch, tuple(by_format), tuple(merged))


def arch_name(name: str) -> str:
    """Return the name of an architecture for a recording; UserError where it is unknown."""
    if not name or name in FOREIGN_ARCHES:
        return name
    try:
        return find_arch(name).name
    except UserError as err:
        names = ", ".join((*ARCHES, *FOREIGN_ARCHES))
        raise UserError(err.sentence, f"Use one of: {names}.") from err


def recordings(imported: Imported) -> Iterator[tuple[str, Recording]]:
    """Make a recording of each side; UserError without the architecture, or a state of it."""
    name, arch = imported.name, imported.arch
    if not arch:
        raise UserError(
            f"{name} does not say on which architecture it was measured.", "Say it with --arch."
        )
    for number in imported.numbers:
        if arch in FOREIGN_ARCHES and CaseName.parse(number.case).state:
            raise UserError(
                f"{number.case} in {name} has a vector state; kentry knows none of {arch}.",
                "Name another architecture with --arch.",
            )
    by_side: dict[str, list[Number]] = {}
    for number in imported.numbers:
        by_side.setdefault(number.side, []).append(number)
    for side, numbers in by_side.items():
        cases: dict[str, dict[str, NoisyMetric]] = {}
        for group in samples(numbers):
            cases.setdefault(group.first.case, {})[group.first.metric] = group.noisy_metric()
        kernel = {
            "spec": f"import:{name}#{side}" if side else f"import:{name}",
            "arch": arch,
            "release": "",
            "build_id": None,
            "banner": "",
            "compiler": "",
            "config_sha256": None,
            "config": None,
            "image_sha256": None,
            "symbols_from": "",
            "origin": {"kind": "import", "file": name, "side": side},
        }
        target = {"kind": "import", "emulator": "", "format": ", ".join(imported.formats)}
        results = [CaseResult(case, {}, (), (), (), noisy=noisy) for case, noisy in cases.items()]
        notes = [imported_caveat(name)]
        recording = Recording(
            kernel=kernel, target=target, options={}, cases=results, code=[], caveats=notes
        )
        yield side, recording
