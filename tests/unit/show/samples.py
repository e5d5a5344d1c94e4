# SPDX-License-Identifier: GPL-2.0-or-later
"""Series and recordings for the tests of reports, and what holds for every message."""

import re
from collections.abc import Mapping, Sequence

from kentry.results.recording import Recording, VectorEvent
from kentry.results.studies import Problem, Series
from kentry.study.series import tabulate
from tests.builders import Functions, built, outcome, recording
from tests.unit.vector.builders import with_events

DISCARD = VectorEvent("discard", "syscall", "do_trap_ecall_u", 1)
SAVE = VectorEvent("save", "user copy", "kernel_vector_begin", 1)

# What git, patch and checkpatch.pl would take for something else in a commit message.
BREAKS = re.compile(
    r"^\s*(--- |\+\+\+ |@@|change-id:)|^(diff |---$|Index: |>?From |#)"
    r"|\bcommit [0-9a-f]{5}(?![0-9a-f]{7} \(\")",
    re.IGNORECASE | re.MULTILINE,
)


def check_form(text: str) -> None:
    """A text is fit for a commit message."""
    assert text.isascii()
    assert "\t" not in text
    assert text.endswith("\n")
    assert not text.endswith("\n\n")
    for line in text.splitlines():
        assert line == line.rstrip()
        assert len(line) <= 75
        assert not BREAKS.search(line), line


SYSCALL: dict[str, Functions] = {
    "clock_gettime@vdso": [],
    "getpid": [("entry", 40), ("sys_getpid", 10)],
    "getppid": [("entry", 40), ("sys_getppid", 15)],
    "getuid": [("entry", 40), ("from_kuid", 20)],
}


def changed(**functions: Functions) -> dict[str, Functions]:
    return {**SYSCALL, **functions}


def table(*rows: Mapping[str, Functions] | Problem, subjects: Sequence[str] = ()) -> Series:
    outcomes = [outcome(0, "baseline", built(SYSCALL))]
    for patch, row in enumerate(rows, start=1):
        found = ("arm64", row) if isinstance(row, Problem) else built(row)
        subject = subjects[patch - 1] if subjects else f"subject {patch}"
        outcomes.append(outcome(patch, subject, found))
    return tabulate(outcomes, {})


SHORTER = changed(
    getpid=[("entry", 38), ("sys_getpid", 10)],
    getppid=[("entry", 38), ("sys_getppid", 15)],
    getuid=[("entry", 38), ("from_kuid", 20)],
)


def measured(
    counts: Mapping[str, int | Mapping[int, int]],
    events: Mapping[str, Sequence[VectorEvent]] | None = None,
    markers: Mapping[str, str] | None = None,
    arch: str = "riscv64",
) -> Recording:
    """Cases with these counts of instructions, or histograms of them, and these events."""
    samples = {name: {one: 10} if isinstance(one, int) else one for name, one in counts.items()}
    paths = {name: [("f", max(one, key=lambda n: one[n]))] for name, one in samples.items()}
    found = recording(paths, samples=samples, kernel={"arch": arch})
    found.options["windows"] = 10
    return with_events(found, events or {}, markers)


def unwrapped(text: str) -> str:
    """The text with each sentence on one line again."""
    return re.sub(r"\n  +(?=\S)", " ", text)
