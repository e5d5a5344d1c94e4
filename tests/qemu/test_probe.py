# SPDX-License-Identifier: GPL-2.0-or-later
"""Another probe counts the same: by another compiler, in another order, with a case more."""

import re
import shutil
import subprocess
from pathlib import Path

import pytest

from kentry.arch import Arch
from kentry.boot.exact import ExactOptions
from kentry.compare.counted import compare
from kentry.host.native import probe_file
from kentry.results.recording import CaseResult, Recording
from kentry.stats.exact import BETTER, WORSE
from tests import ROOT

from .conftest import skip
from .test_record import KERNEL, fetched, recorded

pytestmark = [pytest.mark.qemu, pytest.mark.slow]

CLANG = "clang-19"
CLANG_FLAGS = (
    "-std=gnu11 -O2 -w -ffreestanding -fno-stack-protector -fno-pic -fno-vectorize"
    " -fno-slp-vectorize -fno-asynchronous-unwind-tables -nostdlib -static -Wl,--build-id=sha1"
)
CASE = """
#include "case.h"
static long number[40] FOR_KERNEL = { 1 };
static char small[300], large[20000] IN_PAGES;
static long setup(struct work *w)
{
	small[3] = large[5] = (char)w->first.nr;
	return open_for_first(w, "/dev/zero", O_RDONLY);
}
CASE(a_case_more, "a-case-more", "", .first = CALL(read, 0, (long)number, 8), .want_first = 8,
     .setup = setup);
"""
# What the kernel copies from and to the probe, by words and by bytes, and what waits.
CASES = (
    *("getppid", "read", "write-64", "stat", "pipe", "signal", "epoll_wait"),
    *("nanosleep", "sendmsg+recvmsg", "timerfd"),
)
# Metrics of where data lies; the kernel's own lies where its allocators put it.
OF_PLACES = ("lines.data", "pages.data")


def another_probe(arch: Arch, folder: Path) -> Path:
    """By another compiler; a case more is linked first, all others in the opposite order."""
    if not shutil.which(CLANG):
        skip(f"no {CLANG}: apt-get install {CLANG}")
    case = folder / "case.c"
    case.write_text(CASE)
    listed = re.search(r"^SOURCES := (.*?) \$", (ROOT / "guest/Makefile").read_text(), re.MULTILINE)
    assert listed
    cases = [f"cases/{file.name}" for file in sorted((ROOT / "guest/cases").glob("*.c"))]
    sources = " ".join([str(case), *reversed([*listed[1].split(), *cases])])
    made = folder / "other" / f"probe-{arch.name}"
    compiler = f"CC_{arch.name}={CLANG} --target={arch.cross.removesuffix('-')}"
    words = (f"OUT={made.parent}", compiler, f"CFLAGS={CLANG_FLAGS}", f"SOURCES={sources}")
    subprocess.run(["make", "-s", "-C", str(ROOT / "guest"), *words, str(made)], check=True)
    return made


def own_data(case: CaseResult, size: int) -> int | None:
    """How many blocks of `size` bytes of the probe the path touches: the lower half's."""
    path = case.modal_path
    if not path or not path.accesses:
        return None
    return len({one.address // size for one in path.accesses if not one.address >> 63})


def differing(old: Recording, new: Recording) -> list[str]:
    """What counts otherwise, of cases whose count does not depend on the context."""
    found = []
    for case in old.cases:
        other = new.case(case.name)
        assert other
        if len(case.values) > 1 or len(other.values) > 1:
            continue
        compared = [name for name in case.metrics if not name.startswith(OF_PLACES)]
        # Compiled code of the probe stands between the marks of some.
        compared.remove("user_instructions")
        values = {name: (case.metrics[name], other.metrics.get(name)) for name in compared}
        found += [
            f"{case.name} {name}: {a.value} / {b and b.value}"
            for name, (a, b) in values.items()
            if not b or a.value != b.value
        ]
        for size in (32, 64, 128, 4096):
            if own_data(case, size) != own_data(other, size):
                found.append(f"{case.name} touches other blocks of {size} bytes of the probe's")
    return found


def test_another_probe_counts_the_same(arch: Arch, tmp_path: Path) -> None:
    other = another_probe(arch, tmp_path)
    assert probe_file(arch).read_bytes() != other.read_bytes()
    kernel = fetched(KERNEL, arch.name)
    old = recorded(kernel, ExactOptions(CASES, timeout=600))
    new = recorded(kernel, ExactOptions(CASES, probe=other, timeout=600))
    assert b"a-case-more" in other.read_bytes()
    assert differing(old, new) == []
    # Contexts are not the same: when the probe is interrupted depends on how long it runs, and
    # so does what the kernel's allocators have then.
    compared = compare(old, new)
    assert [row.name for row in compared.cases if row.verdict in (BETTER, WORSE)] == []
    assert sum(len(case.values) <= 1 for case in old.cases) >= len(CASES) / 2
    assert ["hash of the probe differs" in one["text"] for one in compared.caveats].count(True) == 1
