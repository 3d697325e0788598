"""Older bounds of a scrambler by Hoeffding's and Bennett's inequalities, for comparison.

With a = e^ε − 1, L = σ(1 − e^ε) + (1 − σ)T·(1{t} − e^ε·1{t'}) in [b₋, b₊], b = b₊ − b₋, c = E[L²]:

    E[(L₁ + … + L_N)₊] ≤ b²/(4a)·exp(−2Na²/b²)                      (Hoeffding),
    E[(L₁ + … + L_N)₊] ≤ b₊/ln(1 + ab₊/c)·exp(−(Nc/b₊²)·φ(ab₊/c))   (Bennett),

φ(u) = (1 + u)·ln(1 + u) − u. Both are far above the exact sum of :mod:`.theorems.exact`, which
replaces them. They rise again for large ε: the first ε that meets δ is looked for on a grid, so
that it may be missed but never wrong. Proof: ``docs/theory/scrambler.md``.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from incrowd import checks
from incrowd.protocols.scrambled_query.theorems.occupancy import crowds
from incrowd.randomizers import Redirect

FloatArray = NDArray[np.float64]

_EXPONENT = 60.0
_BLOCKS = 1000
_GRID = 2000
_LEAST, _GREATEST = 1e-6, 40.0
"""Range of the search for ε; without sampling there is none where none is found up to 40."""
_HALVINGS = 40
_ROUND = 1e-8


def _hoeffding(targets: int, sampling: float, epsilon: FloatArray, n: FloatArray) -> FloatArray:
    growth, width = np.expm1(epsilon), (1 - sampling) * targets * (1 + np.exp(epsilon))
    return np.asarray(width**2 / (4 * growth) * np.exp(-2 * n * (growth / width) ** 2))


def _bennett(targets: int, sampling: float, epsilon: FloatArray, n: FloatArray) -> FloatArray:
    t, growth = np.exp(epsilon), np.expm1(epsilon)
    most = (1 - sampling) * targets - sampling * growth
    square = sampling * (2 - sampling) * growth**2 + (1 - sampling) ** 2 * targets * (1 + t**2)
    # From ε0 on no term is positive.
    positive = np.maximum(most, 1e-300)
    u = growth * positive / square
    log = np.log1p(u)
    # φ(u) loses digits for small u, where u²/2 − u³/6 is below it.
    phi = np.where(u < 1e-4, u * u / 2 * (1 - u / 3), (1 + u) * log - u)
    found = positive / log * np.exp(-n * square / positive**2 * phi)
    return np.asarray(np.where(most > 0, found, 0.0))


@dataclass(frozen=True)
class OlderBound:
    """A bound on E[(L₁ + … + L_N)₊], and the privacy of a scrambler that follows from it."""

    bound: Callable[[int, float, FloatArray, FloatArray], FloatArray]

    def delta(
        self, targets: int, sampling: float, sources: int, dummies: int, epsilon: float
    ) -> float:
        """δ at ε > 0, rounded up."""
        if checks.epsilon(epsilon) >= _local_epsilon(targets, sampling, sources, dummies):
            return 0.0
        curve = self._curve(targets, sampling, sources, dummies)
        return min(1.0, float(curve(np.array([epsilon]))[0]))

    def epsilon(
        self, targets: int, sampling: float, sources: int, dummies: int, delta: float
    ) -> float | None:
        """The first ε that the bound allows at δ, or ε0 if that is less; else none."""
        alone = _local_epsilon(targets, sampling, sources, dummies)
        checks.delta(delta)
        if alone == 0:
            return 0.0
        curve = self._curve(targets, sampling, sources, dummies)
        grid = np.geomspace(_LEAST, min(alone, _GREATEST) * (1 - 1e-9), _GRID)
        met = np.flatnonzero(curve(grid) <= delta)
        if not met.size:
            return alone if math.isfinite(alone) else None
        low, high = float(grid[max(met[0] - 1, 0)]), float(grid[met[0]])
        for _ in range(_HALVINGS):
            middle = (low + high) / 2
            low, high = (low, middle) if curve(np.array([middle]))[0] <= delta else (middle, high)
        return high

    def _curve(
        self, targets: int, sampling: float, sources: int, dummies: int
    ) -> Callable[[FloatArray], FloatArray]:
        found = crowds(sources - 1, sampling, _EXPONENT)
        found = found if found.least.size <= _BLOCKS else found.merged(_BLOCKS)
        n: FloatArray = (found.least + dummies + 1).astype(np.float64)

        def deltas(epsilon: FloatArray) -> FloatArray:
            # The bounds fall with N, so that the least of each block is on the safe side.
            each = self.bound(targets, sampling, epsilon[:, None], n[None, :]) / n
            return np.asarray((each @ found.chance) * (1 + _ROUND) + found.missing)

        return deltas


HOEFFDING, BENNETT = OlderBound(_hoeffding), OlderBound(_bennett)


def _local_epsilon(targets: int, sampling: float, sources: int, dummies: int) -> float:
    checks.crowd(sources, "sources")
    checks.integer(dummies, "dummies", 0)
    return Redirect(targets=targets, redirect_probability=sampling).epsilon
