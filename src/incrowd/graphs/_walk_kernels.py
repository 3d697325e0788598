"""Compiled loop that moves walkers, imported only when first used: importing numba takes time.

A hop reads two places of memory that the cache rarely holds: the row of the holder, then one entry
of it. Each round of a block of walkers takes two passes: the first picks an entry for every walker,
the second reads the entries. Each pass prefetches the reads of the next one, so that many are under
way at a time; a loop that moves one walker after the other spends nearly all its time waiting.

Randomness is counter-based: the word for walker i in round t is a mix of the number t·walkers + i
under two keys. It depends neither on the blocks nor on the number of threads, and no two hops of
one call share a word.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from llvmlite import ir  # type: ignore[import-untyped]
from numba import prange, types
from numba.extending import intrinsic
from numpy.typing import NDArray

from incrowd.compiled import compiled

_BLOCK = 1024
"""Walkers per block: prefetched lines must still be in the cache when they are read."""

# The counter's stride and the mixing constants of SplitMix64 (Steele, Lea and Flood, "Fast
# splittable pseudorandom number generators").
_STRIDE = np.uint64(0x9E3779B97F4A7C15)
_MIX_1 = np.uint64(0xBF58476D1CE4E5B9)
_MIX_2 = np.uint64(0x94D049BB133111EB)
_SHIFT_1, _SHIFT_2, _SHIFT_3 = np.uint64(30), np.uint64(27), np.uint64(31)
_HALF = np.uint64(32)
_LOW = np.uint64(0xFFFFFFFF)
_NONE, _ONE = np.uint64(0), np.uint64(1)


@intrinsic  # type: ignore[untyped-decorator]
def _prefetch(_context: Any, array: Any, index: Any) -> Any:
    """Prefetch ``array[index]``; a hint that changes no result."""

    def emit(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        held = context.make_array(signature.args[0])(context, builder, arguments[0])
        byte, word = ir.IntType(8).as_pointer(), ir.IntType(32)
        hint = builder.module.declare_intrinsic(
            "llvm.prefetch", [byte], ir.FunctionType(ir.VoidType(), [byte, word, word, word])
        )
        place = builder.bitcast(builder.gep(held.data, [arguments[1]]), byte)
        to_read, keep, data = word(0), word(3), word(1)
        builder.call(hint, [place, to_read, keep, data])
        return context.get_dummy_value()

    return types.void(array, index), emit


@compiled(inline="always")
def _mixed(counter: np.uint64, key: np.uint64) -> np.uint64:
    """Mix as SplitMix64 does, with a key between its two rounds: a permutation for each key."""
    z = (counter ^ (counter >> _SHIFT_1)) * _MIX_1
    z ^= key
    z = (z ^ (z >> _SHIFT_2)) * _MIX_2
    return z ^ (z >> _SHIFT_3)


@compiled(parallel=True)
def advance(
    indptr: NDArray[np.int64] | NDArray[np.uint32],
    indices: NDArray[np.int32],
    at: NDArray[np.int32],
    first: int,
    rounds: int,
    key_1: np.uint64,
    key_2: np.uint64,
    stay: np.uint64,
    away: NDArray[np.bool_] | None,
) -> None:
    """Move the walkers ``at`` in place, in the rounds from ``first`` on.

    Of the product word × degree, the part above 2⁶⁴ is the picked entry, and the part below is
    uniform given the entry: the walker rests if that is less than ``stay``, if it has no neighbour,
    or if it is ``away`` (one row per round of this call). ``indices`` must not be empty, and
    degrees are below 2³².
    """
    walkers = at.size
    for block in prange((walkers + _BLOCK - 1) // _BLOCK):
        begin = block * _BLOCK
        here = at[begin : min(walkers, begin + _BLOCK)]
        entry = np.empty(here.size, dtype=np.int64)
        for t in range(rounds):
            counter = key_1 + _STRIDE * np.uint64((first + t) * walkers + begin)
            for i in range(here.size):
                # Unsigned numbers spare the check for places counted from the end.
                v = np.uint64(here[i])
                row = np.uint64(indptr[v])
                degree = np.uint64(indptr[v + _ONE]) - row
                word = _mixed(counter + _STRIDE * np.uint64(i), key_2)
                picked = ((word >> _HALF) * degree + (((word & _LOW) * degree) >> _HALF)) >> _HALF
                _prefetch(indices, row + picked)
                rests = (degree == _NONE) | (word * degree < stay)
                if away is not None:
                    rests = rests | away[t, v]
                entry[i] = -1 if rests else np.int64(row + picked)
            for i in range(here.size):
                moved = indices[np.uint64(max(entry[i], 0))]
                here[i] = moved if entry[i] >= 0 else here[i]
                _prefetch(indptr, here[i])
