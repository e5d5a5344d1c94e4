# SPDX-License-Identifier: GPL-2.0-or-later
"""Opens the machine that a user names.

"local" is this machine, "ssh:HOST" one that ssh reaches, "board:PLACE" one that labgrid lends,
"kvm" a guest of this machine.
"""

from contextlib import AbstractContextManager, closing

from kentry.errors import UserError
from kentry.runners.machine import Machine, MachineOptions


def open_machine(text: str, options: MachineOptions) -> AbstractContextManager[Machine]:
    """The machine that `text` names, for a `with`; UserError where it names none."""
    kind, colon, rest = text.partition(":")
    if text == "local":
        from kentry.runners.local import LocalMachine

        return closing(LocalMachine(text))
    if kind == "ssh" and rest:
        from kentry.runners.ssh import open_ssh

        return open_ssh(text, options)
    if kind == "board" and rest:
        from kentry.runners.board import open_board

        return open_board(text, options)
    if kind == "kvm" and (rest or not colon):
        from kentry.runners.kvm import open_kvm

        return open_kvm(text, options)
    raise UserError(
        f"'{text}' is no place to measure on.",
        "Use local, ssh:HOST (or ssh://USER@HOST:PORT), board:PLACE or kvm.",
    )
