# SPDX-License-Identifier: GPL-2.0-or-later
"""A second boot in other contexts, and its windows beside those of the first.

docs/methods.md says what a context consists of and why two boots suffice.
"""

from collections.abc import Container
from dataclasses import replace

from kentry.boot.exact import ExactOptions
from kentry.boot.plugin_trace import PluginTrace
from kentry.results.recording import Instruction, renumbered

# The second boot has a dentry hash table so small that the names which each eighth round adds meet
# in chains (fs/dcache.c, dhash_entries=), and its memory is on the other side of 512 MiB: with less
# free when it boots, a kernel has no transparent huge pages (mm/huge_memory.c, hugepage_init()).
_MOST_SMALL, _SMALL, _LARGE = 576, 256, 1024  # MiB
_DENTRY_HASH = 4096
_LINKS = 5120
# Its rounds only record paths: the plugin's mode does not change, so each is quick.
_ROUNDS = 24
_WARMUP, _WINDOWS_A_ROUND = 4, 8


def second_boot(options: ExactOptions) -> ExactOptions:
    """How the same cases are measured in other contexts than those of the first boot."""
    return replace(
        options,
        check=False,
        console_file=None,
        windows=0,
        warmup=_WARMUP,
        path_windows=_WINDOWS_A_ROUND * _ROUNDS,
        rounds=_ROUNDS,
        links=_LINKS,
        dentry_hash=_DENTRY_HASH,
        seed=options.seed + 1,
        memory=_LARGE if options.memory <= _MOST_SMALL else _SMALL,
    )


def add_boot(
    trace: PluginTrace,
    code: list[Instruction],
    other: PluginTrace,
    its_code: list[Instruction],
    cases: Container[str],
) -> None:
    """Adds `cases` of a second boot of the same kernel to a trace and its code.

    Code is compared as linked, so it does not matter where KASLR put either.
    """
    places = {(one.address, one.code): index for index, one in enumerate(code)}
    moved = []
    for one in its_code:
        if (one.address, one.code) not in places:
            places[one.address, one.code] = len(code)
            code.append(one)
        moved.append(places[one.address, one.code])
    known = {tuple(runs): index for index, runs in enumerate(trace.paths)}
    paths = []
    for its_place, path in enumerate(renumbered(map(tuple, other.paths), moved)):
        if path not in known:
            known[path] = len(trace.paths)
            trace.paths.append(list(path))
            if its_place in other.accesses:
                trace.accesses[known[path]] = other.accesses[its_place]
        paths.append(known[path])
    for phase in (one for one in other.phases if one.case in cases):
        windows = [
            one if one.path is None else replace(one, path=paths[one.path]) for one in phase.windows
        ]
        trace.phases.append(
            replace(phase, windows=windows, context=phase.context + len(trace.contexts))
        )
    trace.contexts += other.contexts
