# SPDX-License-Identifier: GPL-2.0-or-later
"""Why a window took another path than most: named by the functions it alone went through."""

import re
from collections import Counter
from collections.abc import Mapping

# What happened, by a function that only runs when it does; the first that matches says it.
_REASONS: tuple[tuple[str, re.Pattern[str]], ...] = (
    ("interrupt", re.compile(r"handle_irq_event|generic_handle_arch_irq|do_irq|sysvec_\w+")),
    ("reschedule", re.compile(r"__schedule|schedule")),
    ("page fault", re.compile(r"do_page_fault|exc_page_fault|handle_mm_fault")),
    ("RCU", re.compile(r"rcu_core|rcu_do_batch|note_gp_changes|call_rcu\w*|__call_rcu\w*")),
    ("page allocator", re.compile(r"__alloc_pages\w*|get_page_from_freelist|free_pcppages_bulk")),
    (
        "slab refill",
        re.compile(r"___slab_alloc|__slab_free|new_slab|allocate_slab|put_cpu_partial"),
    ),
    ("random pool refill", re.compile(r"get_random_\w+|_get_random_bytes|crng_\w+")),
    ("task work", re.compile(r"task_work_run|resume_user_mode_work")),
)
_NAMED = 3


def why(modal: Mapping[str, int], other: Mapping[str, int]) -> str:
    """What a path with `other` instructions a function did that the modal one did not."""
    extra = Counter(other)
    extra.subtract(modal)
    grown = [name for name, count in extra.most_common() if count > 0]
    for reason, pattern in _REASONS:
        if any(pattern.fullmatch(name) and name not in modal for name in grown):
            return reason
    if grown:
        return "more in " + ", ".join(grown[:_NAMED])
    shrunk = sorted((name for name, count in extra.items() if count < 0), key=lambda n: extra[n])
    if shrunk:
        return "less in " + ", ".join(shrunk[:_NAMED])
    return "the same functions, other instructions"
