"""Exact privacy of small clusters, by listing everything that can be sent, in whole numbers.

Nothing here shares a formula with the accountants. With σ = a/b a message goes to its true target
with weight (b − a)·T + a, to each other one with weight a, and one without a target to each with
weight b: these are chances times b·T. A law is a dictionary from histograms over the targets to
whole weights; all laws of one case have the same total.

* ``plain_laws``: n messages and d uniform dummies; ``capped_laws``: dummies go to targets with
  fewer than n messages.
* The others' inputs run through all multisets, up to renaming targets that the victim never has.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from fractions import Fraction
from functools import lru_cache
from itertools import combinations, combinations_with_replacement, product
from math import comb, lcm

Histogram = tuple[int, ...]
Law = dict[Histogram, int]
NONE = -1
"""The input of who has no target: absent, or not asked for."""


def message(targets: int, sigma: Fraction, true: int) -> list[int]:
    a, b = sigma.numerator, sigma.denominator
    if true == NONE:
        return [b] * targets
    return [(b - a) * targets + a if j == true else a for j in range(targets)]


def added(law: Law, weights: Sequence[int]) -> Law:
    found: Law = {}
    for histogram, weight in law.items():
        for j, more in enumerate(weights):
            if more:
                key = (*histogram[:j], histogram[j] + 1, *histogram[j + 1 :])
                found[key] = found.get(key, 0) + weight * more
    return found


def capped_dummy(law: Law, cap: int) -> Law:
    """One dummy, uniform over the targets with fewer than ``cap`` messages."""
    found: Law = {}
    for histogram, weight in law.items():
        free = [j for j, count in enumerate(histogram) if count < cap]
        share = weight * lcm(*range(1, len(histogram) + 1)) // len(free)
        for j in free:
            key = (*histogram[:j], histogram[j] + 1, *histogram[j + 1 :])
            found[key] = found.get(key, 0) + share
    return found


def inputs_of_others(targets: int, others: int, nones: bool = False) -> Iterator[tuple[int, ...]]:
    """All multisets of inputs, one for each way to rename the targets from the third on."""
    first = (NONE, 0, 1) if nones else (0, 1)
    seen = set()
    for each in combinations_with_replacement((*first, *range(2, targets)), others):
        counts = sorted((each.count(j) for j in range(2, targets)), reverse=True)
        key = (*(each.count(j) for j in first), *counts)
        if key not in seen:
            seen.add(key)
            yield each


@lru_cache(maxsize=4096)
def _messages(targets: int, sigma: Fraction, inputs: tuple[int, ...]) -> tuple:
    if not inputs:
        return (((0,) * targets, 1),)
    before = dict(_messages(targets, sigma, inputs[:-1]))
    return tuple(added(before, message(targets, sigma, inputs[-1])).items())


def plain_laws(
    targets: int, sigma: Fraction, others: tuple[int, ...], dummies: int, victims: Sequence[int]
) -> list[Law]:
    base = dict(_messages(targets, sigma, others))
    for _ in range(dummies):
        base = added(base, [1] * targets)
    return [added(base, message(targets, sigma, each)) for each in victims]


def capped_laws(
    targets: int, sigma: Fraction, others: tuple[int, ...], dummies: int, victims: Sequence[int]
) -> list[Law]:
    found = []
    for each in victims:
        law = added(dict(_messages(targets, sigma, others)), message(targets, sigma, each))
        for _ in range(dummies):
            law = capped_dummy(law, len(others) + 1)
        found.append(law)
    return found


def divergence(first: Law, second: Law, t: Fraction) -> Fraction:
    """Σ (P − t·Q)₊."""
    top, bottom = t.numerator, t.denominator
    gain = sum(max(0, bottom * weight - top * second.get(key, 0)) for key, weight in first.items())
    return Fraction(gain, bottom * sum(first.values()))


def greatest_ratio(first: Law, second: Law) -> Fraction | None:
    """The largest ratio of chances; none where it is infinite."""
    if any(not second.get(key) for key in first):
        return None
    return max(Fraction(weight, second[key]) for key, weight in first.items())


def true_deltas(
    targets: int, sigma: Fraction, n: int, dummies: int, ts: Sequence[Fraction], nones: bool = False
) -> list[Fraction]:
    """The exact δ at every t: the worst of all inputs of the others, in both directions."""
    victims = (0, 1, NONE) if nones else (0, 1)
    worst = [Fraction(0)] * len(ts)
    for others in inputs_of_others(targets, n - 1, nones):
        laws = plain_laws(targets, sigma, others, dummies, victims)
        for first, second in product(laws, laws):
            if first is second:
                continue
            worst = [
                max(old, divergence(first, second, t)) for old, t in zip(worst, ts, strict=True)
            ]
    return worst


def true_capped_ratio(
    targets: int, sigma: Fraction, n: int, dummies: int, nones: bool = False
) -> Fraction | None:
    victims = (0, 1, NONE) if nones else (0, 1)
    worst = Fraction(1)
    for others in inputs_of_others(targets, n - 1, nones):
        laws = capped_laws(targets, sigma, others, dummies, victims)
        for first, second in product(laws, laws):
            ratio = greatest_ratio(first, second)
            if ratio is None:
                return None
            worst = max(worst, ratio)
    return worst


def flooding_law(
    targets: int, sigma: Fraction, dummies: int, true: int
) -> dict[frozenset, Fraction]:
    """The set of d + 1 targets that get a message from one source."""
    weights = message(targets, sigma, true)
    found: dict[frozenset, Fraction] = {}
    for first in range(targets):
        rest = [j for j in range(targets) if j != first]
        for more in combinations(rest, dummies):
            key = frozenset((first, *more))
            chance = Fraction(weights[first], sum(weights) * comb(targets - 1, dummies))
            found[key] = found.get(key, Fraction(0)) + chance
    return found


def blanket_functional(
    targets: int, sigma: Fraction, n: int, dummies: int, t: Fraction
) -> Fraction:
    """Σ_m Pr[m]·E[(L₁ + … + L_N)₊]/N by listing all counts of two targets among N messages."""
    total = Fraction(0)
    for m in range(n):
        size = m + dummies + 1
        chance = comb(n - 1, m) * sigma**m * (1 - sigma) ** (n - 1 - m)
        if not chance:
            continue
        mean = Fraction(0)
        for a in range(size + 1):
            for b in range(size + 1 - a):
                gain = size * sigma * (1 - t) + (1 - sigma) * targets * (a - t * b)
                if gain > 0:
                    ways = comb(size, a) * comb(size - a, b) * (targets - 2) ** (size - a - b)
                    mean += gain * Fraction(ways, targets**size)
        total += chance * mean / size
    return total
