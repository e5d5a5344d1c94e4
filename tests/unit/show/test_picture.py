# SPDX-License-Identifier: GPL-2.0-or-later
"""Pictures: the same bytes for the same numbers, and the numbers' names in them."""

import xml.etree.ElementTree as ET
from pathlib import Path

import numpy as np
import pytest

from kentry.errors import UserError
from kentry.show.picture import Curve, sweep_picture

# matplotlib takes seconds.
pytestmark = pytest.mark.slow

X = np.geomspace(1e6, 1e10, 9)
CURVES = [Curve("boot, A", X, X / 1e9), Curve("shell, A", X, 3 - np.log10(X) / 10)]


def sweep(file: Path) -> None:
    sweep_picture(
        file,
        CURVES,
        "timeouts",
        x="timeout",
        y="cost, us per second",
        times=True,
        recommended=1e7,
        interval=(3e6, 6e7),
        levels={"optimal": 0.1},
    )


def words(file: Path) -> list[str]:
    """The texts of an SVG, which stand in it as text."""
    return [
        "".join(node.itertext()).strip()
        for node in ET.parse(file).iter()
        if node.tag.endswith("}text")
    ]


@pytest.mark.parametrize("ending", ["svg", "png"])
def test_the_same_numbers_are_the_same_bytes(tmp_path: Path, ending: str) -> None:
    one, two = tmp_path / f"one.{ending}", tmp_path / f"two.{ending}"
    sweep(one)
    sweep(two)
    assert one.read_bytes() == two.read_bytes()
    assert one.read_bytes().startswith(b"\x89PNG" if ending == "png" else b"<?xml")
    assert b"dc:date" not in one.read_bytes()
    assert sorted(file.name for file in tmp_path.iterdir()) == [one.name, two.name]


@pytest.mark.parametrize("name", ["picture.pdf", "picture"])
def test_another_kind_of_file_is_an_error(tmp_path: Path, name: str) -> None:
    with pytest.raises(UserError, match="picture") as caught:
        sweep(tmp_path / name)
    assert ".svg or .png" in caught.value.remedy
    assert not list(tmp_path.iterdir())


def test_a_sweep_names_its_lines_and_what_is_recommended(tmp_path: Path) -> None:
    file = tmp_path / "sweep.svg"
    sweep(file)
    found = words(file)
    assert {"boot, A", "shell, A", "optimal", "timeout", "cost, us per second"} <= set(found)
    assert "recommended: 10 ms (3 ms to 60 ms)" in found
    assert found.count("1 s") == 2  # the axis, and the series' choice


def test_a_sweep_of_counts_has_no_second(tmp_path: Path) -> None:
    file = tmp_path / "sweep.svg"
    curve = Curve("boot", np.array([1, 10, 1000]), np.array([3, 2, 1]))
    words_of = {"x": "n, system calls", "y": "cost", "times": False, "levels": {}}
    sweep_picture(file, [curve], "counts", recommended=10, interval=(5, 20), **words_of)  # type: ignore[arg-type]
    found = words(file)
    assert "1 s" not in found
    assert "recommended: 10 (5 to 20)" in found
    assert "1000" in found
