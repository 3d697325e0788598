"""What the people on a token walk see, computed exactly for a handful of people and steps.

Nothing here uses the library. Every walk of T steps over n people is listed with its probability.

* Randomized response: all reports are listed too, in rational arithmetic. The observer sees when it
  holds the token, and the counts of the reports since its last visit.
* Gaussian sums, path hidden: the sums since the last visit are mixtures of normal laws over the
  walks that agree with what is seen; hockey-stick divergences are sums over a fine grid.
* Gaussian sums, path known: what is seen are linear functions of the noises; the squared shift is
  dᵀ(AAᵀ)⁺d, by linear algebra.

In each, ``published`` adds the final token to what is seen.
"""

import itertools
import math
from collections import Counter, defaultdict
from fractions import Fraction as F

import numpy as np


def phi(x):
    return 0.5 * math.erfc(-x / math.sqrt(2))


def gaussian_delta(epsilon, shift):
    """The curve of N(shift, 1) against N(0, 1), at ε ≥ 0."""
    if shift == 0:
        return 0.0
    upper = phi(shift / 2 - epsilon / shift)
    return upper - math.exp(epsilon) * phi(-shift / 2 - epsilon / shift)


def walks(n, steps):
    """Every sequence of holders; all are equally likely."""
    return itertools.product(range(n), repeat=steps)


def cycles(walk, observers, published):
    """The steps between visits of the observers, as far as these see the sum of each."""
    found, current = [], []
    for step, holder in enumerate(walk):
        if holder in observers:
            found.append(tuple(current))
            current = []
        else:
            current.append(step)
    if published:
        found.append(tuple(current))
    return [cycle for cycle in found if cycle]


def visible_times(walk, observers):
    """When the observers hold the token, which each of them knows."""
    return tuple((step, holder) for step, holder in enumerate(walk) if holder in observers)


# Randomized response, path hidden


def response_views(matrix, data, steps, observers, published, rate_of=None):
    """The law of the view: when the observers are visited, and the counts in each of their cycles.

    ``rate_of`` overrides the chances of holders at each step.
    """
    n, answers = len(data), range(len(matrix))
    law = defaultdict(F)
    for walk in walks(n, steps):
        chance = F(1)
        for step, holder in enumerate(walk):
            chance *= F(1, n) if rate_of is None else rate_of(step, holder)
        if not chance:
            continue
        seen = cycles(walk, observers, published)
        times = visible_times(walk, observers)
        places = [step for cycle in seen for step in cycle]
        for reports in itertools.product(answers, repeat=len(places)):
            weight = chance
            for step, report in zip(places, reports, strict=True):
                weight *= matrix[data[walk[step]]][report]
            by_step = dict(zip(places, reports, strict=True))
            counts = tuple(
                tuple(sum(by_step[s] == answer for s in cycle) for answer in answers)
                for cycle in seen
            )
            law[times, counts] += weight
    return law


def hockey_stick(first, second, t):
    return sum((max(F(0), p - t * second.get(view, F(0))) for view, p in first.items()), F(0))


def worst_response(matrix, n, steps, observers, ts, published=False, rate_of=None):
    """The largest divergence over all data sets at the ends; the victim is the last person."""
    found = {t: F(0) for t in ts}
    values = range(len(matrix))
    for others in itertools.product(values, repeat=n - 1):
        laws = [
            response_views(matrix, (*others, value), steps, observers, published, rate_of)
            for value in (0, 1)
        ]
        for t in ts:
            for first, second in (laws, laws[::-1]):
                found[t] = max(found[t], hockey_stick(first, second, t))
    return found


# Gaussian sums, path hidden


def gaussian_views(mu, data, steps, observers, published):
    """Groups of walks that look alike, each with the weights and means of a mixture.

    Means are in standard deviations of the cycle's own noise, one for each cycle.
    """
    n = len(data)
    groups = defaultdict(list)
    for walk in walks(n, steps):
        seen = cycles(walk, observers, published)
        shape = (visible_times(walk, observers), tuple(map(len, seen)))
        means = tuple(
            mu * sum(data[walk[step]] for step in cycle) / math.sqrt(len(cycle)) for cycle in seen
        )
        groups[shape].append(means)
    return groups


def mixture_delta(first, second, t):
    """∫ (p − t·q)₊ of two mixtures of unit normals in one or two dimensions.

    Good to a part in a hundred thousand in one dimension, and in a thousand in two.
    """
    size = len(first[0])
    grid = np.linspace(-9.0, 15.0, 20_001 if size == 1 else 601)
    step = grid[1] - grid[0]

    def density(means):
        total = np.zeros((grid.size,) * size)
        for mean, weight in Counter(means).items():
            parts = [np.exp(-((grid - m) ** 2) / 2) / math.sqrt(2 * math.pi) for m in mean]
            total += weight * (parts[0] if size == 1 else np.outer(*parts))
        return total

    return float(np.maximum(density(first) - t * density(second), 0.0).sum()) * step**size


def worst_gaussian(mu, n, steps, observers, ts, published=False):
    """The largest divergence over all data sets at the ends; the victim is the last person."""
    found = dict.fromkeys(ts, 0.0)
    for others in itertools.product((0, 1), repeat=n - 1):
        views = [
            gaussian_views(mu, (*others, value), steps, observers, published) for value in (0, 1)
        ]
        for t in ts:
            for first, second in (views, views[::-1]):
                total = sum(
                    mixture_delta(means, second[shape], t)
                    for shape, means in first.items()
                    if means[0] and sorted(means) != sorted(second[shape])
                )
                total += max(0.0, 1 - t) * sum(
                    len(means)
                    for shape, means in first.items()
                    if not means[0] or sorted(means) == sorted(second[shape])
                )
                found[t] = max(found[t], total / n**steps)
    return found


# Gaussian sums, path known


def squared_shift(walk, victim, observers, published):
    """dᵀ(AAᵀ)⁺d for one walk, in units of μ²: each noise is a column, each sum seen a row.

    The observers' own noises are known to them, and are rows of their own.
    """
    steps = len(walk)
    rows, shifts = [], []
    running = np.zeros(steps)
    for step, holder in enumerate(walk):
        if holder in observers:
            rows += [running.copy(), np.eye(steps)[step]]
            shifts += [sum(walk[s] == victim for s in range(step)), 0.0]
        running[step] = 1
    if published:
        rows.append(running)
        shifts.append(sum(holder == victim for holder in walk))
    if not rows:
        return 0.0
    seen, shift = np.array(rows), np.array(shifts, float)
    return float(shift @ np.linalg.pinv(seen @ seen.T) @ shift)


def known_shifts(n, steps, victim, observers, published=False):
    """The squared shifts of all walks, which are equally likely."""
    return np.array([squared_shift(walk, victim, observers, published) for walk in walks(n, steps)])
