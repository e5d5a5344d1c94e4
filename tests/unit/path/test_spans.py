# SPDX-License-Identifier: GPL-2.0-or-later
"""A path as calls within calls."""

from pathlib import Path

import pytest

from kentry.arch import ARCHES
from kentry.path.calls import Span, call_depths, spans, split_calls
from kentry.results.recording import Instruction, Recording, read_recording
from tests import ROOT

ARM64 = ARCHES["arm64"]
_CALL, _OTHER, _RETURN = "bl 0x1000 <f>", "nop", "ret"


def path(*lines: tuple[str, int, str]) -> list[Instruction]:
    """Instructions of (function, offset in it, text); each function at an address of its own."""
    bases = {name: 0x10000 * n for n, name in enumerate(dict.fromkeys(f for f, _, _ in lines), 1)}
    return [
        Instruction(bases[name] + offset, "1f2003d5", text, name, offset)
        for name, offset, text in lines
    ]


def test_a_call_is_within_its_caller_and_a_jump_takes_the_place_of_what_jumps() -> None:
    found = spans(
        path(
            ("vectors", 0, "b 0x1 <el0t_64_sync>"),
            ("el0t_64_sync", 0, _CALL),
            ("outer", 0, _OTHER),
            ("outer", 4, _CALL),
            ("inner", 0, "b 0x1 <tail>"),
            ("tail", 0, _RETURN),
            ("outer", 8, _CALL),
            ("inner", 0, _RETURN),
            ("outer", 12, _RETURN),
            ("el0t_64_sync", 4, "eret"),
        ),
        ARM64,
    )
    assert found.spans == (
        Span("vectors", 0, 1, None, None),
        Span("el0t_64_sync", 1, 10, None, None),
        Span("outer", 2, 9, 1, 1),
        Span("inner", 4, 5, 2, 3),
        Span("tail", 5, 6, 2, 3),
        Span("inner", 7, 8, 2, 6),
    )
    assert found.inner == (0, 1, 2, 2, 3, 4, 2, 5, 2, 1)


def test_a_function_that_calls_itself_is_within_itself() -> None:
    found = spans(
        path(
            ("vectors", 0, _CALL),
            ("f", 0, _OTHER),
            ("f", 4, _CALL),
            ("f", 0, _RETURN),
            ("f", 8, _RETURN),
        ),
        ARM64,
    )
    assert [(one.function, one.start, one.end, one.caller) for one in found.spans] == [
        ("vectors", 0, 5, None),
        ("f", 1, 5, 0),
        ("f", 3, 4, 1),
    ]


def test_each_system_call_of_a_window_begins_outside() -> None:
    once = path(("vectors", 0, _CALL), ("f", 0, _OTHER))
    found = spans(once * 2, ARM64)
    assert [(one.function, one.start, one.end, one.caller, one.site) for one in found.spans] == [
        ("vectors", 0, 2, None, None),
        ("f", 1, 2, 0, 0),
        ("vectors", 2, 4, None, None),
        ("f", 3, 4, 2, 2),
    ]
    assert spans([], ARM64) == ((), ())


@pytest.mark.parametrize("name", ["arm64-6.1", "arm64-6.12", "floor-arm64"])
def test_spans_of_a_kernel_are_as_deep_as_its_calls(name: str) -> None:
    recording: Recording = read_recording(Path(ROOT, "tests", "golden", f"{name}.json"))
    for case in recording.cases:
        assert case.modal_path
        code = recording.instructions(case.modal_path)
        found = spans(code, ARM64)
        depths = [depth for call in split_calls(code) for depth in call_depths(call, ARM64)]
        for position, (insn, depth) in enumerate(zip(code, depths, strict=True)):
            at: int | None = found.inner[position]
            around = []
            while at is not None:
                span = found.spans[at]
                assert span.start <= position < span.end
                around.append(span.function)
                at = span.caller
            assert around[0] == insn.function
            assert len(around) == depth + 1
        # A call's instruction is in the function that makes it, or in one that it jumped to.
        for one in found.spans:
            assert (one.caller is None) == (one.site is None)
            assert one.site is None or one.site < one.start
