# SPDX-License-Identifier: GPL-2.0-or-later
"""Kernel -> raw output, under QEMU."""
