# SPDX-License-Identifier: GPL-2.0-or-later
"""Folded stacks, which flamegraph.pl and inferno-flamegraph read: a line a stack, and its count.

The outermost function is first, below the case.  Of two recordings each line has two counts, as
difffolded.pl writes them, and a flame graph shows the difference.
"""

import re
from collections import Counter
from collections.abc import Sequence

from kentry.results.recording import Recording
from kentry.show.export.common import Export
from kentry.show.export.stacks import stacks

# ";" ends a function, a blank ends the stack, and "#" begins a comment.
_NO_CHARACTER = re.compile(r"[;\s#]")


def export(recordings: Sequence[Recording]) -> Export:
    """Write one recording, or two as a difference: only the cases that both have."""
    of_both = stacks(recordings).in_common()
    counts = [Counter[str]() for _ in recordings]
    for case in of_both.cases:
        for position in range(len(case.path)):
            words = (_NO_CHARACTER.sub("_", word) for word in case.stack(position))
            counts[case.number][";".join(words)] += 1
    # In the order of execution, the first recording's stacks first.
    lines = [
        " ".join([stack, *(str(one[stack]) for one in counts)])
        for stack in dict.fromkeys(stack for one in counts for stack in one)
    ]
    return Export("\n".join(lines) + "\n", of_both.notes)
