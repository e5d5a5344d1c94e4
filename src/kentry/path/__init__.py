# SPDX-License-Identifier: GPL-2.0-or-later
"""Paths: which kernel instructions ran in a window, whose they are, what they are for."""
