# SPDX-License-Identifier: GPL-2.0-or-later
"""Cost tables: what an act on vector state costs on a core, each figure with where it is from.

A table is a TOML file: those in vector/costs/ are known by their names, a user's by its path.

    name = "sifive-x280"
    about = "a sentence"
    arch = "riscv64"
    unit = "ns"                 # or "instructions"
    vl = 512                    # vector length in bits; 0 where that is not known

    [figures.flush]
    value = 48.8                # of one act, in the unit
    low = 48.6                  # the interval that the value is believed to be in; both or none
    high = 57.6
    assume = "published"        # or measured, counted, derived, assumed
    source = "who, where, when; or the command that counted it"
    note = "what else there is to know"                 # may be left out
"""

from __future__ import annotations

import difflib
import json
import math
import re
import tomllib
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from kentry.errors import UserError

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

_FOLDER = Path(__file__).parent / "costs"

NS, INSTRUCTIONS = "ns", "instructions"
UNITS = (NS, INSTRUCTIONS)

# How a figure is known, the firmest first.
ASSUMPTIONS = {
    "measured": "timed on the core, by kentry vector costs --here",
    "published": "somebody else's number",
    "counted": "instructions, exact, of one kernel under emulation",
    "derived": "worked out of published or counted numbers, as the source says",
    "assumed": "nobody has published one: a guess, with the interval it may be in",
}

# What a kernel does to vector state, as policies count it.
ACTS = {
    "syscall": "a system call that does nothing, by a task without vector state: for scale",
    "trap": "a use while the unit is off for the task, from exception entry to return;"
    " what is flushed or bound in it is part of it",
    "trap_flush": "what a trap clears, where it is not to be in the trap's own figure",
    "flush": "live state cleared at a system call (arm64), or filled with ones (riscv64)",
    "drop": "the unit turned off for a task where a policy decides so",
    "save": "the whole vector state stored",
    "restore": "the whole vector state loaded",
    "small_save": "only what floating point shares stored (arm64 FPSIMD)",
    "small_restore": "only what floating point shares loaded (arm64 FPSIMD)",
    "kept_load": "what keeping SVE on at an FPSIMD-only load adds to it: P and FFR cleared",
    "open_exit": "the unit turned on for a task on its way back to user space",
    "initial_restore": "the registers made as a system call leaves them, in place of a restore",
    "smstop": "streaming mode left at a system call",
    "sme_trap": "a use of SME while it is off for the task, from exception entry to return",
    "za_save": "ZA stored",
    "za_restore": "ZA loaded",
    "ipi": "an interrupt sent to a core because a task that it runs may have SME state",
}

_NAME = re.compile(r"[a-z0-9][a-z0-9._-]{0,63}")
_MOST_BITS = 65536
_MOST_BYTES = 1 << 20
_TABLE_KEYS = ("name", "about", "arch", "unit", "vl", "figures")
_FIGURE_KEYS = ("value", "low", "high", "assume", "source", "note")


@dataclass(frozen=True)
class Figure:
    """What one act costs, in its table's unit.

    `low` and `high` are the interval the value is believed to be in, the value itself where
    nothing is known of one.  `assume` is one of ASSUMPTIONS, `source` who said so, where and
    when, or the command that counted it.
    """

    value: float
    low: float
    high: float
    assume: str
    source: str
    note: str = ""

    @property
    def has_interval(self) -> bool:
        """Whether it is known to within anything but itself."""
        return self.low < self.high


@dataclass(frozen=True)
class CostTable:
    """The figures of a core; `vl` in bits, 0 where it is not known, `origin` what it was read from.

    An act that the table has no figure for is not in `figures`.
    """

    name: str
    arch: str
    unit: str
    figures: Mapping[str, Figure]
    about: str = ""
    vl: int = 0
    origin: str = field(default="", compare=False)

    def figure(self, act: str) -> Figure:
        """The figure of an act; UserError, which says how to supply it, where there is none."""
        found = self.figures.get(act)
        if found is None:
            raise UserError(
                f"The cost table {self.name} has no figure for '{act}'.",
                f"Add [figures.{act}] with value, assume and source to"
                f" {_own_copy(self)}, or let kentry make a table of a kernel or a machine:"
                " kentry vector costs --help.",
            )
        return found

    def vector(
        self, acts: Sequence[str], needed: Collection[str] | None = None, bound: str = "value"
    ) -> npt.NDArray[np.float64]:
        """What each of `acts` costs, in the table's unit: float64, shape (len(acts),).

        `needed` are the acts that a policy did at least once, all of them by default: one that
        the table lacks is a UserError; another that it lacks is 0, to be multiplied by a count
        of 0.  `bound` is "value", or "low" or "high" for the ends of the intervals.
        """
        import numpy as np

        wanted = set(acts if needed is None else needed)
        known = [
            getattr(self.figure(act), bound) if act in wanted or act in self.figures else 0.0
            for act in acts
        ]
        return np.array(known, dtype=np.float64)


def _own_copy(table: CostTable) -> str:
    """Where a user may write: the file it came from, or a copy of a shipped one."""
    if not table.origin or Path(table.origin).parent == _FOLDER:
        return f"a copy of it (kentry vector costs {table.name} -o FILE)"
    return table.origin


def is_name(text: str) -> bool:
    """Whether a table can be called that: a-z, 0-9, '.', '_' and '-'."""
    return bool(_NAME.fullmatch(text))


def shipped() -> tuple[str, ...]:
    """The names of the tables that come with kentry."""
    return tuple(sorted(file.stem for file in _FOLDER.glob("*.toml")))


def load_costs(text: str | Path) -> CostTable:
    """The table that comes with kentry under this name, or the one in this file.

    UserError says in one sentence what is wrong: no such table, or what in it is not right.
    """
    name = str(text)
    if name in shipped():
        return _read(_FOLDER / f"{name}.toml")
    if not Path(name).exists() and not _is_path(name):
        close = difflib.get_close_matches(name, shipped(), n=1)
        meant = f" Did you mean {close[0]}?" if close else ""
        raise UserError(
            f"There is no cost table '{name}'.{meant}",
            f"Name a file, or one of these: {', '.join(shipped())}.",
        )
    return _read(Path(name))


def _is_path(name: str) -> bool:
    return "/" in name or name.endswith(".toml")


def _read(file: Path) -> CostTable:
    try:
        with file.open("rb") as stream:
            data = stream.read(_MOST_BYTES + 1)
    except OSError as err:
        raise UserError(
            f"{file} cannot be read: {err.strerror}.",
            f"Name a file, or one of these: {', '.join(shipped())}.",
        ) from err
    try:
        if len(data) > _MOST_BYTES:
            raise ValueError(f"it is larger than {_MOST_BYTES >> 20} MiB")
        return _table(tomllib.loads(data.decode()), str(file))
    except (ValueError, RecursionError) as err:
        reason = " ".join(str(err).split())[:200]
        raise UserError(
            f"{file} is not a cost table: {reason}.",
            "docs/howto/cost-table.md says what is in one.",
        ) from err


# --- what a file must be: each of these raises ValueError with a clause for the sentence ---------


def _table(document: dict[str, Any], origin: str) -> CostTable:
    _check_keys(document, _TABLE_KEYS, ("name", "arch", "unit", "figures"), "it")
    name = _text(document["name"], "its name")
    if not is_name(name):
        raise ValueError(f"its name '{name}' is not made of a-z, 0-9, '.', '_' and '-'")
    unit = document["unit"]
    if unit not in UNITS:
        raise ValueError(f"its unit is {unit!r}, not {' or '.join(UNITS)}")
    figures = document["figures"]
    if not isinstance(figures, dict) or not figures:
        raise ValueError("it has no figures")
    return CostTable(
        name,
        _text(document["arch"], "its arch"),
        unit,
        {act: _figure(act, figures[act]) for act in sorted(figures, key=_place)},
        _text(document["about"], "about") if "about" in document else "",
        _bits(document.get("vl", 0)),
        origin,
    )


def _place(act: str) -> int:
    """Where an act stands among ACTS; ValueError for one that is none."""
    if act in ACTS:
        return list(ACTS).index(act)
    close = difflib.get_close_matches(act, ACTS, n=1)
    meant = f" (did you mean {close[0]}?)" if close else ""
    raise ValueError(f"'{act}' is no act{meant}; acts are {', '.join(ACTS)}")


def _figure(act: str, row: Any) -> Figure:
    place = f"figures.{act}"
    if not isinstance(row, dict):
        raise ValueError(f"{place} is not a table")
    _check_keys(row, _FIGURE_KEYS, ("value", "assume", "source"), place)
    value = _cost(row["value"], f"{place}.value")
    if ("low" in row) != ("high" in row):
        raise ValueError(f"{place} has only one end of its interval: low and high go together")
    low, high = (_cost(row.get(end, value), f"{place}.{end}") for end in ("low", "high"))
    if not low <= value <= high:
        raise ValueError(f"{place} has a value of {value:g}, outside its interval")
    if row["assume"] not in ASSUMPTIONS:
        raise ValueError(
            f"{place} has assume = {row['assume']!r}, which is none of {', '.join(ASSUMPTIONS)}"
        )
    return Figure(
        value,
        low,
        high,
        row["assume"],
        _text(row["source"], f"{place}.source"),
        _text(row["note"], f"{place}.note") if "note" in row else "",
    )


def _check_keys(
    row: Mapping[str, Any], known: Sequence[str], needed: Sequence[str], what: str
) -> None:
    for key in needed:
        if key not in row:
            raise ValueError(f"{what} has no {key}")
    for key in row:
        if key not in known:
            raise ValueError(f"{what} has '{key}', which is none of {', '.join(known)}")


def _cost(value: Any, place: str) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise ValueError(f"{place} is {value!r}, not a number")
    if not (math.isfinite(value) and value >= 0):
        raise ValueError(f"{place} is {value}: a cost is finite and not negative")
    return float(value)


def _bits(value: Any) -> int:
    if type(value) is not int or not 0 <= value <= _MOST_BITS:
        raise ValueError(f"vl is {value!r}, not a vector length in bits")
    return value


def _text(value: Any, place: str) -> str:
    if not isinstance(value, str) or not value.strip() or not value.isprintable():
        raise ValueError(f"{place} is not a line of printable text")
    return value


# --- writing ----------------------------------------------------------------------------------


def to_toml(table: CostTable) -> str:
    """The table as a file that load_costs() reads."""
    lines = [f"name = {_quoted(table.name)}"]
    if table.about:
        lines.append(f"about = {_quoted(table.about)}")
    lines += [f"arch = {_quoted(table.arch)}", f"unit = {_quoted(table.unit)}", f"vl = {table.vl}"]
    for act, figure in table.figures.items():
        lines += ["", f"[figures.{act}]", f"value = {number(figure.value)}"]
        if figure.has_interval:
            lines += [f"low = {number(figure.low)}", f"high = {number(figure.high)}"]
        lines += [f"assume = {_quoted(figure.assume)}", f"source = {_quoted(figure.source)}"]
        if figure.note:
            lines.append(f"note = {_quoted(figure.note)}")
    return "\n".join(lines) + "\n"


def _quoted(text: str) -> str:
    # Printable text as JSON writes it is a basic string of TOML.
    return json.dumps(text, ensure_ascii=False)


def number(value: float) -> str:
    """A cost as it is written: whole where it is, else as short as reads back the same."""
    return str(int(value)) if value == int(value) and value < 1 << 53 else repr(value)


def to_json(table: CostTable) -> dict[str, Any]:
    """The table as --json prints it: kentry/costs/1."""
    return {
        "schema": "kentry/costs/1",
        "name": table.name,
        "about": table.about,
        "arch": table.arch,
        "unit": table.unit,
        "vl": table.vl,
        "figures": {
            act: {key: getattr(figure, key) for key in _FIGURE_KEYS}
            for act, figure in table.figures.items()
        },
    }


def table_for(arch: str, bits: int, unit: str = "vec") -> CostTable:
    """The shipped table of counts for an architecture and vector length in bits, or for SME.

    UserError where there is none: it says what there is for that architecture.
    """
    tables = [load_costs(name) for name in shipped()]
    of_arch = [table for table in tables if table.arch == arch]
    for table in of_arch:
        has_sme = "sme_trap" in table.figures
        fits = has_sme if unit == "sme" else table.vl == bits and not has_sme
        if table.unit == INSTRUCTIONS and fits:
            return table
    names = ", ".join(table.name for table in of_arch) or "none"
    raise UserError(
        f"There is no counted cost table for {arch} with vectors of {bits} bits.",
        f"Name one with --costs ({names}), or make one: kentry vector costs SPEC --arch {arch}"
        f" --vl {bits} -o FILE.",
    )
