# SPDX-License-Identifier: GPL-2.0-or-later
"""What ccache takes for the same object where only numbers of lines differ."""

from __future__ import annotations

import os
import re
import subprocess
from pathlib import Path

import pytest

from kentry.kernels import build

FUNCTION = "static inline int f(void) {{ return {}; }}\n"
COMMENT = "/* why\n * it\n * is\n */\n"


class Ccache:
    """gcc by way of a ccache of its own, on a file that includes one header."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        cpp = folder / "cpp"
        cpp.write_text(build._CPP)
        cpp.chmod(0o755)
        (folder / "a.c").write_text('#include "h.h"\nint g(void) { return f(); }\n')
        own = {"CCACHE_DIR": str(folder / "cache"), "CCACHE_PREFIX_CPP": str(cpp)}
        self.env = {**os.environ, **own, "CCACHE_NODEPEND": "1"}

    def object(self, header: str, flags: str = "-O2", **env: str) -> bytes:
        (self.folder / "h.h").write_text(header)
        argv = ["ccache", "gcc", *flags.split(), "-c", "a.c", "-o", "a.o"]
        subprocess.run(argv, env=self.env | env, cwd=self.folder, check=True)
        return (self.folder / "a.o").read_bytes()

    @property
    def hits(self) -> int:
        argv = ["ccache", "--print-stats"]
        text = subprocess.run(argv, env=self.env, check=True, capture_output=True, text=True).stdout
        found = re.search(r"^preprocessed_cache_hit\t(\d+)", text, re.MULTILINE)
        assert found
        return int(found[1])


@pytest.mark.parametrize("comments", [1, 2, 9])
def test_a_comment_in_a_header_is_no_new_object(tmp_path: Path, comments: int) -> None:
    ccache = Ccache(tmp_path)
    before = ccache.object(FUNCTION.format(1))
    after = ccache.object(COMMENT * comments + FUNCTION.format(1))
    assert ccache.hits == 1
    assert before == after
    assert after == ccache.object(COMMENT * comments + FUNCTION.format(1), CCACHE_DISABLE="1")


@pytest.mark.parametrize(
    ("first", "then", "flags"),
    [
        (FUNCTION.format(1), FUNCTION.format(2), "-O2"),
        (FUNCTION.format("__LINE__"), COMMENT + FUNCTION.format("__LINE__"), "-O2"),
        (FUNCTION.format(1), COMMENT + FUNCTION.format(1), "-O2 -g"),
        (FUNCTION.format(1), "#include <stddef.h>\n" + FUNCTION.format(1), "-O2"),
    ],
    ids=["another value", "a line's number", "debug info", "another header"],
)
def test_what_may_change_the_object_is_compiled(
    tmp_path: Path, first: str, then: str, flags: str
) -> None:
    ccache = Ccache(tmp_path)
    ccache.object(first, flags)
    after = ccache.object(then, flags)
    assert ccache.hits == 0
    assert after == ccache.object(then, flags, CCACHE_DISABLE="1")
