# SPDX-License-Identifier: GPL-2.0-or-later
"""will-it-scale: runtest.py's table of tasks, and a test program's own lines, one a second."""

import re
from collections.abc import Iterator

from kentry.importing.published import OPS, Number, Text

_TEST = re.compile(r"runtest\.py\s+([a-z_]+?)\d*\b|([a-z_]+?)\d*_(?:processes|threads)\b")
_HEADER = "tasks,processes,processes_idle,threads,threads_idle,linear"
_ROW = re.compile(r"\s*(\d+),(\d+),[\d.]+,(\d+),[\d.]+,\d+")
_TESTCASE = re.compile(r"\s*testcase:.*?(?:(\w+)\(\)|$)")
_SECOND = re.compile(r"\s*min:\d+ max:\d+ total:(\d+)")


def read(text: Text) -> Iterator[Number]:
    """Operations a second by the number of tasks, and each second of a program's measurement."""
    case, side = "will-it-scale", ""
    in_table = is_warm_up = False
    for number, line in text:
        if match := _TEST.search(line):
            case = match[1] or match[2]
        if line.strip().startswith(_HEADER):
            in_table, side = True, text.side(number)
        elif in_table and (match := _ROW.match(line)):
            tasks = int(match[1])
            for rate, kind in ((match[2], "processes"), (match[3], "threads")):
                # The tool prints 0 where the test has no such mode.
                if tasks and int(rate):
                    is_single = tasks == 1 and kind == "processes"
                    name = case if is_single else f"{case}/{tasks}-{kind}"
                    yield Number(number, side, name, OPS, rate, "ops/s")
        elif line.strip():
            in_table = False
        if match := _TESTCASE.match(line):
            case, side = match[1] or case, text.side(number)
        elif line.strip() in ("warmup", "measurement"):
            is_warm_up = line.strip() == "warmup"
        elif (match := _SECOND.match(line)) and not is_warm_up:
            yield Number(number, side, case, OPS, match[1], "ops/s", lacks=())
