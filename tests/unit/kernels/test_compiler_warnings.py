# SPDX-License-Identifier: GPL-2.0-or-later
"""Which warnings are new between two builds, of which the second compiles little again."""

from __future__ import annotations

from pathlib import Path

from kentry.host.cache import cache_dir
from kentry.kernels.compiler_warnings import Reader, Warnings, added

# What GCC 12 printed of a file, a header in it and one in that.
SAID = """\
In file included from /tree/m.h:1,
                 from /tree/kernel/a.c:1:
/tree/h.h: In function 'two':
/tree/h.h:2:28: warning: unused variable 'y' [-Wunused-variable]
    2 | static int two(void) { int y; return 1; }
      |                            ^
/tree/kernel/a.c: In function 'f':
/tree/kernel/a.c:2:19: warning: unused variable 'x' [-Wunused-variable]
    2 | int f(void) { int x; return 0; }
      |                   ^
/tree/h.h: At top level:
/tree/h.h:2:12: warning: 'two' defined but not used [-Wunused-function]
"""
HEADER = [
    "h.h:2: unused variable 'y' [-Wunused-variable]",
    "h.h:2: 'two' defined but not used [-Wunused-function]",
]
OWN = "kernel/a.c:2: unused variable 'x' [-Wunused-variable]"


def built(folder: Path, *compiled: str, said: str = "") -> Warnings:
    reader = Reader(folder / "warnings", Path("/tree"))
    for made in compiled:
        reader.compiles(made)
    for line in said.splitlines():
        reader.read(line)
    return reader.kept()


def test_a_headers_warnings_are_of_the_file_that_includes_it() -> None:
    known = built(cache_dir("built"), "kernel/a.o", said=SAID)
    assert known == {"kernel/a": [HEADER[0], OWN, HEADER[1]]}


def test_only_what_is_compiled_again_loses_its_warnings() -> None:
    objects = cache_dir("built")
    first = built(objects, "kernel/a.o", "kernel/b.o", said=SAID)
    second = built(objects, "kernel/b.o", said="/tree/kernel/b.c:7: warning: new")
    assert second == {**first, "kernel/b": ["kernel/b.c:7: new"]}
    assert added(first, second) == ["kernel/b.c:7: new"]
    assert built(objects, "kernel/a.o") == {"kernel/b": ["kernel/b.c:7: new"]}


def test_a_warning_in_another_line_is_not_new_and_a_second_one_is() -> None:
    old, new = ({"a": texts} for texts in (["a.c:2: x"], ["a.c:9: x", "a.c:12: x", "a.c:9: y"]))
    assert added(old, new) == ["a.c:12: x", "a.c:9: y"]
    assert not added(new, old)
