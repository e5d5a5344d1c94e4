# SPDX-License-Identifier: GPL-2.0-or-later
"""The benchmarks can be started as scripts, too."""

import sys

from tests import ROOT


def test_no_benchmark_stands_in_for_a_module_of_python() -> None:
    """A script's folder comes first where Python looks for modules."""
    names = {file.stem for file in (ROOT / "bench").glob("*.py")}
    assert not names & sys.stdlib_module_names
