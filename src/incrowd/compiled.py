"""Compilation of loops by numba, cached and without the interpreter's lock.

Importing numba takes time: only modules of kernels import this one, and those are imported when
first used.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar, cast

import numba

Loop = TypeVar("Loop", bound=Callable[..., Any])


def compiled(**options: Any) -> Callable[[Loop], Loop]:
    """Return a decorator that compiles a loop with further options of ``numba.njit``."""

    def compile_loop(loop: Loop) -> Loop:
        return cast(Loop, numba.njit(cache=True, nogil=True, **options)(loop))

    return compile_loop
