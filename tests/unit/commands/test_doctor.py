# SPDX-License-Identifier: GPL-2.0-or-later
"""What is missing, and its installation: shown, asked for, run once."""

import io
import json
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from kentry.cli import main
from kentry.commands import doctor
from kentry.host.process import need
from tests.processes import script

Capture = pytest.CaptureFixture[str]


@pytest.fixture
def bin_(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The only folder in PATH, of a Debian on which one program of two is missing."""

    def checks() -> Iterator[tuple[str, Callable[[], str]]]:
        yield "git", lambda: need("git")
        yield "pahole", lambda: need("pahole")

    folder = tmp_path / "bin"
    script(folder / "git", "")
    monkeypatch.setattr(doctor, "_checks", checks)
    monkeypatch.setattr("platform.freedesktop_os_release", lambda: {"ID": "debian"})
    monkeypatch.setattr("os.geteuid", lambda: 0)
    monkeypatch.setattr("sys.stdin", io.StringIO())
    monkeypatch.setenv("PATH", str(folder))
    return folder


def installs(folder: Path, status: int = 0) -> None:
    """Puts an apt-get there that notes its words, and installs what it is told to."""
    text = f'echo "$@" >>{folder}/asked; echo Setting up pahole'
    make = f"/bin/cp {folder}/git {folder}/pahole"
    script(folder / "apt-get", f"{text}; {make if not status else ''}\nexit {status}")


def test_what_is_missing_has_one_command(bin_: Path, capsys: Capture) -> None:
    assert main(["doctor", "--json"]) == 2
    document = json.loads(capsys.readouterr().out)
    assert document["install"] == ["apt-get", "install", "dwarves"]
    assert [bool(row["remedy"]) for row in document["findings"]] == [False, True]
    assert main(["doctor"]) == 2
    assert capsys.readouterr().out.endswith(": apt-get install dwarves\n")


def test_it_is_installed_after_a_yes_and_looked_at_again(bin_: Path, capsys: Capture) -> None:
    installs(bin_)
    assert main(["doctor", "--install", "--yes", "--json"]) == 0
    out, err = capsys.readouterr()
    assert json.loads(out)["install"] == []
    assert err.startswith("$ apt-get install dwarves\n")
    assert (bin_ / "asked").read_text() == "install dwarves\n"
    # Nothing is missing any more.
    assert main(["doctor", "--install", "--yes"]) == 0
    assert (bin_ / "asked").read_text() == "install dwarves\n"


def test_nobody_is_asked_in_a_pipe(bin_: Path, capsys: Capture) -> None:
    installs(bin_)
    assert main(["doctor", "--install"]) == 2
    assert "--yes" in capsys.readouterr().err
    assert not (bin_ / "asked").exists()


@pytest.mark.parametrize(
    ("answer", "code"), [("y\n", 0), ("YES\n", 0), ("n\n", 2), ("\n", 2), ("", 2)]
)
def test_a_terminal_is_asked(
    answer: str, code: int, bin_: Path, monkeypatch: pytest.MonkeyPatch, capsys: Capture
) -> None:
    installs(bin_)
    terminal = io.StringIO(answer)
    monkeypatch.setattr(terminal, "isatty", lambda: True)
    monkeypatch.setattr("sys.stdin", terminal)
    assert main(["doctor", "--install"]) == code
    assert "$ apt-get install dwarves" in capsys.readouterr().err
    assert (bin_ / "asked").exists() == (not code)


def test_another_user_needs_sudo_or_doas(
    bin_: Path, monkeypatch: pytest.MonkeyPatch, capsys: Capture
) -> None:
    installs(bin_)
    monkeypatch.setattr("os.geteuid", lambda: 1000)
    assert main(["doctor", "--install", "--yes"]) == 2
    assert "Run as root: apt-get install dwarves" in capsys.readouterr().err
    script(bin_ / "doas", 'exec "$@"')
    assert main(["doctor", "--install", "--yes"]) == 0
    assert capsys.readouterr().err.startswith("$ doas apt-get install dwarves\n")


def test_an_installation_that_fails_is_an_error(bin_: Path, capsys: Capture) -> None:
    assert main(["doctor", "--install", "--yes"]) == 2
    assert "apt-get does not run" in capsys.readouterr().err
    installs(bin_, status=100)
    assert main(["doctor", "--install", "--yes"]) == 2
    assert "apt-get ended with status 100" in capsys.readouterr().err
    assert main(["doctor", "--yes"]) == 2
    assert "--yes has no effect" in capsys.readouterr().err
