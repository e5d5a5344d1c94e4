# SPDX-License-Identifier: GPL-2.0-or-later
"""Why Kconfig took no option: python -m kentry.kernels.kconfig TREE DOT_CONFIG OPTION=VALUE...

Prints JSON, option -> why, in the environment that makefiles give Kconfig (srctree, ARCH, CC, ...).
Apart, because kconfiglib reads the environment and runs the tree's own scripts.
"""

import io
import json
import re
import sys
from typing import IO, Any

import kconfiglib

# Expressions longer than this are cut: some are half a page.
_LENGTH = 160


class Tree(kconfiglib.Kconfig):  # type: ignore[misc]
    """A kernel's Kconfig files, also those newer than kconfiglib 14.1."""

    def _open(self, filename: str, mode: str) -> IO[str]:
        file: IO[str] = super()._open(filename, mode)
        if mode != "r" or "Kconfig" not in filename:
            return file
        with file:
            text = file.read()
        # 6.6 has "modules" for "option modules"; 6.18 "transitional", which renames old options.
        text = re.sub(r"(?m)^(\s+)modules$", r"\1option modules", text)
        return io.StringIO(re.sub(r"(?m)^\s+transitional$", "", text))


def why(tree: Tree, name: str, value: str) -> str:
    """Return a clause that says what keeps the option from being `value`."""
    symbol = tree.syms.get(name)
    if symbol is None or not symbol.nodes:
        return "this tree has no such option"
    if value == "n":
        selectors = [
            _short(kconfiglib.split_expr(term, kconfiglib.AND)[0])
            for term in kconfiglib.split_expr(symbol.rev_dep, kconfiglib.OR)
            if kconfiglib.expr_value(term)
        ]
        if selectors:
            return f"selected by {', '.join(selectors)}"
        if symbol.choice:
            return "one option of its choice must be on: set another"
        return "on by default, and cannot be set by hand"
    missing = [
        _short(term)
        for term in kconfiglib.split_expr(symbol.direct_dep, kconfiglib.AND)
        if kconfiglib.expr_value(term) == 0
    ]
    if missing:
        return f"needs {' and '.join(missing)}"
    if value == "m":
        return "needs MODULES, and to be an option that can be a module"
    if symbol.choice:
        chosen = symbol.choice.selection
        return f"another option of its choice is on: {chosen.name if chosen else 'none'}"
    if not any(node.prompt for node in symbol.nodes):
        return "cannot be set by hand: other options select it"
    return f"became {symbol.str_value}"


def _short(term: Any) -> str:
    text = kconfiglib.expr_str(term)
    return str(text) if len(text) <= _LENGTH else f"{text[:_LENGTH]}..."


def main(argv: list[str]) -> int:
    """Prints the reasons for each OPTION=VALUE."""
    top, config, *wanted = argv
    tree = Tree(f"{top}/Kconfig", warn=False)
    tree.load_config(config)
    options = dict(text.split("=", 1) for text in wanted)
    reasons = {name: why(tree, name.removeprefix("CONFIG_"), options[name]) for name in options}
    sys.stdout.write(json.dumps(reasons))
    return 0


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
