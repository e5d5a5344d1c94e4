# SPDX-License-Identifier: GPL-2.0-or-later
"""This machine: its cache, its programs, Debian's archive, the compiled parts."""
