# SPDX-License-Identifier: GPL-2.0-or-later
"""spec -> Kernel, whatever the kind of spec."""

from __future__ import annotations

from collections.abc import Callable

from kentry.arch import Arch
from kentry.kernels import deb, debian, image, running
from kentry.kernels.kernel import Kernel
from kentry.kernels.spec import Spec, parse
from kentry.progress import Update

_RESOLVERS: dict[str, Callable[[Spec, Arch, Update], Kernel]] = {
    "debian": debian.resolve,
    "deb": deb.resolve,
    "image": image.resolve,
    "running": running.resolve,
}


def resolve(spec: str, arch: Arch, update: Update) -> Kernel:
    """The kernel that `spec` names for `arch`, fetched and unpacked into the cache if need be.

    Raises UserError (the spec, or a file it names, is wrong), FetchError (a package could
    not be had or is not what its archive says), KernelError (the image cannot be used) and
    MissingToolError.
    """
    parsed = parse(spec)
    return _RESOLVERS[parsed.kind](parsed, arch, update)
