# SPDX-License-Identifier: GPL-2.0-or-later
"""The floor's sources: each instruction that is measured says why it is there."""

import re

import pytest

from kentry.arch import ARCHES
from tests import ROOT

# What follows the measured code in each file.
NOT_MEASURED = re.compile(r"^(floor_other|floor_work):", re.MULTILINE)
INSTRUCTION = re.compile(r"^\t(?!\.|UNUSED|b floor_fault$)(.+)$", re.MULTILINE)
WHY = {
    "least": re.compile(r"/\* (ABI|hardware)\b"),
    "linux": re.compile(
        r"/\* (ABI|hardware|registers|restart|work|latency|table|speculation|exit)\b"
    ),
}
# The lines of the header's table: a part and getppid's count.
PART = re.compile(r"^ \*\t(entry|dispatch|handler|exit|return)\t+(\d+)\t+(\d+)$", re.MULTILINE)
TOTAL = re.compile(r"^ \*\t\t\t(\d+)\t\t(\d+)$", re.MULTILINE)


@pytest.mark.parametrize("arch", ARCHES)
@pytest.mark.parametrize("kind", WHY)
def test_each_measured_instruction_says_why(arch: str, kind: str) -> None:
    text = (ROOT / "guest" / "floor" / arch / f"{kind}.S").read_text()
    end = NOT_MEASURED.search(text)
    assert end
    measured = text[text.index("floor_entry:") if ":" in text else 0 : end.start()]
    lines = INSTRUCTION.findall(measured)
    assert lines
    assert [line for line in lines if not WHY[kind].search(line)] == []


@pytest.mark.parametrize("arch", ARCHES)
@pytest.mark.parametrize("kind", WHY)
def test_the_parts_counted_by_hand_add_up(arch: str, kind: str) -> None:
    text = (ROOT / "guest" / "floor" / arch / f"{kind}.S").read_text()
    (total,) = TOTAL.findall(text)
    rows = PART.findall(text)
    assert [sum(int(row[i]) for row in rows) for i in (1, 2)] == [int(one) for one in total]
