# SPDX-License-Identifier: GPL-2.0-or-later
"""Text for a commit message or a cover letter: what changed, by how much, how it was measured.

At most 75 columns, ASCII, nothing that git, patch or checkpatch.pl would take for something
else.  Every derived number follows from others in the text.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace

from msgspec import structs

from kentry.arch import ARCHES, find_arch
from kentry.compare.counted import Comparison, compare
from kentry.compare.series import DIFFERENCES
from kentry.model import caveats
from kentry.model.case_name import CaseName
from kentry.model.caveats import Caveat
from kentry.model.comparison import CaseComparison
from kentry.model.recording import INSTRUCTIONS, Recording
from kentry.model.series import Column, Problem, Series
from kentry.report.plain import ascii_lines, percent, plain, shortened, signed, wrapped
from kentry.report.series import PREFERRED, grouped, notes, summary_lines, table_lines
from kentry.report.text import FUNCTIONS_SHOWN, bloat_lines, comparison_caveats
from kentry.report.timed import changelog_times, timing_facts
from kentry.report.vector import (
    event_change_lines,
    marker_lines,
    narrow_lines,
    own_caveats,
    stateful,
)
from kentry.stats.exact import UNDECIDED

# What checkpatch.pl and b4 ask of a commit message.
WIDTH = 75

_ABBREVIATED = 12
# checkpatch.pl looks for a commit's whole subject on two lines.
_SUBJECT = 100
_FUNCTION = 50

_HEADING = (
    "Kernel instructions of each case, a row a patch; step: against the last count above,"
    " total: against the baseline."
)

# git mailinfo and patch(1) take these for the beginning of a diff.
_DIFF = re.compile(r"(?<!\S)(---|\+\+\+|@@)(?!\S)")
# checkpatch.pl takes these for a commit named in the wrong form.
_COMMIT = re.compile(r"(?i)(?<=\bcommit )[0-9a-f]{5,}\b|(?<!\S)[0-9a-f]{12,}(?![^\s\"'(\[])")


def series_changelog(series: Series) -> str:
    """The table of a series, the functions from its first kernel to its last, provenance."""
    series = _mailable(series)
    names = {
        arch: [column.case for column in series.columns if column.arch == arch]
        for arch in series.first
    }
    lines = [
        *wrapped(_HEADING, WIDTH, then=""),
        "",
        *table_lines(series, WIDTH),
        "",
        *summary_lines(series, WIDTH),
    ]
    for group in grouped(series)[0]:
        lines += _functions_of_series(series, group.shown)
    counted = [(cell.agreeing, cell.windows) for row in series.rows for cell in row.cells.values()]
    items = [
        *_facts(series.first, "base"),
        *_trailers(series.origin),
        *_measured(names, counted),
        *_not_measured(series.first),
        *_notes([*notes(series), *_whole_difference(series)]),
    ]
    return ascii_lines([*lines, "", *_provenance(series.first, items)])


def recording_changelog(recording: Recording) -> str:
    """The counts of one kernel, of vector states as a matrix, and their provenance."""
    arch = find_arch(recording.kernel["arch"])
    plain_cases = [one for one in recording.cases if one not in stateful(recording)]
    lines: list[str] = []
    if plain_cases:
        counts = ", ".join(f"{one.name} {one.metrics[INSTRUCTIONS].value}" for one in plain_cases)
        lines += [*wrapped(f"Kernel instructions of each case: {counts}", WIDTH), ""]
    if stateful(recording):
        lines += ["Kernel instructions and events by vector state:", ""]
        lines += [*narrow_lines(recording, arch, WIDTH), ""]
        lines += [*marker_lines(recording, arch, WIDTH), ""]
    counted = [_agreeing(recording, case.name) for case in recording.cases]
    own = own_caveats(recording.cases)
    items = [
        *_facts({"": recording}, "kernel"),
        *_windows(counted),
        *_not_measured({arch.name: recording}),
        *_notes([*recording.caveats, *own]),
    ]
    return ascii_lines([*lines, *_provenance({"": recording}, items)])


def comparison_changelog(comparison: Comparison) -> str:
    """The verdicts of a comparison, the functions that changed, provenance of both sides."""
    sides = {"old": comparison.old, "new": comparison.new}
    lines = []
    if events := event_change_lines(comparison.cases, WIDTH):
        lines += [*events, ""]
    if comparison.cases:
        lines += ["Kernel instructions of each case, in the old and the new kernel:", ""]
        lines += [*_verdicts(comparison.cases), *([""] if comparison.timed else [])]
    lines += changelog_times(comparison.timed, WIDTH)
    for cases in _same_functions(comparison.cases):
        others = f"; the same functions in {_listed(cases[1:])}" if cases[1:] else ""
        lines += ["", *wrapped(f"{cases[0].name}{others}:", WIDTH), *_functions(cases[0])]
    names = [case.name for case in comparison.cases]
    counted = [_agreeing(recording, name) for recording in sides.values() for name in names]
    items = [
        *_facts(sides, "kernel", emulated=bool(names)),
        *(_measured({"": comparison.names}, counted)),
        *(_item(_harmless(fact)) for fact in timing_facts(comparison)),
        *_not_measured([comparison.old.kernel["arch"]], _axes(comparison)),
        *_notes(comparison_caveats(comparison)),
    ]
    return ascii_lines([*lines, "", *_provenance(sides, items, counted=bool(names))])


def _mailable(series: Series) -> Series:
    """The series with nothing in its subjects and sentences that a mail could be misread by."""
    rows = [
        replace(
            row,
            subject=_harmless(row.subject),
            problems={
                arch: Problem(one.status, _harmless(one.sentence))
                for arch, one in row.problems.items()
            },
        )
        for row in series.rows
    ]
    return replace(series, rows=tuple(rows))


def _harmless(text: str) -> str:
    return _COMMIT.sub(r"<\g<0>>", _DIFF.sub(r"'\1'", plain(text)))


def _functions_of_series(series: Series, column: Column) -> list[str]:
    """The functions of one column, from the baseline to its last count."""
    measured = [row.patch for row in series.rows if column in row.cells]
    first, last = series.first[column.arch], series.last[column.arch]
    title = f"{series.name(column)}, from the baseline to patch {measured[-1]}:"
    if not last.case(column.case):
        return ["", title, "  the last kernel has no such case, so functions cannot be told"]
    [case] = compare(first, last, [column.case]).cases
    return ["", title, *_functions(case)] if _is_changed(case) else []


def _is_changed(case: CaseComparison) -> bool:
    return bool(case.delta) or any(row.delta for row in case.functions)


def _functions(case: CaseComparison) -> list[str]:
    """The functions that changed, as scripts/bloat-o-meter prints them."""
    share = f", chg {percent(case.delta, case.old, 2)}%" if case.old else ""
    total = f"Total: Before={case.old}, After={case.new}{share}"
    if not case.functions:
        return ["no path was recorded on one side, so functions cannot be told", total]
    rows = [
        structs.replace(row, name=shortened(plain(row.name), _FUNCTION))
        for row in case.functions
        if row.delta
    ]
    return [*bloat_lines(rows, FUNCTIONS_SHOWN), total]


def _verdicts(cases: Sequence[CaseComparison]) -> Iterator[str]:
    """A line a case whose count changed or has no majority; the others by what they ran."""
    told = [case for case in cases if case.delta or case.verdict == UNDECIDED]
    labels = [f"{case.name}{CaseName.parse(case.name).calls_note}:" for case in told]
    name = max(map(len, labels), default=0)
    number = max((len(str(count)) for case in told for count in (case.old, case.new)), default=0)
    for case, label in zip(told, labels, strict=True):
        share = f", {percent(case.delta, case.old)} % of old" if case.old and case.delta else ""
        counts = f"{case.old:>{number}} -> {case.new:>{number}}"
        change = f"({signed(case.delta)}{share}) {case.verdict}"
        line = f"  {label:<{name}} {counts} {change}"
        if len(line) <= WIDTH:
            yield line
        else:
            yield from (f"  {label} {counts}", f"    {change}")
    same = [case for case in cases if case not in told]
    for words, chosen in (
        ("The same instructions in both", [case for case in same if case.identical_path]),
        (
            "As many, but other instructions",
            [case for case in same if case.functions and not case.identical_path],
        ),
        (
            "As many; which ones is not known",
            [case for case in same if not case.functions and not case.identical_path],
        ),
    ):
        if chosen:
            text = ", ".join(f"{case.name} {case.old}" for case in chosen)
            yield from wrapped(f"{words}: {text}", WIDTH)


def _same_functions(cases: Iterable[CaseComparison]) -> list[list[CaseComparison]]:
    """The cases that changed, those together whose functions changed by the same."""
    found: dict[object, list[CaseComparison]] = {}
    for case in cases:
        if _is_changed(case):
            changes = frozenset((row.name, row.delta) for row in case.functions if row.delta)
            found.setdefault((case.delta, changes), []).append(case)
    return [sorted(group, key=lambda case: case.name != PREFERRED) for group in found.values()]


def _listed(cases: Iterable[CaseComparison]) -> str:
    return ", ".join(case.name for case in cases)


def _agreeing(recording: Recording, name: str) -> tuple[int, int]:
    case = recording.case(name)
    assert case
    metric = case.metrics[INSTRUCTIONS]
    samples = dict(metric.samples)
    return samples[metric.value], sum(samples.values())


def _provenance(
    sides: Mapping[str, Recording], items: Iterable[list[str]], *, counted: bool = True
) -> list[str]:
    tools = dict.fromkeys(f"{one.tool['name']} {one.tool['version']}" for one in sides.values())
    return [
        f"How it was measured ({', '.join(map(plain, tools))}):",
        *([f"- {caveats.not_time()['text']}"] if counted else []),
        *(line for item in items for line in item),
    ]


def _item(text: str) -> list[str]:
    return wrapped(text, WIDTH, "- ")


def _facts(
    sides: Mapping[str, Recording], what: str, *, emulated: bool = True
) -> Iterator[list[str]]:
    """What was measured on what: once where it is the same on all sides."""
    for label, fact in (
        (what, _base),
        ("config", _config),
        ("compiler", _compiler),
        *([("emulator", _emulator)] if emulated else []),
    ):
        yield from _of_sides(label, {side: fact(one) for side, one in sides.items()})


def _of_sides(label: str, texts: Mapping[str, str]) -> Iterator[list[str]]:
    if len(set(texts.values())) == 1:
        yield _item(f"{label}: {next(iter(texts.values()))}")
    else:
        yield from (_item(f"{label} ({side}): {text}") for side, text in texts.items())


def _base(recording: Recording) -> str:
    kernel, origin = recording.kernel, recording.kernel["origin"]
    if "package" in origin and "version" in origin:
        name = _harmless(f"{origin['package']} {origin['version']}")
    elif "commit" in origin:
        subject = shortened(_harmless(origin.get("subject", "")), _SUBJECT)
        name = f'commit {origin["commit"][:_ABBREVIATED]} ("{_balanced(subject)}")'
    elif "unpacked" in origin:
        name = _harmless(f"unpacked tree {origin['unpacked']}")
    else:
        name = _harmless(kernel["spec"])
    release = f"Linux {_harmless(kernel['release'])}" if kernel["release"] else "release not known"
    return f"{name}, {release}, {_harmless(kernel['arch'])}"


def _balanced(subject: str) -> str:
    """checkpatch.pl finds the end of a subject by its parentheses."""
    depth = 0
    for char in subject:
        depth += (char == "(") - (char == ")")
        if depth < 0:
            break
    return subject if not depth else subject.translate(str.maketrans("()", "[]"))


def _config(recording: Recording) -> str:
    kernel, origin = recording.kernel, recording.kernel["origin"]
    name = origin.get("config") or ("the package's" if "package" in origin else "")
    digest = kernel["config_sha256"]
    if not name and not digest:
        return "not known"
    chosen = f" with {origin['config_set']} on top" if origin.get("config_set") else ""
    known = f", sha256 {digest[:_ABBREVIATED]}..." if digest else ""
    return _harmless(f"{name or 'of the kernel file'}{chosen}{known}")


def _compiler(recording: Recording) -> str:
    linker = recording.kernel["origin"].get("linker")
    compiler = recording.kernel["compiler"] or "not known"
    return _harmless(f"{compiler}{f'; linker {linker}' if linker else ''}")


def _emulator(recording: Recording) -> str:
    target = recording.target
    parts = [
        target["emulator"],
        *(
            f"{word} {target[key]}"
            for key, word in (("machine", "machine"), ("cpu", "cpu"), ("seed", "seed"))
            if key in target
        ),
    ]
    return _harmless(", ".join(parts))


def _trailers(origin: Mapping[str, str]) -> Iterator[list[str]]:
    """What the patches say they are; not "Change-Id:", which checkpatch.pl takes for Gerrit's."""
    if origin.get("change-id"):
        yield _item(_harmless(f"the patches' change-id is {origin['change-id']}"))
    if origin.get("base-commit"):
        yield ["- the patches are made for", f"  base-commit: {plain(origin['base-commit'])}"]


def _measured(
    names: Mapping[str, Sequence[str]], counted: Sequence[tuple[int, int]]
) -> Iterator[list[str]]:
    """The cases, and how often; a spread is spelled out where there is one."""
    yield from _of_sides("measured", {side: ", ".join(cases) for side, cases in names.items()})
    if counted:
        yield from _windows(counted)


def _windows(counted: Sequence[tuple[int, int]]) -> Iterator[list[str]]:
    low, high = min(windows for _, windows in counted), max(windows for _, windows in counted)
    windows = f"{high}" if low == high else f"{low} to {high}"
    spread = sum(agreeing < windows for agreeing, windows in counted)
    agree = f"a spread in {spread} of {len(counted)} counts" if spread else "zero spread"
    yield _item(f"{windows} windows a case, {agree}")


def _axes(comparison: Comparison) -> set[str]:
    """Which of instructions and time there is a change of."""
    counted = bool(comparison.cases) or any("instr" in row.metric for row in comparison.timed)
    return {
        *([INSTRUCTIONS] if counted else []),
        *(["time"] if comparison.timed else []),
    }


def _not_measured(
    measured: Iterable[str], axes: Collection[str] = (INSTRUCTIONS,)
) -> Iterator[list[str]]:
    others = [name for name in ARCHES if name not in set(measured)]
    more = f", other architectures: {', '.join(others)}" if others else ""
    absent = [word for word in (INSTRUCTIONS, "time") if word not in axes]
    yield _item(f"not measured: {', '.join([*absent, 'cache misses'])}{more}")


def _whole_difference(series: Series) -> Iterator[Caveat]:
    """What differs between the first kernel and the last, where no single patch made it."""
    told = {one["text"] for row in series.rows for one in row.caveats}
    for arch, first in series.first.items():
        last = series.last[arch]
        names = [one.case for one in series.columns if one.arch == arch and last.case(one.case)]
        differences = compare(first, last, names).caveats if names else ()
        for one in differences:
            if one["kind"] in DIFFERENCES and one["text"] not in told:
                side = f"first to last{f', {arch}' if len(series.first) > 1 else ''}"
                yield caveats.of_side(side, one)


def _notes(found: Iterable[Caveat]) -> Iterator[list[str]]:
    texts = dict.fromkeys(one["text"] for one in found if one["kind"] != caveats.not_time()["kind"])
    return (_item(_harmless(f"note: {text}")) for text in texts)
