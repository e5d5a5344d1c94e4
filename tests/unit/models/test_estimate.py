# SPDX-License-Identifier: GPL-2.0-or-later
"""Cycles by a scheduling model: against llvm-mca run by hand, and against arithmetic."""

import re
import shutil
import subprocess
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from statistics import median

import pytest
from msgspec.structs import replace

from kentry.arch import ARCHES, processors
from kentry.arch.processors import processor_of_core
from kentry.errors import KentryError, MissingToolError, UserError
from kentry.host import native
from kentry.models.costs import load_costs
from kentry.models.estimate import accuracy, find_models
from kentry.models.llvm import _SOME, OLDEST, check_core, find_analyser
from kentry.results import caveats
from kentry.results.document import dump
from kentry.results.estimate import DEPENDENCIES, Estimate
from kentry.results.recording import (
    CaseResult,
    Instruction,
    Recording,
    read_recording,
    to_json,
    write_recording,
)
from tests import builders

# One each: LLVM's text, the bytes in memory order.
# Each runs LLVM's analyser, in its sandbox.
pytestmark = pytest.mark.slow

ADD, MUL, LOAD = ("add x0, x0, x1", "0000018b"), ("mul x0, x0, x0", "007c009b"), ("", "e20340f9")
CALL, RETURN, NOP = ("bl #8", "02000094"), ("ret", "c0035fd6"), ("nop", "1f2003d5")
ISB, ERET, MRS = ("isb", "df3f03d5"), ("eret", "e0039fd6"), ("mrs x0, SP_EL0", "004138d5")
ATOMIC, NONSENSE = ("ldaddal w0, w0, [x1]", "2000e0b8"), ("frobnicate x0", "ffffffff")

Rows = Sequence[tuple[str, tuple[str, str]]]


@pytest.fixture(scope="module", autouse=True)
def _an_analyser() -> None:
    builders.skip_without(find_analyser, MissingToolError)


def recorded(rows: Rows, arch: str = "arm64", name: str = "getppid") -> Recording:
    """A recording of one case that executed these instructions, each in a function."""
    counts = Counter(function for function, _ in rows)
    base = builders.recording({name: list(counts.items())}, kernel={"arch": arch})
    address = 0xFFFF800080000000
    code = []
    for function, (text, insn) in rows:
        code.append(Instruction(address, insn, text, function, 0))
        address += len(insn) // 2
    return replace(base, code=code)


def estimated(rows: Rows, core: str, arch: str = "arm64", name: str = "getppid") -> Estimate:
    recording = recorded(rows, arch, name)
    found = find_models(ARCHES[arch], [core]).estimate(recording, recording.cases)
    (estimate,) = found[name]
    for shares in (estimate.functions, estimate.parts):
        assert sum(one.instructions for one in shares) == len(rows)
        assert sum(one.low for one in shares) == pytest.approx(estimate.low)
        assert sum(one.high for one in shares) == pytest.approx(estimate.high)
        assert sum(one.missing for one in shares) == estimate.missing
    return estimate


def within(function: str, *instructions: tuple[str, str]) -> Rows:
    return [(function, one) for one in instructions]


def cycles_by_hand(text: Sequence[str], core: str, triple: str) -> int:
    """What llvm-mca prints as text, with all its views, of hand-written assembly."""
    argv = [str(find_analyser().mca), f"-mtriple={triple}", f"-mcpu={core}", "-iterations=1"]
    argv += ["-all-views", "-all-stats", "-call-latency=1", "-"]
    source = "\n".join([*text, ""])
    done = subprocess.run(argv, input=source, capture_output=True, text=True, check=True)
    found = re.search(r"^Total Cycles: +([0-9]+)$", done.stdout, re.MULTILINE)
    assert found
    return int(found[1])


@pytest.mark.parametrize("core", ["neoverse-n2", "cortex-a55"])
def test_the_cycles_are_those_of_llvm_mca_run_by_hand(core: str) -> None:
    program = [ADD, MUL, ("ldr x2, [sp]", LOAD[1]), CALL, NOP, ADD, RETURN, MUL, ADD] * 3
    rows = within("vectors", *program)
    estimate = estimated(rows, core)
    assert estimate.model == cycles_by_hand([text for text, _ in program], core, "aarch64")
    assert estimate.low == estimate.high == estimate.model


FOLDERS = [
    folder
    for folder in sorted(Path("/usr/lib").glob("llvm-[0-9]*/bin"))
    if int(folder.parent.name.removeprefix("llvm-")) >= OLDEST
    if (folder / "llvm-mca").exists()
]


@pytest.mark.parametrize("folder", FOLDERS, ids=str)
def test_every_version_can_be_used(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("bwrap", "env"):
        if program := shutil.which(name):
            (tmp_path / name).symlink_to(program)
    monkeypatch.setattr(native, "_LLVM_FOLDERS", folder / "none")
    monkeypatch.setenv("PATH", f"{folder}:{tmp_path}")
    version = find_analyser().version
    estimate = estimated(within("vectors", ADD, MRS, NONSENSE, *[ADD] * 50), "neoverse-n1")
    assert estimate.llvm == version
    assert 50 < estimate.model < 60
    assert {one.name for one in estimate.left} == {"svc", "mrs SP_EL0", "frobnicate"}


@pytest.mark.parametrize("core", ["neoverse-n1", "cortex-a55"])
def test_each_instruction_of_a_chain_adds_its_latency(core: str) -> None:
    # add takes one cycle on these cores, and each of these waits for the one before.
    short, long = (estimated(within("vectors", *[ADD] * n), core) for n in (40, 100))
    assert long.model - short.model == 60
    assert long.steady == pytest.approx(100, abs=1)
    assert long.limit.by == DEPENDENCIES
    # A call takes no hundred cycles.
    assert estimated(within("vectors", *[CALL, NOP] * 8), core).model < 60


def test_what_no_model_prices_is_left_to_the_tables() -> None:
    figure = load_costs("neoverse-n1").instructions["isb"]
    rows = [
        *within("vectors", NOP, MRS),
        *within("el0_svc", ADD, ISB, MRS, ADD),
        *within("__arm64_sys_getppid", ADD),
        *within("ret_to_user", ADD, ERET),
    ]
    estimate = estimated(rows, "neoverse-n1")
    assert estimate.low == estimate.model + figure.low
    assert estimate.high == estimate.model + figure.high
    # svc, mrs twice, eret.
    assert estimate.missing == 4
    left = {(one.name, one.why, one.times, one.low) for one in estimate.left}
    assert left == {
        ("svc", "entry", 1, None),
        ("mrs SP_EL0", "system", 2, None),
        ("isb", "system", 1, figure.low),
        ("eret", "system", 1, None),
    }
    parts = [("entry", 2), ("dispatch", 1), ("handler", 0), ("return", 1)]
    assert [(one.name, one.missing) for one in estimate.parts] == parts
    # The system's instructions are in no stream.
    own = cycles_by_hand(["nop", *["add x0, x0, x1"] * 4], "neoverse-n1", "aarch64")
    assert estimate.model == own


def test_cycles_belong_to_the_instruction_that_retires_in_them() -> None:
    rows = [*within("vectors", MRS, MRS, ISB), *within("el0_svc", *[ADD] * 30)]
    estimate = estimated(rows, "cortex-a55")
    cycles = {one.name: one.low for one in estimate.functions}
    assert cycles == {"vectors": 0, "el0_svc": estimate.model}
    # On a Cortex-A55 the store retires before the move, and takes no cycle back.
    move, store = ("mov x29, sp", "fd030091"), ("stp x19, x20, [sp, #16]", "f35301a9")
    rows = [*within("vectors", ADD, move), *within("el0_svc", store), *within("ret_to_user", ADD)]
    early = [one.low for one in estimated(rows, "cortex-a55").functions]
    assert min(early) >= 0
    text = [text for text, _ in (ADD, move, store, ADD)]
    assert sum(early) == cycles_by_hand(text, "cortex-a55", "aarch64")


def test_a_figure_of_an_instruction_goes_before_that_of_its_kind() -> None:
    sepc, scause = ("csrw sepc, a0", "73101514"), ("csrr a0, scause", "73252014")
    sstatus, masked = ("csrw sstatus, a0", "73100510"), ("csrs sstatus, a0", "73200510")
    rows = within("handle_exception", sepc, scause, sstatus, masked)
    estimate = estimated(rows, "sifive-u54", "riscv64")
    prices = load_costs("sifive-u54").instructions
    found = {one.name: one.low for one in estimate.left}
    assert found == {
        "ecall": None,
        "csrw sepc": None,
        "csrr scause": None,
        "csrw sstatus": prices["csrw sstatus"].low,
        "csrs sstatus": prices["csrs"].low,
    }
    assert estimate.model == 0
    assert estimate.steady == 0
    assert estimate.low == prices["csrw sstatus"].low + prices["csrs"].low


def test_a_placeholder_of_a_model_is_no_latency() -> None:
    # Models of x86 say 100 cycles of what they know nothing of.
    endbr, fill = ("endbr64", "f30f1efa"), ("rep stosq", "f348ab")
    locked, add = ("lock addl $0, -4(%rsp)", "f0834424fc00"), ("addq %rbx, %rax", "4801d8")
    paging, gs = ("mov %rdi, %cr3", "0f22df"), ("swapgs", "0f01f8")
    rows = within("entry_SYSCALL_64", gs, paging, endbr, fill, add, locked, add)
    estimate = estimated(rows, "znver4", "x86_64", "getppid@int80")
    assert {(one.name, one.why, one.high) for one in estimate.left} == {
        ("int80", "entry", None),
        ("swapgs", "system", None),
        ("mov cr3", "system", load_costs("x86_64-any").instructions["mov cr3"].high),
        ("endbr64", "unknown", 1),
        ("rep stosq", "unknown", None),
    }
    assert estimate.missing == 3
    prices = load_costs("x86_64-any").instructions
    known = [prices["mov cr3"], prices["endbr64"]]
    assert estimate.low == estimate.model + sum(one.low for one in known)
    assert estimate.high == estimate.model + sum(one.high for one in known) > estimate.low
    text = [add[0], locked[0], add[0]]
    assert estimate.model == cycles_by_hand(text, "znver4", "x86_64")


def test_an_instruction_that_no_model_knows_is_named_and_counted() -> None:
    rows = within("vectors", ADD, ATOMIC, NONSENSE, ATOMIC, ADD)
    estimate = estimated(rows, "neoverse-n2")
    unknown = {one.name: one.times for one in estimate.left if one.why == "unknown"}
    # What LLVM cannot decode has the emulator's name.
    assert unknown["frobnicate"] == 1
    if "ldaddal" in unknown:
        assert unknown["ldaddal"] == 2
    assert estimate.missing == 1 + sum(unknown.values())


def test_a_window_of_several_calls_enters_several_times() -> None:
    recording = recorded(within("vectors", ADD, NOP))
    (case,) = recording.cases
    (path,) = case.paths
    twice = replace(case, paths=(replace(path, runs=((0, 2), (0, 2), (0, 2))),))
    found = find_models(ARCHES["arm64"], ["cortex-a55"]).estimate(recording, [twice])
    (estimate,) = found["getppid"]
    assert [(one.name, one.times) for one in estimate.left] == [("svc", 3)]
    assert sum(one.instructions for one in estimate.parts) == 6


@pytest.mark.parametrize(
    ("arch", "core", "functions", "entered"),
    [
        ("arm64", "cortex-a55", ("vectors", "el0_da", "do_page_fault"), "exception"),
        ("arm64", "cortex-a55", ("vectors", "el0_svc", "el0_svc_common"), "svc"),
        ("riscv64", "sifive-u74", ("handle_exception", "do_page_fault"), "exception"),
        ("riscv64", "sifive-u74", ("handle_exception", "do_trap_ecall_u"), "ecall"),
        ("x86_64", "znver4", ("asm_exc_page_fault", "exc_page_fault"), "exception"),
        ("x86_64", "znver4", ("entry_SYSCALL_64", "do_syscall_64"), "syscall"),
    ],
)
def test_its_entry_is_named(arch: str, core: str, functions: Sequence[str], entered: str) -> None:
    nop = {"arm64": "1f2003d5", "riscv64": "13000000", "x86_64": "90"}[arch]
    estimate = estimated([(name, ("nop", nop)) for name in functions], core, arch)
    assert [(one.name, one.why) for one in estimate.left] == [(entered, "entry")]


@pytest.mark.parametrize(
    ("target", "cores", "on", "elsewhere"),
    [
        ({"processor": "cortex-a76"}, ("cortex-a76",), "", ""),
        # A board with that core.
        ({"processor": "rpi5"}, ("cortex-a76",), "", ""),
        ({"processor": "max"}, ("cortex-a76",), "max", "cortex-a76"),
        # QEMU has no processor with that core.
        ({"processor": "max"}, ("apple-a14",), "max", "apple-a14"),
        (
            {"processor": "cortex-a76"},
            ("cortex-a55", "cortex-a76", "apple-a14"),
            "cortex-a76",
            "cortex-a55 or apple-a14",
        ),
        # From before processors had names, and from elsewhere.
        ({"cpu": "max,sve=off"}, ("cortex-a76",), "max,sve=off", "cortex-a76"),
        ({"cpu": ""}, ("cortex-a76",), "an unknown processor", "cortex-a76"),
    ],
)
def test_a_path_of_another_processor_is_said_to_be(
    target: dict[str, str], cores: tuple[str, ...], on: str, elsewhere: str
) -> None:
    recording = recorded(within("vectors", ADD, MRS, ADD))
    recording = replace(recording, target={**recording.target, **target})
    # A second estimate's caveats are in place of the first's.
    for names, others in (((*cores, "thunderx2t99"), True), (cores, False)):
        recording = find_models(ARCHES["arm64"], names).added_to(recording)
        texts = [one["text"] for one in recording.caveats if one["kind"] == "other-processor"]
        assert others or texts == ([caveats.other_processor(on, elsewhere)["text"]] if on else [])
        assert len(texts) == bool(others or on)


def test_each_core_of_the_table_is_one_that_llvm_has() -> None:
    analyser, found = find_analyser(), {}
    for arch in ARCHES.values():
        for row in processors.table()[arch.name].values():
            if row.core:
                check_core(analyser, arch, row.core)
                found[row.core] = row.name
            of_core = processor_of_core(arch, row.core or row.name)
            assert of_core and of_core.name == row.name
    assert {"skylake-avx512": "skylake", "znver4": "zen4"}.items() <= found.items()
    assert processor_of_core(ARCHES["arm64"], "apple-m1") is None
    # One of another architecture's.
    assert processor_of_core(ARCHES["arm64"], "znver4") is None


def test_estimates_are_kept_in_a_recording(tmp_path: Path) -> None:
    recording = recorded(within("vectors", ADD, MRS, ADD))
    models = find_models(ARCHES["arm64"], ["cortex-a55", "neoverse-n2", "cortex-a55"])
    with_them = models.added_to(recording)
    assert models.added_to(recording) == with_them
    write_recording(with_them, tmp_path / "a.json")
    again = read_recording(tmp_path / "a.json")
    assert [one.core for one in again.cases[0].estimates] == ["cortex-a55", "neoverse-n2"]
    assert again.cases[0].estimates == with_them.cases[0].estimates
    assert [one["kind"] for one in again.caveats] == ["modelled", "other-processor"]
    # A second time replaces them.
    assert models.added_to(again).caveats == again.caveats
    document = to_json(with_them)
    document["cases"][0]["estimates"][0]["functions"][0]["instructions"] += 1
    (tmp_path / "b.json").write_text(dump(document))
    with pytest.raises(KentryError, match="cortex-a55"):
        read_recording(tmp_path / "b.json")


@pytest.mark.parametrize(
    ("arch", "core", "said"),
    [
        ("arm64", "neoverse-n22", "knows no core 'neoverse-n22' of arm64"),
        ("arm64", "sifive-u74", "a core of riscv64"),
        ("arm64", "znver4", "a core of x86_64"),
        ("arm64", "carmel", "no scheduling model of carmel"),
        ("arm64", "-o=/tmp/x", "knows no core"),
        ("arm64", "", "knows no core"),
        # It has 32 bits.
        ("riscv64", "rocket-rv32", "no scheduling model of rocket-rv32"),
    ],
)
def test_a_core_that_cannot_be_estimated_is_a_mistake(arch: str, core: str, said: str) -> None:
    with pytest.raises(UserError, match=re.escape(said)) as caught:
        find_models(ARCHES[arch], [_SOME[arch][0], core])
    assert caught.value.remedy
    assert core != "neoverse-n22" or "neoverse-n2" in caught.value.remedy


def test_without_one_that_is_new_enough_its_package_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(native, "_LLVM_FOLDERS", tmp_path)
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(MissingToolError, match=r"not installed.*apt-get install llvm-"):
        find_analyser()
    for name in ("llvm-mca", "llvm-mc"):
        (tmp_path / name).write_text("#!/bin/sh\necho 'Debian LLVM version 14.0.6'\n")
        (tmp_path / name).chmod(0o755)
    with pytest.raises(MissingToolError, match=r"14\.0\.6.*LLVM 19 can"):
        find_analyser()


def test_a_recording_without_paths_cannot_be_estimated() -> None:
    recording = recorded(within("vectors", ADD))
    bare: list[CaseResult] = [replace(case, paths=()) for case in recording.cases]
    models = find_models(ARCHES["arm64"], ["cortex-a55"])
    with pytest.raises(UserError, match="kernel path"):
        models.estimate(recording, bare)


@pytest.mark.parametrize("name", sorted(ARCHES))
def test_the_cores_that_an_error_names_have_a_model(name: str) -> None:
    models = find_models(arch := ARCHES[name], _SOME[name])
    assert models.cores == _SOME[name]
    # The mark between instructions is one that LLVM prints.
    assert models.analyser.texts(arch, _SOME[name][0], [arch.llvm.mark.hex()]) == {}
    assert not arch.llvm.unpriced.fullmatch("add x0, x0, x1")


def test_what_is_in_a_table_of_instructions_has_a_name_that_an_instruction_has() -> None:
    """A name that no instruction gets would never be found."""
    samples = {
        "arm64": ["isb", "msr CPACR_EL1, x0"],
        "riscv64": [
            *("csrw sstatus, a0", "csrw satp, a0", "csrs sstatus, a0", "csrc sstatus, a0"),
            *("csrsi sstatus, 2", "csrci sstatus, 2", "csrrw a0, sstatus, a1", "csrrs a0, sie, a1"),
            *("csrrc a0, sie, a1", "csrrsi a0, sie, 2", "csrrci a0, sie, 2"),
        ],
        "x86_64": ["movq %rax, %cr3", "endbr64"],
    }
    names: dict[str, set[str]] = {}
    for arch, texts in samples.items():
        for text in texts:
            match = ARCHES[arch].llvm.unpriced.fullmatch(text)
            words = list(filter(None, match.groups())) if match else [text]
            names.setdefault(arch, set()).update((" ".join(words), words[0]))
    for table in map(load_costs, ("neoverse-n1", "cortex-a57", "sifive-u54", "x86_64-any")):
        assert set(table.instructions) <= names[table.arch]


def test_every_estimate_says_how_wrong_the_models_were() -> None:
    """The sentence's figures follow from the table that bench/accuracy.py writes."""
    recording = recorded([("f", ADD)])
    found = find_models(ARCHES["arm64"], ["neoverse-n2"]).added_to(recording)
    (text,) = (one["text"] for one in found.caveats if one["kind"] == "modelled")
    known = [one for one in accuracy().routine if not one.missing]
    errors = [100 * abs(one.model - one.measured) / one.measured for one in known]
    assert len(errors) >= 10
    assert f"{median(errors):.0f} % in the median and {max(errors):.0f} % at most" in text
    assert f"{len(errors)} kernel routines timed on a {accuracy().core}" in text
