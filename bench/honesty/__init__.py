# SPDX-License-Identifier: GPL-2.0-or-later
"""How often kentry and its peers are wrong about time: run.py measures it."""
