# SPDX-License-Identifier: GPL-2.0-or-later
"""What the options of kentry record ask for: cases, vector lengths, windows, boots."""

from pathlib import Path

import pytest

from kentry.arch import ARCHES
from kentry.boot.exact import ExactOptions
from kentry.cli import build_parser, main
from kentry.commands import measuring, record
from kentry.commands.options import read
from kentry.count.vector_units import boots
from kentry.errors import MissingToolError, UserError
from kentry.host import sandbox
from kentry.results.case_name import USES
from kentry.results.recording import Recording, write_recording
from kentry.study.plan import Unit
from tests.builders import recording, skip_without

ARM, RISCV = ARCHES["arm64"], ARCHES["riscv64"]


def measurement(*words: str) -> ExactOptions:
    args = build_parser().parse_args(["record", "debian:6.12", *words])
    return read(record.Options, args).measurement(RISCV)


@pytest.mark.parametrize(
    ("words", "chosen"),
    [
        (["--case", "read,getppid+vec=once"], ["read", "getppid+vec=once"]),
        (["--case", "getppid+vec=once", "--vl", "512"], ["getppid+vec=once+vl=512"]),
        (
            ["--case", "getppid", "--case", "getpid+vec=once", "--vl", "256,128,256"],
            ["getppid", "getpid+vec=once+vl=256", "getpid+vec=once"],
        ),
        (["--case", "getpid+vec=once+vl=512", "--vl", "128,256"], ["getpid+vec=once+vl=512"]),
    ],
)
def test_cases_and_lengths_make_one_list(words: list[str], chosen: list[str]) -> None:
    assert list(measurement(*words).cases) == chosen


def test_the_floor_is_booted_on_the_processor_of_the_spec(monkeypatch: pytest.MonkeyPatch) -> None:
    booted: list[tuple[str, str]] = []

    def measure_all(units: list[Unit]) -> list[Recording]:
        booted.extend((unit.spec, unit.measurement.cpu) for unit in units)
        return [recording({"getppid": [("el0_svc", 9)]})]

    monkeypatch.setattr(measuring, "measure_all", measure_all)
    for spec, cpu in (("debian:6.12,cpu=rpi5", "rpi5"), ("debian:6.12", "cortex-a72")):
        words = ["record", spec, "--arch", "arm64", "--cpu", "cortex-a72", "--floor"]
        options = read(record.Options, build_parser().parse_args(words))
        assert measuring.floor_counts(spec, options) == {"getppid": 9}
        assert booted.pop() == ("floor:", cpu)


def test_a_kernel_is_measured_for_the_architecture_of_the_recording_beside_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    other = recording({"getppid": [("a", 9)]}, kernel={"arch": "riscv64"})
    write_recording(other, file := tmp_path / "riscv.json")
    asked: list[str] = []

    def measure_all(units: list[Unit]) -> list[Recording]:
        asked.extend(unit.arch for unit in units)
        return [other for _ in units]

    monkeypatch.setattr(measuring, "measure_all", measure_all)
    assert main(["diff", str(file), "debian:6.12"]) == 0
    assert main(["annotate", "debian:6.12", str(file), "--arch", "riscv64"]) == 0
    assert asked == ["riscv64", "riscv64"]
    # It is refused before a kernel is measured.
    assert main(["diff", str(file), "debian:6.12", "--arch", "arm64"]) == 2
    assert len(asked) == 2


def test_a_case_of_ones_own_can_be_named(tmp_path: Path) -> None:
    skip_without(sandbox.check, MissingToolError)
    file = tmp_path / "mine.c"
    case = 'CASE(mine, "mine", "mine", .first = CALL(getppid), .want_first = ANY_RESULT);'
    file.write_text(f'#include "case.h"\n{case}\n')
    for words, chosen in (
        ([], ("mine",)),
        (["--case", "mine"], ("mine",)),
        (["--case", "mine,read"], ("read", "mine")),
    ):
        assert measurement("--case-file", str(file), *words).cases == chosen


def test_a_matrix_is_measured_once_for_each_length() -> None:
    once = measurement("--matrix", "vector").cases
    assert [name for name in once if name.startswith("getppid+")] == [
        f"getppid+vec={use}" for use in (*USES, "1/10")
    ]
    both = measurement("--matrix", "vec", "--vl", "128,256").cases
    assert both == (*once, *(f"{name}+vl=256" for name in once))


@pytest.mark.parametrize("words", [[], ["--case", "getppid"], ["--case", "*"]])
def test_a_length_without_a_vector_state_is_refused(words: list[str]) -> None:
    with pytest.raises(UserError, match="--vl"):
        measurement("--vl", "256", *words)
    with pytest.raises(UserError, match="za"):
        measurement("--matrix", "za", *words)


@pytest.mark.parametrize(
    ("words", "windows", "paths"),
    [
        ([], 1000, 128),
        (["--case", "getppid+vec=*"], 1000, 128),
        (["--matrix", "vector"], 200, 32),
        (["--matrix", "vector", "--paths", "3"], 200, 3),
    ],
)
def test_a_matrix_has_fewer_windows_a_case(words: list[str], windows: int, paths: int) -> None:
    options = measurement(*words)
    assert (options.windows, options.path_windows) == (windows, paths)
    assert options.vector_length is None


def test_each_boot_keeps_its_own_console(tmp_path: Path) -> None:
    console = str(tmp_path / "console")
    options = measurement("--case", "getppid+vec=once", "--vl", "128,256", "--console", console)
    each = boots(options)
    assert len({one.console_file for one in each}) == len(each) == 2
