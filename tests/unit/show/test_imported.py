# SPDX-License-Identifier: GPL-2.0-or-later
"""The table of imported numbers, and its JSON."""

import json

import pytest

from kentry.show.imported import imported_layout, imported_to_json
from kentry.show.text import to_text
from tests.builders import validate
from tests.unit.importing import samples
from tests.unit.importing.samples import imported


def table(text: str) -> list[list[str]]:
    """The cells of the table's rows."""
    lines = to_text(imported_layout([imported(text)])).splitlines()
    return [line.split() for line in lines[2 : lines.index("")]]


def test_the_side_called_before_is_the_base_wherever_it_stands() -> None:
    rows = table("side,getpid (ns)\npatched,90.00\nwithout,100.00\n")
    assert [row[5:] for row in rows] == [["-10.0%", "3"], []]


def test_a_side_without_a_name_has_no_change() -> None:
    rows = table("case,ns\ngetpid,90.00\n\nside,case,ns\nnew,getpid,80.00\n")
    assert rows == [["2", "getpid", "90.00", "ns"], ["5", "new", "getpid", "80.00", "ns"]]


def test_the_json_fits_its_schema() -> None:
    for sample in samples.ALL.values():
        document = json.loads(json.dumps(imported_to_json([imported(sample)]), allow_nan=False))
        validate(document, "import-1")


def test_the_json_keeps_published_digits_and_names_the_base() -> None:
    (file,) = imported_to_json([imported(samples.CSV, "arm64")])["files"]
    assert (file["arch"], file["formats"]) == ("arm64", ["table"])
    new = file["numbers"][2]
    assert (new["published"], new["value"], new["about"]) == ("~0.19", 190.0, True)
    assert new["base"] == {
        "side": "before",
        "lines": [3, 4],
        "value": 200.5,
        "change_percent": "-5%",
        "step_percent": None,
    }


@pytest.mark.parametrize(
    ("sample", "kinds"),
    [
        (samples.CSV, ["no-interval"]),
        (samples.TICKS, ["no-interval", "ticks"]),
        (samples.PERCENTAGES, ["no-interval", "only-percent"]),
    ],
    ids=["ns", "ticks", "percentages"],
)
def test_caveats(sample: str, kinds: list[str]) -> None:
    assert [one["kind"] for one in imported_to_json([imported(sample)])["caveats"]] == kinds
