# SPDX-License-Identifier: GPL-2.0-or-later
"""What `kentry series` prints: the table of a series, and what it says in sentences.

Columns that take the same steps in every row are shown once, as a group.
"""

from collections.abc import Iterable, Iterator, Sequence

from kentry.results import caveats
from kentry.results.case_name import CaseName
from kentry.results.caveats import Caveat
from kentry.results.series import NO_APPLY, NO_BOOT, NO_BUILD, Series, SeriesColumn
from kentry.show.comparison import series_event_lines
from kentry.show.estimate import series_estimate_lines
from kentry.show.frame import caveat_lines, kernel_lines
from kentry.show.functions import SHOWN, function_lines_with_total
from kentry.show.metrics import series_metric_lines
from kentry.show.numbers import change, signed
from kentry.show.table import Column, Table, ascii_lines, plain, shortened, text_column, wrapped

# Of several cases that take the same steps, this one is shown.
PREFERRED = "getppid"

_WORDS = {NO_APPLY: "does not apply", NO_BUILD: "does not build", NO_BOOT: "does not boot"}

# A table that is too wide has this much of each subject.
_SUBJECT = 21
# A case's name is shortened to this width, so that there is always room for subjects.
_TITLE = 40

# Spreads that are named one by one; further ones are counted.
_SPREAD_NAMED = 6


def series_text(series: Series, functions: bool, shown: int | None = SHOWN) -> str:
    """The whole report; with `functions` also at most `shown` of every step, None for all."""
    lines = [line for one in series.base.values() for line in kernel_lines(one, "base: ")]
    lines += ["", *table_lines(series), *series_metric_lines(series, grouped(series)[0])]
    lines += ["", *summary_lines(series)]
    lines += series_estimate_lines(series, grouped(series)[0])
    for row in series.rows:
        for detail in dict.fromkeys(one.detail for one in row.problems.values() if one.detail):
            arches = [arch for arch, one in row.problems.items() if one.detail == detail]
            status = row.problems[arches[0]].status
            name = f"Patch {row.patch}" if row.patch else "The baseline"
            where = f" ({', '.join(arches)})" if len(series.base) > 1 else ""
            lines += ["", f"{name} {_WORDS.get(status, status)}{where}:"]
            for line in detail.expandtabs().splitlines():
                visible = (char if char.isprintable() else "?" for char in line)
                lines.append(f"    {''.join(visible)}")
    if functions:
        groups = grouped(series)[0]
        for row in series.rows:
            for column in groups:
                cell = row.cases.get(column.name)
                if cell and (cell.step or cell.functions):
                    old = cell.instructions - cell.step
                    lines += ["", f"Patch {row.patch}, {column.name} ({signed(cell.step)})"]
                    new = cell.instructions
                    lines += function_lines_with_total(cell.functions, old, new, shown)
    lines += caveat_lines([caveats.not_time(), *series_caveats(series)])
    return ascii_lines(lines)


def grouped(series: Series) -> tuple[dict[SeriesColumn, list[SeriesColumn]], list[SeriesColumn]]:
    """Each shown column with the others of its steps, and the columns in which nothing changed.

    If nothing changed in any column, one is shown anyway: its counts are the result.
    """
    found: dict[tuple[object, ...], list[SeriesColumn]] = {}
    unchanged = []
    for column in series.columns:
        if all(
            not row.cases[column.name].step
            if column.name in row.cases
            else column.arch in row.problems
            for row in series.rows
        ):
            unchanged.append(column)
        else:
            steps = [
                row.cases[column.name].step if column.name in row.cases else None
                for row in series.rows
            ]
            found.setdefault((column.arch, *steps), []).append(column)
    if not found and unchanged:
        shown = min(unchanged, key=lambda one: one.case != PREFERRED)
        return {shown: []}, [one for one in unchanged if one != shown]
    # The preferred case comes first of its architecture, beside the subjects.
    groups = [sorted(columns, key=lambda one: one.case != PREFERRED) for columns in found.values()]
    arches = list(dict.fromkeys(group[0].arch for group in groups))
    groups.sort(key=lambda group: (arches.index(group[0].arch), group[0].case != PREFERRED))
    return {shown: others for shown, *others in groups}, unchanged


def table_lines(series: Series) -> list[str]:
    """A row a patch: of each group the count, its step, and the total of the steps so far."""
    groups = grouped(series)[0]
    columns = [Column(), text_column("kernel instructions", most=_SUBJECT)]
    for column in groups:
        title = f"{column.name}{CaseName.parse(column.case).calls_note}"
        title = shortened(plain(title), _TITLE)
        columns += [Column(name, group=title) for name in ("count", "step", "total")]
    layout = Table(columns, keys=2)
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
                cells += [cell.instructions, step, signed(cell.total)]
        layout.row(row.patch, row.subject if row.patch else "Baseline", *cells)
        reasons = []
        for arch, problem in row.problems.items():
            words = _WORDS.get(problem.status, problem.status)
            sentence = plain(problem.sentence).removeprefix(f"{words}: ")
            reasons.append((arch, f"{words}: {sentence}"))
        for reason in _by_arch(series, reasons):
            layout.note(reason)
    return layout.lines()


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


def summary_lines(series: Series) -> list[str]:
    """What the table leaves out and what it says: sentences, then the totals."""
    groups, unchanged = grouped(series)
    measured = any(row.patch and row.cases for row in series.rows)
    sentences = []
    for shown, others in groups.items():
        if others:
            which = f" as {shown.name}" if len(groups) > 1 else ""
            counts = _baselines(series, others)
            sentences.append(f"The same steps{which}, from another baseline: {counts}")
    if unchanged:
        words = "No change in any row" if measured else "Measured on the baseline only"
        sentences.append(f"{words}: {_baselines(series, unchanged)}")
    sentences += _same_counts(series)
    sentences += _by_arch(series, _gaps(series))
    sentences += _spread(series)
    for column in groups if measured else ():
        rows = [row for row in series.rows if column.name in row.cases]
        old, new = (row.cases[column.name].instructions for row in (rows[0], rows[-1]))
        up_to = f" up to patch {rows[-1].patch}" if rows[-1] is not series.rows[-1] else ""
        share = f", {change(new - old, old)} of the baseline" if old and new != old else ""
        name = f"{column.name}{CaseName.parse(column.case).calls_note}"
        sentences.append(f"Total{up_to}: {name} {old} -> {new} ({signed(new - old)}{share})")
    lines = [line for sentence in sentences for line in wrapped(sentence)]
    return [*series_event_lines(series), *lines]


def _baselines(series: Series, columns: Iterable[SeriesColumn]) -> str:
    first = series.rows[0].cases
    return ", ".join(f"{one.name} {first[one.name].instructions}" for one in columns)


def _same_counts(series: Series) -> Iterator[str]:
    """Which patches that change no count run the same instructions, and which do not."""
    patches = [row for row in series.rows if row.patch]
    cosmetic = [row for row in patches if row.identical_path]
    if cosmetic:
        numbers = ", ".join(str(row.patch) for row in cosmetic)
        which = f"{len(cosmetic)} of the {len(patches)} patches ({numbers})"
        whole = all(len(row.cases) == len(series.columns) for row in cosmetic)
        yield (
            f"{'The patch' if len(patches) == 1 else which}"
            f" {'is' if len(cosmetic) == 1 else 'are'} cosmetic: the executed instructions are"
            f" the same in every case{'' if whole else ' that was measured'}."
        )
    same = [
        row
        for row in patches
        if row.cases and row not in cosmetic and not any(one.step for one in row.cases.values())
    ]
    different = [
        row.patch
        for row in same
        if any(one.path_known and not one.identical_path for one in row.cases.values())
    ]
    run = (" runs", " run")
    if different:
        yield f"{_patches(different, *run)} different instructions, of the same number."
    unknown = [row.patch for row in same if row.patch not in different]
    if unknown:
        yield (
            f"{_patches(unknown, *run)} the same number of instructions; whether these"
            " are the same ones is not known, because not every path was recorded."
        )


def _patches(patches: Sequence[int], of_one: str = "", of_several: str = "") -> str:
    numbers = ", ".join(map(str, patches))
    return f"Patches {numbers}{of_several}" if len(patches) > 1 else f"Patch {numbers}{of_one}"


def _gaps(series: Series) -> Iterator[tuple[str, str]]:
    """The steps that are not against the row above because that one was not measured."""
    for arch in series.base:
        last, missing = 0, False
        for row in series.rows:
            if not any(one.arch == arch and one.name in row.cases for one in series.columns):
                missing = True
                continue
            if missing:
                against = f"patch {last}" if last else "the baseline"
                yield (
                    arch,
                    f"The step of patch {row.patch} is against {against},"
                    " the last measured before it.",
                )
            last, missing = row.patch, False


def _spread(series: Series) -> Iterator[str]:
    """The cells in which not all windows have the count."""
    texts: dict[str, list[str]] = {"Not in all windows": [], "Undecided": []}
    for row in series.rows:
        for name, cell in row.cases.items():
            if cell.agreeing < cell.windows:
                decided = 2 * cell.agreeing > cell.windows
                texts["Not in all windows" if decided else "Undecided"].append(
                    f"{f'patch {row.patch}' if row.patch else 'baseline'} {name}"
                    f" {cell.instructions} ({cell.agreeing} of {cell.windows} windows)"
                )
    for words, here in texts.items():
        more = f", and {len(here) - _SPREAD_NAMED} more" if len(here) > _SPREAD_NAMED else ""
        if here:
            yield f"{words}: {', '.join(here[:_SPREAD_NAMED])}{more}."


def series_caveats(series: Series) -> list[Caveat]:
    """Every caveat once except "not time": of the series, of the baseline, of each patch."""
    found = list(series.caveats)
    of_base: dict[tuple[str, str], list[str]] = {}
    for arch, own in series.base_caveats.items():
        for one in own:
            of_base.setdefault((one["kind"], one["text"]), []).append(arch)
    for (kind, text), arches in of_base.items():
        caveat: Caveat = {"kind": kind, "text": text}
        everywhere = len(arches) == len(series.base)
        found.append(caveat if everywhere else caveats.of_side(", ".join(arches), caveat))
    of_patches: dict[tuple[str, str], list[int]] = {}
    for row in series.rows:
        for one in row.caveats:
            of_patches.setdefault((one["kind"], one["text"]), []).append(row.patch)
    for (kind, text), patches in of_patches.items():
        side = _patches(list(dict.fromkeys(patches))).lower()
        found.append(caveats.of_side(side, {"kind": kind, "text": text}))
    cells = (cell for row in series.rows for cell in row.cases.values())
    if any(row.renamed for cell in cells for row in cell.functions):
        found.append(caveats.by_body())
    not_time = caveats.not_time()["kind"]
    return [one for one in found if one["kind"] != not_time]
