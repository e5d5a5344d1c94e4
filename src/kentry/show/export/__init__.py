# SPDX-License-Identifier: GPL-2.0-or-later
"""Recordings in the formats that other programs read: one file a format."""
