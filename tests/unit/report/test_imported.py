# SPDX-License-Identifier: GPL-2.0-or-later
"""The one table, and its JSON."""

import json

import jsonschema
import pytest

from kentry.report.imported import imported_text, imported_to_json
from tests import ROOT
from tests.unit.importing import samples
from tests.unit.importing.samples import imported

SCHEMA = ROOT / "schema" / "import-1.schema.json"


def test_each_change_has_its_base() -> None:
    text = (
        "Before:\nSimple syscall: 0.2010 microseconds\nSimple syscall: 0.2000 microseconds\n"
        "After:\nSimple syscall: 0.1900 microseconds\n\nIt saves about 10ns, arm64.\n"
    )
    assert imported_text([imported(text)]).startswith(
        "sample.txt: lat_syscall, text; arm64\n"
        " line side         case    published  change of\n"
        "    2 Before       getppid 0.2010 us\n"
        "    3              getppid 0.2000 us\n"
        "    5 After        getppid 0.1900 us   -5.2% 2-3\n"
        '    7 claims about 10ns: "It saves"; holds: 0.2005 -> 0.1900 us is -10.5 ns\n'
        "\n"
        "Checked against each other: 1; all of them hold.\n"
        "\n"
        "note: one run or a few of one boot, no interval:"
    )


def test_a_series_has_steps() -> None:
    lines = imported_text([imported(samples.COLUMNS)]).splitlines()
    assert lines[1].split() == ["line", "side", "case", "published", "change", "of", "step"]
    row = next(line for line in lines if line.startswith("    6") and "getuid@fast" in line)
    assert row.split()[-3:] == ["-4.3%", "4", "-4.3%"]
    row = next(line for line in lines if line.startswith("    6") and "getpid@slow" in line)
    assert row.split()[-3:] == ["-4.0%", "4", "0%"]


def test_what_does_not_hold_comes_with_what_would() -> None:
    text = imported_text([imported("It costs 25% more latency: 149.89 -> 198.73 ns\n")])
    assert "1 does not hold:\n  sample.txt:1: 25% does not hold: 149.89 -> 198.73 ns is" in text
    assert "DOES NOT HOLD" in text


def test_nothing_to_check() -> None:
    text = imported_text([imported("V=1 242.9 ns/call\n")])
    assert "Nothing here follows from anything else here" in text


@pytest.mark.parametrize("name", samples.ALL)
def test_ascii_and_79_columns(name: str) -> None:
    text = imported_text([imported(samples.ALL[name])])
    assert text.isascii()
    assert max(map(len, text.splitlines())) <= 79
    assert not any(line.endswith(" ") for line in text.splitlines())
    assert "\n\n\n" not in text


def test_a_claim_in_another_script_is_in_ascii() -> None:
    text = imported_text([imported("\u6027\u80fd\u8d85\u8fc710%\u4ee5\u4e0a\u3002\n")])
    assert 'claims more than 10%: "see the text"; no measurement given' in text


def test_json_is_what_the_schema_says() -> None:
    schema = json.loads(SCHEMA.read_text())
    for sample in samples.ALL.values():
        document = json.loads(json.dumps(imported_to_json([imported(sample)]), allow_nan=False))
        jsonschema.validate(document, schema)
    del document["files"][0]["numbers"]
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate(document, schema)


def test_json_keeps_published_digits_and_names_the_base() -> None:
    (file,) = imported_to_json([imported(samples.METRICS)])["files"]
    new = file["numbers"][1]
    assert (new["published"], new["value"]) == ("0.240000", 240.0)
    assert new["base"] == {
        "side": "W/O this patch",
        "lines": [6],
        "value": 250.0,
        "change_percent": "-4.0%",
        "step_percent": None,
    }
