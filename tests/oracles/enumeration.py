"""Exact privacy of small shuffled mechanisms, by enumeration in rational arithmetic.

Nothing here shares a formula with the accountants. A randomizer is a matrix of fractions (rows are
inputs, columns are outputs); ``E = e^ε0`` and ``t = e^ε`` are rational, so that every number below
is exact.

* The *truth*: the law of the multiset of n reports is built person by person, and the hockey-stick
  divergence of two neighbouring data sets is the sum of ``(P − tQ)₊`` over all multisets. It is
  maximised over the victim's two values (both directions) and over the values of all others.
* The *functional* of ``docs/theory/blanket.md``: ``(1/n) E[(G_1 + … + G_n)₊]``, by running through
  all multinomial counts of n draws.
"""

from __future__ import annotations

import random
from collections.abc import Iterable, Iterator, Sequence
from fractions import Fraction
from itertools import combinations_with_replacement, permutations
from math import comb, factorial, lcm

from incrowd.randomizers.law import PairLaw

Matrix = tuple[tuple[Fraction, ...], ...]
Atoms = tuple[tuple[Fraction, Fraction, Fraction], ...]
"""Triples (a, b, mass); the mass that is missing to one sits at (0, 0)."""
Pair = tuple[int, int]


# Randomizers as matrices


def krr_matrix(k: int, E: Fraction | int) -> Matrix:
    """k-ary randomized response: the truth with weight E, every other value with weight one."""
    z = Fraction(E) + k - 1
    return tuple(tuple((E if x == y else Fraction(1)) / z for y in range(k)) for x in range(k))


def hadamard_matrix(inputs: int, E: Fraction | int) -> Matrix:
    """Hadamard response: weight E where the input's row of the Hadamard matrix is +1."""
    size = 1 << inputs.bit_length()
    unit = Fraction(2, size) / (Fraction(E) + 1)
    return tuple(
        tuple(unit * (1 if (x & y).bit_count() % 2 else E) for y in range(size))
        for x in range(1, inputs + 1)
    )


def unary_matrix(k: int, one: Fraction, zero: Fraction) -> Matrix:
    """Unary encoding: bit i is set with probability ``one`` if it is the input, else ``zero``."""

    def chance(x: int, word: int) -> Fraction:
        product = Fraction(1)
        for bit in range(k):
            on = one if bit == x else zero
            product *= on if word >> bit & 1 else 1 - on
        return product

    return tuple(tuple(chance(x, word) for word in range(1 << k)) for x in range(k))


def random_matrix(
    rng: random.Random, inputs: int, outputs: int, E: Fraction, *, extremal: bool
) -> Matrix:
    """A random ε0-randomizer; an extremal one has its columns but one in ``{m, mE}``.

    The last column takes what is missing in each row. The others are scaled by powers of ¾ until
    the last one keeps within the ratio E too.
    """
    columns = []
    for _ in range(outputs - 1):
        unit = Fraction(rng.randint(1, 9))
        if extremal:
            columns.append([unit * (E if rng.random() < 0.5 else 1) for _ in range(inputs)])
        else:
            steps = [Fraction(rng.randint(0, 12), 12) for _ in range(inputs)]
            columns.append([unit * (1 + (E - 1) * step) for step in steps])
    sums = [sum(column[x] for column in columns) for x in range(inputs)]
    scale = 1 / max(sums)
    while min(1 - scale * s for s in sums) * E < max(1 - scale * s for s in sums):
        scale *= Fraction(3, 4)
    if scale * max(sums) == 1:  # all rows have the same sum: no last column is needed
        return tuple(tuple(scale * column[x] for column in columns) for x in range(inputs))
    return tuple(
        (*(scale * column[x] for column in columns), 1 - scale * sums[x]) for x in range(inputs)
    )


def ratio(R: Matrix) -> Fraction:
    """The smallest E for which the matrix is an ε0-randomizer: the largest ratio in a column."""
    return max(max(column) / min(column) for column in zip(*R, strict=True))


# The truth


def _integers(R: Matrix) -> tuple[list[list[int]], int]:
    scale = lcm(*(entry.denominator for row in R for entry in row))
    return [[int(entry * scale) for entry in row] for row in R], scale


Counts = dict[tuple[int, ...], int]


def _with_report(law: Counts, row: Sequence[int]) -> Counts:
    """The law of the counts after one more report with this (integer) output law."""
    longer: Counts = {}
    for counts, weight in law.items():
        for y, chance in enumerate(row):
            if chance:
                more = (*counts[:y], counts[y] + 1, *counts[y + 1 :])
                longer[more] = longer.get(more, 0) + weight * chance
    return longer


def _hockey(P: Counts, Q: Counts, t: Fraction) -> int:
    """Σ (q·P − p·Q)₊ for t = p/q: the hockey stick times q and the scale of the laws."""
    p, q = t.numerator, t.denominator
    return sum(max(0, q * mass - p * Q.get(key, 0)) for key, mass in P.items())


def true_delta(R: Matrix, x0: int, x1: int, others: Sequence[int], t: Fraction) -> Fraction:
    """δ(ε) at e^ε = t for the victim's x0 against x1 when the others hold these values."""
    rows, scale = _integers(R)
    law: Counts = {(0,) * len(rows[0]): 1}
    for x in others:
        law = _with_report(law, rows[x])
    value = _hockey(_with_report(law, rows[x0]), _with_report(law, rows[x1]), t)
    return Fraction(value, t.denominator * scale ** (len(others) + 1))


def worst_delta(
    R: Matrix, n: int, ts: Iterable[Fraction], pairs: Iterable[Pair] | None = None
) -> dict[Fraction, Fraction]:
    """The largest δ at each t over all data sets: over these ordered pairs (all, if not given) of
    the victim's values, and over the values of the n − 1 others."""
    rows, scale = _integers(R)
    chosen = list(pairs) if pairs is not None else list(permutations(range(len(R)), 2))
    victims = sorted({x for pair in chosen for x in pair})
    grid = list(ts)
    best = dict.fromkeys(grid, 0)
    prefixes: dict[tuple[int, ...], Counts] = {(): {(0,) * len(rows[0]): 1}}
    for length in range(1, n):
        prefixes = {
            others: _with_report(prefixes[others[:-1]], rows[others[-1]])
            for others in combinations_with_replacement(range(len(R)), length)
        }
    for law in prefixes.values():
        seen = {x: _with_report(law, rows[x]) for x in victims}
        for x0, x1 in chosen:
            for t in grid:
                best[t] = max(best[t], _hockey(seen[x0], seen[x1], t))
    return {t: Fraction(best[t], t.denominator * scale**n) for t in grid}


# The functional


def atoms_under(R: Matrix, x0: int, x1: int, blanket: Sequence[Fraction]) -> Atoms:
    """The joint law of (dR_x0/dw, dR_x1/dw) under a measure w on the outputs, equal points merged.

    Outputs on which w vanishes must have probability zero under both inputs.
    """
    merged: dict[tuple[Fraction, Fraction], Fraction] = {}
    for p, q, w in zip(R[x0], R[x1], blanket, strict=True):
        if w:
            merged[p / w, q / w] = merged.get((p / w, q / w), Fraction(0)) + w
        elif p or q:
            raise ValueError("the blanket misses an output of the victim")
    return tuple((a, b, mass) for (a, b), mass in merged.items())


def blanket_atoms(R: Matrix, x0: int, x1: int) -> Atoms:
    """The law under the largest blanket: the lower envelope of all rows."""
    return atoms_under(R, x0, x1, [min(column) for column in zip(*R, strict=True)])


def attack_atoms(R: Matrix, x0: int, x1: int, xstar: int) -> Atoms:
    """The law when all others hold ``xstar``: their own output law is the blanket."""
    return atoms_under(R, x0, x1, R[xstar])


def generic_atoms(E: Fraction) -> Atoms:
    """The law that dominates every ε0-randomizer (docs/theory/generic.md)."""
    mass = 1 / (E + 1)
    return ((E, Fraction(1), mass), (Fraction(1), E, mass))


def clones_atoms(E: Fraction) -> Atoms:
    """The law with clone probability 1/E (docs/theory/clones.md)."""
    high, low, mass = 2 * E * E / (E + 1), 2 * E / (E + 1), 1 / (2 * E)
    return ((high, low, mass), (low, high, mass))


def _compositions(total: int, parts: int) -> Iterator[tuple[int, ...]]:
    if parts == 1:
        yield (total,)
        return
    for first in range(total + 1):
        for rest in _compositions(total - first, parts - 1):
            yield (first, *rest)


def functional(atoms: Atoms, n: int, t: Fraction) -> Fraction:
    """``(1/n) E[(G_1 + … + G_n)₊]`` with ``G = a − t·b``, over all multinomial counts."""
    void = 1 - sum(mass for _, _, mass in atoms)
    values: dict[Fraction, Fraction] = {Fraction(0): void} if void else {}
    for a, b, mass in atoms:
        values[a - t * b] = values.get(a - t * b, Fraction(0)) + mass
    points, masses = list(values), list(values.values())
    powers = [[mass**count / factorial(count) for count in range(n + 1)] for mass in masses]
    total = Fraction(0)
    for counts in _compositions(n, len(points)):
        height = sum((c * v for c, v in zip(counts, points, strict=True)), Fraction(0))
        if height > 0:
            for atom, count in enumerate(counts):
                height *= powers[atom][count]
            total += height
    return total * factorial(n) / n


def generic_by_binomials(E: Fraction, n: int, t: Fraction, clone: Fraction) -> Fraction:
    """The same number as a divergence of two genuine laws of counts: no functional is used.

    C ~ Bin(n−1, clone) people blend in and A ~ Bin(C, ½) of them say 0; the victim says 0 with
    probability E/(E+1) under P and 1/(E+1) under Q. What is seen is (number of 0s, C + 1).
    """
    yes, no = E / (E + 1), 1 / (E + 1)
    total = Fraction(0)
    for c in range(n):
        crowd = comb(n - 1, c) * clone**c * (1 - clone) ** (n - 1 - c)
        for zeros in range(c + 2):
            joined = Fraction(comb(c, zeros - 1) if zeros else 0, 2**c)
            apart = Fraction(comb(c, zeros), 2**c)
            total += crowd * max(
                Fraction(0), (yes * joined + no * apart) - t * (no * joined + yes * apart)
            )
    return total


# Laws for the accountants


def pair_law(atoms: Atoms) -> PairLaw:
    """The atoms in double precision."""
    a, b, mass = zip(*((float(a), float(b), float(m)) for a, b, m in atoms), strict=True)
    return PairLaw.of(a, b, mass)


def pair_law_of_matrix(R: Matrix, x0: int, x1: int) -> PairLaw:
    """The law of a pair of inputs under the largest blanket."""
    return pair_law(blanket_atoms(R, x0, x1))


def attack_law_of_matrix(R: Matrix, x0: int, x1: int, xstar: int) -> PairLaw:
    """The law of a pair of inputs when all others hold ``xstar``."""
    return pair_law(attack_atoms(R, x0, x1, xstar))
