# SPDX-License-Identifier: GPL-2.0-or-later
"""Boots a kernel on every processor of the table and writes down what it then says of itself.

docs/reference/processors.json has, for each, the mitigations and features that the kernel reports,
and the instructions of getppid.  The reference page is made of it.  A processor on which the kernel
does not boot has the error instead.  Usage: python scripts/processors.py [NAME...]
"""

import json
import re
import sys
from pathlib import Path
from typing import Any

from kentry.arch import ARCHES, Arch
from kentry.arch.processors import MAX, table
from kentry.boot.exact import ExactOptions, QemuRunner
from kentry.count.recorder import measure
from kentry.errors import GuestError
from kentry.kernels.kernel import Kernel
from kentry.kernels.resolve import resolve

FILE = Path(__file__).parents[1] / "docs" / "reference" / "processors.json"
SPEC = "debian:6.12"


def said(kernel: Kernel, arch: Arch, name: str) -> dict[str, Any]:
    """What the kernel says on the processor, and what getppid costs there."""
    options = ExactOptions(cases=("getppid",), windows=64, path_windows=16, cpu=name)
    try:
        recording = measure(kernel, QemuRunner(arch), options, lambda *_: None)
    except GuestError as err:
        return {"error": err.sentence}
    getppid = recording.cases[0].metrics["instructions"].value
    version = re.search(r"\d+\.\d+", recording.target["emulator"])
    return {
        "kernel": recording.kernel["release"],
        "emulator": version[0] if version else "",
        "mitigations": recording.target["mitigations"],
        "features": recording.target["features"],
        "getppid": getppid,
    }


def main(names: list[str]) -> None:
    """Renews the rows of `names`, or all."""
    found = json.loads(FILE.read_text()) if FILE.exists() else {}
    for arch in ARCHES.values():
        wanted = [one for one in (MAX, *table()[arch.name]) if not names or one in names]
        kernel = resolve(SPEC, arch, lambda *_: None) if wanted else None
        for name in wanted:
            print(arch.name, name, flush=True)
            assert kernel
            found.setdefault(arch.name, {})[name] = said(kernel, arch, name)
            FILE.write_text(json.dumps(found, indent=1, sort_keys=True) + "\n")


if __name__ == "__main__":
    main(sys.argv[1:])
