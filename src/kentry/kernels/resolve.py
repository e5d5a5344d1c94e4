# SPDX-License-Identifier: GPL-2.0-or-later
"""Resolves a spec of any kind to a Kernel, or to the source that a kernel is built from."""

from collections.abc import Callable

from kentry.arch import Arch
from kentry.errors import UserError
from kentry.kernels import build, deb, debian, debian_source, image, tree
from kentry.kernels.apply import patched
from kentry.kernels.config import Request
from kentry.kernels.kernel import Kernel
from kentry.kernels.repository import Revision
from kentry.kernels.spec import Spec, parse
from kentry.progress import Update

_READY: dict[str, Callable[[Spec, Arch, Update], Kernel]] = {
    "debian": debian.resolve,
    "deb": deb.resolve,
    "image": image.resolve,
    "running": image.resolve_running,
}
_SOURCES: dict[str, Callable[[Spec, Update], Revision]] = {
    "source": debian_source.revision,
    "tree": tree.revision,
}
_DEFAULTS = Request()


def resolve(spec: str, arch: Arch, update: Update, request: Request = _DEFAULTS) -> Kernel:
    """The kernel that `spec` names for `arch`: fetched, or built as `request` says, if need be.

    Raises UserError (the spec, or a file it names, is wrong), FetchError (a package could
    not be had or is not what its archive says), KernelError (the image cannot be used),
    PatchError, BuildError and MissingToolError.
    """
    parsed = parse(spec)
    if parsed.kind in _READY:
        return _READY[parsed.kind](parsed, arch, update)
    revision = resolve_source(spec, update)
    return build.kernel(spec, revision, arch, request.chosen(parsed.options), update)


def resolve_source(spec: str, update: Update) -> Revision:
    """The source that a tree: or source: spec names, with its patches; UserError, PatchError."""
    parsed = parse(spec)
    if parsed.kind not in _SOURCES:
        raise UserError(
            f"'{spec}' is not a kernel's source, so it cannot be built with something changed.",
            "Name a source, like source:6.12 or tree:~/linux@HEAD.",
        )
    revision = _SOURCES[parsed.kind](parsed, update)
    if "patches" in parsed.options:
        return patched(revision, parsed.path("patches"), update)
    return revision
