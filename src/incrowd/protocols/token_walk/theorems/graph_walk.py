"""A token that walks on any connected graph: its weights, and the loss of one person to another.

The walk moves by a symmetric matrix W of chances, so that it visits everyone equally often. Seen
from a pair, u who contributes and v who observes, its visits to the two form a chain of their own:
after u, v is next with a chance r, in steps of one law, or u again, in steps of another. The runs
of u between visits of v are independent, and their costs are those of
:mod:`incrowd.protocols.token_walk.theorems.gap_moments`. The walk may be public; it may start
anywhere, except that for a published result it starts at anyone with equal chance. See
``docs/theory/token_graph.md``.
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
from incrowd.errors import InvalidGraph, InvalidParameter
from incrowd.graphs.graph import Graph, require_no_isolated
from incrowd.privacy.gaussian import GaussianProfile
from incrowd.privacy.guarantee import Profile
from incrowd.protocols.token_walk.theorems import gap_moments
from incrowd.protocols.token_walk.theorems.amplification_by_iteration import LONGEST, MomentProfile
from incrowd.protocols.token_walk.theorems.gap_moments import Gap, Runs
from incrowd.randomizers.base import FloatArray

Weights = sparse.csr_array

_TOLERANCE = 1e-12
_SHORTEST, _FARTHEST = 1024, 8192
_FEW_PEOPLE, _FEW_PAIRS = 32, 48
_ALIKE = 12  # digits to which the chances of gaps agree of pairs that are taken as one
_SLIP = 1e-9
"""Allowed per run, relative, for chances from linear equations and for pairs taken as one."""
_EXPONENTS = (1.03, 1.1, 1.3, 2.0)  # of Hölder's inequality, for a published result


def metropolis(graph: Graph) -> Weights:
    """Return Metropolis-Hastings weights: 1/(1 + the greater degree) to a neighbour, else stay."""
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
    """Return symmetric chances with rows of sum one on a connected graph; a walk has no period."""
    from scipy.sparse.csgraph import connected_components

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
    parts, _ = connected_components(found, directed=False)
    if parts > 1:
        raise InvalidGraph(
            f"the graph falls into {parts} parts, and a token never leaves its own: take the "
            "largest_component()"
        )
    if walk:
        # Two copies of everyone, one for even and one for odd steps, hang together unless steps
        # alternate between two sides.
        doubled = sparse.csr_array(sparse.kron([[0.0, 1.0], [1.0, 0.0]], found))
        doubled.eliminate_zeros()
        if connected_components(doubled, directed=False)[0] > 1:
            raise InvalidGraph(
                f"the walk on these {n} people alternates between two sides: let it stay with some "
                "chance, as metropolis(graph) does"
            )
    return found


@dataclass(frozen=True, eq=False)
class _Laws:
    """The laws of the visits of one pair (u, v)."""

    observed: float  # the chance r that after u it is v who has the token before u has it again
    again: Gap  # steps from u back to u, given that v is not in between
    seen: Gap  # steps from u to v, given that u is not in between
    until_seen: Gap  # steps from u to the first visit of v, with u in between or not
    entered: float  # the chance that a walk from anywhere meets u before v
    entry: Gap  # steps until then, counting the first holder as step one


@dataclass(frozen=True, eq=False)
class PairOnGraphProfile(MomentProfile):
    """The loss of ``pair[0]``, who contributes ``cap`` times and then adds noise, to ``pair[1]``.

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
        object.__setattr__(self, "weights", check_weights(self.weights))
        for person in self.pair:
            if not 0 <= checks.integer(person, "a person", 0) < self.weights.shape[0]:
                raise InvalidParameter(
                    f"person {person} is not one of 0 to {self.weights.shape[0] - 1}"
                )
        if self.pair[0] == self.pair[1]:
            raise InvalidParameter(f"a pair is two different people, got {self.pair[0]} twice")
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
        """The moment of v's view at its visits."""
        seen, last, _ = self._runs
        r, costs = self.laws.observed, seen.log_costs(lam)
        # A cut run is shown when u or v has the token next, and the last gap is as it may be.
        by_u = float(gap_moments.log_runs_alike(lam, seen.gap, seen.longest)[-1])
        cut = float(np.logaddexp(math.log(r) + costs[-1], math.log1p(-r) + by_u))
        found = gap_moments.log_moment_of_runs(costs, last.log_costs(lam), cut, r, self.cap)
        return found + _SLIP * self.cap

    def _after(self, lam: float) -> float:
        """The moment of the contributions since v's last visit, which are in the final token."""
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
    def _runs(self) -> list[Runs]:
        """Runs that v ends, that the cap ends, and that the end of the walk cuts."""
        laws, longest = self.laws, min(self.cap, LONGEST)
        return [Runs(gap, laws.again, longest) for gap in (laws.seen, laws.until_seen, laws.entry)]


@dataclass(frozen=True, eq=False)
class WorstPairProfile(MomentProfile):
    """The largest moments among several pairs, at each λ."""

    pairs: tuple[PairOnGraphProfile, ...]
    mu: float
    cap: int

    def log_moment(self, lam: float) -> float:
        return max(pair.log_moment(lam) for pair in self.pairs)


def worst_profile(weights: Any, mu: float, cap: int, *, published: bool = False) -> Profile:
    """Return the profile of the worst pair.

    Among few people all pairs are computed, those with the same gaps once. Otherwise it is the
    ``cap`` contributions, each seen alone with its own noise, which holds against any view.
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
    """The laws of each pair, by moving one law per pair until the horizon."""
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
        again, seen, until = _given(back[i], 1 - r), _given(forth[i], r), _given(hit[i], 1.0)
        found.append(_Laws(r, again, seen, until, steps / n, _given(late, steps)))
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
    return float(from_u[v] + from_u[others] @ first), float(1 + from_u[others] @ steps)
