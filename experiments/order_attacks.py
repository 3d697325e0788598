"""Attacks on a release: who can be told from the reports of the people around them.

Randomizing protects a value when its own report is all there is to see. People who live or work
together often hold the same value, and then the reports of the others say it: an attacker who knows
everybody's place asks those nearest to a victim and believes the majority. Shuffling reports inside
groups takes away just those neighbours. Three attackers measure how much is left:

* the vote of the nearest, the attack of "A Shuffling Framework for Local Differential Privacy"
  (Meehan, Roy Chowdhury, Chaudhuri, Jha). Whoever is told correctly in at least 90 % of independent
  randomizations is called vulnerable; ρ is the share of people who are;
* regression by a Gaussian process on the places;
* gradient boosting on the places.

These are attacks: they show what somebody can learn, never that nobody can learn more. The victim's
own report is not asked by the vote (the paper asks "25 other data owners"): what it reveals is
bounded by ε0 already. Neighbours depend on public information only, never on a report.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from experiments.order_learnability import boosted, one_thread
from incrowd import checks
from incrowd.errors import InvalidParameter
from incrowd.protocols.order_shuffle.groupings.geo import chord, on_sphere

if TYPE_CHECKING:
    from incrowd.graphs.graph import Graph

__all__ = [
    "VOTERS",
    "boosting_attack",
    "gaussian_process",
    "gaussian_process_attack",
    "most_similar",
    "nearest",
    "nearest_in_graph",
    "vote",
    "vulnerable",
]

IntArray = NDArray[np.int64]
FloatArray = NDArray[np.float64]

VOTERS = 25
"""How many people the attacker of the paper asks."""
RELIABLE = 0.9
"""The share of randomizations in which a vulnerable person is told correctly."""
_AT_ONCE = 2**22
_LENGTHS = np.geomspace(0.01, 1.0, 9)
_NOISES = (0.3, 1.0, 3.0, 10.0)
_TUNED_ON = 500


# Whom the attacker asks.


def nearest(
    places: ArrayLike, count: int, rng: np.random.Generator, *, metric: str = "euclidean"
) -> IntArray:
    """The ``count`` other people at the nearest places, nearest first: (n, count).

    ``places`` are numbers or rows of coordinates; latitude and longitude for "haversine". Among
    people equally far away a random order of all decides. −1 fills up where there are fewer.
    """
    from scipy.spatial import cKDTree

    points = _points(places, metric)
    n = len(points)
    mixed = rng.permutation(n)
    asked = min(checks.integer(count, "count", 1) + 1, n)
    _, found = cKDTree(points[mixed]).query(points, k=asked)
    others = mixed[np.reshape(found, (n, asked))]
    return _padded(_without(others, np.arange(n)), count)


def most_similar(
    places: ArrayLike,
    radius: float,
    privileged: ArrayLike,
    count: int,
    rng: np.random.Generator,
    *,
    metric: str = "euclidean",
) -> IntArray:
    """The ``count`` other people within ``radius`` who are most alike in privileged information.

    The attacker of the paper knows more than the shuffler. Privileged numbers are the more alike
    the closer they are; privileged texts are alike when they are equal. Ties are broken at random,
    for each victim afresh. The radius is in the unit of the places, in km for "haversine"; −1 fills
    up where fewer people are within it.
    """
    from scipy.spatial import cKDTree

    checks.integer(count, "count", 1)
    points = _points(places, metric)
    known = np.asarray(privileged)
    if known.shape != (len(points),):
        raise InvalidParameter(
            f"privileged information has shape {known.shape}: give one entry for each of the "
            f"{len(points)} people"
        )
    alike = known if known.dtype.kind in "iufb" else np.unique(known, return_inverse=True)[1]
    by_name = known.dtype.kind not in "iufb"
    tree = cKDTree(points)
    reach = chord(radius) if metric == "haversine" else radius
    found = np.full((len(points), count), -1, np.int64)
    at, where = np.unique(points, axis=0, return_inverse=True)
    for place, members in enumerate(_members(where.ravel(), len(at))):
        around = np.array(tree.query_ball_point(at[place], reach * (1 + 1e-12)), np.int64)
        levels, which = np.unique(alike[members], return_inverse=True)
        for level, victims in zip(levels, _members(which, len(levels)), strict=True):
            difference = alike[around] - level
            apart = (difference != 0).astype(float) if by_name else np.abs(difference)
            for part in _parts(members[victims], around.size):
                _fill(found, part, around, apart, rng)
    return found


def _fill(
    found: IntArray,
    victims: IntArray,
    around: IntArray,
    apart: NDArray[Any],
    rng: np.random.Generator,
) -> None:
    """For victims with one place and one privileged entry, who therefore share all distances."""
    count = min(found.shape[1], around.size - 1)
    # A victim is at distance 0 from themselves, so among the count + 1 closest, up to ties.
    limit = np.partition(apart, count)[count]
    sure, tied = np.flatnonzero(apart < limit), np.flatnonzero(apart == limit)
    sure = sure[np.argsort(apart[sure], kind="stable")]
    drawn = count + 1 - sure.size
    keys = rng.random((victims.size, tied.size))
    lots = np.argpartition(keys, drawn - 1, axis=1)[:, :drawn]
    people = np.hstack([np.tile(around[sure], (victims.size, 1)), around[tied[lots]]])
    found[victims, :count] = _without(people, victims)


def _without(people: IntArray, victims: IntArray) -> IntArray:
    """Each row less its victim, or less its last where many ties left the victim out."""
    own = people == victims[:, None]
    own[~own.any(axis=1), -1] = True
    kept: IntArray = people[~own].reshape(len(people), people.shape[1] - 1)
    return kept


def nearest_in_graph(graph: Graph, count: int, rng: np.random.Generator) -> IntArray:
    """The ``count`` people at the fewest steps from each, at random among those equally far.

    −1 fills up where a component is smaller than that.
    """
    checks.integer(count, "count", 1)
    found = np.full((graph.n, count), -1, np.int64)
    for victim in range(graph.n):
        seen = np.array([victim], np.int64)
        layer, filled = seen, 0
        while filled < count:
            around = np.concatenate([graph.neighbours(int(each)) for each in layer])
            layer = np.setdiff1d(around, seen).astype(np.int64)
            if layer.size == 0:
                break
            chosen = rng.permutation(layer)[: count - filled]
            found[victim, filled : filled + chosen.size] = chosen
            filled += chosen.size
            seen = np.union1d(seen, layer)
    return found


def _points(places: ArrayLike, metric: str) -> FloatArray:
    points = np.asarray(places, float)
    points = points[:, None] if points.ndim == 1 else points
    if metric == "euclidean":
        return points
    if metric != "haversine":
        raise InvalidParameter(f"metric must be euclidean or haversine, got {metric!r}")
    return on_sphere(points)


def _members(which: NDArray[Any], count: int) -> list[IntArray]:
    """The positions of each of the values 0…count − 1."""
    order = np.argsort(which, kind="stable")
    ends = np.cumsum(np.bincount(which, minlength=count))[:-1]
    return list(np.split(order, ends))


def _parts(people: IntArray, width: int) -> Iterator[IntArray]:
    step = max(1, _AT_ONCE // max(width, 1))
    return (people[first : first + step] for first in range(0, people.size, step))


def _padded(people: NDArray[Any], count: int) -> IntArray:
    found = np.full((len(people), count), -1, np.int64)
    found[:, : people.shape[1]] = people
    return found


# What they say.


def vote(
    reports: ArrayLike, neighbours: IntArray, categories: int, *, balanced: bool = False
) -> IntArray:
    """What most neighbours of each person report, for each row of ``reports``: (rows, n).

    A tie goes to what the nearest of them says; −1 where nobody can be asked. A plain vote tells
    whoever holds the value that is common everywhere, without knowing any place. ``balanced``
    weighs each vote by one over the overall share of its value, so that only what is more frequent
    around the victim than elsewhere counts.
    """
    from experiments.order_attack_kernels import cast_votes

    rows = np.atleast_2d(np.asarray(reports))
    if rows.shape[1] != len(neighbours):
        raise InvalidParameter(
            f"reports of {rows.shape[1]} people, but neighbours of {len(neighbours)}"
        )
    asked = np.ascontiguousarray(neighbours, np.int64)
    found = np.empty(rows.shape, np.int64)
    for row, into in zip(rows, found, strict=True):
        codes = row.astype(np.int64)
        counts = np.bincount(codes, minlength=checks.integer(categories, "categories", 2))
        if counts.size > categories:
            raise InvalidParameter(f"a report is {codes.max()}, but there are {categories} values")
        weights = codes.size / np.maximum(counts, 1) if balanced else np.ones(categories)
        cast_votes(codes, asked, weights, into)
    return found


def vulnerable(
    values: ArrayLike,
    reports: ArrayLike,
    neighbours: IntArray,
    categories: int,
    *,
    balanced: bool = False,
    reliable: float = RELIABLE,
) -> NDArray[np.bool_]:
    """Who is told correctly in at least this share of the rows of ``reports``: ρ is its mean.

    Each row is a release of one same shuffle after an independent randomization.
    """
    told = vote(reports, neighbours, categories, balanced=balanced) == np.asarray(values)
    return np.asarray(told.mean(axis=0) >= reliable)


# Regression on the places.


def gaussian_process(
    places: ArrayLike,
    reports: ArrayLike,
    categories: int,
    rng: np.random.Generator,
    *,
    most: int = 1000,
) -> FloatArray:
    """Expected reports at everybody's place: (n, categories), by a Gaussian process.

    One-hot reports, less their mean, are regressed on the places with a squared-exponential
    covariance. Length and noise are those of the greatest evidence on some people. Up to ``most``
    people the solution is exact; beyond, it is that of as many inducing places.
    """
    points = _points(places, "euclidean")
    codes = np.asarray(reports, np.int64)
    shares = np.bincount(codes, minlength=categories) / codes.size
    target = np.eye(categories)[codes] - shares
    chosen = rng.permutation(len(points))
    length, noise = _tuned(points[chosen[:_TUNED_ON]], target[chosen[:_TUNED_ON]])
    if len(points) <= checks.integer(most, "most", 1):
        covariance = _covariance(points, points, length)
        mean = covariance @ _solve(covariance + noise * np.eye(len(points)), target)
    else:
        few = points[chosen[:most]]
        across = _covariance(points, few, length)
        # A little on the diagonal, since close inducing places are nearly the same equation.
        within = noise * _covariance(few, few, length) + across.T @ across
        within[np.diag_indices(most)] += 1e-9 * np.trace(within) / most
        mean = across @ _solve(within, across.T @ target)
    return np.asarray(mean + shares)


def gaussian_process_attack(
    places: ArrayLike, reports: ArrayLike, categories: int, rng: np.random.Generator
) -> IntArray:
    """The value that a Gaussian process finds most likely at everybody's place."""
    return np.asarray(np.argmax(gaussian_process(places, reports, categories, rng), axis=1))


def _tuned(points: FloatArray, target: FloatArray) -> tuple[float, float]:
    """Length and noise (relative to the signal, whose best size is known) by evidence."""
    from scipy.linalg import cho_factor, cho_solve

    spread = float(np.ptp(points, axis=0).max()) or 1.0
    best, chosen = -math.inf, (spread, 1.0)
    for length in spread * _LENGTHS:
        covariance = _covariance(points, points, length)
        for noise in _NOISES:
            factor = cho_factor(covariance + noise * np.eye(len(points)), lower=True)
            fit = float(np.sum(target * cho_solve(factor, target)))
            logdet = 2 * float(np.log(np.diag(factor[0])).sum())
            evidence = -target.size * math.log(max(fit, 1e-300)) - target.shape[1] * logdet
            if evidence > best:
                best, chosen = evidence, (float(length), float(noise))
    return chosen


def _covariance(first: FloatArray, second: FloatArray, length: float) -> FloatArray:
    from scipy.spatial.distance import cdist

    return np.exp(-cdist(first, second, "sqeuclidean") / (2 * length**2))


def _solve(matrix: FloatArray, target: FloatArray) -> FloatArray:
    from scipy.linalg import cho_factor, cho_solve

    return np.asarray(cho_solve(cho_factor(matrix, lower=True), target))


def boosting_attack(features: ArrayLike, reports: ArrayLike, seed: int) -> IntArray:
    """The value that gradient boosting on the places finds most likely for everybody."""
    table = _points(features, "euclidean")
    codes = np.asarray(reports, np.int64)
    if np.ptp(codes) == 0:
        return codes.copy()
    model = boosted(codes.size, seed)
    with one_thread():
        return np.asarray(model.fit(table, codes).predict(table), np.int64)
