# SPDX-License-Identifier: GPL-2.0-or-later
"""python -m bench.faults"""

import sys

from bench.faults import main

sys.exit(main())
