# SPDX-License-Identifier: GPL-2.0-or-later
"""What instructions are for: the rules, and the paths that they are applied to."""

import re
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from kentry.arch import ARCHES, find_arch
from kentry.path.calls import NOT_KNOWN, Rule, parts, purposes, rules
from kentry.results.recording import Instruction, read_recording
from tests import ROOT
from tests.unit.path.test_calls import ARM64, path

GOLDEN = ROOT / "tests" / "golden" / "arm64-6.12.json"
# A row of a report's table: show/functions.py.
WIDEST = 40


@pytest.mark.parametrize("arch", ARCHES)
def test_every_rule_has_a_reason_that_fits_and_a_source(arch: str) -> None:
    for rule in rules(arch):
        assert rule.source, rule
        assert 0 < len(rule.reason) <= WIDEST, rule.reason
        assert rule.reason != NOT_KNOWN


INSN = Instruction(0x1008, "", "mov x9, x30", "f", 8, (), (".altinstructions", "__mcount_loc"))
BEFORE = INSN._replace(text="nop")


@pytest.mark.parametrize(
    ("condition", "before", "matches"),
    [
        ({}, None, True),
        ({"first": 9}, None, True),
        ({"first": 8}, None, False),
        ({"text": re.compile("mov .*")}, None, True),
        ({"text": re.compile("mov")}, None, False),
        ({"part": re.compile("exit|return")}, None, True),
        ({"part": re.compile("ex")}, None, False),
        ({"behind": re.compile("nop")}, BEFORE, True),
        ({"behind": re.compile("ret")}, BEFORE, False),
        ({"behind": re.compile("nop")}, None, False),
        ({"table": re.compile("__mcount.*")}, None, True),
        ({"table": re.compile("__jump_table")}, None, False),
    ],
)
def test_a_rule_decides_where_all_its_conditions_hold(
    condition: dict[str, Any], before: Instruction | None, matches: bool
) -> None:
    rule = Rule(re.compile("f"), "why", "source", **condition)
    assert rule.matches(INSN, before, "exit") is matches


def test_each_instruction_of_a_real_path_has_one_purpose_in_its_part() -> None:
    recording = read_recording(Path(GOLDEN))
    case, arch = recording.case("getppid"), find_arch("arm64")
    assert case and case.modal_path
    real = recording.instructions(case.modal_path)
    found = list(purposes(real, arch))
    sizes = {part.name: len(part.instructions) for part in parts(real, arch)}
    assert Counter(one.part for one in found) == sizes
    assert all(bool(one.source) == (one.reason != NOT_KNOWN) for one in found)
    reasons = Counter(one.reason for one in found)
    assert reasons["mitigation: registers cleared"] == 30
    # An old recording, which does not say what the kernel patches: nops have no purpose.
    assert reasons[NOT_KNOWN] <= 25
    assert not any(reason.startswith(("patched", "tracing")) for reason in reasons)
    # An instruction that no rule has is not known.
    (at,) = (i for i, one in enumerate(real) if one.text.startswith("mrs x22, elr_el1"))
    changed = [*real[:at], real[at]._replace(text="udf #7"), *real[at + 1 :]]
    others = Counter(one.reason for one in purposes(changed, arch))
    assert others[NOT_KNOWN] == reasons[NOT_KNOWN] + 1


def test_only_what_the_kernel_lists_is_a_hook_or_patched_out() -> None:
    arch = find_arch("arm64")
    nops = path("""
        el0_svc+0              mov x9, x30
        el0_svc+4              nop
        el0_svc+8              nop
        el0_svc+12             nop
    """)
    tables = (("__mcount_loc",), ("__mcount_loc",), ("__jump_table",), ())
    listed = [insn._replace(tables=one) for insn, one in zip(nops, tables, strict=True)]
    assert [one.reason for one in purposes(listed, arch)] == [
        "tracing hook (ftrace)",
        "tracing hook (ftrace)",
        "patched out (alternatives, static keys)",
        NOT_KNOWN,
    ]
    assert {one.reason for one in purposes(nops, arch)} == {NOT_KNOWN}


def test_a_window_of_two_calls_has_both() -> None:
    arch = find_arch("arm64")
    once = [one.reason for one in purposes(ARM64, arch)]
    assert [one.reason for one in purposes([*ARM64, *ARM64], arch)] == [*once, *once]
