# SPDX-License-Identifier: GPL-2.0-or-later
"""kentry join, and kentry diff of what it wrote."""

import json
from pathlib import Path

import pytest

from kentry.cli import main
from kentry.results.recording import Recording, read_recording, write_recording
from tests.builders import imported, recording, timed

OLD, NEW = (0, 3), (1, 2)


def joined(*words: str) -> int:
    return main(["join", *words])


def kept(folder: Path, name: str, what: Recording) -> str:
    write_recording(what, folder / name)
    return str(folder / name)


@pytest.fixture
def both(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> tuple[str, str]:
    """Two kernels' counts and times in a file each."""
    found = []
    for name, instructions, ns, slots in (("old", 250, 78.4, OLD), ("new", 250, 80.0, NEW)):
        counts = recording({"getppid": [("el0_svc", instructions)], "read": [("el0_svc", 9)]})
        words = [
            kept(tmp_path, f"{name}-counts.json", counts),
            kept(tmp_path, f"{name}-times.json", timed({"getppid": ns}, slots)),
        ]
        output = str(tmp_path / f"{name}.json")
        assert joined(*words, "-o", output) == 0
        found.append(output)
    text = "instructions, ns: getppid\ninstructions: read\n"
    assert capsys.readouterr().out == 2 * text
    return found[0], found[1]


def test_diff_shows_both(both: tuple[str, str], capsys: pytest.CaptureFixture[str]) -> None:
    case = read_recording(Path(both[0])).cases[0]
    assert (case.metrics["instructions"].value, list(case.noisy)) == (250, ["ns"])
    # Layout is no regression.
    assert main(["diff", *both, "--fail-on-regression"]) == 3
    assert main(["diff", both[0], both[0], "--fail-on-regression"]) == 0
    capsys.readouterr()
    assert main(["diff", *both]) == 0
    text = capsys.readouterr().out
    assert " 250 kernel instructions same, identical path\n" in text
    assert "worse, layout\n" in text
    assert main(["diff", *both, "--json", "--case", "getppid"]) == 0
    rows = json.loads(capsys.readouterr().out)["cases"]
    assert [row["metric"] for row in rows] == ["instructions", "ns"]


def test_slower_is_a_regression(tmp_path: Path) -> None:
    old = kept(tmp_path, "old.json", timed({"getppid": 78.4}, OLD))
    new = kept(tmp_path, "new.json", timed({"getppid": 80.0}, NEW))
    assert main(["diff", old, new, "--fail-on-regression"]) == 1
    assert main(["diff", new, old, "--fail-on-regression"]) == 0
    apart = kept(tmp_path, "apart.json", timed({"getppid": 80.0}, target={"session": "ff"}))
    assert main(["diff", old, apart, "--fail-on-regression"]) == 3


def test_an_unknown_kernel_is_a_note(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    counts = kept(tmp_path, "counts.json", recording({"getppid": [("f", 5)]}))
    times = kept(tmp_path, "times.json", imported({"getppid": 80.0}))
    assert joined(counts, times, "-o", str(tmp_path / "both.json")) == 0
    kinds = [caveat["kind"] for caveat in read_recording(tmp_path / "both.json").caveats]
    assert kinds == ["kernel-unknown"]
    assert "note: the build ID is not known of the times" in capsys.readouterr().out


def test_imported_cases_of_any_architecture_are_chosen_by_name(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    cases = {"getpid": 254.0, "getuid": 249.0}
    old = kept(tmp_path, "old.json", imported(cases, "cycles", "ia64"))
    assert main(["diff", old, old, "--case", "getp*"]) == 0
    text = capsys.readouterr().out
    assert "getpid: 254 -> 254 cycles" in text
    assert "getuid" not in text
    assert main(["diff", old, old, "--case", "read"]) == 2
    assert "'read' in" in capsys.readouterr().err
