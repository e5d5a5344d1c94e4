# SPDX-License-Identifier: GPL-2.0-or-later
"""Results as one HTML page: a module prepares each kind of result, a template lays it out."""
