"""Losses of pairs in simulated walks: ε of a loss, and E[1/τ] as a first-order picture."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from incrowd import checks
from incrowd.errors import InvalidParameter
from incrowd.protocols.token_walk.theorems.conditional_on_path import loss_profile
from incrowd.protocols.token_walk.theorems.graph_walk import check_weights

__all__ = ["first_hit", "loss_epsilon"]

FloatArray = NDArray[np.float64]

_MANY = 2000
_RATIO = 1.001
"""Many different losses are rounded up to a grid of this ratio: ε rises by at most as much."""
_MOST_DENSE = 3000


def loss_epsilon(losses: ArrayLike, mu: float, delta: float) -> FloatArray:
    """Return ε at this δ for each loss W: that of a shift of μ·√W, rounded up."""
    try:
        values = np.asarray(losses, np.float64)
    except (TypeError, ValueError) as wrong:
        raise InvalidParameter("losses must be numbers, as path_losses returns them") from wrong
    if not checks.number(mu, "mu") > 0:
        raise InvalidParameter(f"mu must be above 0, got {mu!r}")
    if not np.all(np.isfinite(values)) or np.any(values < 0):
        raise InvalidParameter("losses must be finite numbers of 0 or more")
    distinct, place = np.unique(values, return_inverse=True)
    if distinct.size > _MANY:
        with np.errstate(divide="ignore"):
            step = np.ceil(np.log(values) / math.log(_RATIO))
        raised = np.where(values > 0, _RATIO**step * (1 + 1e-12), 0.0)
        distinct, place = np.unique(np.maximum(raised, values), return_inverse=True)
    checks.delta(delta)
    found = [loss_profile(loss, mu).epsilon(delta) if loss else 0.0 for loss in distinct.tolist()]
    return np.array(found)[place].reshape(values.shape)


def first_hit(weights: Any, v: int) -> FloatArray:
    """Return E[1/τ] for each u, with τ the steps from u until v has the token; 0 for v itself.

    With Q the weights without v and r the chances to step to v it is g(Q)·r,
    g(x) = −ln(1 − x)/x. It is a first-order picture, not a guarantee.
    """
    dense = check_weights(weights).toarray()
    n = dense.shape[0]
    if not 0 <= checks.integer(v, "a person", 0) < n:
        raise InvalidParameter(f"person {v} is not one of 0 to {n - 1}")
    if n > _MOST_DENSE:
        raise InvalidParameter(f"first_hit is for {_MOST_DENSE} people or fewer, got {n}")
    others = np.delete(np.arange(n), v)
    values, vectors = np.linalg.eigh(dense[np.ix_(others, others)])
    small = np.abs(values) < 1e-6  # there the quotient loses digits, and its series does not
    safe = np.where(small, 0.5, values)
    g = np.where(small, 1 + values / 2 + values**2 / 3, -np.log1p(-safe) / safe)
    found = np.zeros(n)
    found[others] = vectors @ (g * (vectors.T @ dense[others, v]))
    return found
