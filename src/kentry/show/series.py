# SPDX-License-Identifier: GPL-2.0-or-later
"""The layout of a series: its table, what that says in sentences, and what each patch changes."""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from itertools import accumulate

from kentry.results import caveats, studies
from kentry.results.annotation import PathDiff
from kentry.results.case_name import CaseName
from kentry.results.caveats import Caveat
from kentry.results.studies import PatchRow, ProgramStep, Series, SeriesColumn
from kentry.results.workload import ENTRY
from kentry.show import beside, charts
from kentry.show.blocks import SHOWN, Block, Cell, Column, Layout, Prose, Table, text_column
from kentry.show.comparison import event_change
from kentry.show.numbers import change, signed
from kentry.show.paths import path_summary
from kentry.show.provenance import badges, kernel_facts, kernel_lines, processor_lines, versions
from kentry.show.sections import Chart, Deltas, Detail, Fold, InText, Notes, OnPage, Paths, Section
from kentry.show.table import plain, shortened
from kentry.show.workload import program_name
from kentry.stats.exact import BETTER, WORSE

# Of several cases that take the same steps, this one is shown.
PREFERRED = ("getppid", ENTRY)
# How many changes the heading of a closed patch names.
_TAGS = 3

_WORDS = {
    studies.NO_APPLY: "does not apply",
    studies.NO_BUILD: "does not build",
    studies.NO_BOOT: "does not boot",
}
_SUBJECT_WIDTH = 21
# A case's name is shortened to this width, so that there is always room for subjects.
_TITLE = 40
# Of a patch's new warnings below its row in the table; a page has all.
_WARNINGS = 5
# More patches are drawn as a line: their bars would be too narrow to see.
_BARS = 150
# Spreads that are named one by one; further ones are counted.
_SPREAD_NAMED = 6
# A longer command line is "the program" in a heading.
_PROGRAM = 30
# Of a change of a program, in per cent.
_SHARES = ("of_kernel", "of_all")


def series_layout(
    series: Series,
    functions: bool = False,
    shown: int | None = SHOWN,
    paths: Mapping[tuple[int, str], PathDiff] | None = None,
) -> Layout:
    """Lays out a series; `functions` adds those of each step, `paths` of a patch are for a page."""
    groups = grouped(series)[0]
    of_rows = list(_problem_blocks(series))
    for row in series.rows if functions else ():
        for column in groups:
            cell = row.cases.get(column.name)
            if cell and (cell.step or cell.functions):
                old = cell.instructions - cell.step
                of_rows += ["", f"Patch {row.patch}, {column.name} ({signed(cell.step)})"]
                of_rows.append(Deltas(cell.functions, old, cell.instructions, shown))
    kernels: list[Block] = []
    for base in series.base.values():
        kernels += [*kernel_lines(base.kernel, "base: "), *processor_lines(base.target)]
    drawn = [chart for column, same in groups.items() if (chart := _chart(series, column, same))]
    folds = [_fold(row, series, paths or {}) for row in series.rows if row.patch or row.problems]
    metrics = beside.series_metric_blocks(series, groups)
    facts = list(series.origin.items())
    for arch, base in series.base.items():
        of = f", {arch}" if len(series.base) > 1 else ""
        facts += [(f"{name}{of}", value) for name, value in kernel_facts(base)]
    return Layout(
        "series",
        f"Series on {series.origin.get('base', 'a base')}",
        _page_summary(series, groups),
        [
            InText(kernels),
            Section("Patches", ["", series_table(series), *metrics, "", *summary_blocks(series)]),
            *program_blocks(series),
            *beside.series_estimate_blocks(series, groups),
            InText(of_rows),
            OnPage([Section("The count, patch by patch", drawn)] if drawn else []),
            OnPage([Section("What each patch changes", folds)]),
        ],
        [caveats.not_time(), *series_caveats(series)],
        facts,
        badges=badges(series.tool, *series.base.values()),
        # All architectures have one base.
        versions=versions(*series.base.values())[:1],
    )


def program_blocks(series: Series) -> Iterator[Block]:
    """What each patch gives the program, in instructions and in per cent of all, by architecture.

    Rows add up: all are of the baseline's first boot.
    """
    for arch, base in series.programs.items():
        program = program_name(base.program)
        name = program if len(program) <= _PROGRAM else "the program"
        of = f" ({arch})" if len(series.programs) > 1 else ""
        patches = [row for row in series.rows if row.patch]
        known = [row.program[arch] for row in patches if row.program.get(arch)]
        kinds = {"entry and exit": "entry"}
        # Most patches change entry and exit alone.
        if any(step.whole != step.entry for step in known):
            kinds["all that changed"] = "whole"
        heads = ("instructions", "of kernel", "of all")
        columns = [Column(head, group=kind) for kind in kinds for head in heads]
        title = text_column(f"gives {name}", most=_SUBJECT_WIDTH)
        table = Table([Column(), title, *columns], keys=2)
        for row in patches:
            step = row.program.get(arch)
            cells = _shares([step] if step else [], kinds.values())
            table.row(row.patch, Cell(row.subject, link=f"patch-{row.patch}"), *cells)
        table.row("", "all", *_shares(known, kinds.values()))
        seeds = ", ".join(map(str, base.seeds))
        about = (
            f"{program}{of}: {base.instructions} instructions, {base.kernel_instructions} of the"
            f" kernel, {base.system_calls} system calls in the baseline's first boot; boots with"
            f" seeds {seeds}"
        )
        blocks: list[Block] = ["", Prose(about), "", table]
        column = next((c for c in series.columns if (c.case, c.arch) == (ENTRY, arch)), None)
        if column and series.totals[column.name]:
            kernel, whole = (
                f"{sum(getattr(step.entry, share) for step in known):+.2f} %" for share in _SHARES
            )
            text = (
                f"{signed(series.totals[column.name])} an entry is {kernel} of all kernel"
                f" instructions and {whole} of all of {name}"
            )
            blocks += ["", Prose(text)]
        yield Section(f"What it gives {name}{of}", blocks)


def _shares(steps: Sequence[ProgramStep], kinds: Iterable[str]) -> Iterator[object]:
    """Yields the cells of a sum, three a kind; of nothing where nothing is known."""
    for kind in kinds:
        changes = [getattr(step, kind) for step in steps]
        count = sum(change.instructions for change in changes)
        yield Cell(signed(count), _verdict(count)) if changes else None
        for share in _SHARES:
            total = sum(getattr(change, share) for change in changes)
            yield f"{total:+.2f} %" if count else ""


def _verdict(step: int) -> str:
    return WORSE if step > 0 else BETTER if step < 0 else ""


def _problem_blocks(series: Series) -> Iterator[Block]:
    for row in series.rows:
        for detail in dict.fromkeys(p.detail for p in row.problems.values() if p.detail):
            arches = [arch for arch, problem in row.problems.items() if problem.detail == detail]
            status = row.problems[arches[0]].status
            name = f"Patch {row.patch}" if row.patch else "The baseline"
            where = f" ({', '.join(arches)})" if len(series.base) > 1 else ""
            yield from ("", f"{name} {_WORDS.get(status, status)}{where}:", Detail(detail))


def _page_summary(series: Series, groups: Iterable[SeriesColumn]) -> str:
    patches = [row for row in series.rows if row.patch]
    bad = sum(bool(row.problems) for row in patches)
    identical = sum(row.identical_path for row in patches)
    changed: dict[str, str] = {}
    for column in groups:
        if total := series.totals.get(column.name):
            first = _first(series, column.name)
            text = f"{column.name}: {first} \u2192 {first + total} ({signed(total)})"
            changed.setdefault(column.arch, text)
    counts = {"patches": len(patches), "identical": identical, "without all numbers": bad}
    amounts = [f"{count} {what}" for what, count in counts.items() if count]
    return ", ".join([*(changed.values() or ["no count changed"]), *amounts])


def _first(series: Series, name: str) -> int:
    """Returns the count before the first step that is known; 0 where none is."""
    first = next((row.cases[name] for row in series.rows if name in row.cases), None)
    return first.instructions - first.step if first else 0


def _chart(series: Series, column: SeriesColumn, same: Sequence[SeriesColumn]) -> Chart | None:
    name, base = column.name, _first(series, column.name)
    if not any(row.cases[name].step for row in series.rows if name in row.cases):
        return None
    bars = []
    for row in (row for row in series.rows if row.patch):
        cell = row.cases.get(name)
        text = f"{cell.step:+d} to {cell.instructions}" if cell else row.status
        title = f"Patch {row.patch}, {row.subject}: {text}"
        step, mark = (cell.step, "point") if cell else (0, "unknown")
        link, label = f"patch-{row.patch}", str(row.patch)
        bars.append(charts.Point(row.patch, step, title, mark, link, label))
    label = f"{name}: kernel instructions, patch by patch"
    if len(bars) <= _BARS:
        drawing = charts.waterfall(base, bars, label)
    else:
        totals = accumulate((bar.y for bar in bars), initial=base)
        points = [charts.Point(number, total, str(total)) for number, total in enumerate(totals)]
        drawing = charts.line(points, label, "patch", "instructions", shape="steps")
    others = f"; the same steps in {', '.join(column.name for column in same)}" if same else ""
    total = signed(series.totals.get(name, 0))
    return Chart(drawing, f"{name}: {total} in all{others}. The axis does not begin at 0.")


def _fold(row: PatchRow, series: Series, paths: Mapping[tuple[int, str], PathDiff]) -> Fold:
    blocks: list[Block] = [f"commit {row.commit}"] if row.commit else []
    for arch, problem in row.problems.items():
        blocks += [f"{arch}: {problem.sentence}", Detail(problem.detail)]
    blocks += [Detail("\n".join(_warnings(series, row)))] if row.warnings else []
    cases = {column.name: column.case for column in series.columns}
    for names, cell in row.changes:
        own = list(_cell_blocks(names, cell, cases.get(names[0], names[0])))
        blocks.append(Section(f"{', '.join(names)}: {signed(cell.step)}", own))
        if diff := paths.get((row.patch, names[0])):
            title = f"Both paths of {names[0]}, side by side"
            blocks.append(Fold(title, [*path_summary(diff), Paths(diff, change=cell.step)]))
    if not row.changes and not row.problems:
        same = "It executes the same instructions in every case."
        known = "The number of instructions is the same in every case."
        blocks.append(same if row.identical_path else known)
    blocks.append(Notes(row.caveats))
    tags = ["identical"] * row.identical_path + [row.status] * bool(row.problems)
    # A reader sees what a patch costs before it is opened.
    for names, cell in row.changes[:_TAGS]:
        others = f" and {len(names) - 1} more" if len(names) > 1 else ""
        tags.append(f"{names[0]}{others} {signed(cell.step)}")
    if len(row.changes) > _TAGS:
        tags.append(f"{len(row.changes) - _TAGS} other changes")
    title = f"{row.patch or 'base'}. {row.subject}"
    return Fold(title, blocks, f"patch-{row.patch}", tags=tags)


def _cell_blocks(names: Sequence[str], cell: studies.Cell, case: str) -> Iterator[Block]:
    if cell.functions:
        # Beside the count of several columns the functions that did not change would differ.
        old = cell.instructions - cell.step
        whole = old if len(names) == 1 else sum(function.old for function in cell.functions)
        yield Deltas(cell.functions, whole, whole + cell.step)
    for event in cell.events or ():
        yield event_change(event, case)
    metrics = [f"{key} {signed(metric.step)}" for key, metric in cell.metrics.items() if metric]
    yield ", ".join(metrics)
    cycles = [
        f"{beside.cycle_range(estimate)} on {estimate.core}" for estimate in cell.estimates or ()
    ]
    if cycles:
        yield f"Cycles by scheduling models, not measured: {'; '.join(cycles)}."


def grouped(series: Series) -> tuple[dict[SeriesColumn, list[SeriesColumn]], list[SeriesColumn]]:
    """Returns each shown column (at least one) with others of its steps, and unchanged columns."""
    by_steps: dict[tuple[object, ...], list[SeriesColumn]] = {}
    unchanged = []
    for column in series.columns:
        cells = [(row, row.cases.get(column.name)) for row in series.rows]
        steps = [cell and cell.step for _, cell in cells]
        gaps = any(column.arch not in row.problems for row, cell in cells if cell is None)
        if gaps or any(steps):
            by_steps.setdefault((column.arch, *steps), []).append(column)
        else:
            unchanged.append(column)
    if not by_steps and unchanged:
        shown = min(unchanged, key=lambda column: column.case not in PREFERRED)
        return {shown: []}, [column for column in unchanged if column != shown]
    # The preferred case comes first of its architecture, beside the subjects.
    groups = [sorted(same, key=lambda c: c.case not in PREFERRED) for same in by_steps.values()]
    arches = list(dict.fromkeys(first.arch for first, *_ in groups))
    groups.sort(key=lambda group: (arches.index(group[0].arch), group[0].case not in PREFERRED))
    return {shown: others for shown, *others in groups}, unchanged


def series_table(series: Series) -> Table:
    """A row a patch: of each group the count, its step, and the total of the steps so far."""
    groups = grouped(series)[0]
    columns = [Column(), text_column("kernel instructions", most=_SUBJECT_WIDTH)]
    for column in groups:
        title = f"{column.name}{CaseName.parse(column.case).calls_note}"
        title = shortened(plain(title), _TITLE)
        columns += [Column(name, group=title) for name in ("count", "step", "total")]
    warned = any(row.warnings for row in series.rows)
    columns += [Column("warnings", group="new")] * warned
    table, is_sum = Table(columns, keys=2, filters=True), False
    for row in series.rows:
        cells: list[object] = []
        for column in groups:
            cell = row.cases.get(column.name)
            if cell is None:
                cells += [None if row.cases else "", "", ""]
            elif not row.patch:
                cells += [cell.instructions, "", ""]
            else:
                step = "identical" if row.identical_path else signed(cell.step)
                count = beside.counted(cell.instructions, cell)
                cells += [count, Cell(step, _verdict(cell.step)), signed(cell.total)]
            is_sum |= bool(cell and cell.sum_of_contexts)
        subject = Cell(row.subject, link=f"patch-{row.patch}") if row.patch else "Baseline"
        new = _warnings(series, row)
        cells += [Cell(str(len(new)), WORSE) if new else ""] * warned
        table.row(row.patch, subject, *cells)
        reasons = []
        for arch, problem in row.problems.items():
            status = _WORDS.get(problem.status, problem.status)
            sentence = plain(problem.sentence).removeprefix(f"{status}: ")
            reasons.append((arch, f"{status}: {sentence}"))
        more = [f"and {len(new) - _WARNINGS} more new warnings"] if len(new) > _WARNINGS else []
        for text in [*_by_arch(series, reasons), *new[:_WARNINGS], *more]:
            table.note(text)
    if is_sum:
        table.note(beside.SUM_NOTE)
    return table


def _warnings(series: Series, row: PatchRow) -> list[str]:
    """The patch's new warnings, those of several architectures once."""
    texts = ((arch, text) for arch, own in row.warnings.items() for text in own)
    return _by_arch(series, ((arch, f"new warning: {plain(text)}") for arch, text in texts))


def _by_arch(series: Series, texts: Iterable[tuple[str, str]]) -> list[str]:
    """(architecture, text): each text once, with its architectures unless these are all."""
    arches: dict[str, list[str]] = {}
    for arch, text in texts:
        arches.setdefault(text, []).append(arch)
    everything: set[str] = {column.arch for column in series.columns}
    everything |= {arch for row in series.rows for arch in row.problems}
    return [
        text if everything <= set(here) else f"{', '.join(here)}: {text}"
        for text, here in arches.items()
    ]


def summary_blocks(series: Series) -> list[Block]:
    """Returns what the table leaves out and what it says: sentences, then the totals."""
    groups, unchanged = grouped(series)
    measured = any(row.patch and row.cases for row in series.rows)
    sentences = []
    for shown, others in groups.items():
        if others:
            which = f" as {shown.name}" if len(groups) > 1 else ""
            counts = _baselines(series, others)
            sentences.append(f"The same steps{which}, from another baseline: {counts}")
    if unchanged:
        text = "No change in any row" if measured else "Measured on the baseline only"
        sentences.append(f"{text}: {_baselines(series, unchanged)}")
    sentences += _same_counts(series)
    sentences += _by_arch(series, _gaps(series))
    sentences += _spread(series)
    for column in groups if measured else ():
        rows = [row for row in series.rows if column.name in row.cases]
        if not rows:
            continue
        last = rows[-1].cases[column.name]
        old, new = rows[0].cases[column.name].instructions, last.instructions
        up_to = f" up to patch {rows[-1].patch}" if rows[-1] is not series.rows[-1] else ""
        share = f", {change(new - old, old)} of the baseline" if old and new != old else ""
        name = f"{column.name}{CaseName.parse(column.case).calls_note}"
        count = beside.counted(new, last)
        sentences.append(f"Total{up_to}: {name} {old} -> {count} ({signed(new - old)}{share})")
    return [*_event_blocks(series), *map(Prose, sentences)]


def _event_blocks(series: Series) -> Iterator[Block]:
    for row in series.rows:
        groups: dict[str, list[str]] = {}
        for column in series.columns:
            cell = row.cases.get(column.name)
            if cell and cell.events:
                text = "; ".join(event_change(event, column.case) for event in cell.events)
                groups.setdefault(text, []).append(column.name)
        for text, names in groups.items():
            yield Prose(f"Patch {row.patch}: {text}: {', '.join(names)}")


def _baselines(series: Series, columns: Iterable[SeriesColumn]) -> str:
    first = series.rows[0].cases
    # A file may name columns that its rows do not have.
    known = [column for column in columns if column.name in first]
    return ", ".join(f"{column.name} {first[column.name].instructions}" for column in known)


def _same_counts(series: Series) -> Iterator[str]:
    patches = [row for row in series.rows if row.patch]
    identical = [row for row in patches if row.identical_path]
    if identical:
        single, numbers = len(identical) == 1, ", ".join(str(row.patch) for row in identical)
        which = f"{len(identical)} of the {len(patches)} patches ({numbers})"
        which = f"{'The patch' if len(patches) == 1 else which} {'is' if single else 'are'}"
        whole = all(len(row.cases) == len(series.columns) for row in identical)
        measured = "" if whole else " that was measured"
        yield (
            f"{which} identical on the measured paths: the executed instructions are the same in"
            f" every case{measured}."
        )
    for arch in series.base:
        if without := [row for row in identical if arch in row.not_compiled]:
            yield f"{_patches(without)}: nothing of it is compiled for {arch}."
    different, unknown = list[PatchRow](), list[PatchRow]()
    for row in patches:
        cells = row.cases.values()
        if cells and not row.identical_path and not any(cell.step for cell in cells):
            known = any(cell.path_known and not cell.identical_path for cell in cells)
            (different if known else unknown).append(row)
    run = (" runs", " run")
    if different:
        yield f"{_patches(different, *run)} different instructions, of the same number."
    if unknown and series.programs:
        yield f"{_patches(unknown, ' changes', ' change')} no count of a call."
    elif unknown:
        yield (
            f"{_patches(unknown, *run)} the same number of instructions; whether these"
            " are the same ones is not known, because not every path was recorded."
        )


def _patches(rows: Collection[PatchRow], of_one: str = "", of_several: str = "") -> str:
    numbers = ", ".join(str(row.patch) for row in rows)
    return f"Patches {numbers}{of_several}" if len(rows) > 1 else f"Patch {numbers}{of_one}"


def _gaps(series: Series) -> Iterator[tuple[str, str]]:
    """Yields the steps that are not against the row above because that one was not measured."""
    for arch in series.base:
        last, missing = 0, False
        for row in series.rows:
            if not any(col.arch == arch and col.name in row.cases for col in series.columns):
                missing = True
                continue
            if missing:
                against = f"patch {last}" if last else "the baseline"
                text = f"The step of patch {row.patch} is against {against}"
                yield arch, f"{text}, the last measured before it."
            last, missing = row.patch, False


def _spread(series: Series) -> Iterator[str]:
    texts: dict[str, list[str]] = {"Not in all windows": [], "Undecided": []}
    # Calls of a program's kinds do not all execute one count; which columns it has says more.
    for row in series.rows if not series.programs else ():
        where = f"patch {row.patch}" if row.patch else "baseline"
        for name, cell in row.cases.items():
            if cell.agreeing < cell.windows:
                windows = f"{cell.agreeing} of {cell.windows} windows"
                spread = "Not in all windows" if 2 * cell.agreeing > cell.windows else "Undecided"
                texts[spread].append(f"{where} {name} {cell.instructions} ({windows})")
    for spread, here in texts.items():
        more = f", and {len(here) - _SPREAD_NAMED} more" if len(here) > _SPREAD_NAMED else ""
        if here:
            yield f"{spread}: {', '.join(here[:_SPREAD_NAMED])}{more}."


def series_caveats(series: Series) -> list[Caveat]:
    """Returns each caveat once except "not time": of the series, of the baseline, of each patch."""
    notes = list(series.caveats)
    of_base: dict[tuple[str, str], list[str]] = {}
    for arch, own in series.base_caveats.items():
        for note in own:
            of_base.setdefault((note["kind"], note["text"]), []).append(arch)
    for (kind, text), arches in of_base.items():
        caveat: Caveat = {"kind": kind, "text": text}
        everywhere = len(arches) == len(series.base)
        notes.append(caveat if everywhere else caveats.of_side(", ".join(arches), caveat))
    of_patches: dict[tuple[str, str], dict[int, PatchRow]] = {}
    for row in series.rows:
        for note in row.caveats:
            of_patches.setdefault((note["kind"], note["text"]), {})[row.patch] = row
    for (kind, text), rows in of_patches.items():
        side = _patches(rows.values()).lower()
        notes.append(caveats.of_side(side, {"kind": kind, "text": text}))
    cells = (cell for row in series.rows for cell in row.cases.values())
    if any(row.renamed for cell in cells for row in cell.functions):
        notes.append(caveats.by_body())
    not_time = caveats.not_time()["kind"]
    return [note for note in notes if note["kind"] != not_time]
