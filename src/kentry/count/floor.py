# SPDX-License-Identifier: GPL-2.0-or-later
"""How the floor is measured: two cases, in one context, because it has no state that varies."""

from dataclasses import replace

from kentry.arch import Arch
from kentry.boot.exact import ExactOptions
from kentry.count.catalogue import choose
from kentry.errors import UserError
from kentry.kernels.floor import CASES


def on_floor(options: ExactOptions, arch: Arch) -> ExactOptions:
    """The options for the floor; UserError where a case was named that it has not."""
    named = options.cases != tuple(choose(arch, ()))
    absent = [name for name in options.cases if name not in CASES]
    if named and absent:
        raise UserError(f"The floor has no case {absent[0]}.", f"It has {' and '.join(CASES)}.")
    if options.randomise:
        raise UserError("The floor has nothing to randomise.", "Leave --randomise out.")
    cases = tuple(name for name in options.cases if name in CASES)
    return replace(options, cases=cases, rounds=1)
