# SPDX-License-Identifier: GPL-2.0-or-later
"""Small outputs in each tool's form, with numbers made up for these tests."""

from kentry.importing.import_file import Imported, import_text


def imported(text: str, arch: str = "") -> Imported:
    """Everything in a text of these tests."""
    return import_text(text, "sample.txt", arch)


def values(text: str) -> list[tuple[int, str, str, str, str]]:
    """Line, side, case, metric and the published number of everything in it."""
    return [(n.line, n.side, n.case, n.metric, n.published) for n in imported(text).numbers]


LAT_SYSCALL = """\
Before:
Simple syscall: 0.2000 microseconds
Simple read: 0.3010 microseconds
Simple write: 0.2550 microseconds
Simple stat: 1.5000 microseconds
Simple fstat: 0.4000 microseconds
Simple open/close: 3.2500 microseconds

After:
Simple syscall: 0.1900 microseconds
Simple syscall: 0.1910 microseconds
"""

PERF_BENCH = """\
machine booted with nopti:
--------------------

# perf bench syscall basic
# Running 'syscall/basic' benchmark:
# Executed 10000000 getppid() calls
     Total time: 1.250 [sec]

       0.125000 usecs/op
        8000000 ops/sec

same machine booted with pti:
--------------------

# Running 'syscall/basic' benchmark:
# Executed 10.000.000 getppid() calls
     Total time: 2.500 [sec]

       0,250000 usecs/op
      4.000.000 ops/sec
# Running 'syscall/getpgid' benchmark:
# Executed 1,00,00,000 getpgid() calls
     Total time: 2.500 [sec]

       0.250000 usecs/op
      40,00,000 ops/sec
# Running 'syscall/execve' benchmark:
# Executed 10,000 execve() calls
     Total time: 5.000 [sec]

     500.000000 usecs/op
          2,000 ops/sec
"""

MARKDOWN = """\
Source: a mail. Columns of the commit are left out.

| side     | getpid@fast (cycles) | getpid@slow (cycles) |
|----------|---------------------:|---------------------:|
| Baseline | 50                   | 250                  |
| First    | 50                   | 240                  |
| Second   | 45                   | -                    |

| other | table |
|-------|-------|
| 1     | 2     |
"""

TICKS = "side,case,ticks\nbefore,getpid+vec=once,2.5\n"

CSV = """\
# Source: an article.
side,case,us
before,getppid,0.2010
before,getppid,0.2000
after,getppid,~0.19
"""

PERCENTAGES = """\
| side    | case            | of              | ticks |
|---------|-----------------|-----------------|-------|
| patched | getpid+vec=once | getpid+vec=none | ~6%   |
| patched | getpid+vec=each | without it      | -0.4% |
"""

# In the forms of documents that people posted: the side above, the unit in the text.
PER_CALL = """\
Without the patch:
V=1 250.5 ns/call (2505000000 ns / 10000000 iters)

With the patch:
V=1 260.0 ns/call (2600000000 ns / 10000000 iters)
"""

COLUMNS = """\
A "TEST".  In the table below, "FAST" is for one way and "SLOW" for another.
All numbers are cycle counts.

\t\t\t\t  getpid\t  getuid
 Baseline (of a tree):\t40\t254\t232\t249
 Use ar:br:40\t245\t217\t242
"""

ALL = {
    "lat_syscall": LAT_SYSCALL,
    "perf-bench": PERF_BENCH,
    "per-call": PER_CALL,
    "columns": COLUMNS,
    "table": "\n".join((MARKDOWN, TICKS, CSV, PERCENTAGES)),
}
