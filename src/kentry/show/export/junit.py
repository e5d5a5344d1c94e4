# SPDX-License-Identifier: GPL-2.0-or-later
"""JUnit's XML, as CI servers read it: a test a budget, which fails if the case is over it.

There is no standard; these are the elements and attributes that the Jenkins xUnit plugin's schema
(junit-10.xsd) has and that GitLab reads.
"""

import re
from xml.etree.ElementTree import Element, SubElement, indent, tostring

from kentry.results.studies import OVER, UNDECIDED, Check
from kentry.show.check import row_sentence, summary
from kentry.show.export.common import check_names
from kentry.show.frame import kernel_name

# What XML 1.0 has no place for, not even as a reference.
_NO_CHARACTER = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


def check_junit(check: Check) -> str:
    """Write one suite; an undecided budget is skipped, with the reason."""
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
    return _NO_CHARACTER.sub("?", text)
