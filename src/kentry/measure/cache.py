# SPDX-License-Identifier: GPL-2.0-or-later
"""Recordings that were made before, by the content of everything that shapes one."""

from __future__ import annotations

import ast
import contextlib
import hashlib
import json
import os
from collections.abc import Iterator
from dataclasses import asdict
from functools import cache
from pathlib import Path

import kentry
from kentry.arch import Arch
from kentry.errors import RecordingError
from kentry.host.cache import cache_dir, sha256_of
from kentry.host.native import plugin_file, probe_file
from kentry.kernels.kernel import Kernel
from kentry.measure.counting import measure
from kentry.measure.joining import joined
from kentry.measure.vector_units import boots, check_options
from kentry.model.recording import Recording, read_recording, write_recording
from kentry.progress import Update
from kentry.runners.emulator import CHOICES, find_emulator
from kentry.runners.exact import ExactOptions, Runner
from kentry.runners.fake import FakeRunner
from kentry.runners.qemu import QemuRunner

# A folder with a saved run to use instead of a boot: runners/fake.py.
FAKE = "KENTRY_FAKE"


def record(
    kernel: Kernel, arch: Arch, options: ExactOptions, update: Update, *, reuse: bool
) -> Recording:
    """Measures a kernel, with one boot for each vector length; writes each boot to the cache.

    With `reuse`, a boot whose recording is in the cache does not take place.
    """
    check_options(kernel, options.cases)
    return joined([_boot(kernel, arch, one, update, reuse=reuse) for one in boots(options)])


def _boot(
    kernel: Kernel, arch: Arch, options: ExactOptions, update: Update, *, reuse: bool
) -> Recording:
    kept = cache_dir("recordings") / f"{content_key(kernel, arch, options)}.json"
    if reuse and kept.exists():
        with contextlib.suppress(RecordingError):
            return read_recording(kept)
    fake = os.environ.get(FAKE)
    runner: Runner = FakeRunner(Path(fake)) if fake else QemuRunner(arch)
    recording = measure(kernel, runner, options, update)
    write_recording(recording, kept)
    return recording


def content_key(kernel: Kernel, arch: Arch, options: ExactOptions) -> str:
    """A hash of all that the recording of one boot depends on."""
    measured_with = asdict(options)
    del measured_with["console_file"], measured_with["timeout"]
    parts = {
        "kentry": [kentry.__version__, code_digest(Path(kentry.__file__).parent, __name__)],
        "spec": kernel.spec,
        "image": kernel.image_sha256,
        "config": kernel.config_sha256,
        # The recording says where the image is from, so one from elsewhere has its own.
        "origin": kernel.origin,
        "symbols": kernel.symbols_from,
        "probe": sha256_of(probe_file(arch)),
        "plugin": sha256_of(plugin_file()),
        "target": _target_identity(arch, options),
        "machine": [arch.machine, arch.cpu_with(), *arch.boot_words],
        "options": measured_with,
    }
    return hashlib.sha256(json.dumps(parts, sort_keys=True).encode()).hexdigest()


def _target_identity(arch: Arch, options: ExactOptions) -> list[str]:
    """A saved run's files, or the emulator's version."""
    if fake := os.environ.get(FAKE):
        return [sha256_of(Path(fake, name)) for name in ("console", "trace")]
    version = find_emulator(arch, options.emulator).version
    # A program named by its path may be anything that calls itself this version.
    own = [] if options.emulator in CHOICES else [sha256_of(Path(options.emulator).expanduser())]
    return [version, *own]


@cache
def code_digest(package: Path, module: str) -> str:
    """A hash of `module` and of every module of `package` that it imports, directly or not.

    Imports inside functions count.  Imports for the type checker alone do not.
    """
    todo, files = [module], set[Path]()
    while todo:
        name = todo.pop()
        base = package.parent.joinpath(*name.split("."))
        file = base / "__init__.py" if base.is_dir() else base.with_suffix(".py")
        if file in files or not file.is_file():
            continue
        files.add(file)
        # Importing a.b runs a, too.
        todo += [name.rpartition(".")[0], *_imports(file, package.name)]
    digest = hashlib.sha256()
    for file in sorted(files):
        content = file.read_bytes()
        digest.update(f"{file.relative_to(package)} {len(content)}\n".encode() + content)
    return digest.hexdigest()


def _imports(file: Path, package: str) -> Iterator[str]:
    """The names of `package` that a file imports: modules, and perhaps things in them."""
    nodes: list[ast.AST] = [ast.parse(file.read_bytes())]
    for node in nodes:
        if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING":
            continue
        # Imports are statements, so expressions need not be looked into.
        nodes += [one for one in ast.iter_child_nodes(node) if not isinstance(one, ast.expr)]
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and node.module:
            names = [node.module, *(f"{node.module}.{alias.name}" for alias in node.names)]
        else:
            continue
        yield from (name for name in names if name.split(".")[0] == package)
