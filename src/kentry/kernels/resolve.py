# SPDX-License-Identifier: GPL-2.0-or-later
"""spec -> Kernel, whatever the kind of spec."""

from __future__ import annotations

from collections.abc import Callable

from kentry.arch import Arch
from kentry.errors import UserError
from kentry.kernels import build, deb, debian, image, running, source, tree
from kentry.kernels.config import Request
from kentry.kernels.kernel import Kernel
from kentry.kernels.repository import Revision
from kentry.kernels.spec import Spec, parse
from kentry.progress import Update

_RESOLVERS: dict[str, Callable[[Spec, Arch, Update], Kernel]] = {
    "debian": debian.resolve,
    "deb": deb.resolve,
    "image": image.resolve,
    "running": running.resolve,
}
_BUILDERS: dict[str, Callable[[Spec, Arch, Update, Request], Kernel]] = {
    "source": source.resolve,
    "tree": tree.resolve,
}
_SOURCES: dict[str, Callable[[Spec, Update], Revision]] = {
    "source": source.revision,
    "tree": tree.revision,
}
_AS_USUAL = Request()


def resolve(spec: str, arch: Arch, update: Update, request: Request = _AS_USUAL) -> Kernel:
    """The kernel that `spec` names for `arch`: fetched, or built as `request` says, if need be.

    Raises UserError (the spec, or a file it names, is wrong), FetchError (a package could
    not be had or is not what its archive says), KernelError (the image cannot be used),
    PatchError, BuildError and MissingToolError.
    """
    parsed = parse(spec)
    if "patches" in parsed.options:
        wanted = request.chosen(parsed.options)
        return build.kernel(parsed.text, _source(parsed, update), arch, wanted, update)
    if parsed.kind in _BUILDERS:
        return _BUILDERS[parsed.kind](parsed, arch, update, request.chosen(parsed.options))
    return _RESOLVERS[parsed.kind](parsed, arch, update)


def resolve_source(spec: str, update: Update) -> Revision:
    """The source that a tree: or source: spec names, with its patches; PatchError.

    UserError for any other kind.
    """
    parsed = parse(spec)
    if parsed.kind not in _SOURCES:
        raise UserError(
            f"'{spec}' is not a kernel's source, so it cannot be built with something changed.",
            "Name a source, like source:6.12 or tree:~/linux@HEAD.",
        )
    return _source(parsed, update)


def _source(spec: Spec, update: Update) -> Revision:
    revision = _SOURCES[spec.kind](spec, update)
    if "patches" not in spec.options:
        return revision
    # It resolves specs itself.
    from kentry.kernels.lineup import patched

    return patched(revision, spec.path("patches"), update)
