# SPDX-License-Identifier: GPL-2.0-or-later
"""How large the house is: lines, functions, options, cycles; a row a package and a total.

Usage: python bench/size.py [CHECKOUT]

A private function (its name begins with one underscore) has a single caller if its module names
it once besides its definition.  Options are counted as each command registers them, and
those that may stand anywhere once, without -h, -v and -q.
"""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path

# Lines of Python that a package may have, at most: tests/unit/test_size.py fails beyond.  A change
# that needs more takes it from another package, or says in its commit why the total grows.
BUDGET = {
    "(loose)": 660,
    "arch": 1662,
    "boot": 2577,
    "commands": 3874,
    "compare": 2378,
    "count": 1947,
    "host": 2352,
    "importing": 448,
    "kernels": 4554,
    "machines": 1356,
    "models": 971,
    "path": 1253,
    "results": 3478,
    "show": 6575,
    "stats": 672,
    "store": 499,
    "study": 3654,
    "time": 1584,
    "vector": 2963,
}
# All of tests/, in lines of Python.
TESTS_BUDGET = 43664
# Assertions on prose outside golden files: a sentence that changes must not break a test.
PROSE_BUDGET = 111
WORD = re.compile(r"[A-Za-z']{2,}[.,:;?!]?")

OPTIONS = """
import argparse
from kentry.cli import build_parser

COMMON = {"-h", "-v", "-q"}

def leaves(parser):
    yield parser
    for action in [a for a in parser._actions if isinstance(a, argparse._SubParsersAction)]:
        for one in action.choices.values():
            yield from leaves(one)

options = [
    action.option_strings[-1]
    for parser in leaves(build_parser())
    for action in parser._actions
    if action.option_strings and not COMMON & set(action.option_strings)
]
print(len(options), len(set(options)))
"""


@dataclass
class Size:
    """Of one package: lines of Python, the lengths of its functions, its private functions."""

    lines: int = 0
    lengths: list[int] = field(default_factory=list)
    private: int = 0
    single: int = 0

    def add(self, other: Size) -> None:
        self.lines += other.lines
        self.lengths += other.lengths
        self.private += other.private
        self.single += other.single

    def row(self, name: str) -> str:
        lengths = sorted(self.lengths) or [0]
        p90 = lengths[int(0.9 * (len(lengths) - 1))]
        share = self.single / self.private if self.private else 0.0
        return (
            f"{name:<12} {self.lines:>7} {len(self.lengths):>10} {p90:>5} {lengths[-1]:>5}"
            f" {self.private:>8} {self.single:>7} {share:>6.0%}"
        )


def size_of(file: Path) -> Size:
    text = file.read_text(encoding="utf-8")
    nodes = list(ast.walk(ast.parse(text)))
    functions = [n for n in nodes if isinstance(n, ast.FunctionDef | ast.AsyncFunctionDef)]
    uses = Counter(n.id for n in nodes if isinstance(n, ast.Name))
    uses.update(n.attr for n in nodes if isinstance(n, ast.Attribute))
    private = [n.name for n in functions if n.name.startswith("_") and n.name[:2] != "__"]
    return Size(
        len(text.splitlines()),
        [(n.end_lineno or n.lineno) - n.lineno + 1 for n in functions],
        len(private),
        sum(uses[name] == 1 for name in private),
    )


def sizes_of(checkout: Path) -> dict[str, Size]:
    """The size of each package of src/kentry, and of the modules beside them as "(loose)"."""
    package = checkout / "src" / "kentry"
    sizes: dict[str, Size] = {}
    for file in sorted(package.rglob("*.py")):
        below = file.relative_to(package).parts
        sizes.setdefault(below[0] if len(below) > 1 else "(loose)", Size()).add(size_of(file))
    return sizes


def prose_assertions(checkout: Path) -> int:
    """Assertions of tests/ that a sentence of at least four words stands in, and such match=."""
    count = 0
    for file in (checkout / "tests").rglob("*.py"):
        for node in ast.walk(ast.parse(file.read_text())):
            asserted = isinstance(node, ast.Assert)
            if asserted or (isinstance(node, ast.keyword) and node.arg == "match"):
                texts = [one.value for one in ast.walk(node) if isinstance(one, ast.Constant)]
                count += any(isinstance(text, str) and is_prose(text) for text in texts)
    return count


def is_prose(text: str) -> bool:
    return sum(bool(WORD.fullmatch(word)) for word in text.split()) >= 4


def lines_of_tests(checkout: Path) -> int:
    return sum(len(f.read_text().splitlines()) for f in (checkout / "tests").rglob("*.py"))


def main(checkout: Path) -> None:
    sizes = sizes_of(checkout)
    total = Size()
    print(
        f"{'package':<12} {'lines':>7} {'functions':>10} {'p90':>5} {'max':>5}"
        f" {'private':>8} {'single':>7} {'share':>6} {'budget':>7}"
    )
    for name, size in sizes.items():
        total.add(size)
        print(f"{size.row(name)} {BUDGET.get(name, 0):>7}")
    print(f"{total.row('total')} {sum(BUDGET.values()):>7}")
    print(f"assertions on prose: {prose_assertions(checkout)}, budget {PROSE_BUDGET}")
    print(f"tests: {lines_of_tests(checkout)} lines, budget {TESTS_BUDGET}")
    own = checkout / ".venv" / "bin" / "python"
    options = subprocess.run(
        [own if own.exists() else sys.executable, "-c", OPTIONS],
        env={"PYTHONPATH": str(checkout / "src")},
        check=True,
        capture_output=True,
        text=True,
    ).stdout.split()
    print(f"options registered: {options[0]}, distinct: {options[1]}")


if __name__ == "__main__":
    main(Path(sys.argv[1]) if sys.argv[1:] else Path(__file__).parents[1])
