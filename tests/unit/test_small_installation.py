# SPDX-License-Identifier: GPL-2.0-or-later
"""What works with the libraries of requirements.lock alone, and what the rest says without them."""

import re
import subprocess
import sys
from functools import cache
from importlib.metadata import packages_distributions
from pathlib import Path

import pytest

from kentry.cli import COMMANDS
from tests import ROOT

pytestmark = pytest.mark.slow

GOLDEN = ROOT / "tests" / "golden"
OLD, NEW = (str(GOLDEN / f"arm64-{version}.json") for version in ("6.1", "6.12"))

# Makes each package that no locked distribution has one that is not installed.
HIDDEN = """
import sys
from kentry.cli import main

sys.modules.update(dict.fromkeys(sys.argv[1].split()))
"""
SMALL = f"{HIDDEN}sys.exit(main(sys.argv[2:]))"
# The help of each command that is named.
HELP = f"""{HIDDEN}
for command in sys.argv[2:]:
    try:
        main([*command.split(), "--help"])
    except SystemExit as end:
        if end.code:
            sys.exit(f"{{command}}: {{end.code}}")
        print("had help:", command)
"""


def normal(name: str) -> str:
    return re.sub("[-_.]+", "-", name).lower()


@cache
def more() -> str:
    """The packages that are here and that no distribution of requirements.lock has."""
    lock = (ROOT / "requirements.lock").read_text(encoding="utf-8")
    locked = {normal(name) for name in re.findall("(?m)^([^ =]+)==", lock)} | {"kentry"}
    return " ".join(
        package
        for package, distributions in packages_distributions().items()
        if not {normal(name) for name in distributions} & locked
    )


def small(
    *words: str, folder: Path = ROOT, program: str = SMALL
) -> subprocess.CompletedProcess[str]:
    argv = [sys.executable, "-c", program, more(), *words]
    return subprocess.run(argv, cwd=folder, capture_output=True, text=True, check=False)


def test_each_command_has_its_help() -> None:
    commands = [name for name in COMMANDS if name != "vector"]
    said = small(*commands, program=HELP).stdout
    assert re.findall("(?m)^had help: (.*)", said) == commands


def test_exact_counts_need_no_more(tmp_path: Path) -> None:
    assert small("diff", OLD, NEW).returncode == 0
    assert small("annotate", OLD, NEW, "--case", "getppid").returncode == 0
    assert small("report", OLD, NEW, "-o", str(tmp_path / "out.html")).returncode == 0
    assert small("check", NEW, "--budget", str(GOLDEN / "check.toml")).returncode == 1


@pytest.mark.parametrize(
    ("words", "extra"),
    [
        (["vector", "replay", "trace.parquet"], "vector"),
        (["run", "debian:6.12", "--trace", "trace.parquet", "--", "shell"], "vector"),
        (["record", "debian:6.12", "--core", "neoverse-n1", "--arch", "arm64"], "vector"),
        (["stat", "--case", "getppid"], "time"),
        (["stat", "board:place"], "boards"),
    ],
)
def test_what_needs_more_says_what_to_type(
    words: list[str], extra: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "env.yaml").touch()
    monkeypatch.setenv("LG_ENV", str(tmp_path / "env.yaml"))
    done = small(*words, folder=tmp_path)
    assert done.returncode == 2
    assert done.stderr.splitlines()[-1].endswith(f" -m pip install 'kentry[{extra}]'")
