# SPDX-License-Identifier: GPL-2.0-or-later
"""What servers and test runners read: KTAP; of a check JUnit, GitHub's, b4's and KCIDB's JSON.

KTAP version 1 (Documentation/dev-tools/ktap.rst) has no place for a number, so numbers are
diagnostics, directly before the test's result.  A case of a recording is a test that passes because
it was measured.  A row of a comparison is a test that fails if it is worse, a budget one that fails
if the case is over it.  Several files are a test each, with theirs as subtests.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from typing import NamedTuple
from xml.etree.ElementTree import Element, SubElement, indent, tostring

from kentry.results.comparison import CaseComparison, Comparison, TimedComparison
from kentry.results.recording import OF_LAYOUT, CaseResult, Recording
from kentry.results.studies import OVER, UNDECIDED, WITHIN, Check
from kentry.show.comment import comment
from kentry.show.comparison import bare_change, timed_values
from kentry.show.export import common
from kentry.show.numbers import fraction, level, percent, with_interval
from kentry.show.provenance import badges, kernel_name
from kentry.show.studies import check_layout, row_sentence, summary
from kentry.stats import exact

_STATUSES = {WITHIN: "pass", UNDECIDED: "warn", OVER: "fail"}
_COMMANDS = {OVER: "error", UNDECIDED: "warning"}
# "DONE" is a test that completed and gives no verdict, "MISS" one that did not run.
_KCIDB = {WITHIN: "PASS", UNDECIDED: "DONE", OVER: "FAIL"}
# What XML 1.0 has no place for, not even as a reference.
_NOT_XML = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


def check_github(check: Check) -> str:
    """Write an error or a warning for each budget that does not hold, and always a notice."""
    lines = []
    for row, name in common.named_rows(check):
        if row.verdict != WITHIN:
            position = {"file": check.budgets, **({"line": str(row.line)} if row.line else {})}
            text = f"{name}: {row_sentence(row)}"
            lines.append(_command(_COMMANDS[row.verdict], text, **position, title="kentry check"))
    notice = f"{kernel_name(check.measured.kernel)}: {summary(check)}"
    return "\n".join([*lines, _command("notice", notice, title="kentry check")]) + "\n"


def _command(command: str, message: str, **properties: str) -> str:
    """A line for a runner, escaped as actions/toolkit does (packages/core/src/command.ts)."""

    def data(text: str) -> str:
        return text.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")

    parameters = ",".join(
        f"{name}={data(value).replace(':', '%3A').replace(',', '%2C')}"
        for name, value in properties.items()
    )
    return f"::{command} {parameters}::{data(message)}"


def check_b4(check: Check) -> str:
    """Write the JSON that b4 reads of its review-series-check-cmd (b4/review/checks.py).

    It keeps one result a program and series, so all budgets are one.
    """
    result = {
        "tool": "kentry",
        "status": _STATUSES[check.verdict],
        "summary": common.printable(f"{kernel_name(check.measured.kernel)}: {summary(check)}"),
        "details": comment(check_layout(check)),
    }
    return json.dumps([result], indent=2) + "\n"


def check_kcidb(check: Check, origin: str) -> str:
    """Write a submission to KCIDB, schema 5.3 (kcidb-io): a test a budget, with its number.

    `origin` is the name by which KernelCI knows who submits.  The build is named by the kernel's
    GNU build id, so another submission about the same kernel is about the same build.
    """
    kernel = check.measured.kernel
    build, name = f"{origin}:{kernel['build_id']}", kernel_name(kernel)
    how = common.printable(", ".join(badges(check.tool, check.measured)))
    tests = []
    for row, test in common.named_rows(check):
        path = [re.sub(r"[^\w-]", "_", part, flags=re.ASCII) for part in (row.name, row.metric)]
        tests.append(
            {
                "id": f"{build}:{common.printable(test)}",
                "origin": origin,
                "build_id": build,
                "path": ".".join(["kentry", *path]),
                "status": "MISS" if row.value is None else _KCIDB[row.verdict],
                "comment": common.printable(row_sentence(row)),
                "environment": {"comment": how},
                "misc": {"budget": common.printable(row.budget), "limit": row.limit},
                # A unit without a prefix: a server would write 12 kinstructions.
                **({} if row.value is None else {"number": {"value": row.value, "unit": row.unit}}),
            }
        )
    document = {
        "version": {"major": 5, "minor": 3},
        "checkouts": [{"id": build, "origin": origin, "comment": common.printable(name)}],
        "builds": [
            {
                "id": build,
                "origin": origin,
                "checkout_id": build,
                "architecture": kernel["arch"],
                "compiler": common.printable(kernel["compiler"] or ""),
                "status": "PASS",
            }
        ],
        "tests": tests,
    }
    return json.dumps(document, indent=2) + "\n"


def check_junit(check: Check) -> str:
    """Write one suite, a test a budget, as the Jenkins xUnit plugin (junit-10.xsd) and GitLab read.

    An undecided budget is skipped, with the reason.
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
    for row, test in common.named_rows(check):
        sentence = _text(row_sentence(row))
        attributes = {"name": _text(test), "classname": f"kentry.{row.table}", "file": budgets}
        case = SubElement(suite, "testcase", attributes)
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


class _Test(NamedTuple):
    """A result line and its diagnostics; `skipped` is why it decides nothing, "" if it does."""

    name: str
    passed: bool
    diagnostics: tuple[str, ...]
    skipped: str = ""
    subtests: tuple[_Test, ...] = ()


def ktap(inputs: Sequence[Recording | Comparison]) -> common.Export:
    """Write the files' tests: of one file at the top, of several below a test each."""
    recordings = iter(common.labels([file for file in inputs if isinstance(file, Recording)]))
    files = []
    for file in inputs:
        if isinstance(file, Recording):
            name, about = next(recordings), [kernel_name(file.kernel)]
            tests = tuple(map(_case_test, file.cases))
        else:
            name = f"{file.old.kernel['spec']} to {file.new.kernel['spec']}"
            about = [f"old: {kernel_name(file.old.kernel)}", f"new: {kernel_name(file.new.kernel)}"]
            tests = tuple(map(_row_test, file.rows))
        about += [f"note: {caveat['text']}" for caveat in file.caveats]
        passed = all(test.passed for test in tests)
        files.append(_Test(name, passed, tuple(about), subtests=tests))
    if len(files) == 1:
        lines = _block(files[0].subtests, files[0].diagnostics)
    else:
        names = common.numbered(test.name for test in files)
        lines = _block(
            [test._replace(name=name) for test, name in zip(files, names, strict=True)], ()
        )
    return common.Export("\n".join(lines) + "\n")


def check_ktap(check: Check) -> str:
    """Write a test for each budget; it is skipped where it is undecided."""
    about = [kernel_name(check.measured.kernel), f"budgets: {check.budgets}"]
    about += [f"baseline: {kernel_name(check.baseline.kernel)}"] if check.baseline else []
    about += [f"note: {caveat['text']}" for caveat in check.caveats]
    tests = []
    for row, name in common.named_rows(check):
        about_row = (common.printable(f"{name}: {row_sentence(row)}"),)
        reason = common.printable(f"{UNDECIDED}: {row.reason}").replace("#", "_")
        skipped = reason if row.verdict == UNDECIDED else ""
        tests.append(_Test(name, row.verdict != OVER, about_row, skipped))
    return "\n".join(_block(tests, [common.printable(text) for text in about])) + "\n"


def _block(tests: Sequence[_Test], about: Sequence[str]) -> Iterator[str]:
    yield "KTAP version 1"
    yield f"1..{len(tests)}"
    yield from (f"# {text}" for text in about)
    for number, test in enumerate(tests, start=1):
        if test.subtests:
            block = _block(test.subtests, test.diagnostics)
            yield from (f"  {line}" for line in block)
        else:
            yield from (f"# {text}" for text in test.diagnostics)
        result = "ok" if test.passed else "not ok"
        skip = f" # SKIP {test.skipped}" if test.skipped else ""
        # "#" begins a directive.
        yield f"{result} {number} {common.printable(test.name).replace('#', '_')}{skip}"


def _case_test(case: CaseResult) -> _Test:
    about = []
    for metric, count in case.metrics.items():
        calls = f" of {case.parsed.calls} calls" if case.parsed.calls > 1 else ""
        windows = f"{count.agreeing} of {count.windows} windows{calls}"
        about.append(f"{metric}: {count.value}, exact, {windows}")
    for metric, timed in common.timed_metrics(case).items():
        value, interval = with_interval(timed.value, timed.interval)
        at = f" at {level(timed.confidence)}" if timed.confidence else ""
        parts = [
            f"{value} {timed.unit}",
            f"interval {interval}{at}" if interval else "no interval",
            *([] if timed.floor is None else [f"floor {fraction(timed.floor)}"]),
            f"{len(timed.samples)} processes",
        ]
        about.append(f"{metric}: {', '.join(parts)}")
    decided = case.noisy or all(count.is_decided for count in case.metrics.values())
    reason = "" if decided else "undecided: less than half of the windows agree"
    return _Test(
        case.name, True, tuple(f"{common.printable(case.name)}: {line}" for line in about), reason
    )


def _row_test(row: CaseComparison | TimedComparison) -> _Test:
    """Make a test of a compared case and metric; as in diff's exit code, layout decides nothing."""
    name = f"{row.name} {row.metric}"
    reason = "less than half of the windows agree"
    if isinstance(row, CaseComparison):
        share = "" if row.percent is None else f", {row.percent:+.2f} % of old"
        path = ", identical path" if row.identical_path else ""
        change = f"{row.old} -> {row.new} ({row.delta:+d}{share}), exact, {row.verdict}{path}"
    else:
        old, new = timed_values(row)
        at = f" at {level(row.confidence)}" if row.interval and row.confidence else ""
        parts = [f"{old} -> {new} {row.unit}", bare_change(row).replace(" %", " % of old", 1) + at]
        for word, value in (("floor", row.floor), ("threshold", row.threshold)):
            parts += [] if value is None else [f"{word} {percent(value)}"]
        change = ", ".join([*parts, row.verdict])
        reason = row.reason.replace("#", "_")
    skipped = ""
    if isinstance(row, TimedComparison) and row.is_layout:
        skipped = f"{exact.UNDECIDED}: same instructions, so by layout or noise"
    elif row.metric in OF_LAYOUT and row.verdict == exact.WORSE:
        skipped = f"{exact.UNDECIDED}: more by layout, which may take no more time"
    elif row.verdict == exact.UNDECIDED:
        skipped = f"{exact.UNDECIDED}: {reason}" if reason else exact.UNDECIDED
    about = (f"{name}: {change}", *(f"{name}: note: {caveat['text']}" for caveat in row.caveats))
    return _Test(name, bool(skipped) or row.verdict != exact.WORSE, about, skipped)
