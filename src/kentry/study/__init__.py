# SPDX-License-Identifier: GPL-2.0-or-later
"""Many kernels -> Result: series, ablation, bisection, log, check."""
