# SPDX-License-Identifier: GPL-2.0-or-later
"""What a program that means harm can do outside the sandbox, and whether it can inside.

Each attack of tests/unit/host/test_sandbox.py is tried as this user and, where that is root, as
another; it has to succeed outside, or it shows nothing.  Ends with 1 where one gets out.
Usage: python -m bench.escapes
"""

from __future__ import annotations

import sys
from collections.abc import Iterable

from tests.unit.host import test_sandbox as attacks

from bench import tried


def attempt(user: str, name: str) -> str:
    """What became of one attack."""
    script = {**attacks.ATTACKS, **attacks.OF_ROOT}[name]
    with attacks.files() as folder:
        if not attacks.attack(user, script, folder, confine=False).endswith("done\n"):
            return "fails outside, too"
        limits = attacks.LIMITS.get(name, {})
        out = "done" in attacks.attack(user, script, folder, confine=True, **limits)
    return "GETS OUT" if out else "held"


def show(name: str, row: Iterable[str]) -> None:
    """Prints a row of the table."""
    print("".join([f"{name:40}", *(f"{text:20}" for text in row)]).rstrip(), flush=True)


def main() -> int:
    users = {"own": "root" if attacks.IS_ROOT else "a user", "nobody": "another user"}
    if not attacks.IS_ROOT:
        del users["nobody"]
    print(tried())
    show("attack", users.values())
    came: list[str] = []
    for name in {**attacks.ATTACKS, **attacks.OF_ROOT}:
        row = [attempt(user, name) if (user, name) in attacks.CASES else "-" for user in users]
        show(name, row)
        came += row
    held, out, nothing = (came.count(word) for word in ("held", "GETS OUT", "fails outside, too"))
    print(f"{held + out + nothing} tried: {held} held, {out} got out, {nothing} fail outside, too")
    return int(out > 0)


if __name__ == "__main__":
    sys.exit(main())
