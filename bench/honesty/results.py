# SPDX-License-Identifier: GPL-2.0-or-later
"""The harness's results file: written whole after each step, gone on with when run again.

What it belongs to is its key: the probe, the code that judges, the kernel, the machine and the
settings of one step.  How many steps there are is not among it, so that there can be more.
"""

from __future__ import annotations

import ast
import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import kentry
from kentry.errors import UserError
from kentry.host.cache import cache_dir, sha256_of, write_atomically

FORMAT = "kentry/honesty/1"
# What the verdict depends on, below src/kentry.
_JUDGES = ("stats", "time")

Step = dict[str, Any]


def code_sha256() -> str:
    """Of all modules that sample and judge; comments are no code."""
    digest = hashlib.sha256()
    for folder in _JUDGES:
        for file in sorted((Path(kentry.__file__).parent / folder).rglob("*.py")):
            tree = ast.parse(file.read_text(encoding="utf-8"))
            digest.update(f"{file.name}\n{ast.dump(tree)}\n".encode())
    return digest.hexdigest()


def key_of(probe: Path, release: str, machine: str, settings: Mapping[str, float | None]) -> Step:
    """What results belong to."""
    return {
        "probe_sha256": sha256_of(probe),
        "code_sha256": code_sha256(),
        "release": release,
        "machine": machine,
        "settings": dict(settings),
    }


def default_file(key: Step) -> Path:
    """A file in the cache, another one for each key."""
    name = hashlib.sha256(json.dumps(key, sort_keys=True).encode()).hexdigest()[:12]
    return cache_dir("honesty") / f"{name}.json"


@dataclass
class Results:
    """Steps of several kinds, in the order in which they were made."""

    file: Path
    key: Step
    steps: dict[str, list[Step]] = field(default_factory=dict)

    def of(self, kind: str) -> list[Step]:
        """All steps of a kind so far."""
        return self.steps.get(kind, [])

    def add(self, kind: str, step: Step) -> None:
        """One more, kept at once."""
        self.steps.setdefault(kind, []).append(step)
        self.write()

    def replace(self, kind: str, steps: list[Step]) -> None:
        """These instead of what there was of a kind."""
        self.steps[kind] = steps
        self.write()

    def write(self) -> None:
        """The file, whole."""
        document = {"format": FORMAT, "key": self.key, "steps": self.steps}
        write_atomically(self.file, json.dumps(document) + "\n")


def open_results(key: Step, file: Path | None = None) -> Results:
    """Results so far, none if there is no file; UserError for a file that is something else's."""
    file = file or default_file(key)
    if not file.exists():
        return Results(file, key)
    try:
        document = json.loads(file.read_text(encoding="utf-8"))
        found, steps = document["key"], document["steps"]
    except (ValueError, KeyError, TypeError) as err:
        raise UserError(f"{file} has no results of this harness.", "Name another file.") from err
    other = [name for name in key if found.get(name) != key[name]]
    if other:
        raise UserError(
            f"{file} has results of another {other[0].replace('_', ' ')}.", "Name another file."
        )
    return Results(file, key, steps)
