# SPDX-License-Identifier: GPL-2.0-or-later
"""spec -> Kernel: image, symbols, config, identity."""
