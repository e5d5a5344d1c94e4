# SPDX-License-Identifier: GPL-2.0-or-later
"""kentry: what it costs a program to enter and leave the kernel."""

__version__ = "0.1.0"
