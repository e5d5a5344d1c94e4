# SPDX-License-Identifier: GPL-2.0-or-later
"""What servers that run tests read of a check: JUnit's XML, and GitHub's annotations."""

import re
from xml.etree.ElementTree import Element, SubElement, indent, tostring

from kentry.results.studies import OVER, UNDECIDED, WITHIN, Check
from kentry.show.check import row_sentence, summary
from kentry.show.export.common import check_names
from kentry.show.provenance import kernel_name

_COMMANDS = {OVER: "error", UNDECIDED: "warning"}
# What XML 1.0 has no place for, not even as a reference.
_NOT_XML = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


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
    """Escape values as actions/toolkit does (packages/core/src/command.ts).

    A runner takes what a step prints for a command if a line begins with "::".
    """

    def data(text: str) -> str:
        return text.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")

    words = ",".join(
        f"{name}={data(value).replace(':', '%3A').replace(',', '%2C')}"
        for name, value in properties.items()
    )
    return f"::{command} {words}::{data(message)}"


def check_junit(check: Check) -> str:
    """Write one suite, a test a budget; an undecided budget is skipped, with the reason.

    There is no standard; these are the elements and attributes that the Jenkins xUnit plugin's
    schema (junit-10.xsd) has and that GitLab reads.
    """
    counts = {
        "tests": str(len(check.rows)),
        "failures": str(len(check.of_verdict(OVER))),
        "errors": "0",
        "skipped": str(len(check.of_verdict(UNDECIDED))),
    }
    name, budgets = _text(kernel_name(check.measured.kernel)), _text(check.budgets)
    suites = Element("testsuites", counts)
    suite = SubElement(suites, "testsuite", {"name": name, **counts})
    for row, test in zip(check.rows, check_names(check), strict=True):
        sentence = _text(row_sentence(row))
        words = {"name": _text(test), "classname": f"kentry.{row.table}", "file": budgets}
        case = SubElement(suite, "testcase", words)
        if row.verdict == OVER:
            failure = SubElement(case, "failure", {"message": sentence, "type": OVER})
            failure.text = _text(f"{test}: {sentence}")
        elif row.verdict == UNDECIDED:
            SubElement(case, "skipped", {"message": sentence})
        else:
            SubElement(case, "system-out").text = sentence
    notes = [summary(check), *(f"note: {caveat['text']}" for caveat in check.caveats)]
    SubElement(suite, "system-out").text = _text("\n".join(notes))
    indent(suites)
    document: str = tostring(suites, encoding="unicode")
    return f'<?xml version="1.0" encoding="UTF-8"?>\n{document}\n'


def _text(text: str) -> str:
    return _NOT_XML.sub("?", text)
