"""The loss of a walk that has happened: exact, given its path.

Between two visits of an observer v the token makes m steps at others, k of them at u. An observer
of the path can subtract all but u's contributions and the m noises, so that the stretch shows a
shift of k·Δ in noise of variance m·σ². Over all stretches the shift is μ·√W[u, v] standard
deviations, W[u, v] = Σ k²/m. The path does not depend on the data, so that this is a guarantee,
given the path. A published result is one more visit of everyone after the last step.

Contributions must not read the token: others may then carry u's shift on and enlarge it, and every
contribution that is seen counts in full, as k. See ``docs/theory/token_graph.md``.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from incrowd import checks
from incrowd.errors import InvalidCrowd, InvalidParameter
from incrowd.privacy.gaussian import GaussianProfile
from incrowd.randomizers.base import FloatArray

_MOST_PEOPLE = 20_000  # a matrix of all pairs takes three gigabytes then
_FEW_PEOPLE, _MOST_WORK = 4000, 4e8
"""People, and people times steps, up to which all pairs are computed in seconds."""
_LEAST_SHIFT = 1e-6


def path_losses(path: NDArray[np.integer], n: int, *, published: bool = False) -> FloatArray:
    """Return W[u, v] for all pairs as multiples of μ², rounded up; W[v, v] = 0.

    ``path`` holds the people who had the token, in order.
    """
    from incrowd.protocols.token_walk.kernels import observe_all

    holders, n = _holders(path, n)
    if n > _MOST_PEOPLE:
        raise InvalidCrowd(f"all pairs of {n} people are too many: take {_MOST_PEOPLE} or fewer")
    order = np.argsort(holders, kind="stable").astype(np.int64)
    first = np.searchsorted(holders[order], np.arange(n + 1)).astype(np.int64)
    found = np.zeros((n, n))
    observe_all(holders, order, first, published, found)
    # Row u is a sum of at most as many terms as u has visits, each rounded.
    visits = np.bincount(holders, minlength=n)
    return np.asarray(found.T * (1 + (visits[:, None] + 4) * 2.0**-52))


def largest_loss(path: NDArray[np.integer], n: int, *, published: bool) -> float | None:
    """Return the largest loss of any pair; None where all pairs would take more than seconds."""
    if n > _FEW_PEOPLE or n * len(path) > _MOST_WORK:
        return None
    return float(np.max(path_losses(path, n, published=published)))


def loss_profile(loss: float, mu: float) -> GaussianProfile:
    """Return the curve of a loss W: a shift of μ·√W, at least one that doubles resolve."""
    return GaussianProfile(max(mu * math.sqrt(loss) * (1 + 2.0**-50), _LEAST_SHIFT))


def _holders(path: NDArray[np.integer], n: int) -> tuple[NDArray[np.int32], int]:
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
