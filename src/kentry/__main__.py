# SPDX-License-Identifier: GPL-2.0-or-later
"""python -m kentry."""

from kentry.cli import entry_point

entry_point()
