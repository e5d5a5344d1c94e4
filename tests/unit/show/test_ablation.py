# SPDX-License-Identifier: GPL-2.0-or-later
from __future__ import annotations

from kentry.show.ablation import ablation_layout
from kentry.show.text import to_text
from kentry.study.ablation import Trial, tabulate
from tests.builders import built

BASE = {"getppid": [("el0_svc", 100), ("sys_getppid", 10)], "read": [("el0_svc", 100)]}
DEARER = {"getppid": [("el0_svc", 112), ("sys_getppid", 10)], "read": [("el0_svc", 112)]}


def text(*, functions: bool = False) -> str:
    base, dearer = built(BASE), built(DEARER)
    trials = [
        Trial("CONFIG_SAME", False, off=base, on=base),
        Trial("CONFIG_AUDIT", True, ("CONFIG_NET=y",), base, dearer),
        Trial("CONFIG_LOST", False, problem="Kconfig dropped CONFIG_LOST=y (needs NET)."),
    ]
    return to_text(
        ablation_layout(tabulate(base, trials, ["CONFIG_RISCV_ISA_V"]), functions=functions)
    )


def test_cases_that_take_the_same_steps_share_a_column() -> None:
    assert text().split("\n\n")[1].split()[:5] == ["getppid", "option", "off", "on", "adds"]
    assert text().count("read") == 1


def test_functions_are_shown_where_they_are_asked_for() -> None:
    assert "el0_svc" not in text()
    shown = text(functions=True)
    assert "CONFIG_AUDIT, getppid (+12)" in shown
    assert "el0_svc" in shown
