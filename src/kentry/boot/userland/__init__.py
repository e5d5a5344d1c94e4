# SPDX-License-Identifier: GPL-2.0-or-later
"""A real userland for a guest: Debian's packages as a root file system, and what runs in it."""
