# SPDX-License-Identifier: GPL-2.0-or-later
"""What a named core makes of a path: LLVM's scheduling models, and tables of published costs."""
