# SPDX-License-Identifier: GPL-2.0-or-later
"""What is said into a pipe while something goes on."""

import time

import pytest

from kentry import progress


def test_what_remains_goes_on_as_it_did(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    now = 100.0
    monkeypatch.setattr("time.monotonic", lambda: now)
    monkeypatch.setattr(progress, "_quiet", False)

    def said(seconds: float, fraction: float | None, text: str = "building: a.o (7)") -> str:
        nonlocal now
        now += seconds
        update(fraction, text)
        return capsys.readouterr().err

    with progress.progress("x") as update:
        capsys.readouterr()
        assert said(10, 0.0) == "kentry: x: 0% building: a.o (7)\n"
        # 10 % in 10 s.
        assert said(10, 0.1).endswith("10% building: a.o (7), 2 min left\n")
        assert said(10, 0.5).endswith("50% building: a.o (7), 20 s left\n")
        assert said(10, 1.0) == "kentry: x: 100% building: a.o (7)\n"
        # Another stage begins anew.
        assert said(10, 0.2) == "kentry: x: 20% building: a.o (7)\n"
        assert said(10, 0.6).endswith("60% building: a.o (7), 10 s left\n")
        assert said(10, None, "configuring") == "kentry: x: configuring\n"
        assert said(10, 0.9) == "kentry: x: 90% building: a.o (7)\n"


def test_what_took_how_long_is_said_of_what_took_long(monkeypatch: pytest.MonkeyPatch) -> None:
    now = 100.0
    monkeypatch.setattr("time.monotonic", lambda: now)

    def stage(seconds: float, text: str) -> None:
        nonlocal now
        update(0.5, text)
        now += seconds

    progress.restart()
    with progress.progress("timing a case") as update:
        now += 1
        stage(7, "fetching linux-image: 1 of 2 MB")
        stage(120, "step 1 of about 3: building: a.o (7)")
        stage(20, "3 of 4")  # of what is going on
        stage(9, "booting")
        stage(120, "step 2 of about 3: building: b.o (8)")
    now += 23
    assert progress.took() == "took 5 min: building 4 min, timing 21 s"
    progress.restart()
    with progress.progress("x") as update:
        stage(1, "booting")
    assert progress.took() == ""
    now += 1
    assert progress.took() == "took 2 s: booting 1 s"
    progress.restart()
    now += 100
    assert progress.took() == ""


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
