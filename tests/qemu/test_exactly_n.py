# SPDX-License-Identifier: GPL-2.0-or-later
"""N no-ops more in the kernel's entry are N instructions more, in that function and no other.

The kernels are built for this.  That a build really differs by N is first read from its own
symbol table, which kentry has no part in.
"""

from __future__ import annotations

import tempfile
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from elftools.elf.elffile import ELFFile

from kentry.arch import Arch, find_arch
from kentry.boot.exact import ExactOptions, QemuRunner
from kentry.compare.counted import compare
from kentry.compare.path_diff import compare_paths
from kentry.count.catalogue import choose
from kentry.count.recorder import measure
from kentry.kernels import build
from kentry.kernels.config import Request
from kentry.kernels.kernel import Kernel
from kentry.kernels.resolve import line_up, resolve
from kentry.path.symbols import base_name
from kentry.results.annotation import ADDED as ADDED_ROW
from kentry.results.comparison import CaseComparison
from kentry.results.recording import INSTRUCTIONS, Recording
from kentry.stats.exact import BETTER, SAME, WORSE
from tests.places import silent

from .conftest import or_skip, timed

pytestmark = pytest.mark.qemu

ARCH = find_arch("arm64")
BASE_SPEC = "source:6.12"
PATCHES = Path(__file__).parent / "patches"
INSTRUCTION_BYTES = 4
NO_OP = bytes.fromhex("1f2003d5")

# How often a window of a case enters the kernel; the others do once.
ENTRIES = {"clock_gettime@vdso": 0, "openat+close": 2, "pipe": 2}
WINDOWS, PATH_WINDOWS = 200, 16


@dataclass(frozen=True)
class Variant:
    """A kernel to build: a name for people, and a patch of the base."""

    name: str
    patch: str = ""


@dataclass(frozen=True)
class NoOps:
    """`count` no-ops in `function`, by the patch of that name.

    `beside` is the text of an instruction that the function executes as often, if the baseline's
    recording has to tell how often that is.
    """

    function: str
    count: int
    beside: str = ""

    def __str__(self) -> str:
        return f"{self.count} in {self.function}"

    @property
    def variant(self) -> Variant:
        text = (PATCHES / f"{self.function}.patch").read_text(encoding="utf-8")
        return Variant(f"no-ops: {self}", text.replace("@N@", str(self.count)))


BASE = Variant("baseline")
RENAMED = Variant("by another version", (PATCHES / "version.patch").read_text(encoding="utf-8"))
# The kernel of test_series.py's first patch, too: it is built once.
ADDED = (NoOps("invoke_syscall", 3),)
# In code whose path depends on the context: free slab objects, hash chains.
IN_CONTEXTS = (
    NoOps("kmem_cache_alloc_noprof", 1, "ret"),
    NoOps("link_path_walk", 1, "bl <inode_permission>"),  # once for each part of a path
)

Record = Callable[[Variant], Recording]


def get_built(variant: Variant, arch: Arch = ARCH) -> Kernel:
    what = f"{BASE_SPEC} for {arch.name}, {variant.name}"
    with timed(f"{what}: built or found"):
        if not variant.patch:
            return or_skip(f"no {what}", resolve, BASE_SPEC, arch, silent)
        with tempfile.NamedTemporaryFile("w", suffix=".patch") as file:
            file.write(variant.patch)
            file.flush()
            [step] = line_up(BASE_SPEC, [file.name], silent).steps
        assert step.revision, step.problem
        return build.kernel(variant.name, step.revision, arch, Request(), silent)


def measured(variant: Variant, windows: int = WINDOWS, arch: Arch = ARCH) -> Recording:
    kernel = get_built(variant, arch)
    options = ExactOptions(
        cases=tuple(choose(arch, [])), windows=windows, path_windows=min(windows, PATH_WINDOWS)
    )
    with timed(f"tiny {arch.name} kernel, {variant.name}, {windows} windows a case"):
        return measure(kernel, QemuRunner(arch), options, silent)


@pytest.fixture(scope="module")
def record() -> Record:
    """Boots each kernel once."""
    return cache(measured)


EACH = pytest.mark.parametrize("added", ADDED + IN_CONTEXTS, ids=str)


def sizes(kernel: Kernel) -> Counter[tuple[str, int, int]]:
    """Every function of a vmlinux, a compiler's clone by its own name: its bytes and its no-ops."""
    with kernel.image.with_name("vmlinux").open("rb") as file:
        elf = ELFFile(file)
        text = {
            index: (section["sh_addr"], section.data())
            for index, section in enumerate(elf.iter_sections())
            if section["sh_flags"] & 0x4
        }
        table: Any = elf.get_section_by_name(".symtab")
        found: Counter[tuple[str, int, int]] = Counter()
        for symbol in table.iter_symbols():
            if symbol["st_shndx"] in text and symbol["st_size"]:
                start, code = text[symbol["st_shndx"]]
                at, size = symbol["st_value"] - start, symbol["st_size"]
                no_ops = code[at : at + size].count(NO_OP)
                found[symbol.name.split(".")[0], size, no_ops] += 1
        return found


def executions(added: NoOps, case: str, recording: Recording) -> int:
    """How often a window of the case executes the place of the no-ops."""
    if not added.beside:
        return ENTRIES.get(case, 1)
    found = recording.case(case)
    assert found
    if not found.modal_path:
        return 0
    return sum(
        (base_name(one.function), one.text) == (added.function, added.beside)
        for one in recording.instructions(found.modal_path)
    )


def check(case: CaseComparison, added: NoOps, sign: int, base: Recording) -> None:
    expected = sign * added.count * executions(added, case.name, base)
    verdict = SAME if not expected else WORSE if expected > 0 else BETTER
    changed = {row.name: row.delta for row in case.functions if row.delta}
    assert case.functions or not case.old, case.name
    assert (case.name, case.delta, case.verdict) == (case.name, expected, verdict)
    assert (case.name, changed) == (case.name, {added.function: expected} if expected else {})


@EACH
def test_the_kernels_differ_by_exactly_n_no_ops(added: NoOps) -> None:
    base, patched = sizes(get_built(BASE)), sizes(get_built(added.variant))
    [(name, before, few)], [(same_name, after, more)] = base - patched, patched - base
    assert name == same_name == added.function
    assert after - before == (more - few) * INSTRUCTION_BYTES
    # The compiler may copy them, each copy for another way through the function.
    assert more - few in (added.count, added.count * 2 if added in IN_CONTEXTS else added.count)


@EACH
def test_n_no_ops_are_n_instructions_in_that_function(record: Record, added: NoOps) -> None:
    comparison = compare(record(BASE), record(added.variant))
    assert {case.name for case in comparison.cases} >= {"getppid", "read", *ENTRIES}
    for case in comparison.cases:
        check(case, added, 1, record(BASE))
    for case in compare(record(added.variant), record(BASE)).cases:
        check(case, added, -1, record(BASE))
    if added in IN_CONTEXTS:
        changed = {case.name for case in comparison.cases if case.delta}
        assert "openat+close" in changed
        assert "getppid" not in changed


# The kernel of test_layout.py for x86-64, too; there the no-ops stand beside alternatives.
@pytest.mark.parametrize(
    ("arch", "added"),
    [(ARCH, ADDED[0]), (find_arch("x86_64"), NoOps("entry_SYSCALL_64_after_hwframe", 3))],
    ids=["arm64", "x86_64"],
)
def test_no_ops_of_a_patch_have_no_reason_and_those_of_the_kernel_have(
    record: Record, arch: Arch, added: NoOps
) -> None:
    old, new = (
        record(one) if arch is ARCH else measured(one, 20, arch) for one in (BASE, added.variant)
    )
    [case] = compare_paths(old, new, ["getppid"]).cases
    rows = [row for row in case.rows if row.new and row.new.text.startswith("nop")]
    written = [(row.function, row.reason) for row in rows if row.change == ADDED_ROW]
    assert written == [(added.function, "")] * added.count
    assert "alternative (.altinstructions)" in {row.reason for row in rows}


def test_the_same_kernel_of_another_name_takes_the_same_path(record: Record) -> None:
    base, rebuilt = record(BASE), record(RENAMED)
    assert base.kernel["banner"] != rebuilt.kernel["banner"]
    assert base.kernel["image_sha256"] != rebuilt.kernel["image_sha256"]
    for case in compare(base, rebuilt).cases:
        assert (case.name, case.delta, case.verdict) == (case.name, 0, SAME)
        assert case.identical_path, case.name


@pytest.mark.parametrize("windows", [20, 2000])
def test_the_value_does_not_depend_on_how_many_windows(record: Record, windows: int) -> None:
    base, other = record(BASE), measured(BASE, windows=windows)
    for case in base.cases:
        same = other.case(case.name)
        assert same, case.name
        assert case.metrics[INSTRUCTIONS].value == same.metrics[INSTRUCTIONS].value, case.name
        assert case.functions == same.functions, case.name
