# SPDX-License-Identifier: GPL-2.0-or-later
"""python -m bench.honesty."""

from bench.honesty.run import main

raise SystemExit(main())
