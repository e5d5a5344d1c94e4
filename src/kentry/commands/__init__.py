# SPDX-License-Identifier: GPL-2.0-or-later
"""One module for each command, with its options, examples and run(); options.py says how."""
