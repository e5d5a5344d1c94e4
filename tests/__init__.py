# SPDX-License-Identifier: GPL-2.0-or-later
"""The tests: unit/ mirrors src/kentry/."""

from pathlib import Path

ROOT = Path(__file__).parents[1]
