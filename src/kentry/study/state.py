# SPDX-License-Identifier: GPL-2.0-or-later
"""The folder of a tree's last bisection: what was asked, and what came of it so far."""

import hashlib
import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from kentry.count import cache
from kentry.errors import UserError
from kentry.host.cache import cache_dir, held, read_json, write_atomically
from kentry.progress import Update, say

_FILE = "bisection.json"


class State:
    """A bisection's folder, by the tree's."""

    def __init__(self, tree: Path) -> None:
        name = hashlib.sha256(str(tree.expanduser().resolve()).encode()).hexdigest()[:16]
        self.folder = cache_dir("bisections", name)
        self._tree = tree

    @contextmanager
    def locked(self, update: Update) -> Iterator[None]:
        """Keeps other bisections of the tree out; says at Ctrl-C how to go on."""
        from filelock import FileLock

        lock = FileLock(self.folder / "lock")
        with held(lock, update, "another bisection of the tree"):
            try:
                yield
            except KeyboardInterrupt:
                tree = "" if self._tree == Path(".") else f" --tree {self._tree}"
                say(f"what was measured is kept; to go on: kentry bisect --continue{tree}")
                raise

    def asked(self, names: Sequence[str]) -> dict[str, Any]:
        """What was asked, by these names; UserError where there is no bisection of the tree."""
        kept = read_json(self.folder / _FILE).get("asked", {})
        if set(kept) != set(names):
            raise self.absent()
        return {name: tuple(one) if isinstance(one, list) else one for name, one in kept.items()}

    @property
    def by_program(self) -> bool:
        """Whether a program of the user's measures."""
        return bool(read_json(self.folder / _FILE).get("asked", {}).get("run"))

    def absent(self) -> UserError:
        """The error that there is none."""
        return UserError(
            f"The tree '{self._tree}' has no bisection.", "Begin one: --good COMMIT --bad COMMIT."
        )

    def begin(
        self, asked: Mapping[str, Any], made_with: Sequence[str], *, resume: bool, keep: bool
    ) -> None:
        """Writes down what is asked; what is known of the same question stays with `keep`.

        UserError where a bisection that goes on is not made with what it was begun with.
        """
        # As JSON has it: tuples are lists.
        new = json.loads(
            json.dumps({"asked": asked, "made_with": [cache.own_digest(), *made_with]})
        )
        is_same = read_json(self.folder / _FILE) == new
        if resume and not is_same:
            raise UserError(
                "The config, the compiler, the emulator or kentry has changed since it began.",
                "Begin anew, without --continue.",
            )
        if not (resume or (keep and is_same)):
            for file in self.folder.glob("*.json*"):
                file.unlink()
            write_atomically(self.folder / _FILE, json.dumps(new) + "\n")
