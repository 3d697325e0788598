"""Normal noise without floating point: exact draws, rounded exactly.

The last bits of floating-point noise can betray the value it was added to. Here a value plus σ
times a normal number, as real numbers, is rounded to a multiple of 2⁻²⁰, and every step of that is
exact: only fair coins are tossed, and only whole numbers compared. Rounding is post-processing, so
that the guarantee of real-valued noise holds as it is, without an assumption about arithmetic.

A normal number is ±(k + x) with a whole k and x in [0, 1), after "Sampling exactly from the normal
distribution" (Karney): k is drawn with chance ∝ e^(−k²/2), then x uniformly, and both are kept with
chance e^(−x(2k + x)/2). Digits of x are drawn as comparisons and the final rounding need them. A
chance e^(−γ) with γ ≤ 1 is that of an odd number of draws when the i-th goes on with chance γ/i.
"""

from __future__ import annotations

from fractions import Fraction
from typing import Final

import numpy as np

from incrowd.randomizers.base import FloatArray

GRID: Final = 2**20
"""Results are multiples of its reciprocal."""
_MORE: Final = 32
"""Binary digits per draw."""
_HALF = Fraction(1, 2)


def noisy(values: FloatArray, sigma: float, rng: np.random.Generator) -> FloatArray:
    """Add normal noise of standard deviation ``sigma`` to each value and round to the grid."""
    width = Fraction(sigma) * GRID
    drawn = [_rounded(Fraction(float(value)) * GRID, width, rng) for value in np.ravel(values)]
    return np.array(drawn, np.float64).reshape(np.shape(values)) / GRID


class _Uniform:
    """Lazily drawn number in [0, 1): so far within [low, low + 1)/2^bits."""

    __slots__ = ("bits", "low", "rng")

    def __init__(self, rng: np.random.Generator) -> None:
        self.rng, self.low, self.bits = rng, 0, 0
        self.refine()

    def refine(self) -> None:
        """Draw further digits."""
        self.low = (self.low << _MORE) | int.from_bytes(self.rng.bytes(_MORE // 8), "little")
        self.bits += _MORE


def _rounded(center: Fraction, width: Fraction, rng: np.random.Generator) -> int:
    """Round ``center + width·Z`` to the nearest whole number, Z normal."""
    whole, rest = _magnitude(rng)
    if rng.bytes(1)[0] & 1:
        width = -width
    while True:
        ends = (
            center + width * (whole + Fraction(rest.low + step, 1 << rest.bits)) for step in (0, 1)
        )
        first, last = ((end + _HALF).__floor__() for end in ends)
        if first == last:
            return first
        rest.refine()


def _magnitude(rng: np.random.Generator) -> tuple[int, _Uniform]:
    """Draw the absolute value of a normal number: its whole part and the rest."""
    while True:
        k = 0
        while _half_exponential(rng):
            k += 1
        if not all(_half_exponential(rng) for _ in range(k * (k - 1))):
            continue
        x = _Uniform(rng)
        if all(_falls(x, k, rng) for _ in range(k + 1)):
            return k, x


def _half_exponential(rng: np.random.Generator) -> bool:
    """Toss a coin of chance e^(−1/2)."""
    i = 1
    while _below(_Uniform(rng), 2 * i):
        i += 1
    return i % 2 == 1


def _below(u: _Uniform, divisor: int) -> bool:
    """Whether u < 1/divisor."""
    while True:
        if (u.low + 1) * divisor <= 1 << u.bits:
            return True
        if u.low * divisor >= 1 << u.bits:
            return False
        u.refine()


def _falls(x: _Uniform, k: int, rng: np.random.Generator) -> bool:
    """Toss a coin of chance e^(−γ), γ = x(2k + x)/(2k + 2); k + 1 in a row keep the draw."""
    i = 1
    while _under(_Uniform(rng), x, k, i * (2 * k + 2)):
        i += 1
    return i % 2 == 1


def _under(u: _Uniform, x: _Uniform, k: int, divisor: int) -> bool:
    """Whether u < x(2k + x)/divisor."""
    while True:
        one = 1 << x.bits
        least = x.low * (2 * k * one + x.low) << u.bits
        most = (x.low + 1) * (2 * k * one + x.low + 1) << u.bits
        scaled = divisor << 2 * x.bits
        if (u.low + 1) * scaled <= least:
            return True
        if u.low * scaled >= most:
            return False
        u.refine()
        x.refine()
