# SPDX-License-Identifier: GPL-2.0-or-later
"""kentry import, from its arguments on."""

from pathlib import Path

import pytest

from kentry.cli import main
from kentry.results.recording import read_recording
from tests.unit.importing import samples


@pytest.fixture
def file(tmp_path: Path) -> Path:
    found = tmp_path / "mine.txt"
    found.write_text(samples.LAT_SYSCALL)
    return found


def test_recordings_in_a_new_folder(
    file: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = tmp_path / "a" / "b"
    assert main(["import", str(file), "-o", str(folder), "--arch", "aarch64"]) == 0
    assert sorted(one.name for one in folder.iterdir()) == ["after.json", "before.json"]
    assert read_recording(folder / "after.json").kernel["arch"] == "arm64"
    assert f"wrote {folder}/after.json" in capsys.readouterr().out


def test_two_texts_do_not_overwrite_each_other(file: Path, tmp_path: Path) -> None:
    other = file.with_name("other.txt")
    other.write_text(samples.LAT_SYSCALL)
    folder = tmp_path / "out"
    assert main(["import", str(file), str(other), "-o", str(folder), "--arch", "ia64"]) == 0
    assert sorted(one.name for one in folder.iterdir()) == [
        "mine-after.json",
        "mine-before.json",
        "other-after.json",
        "other-before.json",
    ]


def test_file_names_are_made_from_sides(tmp_path: Path) -> None:
    table, folder = tmp_path / "table.csv", tmp_path / "out"
    sides = ["A b", "A-b", "../../etc/passwd", "With / V=1"]
    table.write_text("side,case,ns\n" + "".join(f"{side},getpid,1\n" for side in sides))
    assert main(["import", str(table), "-o", str(folder), "--arch", "arm64"]) == 0
    names = ["a-b-2.json", "a-b.json", "etc-passwd.json", "with-v-1.json"]
    assert sorted(one.name for one in folder.iterdir()) == names


def test_control_characters_never_reach_the_output(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "bad\x1b[2J.txt"
    file.write_text("Be\x1b[2Jfore\x07:\nSimple syscall: 0.2000 microseconds\x9b2J\n")
    for more in ([], ["--json"]):
        assert main(["import", str(file), *more]) == 0
        out = capsys.readouterr().out
        assert all(char.isprintable() or char == "\n" for char in out)
