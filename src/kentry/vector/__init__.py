# SPDX-License-Identifier: GPL-2.0-or-later
"""Vector state: the states a case runs in, the units that have them, the events they cause."""
