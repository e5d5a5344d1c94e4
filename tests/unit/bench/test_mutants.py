# SPDX-License-Identifier: GPL-2.0-or-later
"""The tests of a mutant run the mutant: kentry is imported from its copy of the checkout."""

import subprocess
import sys

from tests import ROOT


def test_kentry_is_not_imported_before_its_copy() -> None:
    program = "import sys, bench.mutants; sys.exit('kentry' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", program], cwd=ROOT, check=False).returncode == 0
