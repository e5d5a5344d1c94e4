# SPDX-License-Identifier: GPL-2.0-or-later
"""kentry's command line on documents and words that nobody would write, from a seed.

A document is one of the golden tests' with some of its parts changed and its checksum made right,
so that what is wrong with it is what it says.  A line is a command with options of its own and
values that others have.  Each ends with an exit code of design, within a bound of time, and never
by an error of Python's.
Usage: python -m bench.fuzz.commands SEED FIRST COUNT
"""

from __future__ import annotations

import argparse
import contextlib
import copy
import json
import os
import random
import signal
import sys
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NoReturn

from tests.unit.commands.test_options import leaves

from bench.fuzz.readers import GOLDEN, with_checksum
from kentry.cli import build_parser
from kentry.cli import main as kentry_main
from kentry.errors import EXIT_SKIP, EXIT_STOP

# What a document may cost; what a line may cost is as long as what it asks for takes.
BOUND_SECONDS = 30
FLAGS = os.O_WRONLY | os.O_CREAT | os.O_TRUNC
CODES = {0, 1, 2, 3, EXIT_SKIP, EXIT_STOP, 130}
# Values that are another thing than what was there.
ODD: list[Any] = [
    *(None, True, 0, -1, 1, 1.5, -0.0, 1e308, 2**31, 2**63, 2**64, 10**30),
    *("", " ", "x", "0", "-1", "a\nb", "<script>alert(1)</script>", "../../etc/passwd", "arm64"),
    *("getppid", "instructions", "ns", "é" * 300, "\u202e", "1e999", [], {}, [[]], [0], {"": 0}),
]
WORDS = [
    *("", "-", "--", "x", "0", "-1", "1e999", "9" * 40, "nan", "debian:", "debian:6.12", "image:"),
    *("source:6.12", "tree:", "tree:.@x", "a..b", "..", "HEAD", "floor:", "qemu:", "native", "./x"),
    *("getppid", "getppid@int80", "pipe-4k,read", "+sve=", "arm64", "riscv64", "x86_64", "max"),
    *("max,sve=off", "keep+10ms", "1s", "64K", "CONFIG_A=y", "A=y,B=n", "é", "\u202e", "a=b", "%n"),
    *("host:/x", "~nobody-of-this-name/x", "x" * 5000, "/", "/dev/null", "dask:x", "slurm:-1"),
]


def paths(document: Any, here: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Yields the place of each value in a document."""
    yield here
    if isinstance(document, dict):
        for key, value in document.items():
            yield from paths(value, (*here, key))
    elif isinstance(document, list):
        # Of many that are alike the first ones do.
        for index, value in enumerate(document[:20]):
            yield from paths(value, (*here, index))


def changed(rng: random.Random, document: Any) -> Any:
    """Returns the document with one to three of its values changed, and the right checksum."""
    document = copy.deepcopy(document)
    for _ in range(rng.randint(1, 3)):
        places = [path for path in paths(document) if path]
        if not places:
            break
        *outer, last = rng.choice(places)
        holder = document
        for key in outer:
            holder = holder[key]
        change(rng, document, holder, last)
    return with_checksum(document) if "checksum" in document else document


def change(rng: random.Random, document: Any, holder: Any, key: Any) -> None:
    """Changes the value at a place of an array or object."""
    how, value = rng.randrange(6), holder[key]
    if how == 0:
        del holder[key]
    elif how == 1 and isinstance(holder, list):
        holder.insert(key, copy.deepcopy(value))
    elif how == 2 and isinstance(value, int):
        holder[key] = value + rng.choice((-1, 1, 1000))
    elif how == 3 and isinstance(value, list | dict) and value:
        holder[key] = type(value)()
    elif how == 4:
        other: Any = document
        for step in rng.choice(list(paths(document))):
            other = other[step]
        holder[key] = copy.deepcopy(other)
    else:
        holder[key] = rng.choice(ODD)


def reading(rng: random.Random, file: Path, kind: str, folder: Path) -> list[str]:
    """A command line that reads the file, of which another of its kind is in the golden tests."""
    other = GOLDEN / ("arm64-6.1.json" if kind == "recording" else file.name)
    page = str(folder / "page.html")
    lines = [["report", str(file), "-o", page], ["report", str(other), str(file), "-o", page]]
    if kind == "recording":
        lines += [
            ["diff", str(file), str(other), *rng.choice(([], ["--json"], ["--changelog"]))],
            ["diff", str(other), str(file), "-v"],
            ["annotate", str(file)],
            ["annotate", str(other), str(file), "--json"],
            ["log", str(other), str(file)],
            ["check", str(file), "--budget", str(GOLDEN / "check.toml")],
            ["join", str(file), str(other), "-o", str(folder / "joined.json")],
        ]
        forms = ("benchfmt", "csv", "ktap", "kcidb", "speedscope", "perf", "json")
        lines += [["export", str(file), "--format", rng.choice(forms)]]
        lines += [["store", "add", str(folder / "store"), str(file)]]
    return rng.choice(lines)


def line(rng: random.Random, parsers: Sequence[argparse.ArgumentParser]) -> list[str]:
    """A command with some of its options, and operands."""
    parser = rng.choice(parsers)
    words = parser.prog.split()[1:]
    options = [action for action in parser._actions if action.option_strings]
    files = [str(file) for file in GOLDEN.glob("*.json")]
    for action in rng.sample(options, min(len(options), rng.randint(0, 4))):
        words.append(rng.choice(action.option_strings))
        if action.nargs != 0:
            choices = list(map(str, action.choices or ()))
            words.append(rng.choice([*choices, *WORDS, rng.choice(files)]))
    for _ in range(rng.randint(0, 3)):
        words.insert(rng.randint(1, len(words)), rng.choice([*WORDS, *files]))
    # An argument has no byte of zero.
    return words


class TooLong(BaseException):
    """The bound is over."""


def stop(*_: Any) -> NoReturn:
    raise TooLong


def outcome(words: list[str]) -> str:
    """What is wrong with how the command ended; empty where nothing is."""
    signal.alarm(BOUND_SECONDS)
    code: Any = None
    # Files, because a stream in memory has no number.
    printed, said = (os.fdopen(os.open(name, FLAGS, 0o600), "w") for name in ("printed", "said"))
    try:
        with contextlib.redirect_stdout(printed), contextlib.redirect_stderr(said):
            code = kentry_main(words)
    except SystemExit as err:
        code = err.code
    except TooLong:
        return "" if words[0] in ("record", "stat", "run", "vector") else "over the bound of time"
    except BaseException as err:
        return f"{type(err).__name__}: {err}"
    finally:
        signal.alarm(0)
        for stream in (printed, said):
            # A command may have closed it.
            with contextlib.suppress(OSError):
                stream.close()
        texts = [Path(name).read_text(errors="replace") for name in ("printed", "said")]
    if "kentry failed" in texts[1]:
        return texts[1][-400:]
    wrong = [char for char in "".join(texts) if not fits(char)]
    if wrong:
        return f"a character that moves a cursor: {wrong[0]!r}"
    return "" if code in CODES else f"exit code {code}"


def fits(char: str) -> bool:
    """Whether a terminal prints it where it stands."""
    return char.isprintable() or char in "\n\t\x1b" or char == "\r"


def trial(seed: int, number: int, folder: Path, parsers: Sequence[Any]) -> str:
    """Makes one input; returns what was wrong with it, and how to have it again."""
    rng = random.Random(f"{seed} {number}")
    words = line(rng, parsers)
    if number % 4:
        original = rng.choice(sorted(GOLDEN.glob("*.json")))
        document = json.loads(original.read_bytes())
        schema = document.get("schema", "") if isinstance(document, dict) else ""
        kind = str(schema).rpartition("/")[0].rpartition("/")[2]
        file = folder / original.name
        file.write_text(json.dumps(changed(rng, document)))
        words = reading(rng, file, kind, folder)
    wrong = outcome(words)
    return f"python -m bench.fuzz.commands {seed} {number} 1: {words}: {wrong}" if wrong else ""


def main() -> int:
    """Prints each finding and the number of inputs; 1 where there is a finding."""
    seed, first, count = map(int, sys.argv[1:])
    signal.signal(signal.SIGALRM, stop)
    with tempfile.TemporaryDirectory(prefix="kentry-fuzz-") as name:
        # No program and no archive is there: what a line asks for is not begun.
        home = {"HOME": name, "KENTRY_CACHE": f"{name}/cache", "PATH": "/nowhere"}
        os.environ.update(home, KENTRY_MIRROR="http://127.0.0.1:9")
        os.chdir(name)
        parsers = list(leaves(build_parser()))
        found = [
            wrong
            for number in range(first, first + count)
            if (wrong := trial(seed, number, Path(name), parsers))
        ]
    print(*found, f"{count} inputs, {len(found)} findings", sep="\n")
    return bool(found)


if __name__ == "__main__":
    sys.exit(main())
