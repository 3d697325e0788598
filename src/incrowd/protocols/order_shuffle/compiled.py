"""Compilation of loops, imported only by modules that are themselves imported when first used."""

from collections.abc import Callable
from typing import Any, TypeVar, cast

import numba

_Loop = TypeVar("_Loop", bound=Callable[..., Any])


def compiled(loop: _Loop) -> _Loop:
    """Compile a loop, and keep the result for later processes."""
    return cast(_Loop, numba.njit(cache=True, nogil=True)(loop))
