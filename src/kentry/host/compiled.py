# SPDX-License-Identifier: GPL-2.0-or-later
"""Python functions compiled by numba, for loops over millions of items."""

from collections.abc import Callable
from typing import Any, TypeVar, cast

from numba import njit

_Function = TypeVar("_Function", bound=Callable[..., Any])


def compiled(function: _Function) -> _Function:
    """The function, compiled at its first call.  numba keeps the result beside its file.

    Where neither that folder nor the user's cache can be written, each process compiles again.
    numba looks for changes in the function's own file only, so what it calls is in the same file.
    """
    try:
        return cast(_Function, njit(cache=True, nogil=True)(function))
    except RuntimeError:
        return cast(_Function, njit(nogil=True)(function))
