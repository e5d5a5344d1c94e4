# SPDX-License-Identifier: GPL-2.0-or-later
"""Ten planted changes: does `kentry diff --metric all` find each, and nothing else?

Each is a kernel of its own, Debian's 6.12 with one more instruction, load, branch, line of code or
page of data in one place, in line or in a helper.  Five of the places are in loops or on paths
that only some contexts take.  Which cases execute a place is read from the recorded paths, where
the planted instruction is known by its bytes.  A case that executes it has to be worse in the
metric, or undecided where the change depends on the context; every other case has to be the same.
Inserted code moves what lies behind it, so the metrics of layout may change anywhere.  They are
printed and not judged, but for a planted line of code: the function that has it must have more.

    python -m bench.planted [NAME ...]

Builds ten kernels, in half an hour the first time, and boots each twice.
"""

from __future__ import annotations

import difflib
import sys
import tempfile
from collections import Counter
from dataclasses import dataclass
from pathlib import Path

from kentry.arch import find_arch
from kentry.boot.exact import ExactOptions
from kentry.compare.counted import ALL, compare
from kentry.count.catalogue import choose
from kentry.kernels.resolve import resolve_source
from kentry.path.symbols import base_name
from kentry.path.variation import settles
from kentry.results.comparison import CaseComparison
from kentry.results.recording import INSTRUCTIONS, OF_LAYOUT, Recording
from kentry.show.blocks import Column, Table, text_column
from kentry.show.text import written
from kentry.stats.exact import BETTER, UNDECIDED, WORSE
from kentry.study.plan import Unit, measure_all

SPEC, ARCH = "source:6.12", "x86_64"
WINDOWS = 200
# They never settle, and are undecided whatever changes.
LEFT_OUT = {"clone3+exit", "execve", "fork+exit"}
OF_CALLS = {
    *("loads", "stores", "bytes.loaded", "bytes.stored", "calls", "returns", "stack.bytes"),
    *("branches", "branches.taken", "branches.indirect"),
    *("lines.data", "lines.data.32", "lines.data.128"),
}


@dataclass(frozen=True)
class Kind:
    """What is planted: C, the first bytes of its instruction, and the metrics that it changes."""

    metric: str
    text: str
    code: str
    moves: frozenset[str] = frozenset()


# Instructions that no compiler emits: known no-ops, a load and a jump with operands of their own.
NOP = Kind(INSTRUCTIONS, 'asm volatile("nopl 0x5a(%rax)");', "0f1f405a")
LOAD = Kind(
    "loads",
    'asm volatile("movq (%%rsp), %%r11" ::: "r11");',
    "4c8b1c24",
    frozenset({"bytes.loaded", "lines.data", "lines.data.32", "lines.data.128"}),
)
BRANCH = Kind("branches", 'asm volatile("jmp 1f\\n1:");', "eb00", frozenset({"branches.taken"}))
LINE = Kind("lines.code", 'asm volatile(".rept 16\\nnopl 0x5a(%rax)\\n.endr");', "0f1f405a")
PAGE = Kind(
    "pages.data",
    'asm volatile("movq %0, %%r11" :: "m" (kentry_page[0]) : "r11");',
    "4c8b1d",
    frozenset({"loads", "bytes.loaded", "lines.data", "lines.data.32", "lines.data.128"}),
)
PAGE_DATA = "static unsigned long kentry_page[512] __aligned(4096);\n"


@dataclass(frozen=True)
class Plant:
    """A kind, in a file of the kernel, before `anchor` in the function that begins with `head`."""

    name: str
    kind: Kind
    file: str
    head: str
    anchor: str
    # Of what is inserted.
    condition: str = ""
    # In contexts only, and in a function of its own.
    seldom: bool = False
    helper: bool = False

    def patched(self, source: str) -> str:
        """The file with the change."""
        start = source.index(f"\n{self.head}") + 1
        at = source.index(self.anchor, start)
        inserted, before = self.kind.text, PAGE_DATA if self.kind is PAGE else ""
        if self.helper:
            before += f"static noinline void kentry_step(void)\n{{\n\t{inserted}\n}}\n\n"
            inserted = "kentry_step();"
        return (
            source[:start]
            + before
            + source[start:at]
            + f"{self.condition}{inserted}\n\t"
            + source[at:]
        )


STEP = "if (dentry->d_parent != parent)\n\t\t\tcontinue;\n\t\tif (d_unhashed(dentry))"
OTHER = "if (dentry->d_parent != parent)\n\t\t\t"
LOOKUP = "struct dentry *__d_lookup_rcu(const"
PLANTS = (
    Plant("chain-helper", LOAD, "fs/dcache.c", LOOKUP, STEP, OTHER, seldom=True, helper=True),
    Plant("getppid", NOP, "kernel/sys.c", "SYSCALL_DEFINE0(getppid)", "rcu_read_lock();"),
    Plant("chain-step", NOP, "fs/dcache.c", LOOKUP, STEP, seldom=True),
    Plant("stat", LOAD, "fs/stat.c", "static int cp_new_stat(", "if (sizeof(tmp.st_dev)"),
    Plant("getuid", BRANCH, "kernel/sys.c", "SYSCALL_DEFINE0(getuid)", "return from_kuid"),
    Plant(
        "radix-level", BRANCH, "lib/radix-tree.c", "void *__radix_tree_lookup(",
        "parent = entry_to_node(node);", seldom=True,
    ),
    Plant("write", LINE, "drivers/char/mem.c", "static ssize_t write_null(", "return count;"),
    Plant(
        "resched", LINE, "kernel/sched/core.c", "int __sched __cond_resched(void)",
        "if (should_resched(0)", seldom=True, helper=True,
    ),
    Plant("yield", PAGE, "kernel/sched/syscalls.c", "static void do_sched_yield(", "rq = this_rq"),
    Plant("chain-other", PAGE, "fs/dcache.c", LOOKUP, STEP, OTHER, seldom=True),
)  # fmt: skip


def measured(plants: list[Plant], folder: Path) -> list[Recording]:
    """The baseline and a kernel a plant, each with all cases."""
    git = resolve_source(SPEC, lambda fraction, now: None)
    cases = [name for name in choose(find_arch(ARCH), ["*"]) if name not in LEFT_OUT]
    options = ExactOptions(tuple(cases), windows=WINDOWS)
    specs = [SPEC]
    for plant in plants:
        before = git.repository.git("show", f"{git.commit}:{plant.file}").stdout
        after = plant.patched(before)
        old, new = (text.splitlines(keepends=True) for text in (before, after))
        diff = "".join(difflib.unified_diff(old, new, f"a/{plant.file}", f"b/{plant.file}"))
        own = folder / plant.name
        own.mkdir()
        header = f"From: kentry <kentry@localhost>\nSubject: [PATCH] Plant {plant.name}\n\n---\n"
        (own / "0001.patch").write_text(header + diff, encoding="utf-8")
        specs.append(f"{SPEC},patches={own}")
    names = ["the baseline", *(plant.name for plant in plants)]
    return measure_all(
        [
            Unit(spec=spec, arch=ARCH, measurement=options, label=name)
            for spec, name in zip(specs, names, strict=True)
        ]
    )


def executing(kind: Kind, base: Recording, planted: Recording) -> tuple[set[str], set[str]]:
    """The cases with a path that has the planted instruction, and the functions that have it."""
    had = {insn.function for insn in base.code if insn.code.startswith(kind.code)}
    places = {
        place
        for place, insn in enumerate(planted.code)
        if insn.code.startswith(kind.code) and insn.function not in had
    }
    cases = {
        case.name
        for case in planted.cases
        if any(not places.isdisjoint(path.indexes) for path in case.paths)
    }
    return cases, {base_name(planted.code[place].function) for place in places}


@dataclass(frozen=True)
class Found:
    """What became of a plant: cases by verdict, rows that moved, and cases that were not found."""

    cases: set[str]
    verdicts: Counter[str]
    by_metric: Counter[str]
    others: list[str]
    missed: list[str]


def judged(plant: Plant, base: Recording, planted: Recording) -> Found:
    """What a comparison of the two says, beside what is true."""
    cases, functions = executing(plant.kind, base, planted)
    own = {INSTRUCTIONS, plant.kind.metric, *plant.kind.moves}
    # A call and a return also store and load an address.
    own |= OF_CALLS if plant.helper else set()
    verdicts: Counter[str] = Counter()
    by_metric: Counter[str] = Counter()
    others: list[str] = []
    missed: list[str] = []
    for row in compare(base, planted, metrics=(ALL,)).rows:
        if not isinstance(row, CaseComparison):
            continue
        what = f"{row.name} {row.metric} {row.old} -> {row.new} {row.verdict}"
        executes = row.name in cases
        if executes and row.metric in (INSTRUCTIONS, plant.kind.metric):
            verdicts[f"{row.metric} {row.verdict}"] += 1
            found = row.verdict in (WORSE, UNDECIDED) and not row.identical_path
            if row.metric.startswith(OF_LAYOUT):
                # Functions that moved may have fewer; that with the plant has more.
                found = sum(one.delta for one in row.functions if one.name in functions) > 0
            if not found:
                missed.append(what)
        elif row.verdict in (BETTER, WORSE) and row.metric.startswith(OF_LAYOUT):
            by_metric[f"{row.metric} {row.verdict}"] += 1
        elif row.verdict in (BETTER, WORSE):
            by_metric[f"{row.metric} {row.verdict}"] += 1
            if not executes or row.metric not in own:
                others.append(what)
        elif not executes and row.metric == INSTRUCTIONS and row.verdict == UNDECIDED:
            case = base.case(row.name)
            if case and settles(case):
                others.append(what)
    return Found(cases, verdicts, by_metric, others, missed)


def main() -> int:
    """Prints a row a plant, then what moved beside it; 1 if one was missed or another moved."""
    plants = [one for one in PLANTS if one.name in sys.argv[1:] or not sys.argv[1:]]
    with tempfile.TemporaryDirectory() as folder:
        base, *kernels = measured(plants, Path(folder))
    table = Table(
        [
            *map(text_column, ("plant", "kind", "where")),
            *map(Column, ("cases", "worse", "undecided", "missed", "others")),
        ]
    )
    notes = []
    wrong = 0
    for plant, kernel in zip(plants, kernels, strict=True):
        found = judged(plant, base, kernel)
        counted = [found.verdicts[f"{INSTRUCTIONS} {verdict}"] for verdict in (WORSE, UNDECIDED)]
        where = "out of line" if plant.helper else "in line"
        table.row(
            plant.name,
            plant.kind.metric,
            f"some contexts, {where}" if plant.seldom else where,
            len(found.cases),
            *counted,
            len(found.missed),
            len(found.others),
        )
        wrong += bool(found.missed or found.others or not found.cases)
        notes.append(f"{plant.name}: {', '.join(sorted(found.cases))}")
        for label, rows in (("own", found.verdicts), ("beside", found.by_metric)):
            notes.append(f"  {label}: {', '.join(f'{name} {n}' for name, n in rows.items())}")
        notes += [f"  MISSED {one}" for one in found.missed]
        notes += [f"  OTHER {one}" for one in found.others]
    print(written([table]))
    print("\n".join(notes))
    return int(wrong > 0)


if __name__ == "__main__":
    raise SystemExit(main())
