"""Exact order privacy of small crowds, by listing every permutation, in whole numbers.

Nothing here but the count of losing permutations shares a formula with the library. A permutation
is the tuple of its values; (a∘b)(i) is a[b[i]]. With q = e^−θ = a/b a permutation at distance d has
the weight a^d·b^(top − d), which is its chance times a constant. A law is a dictionary from
releases to whole weights, and all laws of one case have the same total, so that a ratio of weights
is a ratio of chances.

* ``release_laws``: the mechanism as it is defined, for every sequence of reports.
* ``printed_laws``: the four readings of the published algorithm, two distances and two products.
* ``worst_ratio``: the largest ratio of chances between neighbours, over everything.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from fractions import Fraction
from functools import lru_cache
from itertools import permutations, product
from math import comb, factorial

Word = tuple
Permutation = tuple[int, ...]
Law = dict[Word, int]


def inversions(sigma: Permutation) -> int:
    n = len(sigma)
    return sum(sigma[i] > sigma[j] for i in range(n) for j in range(i + 1, n))


def moved(sigma: Permutation) -> int:
    return sum(i != image for i, image in enumerate(sigma))


def after(a: Permutation, b: Permutation) -> Permutation:
    """a∘b: first b, then a."""
    return tuple(a[i] for i in b)


def inverse(sigma: Permutation) -> Permutation:
    found = [0] * len(sigma)
    for i, image in enumerate(sigma):
        found[image] = i
    return tuple(found)


@lru_cache(maxsize=64)
def weighted(
    n: int, distance: Callable[[Permutation], int], q: Fraction
) -> tuple[tuple[Permutation, int], ...]:
    """Every permutation with its weight."""
    top = n * n
    a, b = q.numerator, q.denominator
    return tuple(
        (sigma, a ** distance(sigma) * b ** (top - distance(sigma)))
        for sigma in permutations(range(n))
    )


def release_law(
    y: Word, order: Permutation, distance: Callable[[Permutation], int], q: Fraction
) -> Law:
    """Lay the reports along the order, shuffle, put back: z[σ0[k]] = y[σ0[τ[k]]]."""
    found: Law = {}
    for tau, weight in weighted(len(y), distance, q):
        z = [None] * len(y)
        for k, person in enumerate(order):
            z[person] = y[order[tau[k]]]
        key = tuple(z)
        found[key] = found.get(key, 0) + weight
    return found


def release_laws(
    words: Iterable[Word],
    order: Permutation,
    distance: Callable[[Permutation], int],
    q: Fraction,
) -> dict[Word, Law]:
    return {y: release_law(y, order, distance, q) for y in words}


def printed_laws(
    words: Iterable[Word], order: Permutation, reading: tuple[str, str], q: Fraction
) -> dict[Word, Law]:
    """σ̂ with weight q^d(σ̂, σ0), then z = σ*(y), for a reading of the distance and the product."""
    kind, order_of_product = reading
    back = inverse(order)
    top = len(order) ** 2
    draws = []
    for drawn in permutations(range(len(order))):
        d = inversions(after(drawn, back) if kind == "positions" else after(back, drawn))
        applied = after(back, drawn) if order_of_product == "functions" else after(drawn, back)
        draws.append((applied, q.numerator**d * q.denominator ** (top - d)))
    laws = {}
    for y in words:
        law: Law = {}
        for sigma, weight in draws:
            key = after(y, sigma)
            law[key] = law.get(key, 0) + weight
        laws[y] = law
    return laws


def distinct_words(n: int) -> list[Word]:
    return list(permutations(range(n)))


def all_words(n: int, values: int) -> list[Word]:
    return list(product(range(values), repeat=n))


def neighbourhoods(words: Iterable[Word], group: Iterable[int]) -> list[list[Word]]:
    """Words that are equal outside the group and hold the same inside, in some order."""
    inside = frozenset(group)
    classes: dict[tuple, list[Word]] = {}
    for word in words:
        outside = tuple(each for i, each in enumerate(word) if i not in inside)
        content = tuple(sorted(word[i] for i in inside))
        classes.setdefault((outside, content), []).append(word)
    return list(classes.values())


def worst_ratio(laws: dict[Word, Law], groups: Iterable[Iterable[int]]) -> Fraction:
    """The largest ratio of the chances of one release between two neighbours."""
    worst = Fraction(1)
    for group in groups:
        for neighbours in neighbourhoods(laws, group):
            for z in laws[neighbours[0]]:
                chances = [laws[word][z] for word in neighbours]
                ratio = Fraction(max(chances), min(chances))
                worst = max(worst, ratio)
    return worst


def chance_to_lose(n: int, inside: Sequence[int], losses: int, q: Fraction) -> Fraction:
    """The chance of a Hamming shuffle to lose more than so many of a set, from the definition."""
    members = set(inside)
    bad = total = 0
    for sigma, weight in weighted(n, moved, q):
        total += weight
        if len(members - {sigma[i] for i in members}) > losses:
            bad += weight
    return Fraction(bad, total)


@lru_cache(maxsize=16)
def losing_table(n: int, size: int) -> dict[tuple[int, int], int]:
    """How many permutations move h people and lose exactly j of the first ``size``."""
    found: dict[tuple[int, int], int] = {}
    for sigma in permutations(range(n)):
        lost = sum(sigma[i] >= size for i in range(size))
        key = (moved(sigma), lost)
        found[key] = found.get(key, 0) + 1
    return found


def printed_displaced(marked: int, free: int) -> int:
    """The published recursion for permutations in which no marked object is at home."""
    if marked == 0:
        return factorial(free)
    if free == 0:
        return sum((-1) ** i * factorial(marked) // factorial(i) for i in range(marked + 1))
    return sum(
        comb(marked, q) * comb(free, free - q) * factorial(free) * printed_displaced(marked - q, q)
        for q in range(min(marked, free) + 1)
    )


def printed_losing(n: int, size: int, losses: int, h: int) -> int:
    """The published number of permutations, without the factorial of the last factor."""
    total = 0
    for lost in range(losses + 1, max(size, h // 2) + 1):
        if lost > n - size or h - 2 * lost < 0:
            continue
        for i in range(min(size - lost, h - 2 * lost) + 1):
            total += (
                comb(size, lost)
                * comb(n - size, lost)
                * comb(size - lost, i)
                * comb(i + lost, lost)
                * printed_displaced(i, lost)
                * comb(n - size - lost, h - 2 * lost - i)
                * printed_displaced(h - 2 * lost - i, lost)
            )
    return total


def losing_permutations(n: int, size: int, losses: int) -> tuple[int, ...]:
    """How many permutations that move h people lose more than ``losses`` of a set, for h = 0 … n.

    By the corrected count of docs/theory/preservation.md.
    """
    others = n - size
    return tuple(
        sum(
            comb(size, lost)
            * comb(others, lost)
            * sum(
                comb(size - lost, inside)
                * _displaced(inside, lost)
                * comb(others - lost, moved - 2 * lost - inside)
                * _displaced(moved - 2 * lost - inside, lost)
                for inside in range(min(size - lost, moved - 2 * lost) + 1)
            )
            for lost in range(losses + 1, min(size, others, moved // 2) + 1)
        )
        for moved in range(n + 1)
    )


@lru_cache(maxsize=4096)
def _displaced(marked: int, free: int) -> int:
    """The permutations of so many objects in which no marked one is at home."""
    return sum(
        (-1) ** home * comb(marked, home) * factorial(marked + free - home)
        for home in range(marked + 1)
    )
