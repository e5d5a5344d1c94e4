# SPDX-License-Identifier: GPL-2.0-or-later
"""What the vector commands print as JSON is what the schemas say."""

import json
from pathlib import Path
from typing import Any

import jsonschema
import msgspec
import pytest

from kentry.boot.task_hooks import Event
from kentry.cli import main
from kentry.models.costs import shipped
from kentry.vector.documents import ReplayDocument
from kentry.vector.trace import VectorTrace
from tests import ROOT
from tests.builders import validate
from tests.unit.vector.traces import META, TRAPPED, run, save, trace_of


def sample(**meta: Any) -> VectorTrace:
    """Two tasks that trap and then make calls."""
    calls = (Event.SYSCALL, Event.EXIT)
    often = run(Event.EXIT, *(*TRAPPED, *calls * 20) * 3)
    return trace_of([*often, *run(Event.EXIT, *TRAPPED, *calls * 5, task=2)], **meta)


def printed(capsys: pytest.CaptureFixture[str], *words: str) -> dict[str, Any]:
    assert main(["vector", *words, "--json", "-q"]) == 0
    document: dict[str, Any] = json.loads(capsys.readouterr().out)
    return document


@pytest.fixture
def traces(tmp_path: Path) -> list[str]:
    files = [tmp_path / "one.parquet", tmp_path / "two.parquet"]
    for file, name in zip(files, ("boot", "shell"), strict=True):
        save(file, sample(workload={**META["workload"], "name": name}))
    return [str(file) for file in files]


def test_statistics(traces: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    document = printed(capsys, "stats", traces[0])
    validate(document, "vector-statistics-1")
    assert document["sums"]["calls"] == 65
    document["tasks"][0]["traps"] = -1
    with pytest.raises(jsonschema.ValidationError):
        validate(document, "vector-statistics-1")


@pytest.mark.slow
def test_a_replay_of_traces(traces: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    for files in (traces[:1], traces):
        document = printed(capsys, "replay", *files, "--sweep", "count")
        validate(document, "vector-replay-1")
        assert len(document["traces"]) == len(files)
        assert bool(document["means"]) == (len(files) > 1)
        assert document["traces"][0]["policies"][0]["policy"] == "optimal"
    document["traces"][0]["check"]["exact"] = "yes"
    with pytest.raises(jsonschema.ValidationError):
        validate(document, "vector-replay-1")


def test_a_replay_of_an_older_version_is_read() -> None:
    text = (ROOT / "tests/golden/vector-replay-1.json").read_text()
    document = json.loads(text)
    trace = document["traces"][0]
    trace["flips"] = [{"act": "B/r", "value": 9.0, "now": 12.4, "leads": False, "factor": None}]
    document["bounds"] = {"keep": {"ratio": None, "text": "no ratio"}}
    older = msgspec.convert(document, ReplayDocument).traces[0].policies
    assert older == msgspec.json.decode(text, type=ReplayDocument).traces[0].policies
    del trace["flips"], document["bounds"]
    assert msgspec.convert(document, ReplayDocument).bounds == {}


@pytest.mark.parametrize("name", shipped())
def test_cost_tables(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    document = printed(capsys, "costs", name)
    validate(document, "costs-1")
    document["figures"]["trap"] = {"value": 1}
    with pytest.raises(jsonschema.ValidationError):
        validate(document, "costs-1")
