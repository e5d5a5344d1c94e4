# SPDX-License-Identifier: GPL-2.0-or-later
"""What an exact comparison loads."""

import subprocess
import sys

from tests import ROOT

GOLDEN = ROOT / "tests" / "golden"


def test_an_exact_diff_loads_neither_numpy_nor_scipy() -> None:
    script = (
        "import sys; from kentry.cli import main; code = main(sys.argv[1:]);"
        " print(code, *{'numpy', 'scipy'} & set(sys.modules))"
    )
    files = [str(GOLDEN / f"arm64-6.{minor}.json") for minor in (1, 12)]
    done = subprocess.run(
        [sys.executable, "-c", script, "diff", *files], check=True, capture_output=True, text=True
    )
    assert done.stdout.splitlines()[-1] == "0"
