# SPDX-License-Identifier: GPL-2.0-or-later
"""Addresses to functions; and what a path's functions say about it."""

import bisect
import re
from collections import Counter
from collections.abc import Iterable, Mapping
from functools import lru_cache

UNNAMED = "[unnamed]"

# Of several names for one address, the one a developer would use: not a position-
# independent alias, not a section's mark, not a compiler's local label.
_POOR = re.compile(r"__pi_|__cfi_|\.L|_stext$|_etext$|_text$|__\w+_(start|end)$|\w+_(start|end)$")

# Marks between code and data that assemblers leave: $x, $d, and clones of them.
_LABEL = re.compile(r"\$[xd]")

# What compilers append to a function they cloned or split.
_CLONE = re.compile(r"(\.(constprop|isra|part|cold|llvm|lto_priv)(\.\d+)*)+$")

# Why a function executes another number of instructions in another context.
_IN_CONTEXT = {
    "other names in a dentry hash chain": r"\w*d_lookup\w*",
    "digits of the clock": r"\w*(ktime|timekeep|clock|timespec)\w*",
    "random pool refill": r"\w*(random|crng|chacha|blake2s)\w*",
    "which slab object or page is free": (
        r"\w*(slab|kmem_cache|kmalloc|kfree|cache_from_obj|check_object_size|obj_cgroup)\w*"
        r"|(__)?memset\w*|(__)?mem(cpy|move)\w*"
    ),
    "which page is free": r"\w*(page|folio|lru|rmqueue|pcp)\w*",
    "which process numbers are in use": r"\w*(radix_tree|idr_)\w*|delete_node",
    "whether the idle task's loop ran an even number of times": r"cpu_startup_entry|do_idle",
    "order of tasks and timers": (r"\w*(sched|(en|de)queue|pelt|hrtimer|timer|rb_|vruntime)\w*"),
}

# What happened, by a function that only runs when it does; the first that matches says it.
_REASONS = {
    "interrupt": r"handle_irq_event|generic_handle_arch_irq|do_irq|sysvec_\w+",
    "reschedule": r"__schedule|schedule",
    "page fault": r"do_page_fault|exc_page_fault|handle_mm_fault",
    "RCU": r"rcu_core|rcu_do_batch|note_gp_changes|call_rcu\w*|__call_rcu\w*",
    "page allocator": r"__alloc_pages\w*|get_page_from_freelist|free_pcppages_bulk",
    "slab refill": r"___slab_alloc|__slab_free|new_slab|allocate_slab|put_cpu_partial",
    "random pool refill": r"get_random_\w+|_get_random_bytes|crng_\w+",
    "task work": r"task_work_run|resume_user_mode_work",
}
_NAMED = 3

# Functions of which the number of instructions depends on the kernel's state: they allocate, look
# up, calculate with a clock, draw random numbers, or order tasks and timers.
_STATEFUL = re.compile(
    r"k(mem_cache|[mzv]?m?alloc|v?free)\w*|\w*slab\w*|\w*(alloc|free)\w*page\w*|\w*rmqueue\w*"
    r"|\w*folio\w*|\w*d_(lookup|alloc)\w*|lookup_fast\w*|\w*ktime\w*|\w*timekeep\w*|\w*sched_clock\w*"
    r"|\w*random\w*|crng\w*|\w*hrtimer\w*|timerqueue\w*|rb_\w+|\w*schedule\w*|update_curr\w*"
    r"|\w*rcu_(core|gp|cblist|segcblist)\w*|idr_\w+|ida_\w+|\w*radix_tree\w*|xas_\w+|mas_\w+|mt\w*_\w+"
)


class SymbolMap:
    """The function at an address; `end` is the first address after the kernel's text."""

    def __init__(self, symbols: Iterable[tuple[int, str]], end: int | None = None) -> None:
        best: dict[int, str] = {}
        for address, name in symbols:
            if not _LABEL.search(name):
                best[address] = min(best.get(address, name), name, key=_quality)
        self._addresses = sorted(best)
        self._names = [best[address] for address in self._addresses]
        self._end = end

    @property
    def functions(self) -> tuple[tuple[int, str], ...]:
        """Every function's address and name, by address."""
        return tuple(zip(self._addresses, self._names, strict=True))

    def find(self, address: int) -> tuple[str, int]:
        """The function that has `address`, and the bytes before it there; else UNNAMED, 0."""
        at = bisect.bisect_right(self._addresses, address) - 1
        if at < 0 or (self._end is not None and address >= self._end):
            return UNNAMED, 0
        return self._names[at], address - self._addresses[at]


def _quality(name: str) -> tuple[bool, int, str]:
    return (bool(_POOR.match(name)), len(name) - len(name.lstrip("_")), name)


@lru_cache(maxsize=1 << 14)
def base_name(function: str) -> str:
    """Returns a function's name without what compilers append: foo for foo.constprop.0."""
    return _CLONE.sub("", function)


def depends_on_context(functions: Iterable[str]) -> bool:
    """Returns whether a path of these functions may be another one in another context."""
    return any(_STATEFUL.fullmatch(name) for name in functions)


def why_in_context(function: str) -> str:
    """Why the function's share of a path differs from context to context; "" if not known."""
    return next((why for why, names in _IN_CONTEXT.items() if re.fullmatch(names, function)), "")


def why(modal: Mapping[str, int], other: Mapping[str, int]) -> str:
    """Returns what a path with `other` instructions a function did that the modal one did not."""
    extra = Counter(other)
    extra.subtract(modal)
    grown = [name for name, count in extra.most_common() if count > 0]
    for reason, names in _REASONS.items():
        if any(re.fullmatch(names, name) and name not in modal for name in grown):
            return reason
    if grown:
        return f"more in {', '.join(grown[:_NAMED])}"
    if shrunk := sorted((name for name in extra if extra[name] < 0), key=extra.__getitem__):
        return f"less in {', '.join(shrunk[:_NAMED])}"
    return "the same functions, other instructions"
