# SPDX-License-Identifier: GPL-2.0-or-later
"""Raw output of a guest -> Recording: exact counts."""
