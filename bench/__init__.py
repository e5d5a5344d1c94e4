# SPDX-License-Identifier: GPL-2.0-or-later
"""Benchmarks: run.py runs them."""

import os
from datetime import date


def tried() -> str:
    """What was tried and when: the first line of figures that a page shows."""
    from kentry.host import native  # not above: bench.mutants imports kentry from a copy

    version, commit, *_ = native.version().splitlines()
    return f"{version}, {commit}, {date.today()}, {os.cpu_count()} processors"
