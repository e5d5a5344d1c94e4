# SPDX-License-Identifier: GPL-2.0-or-later
"""What the tests that run QEMU share: the emulators, the compiled parts, why one is skipped.

KENTRY_TEST_FORCE=1 turns every skip here into a failure.
"""

import os
import shutil
import subprocess
from collections.abc import Callable, Generator, Iterator
from contextlib import contextmanager
from pathlib import Path
from time import monotonic
from typing import NoReturn, TypeVar

import pytest

from kentry.arch import ARCHES, Arch
from kentry.boot.emulator import CHOICES, Emulator, find_emulator
from kentry.errors import FetchError, MissingToolError, UserError
from kentry.kernels.build import check_tools
from kentry.kernels.resolve import resolve_source
from tests import ROOT, histories
from tests.conftest import BOOTED
from tests.places import silent

FORCE = "KENTRY_TEST_FORCE"

T = TypeVar("T")
GetEmulator = Callable[[Arch, str], Emulator]


def skip(reason: str) -> NoReturn:
    if os.environ.get(FORCE) == "1":
        pytest.fail(f"{reason} ({FORCE}=1 forbids skipping)")
    pytest.skip(f"{reason} (to make this a failure: {FORCE}=1)")


def or_skip(what: str, make: Callable[..., T], *words: object) -> T:
    """What a test needs, or a skip where kentry says that it cannot be had."""
    try:
        return make(*words)
    except (FetchError, MissingToolError, UserError) as err:
        skip(f"{what}: {err}")


_lines: list[str] = []


def tell(line: str) -> None:
    """Prints a line where a failing test shows it, and at the end of the whole run."""
    print(line)
    _lines.append(line)


@contextmanager
def timed(what: str) -> Iterator[None]:
    """Says what is booted, and how long it took."""
    start = monotonic()
    yield
    tell(f"{what}: {monotonic() - start:.1f} s")


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport() -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Hands the lines to tests/conftest.py, which may run in another process."""
    report = yield
    report.user_properties += [(BOOTED, line) for line in _lines]
    _lines.clear()
    return report


def build(folder: str, out: Path, *words: str) -> Path:
    command = ["make", "-s", "-C", str(ROOT / folder), f"OUT={out}", *words]
    subprocess.run(command, check=True)
    return out


@pytest.fixture(params=[pytest.param(arch, id=arch.name) for arch in ARCHES.values()])
def arch(request: pytest.FixtureRequest) -> Arch:
    chosen: Arch = request.param
    if not shutil.which(f"{chosen.cross}gcc"):
        skip(f"no compiler for {chosen.name}: {chosen.cross}gcc")
    return chosen


@pytest.fixture(params=CHOICES)
def choice(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture(scope="session")
def get_emulator() -> GetEmulator:
    def get(arch: Arch, choice: str) -> Emulator:
        return or_skip(f"no {choice} QEMU for {arch.name}", find_emulator, arch, choice)

    return get


@pytest.fixture
def emulator(arch: Arch, choice: str, get_emulator: GetEmulator) -> Emulator:
    return get_emulator(arch, choice)


@pytest.fixture(scope="session")
def native(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the plugin and the probes, built from this tree."""
    out = tmp_path_factory.mktemp("native")
    build("plugin", out)
    have = [arch.name for arch in ARCHES.values() if shutil.which(f"{arch.cross}gcc")]
    return build("guest", out, f"ARCHES={' '.join(have)}")


@pytest.fixture(scope="session")
def programs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the bare-metal programs, NAME.elf."""
    have = [arch.name for arch in ARCHES.values() if shutil.which(f"{arch.cross}gcc")]
    return build(
        "tests/qemu/baremetal", tmp_path_factory.mktemp("baremetal"), f"ARCHES={' '.join(have)}"
    )


@pytest.fixture(scope="session")
def riscv_spec(tmp_path_factory: pytest.TempPathFactory) -> str:
    """Debian's source to build for riscv64, in the work tree of test_bisect.py's history.

    What one compiled is there for the other.
    """
    or_skip("no tools", check_tools, ARCHES["riscv64"])
    commit = or_skip("no source to build", resolve_source, "source:6.12", silent).commit
    folder = tmp_path_factory.mktemp("riscv") / "linux"
    histories.make(1, folder)
    return f"tree:{folder}@{commit}"
