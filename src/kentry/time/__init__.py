# SPDX-License-Identifier: GPL-2.0-or-later
"""Time on silicon: what the probe is told to time, what it says, and what follows from it."""
