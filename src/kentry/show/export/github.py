# SPDX-License-Identifier: GPL-2.0-or-later
"""Workflow commands of GitHub Actions: an annotation at the budget that does not hold.

A runner takes what a step prints for a command if a line begins with "::", so values are escaped
as actions/toolkit does (packages/core/src/command.ts).
"""

from kentry.results.studies import OVER, UNDECIDED, WITHIN, Check
from kentry.show.check import row_sentence, summary
from kentry.show.export.common import check_names
from kentry.show.frame import kernel_name

_COMMANDS = {OVER: "error", UNDECIDED: "warning"}


def check_github(check: Check) -> str:
    """Write an error for each budget that a case is over, a warning where it is undecided.

    A notice says how many there are of each, so that a run without output is not a pass.
    """
    lines = []
    for row, name in zip(check.rows, check_names(check), strict=True):
        if row.verdict != WITHIN:
            place = {"file": check.budgets, **({"line": str(row.line)} if row.line else {})}
            words = f"{name}: {row_sentence(row)}"
            lines.append(_command(_COMMANDS[row.verdict], words, **place, title="kentry check"))
    told = f"{kernel_name(check.measured.kernel)}: {summary(check)}"
    return "\n".join([*lines, _command("notice", told, title="kentry check")]) + "\n"


def _command(command: str, message: str, **properties: str) -> str:
    words = ",".join(f"{name}={_property(value)}" for name, value in properties.items())
    return f"::{command} {words}::{_data(message)}"


def _data(text: str) -> str:
    return text.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


def _property(text: str) -> str:
    return _data(text).replace(":", "%3A").replace(",", "%2C")
