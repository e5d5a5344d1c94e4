# SPDX-License-Identifier: GPL-2.0-or-later
"""Kernel -> measured: each target boots or reaches a kernel and brings back what the probe saw."""
