# SPDX-License-Identifier: GPL-2.0-or-later
"""Readers of other tools' output and of plain tables; import_file.py has the list of them."""
