# SPDX-License-Identifier: GPL-2.0-or-later
"""The command line as a user meets it: exit codes, sentences, streams."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from kentry.cli import COMMANDS, build_parser, main
from kentry.recording import write_recording
from tests.builders import recording

OLD = recording({"getppid": [("el0_svc", 40), ("__arm64_sys_getppid", 14)], "invalid": [("a", 9)]})
NEW = recording({"getppid": [("el0_svc", 43), ("__arm64_sys_getppid", 14)], "invalid": [("a", 9)]})


@pytest.fixture
def files(tmp_path: Path) -> tuple[str, str]:
    write_recording(OLD, tmp_path / "old.json")
    write_recording(NEW, tmp_path / "new.json")
    return str(tmp_path / "old.json"), str(tmp_path / "new.json")


def test_diff_of_two_files(files: tuple[str, str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["diff", *files]) == 0
    out = capsys.readouterr().out
    assert "getppid: 54 -> 57 kernel instructions (+3, +5.6 %) worse" in out
    assert "invalid:  9 ->  9 kernel instructions same, identical path" in out
    assert out.isascii()


def test_diff_as_json(files: tuple[str, str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["diff", "--json", *files]) == 0
    document = json.loads(capsys.readouterr().out)
    assert document["schema"] == "kentry/comparison/1"
    assert [case["delta"] for case in document["cases"]] == [3, 0]


def test_a_regression_fails_only_when_asked_to(files: tuple[str, str]) -> None:
    old, new = files
    assert main(["diff", old, new, "--fail-on-regression"]) == 1
    assert main(["diff", new, old, "--fail-on-regression"]) == 0
    assert main(["diff", old, new, "--case", "invalid", "--fail-on-regression"]) == 0


def test_undecided_has_its_own_code(tmp_path: Path, files: tuple[str, str]) -> None:
    vague = recording({"getppid": [("a", 54)]}, samples={"getppid": {54: 3, 55: 3}})
    write_recording(vague, tmp_path / "vague.json")
    code = main(["diff", files[0], str(tmp_path / "vague.json"), "--fail-on-regression"])
    assert code == 3


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["record", "debain:6.12"], "debain"),
        (["record", "tree:."], "tree"),
        (["record", "debian:6.12", "--arch", "vax"], "Unknown architecture 'vax'"),
        (
            ["record", "debian:6.12", "--arch", "arm64", "--case", "getpppid"],
            "Unknown case 'getpppid' on arm64. Did you mean getppid?",
        ),
        (["record", "debian:6.12", "-o", "/nonexistent/x.json"], "does not exist"),
        (["record", "image:/nonexistent/Image"], "/nonexistent/Image"),
        (["record", "deb:/nonexistent/x.deb"], "/nonexistent/x.deb"),
        (["diff", "a.json", "b.json"], "a.json cannot be read: No such file or directory"),
        (["diff", "nonsense:1", "b.json"], "nonsense"),
        (["annotate", "none.json"], "none.json cannot be read"),
    ],
)
def test_a_mistake_is_one_sentence_a_remedy_and_code_2(
    words: list[str], sentence: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(words) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    lines = [line for line in captured.err.splitlines() if line.startswith("kentry: ")]
    assert any(sentence in line for line in lines)
    assert "Traceback" not in captured.err


def test_an_unknown_case_in_recordings(
    files: tuple[str, str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["diff", *files, "--case", "read"]) == 2
    assert "They have getppid, invalid." in capsys.readouterr().err
    assert main(["annotate", files[0], "--case", "read"]) == 2


@pytest.mark.parametrize(
    "words", [[], ["record"], ["record", "x", "--windows", "0"], ["frobnicate"]]
)
def test_wrong_arguments_are_code_2(words: list[str]) -> None:
    with pytest.raises(SystemExit) as caught:
        main(words)
    assert caught.value.code == 2


def test_every_command_has_help_and_a_page() -> None:
    pages = Path(__file__).parents[2] / "docs" / "commands"
    for command in COMMANDS:
        assert (pages / f"{command.NAME}.md").exists()
    assert build_parser().format_help().isascii()


def test_a_reader_that_goes_away_is_no_error(files: tuple[str, str]) -> None:
    command = [sys.executable, "-m", "kentry", "annotate", files[0]]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    assert process.stdout is not None and process.stderr is not None
    process.stdout.close()
    assert process.stderr.read() == b""
    process.stderr.close()
    process.wait(20)
