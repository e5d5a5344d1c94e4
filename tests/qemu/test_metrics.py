# SPDX-License-Identifier: GPL-2.0-or-later
"""The metrics of a real kernel's windows, counted a second way: by decoding the recorded paths.

The plugin counts the loads and stores that the emulator reports.  The manuals say which
instructions load and store.  Both agree in every window without an interrupt or a fault.
"""

from collections import Counter

import pytest

from kentry.arch import Arch
from kentry.boot.exact import ExactOptions, QemuRunner
from kentry.boot.plugin_trace import PluginTrace
from kentry.count.catalogue import choose
from kentry.count.recorder import measure
from kentry.kernels.kernel import Kernel
from kentry.kernels.resolve import resolve
from kentry.path import metrics
from kentry.path.metrics import effects
from tests.places import silent

from .conftest import or_skip, timed

pytestmark = pytest.mark.qemu

KERNEL = "debian:6.12"
# Instructions that store by the manual, and that the emulator reports no store of: it clears
# memory behind the plugin's back; a reservation is given up by a store that fails.
# And those that the manual gives no operand in memory: a segment register's descriptor is loaded.
DESCRIPTOR = {"arm64": "never", "riscv64": "never", "x86_64": "8e"}
WITHOUT_STORE = {"arm64": ("dc zva",), "riscv64": ("sc.d zero",), "x86_64": ()}


@pytest.fixture
def kernel(arch: Arch) -> Kernel:
    return or_skip(f"no {KERNEL} for {arch.name}", resolve, KERNEL, arch, silent)


def test_a_second_count_agrees_in_every_window(arch: Arch, kernel: Kernel) -> None:
    options = ExactOptions(cases=tuple(choose(arch, ())), windows=16, path_windows=64)
    with timed(f"{kernel.release} ({arch.name}), paths and accesses"):
        trace = QemuRunner(arch).run(kernel, options, silent).trace
    decoded: dict[int, tuple[int, int, int, int]] = {}
    compared = 0
    for phase in trace.phases:
        for window in phase.windows:
            if window.path is None or window.irqs or window.exceptions:
                continue
            assert window.touched
            if window.path not in decoded:
                decoded[window.path] = by_decoding(trace, window.path, arch)
            loads, descriptors, stores, unseen = decoded[window.path]
            assert loads <= window.touched["loads"] <= loads + descriptors, phase.case
            assert stores - unseen == window.touched["stores"], phase.case
            compared += window.times
    assert compared > 1000


def by_decoding(trace: PluginTrace, path: int, arch: Arch) -> tuple[int, int, int, int]:
    """Instructions that load, or a descriptor; that store, and that store unseen or not at all."""
    loads = descriptors = stores = unseen = 0
    for first, count in trace.paths[path]:
        for insn in trace.insns[first : first + count]:
            own = effects(insn.code, arch)
            loads += own.reads
            descriptors += insn.code.startswith(DESCRIPTOR[arch.name])
            stores += own.writes
            unseen += " ".join(insn.text.split(",")[:1]).startswith(WITHOUT_STORE[arch.name])
    return loads, descriptors, stores, unseen


def test_functions_of_every_metric_add_up_in_a_real_path(arch: Arch, kernel: Kernel) -> None:
    options = ExactOptions(cases=("getppid", "read"), windows=32, path_windows=32, rounds=1)
    recording = measure(kernel, QemuRunner(arch), options, silent)
    for case in recording.cases:
        assert case.modal_path
        code = recording.instructions(case.modal_path)
        found = metrics.amounts(code, case.modal_path.accesses, arch)
        names = [insn.function for insn in code]
        totals = Counter({name: metrics.shares(own, names).total() for name, own in found.items()})
        values = {name: one.value for name, one in case.metrics.items()}
        assert {name: values.get(name) for name in totals} == totals
