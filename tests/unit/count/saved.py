# SPDX-License-Identifier: GPL-2.0-or-later
"""A saved run: what a guest printed, and what the plugin wrote."""

import re
from pathlib import Path


def save(
    folder: Path, trace: str, said: str = "", arch: str = "arm64", closing: str = "spoilt 0\n"
) -> Path:
    """Writes a run with these lines in its trace, and with what its guest said, to the folder."""
    cases = len(set(re.findall(r"^message case (\S+)", trace, re.MULTILINE)))
    windows = sum(map(int, re.findall(r"^window (\d+)", trace, re.MULTILINE)))
    (folder / "console").write_text(
        f"kentry-probe start {arch}\nkentry-probe release 6.1\n{said}"
        f"kentry-probe end cases={cases}\n"
    )
    (folder / "trace").write_text(
        f"kentry-trace 1\nqemu any api=1\n{trace}message end {cases}\n{closing}end {windows}\n"
    )
    return folder
