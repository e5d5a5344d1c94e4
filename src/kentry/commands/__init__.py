# SPDX-License-Identifier: GPL-2.0-or-later
"""One file a subcommand, each owning its arguments: NAME, add_arguments(), run()."""
