# SPDX-License-Identifier: GPL-2.0-or-later
"""Samples, intervals, verdicts.  No I/O; imports nothing of ours."""
