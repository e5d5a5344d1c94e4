# SPDX-License-Identifier: GPL-2.0-or-later
"""Documents of others, if KENTRY_SEEDS names a folder of them: every measurement is imported.

What is expected was read off the documents by hand.
"""

import os
from pathlib import Path

import pytest

from kentry.cli import main
from kentry.importing.reading import Imported, import_file
from kentry.importing.recordings import recordings
from kentry.model.recording import read_recording
from kentry.report.imported import imported_text

pytestmark = pytest.mark.skipif(
    "KENTRY_SEEDS" not in os.environ, reason="KENTRY_SEEDS does not name a folder of documents"
)
SEEDS = Path(os.environ.get("KENTRY_SEEDS", "/nonexistent"))

MOSBERGER = """\
40 254 232 249
40 252 231 249
40 246 225 246
40 246 219 246
40 245 217 242
40 237 208 232
40 207 208 206
38 207 201 206
38 207 180 206
"""
SAMPLES = (
    "286363445 286269548 286837560 286651941 286916535 287129672 287359137 287168792 224648083"
    " 234536 298929"
)
# (published, unit, kentry's case), in the order of the text.
EXPECTED: dict[str, list[tuple[str, str, str]]] = {
    "arm64-el0-svc-likely.patch.txt": [
        (value, "us", "getppid")
        for value in ("0.2365", "0.2354", "0.2339", "0.2255", "0.2254", "0.2256")
    ],
    "arm64-sve-trap-timeout-series.txt": [],
    "ia64-syscall-series.txt": [
        (value, "cycles", case)
        for row in MOSBERGER.splitlines()
        for value, case in zip(
            row.split(),
            ("getpid@epc", "getpid@break", "getuid@epc", "getuid@break"),
            strict=True,
        )
    ],
    "riscv-syscall-regression-article.md": [
        ("11470019", "in 10 s", "getpid"),
        *((value, "insns", "whole-machine") for value in SAMPLES.split()),
        ("~200", "insns", "getpid"),
        ("~250", "insns", "getpid"),
        ("~250", "insns", "getpid"),
    ],
    "riscv-vector-syscall-review.txt": [
        ("242.9", "ns", "getppid+vec=once"),
        ("264.5", "ns", "getppid+vec=once"),
        ("194.3", "ns", "getppid+vec=none"),
        ("189.5", "ns", "getppid+vec=none"),
    ],
}
CLAIMS: dict[str, set[str]] = {
    "arm64-el0-svc-likely.patch.txt": {"about 10ns"},
    "arm64-sve-trap-timeout-series.txt": {
        "more than 50%",
        "near 100%",
        "5-45%",
        "approximately 6%",
        "6%",
        "roughly 4.5%",
        "roughly 0.4%",
        "a second",
        "once per second",
        "one per second",
    },
    "ia64-syscall-series.txt": set(),
    "riscv-syscall-regression-article.md": {"\u8d85\u8fc710%"},
    "riscv-vector-syscall-review.txt": set(),
}
ARCHES = {
    "arm64-el0-svc-likely.patch.txt": "arm64",
    "arm64-sve-trap-timeout-series.txt": "arm64",
    "ia64-syscall-series.txt": "ia64",
    "riscv-syscall-regression-article.md": "riscv64",
    "riscv-vector-syscall-review.txt": "riscv64",
}


def seed(name: str) -> Imported:
    return import_file(SEEDS / name)


def test_every_document_is_expected() -> None:
    assert {file.name for file in SEEDS.iterdir()} == set(EXPECTED)


@pytest.mark.parametrize("name", EXPECTED)
def test_every_measurement_and_no_other(name: str) -> None:
    found = [(n.written, n.unit, n.case) for n in seed(name).numbers]
    assert found == EXPECTED[name]


@pytest.mark.parametrize("name", EXPECTED)
def test_every_claim_and_no_other(name: str) -> None:
    assert {claim.written for claim in seed(name).claims} == CLAIMS[name]


@pytest.mark.parametrize("name", EXPECTED)
def test_no_false_alarm(name: str) -> None:
    assert not seed(name).findings


@pytest.mark.parametrize("name", EXPECTED)
def test_where_it_was_measured(name: str) -> None:
    assert seed(name).arch == ARCHES[name]


def test_what_is_re_derived() -> None:
    article = seed("riscv-syscall-regression-article.md")
    (derived,) = article.derived
    assert float(derived.value) == 249.9
    review = seed("riscv-vector-syscall-review.txt")
    assert [check.formula for check in review.checks] == [
        "12144527848 ns / 50000000 calls = 242.89 ns",
        "13226852900 ns / 50000000 calls = 264.54 ns",
    ]
    patch = seed("arm64-el0-svc-likely.patch.txt")
    (check,) = patch.backed.values()
    assert check.formula == "0.2354 -> 0.2255 us is -9.90 ns"


def test_the_one_table() -> None:
    text = imported_text([seed(name) for name in EXPECTED])
    assert text.isascii()
    assert max(map(len, text.splitlines())) <= 79
    for change in ("-4.2% 39-41", "+8.9% 75", "-2.5% 80", "-18.5% 36  -12.7%", "+25% 86"):
        assert change in text
    assert " ".join(text.split()).count("no measurement given") == 16
    assert "all of them hold" in text


@pytest.mark.parametrize("name", [name for name in EXPECTED if EXPECTED[name]])
def test_a_recording_a_side(name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["import", str(SEEDS / name), "-o", str(tmp_path)]) == 0
    written = [read_recording(file) for file in sorted(tmp_path.iterdir())]
    assert len(written) == len(recordings(seed(name)))
    assert {one.kernel["arch"] for one in written} == {ARCHES[name]}
    assert all(metric.absent for one in written for c in one.cases for metric in c.noisy.values())
    assert capsys.readouterr().out.count("wrote ") == len(written)
