# SPDX-License-Identifier: GPL-2.0-or-later
"""Small recordings for tests, spelled as the functions a path goes through, or as times."""

import functools
import json
import os
import random
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from statistics import median

import pytest
from jsonschema import Draft202012Validator

from kentry.errors import MissingToolError
from kentry.host import sandbox
from kentry.kernels.kernel import Kernel, Symbol, SymbolTable
from kentry.results.recording import (
    MODAL,
    OTHER,
    CaseResult,
    Instruction,
    KernelPath,
    Metric,
    NoisyMetric,
    Recording,
    TimedProcess,
)
from kentry.results.studies import Problem
from kentry.stats.exact import mode
from kentry.study.series import PatchKernels
from tests import ROOT

KERNEL = {
    "spec": "debian:6.12",
    "arch": "arm64",
    "release": "6.12.95+deb12-arm64",
    "build_id": "b4c0fd99162ec9911080499fc5c45a86cf7520ea",
    "banner": "Linux version 6.12.95+deb12-arm64",
    "compiler": "gcc-12 (Debian 12.2.0-14+deb12u1) 12.2.0",
    "config_sha256": "0" * 64,
    "config": {"PREEMPT": "y", "HZ": "250"},
    "image_sha256": "1" * 64,
    "symbols_from": "kallsyms",
    "origin": {},
}
TARGET = {
    "kind": "qemu",
    "emulator": "QEMU 7.2.22",
    "machine": "virt",
    "cpu": "max",
    "cmdline": "nokaslr",
    "seed": 1,
    "memory_mib": 512,
}
OPTIONS = {"windows": 1000, "path_windows": 64, "warmup": 16}

Functions = Sequence[tuple[str, int]]


def instructions(functions: Functions, base: int = 0xFFFF800080000000) -> list[Instruction]:
    """Each function in turn, from its first instruction on, 4 bytes an instruction."""
    code = []
    for name, count in functions:
        for i in range(count):
            code.append(Instruction(base, "1f2003d5", "nop", name, 4 * i))
            base += 4
        base += 0x1000
    return code


def recording(
    cases: Mapping[str, Functions],
    samples: Mapping[str, Mapping[int, int]] | None = None,
    kernel: Mapping[str, object] | None = None,
    target: Mapping[str, object] | None = None,
) -> Recording:
    """A recording whose cases took these functions; `samples` other than 1000 x the path.

    With another commonest count there no path of that was recorded.
    """
    code: list[Instruction] = []
    results = []
    for name, functions in cases.items():
        first = len(code)
        code += instructions(functions)
        length = len(code) - first
        found = dict((samples or {}).get(name, {length: 1000}))
        windows = sum(found.values())
        counts: dict[str, int] = {}
        is_modal = mode(found) == length
        for function, count in functions if is_modal else ():
            counts[function] = counts.get(function, 0) + count
        results.append(
            CaseResult(
                name=name,
                metrics={
                    "instructions": Metric.of(found),
                    "user_instructions": Metric.of({1: windows}),
                    "firmware_instructions": Metric.of({0: windows}),
                },
                interrupted=(),
                functions=tuple((f, c) for f, c in counts.items() if c),
                paths=(
                    KernelPath(
                        role=MODAL if is_modal else OTHER,
                        times=64,
                        runs=((first, length),) if length else (),
                    ),
                )
                if is_modal or length
                else (),
            )
        )
    return Recording(
        kernel={**KERNEL, **(kernel or {})},
        target={**TARGET, **(target or {})},
        options=dict(OPTIONS),
        code=code,
        cases=results,
    )


SOURCE = {
    "kind": "source",
    "package": "linux-source-6.12",
    "version": "6.12.95-1",
    "config": "tiny",
    "config_set": "CONFIG_AUDIT=y CONFIG_SECCOMP=n",
    "linker": "GNU ld (GNU Binutils for Debian) 2.40",
}


def built(
    cases: Mapping[str, Functions],
    samples: Mapping[str, Mapping[int, int]] | None = None,
    **kernel: object,
) -> Recording:
    """A recording of a kernel that was built from Debian's source, as series are."""
    facts = {"spec": "source:6.12", "release": "6.12.95", "origin": SOURCE}
    return recording(cases, samples, {**facts, **kernel})


def outcome(patch: int, subject: str, *found: Recording | tuple[str, Problem]) -> PatchKernels:
    """A row of a series: what was measured, or an architecture's name and why it was not."""
    return PatchKernels(
        patch,
        subject,
        f"{patch:040x}",
        {one.kernel["arch"]: one for one in found if isinstance(one, Recording)},
        dict(one for one in found if not isinstance(one, Recording)),
    )


# --- time ----------------------------------------------------------------

SILICON = {
    "kind": "local",
    "host": "bench",
    "cpu_model": "Neoverse-N1 r3p1",
    "clock": "vdso",
    "session": "0a1b2c3d",
}
# A block's calls; and how blocks, groups and processes differ, as fractions: quiet bare metal.
CALLS = 640
DRIFT, SPREAD, NOISE = 0.05, 0.001, 0.002
ESTIMATOR = "mean of processes, each its turns' 10th percentile of blocks"


def processes(
    ns: float, slots: Sequence[int] = (0, 3), groups: int = 40, seed: int = 1, boots: int = 1
) -> tuple[TimedProcess, ...]:
    """Processes of a call of `ns`, in turns; a group's drift is the same for every recording."""
    own = random.Random(f"{seed} {ns} {slots}")
    found = []
    for group in range(groups):
        drift = random.Random(group).uniform(0, DRIFT)
        for slot in slots:
            level = ns * CALLS * (1 + drift) * (1 + own.gauss(0, SPREAD))
            values = [float(round(level * (1 + abs(own.gauss(0, NOISE))))) for _ in range(24)]
            found.append(
                TimedProcess(0, group * boots // groups, group, slot, CALLS, 8, tuple(values))
            )
    return tuple(found)


def noisy(samples: Sequence[TimedProcess], unit: str = "ns") -> NoisyMetric:
    """A metric of these processes; its value is only about what kentry would say."""
    value = median(min(one.values) / one.calls for one in samples)
    return NoisyMetric(
        value=value,
        unit=unit,
        interval=(value * 0.998, value * 1.002),
        confidence=0.99,
        floor=0.002,
        detectable=0.004,
        estimator=ESTIMATOR,
        samples=tuple(samples),
    )


def timed(
    cases: Mapping[str, float | NoisyMetric],
    slots: Sequence[int] = (0, 3),
    *,
    metric: str = "ns",
    kernel: Mapping[str, object] | None = None,
    target: Mapping[str, object] | None = None,
    groups: int = 40,
) -> Recording:
    """A recording of times, of one session unless `target` says otherwise."""
    metrics = {
        name: noisy(processes(time, slots, groups)) if isinstance(time, float | int) else time
        for name, time in cases.items()
    }
    return Recording(
        kernel={**KERNEL, **(kernel or {})},
        target={**SILICON, **(target or {})},
        options={"groups": groups},
        code=[],
        cases=[
            CaseResult(name, {}, (), (), (), noisy={metric: one}) for name, one in metrics.items()
        ],
    )


# What an imported number has: itself.
IMPORTED = {
    "spec": "import:lat_syscall",
    **dict.fromkeys(("release", "banner", "compiler", "symbols_from"), ""),
    **dict.fromkeys(("build_id", "config_sha256", "config", "image_sha256")),
}


def imported(cases: Mapping[str, float], unit: str = "ns", arch: str = "arm64") -> Recording:
    """A recording of numbers that somebody printed."""
    absent = ("interval", "repetitions", "kernel")
    return timed(
        {
            name: NoisyMetric(value=value, unit=unit, absent=absent, samples=())
            for name, value in cases.items()
        },
        metric="ns" if unit == "ns" else unit.replace("/", "_per_"),
        kernel={**IMPORTED, "arch": arch},
        target={"kind": "import", "session": "", "host": "", "cpu_model": "", "clock": ""},
    )


def image_kernel(arch: str = "arm64") -> Kernel:
    """A kernel that was never built, with symbols of some of its traps."""
    return Kernel(
        spec="image:Image",
        arch=arch,
        image=Path("/boot/Image"),
        image_sha256="1" * 64,
        symbols=SymbolTable.of(
            [
                Symbol(0xFFFF800008010000, "T", "_stext"),
                Symbol(0xFFFF800008010800, "T", "vectors"),
                Symbol(0xFFFF800008020000, "T", "asm_common_interrupt"),
                Symbol(0xFFFF800008030000, "t", "do_irq"),
                Symbol(0xFFFF800008040000, "t", "do_irq_something_else"),
            ]
        ),
        symbols_from="kallsyms",
        release="6.1",
        banner="",
        compiler="",
        config=None,
        config_sha256=None,
        build_id=None,
    )


def skip_without(find: Callable[[], object], missing: type[Exception]) -> None:
    """Skips the test where `find` raises `missing`, unless no skip is allowed."""
    try:
        find()
    except missing as err:
        if os.environ.get("KENTRY_TEST_FORCE"):
            raise
        pytest.skip(f"{err} (to make this a failure: KENTRY_TEST_FORCE=1)")


def needs_bubblewrap() -> None:
    """Skips the test where nothing can be confined, whatever the user trusts."""

    def find() -> None:
        if not sandbox.works():
            raise MissingToolError("bubblewrap does not work here.", "kentry doctor says why.")

    skip_without(find, MissingToolError)


def validate(document: object, name: str) -> None:
    """Raises ValidationError where a document is not as a shipped schema says: "recording-1"."""
    _validator(name).validate(document)


@functools.cache
def _validator(name: str) -> Draft202012Validator:
    # jsonschema.validate() checks the schema itself each time, which takes 50 ms.
    schema = json.loads((ROOT / "schema" / f"{name}.schema.json").read_text())
    Draft202012Validator.check_schema(schema)
    return Draft202012Validator(schema)
