# SPDX-License-Identifier: GPL-2.0-or-later
"""Recordings to comparisons."""
