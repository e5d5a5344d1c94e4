# SPDX-License-Identifier: GPL-2.0-or-later
"""Cost tables: what a core takes for what no model of it knows, and where each figure is from.

A table has acts on vector state, in its unit, which kentry vector replay counts; or instructions
of the kernel's entry, in cycles, which no scheduling model prices; or both.  It is a TOML file.
Those in models/costs/ are named by their names, a user's by its path.

    name = "sifive-x280"
    about = "a sentence"
    arch = "riscv64"
    unit = "ns"                 # or "instructions"
    vl = 512                    # vector length in bits; 0 if it is not known
    cores = ["sifive-x280"]     # LLVM's names of the cores that it is for; "*" for all

    [figures.flush]
    value = 48.8                # of one act, in the unit
    low = 48.6                  # the interval that the value is believed to be in; both or none
    high = 57.6
    assume = "published"        # or measured, counted, derived, assumed
    source = "who, where, when; or the command that counted it"
    note = "what else there is to know"                 # may be left out

    [instructions."csrw sepc"]  # cycles of one; "csrw" is for all that have no figure of their own
    value = 5
    assume = "published"
    source = "as above"
"""

from pathlib import Path
from typing import Annotated, Any, Literal

import msgspec
import tomli_w
from msgspec import Meta

from kentry.arch import ARCHES, mechanism
from kentry.errors import UserError, did_you_mean
from kentry.host.toml import MOST_BYTES, parse_toml

_FOLDER = Path(__file__).parent / "costs"

Unit = Literal["ns", "instructions"]
NS: Unit = "ns"
INSTRUCTIONS: Unit = "instructions"

# How a figure is known, the firmest first: timed on the core by kentry vector costs --here;
# somebody else's number; instructions of one kernel under emulation, exact; worked out of
# published or counted numbers, as the source says; a guess with the interval it may be in, because
# nobody has published one.
Assumption = Literal["measured", "published", "counted", "derived", "assumed"]

# What a kernel does to vector state, as policies count it.  A trap is from exception entry to
# return, with what is flushed or bound in it; a flush clears live state at a system call (arm64),
# or fills it with ones (riscv64); "small" is what floating point shares (arm64's FPSIMD).  Beside
# it: a system call that does nothing, by a task without vector state, for scale; and an interrupt
# sent to a core because a task that it runs may have SME state.
ACTS = ("syscall", *mechanism.ACTS, "ipi")
Act = Annotated[str, Meta(pattern=f"^({'|'.join(ACTS)})$")]

# A cost is finite and not negative.
Cost = Annotated[float, Meta(ge=0, le=1e15)]
Text = Annotated[str, Meta(min_length=1)]
Name = Annotated[str, Meta(pattern=r"^[a-z0-9][a-z0-9._-]{0,63}$")]


class Document(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A part of a document: every key is required, unless it has a default."""


class Figure(Document, frozen=True):
    """What one act costs, in its table's unit.

    `low` and `high` are the interval the value is believed to be in; both are the value if none
    is known.  `source` is who said so, where and when, or the command that counted it.
    """

    value: Cost
    low: Cost
    high: Cost
    assume: Assumption
    source: Text
    note: str = ""

    @property
    def has_interval(self) -> bool:
        """Whether an interval is known."""
        return self.low < self.high


class CostTable(Document, frozen=True, tag_field="schema", tag="kentry/costs/1"):
    """A cost table: what an act on vector state costs on a core, and what an instruction.

    `vl` is the vector length in bits, 0 if it is not known.  `absent`: why an act has no figure,
    in a table that was just made.  `cores` are LLVM's names.  `instructions` are in cycles, by the
    names that Arch.llvm gives them.
    """

    name: Name
    about: str
    arch: Text
    unit: Unit
    vl: Annotated[int, Meta(ge=0, le=65536, multiple_of=64)]
    figures: dict[Act, Figure]
    absent: dict[str, str] = {}
    cores: tuple[Text, ...] = ()
    instructions: dict[Text, Figure] = {}

    @property
    def prices(self) -> dict[str, float]:
        """Act to cost, in the table's unit."""
        return {act: figure.value for act, figure in self.figures.items()}


def in_order(figures: dict[str, Figure]) -> dict[str, Figure]:
    """Sorts the figures of known acts by ACTS."""
    return {act: figures[act] for act in ACTS if act in figures}


def shipped() -> tuple[str, ...]:
    """Lists the names of the tables that come with kentry."""
    return tuple(sorted(file.stem for file in _FOLDER.glob("*.toml")))


def load_costs(text: str | Path) -> CostTable:
    """Reads the table that ships under this name, or a file; UserError says what is wrong."""
    name = str(text)
    file = _FOLDER / f"{name}.toml" if name in shipped() else Path(name)
    try:
        with file.open("rb") as stream:
            data = stream.read(MOST_BYTES + 1)
    except OSError as err:
        sentence = f"There is no cost table '{name}'.{did_you_mean(name, shipped())}"
        if "/" in name or name.endswith(".toml"):
            sentence = f"{file} cannot be read: {err.strerror}."
        remedy = f"Name a file, or one of these: {', '.join(shipped())}."
        raise UserError(sentence, remedy) from err
    try:
        return _table(parse_toml(data))
    except (ValueError, RecursionError) as err:
        reason = " ".join(str(err).split())[:200]
        raise UserError(
            f"{file} is not a cost table: {reason}.",
            "docs/howto/cost-table.md says what is in one.",
        ) from err


def _table(document: dict[str, Any]) -> CostTable:
    """Makes the table of a file; ValueError where a figure or a text is wrong."""
    if "absent" in document:
        raise ValueError("'absent' is no key of a file")
    figures = _figures(document, "figures")
    instructions = _figures(document, "instructions")
    for act in figures:
        if act not in ACTS:
            raise ValueError(f"unknown act '{act}'; known: {', '.join(ACTS)}")
    if not figures and not instructions:
        raise ValueError("it has no figures")
    if instructions and not document.get("cores"):
        raise ValueError("it has instructions, and does not name its cores")
    rows = {"figures": in_order(figures), "instructions": instructions}
    # The unit is that of the acts.
    unit = {} if figures else {"unit": NS}
    table = msgspec.convert({"about": "", "vl": 0, **unit, **document, **rows}, CostTable)
    if table.arch not in ARCHES:
        raise ValueError(f"unknown arch '{table.arch}'; known: {', '.join(ARCHES)}")
    texts = {"name": table.name, "arch": table.arch, "about": table.about}
    texts |= {f"cores[{index}]": core for index, core in enumerate(table.cores)}
    for kind, own in rows.items():
        for name, figure in own.items():
            key = f"{kind}.{name}"
            texts |= {key: name, f"{key}.source": figure.source, f"{key}.note": figure.note}
    for key, text in texts.items():
        if not text.isprintable() or text.isspace():
            raise ValueError(f"{key!r} is not a line of printable text")
    return table


def _figures(document: dict[str, Any], kind: str) -> dict[str, Figure]:
    """Reads the figures of one kind; ValueError where one is wrong."""
    figures = {}
    for name, values in msgspec.convert(document.get(kind, {}), dict[str, dict[str, Any]]).items():
        key = f"{kind}.{name}"
        if ("low" in values) != ("high" in values):
            raise ValueError(f"{key} has only one end of its interval: low and high go together")
        if "low" not in values and "value" in values:
            values |= {"low": values["value"], "high": values["value"]}
        try:
            figures[name] = figure = msgspec.convert(values, Figure)
        except msgspec.ValidationError as err:
            raise ValueError(f"{key}: {err}") from err
        if not figure.low <= figure.value <= figure.high:
            raise ValueError(f"{key} has a value of {figure.value:g}, outside its interval")
    return figures


def to_toml(table: CostTable) -> str:
    """Writes a table as a file that load_costs() reads."""
    document = msgspec.to_builtins(table)
    del document["schema"], document["absent"]
    for rows in (document["figures"], document["instructions"]):
        for name, row in rows.items():
            if row["low"] == row["high"]:
                del row["low"], row["high"]
            rows[name] = {
                key: int(value) if isinstance(value, float) and value.is_integer() else value
                for key, value in row.items()
                if value != ""
            }
    return tomli_w.dumps({key: row for key, row in document.items() if row or key == "vl"})


def prices_on(arch: str, core: str) -> dict[str, Figure]:
    """Collects the cycles of a core's instructions: its own figures before its architecture's."""
    tables = [table for table in map(load_costs, shipped()) if table.arch == arch]
    prices: dict[str, Figure] = {}
    for wanted in ("*", core):
        for table in tables:
            if wanted in table.cores:
                prices |= table.instructions
    return prices


def table_for(arch: str, bits: int, unit: str = "vec") -> CostTable:
    """Finds the counts for a vector length in bits (0: unknown), or SME; UserError."""
    tables = [table for table in map(load_costs, shipped()) if table.arch == arch]
    for table in tables:
        has_sme = "sme_trap" in table.figures
        fits = has_sme if unit == "sme" else table.vl == bits and not has_sme
        if table.unit == INSTRUCTIONS and fits:
            return table
    names = ", ".join(table.name for table in tables) or "none"
    raise UserError(
        f"There is no counted cost table for {arch} with vectors of {bits or 'unknown'} bits.",
        f"Name one with --costs ({names}), or make one: kentry vector costs SPEC --arch {arch}"
        f"{f' --vl {bits}' if bits else ''} -o FILE.",
    )
