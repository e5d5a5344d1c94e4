# SPDX-License-Identifier: GPL-2.0-or-later
"""The newest of LLVM's programs is found, whatever else $PATH names."""

from pathlib import Path

import pytest

from kentry.errors import MissingToolError
from kentry.host import native


@pytest.fixture(autouse=True)
def folders(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(native, "_LLVM_FOLDERS", tmp_path / "none")
    monkeypatch.setenv("PATH", f"{tmp_path / 'none'}:{tmp_path / 'file'}:{tmp_path}")
    (tmp_path / "file").write_text("no folder")


def program(file: Path, version: str, status: int = 0) -> None:
    file.write_text(f"#!/bin/sh\necho 'Debian LLVM version {version}'\nexit {status}\n")
    file.chmod(0o755)


def test_the_newest_is_taken_and_a_broken_one_only_where_there_is_no_other(tmp_path: Path) -> None:
    with pytest.raises(MissingToolError, match="llvm-x.*apt-get install"):
        native.newest_llvm("llvm-x")
    program(tmp_path / "llvm-x-99", "99.1.0", status=1)
    assert native.newest_llvm("llvm-x") == tmp_path / "llvm-x-99"
    program(tmp_path / "llvm-x-9", "9.0.1")
    program(tmp_path / "llvm-x", "14.0.6")
    assert native.newest_llvm("llvm-x") == tmp_path / "llvm-x"


def test_another_program_beside_it_may_be_asked_for(tmp_path: Path) -> None:
    program(tmp_path / "llvm-x-15", "15.0.0")
    program(tmp_path / "llvm-x-14", "14.0.0")
    program(tmp_path / "llvm-y-14", "14.0.0")
    assert native.newest_llvm("llvm-x", beside="llvm-y") == tmp_path / "llvm-x-14"
