# SPDX-License-Identifier: GPL-2.0-or-later
"""For every test: no deadlines, and the comparison with golden files."""

import difflib
from collections.abc import Callable, Iterator
from pathlib import Path
from unittest import mock

import pytest
from hypothesis import HealthCheck, settings

from kentry.progress import set_quiet

settings.register_profile("kentry", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("kentry")

GOLDEN = Path(__file__).parent / "golden"

# A test's property: a line that says what it booted, and how long it took.
BOOTED = "booted"


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--update", action="store_true", help="write the golden files anew")


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Prints what was booted, by whichever process."""
    reports = [one for kind in terminalreporter.stats.values() for one in kind]
    properties = [pair for one in reports for pair in getattr(one, "user_properties", ())]
    lines = [value for name, value in properties if name == BOOTED]
    if lines:
        terminalreporter.section("what was booted")
        for line in lines:
            terminalreporter.line(line)


@pytest.fixture(autouse=True)
def progress_is_shown() -> None:
    """A command of an earlier test may have silenced progress for the whole process."""
    set_quiet(False)


@pytest.fixture(autouse=True)
def settings_are_kentrys_own(monkeypatch: pytest.MonkeyPatch) -> None:
    """A user's settings would change what a test sees."""
    monkeypatch.setenv("XDG_CONFIG_HOME", "/nonexistent")


@pytest.fixture(autouse=True, scope="session")
def nobody_waits_for_the_disk() -> Iterator[None]:
    """What a test writes need not outlive a power failure."""
    with mock.patch("os.fsync"):
        yield


@pytest.fixture
def golden(request: pytest.FixtureRequest) -> Callable[[str, str], None]:
    """golden(name, text) fails unless tests/golden/NAME holds the text; --update writes it."""

    def check(name: str, text: str) -> None:
        file = GOLDEN / name
        if request.config.getoption("--update"):
            file.write_text(text)
        if not file.exists():
            pytest.fail(f"tests/golden/{name} is missing; pytest --update writes it")
        if text != (expected := file.read_text()):
            lines = (expected.splitlines(), text.splitlines())
            diff = difflib.unified_diff(*lines, name, "printed now", lineterm="")
            pytest.fail("\n".join([*diff, "pytest --update accepts it"]))

    return check
