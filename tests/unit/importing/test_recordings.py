# SPDX-License-Identifier: GPL-2.0-or-later
"""Imported numbers as recordings: written, read, and what they lack."""

import json
from pathlib import Path

import jsonschema
import pytest

from kentry.errors import UserError
from kentry.importing.import_file import recordings
from kentry.results.recording import read_recording, to_json, write_recording
from tests import ROOT
from tests.unit.importing import samples
from tests.unit.importing.samples import imported

SCHEMA = ROOT / "schema" / "recording-1.schema.json"


def test_a_side_is_a_recording() -> None:
    found = dict(recordings(imported(samples.LAT_SYSCALL, "arm64")))
    assert list(found) == ["Before", "After"]
    after = found["After"]
    assert after.kernel["spec"] == "import:sample.txt#After"
    assert after.target["kind"] == "import"
    (case,) = after.cases
    metric = case.noisy["ns"]
    assert (metric.value, metric.unit) == (190.5, "ns")
    assert [one.values for one in metric.samples] == [(190.0,), (191.0,)]
    assert metric.interval is None
    assert metric.absent == ("interval", "kernel", "config", "interleaving")
    (before, *_) = found["Before"].cases
    assert "repetitions" in before.noisy["ns"].absent
    assert not case.metrics


def test_a_percentage_is_of_its_base() -> None:
    ((_, recording),) = recordings(imported(samples.PERCENTAGES, "arm64"))
    case = recording.case("getpid+vec=each")
    assert case is not None
    metric = case.noisy["ticks-of-base"]
    assert (metric.value, metric.unit) == (99.6, "percent")


@pytest.mark.parametrize("name", samples.ALL)
@pytest.mark.parametrize("arch", ["arm64", "riscv64", "ia64"])
def test_written_and_read_again(name: str, arch: str, tmp_path: Path) -> None:
    file = tmp_path / "x.json"
    found = imported(samples.ALL[name], arch)
    if arch == "ia64" and any("+vec" in number.case for number in found.numbers):
        with pytest.raises(UserError, match="vec="):
            list(recordings(found))
        return
    for _, recording in recordings(found):
        write_recording(recording, file)
        assert to_json(read_recording(file)) == to_json(recording)


@pytest.mark.parametrize("name", samples.ALL)
def test_what_is_written_is_what_the_schema_says(name: str) -> None:
    schema = json.loads(SCHEMA.read_text())
    for _, recording in recordings(imported(samples.ALL[name], "arm64")):
        jsonschema.validate(json.loads(json.dumps(to_json(recording))), schema)


def test_an_architecture_must_be_said() -> None:
    with pytest.raises(UserError, match="sample.txt") as caught:
        list(recordings(imported(samples.LAT_SYSCALL)))
    assert "--arch" in caught.value.remedy
