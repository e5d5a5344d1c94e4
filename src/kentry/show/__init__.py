# SPDX-License-Identifier: GPL-2.0-or-later
"""Results as text; one file a format."""
