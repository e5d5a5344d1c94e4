# SPDX-License-Identifier: GPL-2.0-or-later
"""python -m kentry, and the console script."""

import os
import signal


def run() -> None:
    """Runs kentry; a signal while its modules are imported ends it with 128 and its number."""
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, lambda number, frame: os._exit(128 + number))
    from kentry.cli import entry_point

    entry_point()


if __name__ == "__main__":
    run()
