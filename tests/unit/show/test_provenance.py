# SPDX-License-Identifier: GPL-2.0-or-later
"""The line on the processor under a result."""

import pytest

from kentry.results.recording import Recording
from kentry.show.provenance import processor_lines
from kentry.show.text import written
from tests.builders import recording


def on(processor: str = "", mitigations: str = "") -> Recording:
    words = {"processor": processor, "mitigations": mitigations}
    target = {name: word for name, word in words.items() if word}
    return recording({"getppid": [("el0_svc", 5)]}, target=target)


A76 = on("cortex-a76", "spectre_v2=CSV2 bhb=loop-of-24 spectre_v1=user-pointer-sanitization")
MAX = on("max", "none")


@pytest.mark.parametrize(
    ("measured", "line"),
    [
        (MAX, "cpu max: all that QEMU emulates, which no silicon has; no mitigation at entry"),
        # CSV2 is the core's own, and a barrier after a check is no work at entry.
        (A76, "cpu cortex-a76; mitigations at entry: bhb=loop-of-24"),
        (
            on("skylake", "meltdown=PTI mds=vulnerable spec_store_bypass=vulnerable retbleed=IBRS"),
            "cpu skylake; mitigations at entry: meltdown=PTI retbleed=IBRS; vulnerable, without a"
            " mitigation: mds",
        ),
        (
            on("cortex-a72", "spectre_v2=vulnerable"),
            "cpu cortex-a72; no mitigation at entry; vulnerable, without a mitigation: spectre_v2",
        ),
        (on("rv64"), "cpu rv64; its mitigations are not known"),
        # A recording from before processors had names.
        (on(), ""),
    ],
)
def test_one_line_of_one_processor(measured: Recording, line: str) -> None:
    assert " ".join(written(processor_lines(measured.target)).split()) == line
    assert processor_lines(measured.target) == processor_lines(measured.target, measured.target)


def test_two_processors_are_said_first() -> None:
    head, *sides = written(processor_lines(MAX.target, A76.target)).splitlines()
    assert head == "two processors, so not only the kernel differs:"
    assert " ".join(" ".join(sides).split()) == (
        "old: cpu max: all that QEMU emulates, which no silicon has; no mitigation at entry"
        " new: cpu cortex-a76; mitigations at entry: bhb=loop-of-24"
    )
    _, old, new = written(processor_lines(on().target, A76.target)).splitlines()
    assert old.strip() == "old: cpu not known"
    assert new.strip() == "new: cpu cortex-a76; mitigations at entry: bhb=loop-of-24"


def test_two_kernels_on_one_processor_may_mitigate_otherwise() -> None:
    lines = written(processor_lines(A76.target, on("cortex-a76", "none").target)).splitlines()
    assert [line.strip() for line in lines] == [
        "old: cpu cortex-a76; mitigations at entry: bhb=loop-of-24",
        "new: cpu cortex-a76; no mitigation at entry",
    ]
