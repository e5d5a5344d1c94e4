# SPDX-License-Identifier: GPL-2.0-or-later
"""floor: -> the kernel of kentry's own that does nothing but take a system call (guest/floor/)."""

import hashlib

from kentry.arch import Arch
from kentry.host.cache import read_bytes
from kentry.host.native import floor_files
from kentry.kernels import payload, source_lines, symtab
from kentry.kernels.kernel import Kernel
from kentry.kernels.spec import Spec
from kentry.results.recording import FLOOR

# The calls that are measured there; the others are slow, and are those that the probe needs.
CASES = ("getpid", "getppid")

_WHAT = {
    "": "the least that hardware and ABI allow",
    "linux": "the least with what Linux promises besides",
}


def resolve(spec: Spec, arch: Arch) -> Kernel:
    """floor: or floor:linux; MissingToolError if it is not built."""
    image, program = floor_files(arch, spec.value)
    return Kernel(
        spec=spec.text,
        arch=arch.name,
        image=image,
        image_sha256=hashlib.sha256(read_bytes(image)).hexdigest(),
        symbols=symtab.of_program(program),
        symbols_from="symbol table",
        release="",
        banner="",
        compiler="",
        config=None,
        config_sha256=None,
        build_id=payload.elf_build_id(read_bytes(program)),
        origin={"kind": FLOOR, "what": _WHAT[spec.value]},
        debug_info=source_lines.debug_info_of(program),
    )
