# SPDX-License-Identifier: GPL-2.0-or-later
"""Benchmarks: run.py runs them."""
