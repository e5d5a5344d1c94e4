# SPDX-License-Identifier: GPL-2.0-or-later
"""Tries an emulator with the plugin before its first use: a count that is known by hand.

guest/floor/ is a kernel whose instructions are counted in its source.  An emulator that counts them
right is remembered by what it is: its file, its version, the plugin, the floor.
"""

from pathlib import Path

from kentry.arch import Arch
from kentry.boot.exact import ExactOptions, QemuRunner, emulator_of
from kentry.errors import MissingToolError
from kentry.host.cache import cache_dir, digest_of, held, read_json, sha256_of, write_json
from kentry.host.native import plugin_file
from kentry.kernels.image import resolve_floor
from kentry.kernels.spec import FLOOR_CASES, parse
from kentry.progress import Update


def self_test(arch: Arch, options: ExactOptions, update: Update) -> None:
    """Boot the floor, unless that went well before; MissingToolError for a wrong count."""
    emulator = emulator_of(arch, options)
    floor = resolve_floor(parse("floor:"), arch)
    files = [Path(word).stat() for word in emulator.argv if word.startswith("/")]
    facts = {
        "emulator": [*emulator.argv, emulator.version],
        "files": [[file.st_size, file.st_mtime_ns] for file in files],
        "plugin": sha256_of(plugin_file()),
        "floor": floor.image_sha256,
        "counts": arch.floor,
    }
    kept = cache_dir("emulators-tried") / f"{digest_of(facts)}.json"
    with held(kept.with_name("lock"), update, "another kentry that tries an emulator"):
        if read_json(kept) == facts:
            return
        update(None, f"trying QEMU {emulator.version} on a count known by hand")
        how = ExactOptions(
            cases=FLOOR_CASES,
            windows=50,
            path_windows=2,
            warmup=4,
            rounds=1,
            cpu=options.cpu,
            emulator=options.emulator,
            timeout=options.timeout,
        )
        trace = QemuRunner(arch).run(floor, how, lambda fraction, now: None).trace
        for case, right in arch.floor.items():
            phases = [p for p in trace.phases if p.case == case and p.name in ("count", "path")]
            counted = sorted({window.kernel for phase in phases for window in phase.windows})
            if counted != [right]:
                said = " or ".join(map(str, counted)) or "nothing"
                raise MissingToolError(
                    f"QEMU {emulator.version} with kentry's plugin counts wrong: {case} on kentry's"
                    f" floor is {right} instructions, and it counts {said}.",
                    "Choose another with --emulator, and report it with the output of kentry"
                    " doctor.",
                )
        write_json(kept, facts)
