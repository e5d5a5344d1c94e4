# SPDX-License-Identifier: GPL-2.0-or-later
"""--core: what annotate and diff print of recordings in files, and what they refuse."""

import json
from pathlib import Path
from types import ModuleType

import pytest

from kentry.arch import ARCHES
from kentry.cli import main
from kentry.commands import annotate, diff, record, series
from kentry.errors import MissingToolError
from kentry.models.estimate import find_models
from kentry.models.llvm import find_analyser
from kentry.results.document import dump
from kentry.results.recording import read_recording, write_recording
from kentry.study.series import PatchKernels, row_file, tabulate
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
    assert main(list(words)) == 0
    captured = capsys.readouterr()
    assert captured.out == out
    assert "estimating" in captured.err


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


@pytest.mark.slow
def test_rows_that_were_written_are_estimated(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    kernels = []
    for patch, file in enumerate((OLD, NEW)):
        recording = read_recording(Path(file))
        write_recording(recording, row_file(tmp_path, patch, "arm64"))
        kernels.append(PatchKernels(patch, f"patch {patch}", "a" * 40, {"arm64": recording}))
    table = tabulate(kernels, {"base": "source:6.12"}, ["getppid"])
    (tmp_path / "series.json").write_text(dump(table))
    words = ("series", str(tmp_path), "--case", "getppid", "--core", "cortex-a55")
    status, out, _ = printed(capsys, *words, "--json")
    assert status == 0
    rows = [row["cases"]["getppid"]["estimates"] for row in json.loads(out)["rows"]]
    for file, estimates in zip((OLD, NEW), rows, strict=True):
        own = printed(capsys, "annotate", file, *words[2:], "--json")[1]
        [whole] = json.loads(own)["cases"][0]["estimates"]
        assert [(one["low"], one["core"]) for one in estimates] == [(whole["low"], "cortex-a55")]
    assert printed(capsys, *words[:-1], "nonsense")[0] == 2


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


@pytest.mark.parametrize(
    ("spec", "cpu", "cores", "measured"),
    [
        ("debian:6.12", None, ("cortex-a76",), "cortex-a76"),
        ("debian:6.12", None, ("neoverse-n1", "cortex-a55"), "neoverse-n1"),
        # QEMU has no processor with the first core.
        ("debian:6.12", None, ("apple-m1", "cortex-a55"), "cortex-a55"),
        ("debian:6.12", None, ("apple-m1",), "max"),
        ("debian:6.12", None, (), "max"),
        # What a user names is kept.
        ("debian:6.12", "max", ("cortex-a76",), "max"),
        ("debian:6.12", "rpi4", ("cortex-a76",), "rpi4"),
        ("debian:6.12,cpu=neoverse-n1", None, ("cortex-a76",), "neoverse-n1"),
    ],
)
@pytest.mark.parametrize("command", [record, annotate, series, diff])
def test_a_kernel_is_measured_on_the_first_cores_processor(
    command: ModuleType, spec: str, cpu: str | None, cores: tuple[str, ...], measured: str
) -> None:
    names = {record: ["spec"], annotate: ["what"], series: ["base"], diff: ["old", "new"]}[command]
    operands = dict.fromkeys(names, spec)
    options = command.Options(**operands, arch="arm64", cpu=cpu, core=cores, case=("getppid",))
    assert options.unit(spec).measurement.cpu == measured


@pytest.mark.parametrize("name", ["--cpu", "--core"])
# 128 is arm64's own default, which a case's name leaves out.
@pytest.mark.parametrize("words", ["+vl=128", "+vl=512", " --vl 128", " --vl 512"])
def test_a_length_that_the_processor_does_not_have(
    name: str, words: str, capsys: pytest.CaptureFixture[str]
) -> None:
    line = f"record debian:6.12 --arch arm64 --case getppid+vec=once{words} {name} neoverse-v1"
    status, _, err = printed(capsys, *line.split())
    assert status == 2
    assert "neoverse-v1" in err and "(256)" in err


def test_a_recording_of_another_processor_says_so_once(capsys: pytest.CaptureFixture[str]) -> None:
    words = ("diff", OLD, NEW, "--case", "getppid", "--core", "cortex-a76")
    for more in ((), ("--changelog",)):
        _, out, _ = printed(capsys, *words, *more)
        assert " ".join(out.split()).count("on cortex-a76 the kernel may execute another one") == 1
    _, out, _ = printed(capsys, *words[:-2])
    assert "may execute another one" not in out
