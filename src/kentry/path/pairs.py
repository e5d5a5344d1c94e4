# SPDX-License-Identifier: GPL-2.0-or-later
"""Both paths of each case as a comparison's file has them: a code table a side, and runs."""

from collections.abc import Mapping, Sequence
from functools import lru_cache

from msgspec import UNSET

from kentry.arch import Arch
from kentry.path.metrics import readable_text
from kentry.path.symbols import base_name
from kentry.results.annotation import PathDiff, PathPair, PlacedInstruction, Row
from kentry.results.comparison import PackedPair, PackedPaths, RowRun
from kentry.results.recording import CodeFile, Instruction, followed

# Where both sides' places begin in a run of rows.
_PLACES = 7


# A comparison asks for the same instructions in each of its cases.
@lru_cache(maxsize=1 << 16)
def placed(insn: Instruction, arch: Arch) -> PlacedInstruction:
    """Returns an instruction as kentry annotate prints it."""
    return PlacedInstruction(
        f"{insn.address:016x}",
        insn.code,
        readable_text(insn, arch),
        base_name(insn.function),
        insn.offset,
        insn.source_lines or UNSET,
    )


def pack_pairs(pairs: Mapping[str, PathPair], arch: Arch) -> PackedPaths:
    """Returns the paths of cases with each instruction and each word once."""
    codes: tuple[dict[Instruction, int], dict[Instruction, int]] = ({}, {})
    numbers: dict[str, int] = {}
    cases = {}
    for name, pair in pairs.items():
        runs, rows_of = [], []
        for code, path in zip(codes, (pair.old, pair.new), strict=True):
            runs.append(followed((code.setdefault(insn, len(code)), 1) for insn in path))
            # A row has what is printed of an instruction of the path.
            rows_of.append({placed(insn, arch): code[insn] for insn in dict.fromkeys(path)})
        rows = []
        for row in pair.diff.rows:
            texts = (row.change, row.function, row.part, row.reason, row.source)
            old = None if row.old is None else rows_of[0][row.old]
            new = None if row.new is None else rows_of[1][row.new]
            a, b, c, d, e = (numbers.setdefault(text, len(numbers)) for text in texts)
            rows.append((a, b, c, d, e, row.constants_differ, row.times, old, new, 1))
        cases[name] = PackedPair(runs[0], runs[1], _runs(rows), pair.diff.renamed)
    return PackedPaths(CodeFile.packed(codes[0]), CodeFile.packed(codes[1]), tuple(numbers), cases)


def _runs(rows: Sequence[RowRun]) -> tuple[RowRun, ...]:
    """Returns rows that follow each other on both sides as one."""
    runs: list[RowRun] = []
    for row in rows:
        if runs and runs[-1][:_PLACES] == row[:_PLACES]:
            old, new, count = runs[-1][7], runs[-1][8], runs[-1][9]
            after = (None if old is None else old + count, None if new is None else new + count)
            if after == row[_PLACES:-1]:
                runs[-1] = (*runs[-1][:-1], count + 1)
                continue
        runs.append(row)
    return tuple(runs)


def unpack_pairs(packed: PackedPaths, arch: Arch) -> dict[str, PathPair]:
    """Returns the paths by case; ValueError or IndexError where they do not add up."""
    codes = packed.old.unpacked(), packed.new.unpacked()
    shown = [[placed(insn, arch) for insn in code] for code in codes]
    pairs = {}
    for name, case in packed.cases.items():
        for code, runs, field in zip(codes, (case.old, case.new), (7, 8), strict=True):
            ends = [first + count for first, count in runs]
            ends += [(row[field] or 0) + row[9] for row in case.rows if row[field] is not None]
            # What is beyond the code could fill the memory.
            if max(ends, default=0) > len(code):
                raise ValueError(f"the paths of {name} are beyond the code")
        rows = []
        for *texts, constants, times, old, new, count in case.rows:
            change, function, part, reason, source = (packed.words[word] for word in texts)
            rows += [
                Row(
                    change=change,  # type: ignore[arg-type]
                    times=times,
                    function=function,
                    part=part,
                    reason=reason,
                    source=source,
                    constants_differ=constants,
                    old=None if old is None else shown[0][old + at],
                    new=None if new is None else shown[1][new + at],
                )
                for at in range(count)
            ]
        old_path, new_path = (
            [code[index] for first, size in runs for index in range(first, first + size)]
            for code, runs in zip(codes, (case.old, case.new), strict=True)
        )
        diff = PathDiff(name=name, rows=tuple(rows), renamed=case.renamed)
        if (diff.old, diff.new) != (len(old_path), len(new_path)):
            raise ValueError(f"the paths of {name} do not add up")
        pairs[name] = PathPair(old_path, new_path, diff)
    return pairs
