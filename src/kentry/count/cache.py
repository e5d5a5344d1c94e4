# SPDX-License-Identifier: GPL-2.0-or-later
"""Recordings that were made before, by the content of everything that shapes one."""

import contextlib
import functools
import hashlib
import json
import os
import re
from array import array
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from pathlib import Path

from msgspec.structs import replace

import kentry
from kentry.arch import Arch
from kentry.arch.processors import find_processor, machine_for, words_for
from kentry.boot.emulator import CHOICES
from kentry.boot.exact import ExactOptions, FakeRunner, QemuRunner, Runner, emulator_of
from kentry.count.joining import joined, only
from kentry.count.recorder import measure
from kentry.count.self_test import self_test
from kentry.count.vector_units import boots, check_options
from kentry.errors import RecordingError
from kentry.host.cache import cache_dir, check_room, digest_of, sha256_of
from kentry.host.native import plugin_file, probe_file
from kentry.kernels import symtab
from kentry.kernels.kernel import Kernel
from kentry.progress import Update, say
from kentry.results import caveats
from kentry.results.recording import Recording, read_recording, write_recording

FAKE = "KENTRY_FAKE"  # a folder with a saved run to use instead of a boot; see FakeRunner
_RECORDING_BYTES = 32 << 20  # that of a whole matrix has up to 18 MB
_CASES = "cases"  # the key of made_for() with the cases' names

# Below the package's folder: what only times, and what comes after a recording.
_DOWNSTREAM = (
    *("__main__", "cli", "commands", "show", "importing", "study", "compare", "time"),
    *("vector", "models", "machines", "store"),
)


def record(
    kernel: Kernel, arch: Arch, options: ExactOptions, update: Update, *, reuse: bool
) -> Recording:
    """Measures a kernel, a boot for each vector length; with `reuse` the cache may have them."""
    check_options(kernel, options)
    recordings = []
    for boot in boots(options):
        wanted = made_for(kernel, arch, boot)
        # Beside those of other cases measured alike.
        alike = {name: value for name, value in wanted.items() if name != _CASES}
        kept = cache_dir("recordings", digest_of(alike)) / f"{digest_of(wanted)}.json"
        known = _known(kept, wanted) if reuse else None
        if known:
            recordings.append(known)
            continue
        if not reuse and any(_candidates(kept, boot.cases)):
            say(f"{kernel.spec} boots again, although the cache has a recording of it")
        check_room(kept.parent, _RECORDING_BYTES)
        fake = os.environ.get(FAKE)
        runner: Runner = FakeRunner(Path(fake)) if fake else QemuRunner(arch)
        if not fake:
            self_test(arch, boot, update)
        recordings.append(replace(measure(kernel, runner, boot, update), made_for=wanted))
        # A boot that failed may succeed next time, so it is not kept.
        if caveats.one_boot.kind not in {caveat["kind"] for caveat in recordings[-1].caveats}:
            write_recording(recordings[-1], kept)
    return joined(recordings)


def _known(kept: Path, wanted: dict[str, str]) -> Recording | None:
    """The cases of `wanted` from `kept`, or from a recording beside it that has them all."""
    cases = wanted[_CASES].split()
    for file in _candidates(kept, cases):
        try:
            recording = read_recording(file)
        except RecordingError as err:
            say(f"{err.sentence} It is made again.")
            continue
        compared = wanted.keys() if file == kept else wanted.keys() - {_CASES}
        own = recording.made_for
        if what := ", ".join(sorted(fact for fact in compared if own.get(fact) != wanted[fact])):
            say(f"{file} was recorded for something else ({what} differs). It is made again.")
        elif file == kept:
            return recording
        elif all(recording.case(name) for name in cases):
            return replace(only(recording, cases), made_for=wanted)
    return None


def _candidates(kept: Path, cases: Sequence[str]) -> Iterator[Path]:
    """`kept` if it exists, then the recordings beside it that say that they have all cases."""
    if kept.exists():
        yield kept
    for file in sorted({*kept.parent.glob("*.json")} - {kept}):
        names = None
        with contextlib.suppress(OSError), file.open(encoding="utf-8", errors="replace") as text:
            names = re.search(rf'"{_CASES}": "([^"]*)"', text.read(1 << 16))
        if names and set(cases) <= set(names[1].split()):
            yield file


def made_for(kernel: Kernel, arch: Arch, options: ExactOptions) -> dict[str, str]:
    """Returns all that the recording of one boot depends on, as texts or their hashes."""
    measured_with = asdict(options)
    for name in ("console_file", "timeout", "probe", "cases"):
        del measured_with[name]
    # A saved run's files, or the emulator's version.
    if fake := os.environ.get(FAKE):
        files = [Path(fake, name) for name in ("console", "trace", "blocks")]
        target = [sha256_of(file) for file in files if file.exists()]
    else:
        target = [emulator_of(arch, options).version]
        if options.emulator not in CHOICES:
            # A program named by its path may be anything that calls itself this version.
            target.append(sha256_of(Path(os.path.expanduser(options.emulator))))
    processor = find_processor(arch, options.cpu)
    machine = [machine_for(arch, processor, options.cases), *words_for(options.cases)]
    return {
        **of_kernel(kernel),
        "debug info": symtab.reader() or "" if kernel.debug_info else "",
        "emulator": " ".join(target),
        "processor": " ".join([*machine, processor.qemu()]),
        "probe": sha256_of(options.probe or probe_file(arch)),
        "plugin": sha256_of(plugin_file()),
        "options": json.dumps(measured_with, sort_keys=True),
        _CASES: " ".join(options.cases),
    }


def of_kernel(kernel: Kernel) -> dict[str, str]:
    """Returns what all that is made of a kernel depends on: the kernel, and kentry's own code."""
    symbols = hashlib.sha256(array("Q", kernel.symbols.addresses).tobytes())
    symbols.update("\0".join([kernel.symbols.kinds, *kernel.symbols.names]).encode())
    return {
        "kentry": f"{kentry.__version__} {code_digest()}",
        "spec": kernel.spec,
        "image": kernel.image_sha256,
        "config": kernel.config_sha256 or "",
        # The recording says where the image is from, so one from elsewhere has its own.
        "origin": json.dumps(kernel.origin, sort_keys=True),
        "symbols": f"{kernel.symbols_from} {symbols.hexdigest()}",
    }


@functools.cache
def code_digest(package: Path = Path(kentry.__file__).parent) -> str:
    """Returns a hash of the modules that make a recording: all but those of _DOWNSTREAM.

    A process reads them once: what it runs is what it loaded.
    """
    digest = hashlib.sha256()
    for file in sorted(package.rglob("*.py")):
        name, content = file.relative_to(package), file.read_bytes()
        if not name.as_posix().startswith(_DOWNSTREAM):
            digest.update(f"{name} {len(content)}\n".encode() + content)
    return digest.hexdigest()
