# SPDX-License-Identifier: GPL-2.0-or-later
"""kentry ablate --mitigations on a packaged kernel: a boot for each, no build."""

import json

import pytest

from tests.builders import validate

from .test_record import KERNEL, fetched, kentry

pytestmark = pytest.mark.qemu

# Each active mitigation is a boot of half a minute: these are off from the start.
OFF = (
    "mds=off mmio_stale_data=off l1tf=off spec_store_bypass_disable=off retbleed=off nospectre_v1"
    " gather_data_sampling=off reg_file_data_sampling=off tsx_async_abort=off vmscape=off srbds=off"
)


def test_each_active_mitigation_is_switched_off_alone_and_with_all_others() -> None:
    fetched(KERNEL, "x86_64")
    words = ("ablate", KERNEL, "--arch", "x86_64", "--mitigations", "--case", "getppid", "-q")
    processor = ("--cpu", "Skylake-Server-v1", "--append", OFF)
    document = json.loads(kentry(*words, *processor, "--json").stdout)
    validate(document, "ablation-1")
    rows = {row["option"]: row for row in document["rows"]}
    changed = {
        name: {one["name"]: one["delta"] for one in row["cases"]["getppid"]["functions"]}
        for name, row in rows.items()
        if row["cases"]
    }
    # Two switches of page tables: entry_SYSCALL_64 and the way back with SYSRET.
    assert changed["meltdown"].keys() == {"entry_SYSCALL_64", "syscall_return_via_sysret"}
    # The ITS thunk replaces every return that could be mispredicted, of 5 functions on this path.
    assert changed["indirect_target_selection"] == {"its_return_thunk": 5}
    assert changed["all"] == changed["meltdown"] | changed["indirect_target_selection"]
    assert rows["meltdown"]["words"] == "pti=off"
    assert rows["meltdown"]["mitigation"] == "PTI"
    # What stays on although it was to be off has no number.
    assert rows["bhi"]["problem"] == "spectre_bhi=off leaves it on: Retpoline."


def test_a_mitigation_that_the_kernel_cannot_switch_off_says_so() -> None:
    fetched(KERNEL, "arm64")
    words = ("ablate", KERNEL, "--arch", "arm64", "--mitigations", "--case", "getppid", "-q")
    document = json.loads(kentry(*words, "--cpu", "cortex-a76", "--json").stdout)
    rows = {row["option"]: row for row in document["rows"]}
    functions = {one["name"]: one for one in rows["bhb"]["cases"]["getppid"]["functions"]}
    # A loop of 24: two instructions before it, three in each step, seven behind it.
    assert functions["__bp_harden_el1_vectors"]["delta"] == 80
    assert rows["bhb"]["mitigation"] == "loop-of-24"
    assert "No kernel parameter" in rows["spectre_v1"]["problem"]
    kentry(*words, "--options", "CONFIG_AUDIT", code=2)
