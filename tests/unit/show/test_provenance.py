# SPDX-License-Identifier: GPL-2.0-or-later
"""The line on the processor under a result, and how it was measured."""

import pytest
from msgspec import structs

from kentry.compare.path_diff import compare_paths
from kentry.path.annotation import annotate
from kentry.results import caveats
from kentry.results.recording import Measured, Recording, read_recording
from kentry.show.blocks import Prose
from kentry.show.changelog import with_method
from kentry.show.paths import annotation_layout, path_layout
from kentry.show.provenance import processor_lines
from kentry.show.studies import ablation_layout, bisection_layout, log_layout
from kentry.show.text import written
from tests.builders import recording
from tests.golden import test_golden
from tests.unit.show.pages import NEW, OLD


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


def test_each_result_that_was_measured_says_how_in_a_changelog_and_in_short() -> None:
    old, new = read_recording(OLD), read_recording(NEW)
    ends = (Measured.of(old), Measured.of(new))
    layouts = (
        annotation_layout(annotate(new, ["getppid"])),
        path_layout(compare_paths(old, new, ["getppid"])),
        log_layout(structs.replace(test_golden.a_log(), measured=ends)),
        bisection_layout(structs.replace(test_golden.a_bisection(), measured=ends)),
        ablation_layout(test_golden.an_ablation()),
    )
    for layout in layouts:
        assert {"arm64", "cpu max", "exact"} <= {*layout.badges}
        assert ("machine", "virt") in layout.facts
        whole = with_method(layout)
        assert (len(whole.blocks) > len(layout.blocks) + 5, whole.caveats) == (True, ())
    timed = structs.replace(test_golden.a_bisection(), measured=ends, unit="ns")
    texts = [
        own.text for own in with_method(bisection_layout(timed)).blocks if isinstance(own, Prose)
    ]
    assert caveats.not_time()["text"] not in texts
    assert [text for text in texts if text.startswith("not measured: instructions,")]
    # Of a file from before the kernels were in it there is nothing to say.
    before = log_layout(test_golden.a_log())
    assert with_method(before) == before
