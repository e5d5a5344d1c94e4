# SPDX-License-Identifier: GPL-2.0-or-later
"""Numbers of other tools and of published texts: one file a format; reading.py has them all."""
