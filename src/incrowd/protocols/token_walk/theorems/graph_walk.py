"""A token that walks on any connected graph: weights, and what one person learns of another.

The walk moves by a symmetric matrix W of chances, so that it visits everyone equally often. Seen
from a pair, u who contributes and v who observes, its visits to the two form a chain of their own:
after u, v is next with a chance r, in steps of one law, or u again, in steps of another. The runs
of u between visits of v are independent, and their costs are those of
:mod:`incrowd.protocols.token_walk.theorems.gap_moments`. The walk may be public; it may start
anywhere, except that for a published result it starts at anyone with equal chance. See
``docs/theory/token_graph.md``.

:func:`first_hit` is the first-order picture: E[1/τ], with τ the steps from u until v has the token.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from incrowd import checks
from incrowd.errors import GraphInvalid, InvalidParameter
from incrowd.graphs.graph import Graph, require_no_isolated
from incrowd.privacy.gaussian import GaussianProfile
from incrowd.privacy.guarantee import Profile
from incrowd.protocols.token_walk.theorems.amplification_by_iteration import LONGEST, MomentProfile
from incrowd.protocols.token_walk.theorems.gap_moments import (
    Gap,
    Runs,
    log_moment_of_runs,
    log_runs_alike,
)

FloatArray = NDArray[np.float64]
Weights = sparse.csr_array

_TOLERANCE = 1e-12
_SHORTEST, _FARTHEST = 1024, 8192
_MOST_DENSE = 3000
_FEW_PEOPLE, _FEW_PAIRS = 32, 48
_ALIKE = 12
"""Pairs whose gaps have the same chances to so many digits are taken as one."""
_SLIP = 1e-9
"""Allowed per run, relative, for chances from linear equations and for pairs taken as one."""
_EXPONENTS = (1.03, 1.1, 1.3, 2.0)
"""Of Hölder's inequality, for a published result."""


def metropolis(graph: Graph) -> Weights:
    """Metropolis-Hastings weights: 1/(1 + the greater degree) to a neighbour, else stay."""
    require_no_isolated(graph)
    adjacency = graph.adjacency().tocoo()
    apart = adjacency.row != adjacency.col
    row, column = adjacency.row[apart], adjacency.col[apart]
    degree = np.bincount(row, minlength=graph.n)
    moves = 1.0 / (1 + np.maximum(degree[row], degree[column]))
    away = sparse.csr_array((moves, (row, column)), shape=(graph.n, graph.n))
    stay = 1.0 - away.sum(axis=1)
    return check_weights(sparse.csr_array(away + sparse.diags_array(stay)))


def check_weights(weights: Any, *, walk: bool = True) -> Weights:
    """Symmetric chances whose rows add up to one, on a connected graph; a walk has no period."""
    try:
        found = sparse.csr_array(weights, dtype=np.float64)
    except (TypeError, ValueError) as wrong:
        raise InvalidParameter(
            "weights must be a square matrix of chances, such as metropolis(graph)"
        ) from wrong
    n = found.shape[0]
    if found.shape != (n, n) or n < 2:
        raise InvalidParameter(f"weights must be a square matrix of 2 rows or more, got {n} rows")
    if not np.all(np.isfinite(found.data)) or (found.nnz and found.data.min() < 0):
        raise InvalidParameter("weights must be chances: no entry may be negative or not a number")
    if abs(found - found.T).max() > _TOLERANCE:
        raise InvalidParameter("weights must be symmetric: use metropolis(graph)")
    if np.abs(found.sum(axis=1) - 1).max() > n * _TOLERANCE:
        raise InvalidParameter("each row of weights must add up to 1: use metropolis(graph)")
    found.eliminate_zeros()
    found.sort_indices()
    _check_connected(found, walk)
    return found


def _check_connected(weights: Weights, walk: bool) -> None:
    from scipy.sparse import csgraph

    n = weights.shape[0]
    parts, _ = csgraph.connected_components(weights, directed=False)
    if parts > 1:
        raise GraphInvalid(
            f"the graph falls into {parts} parts, and a token never leaves its own: take the "
            "largest_component()"
        )
    if walk:
        # Two copies of everyone, one for even and one for odd steps, hang together unless steps
        # alternate between two sides.
        doubled = sparse.csr_array(sparse.kron([[0.0, 1.0], [1.0, 0.0]], weights))
        doubled.eliminate_zeros()
        if csgraph.connected_components(doubled, directed=False)[0] > 1:
            raise GraphInvalid(
                f"the walk on these {n} people alternates between two sides: let it stay with some "
                "chance, as metropolis(graph) does"
            )


def first_hit(weights: Any, v: int) -> FloatArray:
    """E[1/τ] for each u: τ is the number of steps from u until v has the token. 0 for v itself.

    With Q the weights without v and r the chances to step to v it is g(Q)·r,
    g(x) = −ln(1 − x)/x. It is a first-order picture, not a guarantee.
    """
    dense = check_weights(weights).toarray()
    n = dense.shape[0]
    _vertex(v, n)
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


@dataclass(frozen=True, eq=False)
class _Laws:
    """All that matters of the walk for one pair (u, v)."""

    observed: float
    """The chance r that after u it is v who has the token before u has it again."""
    again: Gap
    """Steps from u back to u, given that v is not in between."""
    seen: Gap
    """Steps from u to v, given that u is not in between."""
    until_seen: Gap
    """Steps from u to the first visit of v, whoever is in between."""
    entered: float
    """The chance that a walk from anywhere meets u before v."""
    entry: Gap
    """Steps until then, counting the first holder as step one."""


@dataclass(frozen=True, eq=False)
class PairOnGraphProfile(MomentProfile):
    """What ``pair[1]`` learns of ``pair[0]``, who contributes ``cap`` times and then adds noise.

    The walk starts from anyone with equal chance, for ``published``, where everyone sees the final
    token as well; else it starts anywhere. Contributions may read the token as in
    :class:`incrowd.protocols.token_walk.theorems.amplification_by_iteration.IteratedProfile`, and
    ``mu`` is the same.
    """

    weights: Any
    pair: tuple[int, int]
    mu: float
    cap: int
    published: bool = False

    def __post_init__(self) -> None:
        """Refuse weights that carry no walk, and a pair that is none."""
        object.__setattr__(self, "weights", check_weights(self.weights))
        u, v = (_vertex(each, self.weights.shape[0]) for each in self.pair)
        if u == v:
            raise InvalidParameter(f"a pair is two different people, got {u} twice")
        checks.integer(self.cap, "cap", 1)
        if not checks.number(self.mu, "mu") > 0:
            raise InvalidParameter(f"mu must be above 0, got {self.mu!r}")

    @cached_property
    def laws(self) -> _Laws:
        """The gaps between visits of the pair."""
        return _laws(self.weights, np.array([self.pair]))[0]

    def log_moment(self, lam: float) -> float:
        """By the recursion over runs; the result, where it is seen, by Hölder's inequality."""
        if not self.published:
            return self._before(lam)
        return min(self._before(p * lam) / p + self._after(p / (p - 1) * lam) * (p - 1) / p
                   for p in _EXPONENTS)  # fmt: skip

    def _before(self, lam: float) -> float:
        """What v sees when it has the token."""
        seen, last, _ = self._runs
        r, costs = self.laws.observed, seen.log_costs(lam)
        # A cut run is shown when u or v has the token next, and the last gap is as it may be.
        by_u = float(log_runs_alike(lam, seen.gap, seen.longest)[-1])
        cut = float(np.logaddexp(math.log(r) + costs[-1], math.log1p(-r) + by_u))
        found = log_moment_of_runs(costs, last.log_costs(lam), cut, r, self.cap)
        return found + _SLIP * self.cap

    def _after(self, lam: float) -> float:
        """What was added since v last had the token, and is in the final one."""
        laws, final = self.laws, self._runs[2]
        # Contributions before the longest part of a run count as if each were seen alone.
        k = np.arange(self.cap)
        costs = np.append(final.log_costs(lam), np.zeros(self.cap - final.longest))
        extra = lam * (k[final.longest :] - final.longest + 1)
        costs[final.longest :] = costs[final.longest - 1] + extra
        ways = math.log(laws.entered) + k * math.log1p(-laws.observed) + costs
        ways[:-1] += math.log(laws.observed)
        nothing = math.log1p(-min(laws.entered, 1 - 1e-16))
        return float(np.logaddexp.reduce(np.append(ways, nothing))) + _SLIP

    @cached_property
    def _runs(self) -> tuple[Runs, Runs, Runs]:
        """Runs that v ends, that the cap ends, and that the end of the walk cuts."""
        laws, longest = self.laws, min(self.cap, LONGEST)
        firsts = (laws.seen, laws.until_seen, laws.entry)
        seen, last, final = (Runs(first, laws.again, longest) for first in firsts)
        return seen, last, final


@dataclass(frozen=True, eq=False)
class WorstPairProfile(MomentProfile):
    """The largest moments among several pairs, at each λ."""

    pairs: tuple[PairOnGraphProfile, ...]
    mu: float
    cap: int

    def log_moment(self, lam: float) -> float:
        """That of the pair with the largest."""
        return max(pair.log_moment(lam) for pair in self.pairs)


def worst_profile(weights: Any, mu: float, cap: int, *, published: bool = False) -> Profile:
    """What anyone learns of anyone.

    Among few people all pairs are computed, those with the same gaps once. Otherwise it is the
    ``cap`` contributions, each seen alone with its own noise: that is true whoever sees whatever.
    """
    matrix = check_weights(weights)
    n = matrix.shape[0]
    alone = GaussianProfile(mu * math.sqrt(checks.integer(cap, "cap", 1)) * (1 + 2.0**-51))
    if n > _FEW_PEOPLE:
        return alone
    pairs = np.array([(u, v) for u in range(n) for v in range(n) if u != v])
    distinct: dict[bytes, PairOnGraphProfile] = {}
    for pair, laws in zip(pairs, _laws(matrix, pairs), strict=True):
        gaps = (laws.again.chance, laws.seen.chance, laws.until_seen.chance)
        key = np.concatenate([[laws.observed, laws.entered], *gaps])
        name = np.round(key, _ALIKE).tobytes()
        if name not in distinct:
            if len(distinct) == _FEW_PAIRS:
                return alone
            one = PairOnGraphProfile(matrix, (int(pair[0]), int(pair[1])), mu, cap, published)
            one.__dict__["laws"] = laws
            distinct[name] = one
    return WorstPairProfile(tuple(distinct.values()), mu, cap)


def _laws(weights: Weights, pairs: NDArray[np.int64]) -> list[_Laws]:
    """The gaps of each pair, by moving one law per pair until the horizon."""
    n = weights.shape[0]
    horizon = min(max(16 * n, _SHORTEST), _FARTHEST)
    u, v = pairs.T
    back, forth = _absorbed(weights, u, (u, v), horizon)
    _, hit = _absorbed(weights, u, (v, v), horizon)
    found = []
    for i in range(u.size):
        r, steps = _harmonic(weights, int(u[i]), int(v[i]))
        # Back from the end, u is met first, after s steps, if from u on neither is met for s − 1
        # steps: the walk looks the same in both directions.
        late = np.maximum(1 - np.append(0.0, np.cumsum(back[i] + forth[i])[:-1]), 0.0)
        found.append(
            _Laws(
                observed=r,
                again=_given(back[i], 1 - r),
                seen=_given(forth[i], r),
                until_seen=_given(hit[i], 1.0),
                entered=steps / n,
                entry=_given(late, steps),
            )
        )
    return found


def _given(mass: FloatArray, total: float) -> Gap:
    """The law with these masses within the horizon, and the rest of the total beyond it."""
    return Gap(mass / total, max(0.0, 1 - float(mass.sum()) / total))


def _absorbed(
    weights: Weights, starts: NDArray[np.int64], ends: tuple[NDArray[np.int64], ...], horizon: int
) -> tuple[FloatArray, FloatArray]:
    """The chances to step on either end first after 1, …, horizon steps."""
    column = np.arange(starts.size)
    block = np.zeros((weights.shape[0], starts.size))
    block[starts, column] = 1.0
    found = np.zeros((2, horizon, starts.size))
    for step in range(horizon):
        block = weights @ block
        for which, end in enumerate(ends):
            found[which, step] = block[end, column]
        for end in ends:
            block[end, column] = 0.0
    return found[0].T.copy(), found[1].T.copy()


def _harmonic(weights: Weights, u: int, v: int) -> tuple[float, float]:
    """The chance to reach v from u before u again, and the mean steps until either is reached."""
    from scipy.sparse.linalg import splu

    n = weights.shape[0]
    others = np.delete(np.arange(n), [u, v])
    from_u, from_v = weights[[u], :].toarray()[0], weights[[v], :].toarray()[0]
    if others.size == 0:
        return float(from_u[v]), 1.0
    rest = sparse.csc_array(sparse.eye_array(n - 2) - weights[others][:, others])
    solve = splu(rest).solve
    first, steps = solve(from_v[others]), solve(np.ones(n - 2))
    return (
        float(from_u[v] + from_u[others] @ first),
        float(1 + from_u[others] @ steps),
    )


def _vertex(vertex: int, n: int) -> int:
    if not 0 <= checks.integer(vertex, "a person", 0) < n:
        raise InvalidParameter(f"person {vertex} is not one of 0 to {n - 1}")
    return int(vertex)
