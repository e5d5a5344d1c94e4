# SPDX-License-Identifier: GPL-2.0-or-later
"""Which kernel and which machine a time belongs to: a recording's "kernel" and "target"."""

from __future__ import annotations

import re
import secrets
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from kentry.kernels.kernel import Kernel, gnu_build_id, kernel_to_json
from kentry.measure.machine_facts import Facts
from kentry.measure.preflight import Finding, describe
from kentry.measure.timed.output import Output
from kentry.model import caveats
from kentry.model.caveats import Caveat
from kentry.model.recording import CaseResult, NoisyMetric, Recording
from kentry.runners.machine import Machine

RUNNING = "running"

# "Linux version 6.12.1 (user@host) (gcc (Debian 12.2.0) 12.2.0, GNU ld ...) #1 SMP"
_COMPILER = re.compile(r"Linux version \S+ \([^)]*\) \((.*)\) #")
_LINKER = re.compile(r", (?:GNU ld|LLD|Debian LLD).*$")


@dataclass(frozen=True)
class Session:
    """Measured in one go, interleaved: what all recordings of it share."""

    place: Machine
    facts: Facts
    findings: tuple[Finding, ...] = ()
    name: str = field(default_factory=lambda: secrets.token_hex(8))

    @property
    def target(self) -> dict[str, Any]:
        """As a recording has it."""
        return {
            "kind": self.place.kind,
            "emulator": "",
            "place": self.place.name,
            "session": self.name,
            **(describe(self.facts) if self.facts.files else {}),
            **self.place.describe(),
        }

    @property
    def caveats(self) -> list[Caveat]:
        """What preflight found, with what to do about it."""
        found = [caveats.preflight(one.kind, one.text, one.remedy) for one in self.findings]
        if str(self.place.describe().get("accelerator", "")).startswith("tcg"):
            found.append(caveats.emulated_time())
        return found


def kernel_of(
    output: Output, arch: str, facts: Facts, kernel: Kernel | None = None
) -> dict[str, Any]:
    """A recording's "kernel": of the file that was booted, or from what runs there.

    Empty where it is not known.
    """
    if kernel is not None:
        return kernel_to_json(kernel, output.release, output.notes)
    banner = (facts.files.get("/proc/version") or "").strip()
    compiler = _COMPILER.match(banner)
    return {
        "spec": RUNNING,
        "arch": arch,
        "release": output.release,
        "build_id": gnu_build_id(output.notes),
        "banner": banner,
        "compiler": _LINKER.sub("", compiler[1]) if compiler else "",
        "config_sha256": None,
        "config": None,
        "image_sha256": None,
        "symbols_from": "",
        "origin": {"kind": RUNNING},
    }


def recording_of(
    session: Session,
    kernel: Mapping[str, Any],
    cases: Mapping[str, Mapping[str, NoisyMetric]],
    options: Mapping[str, int],
    others: list[Caveat],
) -> Recording:
    """A recording of what was timed."""
    return Recording(
        kernel=dict(kernel),
        target=session.target,
        options=dict(options),
        code=[],
        cases=[
            CaseResult(name, {}, (), (), (), noisy=dict(found)) for name, found in cases.items()
        ],
        caveats=[*session.caveats, *others],
    )
