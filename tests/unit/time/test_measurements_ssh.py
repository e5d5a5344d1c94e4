# SPDX-License-Identifier: GPL-2.0-or-later
"""Time over ssh, the whole way: a real server on the loopback."""

from collections.abc import Iterator
from pathlib import Path

import jsonschema
import pytest

from kentry.machines.machine import MachineOptions
from kentry.machines.open import open_machine
from kentry.results.recording import to_json
from kentry.time.measurements import Schedule, compare_pairs, time_cases
from kentry.time.session import Session, open_session
from tests.builders import schema
from tests.unit.machines.sshd import Server, serving

pytestmark = pytest.mark.slow


@pytest.fixture
def server(tmp_path: Path) -> Iterator[Server]:
    with serving(tmp_path) as made:
        made.start()
        yield made


@pytest.fixture
def session(server: Server) -> Iterator[Session]:
    with open_machine("ssh:target", MachineOptions()) as machine:
        yield open_session(machine, None, None)
    assert not list(server.tmp.iterdir())


def test_a_table_over_ssh_is_a_recording(session: Session) -> None:
    recording, _ = time_cases(session, ["getppid", "read"], 6)
    document = to_json(recording)
    jsonschema.validate(document, schema("recording-1"))
    assert document["target"]["kind"] == "ssh"
    assert [one["name"] for one in document["cases"]] == ["getppid", "read"]


def test_a_comparison_over_ssh_is_decided(session: Session) -> None:
    pairs = [("getppid", "openat+close")]
    _, _, (row,) = compare_pairs(session, pairs, Schedule(60))
    assert (row.metric, row.verdict, row.paired) == ("ns", "worse", True)
