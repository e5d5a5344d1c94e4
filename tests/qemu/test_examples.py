# SPDX-License-Identifier: GPL-2.0-or-later
"""The series in examples/ do what their pages say, and what kentry writes of them can be posted."""

from __future__ import annotations

import json
import os
import subprocess
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from kentry.arch import ARCHES
from kentry.kernels import build
from kentry.kernels.repository import Revision
from kentry.kernels.resolve import resolve_source
from tests import ROOT
from tests.places import silent

from ..docs.test_docs import load
from .conftest import or_skip
from .test_record import kentry

pytestmark = pytest.mark.qemu

EXAMPLES = ROOT / "examples"
VECTOR_SERIES = [
    "riscv-vector-initial",
    "arm64-sve-timeout",
    "arm64-sve-count",
    "arm64-sve-posted",
]
ARCHES_OF = {"riscv-entry": "riscv64", "arm64-svc-first": "arm64"}
# The first patches of riscv-entry compile a few files each; later ones touch headers, which is a
# quarter of an hour: make docs measures those for the page.
SLOW = "KENTRY_TEST_SLOW"
FEW = 2
BASE_SPEC = "source:6.12"


def kentry_series(base: str, patches: list[Path], arch: str, *words: str) -> str:
    return kentry("series", base, *map(str, patches), "--arch", arch, *words).stdout


def source(spec: str) -> Revision:
    for arch in ARCHES.values():
        or_skip("no tools", build.check_tools, arch)
    return or_skip("no source to build", resolve_source, spec, silent)


def patches_of(example: str) -> list[Path]:
    found = sorted((EXAMPLES / example).glob("*.patch"))
    return found if os.environ.get(SLOW) == "1" else found[:FEW]


@pytest.fixture(scope="module", params=ARCHES_OF)
def example(request: pytest.FixtureRequest) -> str:
    source(BASE_SPEC)
    return str(request.param)


@pytest.fixture(scope="module")
def base(example: str, riscv_spec: str) -> str:
    return riscv_spec if ARCHES_OF[example] == "riscv64" else BASE_SPEC


@pytest.fixture(scope="module")
def document(example: str, base: str) -> dict[str, Any]:
    text = kentry_series(base, patches_of(example), ARCHES_OF[example], "--json")
    found: dict[str, Any] = json.loads(text)
    return found


def test_every_patch_is_measured_and_none_costs_anything(document: dict[str, Any]) -> None:
    rows = document["rows"]
    assert {row["status"] for row in rows} == {"measured"}
    for name, case in rows[-1]["cases"].items():
        assert case["cumulative"] <= 0, name
        steps = [row["cases"][name]["delta"] for row in rows]
        assert sum(steps) == case["cumulative"] == document["totals"][name]
        for before, after in pairwise(rows):
            got = after["cases"][name]
            assert got["instructions"] == before["cases"][name]["instructions"] + got["delta"]
            assert sum(one["delta"] for one in got["functions"]) == got["delta"]
    assert rows[-1]["cases"]["getppid"]["cumulative"] < 0


def test_checkpatch_has_nothing_to_say(example: str, base: str, tmp_path: Path) -> None:
    """Of the patches, and of one that has the changelog as its commit message."""
    patches = sorted((EXAMPLES / example).glob("*.patch"))
    measured, arch = patches_of(example), ARCHES_OF[example]
    changelog = kentry_series(base, measured, arch, "--changelog")
    assert max(map(len, changelog.splitlines())) <= 75
    head, _, rest = patches[0].read_text(encoding="utf-8").partition("\n\n")
    _, cut, diff = rest.partition("\nSigned-off-by: ")
    with_changelog = f"{head}\n\nWhat the whole series saves:\n\n{changelog}{cut}{diff}"
    (tmp_path / "with-changelog.patch").write_text(with_changelog, encoding="utf-8")
    check_patches([*patches, tmp_path / "with-changelog.patch"], tmp_path)


@pytest.mark.parametrize("name", VECTOR_SERIES)
def test_checkpatch_has_nothing_to_say_of_the_vector_series(name: str, tmp_path: Path) -> None:
    source(BASE_SPEC)
    patches = sorted((EXAMPLES / name).glob("*.patch"))
    assert patches
    check_patches(patches, tmp_path)


@pytest.mark.skipif("KENTRY_SEEDS" not in os.environ, reason="KENTRY_SEEDS names no documents")
def test_the_posted_series_fits_where_its_page_says(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    text = Path(os.environ["KENTRY_SEEDS"], "arm64-sve-trap-timeout-series.txt")
    restore = load(ROOT / "scripts" / "restore.py")
    for spec, fitting, status in (
        ("source:6.12", (7, 1), 1),
        (f"source:6.12,patches={EXAMPLES / 'arm64-sve-posted'}", (8, 1), 0),
    ):
        source(spec)
        assert restore.main(text, spec, tmp_path) == status
        said = capsys.readouterr().out
        counts = [f"  {n} of {m} hunks fit {spec}" for n, m in zip(fitting, (8, 1), strict=True)]
        assert [line for line in said.splitlines() if "hunks fit" in line] == counts
        assert "not unique" not in said


def check_patches(patches: list[Path], folder: Path) -> None:
    """Runs the kernel's own checkpatch.pl, which must be silent."""
    script = folder / "checkpatch.pl"
    script.write_text(read_source("scripts/checkpatch.pl"), encoding="utf-8")
    for name in ("spelling.txt", "const_structs.checkpatch"):
        (folder / name).write_text(read_source(f"scripts/{name}"), encoding="utf-8")
    words = ["perl", str(script), "--no-tree", "--terse", "--no-summary", "--ignore"]
    for patch in patches:
        # ENOSYS: a line that was there before, indented anew by riscv-entry's 0005.
        argv = [*words, "FILE_PATH_CHANGES,UNKNOWN_COMMIT_ID,ENOSYS", str(patch)]
        done = subprocess.run(argv, capture_output=True, text=True, check=False)
        assert (done.stdout, done.returncode) == ("", 0)


def read_source(name: str) -> str:
    revision = source(BASE_SPEC)
    return revision.repository.git("show", f"{revision.commit}:{name}").stdout
