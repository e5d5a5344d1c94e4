# SPDX-License-Identifier: GPL-2.0-or-later
"""Recordings that were made before, by the content of everything that shapes one."""

import contextlib
import hashlib
import json
import os
from array import array
from dataclasses import asdict
from pathlib import Path

import kentry
from kentry.arch import Arch
from kentry.boot.emulator import CHOICES, find_emulator
from kentry.boot.exact import ExactOptions, FakeRunner, QemuRunner, Runner
from kentry.count.joining import joined
from kentry.count.recorder import measure
from kentry.count.vector_units import boots, check_options
from kentry.errors import RecordingError
from kentry.host.cache import cache_dir, check_room, sha256_of
from kentry.host.native import plugin_file, probe_file
from kentry.kernels import source_lines
from kentry.kernels.kernel import Kernel
from kentry.progress import Update
from kentry.results import caveats
from kentry.results.recording import Recording, read_recording, write_recording

# A folder with a saved run to use instead of a boot; see FakeRunner.
FAKE = "KENTRY_FAKE"
# The recording of a whole matrix has up to 18 MB.
_RECORDING_BYTES = 32 << 20

# Below the package's folder: what only times, and what comes after a recording.
_DOWNSTREAM = (
    *("__main__", "cli", "commands", "show", "importing", "study", "compare", "time"),
    *("vector", "models", "machines"),
)


def record(
    kernel: Kernel, arch: Arch, options: ExactOptions, update: Update, *, reuse: bool
) -> Recording:
    """Measures a kernel, with one boot for each vector length; writes each boot to the cache.

    With `reuse`, a boot whose recording is in the cache does not take place.
    """
    check_options(kernel, options.cases)
    recordings = []
    for one in boots(options):
        kept = cache_dir("recordings") / f"{content_key(kernel, arch, one)}.json"
        if reuse and kept.exists():
            with contextlib.suppress(RecordingError):
                recordings.append(read_recording(kept))
                continue
        check_room(kept.parent, _RECORDING_BYTES)
        fake = os.environ.get(FAKE)
        runner: Runner = FakeRunner(Path(fake)) if fake else QemuRunner(arch)
        recordings.append(measure(kernel, runner, one, update))
        # A boot that failed may not fail again.
        if caveats.one_boot.kind not in {caveat["kind"] for caveat in recordings[-1].caveats}:
            write_recording(recordings[-1], kept)
    return joined(recordings)


def content_key(kernel: Kernel, arch: Arch, options: ExactOptions) -> str:
    """A hash of all that the recording of one boot depends on."""
    measured_with = asdict(options)
    del measured_with["console_file"], measured_with["timeout"], measured_with["probe"]
    # A saved run's files, or the emulator's version.
    if fake := os.environ.get(FAKE):
        files = [Path(fake, name) for name in ("console", "trace", "blocks")]
        target = [sha256_of(file) for file in files if file.exists()]
    else:
        target = [find_emulator(arch, options.emulator).version]
        if options.emulator not in CHOICES:
            # A program named by its path may be anything that calls itself this version.
            target.append(sha256_of(Path(options.emulator).expanduser()))
    symbols = hashlib.sha256(array("Q", kernel.symbols.addresses).tobytes())
    symbols.update("\0".join([kernel.symbols.kinds, *kernel.symbols.names]).encode())
    parts = {
        "kentry": [kentry.__version__, own_digest()],
        "spec": kernel.spec,
        "image": kernel.image_sha256,
        "config": kernel.config_sha256,
        # The recording says where the image is from, so one from elsewhere has its own.
        "origin": kernel.origin,
        "symbols": [kernel.symbols_from, symbols.hexdigest()],
        "debug_info": source_lines.reader() if kernel.debug_info else None,
        "probe": sha256_of(options.probe or probe_file(arch)),
        "plugin": sha256_of(plugin_file()),
        "target": target,
        "machine": [arch.machine, arch.cpu_with(), *arch.boot_words],
        "options": measured_with,
    }
    return hashlib.sha256(json.dumps(parts, sort_keys=True).encode()).hexdigest()


def own_digest() -> str:
    """code_digest() of this kentry."""
    return code_digest(Path(kentry.__file__).parent)


def code_digest(package: Path) -> str:
    """A hash of the modules that make a recording: all but those of _DOWNSTREAM."""
    digest = hashlib.sha256()
    for file in sorted(package.rglob("*.py")):
        name, content = file.relative_to(package), file.read_bytes()
        if not name.as_posix().startswith(_DOWNSTREAM):
            digest.update(f"{name} {len(content)}\n".encode() + content)
    return digest.hexdigest()
