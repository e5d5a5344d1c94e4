# SPDX-License-Identifier: GPL-2.0-or-later
"""Two built kernels, of which one has its code elsewhere: kentry diff and nm say the same."""

import pytest
from bench.layout import report

from kentry.arch import find_arch

from .conftest import or_skip

pytestmark = pytest.mark.qemu


def test_what_moved_is_what_nm_says() -> None:
    cases = ("getppid", "read", "stat")
    words = ("source:6.12,config=tiny", find_arch("x86_64"), (8,), cases)
    assert or_skip("source:6.12", report, *words) == 0
