# SPDX-License-Identifier: GPL-2.0-or-later
"""--core: what annotate and diff print of recordings in files, and what they refuse."""

import json
from pathlib import Path

import pytest

from kentry.arch import ARCHES
from kentry.cli import main
from kentry.errors import MissingToolError
from kentry.models.estimate import find_models
from kentry.models.llvm import find_analyser
from kentry.results.recording import read_recording
from tests import ROOT, builders

GOLDEN = ROOT / "tests" / "golden"
OLD, NEW = str(GOLDEN / "arm64-6.1.json"), str(GOLDEN / "arm64-6.12.json")
CORES = "neoverse-n2,cortex-a55"


@pytest.fixture(scope="module", autouse=True)
def _an_analyser() -> None:
    builders.skip_without(find_analyser, MissingToolError)


def printed(capsys: pytest.CaptureFixture[str], *words: str) -> tuple[int, str, str]:
    status = main([*words, "-q"])
    out, err = capsys.readouterr()
    return status, out, err


@pytest.mark.slow
def test_annotate_estimates_a_recording_in_a_file(capsys: pytest.CaptureFixture[str]) -> None:
    words = ("annotate", NEW, "--case", "getppid", "--core", CORES)
    status, out, _ = printed(capsys, *words, "--json")
    assert status == 0
    (case,) = json.loads(out)["cases"]
    assert [one["core"] for one in case["estimates"]] == CORES.split(",")
    for one in case["estimates"]:
        for rows in (one["functions"], one["parts"]):
            assert sum(row["instructions"] for row in rows) == case["instructions"]
            assert sum(row["low"] for row in rows) == pytest.approx(one["low"])
        # No core retires ten instructions a cycle, nor takes ten cycles for each.
        assert case["instructions"] / 10 < one["model"] < case["instructions"] * 10
        assert one["missing"] >= 2  # svc, eret
    status, out, _ = printed(capsys, *words)
    assert status == 0
    assert "not measurements" in out.replace("\n     ", "")
    # The same bytes twice.
    assert printed(capsys, *words)[1] == out


@pytest.mark.slow
def test_diff_estimates_both_sides(capsys: pytest.CaptureFixture[str]) -> None:
    words = ("diff", OLD, NEW, "--case", "getppid", "--core", CORES)
    status, out, _ = printed(capsys, *words, "--json")
    assert status == 0
    document = json.loads(out)
    builders.validate(document, "comparison-1")
    (case,) = document["cases"]
    sides = {one["core"]: (one["old"]["low"], one["new"]["low"]) for one in case["estimates"]}
    for core, (old, new) in sides.items():
        for file, cycles in ((OLD, old), (NEW, new)):
            recording = read_recording(Path(file))
            models = find_models(ARCHES[recording.kernel["arch"]], [core])
            named = [one for one in recording.cases if one.name == "getppid"]
            assert models.estimate(recording, named)["getppid"][0].low == cycles
    assert list(sides) == CORES.split(",")


def test_without_paths_the_rest_is_printed(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    document = json.loads(Path(NEW).read_text())
    for case in document["cases"]:
        case["paths"], case["functions"] = [], []
    file = tmp_path / "bare.json"
    file.write_text(json.dumps(document))
    status, out, err = printed(capsys, "diff", str(file), str(file), "--core", CORES)
    assert status == 2
    assert "same" in out
    assert "No kernel path was recorded" in err
    assert printed(capsys, "annotate", str(file), "--core", CORES)[0] == 2


def test_record_looks_at_the_cores_before_it_boots(capsys: pytest.CaptureFixture[str]) -> None:
    spec = "image:/nonexistent"
    status, _, err = printed(capsys, "record", spec, "--arch", "arm64", "--core", "znver4")
    assert status == 2
    assert "znver4 is a core of x86_64" in err
