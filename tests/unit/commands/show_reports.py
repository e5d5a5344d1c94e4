# SPDX-License-Identifier: GPL-2.0-or-later
"""Run by test_emit.py on a terminal: shows every report whose golden file is named."""

import sys
from types import SimpleNamespace

from kentry.commands import emit
from tests.golden.test_golden import REPORTS

for name in sys.argv[1:]:
    print(f"==> {name}")
    emit.emit(SimpleNamespace(color=emit.AUTO), REPORTS[name])
