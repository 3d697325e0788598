"""What Hoeffding's and Bennett's inequalities say of a scrambler: older bounds, for comparison.

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

import numpy as np
from numpy.typing import NDArray

from incrowd import checks
from incrowd.protocols.scrambled_query.theorems.occupancy import crowds
from incrowd.randomizers import Redirect

FloatArray = NDArray[np.float64]
_Bound = Callable[[int, float, FloatArray, FloatArray], FloatArray]

_EXPONENT = 60.0
_BLOCKS = 1000
_GRID = 2000
_LEAST, _GREATEST = 1e-6, 40.0
"""Where ε is looked for; where nobody lies and nothing is found up to 40, there is nothing."""
_HALVINGS = 40
_ROUND = 1e-8


def hoeffding_delta(
    targets: int, sampling: float, sources: int, dummies: int, epsilon: float
) -> float:
    """δ by Hoeffding's inequality at ε > 0, rounded up."""
    return _delta(_hoeffding, targets, sampling, sources, dummies, epsilon)


def bennett_delta(
    targets: int, sampling: float, sources: int, dummies: int, epsilon: float
) -> float:
    """δ by Bennett's inequality at ε > 0, rounded up."""
    return _delta(_bennett, targets, sampling, sources, dummies, epsilon)


def hoeffding_epsilon(
    targets: int, sampling: float, sources: int, dummies: int, delta: float
) -> float | None:
    """The first ε that Hoeffding's inequality allows at δ, or ε0 if that is less; else none."""
    return _epsilon(_hoeffding, targets, sampling, sources, dummies, delta)


def bennett_epsilon(
    targets: int, sampling: float, sources: int, dummies: int, delta: float
) -> float | None:
    """The first ε that Bennett's inequality allows at δ, or ε0 if that is less; else none."""
    return _epsilon(_bennett, targets, sampling, sources, dummies, delta)


def _hoeffding(targets: int, lie: float, epsilon: FloatArray, n: FloatArray) -> FloatArray:
    growth, width = np.expm1(epsilon), (1 - lie) * targets * (1 + np.exp(epsilon))
    return np.asarray(width**2 / (4 * growth) * np.exp(-2 * n * (growth / width) ** 2))


def _bennett(targets: int, lie: float, epsilon: FloatArray, n: FloatArray) -> FloatArray:
    t, growth = np.exp(epsilon), np.expm1(epsilon)
    most = (1 - lie) * targets - lie * growth
    square = lie * (2 - lie) * growth**2 + (1 - lie) ** 2 * targets * (1 + t**2)
    # From ε0 on no term is positive.
    positive = np.maximum(most, 1e-300)
    u = growth * positive / square
    log = np.log1p(u)
    # φ(u) loses digits for small u, where u²/2 − u³/6 is below it.
    phi = np.where(u < 1e-4, u * u / 2 * (1 - u / 3), (1 + u) * log - u)
    found = positive / log * np.exp(-n * square / positive**2 * phi)
    return np.asarray(np.where(most > 0, found, 0.0))


def _curve(
    bound: _Bound, targets: int, sampling: float, sources: int, dummies: int
) -> Callable[[FloatArray], FloatArray]:
    """δ at many ε > 0 at once."""
    found = crowds(sources - 1, sampling, _EXPONENT)
    found = found if found.least.size <= _BLOCKS else found.merged(_BLOCKS)
    n: FloatArray = (found.least + dummies + 1).astype(np.float64)

    def deltas(epsilon: FloatArray) -> FloatArray:
        # The bounds fall with N, so that the least of each block is on the safe side.
        each = bound(targets, sampling, epsilon[:, None], n[None, :]) / n
        return np.asarray((each @ found.chance) * (1 + _ROUND) + found.missing)

    return deltas


def _delta(
    bound: _Bound, targets: int, sampling: float, sources: int, dummies: int, epsilon: float
) -> float:
    alone = _check(targets, sampling, sources, dummies)
    if checks.epsilon(epsilon) >= alone:
        return 0.0
    curve = _curve(bound, targets, sampling, sources, dummies)
    return min(1.0, float(curve(np.array([epsilon]))[0]))


def _epsilon(
    bound: _Bound, targets: int, sampling: float, sources: int, dummies: int, delta: float
) -> float | None:
    alone = _check(targets, sampling, sources, dummies)
    checks.delta(delta)
    if alone == 0:
        return 0.0
    curve = _curve(bound, targets, sampling, sources, dummies)
    grid = np.geomspace(_LEAST, min(alone, _GREATEST) * (1 - 1e-9), _GRID)
    met = np.flatnonzero(curve(grid) <= delta)
    if not met.size:
        return alone if math.isfinite(alone) else None
    low, high = float(grid[max(met[0] - 1, 0)]), float(grid[met[0]])
    for _ in range(_HALVINGS):
        middle = (low + high) / 2
        if curve(np.array([middle]))[0] <= delta:
            high = middle
        else:
            low = middle
    return high


def _check(targets: int, sampling: float, sources: int, dummies: int) -> float:
    """ε0, after refusing what describes no scrambler."""
    checks.crowd(sources, "sources")
    checks.integer(dummies, "dummies", 0)
    return Redirect(targets=targets, sampling=sampling).epsilon
