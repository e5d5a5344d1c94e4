# SPDX-License-Identifier: GPL-2.0-or-later
"""The table of a series as plain text, for a terminal and, narrower, for a mail.

Columns that take the same steps in every row are shown once, by their group's first.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from kentry.model import caveats
from kentry.model.case_name import CaseName
from kentry.model.caveats import Caveat
from kentry.model.series import NO_APPLY, NO_BOOT, NO_BUILD, Cell, Column, PatchRow, Series
from kentry.report.plain import ascii_lines, percent, plain, shortened, signed, wrapped
from kentry.report.text import bloat_lines, caveat_lines, function_row, kernel_lines
from kentry.report.vector import series_event_lines

WIDTH = 79

# Of several cases that take the same steps this one is shown.
PREFERRED = "getppid"

_IDENTICAL = "identical path"
_WORDS = {NO_APPLY: "does not apply", NO_BUILD: "does not build", NO_BOOT: "does not boot"}

# Columns of the first block that are the subjects', if they need them and there is room.
_SUBJECT = 28
_SUBJECT_LEAST = 8
_SUBJECT_HEAD = "kernel instructions"
_BETWEEN = 2
# What a case's name may be at most, so that a mail always has room for subjects.
_TITLE = 40

# Cells named of which not all windows agree; the others are counted.
_SPREAD_NAMED = 6


@dataclass(frozen=True)
class Group:
    """Columns of one architecture that take the same steps: the one shown, and the others."""

    shown: Column
    others: tuple[Column, ...] = ()


def series_text(series: Series, functions: bool) -> str:
    """What `kentry series` prints: the table, what it says, where the patches stopped, notes.

    With `functions` every step's functions follow, in bloat-o-meter's form.
    """
    lines = [line for one in series.first.values() for line in kernel_lines(one, "base: ")]
    lines += ["", *table_lines(series, WIDTH), "", *summary_lines(series, WIDTH)]
    lines += _details(series)
    if functions:
        lines += _functions(series)
    lines += caveat_lines([caveats.not_time(), *notes(series)])
    return ascii_lines(lines)


def grouped(series: Series) -> tuple[list[Group], list[Column]]:
    """The groups that are shown, and the columns in which nothing changed.

    Where nothing changed in any, one is shown all the same: its counts are the result.
    """
    found: dict[tuple[object, ...], list[Column]] = {}
    unchanged = []
    for column in series.columns:
        if _is_unchanged(series, column):
            unchanged.append(column)
        else:
            steps = [row.cells[column].step if column in row.cells else None for row in series.rows]
            found.setdefault((column.arch, *steps), []).append(column)
    if not found and unchanged:
        return [Group(_first(unchanged))], [one for one in unchanged if one != _first(unchanged)]
    groups = []
    for columns in found.values():
        shown = _first(columns)
        groups.append(Group(shown, tuple(one for one in columns if one != shown)))
    # What most readers look for comes first, beside the subjects.
    arches = list(dict.fromkeys(group.shown.arch for group in groups))
    groups.sort(key=lambda one: (arches.index(one.shown.arch), one.shown.case != PREFERRED))
    return groups, unchanged


def _first(columns: Sequence[Column]) -> Column:
    return next((one for one in columns if one.case == PREFERRED), columns[0])


def _is_unchanged(series: Series, column: Column) -> bool:
    return all(
        not row.cells[column].step if column in row.cells else column.arch in row.problems
        for row in series.rows
    )


def table_lines(series: Series, width: int) -> list[str]:
    """The table: blocks as wide as fit, the subjects in the first one."""
    blocks = [_Block(series, group) for group in grouped(series)[0]]
    number = max(len(str(row.patch)) for row in series.rows)
    subjects = {row.patch: plain(row.subject) if row.patch else "Baseline" for row in series.rows}
    longest = max(len(_SUBJECT_HEAD), *(len(subject) for subject in subjects.values()))
    room = width - number - 2
    here = _fitting(blocks, room - min(longest, _SUBJECT))
    taken = sum(block.width + _BETWEEN for block in here)
    subject = max(_SUBJECT_LEAST, min(longest, room - taken))
    lines = [
        f"{'':{number}}  {'':{subject}}{_joined(block.title() for block in here)}",
        f"{'':{number}}  {_SUBJECT_HEAD[:subject]:{subject}}{_joined(b.head() for b in here)}",
    ]
    for row in series.rows:
        start = f"{row.patch:>{number}}  {shortened(subjects[row.patch], subject):{subject}}"
        cells = _joined(block.cell(row) for block in here) if row.cells else ""
        lines += _row_lines(start + cells, _reasons(series, row), width, " " * (number + 2))
    blocks = blocks[len(here) :]
    while blocks:
        here = _fitting(blocks, width - number)
        blocks = blocks[len(here) :]
        lines += ["", f"{'':{number}}{_joined(block.title() for block in here)}"]
        lines.append(f"{'':{number}}{_joined(block.head() for block in here)}")
        for row in series.rows:
            lines.append(f"{row.patch:>{number}}{_joined(block.cell(row) for block in here)}")
    return [line.rstrip() for line in lines]


def _row_lines(row: str, reasons: Sequence[str], width: int, indent: str) -> list[str]:
    """A row, with why it has no numbers behind it, or below where that is longer."""
    if len(reasons) == 1 and len(row) + _BETWEEN + len(reasons[0]) <= width:
        return [f"{row}{'':{_BETWEEN}}{reasons[0]}"]
    below = (wrapped(reason, width, indent, f"{indent}  ") for reason in reasons)
    return [row, *(line for lines in below for line in lines)]


def _joined(cells: Iterable[str]) -> str:
    return "".join(f"{'':{_BETWEEN}}{cell}" for cell in cells)


def _fitting(blocks: Sequence[_Block], room: int) -> list[_Block]:
    """As many as there is room for, and at least one."""
    here: list[_Block] = []
    for block in blocks:
        room -= block.width + _BETWEEN
        if room < 0 and here:
            break
        here.append(block)
    return here


class _Block:
    """A group's three columns: the count, its step, the sum of the steps so far."""

    def __init__(self, series: Series, group: Group) -> None:
        self._column = group.shown
        name = f"{series.name(group.shown)}{CaseName.parse(group.shown.case).calls_note}"
        self._name = shortened(plain(name), _TITLE)
        cells = [row.cells[group.shown] for row in series.rows if group.shown in row.cells]
        self._count = max(len("count"), *(len(str(cell.instructions)) for cell in cells))
        self._total = max(len("total"), *(len(signed(cell.total)) for cell in cells))
        self._step = max(len("step"), *(len(signed(cell.step)) for cell in cells)) + 1
        if any(row.identical_path for row in series.rows):
            self._step = max(self._step, len(_IDENTICAL) - 1 - self._total)
        self.width = max(len(self._name), self._count + self._step + self._total + 2)

    def title(self) -> str:
        return f"{self._name:>{self.width}}"

    def head(self) -> str:
        return self._line("count", "step", "total")

    def cell(self, row: PatchRow) -> str:
        cell = row.cells.get(self._column)
        if cell is None:
            return self._line("-", "", "")
        if not row.patch:
            return self._line(str(cell.instructions), "", "")
        if row.identical_path:
            both = self._step + 1 + self._total
            return f"{cell.instructions:>{self.width - both - 1}} {_IDENTICAL:>{both}}"
        return self._line(str(cell.instructions), signed(cell.step), signed(cell.total))

    def _line(self, count: str, step: str, total: str) -> str:
        text = f"{count:>{self._count}} {step:>{self._step}} {total:>{self._total}}"
        return f"{text:>{self.width}}"


def _reasons(series: Series, row: PatchRow) -> list[str]:
    """Why the row has no numbers."""
    return _by_arch(series, ((arch, _reason(row, arch)) for arch in row.problems))


def _reason(row: PatchRow, arch: str) -> str:
    problem = row.problems[arch]
    words = _WORDS.get(problem.status, problem.status)
    return f"{words}: {plain(problem.sentence).removeprefix(f'{words}: ')}"


def _by_arch(series: Series, found: Iterable[tuple[str, str]]) -> list[str]:
    """(architecture, text): each text once, with whose it is where that is not all of them."""
    arches: dict[str, list[str]] = {}
    for arch, text in found:
        arches.setdefault(text, []).append(arch)
    everything = {column.arch for column in series.columns}
    everything |= {arch for row in series.rows for arch in row.problems}
    return [
        text if everything <= set(here) else f"{', '.join(here)}: {text}"
        for text, here in arches.items()
    ]


def summary_lines(series: Series, width: int) -> list[str]:
    """What the table leaves out, and what it says: sentences, then the totals."""
    sentences = [
        *_same_steps(series),
        *_no_change(series),
        *_cosmetic(series),
        *_gaps(series),
        *_spread(series),
        *_totals(series),
    ]
    lines = [line for sentence in sentences for line in wrapped(sentence, width)]
    return [*series_event_lines(series, width), *lines]


def _same_steps(series: Series) -> Iterator[str]:
    groups = grouped(series)[0]
    for group in groups:
        if group.others:
            which = f" as {series.name(group.shown)}" if len(groups) > 1 else ""
            others = _baselines(series, group.others)
            yield f"The same steps{which}, from another baseline: {others}"


def _no_change(series: Series) -> Iterator[str]:
    unchanged = grouped(series)[1]
    if unchanged:
        words = "No change in any row" if _is_measured(series) else "Of the baseline only"
        yield f"{words}: {_baselines(series, unchanged)}"


def _is_measured(series: Series) -> bool:
    return any(row.patch and row.cells for row in series.rows)


def _baselines(series: Series, columns: Iterable[Column]) -> str:
    first = series.rows[0].cells
    return ", ".join(f"{series.name(one)} {first[one].instructions}" for one in columns)


def _cosmetic(series: Series) -> Iterator[str]:
    """Of the patches that change no count, which run the same instructions and which do not."""
    patches = [row for row in series.rows if row.patch]
    cosmetic = [row for row in patches if row.identical_path]
    if cosmetic:
        numbers = _numbers(row.patch for row in cosmetic)
        which = f"{len(cosmetic)} of the {len(patches)} patches ({numbers})"
        whole = all(len(row.cells) == len(series.columns) for row in cosmetic)
        yield (
            f"{'The patch' if len(patches) == 1 else which}"
            f" {'is' if len(cosmetic) == 1 else 'are'} cosmetic: the executed instructions are"
            f" the same in every case{'' if whole else ' that was measured'}."
        )
    as_many = [
        row
        for row in patches
        if row.cells
        and not row.identical_path
        and not any(cell.step for cell in row.cells.values())
    ]
    known = [row.patch for row in as_many if any(map(_runs_others, row.cells.values()))]
    if known:
        yield f"{_patches(known)} {_run(known)} other instructions, but as many."
    unknown = [row.patch for row in as_many if row.patch not in known]
    if unknown:
        yield (
            f"{_patches(unknown)} {_run(unknown)} as many instructions; which ones is not known,"
            " for not every path was recorded."
        )


def _runs_others(cell: Cell) -> bool:
    return cell.path_known and not cell.identical_path


def _numbers(patches: Iterable[int]) -> str:
    return ", ".join(map(str, patches))


def _patches(patches: Sequence[int]) -> str:
    return f"Patch{'es' if len(patches) > 1 else ''} {_numbers(patches)}"


def _run(patches: Sequence[int]) -> str:
    return "runs" if len(patches) == 1 else "run"


def _gaps(series: Series) -> list[str]:
    """Which steps are not against the row before, because that one was not measured."""
    return _by_arch(series, _gaps_of_arches(series))


def _gaps_of_arches(series: Series) -> Iterator[tuple[str, str]]:
    for arch in series.first:
        last, missing = 0, False
        for row in series.rows:
            if not any(column.arch == arch for column in row.cells):
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
    """The cells of which not all windows have the count."""
    found = [
        (row, column, cell)
        for row in series.rows
        for column, cell in row.cells.items()
        if cell.agreeing < cell.windows
    ]
    for words, undecided in (("Not in all windows", False), ("Undecided", True)):
        texts = [
            f"{f'patch {row.patch}' if row.patch else 'baseline'} {series.name(column)}"
            f" {cell.instructions} ({cell.agreeing} of {cell.windows} windows)"
            for row, column, cell in found
            if (2 * cell.agreeing <= cell.windows) == undecided
        ]
        more = f", and {len(texts) - _SPREAD_NAMED} more" if len(texts) > _SPREAD_NAMED else ""
        if texts:
            yield f"{words}: {', '.join(texts[:_SPREAD_NAMED])}{more}."


def _totals(series: Series) -> Iterator[str]:
    if not _is_measured(series):
        return
    for column in (group.shown for group in grouped(series)[0]):
        rows = [row for row in series.rows if column in row.cells]
        old, new = (row.cells[column].instructions for row in (rows[0], rows[-1]))
        up_to = f" up to patch {rows[-1].patch}" if rows[-1] is not series.rows[-1] else ""
        share = f", {percent(new - old, old)} % of the baseline" if old and new != old else ""
        name = f"{series.name(column)}{CaseName.parse(column.case).calls_note}"
        yield f"Total{up_to}: {name} {old} -> {new} ({signed(new - old)}{share})"


def _details(series: Series) -> list[str]:
    """The last lines of whatever failed, below the patch's number."""
    lines: list[str] = []
    for row in series.rows:
        for detail in dict.fromkeys(one.detail for one in row.problems.values() if one.detail):
            arches = [arch for arch, one in row.problems.items() if one.detail == detail]
            words = _WORDS.get(row.problems[arches[0]].status, row.problems[arches[0]].status)
            name = f"Patch {row.patch}" if row.patch else "The baseline"
            where = f" ({', '.join(arches)})" if len(series.first) > 1 else ""
            lines += ["", f"{name} {words}{where}:"]
            lines += [f"    {_visible(line)}" for line in detail.expandtabs().splitlines()]
    return lines


def _visible(line: str) -> str:
    return "".join(char if char.isprintable() else "?" for char in line)


def _functions(series: Series) -> list[str]:
    lines: list[str] = []
    shown = [group.shown for group in grouped(series)[0]]
    for row in series.rows:
        for column in shown:
            cell = row.cells.get(column)
            if cell and (cell.step or cell.functions):
                title = f"Patch {row.patch}, {series.name(column)} ({signed(cell.step)})"
                lines += ["", title, *_step_lines(cell)]
    return lines


def _step_lines(cell: Cell) -> list[str]:
    """The functions of one step; they add up to it."""
    if not cell.functions:
        return ["  no path was recorded on one side, so functions cannot be told"]
    old = cell.instructions - cell.step
    same = old - sum(row.old for row in cell.functions)
    lines = bloat_lines(cell.functions)
    if same:
        lines.append(function_row("unchanged", same, same))
    return [*lines, function_row("Total", old, cell.instructions)]


def notes(series: Series) -> list[Caveat]:
    """Every caveat once, but that it is not time: of the series, the baseline, each patch."""
    found = list(series.caveats)
    of_base: dict[tuple[str, str], list[str]] = {}
    for arch, recording in series.first.items():
        names = {column.case for column in series.columns if column.arch == arch}
        cases = [case for case in recording.cases if case.name in names]
        for one in recording.caveats + [caveat for case in cases for caveat in case.caveats]:
            of_base.setdefault((one["kind"], one["text"]), []).append(arch)
    for (kind, text), arches in of_base.items():
        caveat: Caveat = {"kind": kind, "text": text}
        everywhere = len(arches) == len(series.first)
        found.append(caveat if everywhere else caveats.of_side(", ".join(arches), caveat))
    of_patches: dict[tuple[str, str], list[int]] = {}
    for row in series.rows:
        for one in row.caveats:
            of_patches.setdefault((one["kind"], one["text"]), []).append(row.patch)
    for (kind, text), patches in of_patches.items():
        side = _patches(list(dict.fromkeys(patches))).lower()
        found.append(caveats.of_side(side, {"kind": kind, "text": text}))
    not_time = caveats.not_time()["kind"]
    return [one for one in found if one["kind"] != not_time]
