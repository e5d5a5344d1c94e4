# SPDX-License-Identifier: GPL-2.0-or-later
"""What a build can reach, where bubblewrap works, and that it runs where it does not."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from kentry.errors import MissingToolError
from kentry.host.process import run
from kentry.kernels import sandbox
from kentry.kernels.sandbox import confined
from tests.unit.kernels.sources import program

LOOK = """
import os, socket, sys
found = []
for path in sys.argv[1:]:
    try:
        open(os.path.join(path, "file"), "w").close()
        found.append("written")
    except OSError:
        found.append("refused")
found.append(",".join(name for _, name in socket.if_nameindex()))
found.append(str(os.getpid() < 10))
print(" ".join(found))
"""


@pytest.fixture(autouse=True)
def _anew(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    sandbox.works.cache_clear()
    if not sandbox.works():
        monkeypatch.setenv(sandbox.ALLOW_VARIABLE, "1")
    sandbox.works.cache_clear()
    yield
    sandbox.works.cache_clear()


def test_a_build_writes_only_its_folders_and_has_no_network(tmp_path: Path) -> None:
    """Says nothing where the system does not let bubblewrap work, as in many containers."""
    own, other, deeper = (tmp_path / name for name in ("own", "other", "other/deeper"))
    for folder in (own, other, deeper):
        folder.mkdir()
    argv = [sys.executable, "-c", LOOK, str(own), str(other), str(deeper), os.path.expanduser("~")]
    argv = confined(argv, [own, deeper], [tmp_path])
    if not sandbox.works():
        pytest.skip("the system does not allow bubblewrap")
    done = run(argv)
    assert done.stdout.split() == ["written", "refused", "written", "refused", "lo", "True"]
    assert (own / "file").exists()
    assert not (other / "file").exists()


def test_its_status_and_words_come_through(tmp_path: Path) -> None:
    done = run(confined(["sh", "-c", "echo said; echo aside >&2; exit 3"], [tmp_path]), check=False)
    assert (done.returncode, done.stdout, done.stderr) == (3, "said\n", "aside\n")


@pytest.mark.parametrize("kind", ["not installed", "not allowed"])
def test_without_bubblewrap_nothing_is_built_unless_the_user_allows_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    if kind == "not allowed":
        file = program(tmp_path / "bin", "bwrap", "")
        file.write_text("#!/bin/sh\necho 'bwrap: No permissions' >&2\nexit 1\n")
    monkeypatch.setenv("PATH", str(tmp_path / "bin"))
    with pytest.raises(MissingToolError) as raised:
        confined(["make", "all"], [tmp_path])
    assert sandbox.ALLOW_VARIABLE in raised.value.remedy
    monkeypatch.setenv(sandbox.ALLOW_VARIABLE, "1")
    assert confined(["make", "all"], [tmp_path]) == ["make", "all"]


def test_with_bubblewrap_each_folder_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    program(tmp_path / "bin", "bwrap", "")
    monkeypatch.setenv("PATH", str(tmp_path / "bin"))
    argv = confined(["make", "all"], [tmp_path / "a", tmp_path / "b"])
    assert argv[0] == "bwrap"
    bound = [argv[at + 1 : at + 3] for at, word in enumerate(argv) if word == "--bind"]
    assert bound == [[str(tmp_path / name)] * 2 for name in ("a", "b")]
    assert argv[-3:] == ["--", "make", "all"]
    assert "--unshare-net" in argv


def test_sockets_of_the_outside_are_hidden(tmp_path: Path) -> None:
    """tmp_path is where a session's sockets may be, too: below /tmp."""
    (tmp_path / "socket").touch()
    argv = confined(["test", "-e", str(tmp_path / "socket")], [])
    if sandbox.works() and tmp_path.is_relative_to("/tmp"):
        assert run(argv, check=False).returncode == 1
