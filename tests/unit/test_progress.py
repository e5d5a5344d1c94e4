# SPDX-License-Identifier: GPL-2.0-or-later
"""What is said into a pipe while something goes on."""

import time

import pytest

from kentry import progress


@pytest.mark.slow
def test_each_state_has_a_line_soon_and_none_a_flood(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(progress, "_STATE_SECONDS", 0.2)
    monkeypatch.setattr(progress, "_quiet", False)
    with progress.progress("tree:.") as update:
        for state in ("checking out 55a702e4b997", "configuring"):
            update(None, state)
        time.sleep(0.6)  # as where it waits for a lock
        assert capsys.readouterr().err == "kentry: tree:.\nkentry: tree:.: configuring\n"
        update(0.5, "building: init/main.o (1)")
        assert capsys.readouterr().err == "kentry: tree:.: 50% building: init/main.o (1)\n"
        for number in range(1000):
            update(0.5, f"building: kernel/file-{number}.o ({number})")
        assert capsys.readouterr().err == ""
        update(None, "waiting for another kernel to be built")
    time.sleep(0.4)
    assert capsys.readouterr().err == ""
