# SPDX-License-Identifier: GPL-2.0-or-later
"""examples/sme-dvmsync: the workaround interrupts a task for each page that a peer unmaps."""

import subprocess
from importlib.machinery import SourceFileLoader
from importlib.util import module_from_spec, spec_from_loader
from pathlib import Path
from types import ModuleType

import pytest

from kentry.arch import find_arch
from kentry.boot.emulator import find_emulator
from tests import ROOT

from .conftest import or_skip

pytestmark = pytest.mark.qemu

EXAMPLE = ROOT / "examples" / "sme-dvmsync"
PAGES = 1000


def load(file: Path) -> ModuleType:
    loader = SourceFileLoader("dvmsync_count", str(file))
    module = module_from_spec(spec_from_loader(loader.name, loader) or pytest.fail(str(file)))
    loader.exec_module(module)
    return module


def test_a_task_that_used_sme_once_is_interrupted_for_each_unmapped_page() -> None:
    or_skip("no emulator", find_emulator, find_arch("arm64"))
    subprocess.run(["make", "-s", "-C", str(EXAMPLE)], check=True)
    batches = load(EXAMPLE / "count").batches
    assert batches("debian:7.3", "never", "nothing") == [(PAGES, 0), (PAGES, 0)]
    # Some pages are unmapped while the other cpu handles its timer, and need no interrupt.
    for pages, interrupts in batches("debian:7.3", "once", "nothing"):
        assert pages == PAGES
        assert PAGES - 10 <= interrupts <= PAGES
