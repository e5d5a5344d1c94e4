# SPDX-License-Identifier: GPL-2.0-or-later
"""Cycles of a recorded path on a named core, by LLVM's scheduling model.

    models = find_models(arch, ["neoverse-n2", "cortex-a55"])
    estimates = models.estimate(recording, recording.cases)     # by case name

A path is put through llvm-mca as one straight line: its branches are predicted, its loads and
stores hit the first cache, none of them waits for another's address.  What the model has no
latency of is taken out and named, and priced from the cost tables: the instruction that enters the
kernel, those of the system (Arch.llvm), and those that this model does not know.
"""

import re
import tomllib
from collections import Counter
from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import cache
from itertools import accumulate, islice, pairwise
from os import cpu_count
from os.path import commonprefix
from pathlib import Path
from statistics import median
from typing import Any, get_args

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from kentry.arch import Arch
from kentry.arch.processors import find_processor, processor_of_core
from kentry.errors import UserError
from kentry.models.costs import Figure, prices_on
from kentry.models.llvm import Analyser, check_core, find_analyser
from kentry.path.calls import parts, split_calls
from kentry.results import caveats
from kentry.results.estimate import (
    DEPENDENCIES,
    ENTRY,
    FRONT_END,
    SYSTEM,
    UNKNOWN,
    Estimate,
    LeftOut,
    Limit,
    Share,
    Why,
)
from kentry.results.recording import CaseResult, Instruction, Recording

_TABLE = Path(__file__).with_name("accuracy.toml")


class Routine(Struct, frozen=True):
    """Cycles a call, measured and by the model, which does not know `missing` instructions."""

    name: str
    instructions: int
    model: float
    measured: float
    low: float
    high: float
    missing: int

    @property
    def error(self) -> float:
        """The model's, as a fraction of what was measured."""
        return self.model / self.measured - 1


class Accuracy(Struct, frozen=True):
    """The routines on one core, by LLVM's name for it."""

    core: str
    cpu: str
    llvm: str
    kernel: str
    routine: tuple[Routine, ...]

    @property
    def errors(self) -> list[float]:
        """The absolute errors of the routines of which the model knows every instruction."""
        return [abs(routine.error) for routine in self.routine if not routine.missing]


@cache
def accuracy() -> Accuracy:
    """Reads the shipped table."""
    return msgspec.convert(tomllib.loads(_TABLE.read_text()), Accuracy)


# A steady state is of this many passes, or of fewer over a path that is long; two at least.
_PASSES = 100
_MOST_STEADY = 10_000
# A bound that is within a tenth of the steady pass limits it.
_LIMITS = 0.9

# What is left out of a stream: its name, and why.
_Left = tuple[str, Why]


@dataclass(frozen=True)
class Models:
    """Cores of one architecture that LLVM has a scheduling model of."""

    arch: Arch
    cores: tuple[str, ...]
    analyser: Analyser

    def added_to(self, recording: Recording, names: Sequence[str] | None = None) -> Recording:
        """Adds estimates of the cases of these names, or of all, to a recording; as estimate()."""
        chosen = [case for case in recording.cases if names is None or case.name in names]
        estimates = self.estimate(recording, chosen)
        cases = [
            replace(case, estimates=estimates.get(case.name, case.estimates))
            for case in recording.cases
        ]
        errors, core = [100 * error for error in accuracy().errors], accuracy().core
        version = self.analyser.version
        notes = [caveats.modelled(version, len(errors), core, median(errors), max(errors))]
        # A recording from before processors had names is of -cpu max,...
        target = recording.target
        recorded = target.get("processor") or target.get("cpu") or "an unknown processor"
        model = find_processor(self.arch, recorded).model
        rows = {core: processor_of_core(self.arch, core) for core in self.cores}
        if elsewhere := [core for core, row in rows.items() if not row or row.model != model]:
            notes.append(caveats.other_processor(recorded, " or ".join(elsewhere)))
        # In place of those that an older estimate had.
        old = {caveats.modelled.kind, caveats.other_processor.kind}
        others = [caveat for caveat in recording.caveats if caveat["kind"] not in old]
        return replace(recording, cases=cases, caveats=[*others, *notes])

    def estimate(
        self, recording: Recording, cases: Iterable[CaseResult]
    ) -> dict[str, tuple[Estimate, ...]]:
        """Estimates modal paths on each core, by case; UserError without any, or if LLVM fails."""
        paths = {
            case.name: recording.instructions(case.modal_path)
            for case in cases
            if case.modal_path and case.modal_path.length
        }
        if not paths:
            raise UserError(
                "No kernel path was recorded, so there is nothing to estimate.",
                recording.path_remedy,
            )
        codes = list(dict.fromkeys(insn.code for path in paths.values() for insn in path))
        labels = {name: self._labels(path, name) for name, path in paths.items()}
        with ThreadPoolExecutor(cpu_count()) as pool:
            cores = list(pool.map(lambda core: self._core(core, codes), self.cores))
            jobs = [(core, name) for name in paths for core in cores]
            # Where one fails, those that have not begun are left.
            done = list(pool.map(lambda job: job[0].run(paths[job[1]], labels[job[1]]), jobs))
        estimates = iter(done)
        return {name: tuple(islice(estimates, len(cores))) for name in paths}

    def _labels(self, path: Sequence[Instruction], case: str) -> list[tuple[str, str]]:
        """Labels instructions by their part of the entry; a call's first by what entered, too."""
        named = case.partition("+")[0].partition("@")[2]
        labels: list[tuple[str, str]] = []
        for call in split_calls(path):
            phases = parts(call, self.arch)
            # In these it is known what entered; a page fault is an exception.
            before = [part for part in phases if part.name in ("entry", "dispatch")]
            functions = {insn.function for part in before for insn in part.instructions}
            excepted = any(map(self.arch.llvm.exceptions.fullmatch, functions))
            entry = "exception" if excepted else named or self.arch.entries[0]
            names = [part.name for part in phases for _ in part.instructions]
            labels += [(name, entry if not n else "") for n, name in enumerate(names)]
        return labels

    def _core(self, core: str, codes: Sequence[str]) -> "_Core":
        texts = self.analyser.texts(self.arch, core, codes)
        names = {}
        for text in dict.fromkeys(texts.values()):
            if match := self.arch.llvm.unpriced.fullmatch(text):
                names[text] = " ".join(filter(None, match.groups()))
        seen = [text for text in dict.fromkeys(texts.values()) if text and text not in names]
        known = self.analyser.known(self.arch, core, seen)
        return _Core(self, core, texts, names, known, prices_on(self.arch.name, core))


def find_models(arch: Arch, names: Sequence[str]) -> Models:
    """Finds the cores' models, each once; UserError without one, MissingToolError without LLVM."""
    analyser = find_analyser()
    cores = tuple(dict.fromkeys(names))
    for core in cores:
        check_core(analyser, arch, core)
    return Models(arch, cores, analyser)


@dataclass(frozen=True)
class _Core:
    """A core, what LLVM calls each code, which of these it knows, and what the others cost."""

    models: Models
    name: str
    texts: dict[str, str]
    system: dict[str, str]
    known: set[str]
    prices: dict[str, Figure]

    def run(self, path: Sequence[Instruction], labels: Sequence[tuple[str, str]]) -> Estimate:
        """Estimates one path, which has as many labels."""
        steps = [self._step(insn) for insn in path]
        stream = [text for text, out in steps if not out]
        cycles = self._cycles(stream)
        steady, limit = self._steady(stream, sum(cycles))
        own = iter(cycles)
        spent = [0 if out else next(own) for _, out in steps]
        # The entry instruction is in user space; its cost is put to the first of the kernel's.
        entered: list[_Left | None] = [(entry, ENTRY) if entry else None for _, entry in labels]
        outs = (out for _, out in steps)
        left = [list(filter(None, pair)) for pair in zip(entered, outs, strict=True)]
        counted = Counter(item for row in left for item in row)
        of = self.prices.get
        figures = {name: of(name) or of(name.partition(" ")[0]) for name, _ in counted}
        costs = [[figures[name] for name, _ in row] for row in left]
        rows = list(zip(spent, costs, strict=True))
        total = _share("", rows)
        return Estimate(
            core=self.name,
            llvm=self.models.analyser.version,
            model=sum(cycles),
            low=total.low,
            high=total.high,
            missing=total.missing,
            steady=steady,
            limit=limit,
            left=tuple(
                LeftOut(name, times, why, *((cost.low, cost.high, cost.source) if cost else ()))
                for (name, why), times in sorted(
                    counted.items(),
                    key=lambda item: (_ORDER.index(item[0][1]), -item[1], item[0][0]),
                )
                for cost in [figures[name]]
            ),
            functions=_shares([insn.function for insn in path], rows),
            parts=_shares([part for part, _ in labels], rows),
        )

    def _step(self, insn: Instruction) -> tuple[str, _Left | None]:
        """LLVM's text of an instruction, and what it is left out as."""
        text = self.texts.get(insn.code, "")
        if text in self.system:
            return text, (self.system[text], SYSTEM)
        if text in self.known:
            return text, None
        tokens = text.split() or [insn.text.split()[0]]
        # A prefix alone names nothing: rep stosq.
        name = " ".join(tokens[:2]) if tokens[0] in ("rep", "repne", "lock") else tokens[0]
        return text, (name, UNKNOWN)

    def _cycles(self, stream: Sequence[str]) -> list[int]:
        """Counts the cycles that go by in one pass until each instruction has retired.

        They add up to the pass.  An in-order core may retire one before another that began
        earlier: that one adds none.
        """
        if not stream:
            return []
        views = ("-instruction-info=false", "-resource-pressure=false", "-timeline")
        region = self._region(stream, "-iterations=1", *views, "-timeline-max-cycles=0")
        retired = [row["CycleRetired"] + 1 for row in region["TimelineView"]["TimelineInfo"]]
        latest = list(accumulate(retired, max))
        # The rest of the pass, if there is any, is the last one's.
        latest[-1] = max(latest[-1], region["SummaryView"]["TotalCycles"])
        return [now - before for before, now in pairwise([0, *latest])]

    def _steady(self, stream: Sequence[str], once: int) -> tuple[float, Limit]:
        """Counts the cycles of a pass when passes follow each other, and finds what limits them."""
        if not stream:
            return 0, Limit(DEPENDENCIES, 0, "", 0, "")
        passes = max(2, min(_PASSES, _MOST_STEADY // len(stream)))
        region = self._region(stream, f"-iterations={passes}", "-instruction-info=false")
        summary = region["SummaryView"]
        # llvm-mca has the number of one of several ports as a character.
        number = re.compile(r"(?<=\.)[\0-\x1f]$")
        resources = [number.sub(lambda n: str(ord(n[0])), name) for name in region["Resources"]]
        steady = round((summary["TotalCycles"] - once) / (passes - 1), 1)
        front = round(summary["TotaluOps"] / passes / summary["DispatchWidth"], 1)
        # The row after the last instruction's has the sums, of one pass.
        pressure = {
            resources[row["ResourceIndex"]]: row["ResourceUsage"]
            for row in region["ResourcePressureView"]["ResourcePressureInfo"]
            if row["InstructionIndex"] == len(stream)
        }
        port = max(sorted(pressure), key=lambda name: pressure[name], default="")
        busy = round(pressure.get(port, 0), 1)
        by = DEPENDENCIES
        if max(front, busy) >= _LIMITS * steady:
            by = FRONT_END if front >= busy else port
        ports = commonprefix(resources)  # noqa: RUF071 - these are names, not paths
        return steady, Limit(by, front, port, busy, ports)

    def _region(self, stream: Sequence[str], *options: str) -> dict[str, Any]:
        return self.models.analyser.region(self.models.arch, self.name, stream, *options)


_ORDER = get_args(Why)
_Row = tuple[int, list[Figure | None]]


def _shares(names: Sequence[str], rows: Sequence[_Row]) -> tuple[Share, ...]:
    """Sums the rows of each name, in the order in which the names first come."""
    groups: dict[str, list[_Row]] = {}
    for name, row in zip(names, rows, strict=True):
        groups.setdefault(name, []).append(row)
    return tuple(_share(name, group) for name, group in groups.items())


def _share(name: str, rows: Sequence[_Row]) -> Share:
    """Sums rows: the model's cycles, and the figures of what was left out."""
    figures = [figure for _, costs in rows for figure in costs]
    known = [figure for figure in figures if figure]
    cycles = sum(spent for spent, _ in rows)
    low = round(cycles + sum(figure.low for figure in known), 3)
    high = round(cycles + sum(figure.high for figure in known), 3)
    return Share(name, len(rows), low, high, len(figures) - len(known))
