# SPDX-License-Identifier: GPL-2.0-or-later
"""What a walk leaves of the probe's own code in a cache, by the fetches that valgrind lists."""

import os
import platform
import re
import shutil
import subprocess
from collections import OrderedDict, defaultdict
from itertools import groupby, pairwise
from pathlib import Path

import pytest

from kentry.arch import host_arch
from kentry.host.native import probe_file

_FETCH = re.compile(rb"^I +([0-9a-f]+),", re.MULTILINE)
# The probe is linked below, and what it maps lies above; in lines of 64 bytes.
_MAPPED = 0x1000000 // 64
# A cache of 32 KiB for code: the line used longest ago is replaced.
_SETS, _WAYS = 64, 8


def fetched(folder: Path, case: str) -> list[int]:
    """The lines that the process of a slot fetched instructions from, in order."""
    words = ["groups=1", "turns=2", "blocks=3", "calls=1", "seed=1", f"cases={case}"]
    argv = ["valgrind", "--tool=lackey", "--trace-mem=yes", f"--log-file={folder}/%p"]
    argv += [str(probe_file(host_arch())), "time", *words]
    subprocess.run(argv, check=True, capture_output=True)
    logs = [_FETCH.findall(file.read_bytes()) for file in folder.iterdir()]
    # The probe itself reads its clock many times; of its children the slot does most.
    log = sorted(logs, key=len)[-2]
    return [int(address, 16) // 64 for address in log]


def evicted(lines: list[int]) -> list[bool]:
    """Whether each fetch misses a line that was there before."""
    sets: dict[int, OrderedDict[int, None]] = defaultdict(OrderedDict)
    seen: set[int] = set()
    found = []
    for line in lines:
        ways = sets[line % _SETS]
        found.append(line in seen and line not in ways)
        seen.add(line)
        ways[line] = None
        ways.move_to_end(line)
        if len(ways) > _WAYS:
            ways.popitem(last=False)
    return found


@pytest.mark.slow
@pytest.mark.parametrize(
    ("walk", "count"),
    [("64K", 0), ("64K:code", 1024), ("5K:code", 80), ("1000:code", 16)],
)
def test_a_walk_through_code_runs_each_line_and_leaves_none_of_others(
    walk: str, count: int, tmp_path: Path
) -> None:
    if not shutil.which("valgrind") or platform.machine() != "x86_64":
        assert not os.environ.get("KENTRY_TEST_FORCE") or platform.machine() != "x86_64"
        pytest.skip(
            "no valgrind for x86-64 programs here (to make this a failure: KENTRY_TEST_FORCE=1)"
        )
    lines = fetched(tmp_path, f"getppid+cache={walk}")
    is_evicted = evicted(lines)
    pieces = [
        [n for n, _ in piece]
        for _, piece in groupby(enumerate(lines), lambda one: one[1] >= _MAPPED)
    ]
    walks = [[lines[n] for n in piece] for piece in pieces[1::2]]
    # One to map the pages; in each of two turns a warm-up, three calls and an empty reading.
    assert len(walks) == (11 if count else 0)
    for one in walks:
        assert one == walks[0] and len(one) == len(set(one)) == count
        # No prefetcher of the next line knows it.
        assert all(abs(a - b) > 1 for a, b in pairwise(one))
    if count < 1024:
        assert not any(is_evicted)
    # The second of three calls in a row: nothing of what the first ran through is there.
    for calls in (pieces[6], pieces[16]) if count == 1024 else ():
        before = set(lines[: calls[0]])
        first_fetches = {lines[n]: is_evicted[n] for n in reversed(calls) if lines[n] in before}
        assert len(first_fetches) > 3 and all(first_fetches.values())
