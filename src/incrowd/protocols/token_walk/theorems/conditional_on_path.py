"""What a walk that has happened gives away: exact, for that walk.

Between two visits of an observer v the token makes m steps at others, k of them at u. Whoever knows
the path can subtract all but u's contributions and the m noises, so that the stretch shows a shift
of k·Δ in noise of variance m·σ². Over all stretches the shift is μ·√W[u, v] standard deviations,
W[u, v] = Σ k²/m. The path does not depend on the data, so that this is a guarantee, given the path.

Where contributions read the token, others may carry u's shift on and enlarge it; then every
contribution that is seen at all counts in full, W[u, v] = Σ k. A published result is seen by
everyone as one more visit after the last step. See ``docs/theory/token_graph.md``.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import ArrayLike, NDArray

from incrowd import checks
from incrowd.errors import InvalidCrowd, InvalidParameter
from incrowd.privacy.gaussian import GaussianProfile

FloatArray = NDArray[np.float64]

_MOST_PEOPLE = 20_000
"""A matrix of all pairs takes three gigabytes then."""
_FEW_PEOPLE, _MOST_WORK = 4000, 4e8
"""People, and people times steps, of which all pairs are computed in seconds."""
_LEAST_SHIFT = 1e-6
_MANY = 2000
_RATIO = 1.001
"""Many different losses are rounded up to a grid of this ratio: ε rises by at most as much."""


def realised_losses(
    path: NDArray[np.integer], n: int, *, published: bool = False, reads: bool = False
) -> FloatArray:
    """W[u, v] for all pairs, as multiples of μ²; nobody learns of themselves, so that W[v, v] = 0.

    ``path`` holds the people who had the token, in order.
    """
    from incrowd.protocols.token_walk.theorems.kernels import observe_all

    holders, n = _holders(path, n)
    if n > _MOST_PEOPLE:
        raise InvalidCrowd(
            f"all pairs of {n} people are too many: ask for single observers, by realised_losses_of"
        )
    order = np.argsort(holders, kind="stable").astype(np.int64)
    first = np.searchsorted(holders[order], np.arange(n + 1))
    found = np.zeros((n, n))
    observe_all(holders, order, first.astype(np.int64), published, reads, found)
    return _rounded_up(found.T, holders, n)


def realised_losses_of(
    path: NDArray[np.integer],
    n: int,
    observer: int,
    *,
    published: bool = False,
    reads: bool = False,
) -> FloatArray:
    """W[u, observer] for all u, for paths of any length."""
    from incrowd.protocols.token_walk.theorems.kernels import observe

    holders, n = _holders(path, n)
    if checks.integer(observer, "observer", 0) >= n:
        raise InvalidParameter(f"observer must be one of 0 to {n - 1}, got {observer!r}")
    visits = np.flatnonzero(holders == observer).astype(np.int64)
    if published:
        visits = np.append(visits, holders.size)
    found = np.zeros(n)
    observe(holders, visits, reads, np.zeros(n, np.int64), found)
    return _rounded_up(found[:, None], holders, n)[:, 0]


def largest_loss(path: NDArray[np.integer], n: int, *, published: bool) -> float | None:
    """The largest loss of any pair; none where all pairs would take more than seconds."""
    if n > _FEW_PEOPLE or n * len(path) > _MOST_WORK:
        return None
    return float(np.max(realised_losses(path, n, published=published)))


def worst_losses(losses: FloatArray) -> FloatArray:
    """For each u, what the observer learns who learns most."""
    found: FloatArray = np.asarray(losses).max(axis=1)
    return found


def average_losses(losses: FloatArray) -> FloatArray:
    """For each u, the mean over all observers."""
    square = np.asarray(losses)
    found: FloatArray = square.sum(axis=1) / (square.shape[0] - 1)
    return found


def realised_epsilon(losses: ArrayLike, mu: float, delta: float) -> FloatArray:
    """ε at this δ for each loss W: that of a shift of μ·√W, rounded up."""
    try:
        values = np.asarray(losses, np.float64)
    except (TypeError, ValueError) as wrong:
        raise InvalidParameter("losses must be numbers, as realised_losses returns them") from wrong
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
    found = [_epsilon(float(each), mu, checks.delta(delta)) for each in distinct]
    return np.array(found)[place].reshape(values.shape)


def realised_profile(loss: float, mu: float) -> GaussianProfile:
    """The curve of a loss W: a shift of μ·√W, rounded up; the least is one that doubles resolve."""
    return GaussianProfile(max(mu * math.sqrt(loss) * (1 + 2.0**-50), _LEAST_SHIFT))


def _epsilon(loss: float, mu: float, delta: float) -> float:
    return realised_profile(loss, mu).epsilon(delta) if loss else 0.0


def _holders(path: NDArray[np.integer], n: int) -> tuple[NDArray[np.int32], int]:
    """The path as the kernels read it, without a copy where it is already, and the people."""
    n = checks.crowd(n, at_least=2)
    try:
        holders = np.asarray(path)
    except ValueError:  # rows of different lengths
        holders = np.empty((0, 0))
    if holders.ndim != 1 or not np.issubdtype(holders.dtype, np.integer):
        raise InvalidParameter(
            "path must be a row of whole numbers, one person for each step", field="path"
        )
    if holders.size and not (holders.min() >= 0 and holders.max() < n):
        raise InvalidParameter(
            f"path must hold people from 0 to n - 1 = {n - 1} only", field="path"
        )
    return np.ascontiguousarray(holders, np.int32), n


def _rounded_up(found: FloatArray, holders: NDArray[np.int32], n: int) -> FloatArray:
    """Row u is a sum of at most as many terms as u has visits, each rounded."""
    visits = np.bincount(holders, minlength=n)
    raised: FloatArray = found * (1 + (visits[:, None] + 4) * 2.0**-52)
    return raised
