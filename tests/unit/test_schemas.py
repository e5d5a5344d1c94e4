# SPDX-License-Identifier: GPL-2.0-or-later
"""The schemas in schema/ are those of the structs."""

import subprocess
import sys
from pathlib import Path

from tests import ROOT


def test_the_shipped_schemas_are_generated_from_the_structs(tmp_path: Path) -> None:
    """`python scripts/schemas.py schema` renews them."""
    subprocess.run([sys.executable, ROOT / "scripts" / "schemas.py", tmp_path], check=True)
    made, shipped = (
        {file.name: file.read_text() for file in folder.iterdir()}
        for folder in (tmp_path, ROOT / "schema")
    )
    assert made == shipped
