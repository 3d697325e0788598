"""Exact privacy of small check-ins, by enumeration in rational arithmetic, and printed formulas.

Nothing here shares a formula with the accountants. Each person takes part with their own rate and
then reports by a row of a matrix; what is seen is how often each report was given (and so how many
took part). ``paper_*`` are formulas as printed in "Privacy Amplification via Shuffled Check-Ins"
(Liew, Hasegawa, Takahashi), to show that they are not bounds.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from fractions import Fraction as F
from itertools import combinations_with_replacement, permutations, product

from enumeration import Matrix

Law = dict[tuple[int, ...], F]


def thinned_matrix(R: Matrix, rate: F) -> Matrix:
    """The randomizer of one who takes part with this rate: the last column is silence."""
    return tuple((*(rate * entry for entry in row), 1 - rate) for row in R)


def counts_law(rows: Iterable[Sequence[F]]) -> Law:
    """The law of the counts of each report when these people report by these rows."""
    law: Law = {}
    for row in rows:
        if not law:
            law = {(0,) * len(row): F(1)}
        longer: Law = {}
        for counts, chance in law.items():
            for y, each in enumerate(row):
                if each:
                    more = (*counts[:y], counts[y] + 1, *counts[y + 1 :])
                    longer[more] = longer.get(more, F(0)) + chance * each
        law = longer
    return law


def view_law(R: Matrix, data: Sequence[int], rates: Sequence[F]) -> Law:
    """What the curator sees of one round, with everyone's value and rate."""
    return counts_law(thinned_matrix(R, rate)[x] for x, rate in zip(data, rates, strict=True))


def hockey(P: Law, Q: Law, t: F) -> F:
    """Σ (P − tQ)₊."""
    return sum((max(F(0), mass - t * Q.get(key, F(0))) for key, mass in P.items()), F(0))


def rounds_of(law: Law, rounds: int) -> Law:
    """The law of several independent rounds."""
    found: Law = {(): F(1)}
    for _ in range(rounds):
        found = {
            (*before, *now): p * q for (before, p), (now, q) in product(found.items(), law.items())
        }
    return found


def worst_check_in(
    R: Matrix,
    rates: Sequence[F],
    ts: Iterable[F],
    rounds: int = 1,
    victim: int = 0,
) -> dict[F, F]:
    """The largest δ at each t over all data sets, when one person's value is to be told.

    With one rate for all, others are interchangeable, and only their multisets are tried.
    """
    people, values = len(rates), range(len(R))
    same = len(set(rates)) == 1
    datasets = (
        combinations_with_replacement(values, people - 1)
        if same
        else product(values, repeat=people - 1)
    )
    best = dict.fromkeys(ts, F(0))
    for others in datasets:
        seen = {}
        for x in values:
            data = [*others[:victim], x, *others[victim:]]
            seen[x] = rounds_of(view_law(R, data, rates), rounds)
        for x0, x1 in permutations(values, 2):
            for t in best:
                best[t] = max(best[t], hockey(seen[x0], seen[x1], t))
    return best


def renyi(P: Law, Q: Law, order: int) -> float:
    """The Rényi divergence of an integer order."""
    moment = sum(p**order / Q[key] ** (order - 1) for key, p in P.items() if p)
    return math.log(moment) / (order - 1)


# As printed


def paper_renyi_of_point(epsilon: float, delta: float, order: float) -> float:
    """Lemma 1: the Rényi divergence that an (ε, δ)-private mechanism is said to have.

    min over r in (δ, 1) of r^λ(r − δ)^(1−λ) + (1 − r)^λ(e^ε − r + δ)^(1−λ), in log, on a grid.
    """
    best = math.inf
    for step in range(1, 2000):
        r = delta + (1 - delta) * 10 ** (-12 * (1 - step / 2000))
        if not delta < r < 1:
            continue
        first = order * math.log(r) + (1 - order) * math.log(r - delta)
        second = order * math.log1p(-r) + (1 - order) * math.log(math.exp(epsilon) - r + delta)
        largest = max(first, second)
        best = min(best, largest + math.log(math.exp(first - largest) + math.exp(second - largest)))
    return epsilon + best / (order - 1)


def paper_theorem_1(
    epsilon0: float, n: int, people: int, delta: float, delta0: float = 0.0
) -> tuple[float, float]:
    """Theorem 1 for l = ``people`` without its condition: ε, and δ without β."""
    E = math.exp(epsilon0)
    inside = 8 * math.sqrt(people * E * math.log(4 / delta)) / n + 8 * E / n
    epsilon = math.log1p((E - 1) / E * inside)
    spent = delta + (math.exp(epsilon) + 1) * (1 + 1 / (2 * E)) * people * delta0
    return epsilon, people / n * spent


def paper_shuffle_epsilon(epsilon0: float, n: int, delta: float) -> float:
    """Equation (8): the closed form for n shuffled reports, without its condition."""
    E = math.exp(epsilon0)
    inside = 8 * math.sqrt(E * math.log(4 / delta) / n) + 8 * E / n
    return math.log1p((E - 1) / (E + 1) * inside)


def paper_zeta_power(epsilon0: float, divergence: float, j: int) -> float:
    """Definition 5 as printed, to the power j that Theorem 2 asks for."""
    if j == 2:
        return float((4 * math.expm1(divergence)) ** 2)
    bound = math.exp((j - 1) * divergence) * min(2.0, math.exp(epsilon0 - 1) ** j)
    return float(bound**j)
