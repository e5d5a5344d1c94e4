# SPDX-License-Identifier: GPL-2.0-or-later
"""kentry vector costs: what it shows, what it makes, what it refuses."""

import subprocess
from pathlib import Path

import pytest
from elftools.elf.elffile import ELFFile

from kentry.arch import ARCHES, Arch, host_arch
from kentry.cli import main
from kentry.commands import vector_costs
from kentry.kernels.kernel import Kernel
from kentry.models.costs import load_costs, shipped
from kentry.vector.cost_tables import timing_program
from tests.unit.kernels import fakes

MOST_BYTES = 64 << 10


def run(*words: str) -> int:
    return main(["vector", "costs", "-q", *words])


def test_nothing_lists_the_tables(capsys: pytest.CaptureFixture[str]) -> None:
    assert run() == 0
    text = capsys.readouterr().out
    assert all(name in text for name in shipped())


def test_a_table_is_shown_and_copied(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "copy.toml"
    assert run("sve128", "-o", str(file)) == 0
    shown = capsys.readouterr().out
    assert load_costs(file) == load_costs("sve128")
    assert run(str(file)) == 0
    assert capsys.readouterr().out == shown


def test_an_image_is_counted_on_its_own_architecture(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "Image").write_bytes(fakes.image(ARCHES["riscv64"]))
    asked: list[object] = []

    def count(kernel: Kernel, arch: Arch, *how: object) -> tuple[object, list[object]]:
        asked.extend((arch.name, how[2]))
        return load_costs("sve128"), []

    monkeypatch.setattr(vector_costs, "count_costs", count)
    assert run(f"image:{tmp_path}/Image", "--emulator", "newest") == 0
    assert asked == ["riscv64", "newest"]


@pytest.mark.parametrize("arch", ARCHES.values(), ids=lambda arch: arch.name)
def test_the_program_is_one_small_static_file(arch: Arch) -> None:
    file = timing_program(arch)
    assert file.stat().st_size <= MOST_BYTES
    with file.open("rb") as stream:
        elf = ELFFile(stream)
        assert elf["e_machine"] == arch.elf_machine
        assert elf["e_type"] == "ET_EXEC"
        assert not {s["p_type"] for s in elf.iter_segments()} & {"PT_INTERP", "PT_DYNAMIC"}


@pytest.mark.slow
def test_this_machine_is_timed(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    program = timing_program(host_arch())
    lines = subprocess.run(
        [program, "rounds=1", "calls=50"], capture_output=True, text=True, check=True
    ).stdout.splitlines()
    assert lines[0].startswith(f"kentry-costs start {host_arch().name} bits=")
    if " bits=0 " in lines[0]:
        pytest.skip("this machine's processor has no vector unit")
    assert not [line for line in lines if " absent " in line]
    file = tmp_path / "here.toml"
    assert run("--here", "-o", str(file)) == 0
    capsys.readouterr()
    table = load_costs(file)
    assert table.arch == host_arch().name
    assert table.unit == "ns"
    # From the fastest to the slowest machine that Linux runs on.
    assert 10 < table.figures["syscall"].value < 100_000
    assert table.figures["save"].value > 0
