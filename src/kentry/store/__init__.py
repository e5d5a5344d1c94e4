# SPDX-License-Identifier: GPL-2.0-or-later
"""Recordings and other results of many machines, found by what they are of."""
