# SPDX-License-Identifier: GPL-2.0-or-later
"""Runs the commands in the documentation and writes their output below them; makes the reference.

A block that begins with ```console holds commands, each on a line "$ COMMAND", and the
output of each; one that begins with ```console slow holds those that build kernels for many
minutes, which the tests leave to `make docs`.  Commands are run by bash, those of a page in one
folder, with this tree's kentry first on the PATH.  The folder has links to examples/, docs/ and
scripts/ and, where KENTRY_SEEDS names a folder, to the documents in it.  The HTML pages that the
commands wrote go to build/reports, from where `make site` takes them; a PNG file that a page shows
is taken anew of the one that has its name.  Usage: python scripts/docs.py [FILE...]
"""

from __future__ import annotations

import argparse
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import tomllib
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
OPENING, SLOW, CLOSING = "```console", "```console slow", "```"
SEEDS = "KENTRY_SEEDS"
REPORTS = ROOT / "build" / "reports"
# The packages that the pages' programs ran with.
USER_SPACE = ROOT / "docs" / "reference" / "user-space.json"


@dataclass(frozen=True)
class Command:
    """One command of a page, with the output the page shows; `line` counts from 1."""

    page: Path
    line: int
    text: str
    output: str
    slow: bool = False

    @property
    def document(self) -> str | None:
        """The name of the document that it reads and that is not in this repository."""
        return next((word for word in self.text.split() if word.endswith(".txt")), None)


def pages() -> list[Path]:
    """README.md and everything in docs/ and examples/."""
    below = [page for name in ("docs", "examples") for page in (ROOT / name).rglob("*.md")]
    return [ROOT / "README.md", *sorted(below)]


def has_document(command: Command) -> bool:
    """Whether the document that it reads, if any, is there."""
    return (
        command.document is None or (Path(os.environ.get(SEEDS, "")) / command.document).is_file()
    )


def commands(page: Path) -> list[Command]:
    """Every command of a page, in order."""
    found: list[Command] = []
    inside = slow = False
    for number, line in enumerate(page.read_text(encoding="utf-8").splitlines(), start=1):
        if line in (OPENING, SLOW):
            inside, slow = True, line == SLOW
        elif line == CLOSING:
            inside = False
        elif inside and line.startswith("$ "):
            found.append(Command(page, number, line[2:], "", slow))
        elif inside and found:
            found[-1] = replace(found[-1], output=f"{found[-1].output}{line}\n")
    return found


_folders: dict[Path, tempfile.TemporaryDirectory[str]] = {}


def folder_of(page: Path) -> Path:
    """Where the page's commands run: one folder, so that each finds what those before it wrote."""
    if page not in _folders:
        _folders[page] = tempfile.TemporaryDirectory()
        seeds = Path(os.environ[SEEDS]).iterdir() if os.environ.get(SEEDS) else ()
        for target in (ROOT / "examples", ROOT / "docs", ROOT / "scripts", *seeds):
            (Path(_folders[page].name) / target.name).symlink_to(target)
    return Path(_folders[page].name)


def run(command: Command) -> subprocess.CompletedProcess[str]:
    """Runs one command; its output is what the page should show."""
    path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    return subprocess.run(
        ["/bin/bash", "-o", "pipefail", "-c", command.text],
        cwd=folder_of(command.page),
        env={**os.environ, "PATH": path},
        capture_output=True,
        text=True,
        check=False,
    )


def runs_programs(page: Path) -> bool:
    """Whether a command of the page runs a program in Debian's user space."""
    return any(re.search(r"kentry (run|vector trace)|--run ", it.text) for it in commands(page))


def user_space() -> dict[str, str]:
    """By architecture and release: a hash of the packages that programs run with, as Debian has it.

    What a program costs changes with them, as counts of a kernel do with the kernel.
    """
    from hashlib import sha256

    from kentry.arch import ARCHES
    from kentry.boot.userland.root_image import ESSENTIAL, find_release
    from kentry.boot.userland.workloads import WORKLOADS
    from kentry.host.archive import Archive

    names = sorted({*ESSENTIAL, *(name for own in WORKLOADS.values() for name in own.packages)})
    hashes = {}
    for arch in ARCHES.values():
        release = find_release(None, arch)
        found = Archive(arch.debian, release).closure(names, lambda fraction, now: None)
        versions = sorted(f"{it.package} {it.version}" for it in found)
        hashes[f"{arch.name} {release.name}"] = sha256("\n".join(versions).encode()).hexdigest()
    return hashes


def renew(page: Path) -> bool:
    """Writes the page anew, with each command's output as it is now; whether all succeeded.

    A command that fails keeps the output that the page has, and so do those below it.
    """
    outputs = {}
    well = True
    for command in commands(page):
        outputs[command.line] = command.output
        place = f"{page.relative_to(ROOT)}:{command.line}"
        if not has_document(command):
            print(f"{place}: left, without {command.document}")
        elif well:
            print(f"{place}: {command.text}", flush=True)
            done = run(command)
            well = done.returncode == 0
            if well:
                outputs[command.line] = done.stdout
            else:
                print(f"{place}: it ended with status {done.returncode}:\n{done.stderr}")
    lines: list[str] = []
    inside = False
    for number, line in enumerate(page.read_text(encoding="utf-8").splitlines(), start=1):
        if line in (OPENING, SLOW, CLOSING):
            inside = line != CLOSING
        elif inside and not line.startswith("$ "):
            continue
        lines.append(line)
        if number in outputs:
            lines += outputs[number].splitlines()
    page.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return well


def publish(page: Path) -> None:
    """Puts the HTML pages that the page's commands wrote where the site finds them."""
    target = REPORTS / page.relative_to(ROOT).with_suffix("")
    shutil.rmtree(target, ignore_errors=True)
    for file in sorted(folder_of(page).glob("*.html")):
        target.mkdir(parents=True, exist_ok=True)
        shutil.copy(file, target)


def reference() -> dict[Path, str]:
    """The generated pages, each with its text."""
    folder = ROOT / "docs" / "reference"
    return {
        folder / "cases.md": _cases_page(),
        folder / "commands.md": _commands_page(),
        folder / "models.md": _models_page(),
        folder / "processors.md": _processors_page(),
        folder / "programs.md": _programs_page(),
        folder / "schemas.md": _schemas_page(),
    }


def _cases_page() -> str:
    """What the page says above its first table, and the tables."""
    from kentry.arch import ARCHES
    from kentry.count.catalogue import Case, catalogue

    found: dict[Case, list[str]] = {}
    for arch in ARCHES.values():
        for case in catalogue(arch):
            if case.name.partition("@")[2] not in arch.entries:
                found.setdefault(case, []).append(arch.name)
    page = ROOT / "docs" / "reference" / "cases.md"
    lines = page.read_text(encoding="utf-8").partition("\n## ")[0].splitlines()
    for group in sorted({case.group for case in found}):
        lines += ["", f"## Group `{group}`" if group else "## In no group", ""]
        lines += ["| case | window |", "|---|---|"]
        for case, names in sorted(found.items(), key=lambda item: item[0].name):
            only = "" if len(names) == len(ARCHES) else f" ({', '.join(names)} only)"
            if case.group == group:
                lines.append(f"| `{case.name}` | {case.summary}{only} |")
    return "\n".join(lines) + "\n"


def _models_page() -> str:
    """What the page says above the measured routines, and these."""
    from statistics import median

    from kentry.models.estimate import accuracy

    page, title = ROOT / "docs" / "reference" / "models.md", "\n## Cycles: measured here\n"
    found, errors = accuracy(), accuracy().errors
    rows = [
        f"| `{one.name}` | {one.instructions} | {one.measured:.1f} | {one.low:.1f} - {one.high:.1f}"
        f" | {'at least ' if one.missing else ''}{one.model:.1f} | {one.error:+.0%} |"
        for one in found.routine
    ]
    lines = [
        page.read_text(encoding="utf-8").partition(title)[0] + title,
        f"`python -m bench.accuracy {found.core} --write` made this table, on {found.cpu}, by LLVM"
        f" {found.llvm}'s model of {found.core},",
        f"with routines of Debian's {found.kernel}. All numbers but the error are for one call.",
        "",
        "| routine | instructions | cycles measured | interval | cycles by the model | error |",
        "|---|---|---|---|---|---|",
        *rows,
        "",
        f"Of the {len(errors)} that the model knows completely, the median error is"
        f" {median(errors):.0%} and the worst {max(errors):.0%}.",
    ]
    return "\n".join(lines) + "\n"


def _processors_page() -> str:
    """What the page says above its first table, and the processors of each architecture."""
    from kentry.arch.processors import Processor, table

    folder = ROOT / "docs" / "reference"
    recorded = json.loads((folder / "processors.json").read_text())
    silicon = tomllib.loads((folder / "silicon.toml").read_text())
    head = (folder / "processors.md").read_text(encoding="utf-8").partition("\n## ")[0]
    lines = head.splitlines()

    def vectors(row: Processor) -> str:
        return ", ".join(f"{unit} {'/'.join(map(str, row.lengths[unit]))}" for unit in row.lengths)

    for arch, rows in table().items():
        first, most = recorded[arch]["max"], recorded[arch]
        lines += [
            "",
            f"## {arch}",
            "",
            f"`max`: getppid {first['getppid']}, {first['kernel']}.",
            "",
        ]
        lines += ["| processor | boards | QEMU from | vectors, bits | getppid |"]
        lines += ["|---|---|---|---|---|"]
        for name, row in rows.items():
            since = ".".join(map(str, row.since))
            count = most[name].get("getppid", "does not boot")
            boards = ", ".join(row.boards)
            lines.append(f"| `{name}` | {boards} | {since} | {vectors(row) or '-'} | {count} |")
        lacks, sources = (
            [one for one in sides[0] if all(one in side for side in sides)]
            for sides in zip(*((row.lacks, row.sources) for row in rows.values()), strict=True)
        )
        lines += ["", "Each of them:", "", *(f"- {sentence}" for sentence in lacks)]
        lines += ["", f"Sources of all: {'; '.join(sources)}."]
        for name, row in rows.items():
            lines += ["", f"### {name}", "", f"QEMU: `-cpu {row.qemu()}`"]
            lines[-1] += f", `-machine {row.machine}`" if row.machine else ""
            lines[-1] += f"; the kernel's words: `{' '.join(row.words)}`" if row.words else ""
            if own := [sentence for sentence in row.lacks if sentence not in lacks]:
                lines += ["", *(f"- {sentence}" for sentence in own)]
            if name in silicon:
                if "how" in silicon[name]:
                    lines += _against_silicon(silicon[name], most[name].get("mitigations", ""))
                if "features" in silicon[name]:
                    lines += _features(silicon[name], most[name].get("features", ""))
            own = [source for source in row.sources if source not in sources]
            lines += ["", f"Sources: {'; '.join(own)}."]
    return "\n".join(lines) + "\n"


def _programs_page() -> str:
    """What the page says above its first table, and a table for each architecture."""
    from kentry.arch import ARCHES
    from kentry.arch.processors import MAX
    from kentry.show.numbers import percent, share

    folder = ROOT / "docs" / "reference"
    recorded = json.loads((folder / "programs.json").read_text())
    lines = (folder / "programs.md").read_text(encoding="utf-8").partition("\n## ")[0].splitlines()
    programs = recorded["programs"]
    heads = [
        "program",
        "Linux",
        "instructions",
        "kernel",
        "entry+exit",
        "10 % less",
        "system calls",
    ]
    heads.append("largest kinds of entry: calls x median")
    vector_heads = ["program", "Linux", "entries", "first uses", "switches", "its instructions"]
    for arch in ARCHES:
        rows, vector, absent = [], [], []
        for name in programs:
            for spec in (spec for one, spec in recorded["cells"] if one == arch):
                row = recorded["rows"].get(f"{arch} {spec} {name}")
                if row is None:
                    absent.append((spec, name))
                    continue
                release, whole = row["kernel"].partition("+")[0], row["instructions"]
                if row["processor"] != MAX:
                    release += f", {row['processor']}"
                kinds = [f"{kind} {calls} x {median}" for kind, calls, median in row["medians"]]
                cells = [whole, share(row["in_kernel"], whole), share(row["around"], whole)]
                cells += [percent(10 * row["around"] / whole), row["syscalls"], ", ".join(kinds)]
                rows.append([name, release, *cells])
                own = sum(row["vector"].values())
                part = f"{own} ({percent(100 * own / row['in_kernel'])})"
                most = sorted(row["vector"].items(), key=lambda one: -one[1])[:3]
                part += f": {', '.join(f'{name} {count}' for name, count in most)}"
                numbers = [row["entries"], row["first_uses"], row["switches"], part]
                vector.append([name, release, *numbers])
        lines += ["", f"## {arch}", *_markdown(heads, rows)]
        if absent:
            lines += ["", *_not_measured(arch, absent, len(programs))]
        if vector:
            lines += ["", f"## Vector state on {arch}", *_markdown(vector_heads, vector)]
    return "\n".join(lines) + "\n"


def _not_measured(arch: str, absent: list[tuple[str, str]], programs: int) -> Iterator[str]:
    yield "Not measured:"
    yield ""
    for spec in dict.fromkeys(spec for spec, _ in absent):
        names = [name for one, name in absent if one == spec]
        what = "none of the programs was" if len(names) == programs else ", ".join(names)
        command = f"python scripts/programs.py --arch {arch} --spec {spec}"
        yield f"- `{spec}`: {what}; `{command}`"


def _markdown(heads: list[str], rows: list[list[Any]]) -> list[str]:
    lines = [f"| {' | '.join(map(str, row))} |" for row in (heads, *rows)]
    return ["", lines[0], f"|{'---|' * len(heads)}", *lines[1:]] if rows else []


def _against_silicon(silicon: dict[str, str], recorded: str) -> list[str]:
    """The differences, in the words of a recording; `silicon` is a table of silicon.toml."""
    from kentry.boot.mitigations import VULNERABILITIES, mitigations

    files = {path: silicon.get(Path(path).name, "Not affected") for path in VULNERABILITIES}
    # How the branch history is cleared, the kernel does not say: kentry reads it off the code.
    emulated = re.sub(r"bhb=\S+", "bhb=mitigated", recorded)
    sides = [
        dict(word.split("=", 1) for word in text.split() if "=" in word)
        for text in (mitigations(files), emulated)
    ]
    where = f"silicon ({silicon['how']}: {silicon['source']})"
    rows = [
        f"| {flaw} | {sides[0].get(flaw, 'not affected')} | {sides[1].get(flaw, 'not affected')} |"
        for flaw in dict.fromkeys([*sides[0], *sides[1]])
        if sides[0].get(flaw) != sides[1].get(flaw)
    ]
    if not rows:
        return ["", f"The kernel reports the same as on {where}."]
    return ["", f"Against {where}:", "", "| flaw | silicon | QEMU |", "|---|---|---|", *rows]


def _features(silicon: dict[str, str], recorded: str) -> list[str]:
    """What differs in /proc/cpuinfo; `silicon` is a table of silicon.toml."""

    def names(text: str) -> list[str]:
        # An isa of riscv64 is letters, and then words.
        letters, *words = text.removeprefix("rv64").split("_") if text[:4] == "rv64" else ("", text)
        return [*letters, *" ".join(words).split()]

    sides = names(silicon["features"]), names(recorded)
    rows = [
        f"- {where}: {', '.join(f'`{name}`' for name in more)}"
        for where, more in (
            ("only on silicon", [name for name in sides[0] if name not in sides[1]]),
            ("only under QEMU", [name for name in sides[1] if name not in sides[0]]),
        )
        if more
    ]
    where = f"`/proc/cpuinfo` of silicon ({silicon['machine']})"
    return ["", f"Against {where}:", "", *rows] if rows else ["", f"The same features as {where}."]


def _commands_page() -> str:

    lines = [
        "# Commands",
        "",
        "`make docs` generates this page from what `kentry help` prints.",
        "",
    ]
    from kentry.cli import build_parser

    for parser in (build_parser(), *commands_of_kentry()):
        lines += [f"## {parser.prog}", "", "```text", *parser.format_help().splitlines(), "```", ""]
    return "\n".join(lines)


def commands_of_kentry() -> list[argparse.ArgumentParser]:
    """The parser of each command."""
    from kentry.cli import build_parser

    return list(_leaves(build_parser()))


def _leaves(parser: argparse.ArgumentParser) -> Iterator[argparse.ArgumentParser]:
    """The parsers of all commands that have none below them."""
    groups = [one for one in parser._actions if isinstance(one, argparse._SubParsersAction)]
    if not groups:
        yield parser
    for group in groups:
        for below in group.choices.values():
            yield from _leaves(below)


def _schemas_page() -> str:
    lines = [
        "# Schemas",
        "",
        "`make docs` generates this page from `schema/`; [formats](formats.md) explains more.",
        "`[]` is an item of a list, `*` any key of an object; a key with `?` may be absent.",
        "",
    ]
    for file in sorted((ROOT / "schema").glob("*.json")):
        schema = json.loads(file.read_text(encoding="utf-8"))
        lines += [f"## {file.name}", "", "| key | type | meaning |", "|---|---|---|"]
        rows = dict.fromkeys(_rows(schema, schema, ""))
        lines += [" ".join(f"| `{key}` | {kind} | {text} |".split()) for key, kind, text in rows]
        lines.append("")
    return "\n".join(lines)


def _rows(
    schema: dict[str, Any], node: dict[str, Any], path: str
) -> Iterator[tuple[str, str, str]]:
    """Every key below `node`: its path, its type in words, its description."""
    text = node.get("description", "")
    node = _resolved(schema, node)
    if path:
        yield path, _kind(schema, node), text or node.get("description", "")
    choices = [one for word in ("anyOf", "oneOf", "allOf") for one in node.get(word, ())]
    choices += [node[word] for word in ("then", "else") if word in node]
    for choice in (node, *(_resolved(schema, one) for one in choices)):
        required = set(choice.get("required", ()))
        for name, below in choice.get("properties", {}).items():
            mark = "" if name in required else "?"
            yield from _rows(schema, below, f"{path}.{name}{mark}".lstrip("."))
        if isinstance(items := choice.get("items"), dict):
            yield from list(_rows(schema, items, f"{path}[]"))[1:]
        if isinstance(more := choice.get("additionalProperties"), dict):
            yield from _rows(schema, more, f"{path}.*")


def _resolved(schema: dict[str, Any], node: dict[str, Any]) -> dict[str, Any]:
    while "$ref" in node:
        node = schema["$defs"][node["$ref"].rpartition("/")[2]]
    return node


def _kind(schema: dict[str, Any], node: dict[str, Any]) -> str:
    if "anyOf" in node:
        return " or ".join(
            dict.fromkeys(_kind(schema, _resolved(schema, one)) for one in node["anyOf"])
        )
    if "const" in node or "enum" in node:
        return ", ".join(f"`{one}`" for one in node.get("enum", [node.get("const")]))
    kind = node.get("type", "any")
    words = kind if isinstance(kind, list) else [kind]
    if isinstance(items := node.get("items"), dict):
        return f"list of {_kind(schema, _resolved(schema, items))}"
    return " or ".join(words)


if __name__ == "__main__":
    for page, text in reference().items():
        page.write_text(text, encoding="utf-8")
    # It loads a browser, and the tests need only what is above.
    import pictures

    failed = []
    if not sys.argv[1:]:
        USER_SPACE.write_text(json.dumps(user_space(), indent=1) + "\n", encoding="utf-8")
    for name in sys.argv[1:] or pages():
        page = Path(name).resolve()
        if renew(page):
            publish(page)
            pictures.take(page, folder_of(page))
        else:
            failed.append(page.relative_to(ROOT).as_posix())
    if failed:
        sys.exit(f"a command failed on {', '.join(failed)}")
