# SPDX-License-Identifier: GPL-2.0-or-later
"""The table of processors, and how one is found in it."""

import json
import re
import tomllib

import pytest

from kentry.arch import ARCHES
from kentry.arch.processors import MAX, all_names, find_processor, names_of, table, vector_bits
from kentry.boot.emulator import check_append
from kentry.errors import UserError
from tests import ROOT

ROWS = [(arch, name) for arch in ARCHES for name in table()[arch]]


@pytest.mark.parametrize(("arch", "name"), ROWS)
def test_a_row_says_what_a_processor_is_and_where_that_is_from(arch: str, name: str) -> None:
    row = table()[arch][name]
    assert row.name == name and re.fullmatch(r"[a-z0-9]+(-[a-z0-9]+)*", name)
    assert row.since >= (7, 2)
    assert len(row.sources) > 1
    assert all(sentence.endswith(".") for sentence in row.lacks)
    units = {unit.name: unit.lengths for unit in ARCHES[arch].vector.units}
    assert all(set(lengths) <= set(units[unit]) for unit, lengths in row.lengths.items())
    # A user may write the same words, and they follow these.
    check_append(" ".join(row.words))
    assert "{" not in row.qemu()
    properties = [word.partition("=")[0] for word in row.qemu().split(",")]
    assert len(properties) == len(set(properties))


def test_a_case_has_the_vector_length_of_its_processor() -> None:
    assert vector_bits(ARCHES["riscv64"], "sifive-x280", "vec") == 512
    assert vector_bits(ARCHES["arm64"], "graviton3", "vec") == 256
    assert vector_bits(ARCHES["arm64"], "graviton3", "vec", 128) == 128
    for name in (MAX, "cortex-a76", "cortex-a57"):
        assert vector_bits(ARCHES["arm64"], name, "vec") == 128


def test_the_page_of_processors_has_a_boot_and_silicon_for_each() -> None:
    folder = ROOT / "docs" / "reference"
    booted = json.loads((folder / "processors.json").read_text())
    silicon = tomllib.loads((folder / "silicon.toml").read_text())
    for arch, rows in table().items():
        assert set(booted[arch]) == {MAX, *rows}
        assert all(row["getppid"] > 200 for row in booted[arch].values())
    names = {name for rows in table().values() for name in rows}
    assert set(silicon) <= names and set(table()["x86_64"]) <= set(silicon)
    assert {row["how"] for row in silicon.values() if "how" in row} == {"published", "derived"}
    assert all("source" in row or "features" in row for row in silicon.values())
    for rows in table().values():
        assert any("features" in silicon.get(name, {}) for name in rows)


def test_no_two_processors_have_one_name() -> None:
    names = all_names()
    assert set(table()) == set(ARCHES)
    assert len(names) == len(set(names))
    assert MAX not in names


def test_a_board_is_its_processor() -> None:
    found = find_processor(ARCHES["arm64"], "rpi5")
    assert found.name == "rpi5"
    assert found.qemu() == find_processor(ARCHES["arm64"], "cortex-a76").qemu() == "cortex-a76"
    assert names_of("x86_64")["milan"].name == "zen3"


@pytest.mark.parametrize(
    ("arch", "name", "length", "words"),
    [
        ("riscv64", MAX, None, "vlen=128,"),
        ("riscv64", MAX, 512, "vlen=512,"),
        ("arm64", MAX, None, "sve-max-vq=1"),
        ("arm64", MAX, 512, "sve-max-vq=4"),
        ("x86_64", MAX, 256, "max,cx16=off"),
        ("riscv64", "rva23", 256, "vlen=256"),
        ("riscv64", "sifive-x280", None, "vlen=512,"),
        ("x86_64", "Skylake-Server-v1", None, "Skylake-Server-v1"),
        ("riscv64", "rv64,v=true,x={vl}{}", None, "rv64,v=true,"),
    ],
)
def test_the_model_has_the_vector_length(
    arch: str, name: str, length: int | None, words: str
) -> None:
    assert words in f"{find_processor(ARCHES[arch], name).qemu(length)},"


def test_a_traced_core_has_the_vector_length_it_is_traced_for() -> None:
    for arch in ARCHES.values():
        for length, name in arch.cores.items():
            assert find_processor(arch, name).lengths["vec"][0] == length


def test_qemus_own_words_pass_through_and_say_nothing_of_lengths() -> None:
    found = find_processor(ARCHES["arm64"], "max,sve=off")
    assert (found.name, found.qemu()) == ("max,sve=off", "max,sve=off")
    assert found.lengths == {} and found.since == (7, 2) and not found.sources


@pytest.mark.parametrize(
    ("arch", "text", "sentence", "remedy"),
    [
        (
            "arm64",
            "skylake",
            r"'skylake' is a processor of x86_64, and the kernel is of arm64\.",
            r"Use --arch x86_64, or one of: .*\bcortex-a76\b",
        ),
        ("x86_64", "rpi5", "of arm64, and the kernel is of x86_64", r"one of: .*\bzen4\b"),
        ("arm64", "max,rpi5", "names two processors", "SPEC,cpu=max SPEC,cpu=rpi5"),
    ],
)
def test_a_processor_of_another_architecture_and_two_at_once_say_so(
    arch: str, text: str, sentence: str, remedy: str
) -> None:
    with pytest.raises(UserError) as error:
        find_processor(ARCHES[arch], text)
    assert re.search(sentence, error.value.sentence)
    assert re.search(remedy, error.value.remedy)
